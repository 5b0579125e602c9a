"""Session: the catalog of the warehouse and the progress bar that every verb starts with."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from lakehouse_core.api.table import Table
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.catalog.connect import CatalogAddress, address_of, catalog_at
from lakehouse_core.errors import InvalidRequest, NotFound
from lakehouse_core.progress import Listener, Progress
from lakehouse_core.storage import is_there


def open_catalog(context: click.Context, *, may_be_new: bool = False) -> Catalog:
    """Return the catalog of the warehouse that the command line or the environment names.

    Raises InvalidRequest, and NotFound when the warehouse does not exist, unless it `may_be_new`.
    """
    # Not `obj`, which a completing shell does not set.
    given = context.find_root().params
    settings = {}
    for text in given.get("metastore_options") or ():
        key, equals, value = text.partition("=")
        if not (equals and key):
            # The text may hold a password.
            raise InvalidRequest("--metastore-option: expected KEY=VALUE, as in lock.enabled=true.")
        settings[key] = value
    address = _address(
        given.get("warehouse"),
        profile=given.get("profile"),
        metastore=given.get("metastore"),
        metastore_options=settings,
    )
    if not may_be_new and address.metastore is None and not is_there(address.location):
        raise _missing(address)
    return catalog_at(address)


def target_catalog(warehouse: str | None, profile: str | None) -> Catalog:
    """Return the catalog that a verb writes to, beside that of the command line; its warehouse need not exist.

    Raises InvalidRequest unless one of the two is given.
    """
    if (warehouse is None) == (profile is None):
        raise InvalidRequest("Name the target: the address of a warehouse, or --target-profile NAME.")
    return catalog_at(_address(warehouse, profile=profile))


def catalog_of_plan(context: click.Context, warehouse: str) -> Catalog:
    """Return the catalog of a warehouse that a plan names: the one of the command line with its metastore, or another
    one, whose folders are the names.
    """
    given = context.find_root().params
    if given.get("warehouse") or given.get("metastore") or given.get("profile"):
        own = open_catalog(context)
        if own.uri == warehouse:
            return own
    return catalog_of(warehouse)


def catalog_of(warehouse: str) -> Catalog:
    """Return the catalog of a warehouse whose folders are the names. Raises as `open_catalog` does."""
    address = _address(warehouse)
    if not is_there(address.location):
        raise _missing(address)
    return catalog_at(address)


def _address(
    warehouse: str | None,
    *,
    profile: str | None = None,
    metastore: str | None = None,
    metastore_options: Mapping[str, str] | None = None,
) -> CatalogAddress:
    if not warehouse and not profile:
        raise InvalidRequest("No warehouse is given. Pass -w WAREHOUSE before the verb, or set LAKEHOUSE_WAREHOUSE.")
    return address_of(
        warehouse or None,
        profile=profile or None,
        storage={},
        metastore=metastore or None,
        metastore_options=metastore_options or {},
    )


def _missing(address: CatalogAddress) -> NotFound:
    return NotFound(
        f"Warehouse {address.location.root} does not exist. Check -w and LAKEHOUSE_WAREHOUSE; create makes it with "
        "its first table, and so does CREATE DATABASE in sql."
    )


@contextmanager
def progress_bar(context: click.Context, *, row_count: int | None = None) -> Iterator[Listener | None]:
    """Yield a listener for the progress of a verb: a bar on standard error, None with --json or without a terminal.

    `row_count` is the number of written rows, which the verb itself cannot know.
    """
    console = Console(stderr=True)
    if is_json(context) or not sys.stderr.isatty():
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[figure]}"), TimeElapsedColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        shown = bar.add_task(context.info_name or "", total=None, figure="")
        drawn: set[tuple[str, str, str]] = set()

        def listen(progress: Progress) -> None:
            # Drawn ten times a second, a short phase would be seen by chance only.
            phase = (progress.table, progress.phase, progress.unit)
            is_new = phase not in drawn
            drawn.add(phase)
            total = row_count if progress.total is None and progress.unit == "rows" else progress.total
            figure = f"{progress.done:,}" + ("" if total is None else f" of {total:,}") + f" {progress.unit}"
            bar.update(
                shown,
                description=f"{progress.table}: {progress.phase}",
                completed=progress.done,
                total=total,
                figure=figure if progress.unit else "",
                refresh=is_new,
            )

        yield listen


def open_table(context: click.Context, name: str) -> Table:
    """Return the table of that name. Raises as `open_catalog` does."""
    return open_catalog(context).table(name)


def is_json(context: click.Context) -> bool:
    """Return whether --json was given, before or after the verb."""
    return bool(context.find_root().obj["json"])


def parse_assignments(texts: Sequence[str]) -> dict[str, Any] | None:
    """Return `k=v` texts as a mapping, None when there are none. Raises InvalidRequest."""
    pairs: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (equals and name):
            raise InvalidRequest(f"Partition {text!r}: expected column=value, as in dt=2013-01-01.")
        if name in pairs:
            raise InvalidRequest(f"Partition {text!r}: column {name} is given twice. Give each column once.")
        pairs[name] = value
    return pairs or None
