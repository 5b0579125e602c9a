"""CALL of procedures about tags and consumers, each a verb of `Table`.

Rule: the answer has the columns of Java's procedure.
"""

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa

from lakehouse_core.api.answer import Answer, answer_of
from lakehouse_core.api.table import Table
from lakehouse_core.catalog.statements.names import StatementCall
from lakehouse_core.catalog.statements.procedure_arguments import (
    duration_of,
    pattern_of,
    text_of,
    time_of,
    whole_of,
)
from lakehouse_core.errors import InvalidRequest, NotFound
from lakehouse_core.planning.read.read_point import shown_time

Procedure = Callable[[StatementCall, Table, Mapping[str, Any]], Answer]

DONE: Final = pa.table({"result": pa.array([True])})
_SNAPSHOT: Final = "the id of a snapshot"


def _create_tag(call: StatementCall, table: Table, arguments: Mapping[str, Any]) -> Answer:
    tag, named = _named_snapshot("create_tag", arguments)
    return answer_of(call.sql.text, DONE, [table.create_tag(tag, **named)])


def _create_tag_from_timestamp(call: StatementCall, table: Table, arguments: Mapping[str, Any]) -> Answer:
    tag = text_of("create_tag_from_timestamp", "tag", arguments)
    millis = whole_of("create_tag_from_timestamp", "timestamp", arguments, "milliseconds since 1970")
    if millis is None:
        raise InvalidRequest("sys.create_tag_from_timestamp: timestamp is missing, expected milliseconds since 1970.")
    snapshot_id, time_millis, watermark = _first_from(table, millis)
    retention = duration_of("create_tag_from_timestamp", "time_retained", arguments)
    report = table.create_tag(tag, at=snapshot_id, retention=retention)
    row = pa.table(
        {
            "tagName": pa.array([tag]),
            "snapshot": pa.array([snapshot_id], pa.int64()),
            "commit_time": pa.array([time_millis], pa.int64()),
            # Java writes a watermark that is not set as this text.
            "watermark": pa.array(["null" if watermark is None else str(watermark)]),
        }
    )
    return answer_of(call.sql.text, row, [report])


def _first_from(table: Table, millis: int) -> tuple[int, int, int | None]:
    """Return id, time and watermark of the first snapshot of this time or later; an expired one counts while a tag
    holds it.
    """
    held = [tag.snapshot for tag in table._context.tags.all().values()]
    states = ((one.id, one.time_millis, one.watermark) for one in (*held, *table.snapshots()))
    found = min((state for state in states if state[1] >= millis), key=itemgetter(0), default=None)
    if found is None:
        raise NotFound(
            f"{table.name}: no snapshot is from {shown_time(millis)} or later. Give an earlier time, or write first."
        )
    return found


def _replace_tag(call: StatementCall, table: Table, arguments: Mapping[str, Any]) -> Answer:
    tag, named = _named_snapshot("replace_tag", arguments)
    return answer_of(call.sql.text, DONE, [table.replace_tag(tag, **named)])


def _named_snapshot(procedure: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the tag of a procedure, and the snapshot that it names and for how long, as arguments of a verb."""
    tag = text_of(procedure, "tag", arguments)
    snapshot = whole_of(procedure, "snapshot", arguments, _SNAPSHOT)
    return tag, {"at": snapshot, "retention": duration_of(procedure, "time_retained", arguments)}


def _rename_tag(call: StatementCall, table: Table, arguments: Mapping[str, Any]) -> Answer:
    name, new_name = text_of("rename_tag", "tag", arguments), text_of("rename_tag", "target_tag", arguments)
    return answer_of(call.sql.text, DONE, [table.rename_tag(name, new_name)])


def _delete_tag(call: StatementCall, table: Table, arguments: Mapping[str, Any]) -> Answer:
    names = [one.strip() for one in text_of("delete_tag", "tag", arguments).split(",")]
    known = {tag.name for tag in table.tags()}
    for name in names:
        if name not in known:
            # The dry run raises NotFound with advice, before the first tag is deleted.
            table.delete_tag(name, dry_run=True)
    return answer_of(call.sql.text, DONE, [table.delete_tag(name) for name in names])


def _expire_tags(call: StatementCall, table: Table, arguments: Mapping[str, Any]) -> Answer:
    report = table.expire_tags(older_than=time_of("expire_tags", "older_than", arguments))
    names = report.tags_expired or ("No expired tags.",)
    return answer_of(call.sql.text, pa.table({"expired_tags": pa.array(names)}), [report])


def _reset_consumer(call: StatementCall, table: Table, arguments: Mapping[str, Any]) -> Answer:
    name = text_of("reset_consumer", "consumerId", arguments)
    next_id = whole_of("reset_consumer", "nextSnapshotId", arguments, _SNAPSHOT)
    if next_id is None:
        table.delete_consumer(name)
    else:
        table.set_consumer(name, next_id)
    return answer_of(call.sql.text, DONE)


def _clear_consumers(call: StatementCall, table: Table, arguments: Mapping[str, Any]) -> Answer:
    # An empty pattern counts as one that is left out, as in Java.
    given = {name: text for name, text in arguments.items() if not isinstance(text, str) or text.strip()}
    included = pattern_of("clear_consumers", "includingConsumers", given, ".*")
    excluded = pattern_of("clear_consumers", "excludingConsumers", given, "")
    names = table.system("consumers").to_arrow().column("consumer_id").to_pylist()
    for name in names:
        if included.fullmatch(name) and not excluded.fullmatch(name):
            table.delete_consumer(name)
    return answer_of(call.sql.text, DONE)


TAG_PROCEDURES: Final[Mapping[str, Procedure]] = {
    "create_tag": _create_tag,
    "create_tag_from_timestamp": _create_tag_from_timestamp,
    "replace_tag": _replace_tag,
    "rename_tag": _rename_tag,
    "delete_tag": _delete_tag,
    "expire_tags": _expire_tags,
}
CONSUMER_PROCEDURES: Final[Mapping[str, Procedure]] = {
    "reset_consumer": _reset_consumer,
    "clear_consumers": _clear_consumers,
}
