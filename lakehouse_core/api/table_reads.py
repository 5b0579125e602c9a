"""Reading verbs of `Table`.

Rule: an argument that fits no table is refused at once; one that does not fit this table, when rows are first read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import PurePath

import pyarrow as pa

from lakehouse_core.api.arguments import Condition, bound_condition, cache_directory, options_of
from lakehouse_core.api.lookups import Lookups
from lakehouse_core.api.scan import ChangesScan, Scan
from lakehouse_core.api.verb import names_table
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.lookup.local_files import LookupCache, own_directory
from lakehouse_core.execution.lookup.lookup import TableLookup, look_up
from lakehouse_core.execution.read.incremental_scan import check_range, check_states, plan_changes, plan_diff
from lakehouse_core.execution.read.scan import ReadRequest, ScanPlan, plan_range, plan_read
from lakehouse_core.planning.read.read_point import LATEST, AtSnapshot, ReadPoint, checked_point


@names_table
def scan(
    table: TableContext,
    columns: Sequence[str] | None,
    where: Condition,
    at: ReadPoint | None,
    *,
    limit: int | None,
    read_optimized: bool,
    options: Mapping[str, str] | None,
) -> Scan:
    request = ReadRequest(
        table=table.name,
        point=None if at is None else checked_point(at),
        options=options_of(options),
        columns=columns,
        condition=bound_condition(where),
        limit=limit,
        read_optimized=read_optimized,
    )
    asked = {"columns": columns, "where": where, "at": at, "limit": limit, "options": options}
    asked["read_optimized"] = True if read_optimized else None
    return Scan(partial(plan_read, table, request), table, asked=asked)


@names_table
def stream_step(
    table: TableContext,
    after: int | None,
    until: int,
    *,
    columns: Sequence[str],
    where: Condition,
    with_row_kinds: bool,
) -> ScanPlan:
    """Return the plan of one step of a stream: the changes of the snapshots (after, until], or with `after` None the
    state at `until`, without row kinds and without the rows that later changes give.
    """
    request = ReadRequest(
        table=table.name,
        columns=columns,
        condition=bound_condition(where),
        with_row_kinds=with_row_kinds and after is not None,
        starts_stream=after is None,
    )
    if after is not None:
        return plan_range(table, request, after, until)
    # The newest state has the newest schema, which the snapshot may lack.
    newest = plan_read(table, replace(request, point=LATEST))
    return newest if newest.snapshot_id == until else plan_read(table, replace(request, point=AtSnapshot(until)))


@names_table
def lookup(
    table: TableContext,
    caches: dict[str, LookupCache],
    keys: object,
    columns: Sequence[str] | None,
    at: ReadPoint,
    *,
    aligned: bool,
    cache: str | PurePath | None,
) -> pa.Table:
    request = ReadRequest(table=table.name, point=checked_point(at), columns=columns)
    return look_up(table, keys, request, _lookup_cache(table, caches, cache), aligned=aligned)


@names_table
def lookups(
    table: TableContext,
    caches: dict[str, LookupCache],
    columns: Sequence[str] | None,
    at: ReadPoint,
    *,
    cache: str | PurePath | None,
) -> Lookups:
    request = ReadRequest(table=table.name, point=checked_point(at), columns=columns)
    lookup = TableLookup(table, request, _lookup_cache(table, caches, cache))
    return Lookups(lookup, table=table.name)


@names_table
def changes(table: TableContext, after: int, until: int | None) -> ChangesScan:
    check_range(after, until)
    plan = partial(plan_changes, table, after, until)
    return ChangesScan(plan, table, asked={"after": after, "until": until})


@names_table
def diff(table: TableContext, after: int | str, until: int | str) -> ChangesScan:
    check_states(after, until)
    plan = partial(plan_diff, table, after, until)
    return ChangesScan(plan, table, asked={"between": after, "and": until})


def _lookup_cache(table: TableContext, caches: dict[str, LookupCache], cache: str | PurePath | None) -> LookupCache:
    directory = cache_directory(cache) or own_directory()
    if directory not in caches:
        caches[directory] = LookupCache(directory, table.clock)
    return caches[directory]
