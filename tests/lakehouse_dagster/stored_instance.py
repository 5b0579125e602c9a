"""An instance in files, which the web server and the context of a schedule ask for, that is made and written quickly.

Dagster's own keeps the events of each run in a database of its own, and opens it anew for each event.
"""

import atexit
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import dagster as dg


@contextmanager
def stored_instance(folder: Path, like: Path | None = None) -> Iterator[dg.DagsterInstance]:
    """Give an instance that lies in `folder`, with one database for the events of all runs and no logs of steps.

    It has what an instance that lay in the folder `like` had when it was left; without one it is empty.
    """
    shutil.copytree(like or _empty(), folder, dirs_exist_ok=True)
    with dg.DagsterInstance.local_temp(str(folder), overrides=_settings(folder)) as instance:
        yield instance


@cache
def _empty() -> Path:
    """Make the databases, which takes longer than to copy them."""
    folder = Path(mkdtemp(prefix="dagster-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with dg.DagsterInstance.local_temp(str(folder), overrides=_settings(folder)):
        return folder


def _settings(folder: Path) -> Mapping[str, Any]:
    storage = "dagster._core.storage"
    return {
        "event_log_storage": {
            "module": f"{storage}.event_log",
            "class": "ConsolidatedSqliteEventLogStorage",
            "config": {"base_dir": str(folder / "history")},
        },
        "compute_logs": {"module": f"{storage}.noop_compute_log_manager", "class": "NoOpComputeLogManager"},
    }
