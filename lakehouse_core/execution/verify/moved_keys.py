"""Keys that move between partitions: read the keys of the latest state, and look for those that are in two places.

Rule: a key is in one bucket of one partition.
Source: docs/semantics/tables.md#cross-partition-updates.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial

import numpy as np

from lakehouse_core.execution.verify.inspection import Inspection, Rooted
from lakehouse_core.merge.key_digests import key_digests
from lakehouse_core.planning.findings import Invariant, keys_in_two_partitions
from lakehouse_core.planning.readable import readable_files
from lakehouse_core.planning.replayed_files import Bucket
from lakehouse_core.table.bucketing import moves_keys
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.sections import sections
from lakehouse_core.table.sorted_run import keyed_files
from lakehouse_core.tasks.merge_scan import BucketFiles, merged_records
from lakehouse_core.tasks.write.keys.map import NOWHERE, KeyMap
from lakehouse_core.tasks.write.keys.places import PlaceNumbers


def check_moved_keys(
    inspection: Inspection,
    rooted: Rooted,
    live: Mapping[Bucket, Sequence[DataFile]],
    schemas: Mapping[int, TableSchema],
    schema: TableSchema,
) -> None:
    """Report keys of the state `live` that are in two places."""
    if not inspection.reads_data or not moves_keys(schema.bucketing):
        return
    folders, root_key = DataLayout(schema), rooted.root.key
    deletions = inspection.deletions(rooted, schema)
    if deletions is None:
        return
    doubled: Counter[tuple[int, int]] = Counter()
    keys, places = KeyMap(), PlaceNumbers()
    try:
        for (partition, bucket), found in live.items():
            folder, place = folders.bucket(partition, bucket), places.number(partition, bucket)
            readable = readable_files(found, schemas)
            files = BucketFiles(store=inspection.store, folder=folder, schemas=schemas, deletions=deletions)
            read = partial(_compare, files, readable, schema, keys, place)
            seen = inspection.read(Invariant.NAMED_FILES, folder, read, root_key)
            doubled.update({(before, place): count for before, count in (seen or {}).items()})
    finally:
        keys.close()
    for (before, after), count in sorted(doubled.items()):
        one, other = (folders.bucket(*places.place(place)) for place in (before, after))
        inspection.report([keys_in_two_partitions(root_key, one, other, count)], root_key)


def _compare(
    files: BucketFiles, of_bucket: Sequence[DataFile], schema: TableSchema, keys: KeyMap, place: int
) -> Counter[int]:
    """Return how many keys of a bucket are in each of the places that were compared before; remember the others."""
    fields = tuple(map(schema.field, schema.primary_keys))
    types = [each.type for each in schema.key_fields]
    seen: Counter[int] = Counter()
    rows = merged_records(
        files,
        sections(keyed_files(of_bucket, types)),
        schema,
        fields,
        with_sequence_number=False,
        drops_deletes=True,
    )
    with closing(rows):
        for batch in rows:
            found = key_digests(batch.columns[: len(fields)])
            before = keys.put_since(found)
            seen.update(before[before != NOWHERE].tolist())
            is_new = before == NOWHERE
            keys.put(found.take(is_new), np.full(int(np.count_nonzero(is_new)), place, np.int32))
    return seen
