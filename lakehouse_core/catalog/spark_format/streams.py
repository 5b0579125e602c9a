"""Streams of `format("lakehouse")`: a table as a source of Spark's structured streaming. Offsets are snapshots.

Rule: the rows of a batch depend on its two offsets alone, so that a restart reads the same.
Source: docs/spark.md#formatlakehouse.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, TypeAlias

from lakehouse_core.api.table import Table
from lakehouse_core.api.table_reads import stream_step
from lakehouse_core.catalog.spark_format.reads import chosen_columns
from lakehouse_core.catalog.spark_format.settings import Settings, Use, settings_of
from lakehouse_core.errors import InvalidRequest, NotFound, SnapshotExpired, shown
from lakehouse_core.execution.engines.spark.source import check_types, plan_partitions, plan_schema
from lakehouse_core.format.stored import check_text
from lakehouse_core.options.units import parse_int

# Named for the reader: only the Spark engine knows Spark.
StructType: TypeAlias = Any
Offset: TypeAlias = Mapping[str, Any]

# The last snapshot that is read, and its time; an offset before the first batch; the snapshot after which the first
# batch begins.
_SNAPSHOT, _MILLIS, _INITIAL, _AFTER = "snapshot", "millis", "initial", "after"


def check_stream_read(options: Mapping[str, str]) -> None:
    """Raise InvalidRequest for options that no stream has."""
    _first(settings_of(options, Use.STREAM_READ))


def stream_source(options: Mapping[str, str], schema: StructType, cores: int) -> "StreamSource":
    """Return the source of a stream whose rows have the columns of `schema`. Raises InvalidRequest, NotFound."""
    return StreamSource(settings_of(options, Use.STREAM_READ), schema, cores)


class StreamSource:
    """A table as a stream: its rows, then the changes of each later snapshot; with `scan.mode` latest, or with
    `scan.snapshot-id`, the changes alone.
    """

    def __init__(self, settings: Settings, schema: StructType, cores: int) -> None:
        self._settings, self._schema, self._cores = settings, schema, cores
        self._columns = chosen_columns(settings, schema.names)
        self._is_held = False

    @cached_property
    def _table(self) -> Table:
        return self._settings.open()

    @cached_property
    def _initial(self) -> Offset:
        first = _first(self._settings)
        if first is None:
            return {_SNAPSHOT: 0}
        return {_SNAPSHOT: self._latest_id() if first == "latest" else first, _INITIAL: True}

    def initial_offset(self) -> Offset:
        """Return the offset before the first batch."""
        return self._initial

    def latest_offset(self) -> Offset:
        """Return the offset of the newest snapshot."""
        first = self._initial[_SNAPSHOT]
        # Spark stores the end of a batch alone. When the first one is repeated, the newest snapshot is another one.
        after = {_AFTER: first} if _first(self._settings) == "latest" else {}
        newest = self._table.snapshot()
        if newest is None or newest.id < first:
            return {_SNAPSHOT: first, **after}
        return {_SNAPSHOT: newest.id, _MILLIS: newest.time_millis, **after}

    def partitions(self, start: Offset, end: Offset) -> list[bytes]:
        """Return the partitions of a batch. Raises SnapshotExpired, InvalidRequest, CorruptTable."""
        is_first = start.get(_INITIAL, False)
        after: int = end.get(_AFTER, start[_SNAPSHOT]) if is_first else start[_SNAPSHOT]
        until: int = end[_SNAPSHOT]
        reads_state = after == 0 and not is_first
        if after <= until:
            self._check_same(start)
            self._check_same(end)
        if after == until:
            if not reads_state:
                self._hold(after + 1)
            return []
        if after > until:
            raise InvalidRequest(
                f"{self._table.name}: the stream has read snapshot {after}, and the newest is {until}: the table was "
                "rolled back or made anew. Start the stream with a new checkpoint."
            )
        self._hold(until if reads_state else after + 1)
        plan = stream_step(
            self._table._context,
            None if reads_state else after,
            until,
            columns=self._columns,
            where=self._settings.where,
            with_row_kinds=self._settings.with_row_kind,
        )
        found = plan_schema(plan, with_row_kind=self._settings.with_row_kind)
        check_types(self._schema, found, self._table.name)
        adds_row_kind = reads_state and self._settings.with_row_kind
        return plan_partitions(plan, self._cores, adds_row_kind=adds_row_kind)

    def commit(self, end: Offset) -> None:
        """Let snapshots expire that the stream has read."""
        if self._settings.consumer is not None:
            self._table.set_consumer(self._settings.consumer, end[_SNAPSHOT] + 1)

    def _check_same(self, offset: Offset) -> None:
        """Raise InvalidRequest if the snapshot of an offset has been replaced by another one with its id."""
        try:
            found = self._table.snapshot(offset[_SNAPSHOT]) if _MILLIS in offset else None
        except (NotFound, SnapshotExpired):
            return
        if found is not None and found.time_millis != offset[_MILLIS]:
            raise InvalidRequest(
                f"{self._table.name}: the stream has read another snapshot {found.id} than the one that is there: the "
                "table was rolled back or made anew. Start the stream with a new checkpoint."
            )

    def _hold(self, snapshot_id: int) -> None:
        """Keep a snapshot and later ones from expiry until the first batch of this run is committed."""
        if self._settings.consumer is not None and not self._is_held:
            self._table.set_consumer(self._settings.consumer, snapshot_id)
            self._is_held = True

    def _latest_id(self) -> int:
        snapshot = self._table.snapshot()
        return 0 if snapshot is None else snapshot.id


def _first(settings: Settings) -> int | str | None:
    """Return the snapshot after which the stream begins, "latest" for the newest, None to begin with the rows."""
    if settings.consumer is not None:
        check_text("Option consumer-id", settings.consumer)
    mode, given = settings.scan.get("scan.mode"), settings.scan.get("scan.snapshot-id")
    if given is not None:
        if mode not in (None, "default", "from-snapshot"):
            raise InvalidRequest(
                f"Options scan.mode={shown(mode)} and scan.snapshot-id={shown(given)} name two starts. Give one."
            )
        first = parse_int("scan.snapshot-id", given)
        if first < 1:
            raise InvalidRequest(f"Option scan.snapshot-id is {first}: expected 1 or more.")
        return first - 1
    match mode:
        case None | "default" | "full" | "latest-full":
            return None
        case "latest":
            return "latest"
    raise InvalidRequest(
        f"Option scan.mode is {shown(mode)}: a stream begins with latest-full or latest, or with scan.snapshot-id."
    )
