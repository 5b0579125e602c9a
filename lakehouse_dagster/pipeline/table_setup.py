"""Table set-up: create the table of a specification, or compare an existing one with it.

Rule: an existing table is never altered.
"""

from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache
from typing import Final, TypeVar

import lakehouse_core as lc
from lakehouse_dagster.specs import DYNAMIC_TOGETHER, TableSpec

# Maintenance is an asset of its own, with a run, a page and a report: an ingest leaves it to that. A table whose
# readers or changelog need the compaction with the write says so in its specification.
PIPELINE_DEFAULTS: Mapping[str, str] = {"write-only": "true"}
# After this time a dropped table no longer keeps the changes that it followed.
CHANGELOG_DEFAULTS: Mapping[str, str] = {"consumer.expiration-time": "7 d"}
_ALTER = "Alter the table, or the specification."

R = TypeVar("R")

# A handle of a table with thousands of small manifests remembers some 20 MB, most often some 100 KB. All together have
# the budget of the core's caches, one for the process.
_KEPT: Final = 32


def create_table(catalog: lc.Catalog, spec: TableSpec, defaults: Mapping[str, str]) -> lc.Table:
    """Return the table of the specification. Creates it if it does not exist; leaves an existing one unchanged."""
    catalog.create_database(spec.database, exist_ok=True)
    own = {**PIPELINE_DEFAULTS, **defaults, **spec.options}
    has_changes = own.get("changelog-producer", "none") != "none"
    return catalog.create_table(
        spec.identifier,
        {name: column.type for name, column in spec.columns.items()},
        partition_keys=list(spec.partition_by),
        primary_keys=list(spec.primary_key),
        options={**CHANGELOG_DEFAULTS, **own} if has_changes else own,
        comment=spec.comment,
        exist_ok=True,
    )


def refuse_dynamic_together(table: lc.Table) -> None:
    """Raise InvalidRequest for a table with dynamic buckets, whose batches cannot be staged at the same time."""
    if table.schema.primary_keys and table.schema.options.get("bucket", "-1") == "-1":
        raise lc.InvalidRequest(f"{table.name}: {DYNAMIC_TOGETHER}, or leave 'commit' out.")


def differences(table: lc.Table, spec: TableSpec) -> list[str]:
    """Return the differences between the specification and the table, as sentences that say what to do."""
    schema = table.schema
    found = [
        f"the specification has a column {name!r}, which the table lacks. {_ALTER}"
        for name in spec.columns
        if not schema.has_field(name)
    ]
    found += [
        f"option {key} is {value} in the specification and {schema.options.get(key, 'not set')} in the table. {_ALTER}"
        for key, value in spec.options.items()
        if schema.options.get(key) != value
    ]
    keys = (
        ("primary key", spec.primary_key, schema.primary_keys),
        ("partition", spec.partition_by, schema.partition_keys),
    )
    found += [
        f"its {what} is {', '.join(wanted) or 'none'} in the specification and {', '.join(has) or 'none'} in the "
        "table, where it stays as it is. Change the specification, or drop the table and load it anew."
        for what, wanted, has in keys
        if tuple(wanted) != tuple(has)
    ]
    return found


def open_table(catalog: lc.Catalog, name: str) -> lc.Table | None:
    """Return the table, None while it does not exist."""
    try:
        return catalog.table(name)
    except lc.NotFound:
        return None


def table_of_run(
    run_id: str, place: Hashable, name: str, opened: Callable[[], lc.Table], read: Callable[[lc.Table], R]
) -> tuple[lc.Table, R]:
    """Return the handle of a table, and what `read` returns for it. It is the handle that an earlier step of the run
    opened in this process, which knows the metadata that it has read, else that of `opened`.

    `read` asks for the schema at least. If the table was dropped or made again, that fails for the earlier handle, and
    the table is opened anew. `place`: the warehouse and the engine, which may share names of tables with others.
    """
    kept = _opened_of_run(run_id, place, name)
    for table in [*kept]:
        try:
            return table, read(table)
        except (lc.NotFound, lc.InvalidRequest, lc.CorruptTable):
            kept.clear()
    table = opened()
    kept[:] = [table]
    return table, read(table)


@lru_cache(maxsize=_KEPT)
def _opened_of_run(run_id: str, place: Hashable, name: str) -> list[lc.Table]:
    """Return a list with the handle of a table, empty until a step opens it. Drops the least recently used."""
    return []
