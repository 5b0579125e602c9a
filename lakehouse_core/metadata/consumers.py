"""Consumers: readers of a table, whose next snapshot and those after it an expiry keeps.

Rule: a consumer that cannot be read protects everything. Source: docs/semantics/reading.md#consumers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from lakehouse_core.errors import CorruptTable, InvalidRequest, NotFound, WriteOutcomeUnknown, shown
from lakehouse_core.format.stored import check_name_for_file
from lakehouse_core.metadata.read_ahead import both
from lakehouse_core.storage.object_store import ObjectStore, StoreReader, read_all
from lakehouse_core.table.layout import CONSUMER_PREFIX, TableLayout
from lakehouse_core.table.snapshot import parse_consumer, serialize_consumer


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumers:
    """The consumers of a branch: the id that each reads next, and the fault of each that cannot be read, by name."""

    next_ids: Mapping[str, int] = field(default_factory=dict)
    faults: Mapping[str, str] = field(default_factory=dict)

    def without(self, names: tuple[str, ...]) -> "Consumers":
        return replace(
            self,
            next_ids={name: id for name, id in self.next_ids.items() if name not in names},
            faults={name: fault for name, fault in self.faults.items() if name not in names},
        )


def read_consumers(store: StoreReader, layout: TableLayout) -> Consumers:
    """Return the consumers of a branch. Raises NotFound for one that is removed meanwhile."""
    files = store.children(layout.folders.consumers).files
    names = [file.removeprefix(CONSUMER_PREFIX) for file in files if file.startswith(CONSUMER_PREFIX)]
    next_ids: dict[str, int] = {}
    faults: dict[str, str] = {}
    for name, data in zip(names, read_all(store, map(layout.consumer, names)), strict=True):
        try:
            next_ids[name] = parse_consumer(data, layout.consumer(name))
        except CorruptTable as error:
            faults[name] = str(error)
    return Consumers(next_ids=next_ids, faults=faults)


def outdated_consumers(
    store: StoreReader, layout: TableLayout, consumers: Consumers, *, max_age_millis: int, now_millis: int
) -> tuple[str, ...]:
    """Return the names of the consumers that were not written for longer than `max_age_millis`, sorted.

    `now_millis` is the time of the storage, whose clock dates the files.
    """
    keys = {layout.consumer(name): name for name in (*consumers.next_ids, *consumers.faults)}
    infos = store.infos(keys)
    return tuple(sorted(keys[key] for key, info in infos.items() if info.modified_millis < now_millis - max_age_millis))


def set_consumer(store: ObjectStore, layout: TableLayout, name: str, next_snapshot_id: int) -> None:
    """Write the position of a consumer, in place of an earlier one. Raises InvalidRequest, WriteOutcomeUnknown."""
    check_name_for_file("Consumer", name)
    is_number = isinstance(next_snapshot_id, int) and not isinstance(next_snapshot_id, bool)
    if not is_number or not 1 <= next_snapshot_id < 1 << 63:
        raise InvalidRequest(
            f"Consumer {shown(name)}: its next snapshot is {shown(next_snapshot_id)}, expected the id of a snapshot, "
            "from 1 on and of 64 bits. Give the first snapshot that it has yet to read."
        )
    store.write({layout.consumer(name): serialize_consumer(next_snapshot_id)})


def delete_consumer(store: ObjectStore, layout: TableLayout, name: str, check: Callable[[], None]) -> None:
    """Remove a consumer. `check`: called before, to raise if the consumer may be that of another table. Raises
    NotFound, InvalidRequest, WriteOutcomeUnknown.
    """
    check_name_for_file("Consumer", name)
    key = layout.consumer(name)
    if key not in both(lambda: store.infos([key]), check, at_once=store.requests_at_once)[0]:
        known = ", ".join(sorted(read_consumers(store, layout).next_ids))
        others = f"The consumers are: {known}." if known else "The table has no consumers."
        raise NotFound(f"Consumer {name!r} does not exist. {others}")
    remove_consumers(store, layout, (name,))


def remove_consumers(store: ObjectStore, layout: TableLayout, names: tuple[str, ...]) -> None:
    """Remove consumers, also those that are not there any more. Raises WriteOutcomeUnknown."""
    if left := store.delete(map(layout.consumer, names)):
        raise WriteOutcomeUnknown(f"{store.uri(left[0])}: the consumer could not be removed. Try again.")
