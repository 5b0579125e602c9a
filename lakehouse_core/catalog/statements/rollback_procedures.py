"""CALL of procedures that roll a table back, by Java's names. Each is `Table.rollback_to`, so nothing is removed.

Rule: the answer has the columns of Java's procedure; the current snapshot is the new one.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa

from lakehouse_core.api.answer import Answer, answer_of
from lakehouse_core.api.reports import RollbackReport
from lakehouse_core.api.table import Table
from lakehouse_core.catalog.statements.names import StatementCall
from lakehouse_core.catalog.statements.procedure_arguments import text_of, whole_of
from lakehouse_core.catalog.statements.tag_procedures import Procedure
from lakehouse_core.errors import InvalidRequest, NotFound, shown
from lakehouse_core.planning.read.read_point import AsOf, AtSnapshot, AtTag, ReadPoint

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ID: Final = "the id of a snapshot"


def _rollback(call: StatementCall, table: Table, arguments: Mapping[str, Any]) -> Answer:
    point = _point("rollback", arguments, {"version", "snapshot", "tag"})
    return _answer(call, table.rollback_to(point))


def _to_as_latest(call: StatementCall, table: Table, arguments: Mapping[str, Any]) -> Answer:
    point = _point("rollback_to_as_latest", arguments, {"snapshot_id", "tag"})
    return _answer(call, table.rollback_to(point), names_target=True)


def _to_timestamp(call: StatementCall, table: Table, arguments: Mapping[str, Any]) -> Answer:
    millis = whole_of("rollback_to_timestamp", "timestamp", arguments, "milliseconds since 1970")
    if millis is None:
        raise InvalidRequest("sys.rollback_to_timestamp: timestamp is missing, expected milliseconds since 1970.")
    try:
        time = _EPOCH + timedelta(milliseconds=millis)
    except OverflowError as error:
        raise InvalidRequest(f"sys.rollback_to_timestamp: timestamp is {millis}, out of range.") from error
    return _answer(call, table.rollback_to(AsOf(time)))


def _to_watermark(call: StatementCall, table: Table, arguments: Mapping[str, Any]) -> Answer:
    watermark = whole_of("rollback_to_watermark", "watermark", arguments, "a watermark")
    if watermark is None:
        raise InvalidRequest("sys.rollback_to_watermark: watermark is missing, expected a number.")
    ids = [one.id for one in table.snapshots() if one.watermark is not None and one.watermark <= watermark]
    if not ids:
        raise NotFound(f"{table.name}: no snapshot has the watermark {watermark} or an earlier one. Give a later one.")
    return _answer(call, table.rollback_to(max(ids)))


def _point(procedure: str, arguments: Mapping[str, Any], names: set[str]) -> ReadPoint:
    """Return the snapshot or the tag of which one argument is given; a version in digits is a snapshot."""
    given = [name for name in arguments if name in names]
    if len(given) != 1:
        found = " and ".join(sorted(given)) if given else "none"
        raise InvalidRequest(f"sys.{procedure}: expected one of {', '.join(sorted(names))}; found {found}.")
    (name,) = given
    if name.startswith("snapshot"):
        return _at_snapshot(whole_of(procedure, name, arguments, _ID))
    text = text_of(procedure, name, arguments)
    if name == "version" and text.isascii() and text.isdigit():
        if len(text) > len(str(2**63)):
            raise InvalidRequest(f"sys.{procedure}: version is {shown(text)}, expected {_ID} or the name of a tag.")
        return _at_snapshot(int(text))
    return AtTag(text)


def _at_snapshot(snapshot_id: int | None) -> AtSnapshot:
    assert snapshot_id is not None
    return AtSnapshot(snapshot_id)


def _answer(call: StatementCall, report: RollbackReport, *, names_target: bool = False) -> Answer:
    before = report.snapshot_id_before
    ids = {"previous_snapshot_id": before}
    if names_target:
        ids["rolled_back_snapshot_id"] = report.rolled_back_to
    ids["current_snapshot_id"] = before if report.snapshot_id is None else report.snapshot_id
    return answer_of(call.sql.text, pa.table({name: pa.array([id], pa.int64()) for name, id in ids.items()}), [report])


ROLLBACK_PROCEDURES: Final[Mapping[str, Procedure]] = {
    "rollback": _rollback,
    "rollback_to_timestamp": _to_timestamp,
    "rollback_to_watermark": _to_watermark,
    "rollback_to_as_latest": _to_as_latest,
}
