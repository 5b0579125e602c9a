"""Which promises the snapshots of a table break, each snapshot looked at by itself, entry by entry: slow, and plain."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from lakehouse_core.execution.context import TableContext
from lakehouse_core.format.binary_row import deserialize_row
from lakehouse_core.format.data_types import DataType
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.manifest import EntryKind, Identifier, ManifestEntry, ManifestFile, file_identifier


def first_broken(table: TableContext, folders: DataLayout, key_types: Sequence[DataType]) -> dict[str, int]:
    """Return by promise (I7, I8, I11, I22) the first snapshot that breaks it."""
    first: dict[str, int] = {}
    sizes = {info.key: info.size for info in table.store.list("")}
    before = None
    for snapshot in table.snapshots.history():
        state: dict[Identifier, ManifestEntry] = {}
        broken = set(_apply(table, table.manifests.base(snapshot), state))
        if before is not None and state.keys() != before:
            broken.add("I7")
        broken.update(_apply(table, table.manifests.delta(snapshot), state))
        before = state.keys()
        if snapshot.total_record_count != sum(entry.file.row_count for entry in state.values()):
            broken.add("I8")
        broken.update(_of_state(state.values(), folders, sizes, key_types))
        for promise in broken:
            first.setdefault(promise, snapshot.id)
    return first


def _apply(
    table: TableContext, manifests: Iterable[ManifestFile], state: dict[Identifier, ManifestEntry]
) -> Iterator[str]:
    for entry in (entry for manifest in manifests for entry in table.manifests.entries(manifest)):
        if (entry.kind is EntryKind.ADD) == (file_identifier(entry) in state):
            yield "I7"
        elif entry.kind is EntryKind.ADD:
            state[file_identifier(entry)] = entry
        else:
            del state[file_identifier(entry)]


def _of_state(
    entries: Collection[ManifestEntry],
    folders: DataLayout,
    sizes: Mapping[str, int],
    key_types: Sequence[DataType],
) -> Iterator[str]:
    if max(Counter((one.partition, one.bucket, one.file.file_name) for one in entries).values(), default=0) > 1:
        yield "I7"
    for one, other in combinations(entries, 2):
        if one.partition == other.partition and one.total_buckets != other.total_buckets:
            yield "I22"
        places = {(each.partition, each.bucket, each.file.level) for each in (one, other)}
        if len(places) == 1 and one.file.level > 0 and _overlap(one.file, other.file, key_types):
            yield "I22"
    for entry in entries:
        key = f"{folders.bucket(entry.partition, entry.bucket)}/{entry.file.file_name}"
        if sizes.get(key) != entry.file.file_size:
            yield "I11"


def _overlap(one: DataFile, other: DataFile, types: Sequence[DataType]) -> bool:
    low, high = (deserialize_row(key, types) for key in (one.min_key, one.max_key))
    other_low, other_high = (deserialize_row(key, types) for key in (other.min_key, other.max_key))
    return low <= other_high and other_low <= high
