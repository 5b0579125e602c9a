"""CALL: the procedures of Java's Spark connector that have a verb here, by their names and arguments.

Rule: a procedure or an argument that has no counterpart is refused by name, never left out.
"""

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import pyarrow as pa

from lakehouse_core.api.answer import Answer, answer_of
from lakehouse_core.api.reports import CompactionReport, Report
from lakehouse_core.api.table import Table
from lakehouse_core.catalog.each_table import each_table
from lakehouse_core.catalog.statements.names import StatementCall
from lakehouse_core.errors import InvalidRequest, LakehouseError, UnsupportedFeature, shown
from lakehouse_core.options.units import parse_duration
from lakehouse_core.planning.read.read_point import parse_time
from lakehouse_core.planning.read.where import parse_where
from lakehouse_core.planning.sql.statement import CallProcedure
from lakehouse_core.planning.sql.tokens import Name
from lakehouse_core.table.predicate import Compare, Comparison, conjuncts

# The arguments of each procedure, in Java's order.
_ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "compact": (
        "table",
        "partitions",
        "compact_strategy",
        "order_strategy",
        "order_by",
        "where",
        "options",
        "partition_idle_time",
        "buckets",
    ),
    "compact_database": ("including_databases", "including_tables", "excluding_tables", "options"),
    "compact_manifest": ("table", "options", "dry_run"),
    "expire_snapshots": ("table", "retain_max", "retain_min", "older_than", "max_deletes", "options"),
    "create_tag": ("table", "tag", "snapshot", "time_retained"),
    "delete_tag": ("table", "tag"),
}
_NO_VERB: Final = "has no verb here yet"
_OTHER_STORES: Final = "is for metastores of Hive. Create a table and write the rows instead"
_NO_KIND: Final = "is for a kind of table or object that does not exist here"
_REFUSED: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            *(
                "replace_tag",
                "rename_tag",
                "create_tag_from_timestamp",
                "expire_tags",
                "trigger_tag_automatic_creation",
            ),
            *("rollback", "rollback_to_timestamp", "rollback_to_watermark", "remove_orphan_files"),
            *("remove_unexisting_files", "expire_partitions", "mark_partition_done", "reset_consumer"),
            *("clear_consumers", "create_branch", "delete_branch", "rename_branch", "fast_forward", "merge_branch"),
            *("rescale", "rewrite_file_index", "materialize_deletion_vectors"),
        ),
        _NO_VERB,
    ),
    **dict.fromkeys(("repair", "repair_earliest_snapshot", "migrate_table", "migrate_database"), _OTHER_STORES),
    "copy": "is Catalog.copy_table here, and `lakehouse copy`",
    "purge_files": "deletes the files of a table. Drop the table and create it again, or write INSERT OVERWRITE",
    **dict.fromkeys(
        (
            *("compact_chain_table", "create_global_index", "drop_global_index", "reassign_row_id"),
            *("create_function", "alter_function", "drop_function", "alter_view_dialect"),
        ),
        _NO_KIND,
    ),
}
_TRUE: Final = pa.table({"result": pa.array([True])})


def call_procedure(call: StatementCall, statement: CallProcedure) -> Answer:
    """Run a procedure. Raises UnsupportedFeature for one that is not carried out, and the errors of its verb."""
    name = _procedure(statement)
    arguments = _arguments(statement, name)
    if name == "compact_database":
        return _compact_database(call, arguments)
    table = _table(call, statement, arguments)
    return _VERBS[name](call, table, arguments)


def _procedure(statement: CallProcedure) -> str:
    name, parts = statement.procedure, [part.lower() for part in statement.procedure.parts]
    if len(parts) not in (2, 3) or parts[-2] != "sys":
        raise statement.sql.invalid(name.start, f"found {name}, expected a procedure of sys, as in sys.compact")
    found = parts[-1]
    if found in _ARGUMENTS:
        return found
    if found in _REFUSED:
        raise statement.sql.unsupported(name.start, f"the procedure sys.{found} {_REFUSED[found]}")
    near = difflib.get_close_matches(found, [*_ARGUMENTS, *_REFUSED], n=2, cutoff=0.6)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"Procedures: {', '.join(_ARGUMENTS)}."
    raise statement.sql.invalid(name.start, f"there is no procedure sys.{found}. {hint}")


def _arguments(statement: CallProcedure, procedure: str) -> dict[str, Any]:
    names = _ARGUMENTS[procedure]
    found: dict[str, Any] = {}
    for index, argument in enumerate(statement.arguments):
        name = argument.name.lower() if argument.name is not None else names[index] if index < len(names) else None
        if name is None:
            raise statement.sql.invalid(argument.start, f"sys.{procedure} takes {len(names)} arguments at most")
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
            hint = f"Did you mean {near[0]}?" if near else f"Arguments: {', '.join(names)}."
            raise statement.sql.invalid(argument.start, f"sys.{procedure} has no argument {name}. {hint}")
        if name in found:
            raise statement.sql.invalid(argument.start, f"argument {name} is given twice. Give it once")
        if argument.name is None and any(one.name is not None for one in statement.arguments[:index]):
            raise statement.sql.invalid(argument.start, "an argument without a name follows one with a name")
        found[name] = argument.value
    return {name: value for name, value in found.items() if value is not None}


def _table(call: StatementCall, statement: CallProcedure, arguments: dict[str, Any]) -> Table:
    given = arguments.pop("table", None)
    if not isinstance(given, str) or not given:
        raise statement.sql.invalid(
            statement.procedure.start, "the argument table is missing: expected the name of a table in quotes"
        )
    start = next((one.start for one in statement.arguments if one.value == given), statement.procedure.start)
    name = Name(tuple(given.replace("`", "").split(".")), start, start)
    try:
        return call.catalog.table(call.table(name))
    except LakehouseError as error:
        raise call.at(name, error) from None


def _refuse(procedure: str, arguments: Mapping[str, Any], names: Sequence[str]) -> None:
    for name in names:
        if name in arguments:
            raise UnsupportedFeature(f"sys.{procedure}: the argument {name} is not carried out. Leave it out.")


def _compact(call: StatementCall, table: Table, arguments: Mapping[str, Any]) -> Answer:
    _refuse("compact", arguments, ("order_strategy", "order_by", "options", "buckets"))
    strategy = arguments.get("compact_strategy", "full")
    if strategy not in ("full", "minor"):
        raise InvalidRequest(f"sys.compact: compact_strategy is {shown(strategy)}, expected 'full' or 'minor'.")
    partitions: list[dict[str, Any] | None] = [None]
    if "partitions" in arguments and "where" in arguments:
        raise InvalidRequest("sys.compact: partitions and where are both given. Give one of them.")
    if "partitions" in arguments:
        partitions = [*_partitions(_text("compact", "partitions", arguments))]
    elif "where" in arguments:
        partitions = [_equalities(table, _text("compact", "where", arguments))]
    idle = _duration("compact", "partition_idle_time", arguments)
    reports = [table.compact(full=strategy == "full", partition=one, partition_idle=idle) for one in partitions]
    return answer_of(call.sql.text, _TRUE, reports)


def _partitions(text: str) -> list[dict[str, Any]]:
    """Return the partitions of `dt=2013-01-01,h=1;dt=2013-01-02`."""
    found = []
    for part in filter(None, (one.strip() for one in text.split(";"))):
        values: dict[str, Any] = {}
        for pair in part.split(","):
            key, equals, value = pair.partition("=")
            if not equals or not key.strip():
                raise InvalidRequest(f"sys.compact: partitions has {shown(pair)}, expected column=value.")
            values[key.strip()] = value.strip().strip("'\"")
        found.append(values)
    return found


def _equalities(table: Table, text: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for part in conjuncts(parse_where(text)):
        match part:
            case Compare(column, Comparison.EQUAL, value) if column in table.schema.partition_keys:
                values[column] = value
            case _:
                raise UnsupportedFeature(
                    f"sys.compact: where is {shown(text)}, expected partition columns = literals, joined by AND."
                )
    return values


def _compact_database(call: StatementCall, arguments: Mapping[str, Any]) -> Answer:
    _refuse("compact_database", arguments, ("options",))
    databases = _pattern("including_databases", arguments, ".*")
    tables, excluded = _pattern("including_tables", arguments, ".*"), _pattern("excluding_tables", arguments, "")
    catalog = call.catalog
    names = [
        f"{database}.{table}"
        for database in catalog.databases()
        if databases.fullmatch(database)
        for table in catalog.tables(database)
        if any(tables.fullmatch(one) for one in (table, f"{database}.{table}"))
        and not any(excluded.fullmatch(one) for one in (table, f"{database}.{table}"))
    ]
    reports = each_table(
        names,
        lambda name, listener: catalog.table(name).compact(full=True, progress=listener),
        lambda name, error: CompactionReport(table=name, error=error),
        verb="compact",
        phase="compacting the tables",
        progress=None,
    )
    failed = sum(report.error is not None for report in reports)
    text = "Success" if not failed else f"{failed} of {len(reports)} tables failed; see the reports"
    return answer_of(call.sql.text, pa.table({"result": pa.array([text])}), reports)


def _pattern(name: str, arguments: Mapping[str, Any], default: str) -> re.Pattern[str]:
    text = str(arguments.get(name, default))
    try:
        return re.compile(text)
    except re.error as error:
        raise InvalidRequest(f"sys.compact_database: {name} is {shown(text)}, not a regular expression.") from error


def _compact_manifest(call: StatementCall, table: Table, arguments: Mapping[str, Any]) -> Answer:
    _refuse("compact_manifest", arguments, ("options",))
    report = table.compact_manifests(dry_run=_flag("compact_manifest", "dry_run", arguments))
    return answer_of(call.sql.text, _TRUE, [report])


def _expire(call: StatementCall, table: Table, arguments: Mapping[str, Any]) -> Answer:
    _refuse("expire_snapshots", arguments, ("max_deletes", "options"))
    report = table.expire_snapshots(
        retain_max=arguments.get("retain_max"),
        retain_min=arguments.get("retain_min"),
        older_than=_time("expire_snapshots", "older_than", arguments),
    )
    counted = pa.table({"deleted_snapshots_count": pa.array([report.snapshots_expired], pa.int32())})
    return answer_of(call.sql.text, counted, [report])


def _create_tag(call: StatementCall, table: Table, arguments: Mapping[str, Any]) -> Answer:
    snapshot = arguments.get("snapshot")
    if snapshot is not None and (not isinstance(snapshot, int) or isinstance(snapshot, bool)):
        raise InvalidRequest(f"sys.create_tag: snapshot is {shown(snapshot)}, expected the id of a snapshot.")
    report = table.create_tag(
        _text("create_tag", "tag", arguments),
        at=snapshot,
        retention=_duration("create_tag", "time_retained", arguments),
    )
    return answer_of(call.sql.text, _TRUE, [report])


def _delete_tag(call: StatementCall, table: Table, arguments: Mapping[str, Any]) -> Answer:
    names = [one.strip() for one in _text("delete_tag", "tag", arguments).split(",")]
    known = {tag.name for tag in table.tags()}
    reports: list[Report] = []
    for name in names:
        if name not in known:
            # The dry run raises NotFound with advice, before the first tag is deleted.
            table.delete_tag(name, dry_run=True)
    reports += [table.delete_tag(name) for name in names]
    return answer_of(call.sql.text, _TRUE, reports)


def _text(procedure: str, name: str, arguments: Mapping[str, Any]) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not value:
        raise InvalidRequest(f"sys.{procedure}: {name} is {shown(value)}, expected text.")
    return value


def _flag(procedure: str, name: str, arguments: Mapping[str, Any]) -> bool:
    value = arguments.get(name, False)
    if not isinstance(value, bool):
        raise InvalidRequest(f"sys.{procedure}: {name} is {shown(value)}, expected true or false.")
    return value


def _duration(procedure: str, name: str, arguments: Mapping[str, Any]) -> timedelta | None:
    if name not in arguments:
        return None
    return timedelta(milliseconds=parse_duration(name, _text(procedure, name, arguments)))


def _time(procedure: str, name: str, arguments: Mapping[str, Any]) -> datetime | None:
    match arguments.get(name):
        case None:
            return None
        case datetime() as time:
            return time
        case str() as text:
            return parse_time(text)
        case other:
            raise InvalidRequest(f"sys.{procedure}: {name} is {shown(other)}, expected a time such as '2013-01-31'.")


_VERBS: Final[Mapping[str, Callable[[StatementCall, Table, Mapping[str, Any]], Answer]]] = {
    "compact": _compact,
    "compact_manifest": _compact_manifest,
    "expire_snapshots": _expire,
    "create_tag": _create_tag,
    "delete_tag": _delete_tag,
}
