"""Copying: the checks of what is to be copied, and the report."""

from collections.abc import Sequence
from typing import Any

from lakehouse_core.api.arguments import count_of
from lakehouse_core.api.reports import CopyReport
from lakehouse_core.api.table import Table
from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.execution.copying import CopyResult
from lakehouse_core.planning.copying import CopyChoice


def checked_source(source: object) -> Table:
    """Return the source of a copy. Raises InvalidRequest for what is not a table."""
    if not isinstance(source, Table):
        raise InvalidRequest(
            f"copy_table: found {shown(source)} as the source, expected a table, as catalog.table(…) returns it."
        )
    return source


def checked_choice(
    name: str, *, snapshots: int | None, tags: Sequence[str] | None, branches: Sequence[str] | None
) -> CopyChoice:
    """Return what is to be copied; `name` is for messages. Raises InvalidRequest."""
    if (count := count_of("snapshots", snapshots)) is not None and count < 1:
        raise InvalidRequest(f"{name}: snapshots={count}: expected 1 or more; None copies all.")
    for argument, names in (("tags", tags), ("branches", branches)):
        if names is None:
            continue
        if (
            isinstance(names, str)
            or not isinstance(names, Sequence)
            or not all(isinstance(each, str) for each in names)
        ):
            raise InvalidRequest(f"{name}: {argument}={shown(names)}: expected a list of names; None copies all.")
    return CopyChoice(snapshots=count, tags=tags, branches=branches)


def copy_report(copy: Table, source: Table, result: CopyResult | None, *, findings: tuple[Any, ...]) -> CopyReport:
    """Return the report of copy_table. `result` None: an earlier call had copied everything."""
    if result is None:
        return CopyReport(
            table=copy.name,
            source=source.uri,
            uri=copy.uri,
            noop_reason="an earlier call had copied everything",
            findings=findings,
        )
    return CopyReport(
        table=copy.name,
        source=source.uri,
        uri=copy.uri,
        snapshot_ids=tuple(result.snapshot_ids),
        tags=result.tags,
        branches=result.branches,
        files=result.files,
        files_added=result.files_copied,
        bytes_added=result.bytes_copied,
        findings=findings,
    )
