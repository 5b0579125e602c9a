"""Where the Dagster instance of a warehouse lives, and the environment that its processes get."""

import argparse
import os
import shutil
from pathlib import Path

PROJECT = Path(__file__).parent.parent
TEMPLATE = PROJECT / "deploy" / "local" / "dagster.yaml"


def given_folder(text: str) -> Path:
    """Return the folder that a command line names; `~` is the home folder."""
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from error


def prepare_home(warehouse: Path) -> Path:
    """Point this process and its children to the instance and the warehouse; return the instance's folder.

    The folder is DAGSTER_HOME where that is set, else `.dagster` in the warehouse, which no catalog takes for a
    database: its pages show what happened to these tables and no others, and go with them. It is made when missing.
    """
    home = Path(os.environ.get("DAGSTER_HOME") or warehouse / ".dagster").absolute()
    home.mkdir(parents=True, exist_ok=True)
    settings = home / "dagster.yaml"
    if not settings.exists():
        if TEMPLATE.exists():
            shutil.copy(TEMPLATE, settings)
        else:
            settings.write_text("telemetry:\n  enabled: false\nnux:\n  enabled: false\n")
    os.environ["DAGSTER_HOME"] = str(home)
    os.environ["DAGSTER_DISABLE_TELEMETRY"] = "1"
    os.environ["LAKEHOUSE_WAREHOUSE"] = str(warehouse.absolute())
    return home
