"""CALL: the procedures of Java's Spark connector that have a verb here, by their names and arguments.

Rule: a procedure or an argument that has no counterpart is refused by name, never left out.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from lakehouse_core.api.answer import Answer, answer_of
from lakehouse_core.api.reports import CompactionReport, OrphanReport
from lakehouse_core.api.table import Table
from lakehouse_core.catalog.each_table import each_table
from lakehouse_core.catalog.statements.branch_procedures import BRANCH_PROCEDURES
from lakehouse_core.catalog.statements.names import StatementCall
from lakehouse_core.catalog.statements.partition_arguments import named_partitions
from lakehouse_core.catalog.statements.partition_procedures import PARTITION_PROCEDURES
from lakehouse_core.catalog.statements.procedure_arguments import (
    duration_of,
    flag_of,
    pattern_of,
    text_of,
    time_of,
    whole_of,
)
from lakehouse_core.catalog.statements.rollback_procedures import ROLLBACK_PROCEDURES
from lakehouse_core.catalog.statements.tag_procedures import CONSUMER_PROCEDURES, DONE, TAG_PROCEDURES
from lakehouse_core.errors import InvalidRequest, LakehouseError, near_hint, retell, shown
from lakehouse_core.planning.sql.statement import Argument, CallProcedure
from lakehouse_core.planning.sql.tokens import Name

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
    "remove_orphan_files": ("table", "older_than", "dry_run", "parallelism", "mode"),
    "create_tag": ("table", "tag", "snapshot", "time_retained"),
    "create_tag_from_timestamp": ("table", "tag", "timestamp", "time_retained"),
    "replace_tag": ("table", "tag", "snapshot", "time_retained"),
    "rename_tag": ("table", "tag", "target_tag"),
    "delete_tag": ("table", "tag"),
    "expire_tags": ("table", "older_than"),
    "create_branch": ("table", "branch", "tag", "ignoreIfExists"),
    "rename_branch": ("table", "from_branch", "to_branch"),
    "delete_branch": ("table", "branch"),
    "fast_forward": ("table", "branch"),
    "rollback": ("table", "version", "snapshot", "tag"),
    "rollback_to_timestamp": ("table", "timestamp"),
    "rollback_to_watermark": ("table", "watermark"),
    "rollback_to_as_latest": ("table", "tag", "snapshot_id"),
    "expire_partitions": (
        "table",
        "expiration_time",
        "timestamp_formatter",
        "timestamp_pattern",
        "expire_strategy",
        "max_expires",
        "options",
    ),
    "mark_partition_done": ("table", "partitions"),
    "materialize_deletion_vectors": ("table", "partitions", "options", "where"),
    "rescale": ("table", "bucket_num", "partitions", "where"),
    "rewrite_file_index": ("table", "where"),
    "reset_consumer": ("table", "consumerId", "nextSnapshotId"),
    "clear_consumers": ("table", "includingConsumers", "excludingConsumers"),
}
# The arguments of these that are known and not carried out, and what to do instead.
_REFUSED_ARGUMENTS: Final[Mapping[tuple[str, str], str]] = {
    **dict.fromkeys(
        (
            *(("compact", "options"), ("compact_database", "options"), ("compact_manifest", "options")),
            *(("materialize_deletion_vectors", "options"), ("expire_snapshots", "options")),
            ("expire_partitions", "options"),
        ),
        "set the options of the table before, by ALTER TABLE … SET TBLPROPERTIES, and leave it out",
    ),
    **dict.fromkeys(
        (("compact", "order_strategy"), ("compact", "order_by")),
        "a compaction does not order the rows by columns. Leave it out",
    ),
    ("compact", "buckets"): "a compaction takes all buckets of a partition. Name partitions by partitions or where",
    ("expire_snapshots", "max_deletes"): "set snapshot.expire.limit, the most snapshots that one run expires, by "
    "ALTER TABLE … SET TBLPROPERTIES, and leave it out",
}
_OTHER_STORES: Final = "is for metastores of Hive. Create a table and write the rows instead"
_NO_KIND: Final = "is for a kind of table or object that does not exist here. Leave the call out"
_NO_FUNCTIONS: Final = "is for functions of a catalog, and catalogs here have none. Write its expression in the query"
_REFUSED: Final[Mapping[str, str]] = {
    "remove_unexisting_files": "has no verb here yet. Which files a table lacks says `lakehouse verify`",
    "merge_branch": "has no verb here yet. Insert the rows: INSERT INTO t SELECT * FROM `t$branch_b`",
    "trigger_tag_automatic_creation": "makes the automatic tags that are due. Each commit does, and `CALL sys.compact`",
    "repair": "is for metastores of Hive, which may lack tables that the warehouse has; a catalog here lists the "
    "tables itself. What of a table is damaged says `lakehouse verify`",
    "repair_earliest_snapshot": "has no verb here. What of a table is damaged says `lakehouse verify`",
    **dict.fromkeys(("migrate_table", "migrate_database"), _OTHER_STORES),
    # Procedures of Java's Flink connector.
    "drop_partition": "is ALTER TABLE … DROP PARTITION (…) here",
    "merge_into": "is MERGE INTO here",
    "copy": "is Catalog.copy_table here, and `lakehouse copy`",
    "purge_files": "deletes the files of a table. Drop the table and create it again, or write INSERT OVERWRITE",
    **dict.fromkeys(("compact_chain_table", "create_global_index", "drop_global_index", "reassign_row_id"), _NO_KIND),
    **dict.fromkeys(("create_function", "alter_function", "drop_function"), _NO_FUNCTIONS),
    "alter_view_dialect": "is for views of a catalog, and catalogs here have none. Write the query of the view",
}


def call_procedure(call: StatementCall, statement: CallProcedure) -> Answer:
    """Run a procedure. Raises UnsupportedFeature for one that is not carried out, and the errors of its verb."""
    name = _procedure(statement)
    given = _arguments(statement, name)
    arguments = {each: one.value for each, one in given.items() if one.value is not None}
    try:
        if name == "compact_database":
            return _compact_database(call, arguments)
        if name == "remove_orphan_files" and str(arguments.get("table")).endswith(".*"):
            return _remove_orphans_of_database(call, arguments, given["table"].start)
        table = _table(call, statement, arguments)
        return _VERBS[name](call, table, arguments)
    except LakehouseError as error:
        # The argument that an error is about, as `procedure_arguments` writes it.
        about = re.match(rf"sys\.{name}: (\w+)", str(error))
        if about is not None:
            start = given[about[1]].start if about[1] in given else statement.procedure.start
            retell(error, lambda told: f"SQL, {call.sql.place(start)}: {told}")
        with call.placed(statement.procedure, [str(value) for value in arguments.values()]):
            raise


def _procedure(statement: CallProcedure) -> str:
    name, parts = statement.procedure, [part.lower() for part in statement.procedure.parts]
    if len(parts) not in (2, 3) or parts[-2] != "sys":
        raise statement.sql.invalid(name.start, f"found {name}, expected a procedure of sys, as in sys.compact")
    found = parts[-1]
    if found in _ARGUMENTS:
        return found
    if found in _REFUSED:
        raise statement.sql.unsupported(name.start, f"the procedure sys.{found} {_REFUSED[found]}")
    hint = near_hint(found, [*_ARGUMENTS, *_REFUSED], f"Procedures: {', '.join(_ARGUMENTS)}.", most=2, cutoff=0.6)
    raise statement.sql.invalid(name.start, f"there is no procedure sys.{found}. {hint}")


def _arguments(statement: CallProcedure, procedure: str) -> dict[str, Argument]:
    names = _ARGUMENTS[procedure]
    spelled = {name.lower(): name for name in names}
    found: dict[str, Argument] = {}
    for index, argument in enumerate(statement.arguments):
        given = argument.name.lower() if argument.name is not None else None
        name = spelled.get(given, given) if given is not None else names[index] if index < len(names) else None
        if name is None:
            raise statement.sql.invalid(argument.start, f"sys.{procedure} takes {len(names)} arguments at most")
        if name == "exclusive" and procedure in ROLLBACK_PROCEDURES:
            raise statement.sql.unsupported(
                argument.start,
                "a rollback removes no snapshot here, because a writer that is at work could lose rows. Leave "
                "exclusive out; to free the files, expire the snapshots after the rollback",
            )
        if procedure == "compact_manifest" and name.startswith("manifest_sort_"):
            raise statement.sql.unsupported(
                argument.start, f"the argument {name} is not carried out: manifests are not sorted here. Leave it out"
            )
        if name not in names:
            hint = near_hint(name, names, f"Arguments: {', '.join(names)}.", most=1)
            raise statement.sql.invalid(argument.start, f"sys.{procedure} has no argument {name}. {hint}")
        if name in found:
            raise statement.sql.invalid(argument.start, f"argument {name} is given twice. Give it once")
        if argument.name is None and any(one.name is not None for one in statement.arguments[:index]):
            raise statement.sql.invalid(argument.start, "an argument without a name follows one with a name")
        if argument.value is not None and (procedure, name) in _REFUSED_ARGUMENTS:
            advice = _REFUSED_ARGUMENTS[procedure, name]
            raise statement.sql.unsupported(argument.start, f"the argument {name} is not carried out: {advice}")
        found[name] = argument
    return found


def _table(call: StatementCall, statement: CallProcedure, arguments: dict[str, Any]) -> Table:
    given = arguments.pop("table", None)
    if not isinstance(given, str) or not given:
        raise statement.sql.invalid(
            statement.procedure.start, "the argument table is missing: expected the name of a table in quotes"
        )
    start = next((one.start for one in statement.arguments if one.value == given), statement.procedure.start)
    return call.existing(Name(tuple(given.replace("`", "").split(".")), start, start))


def _compact(call: StatementCall, table: Table, arguments: Mapping[str, Any]) -> Answer:
    strategy = arguments.get("compact_strategy", "full")
    if strategy not in ("full", "minor"):
        raise InvalidRequest(f"sys.compact: compact_strategy is {shown(strategy)}, expected 'full' or 'minor'.")
    partitions = named_partitions("compact", table, arguments)
    idle = duration_of("compact", "partition_idle_time", arguments)
    reports = [table.compact(full=strategy == "full", partition=one, partition_idle=idle) for one in partitions]
    return answer_of(call.sql.text, DONE, reports)


def _materialize_vectors(call: StatementCall, table: Table, arguments: Mapping[str, Any]) -> Answer:
    procedure = "materialize_deletion_vectors"
    if not table.schema.table_options.deletion_vectors.enabled:
        raise InvalidRequest(
            f"sys.{procedure}: {table.name} has no deletion vectors: deletion-vectors.enabled is not set. Call "
            "sys.compact to merge its files."
        )
    partitions = named_partitions(procedure, table, arguments)
    # A full compaction rewrites each file with marked rows.
    return answer_of(call.sql.text, DONE, [table.compact(full=True, partition=one) for one in partitions])


def _rewrite_file_index(call: StatementCall, table: Table, arguments: Mapping[str, Any]) -> Answer:
    partitions = named_partitions("rewrite_file_index", table, arguments)
    reports = [table.rewrite_file_index(partition=one) for one in partitions]
    counts = {
        "written_partitions": sum(report.partitions_changed for report in reports),
        # Java counts the data files whose index it replaced, also by none.
        "written_indexes": sum(report.files_indexed + report.indexes_dropped for report in reports),
    }
    row = pa.table({name: pa.array([count], pa.int32()) for name, count in counts.items()})
    return answer_of(call.sql.text, row, reports)


def _compact_database(call: StatementCall, arguments: Mapping[str, Any]) -> Answer:
    databases = pattern_of("compact_database", "including_databases", arguments, ".*")
    tables = pattern_of("compact_database", "including_tables", arguments, ".*")
    excluded = pattern_of("compact_database", "excluding_tables", arguments, "")
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


def _compact_manifest(call: StatementCall, table: Table, arguments: Mapping[str, Any]) -> Answer:
    report = table.compact_manifests(dry_run=flag_of("compact_manifest", "dry_run", arguments))
    return answer_of(call.sql.text, DONE, [report])


def _expire(call: StatementCall, table: Table, arguments: Mapping[str, Any]) -> Answer:
    report = table.expire_snapshots(
        retain_max=arguments.get("retain_max"),
        retain_min=arguments.get("retain_min"),
        older_than=time_of("expire_snapshots", "older_than", arguments),
    )
    counted = pa.table({"deleted_snapshots_count": pa.array([report.snapshots_expired], pa.int32())})
    return answer_of(call.sql.text, counted, [report])


def _remove_orphans(call: StatementCall, table: Table, arguments: Mapping[str, Any]) -> Answer:
    return _orphans_answer(call, [table.remove_orphans(**_which_orphans(arguments))])


def _remove_orphans_of_database(call: StatementCall, arguments: Mapping[str, Any], start: int) -> Answer:
    which, catalog = _which_orphans(arguments), call.catalog
    database = text_of("remove_orphan_files", "table", arguments).removesuffix(".*")
    with call.placed(Name((database,), start, start)):
        names = [f"{database}.{table}" for table in catalog.tables(database)]
    reports = each_table(
        names,
        lambda name, listener: catalog.table(name).remove_orphans(**which, progress=listener),
        lambda name, error: OrphanReport(table=name, error=error),
        verb="remove_orphans",
        phase="removing the orphans of the tables",
        progress=None,
    )
    return _orphans_answer(call, reports)


def _which_orphans(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the verb. `parallelism` and `mode` say how Java looks for the files; here they have no
    effect.
    """
    procedure = "remove_orphan_files"
    threads = whole_of(procedure, "parallelism", arguments, "a number of threads")
    if threads is not None and threads < 1:
        raise InvalidRequest(f"sys.{procedure}: parallelism is {threads}, expected 1 or more.")
    if (mode := arguments.get("mode", "local")) not in ("local", "distributed"):
        raise InvalidRequest(f"sys.{procedure}: mode is {shown(mode)}, expected 'local' or 'distributed'.")
    older_than = time_of(procedure, "older_than", arguments)
    given = {} if older_than is None else {"older_than": older_than}
    return {"dry_run": flag_of(procedure, "dry_run", arguments), **given}


def _orphans_answer(call: StatementCall, reports: Sequence[OrphanReport]) -> Answer:
    totals = {
        "deletedFileCount": sum(report.files_removed for report in reports),
        "deletedFileTotalLenInBytes": sum(report.bytes_removed for report in reports),
    }
    row = pa.table({name: pa.array([total], pa.int64()) for name, total in totals.items()})
    return answer_of(call.sql.text, row, reports)


_VERBS: Final[Mapping[str, Callable[[StatementCall, Table, Mapping[str, Any]], Answer]]] = {
    "compact": _compact,
    "compact_manifest": _compact_manifest,
    "materialize_deletion_vectors": _materialize_vectors,
    "rewrite_file_index": _rewrite_file_index,
    "expire_snapshots": _expire,
    "remove_orphan_files": _remove_orphans,
    **TAG_PROCEDURES,
    **BRANCH_PROCEDURES,
    **ROLLBACK_PROCEDURES,
    **PARTITION_PROCEDURES,
    **CONSUMER_PROCEDURES,
}
