"""What every verb starts with: the catalog of the warehouse, and a bar that moves while tasks run."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.catalog.table import Table
from lakehouse_core.clock import SystemClock
from lakehouse_core.errors import InvalidRequest, NotFound
from lakehouse_core.execution.engines.local import LocalEngine
from lakehouse_core.execution.progress import NOBODY, Watch
from lakehouse_core.execution.tasks.write import WriteTask
from lakehouse_core.storage import is_there, open_store, parse_location
from lakehouse_core.table.changes import CommitMessage

T = TypeVar("T")


class WatchedEngine:
    """The engine of this process, with a bar on standard error while it works, when that is a terminal."""

    def __init__(self, engine: LocalEngine, verb: str) -> None:
        self._engine = engine
        self._verb = verb

    def run(self, task: Callable[[T], str], inputs: Sequence[T]) -> Iterator[str]:
        with _bar() as bar:
            shown = bar.add_task(self._verb, total=len(inputs))
            for result in self._engine.run(task, inputs):
                bar.advance(shown)
                yield result

    def write(self, task: WriteTask, data: object, watch: Watch = NOBODY) -> list[CommitMessage]:
        with _bar() as bar:
            bar.add_task(self._verb, total=None)
            return self._engine.write(task, data, watch)


def open_catalog(context: click.Context, *, may_be_new: bool = False) -> Catalog:
    """Return the catalog of the warehouse that the command line or the environment names.

    Raises InvalidRequest, NotFound where nothing is there unless it `may_be_new`.
    """
    root = context.find_root()
    warehouse = root.obj["warehouse"]
    if not warehouse:
        raise InvalidRequest("No warehouse: pass -w WAREHOUSE before the verb, or set LAKEHOUSE_WAREHOUSE.")
    location = parse_location(warehouse)
    if not may_be_new and not is_there(location):
        raise NotFound(
            f"There is no warehouse {location.root}. Check -w and LAKEHOUSE_WAREHOUSE; create makes it with its first "
            "table."
        )
    clock = SystemClock()
    verb = context.info_name or ""
    return Catalog(open_store(location), engine=lambda: WatchedEngine(LocalEngine(clock), verb), clock=clock)


def open_table(context: click.Context, name: str) -> Table:
    return open_catalog(context).table(name)


def is_json(context: click.Context) -> bool:
    """Return whether --json was given, before the verb or behind it."""
    return bool(context.find_root().obj["json"])


def parse_assignments(texts: Sequence[str]) -> dict[str, Any] | None:
    """Return `k=v` texts as a mapping, None when there are none. Raises InvalidRequest."""
    pairs: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (equals and name):
            raise InvalidRequest(f"Partition {text!r}: expected column=value, as in dt=2013-01-01.")
        if name in pairs:
            raise InvalidRequest(f"Partition {text!r}: the partition names {name} twice. Give each column once.")
        pairs[name] = value
    return pairs or None


def _bar() -> Progress:
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
