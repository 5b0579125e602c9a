"""Key placer: the partition and bucket of each row of a table whose keys move between partitions.

The keys of the table are read once: with the keys of the first rows in memory, and if these are all rows, only such as
may be theirs are kept.
Source: docs/semantics/tables.md#cross-partition-updates.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakehouse_core.errors import CorruptTable, InvalidRequest, shown
from lakehouse_core.format.binary_row import deserialize_row, hash_rows
from lakehouse_core.format.data_types import column_of
from lakehouse_core.format.rows import Rows, take_all
from lakehouse_core.merge.deduplicate import is_add
from lakehouse_core.merge.key_digests import Digests, key_digests
from lakehouse_core.merge.key_homes import key_homes, logged_homes, rounds
from lakehouse_core.merge.order import order_rows
from lakehouse_core.options import MergeEngine
from lakehouse_core.planning.bucket_assignment import Assigners, opened_buckets
from lakehouse_core.planning.partitions import bucket_name, partition_name
from lakehouse_core.storage.object_store import StoreReader
from lakehouse_core.tasks.keys.live import KeySource, live_keys, stored_keys
from lakehouse_core.tasks.write.keys.map import NOWHERE, KeyMap, Places
from lakehouse_core.tasks.write.keys.places import PlaceNumbers
from lakehouse_core.tasks.write.router import Router
from lakehouse_core.tasks.write.rows import InputRows, Kinds

# Rows that are looked at before the keys of the table are read.
_FIRST_BYTES: Final = 64 << 20
_DELETE: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPlaces:
    """What a write knows of the places of keys. `seed`: for their digests. `assigners`: those that share new keys.

    `replaces`: the rows replace the partitions that they are in, whose keys `source` may have; keys of others must not
    be among theirs. `tells_all`: with `deduplicate`, a changelog has all rows of a key, so all are written, and a
    delete in each partition that the key leaves.
    """

    source: KeySource
    seed: int
    assigners: Assigners = field(default_factory=Assigners)
    replaces: bool = False
    tells_all: bool = False


def placed_rows(
    known: KeyPlaces, batches: Iterable[InputRows], store: StoreReader, folder: str | None
) -> Iterator[InputRows]:
    """Yield the rows to write, each with its bucket and in its partition, in the order in which they count.

    `folder`: as for `KeyMap`. Raises CorruptTable for a key of the rows that the table has twice, InvalidRequest for
    one that an overwrite leaves in another partition, StorageFull, StorageUnavailable.
    """
    keys = KeyMap(folder)
    try:
        yield from _Placer(known, store, keys).placed(batches)
    finally:
        keys.close()


class _Placer:
    def __init__(self, known: KeyPlaces, store: StoreReader, keys: KeyMap) -> None:
        schema = known.source.schema
        self._known = known
        self._schema = schema
        self._options = schema.table_options.dynamic_buckets
        self._engine = schema.table_options.merge_engine
        self._store = store
        self._keys = keys
        self._router = Router(schema)
        self._places = PlaceNumbers()
        # Partitions in which an overwrite has met its keys, with the row of one, and partitions that it replaces.
        self._met: dict[int, str] = {}
        self._written: set[int] = set()

    def placed(self, batches: Iterable[InputRows]) -> Iterator[InputRows]:
        remaining = iter(batches)
        first: list[tuple[InputRows, Digests]] = []
        size_bytes, is_all = 0, True
        for rows in remaining:
            if not rows.values.num_rows:
                continue
            first.append((rows, self._digests(rows)))
            size_bytes += rows.values.nbytes
            if size_bytes > _FIRST_BYTES:
                is_all = False
                break
        if not first:
            return
        self._load(_Wanted([keys for _, keys in first]) if is_all else None)
        for rows, keys in chain(_taken_out(first), ((rows, self._digests(rows)) for rows in remaining)):
            if rows.values.num_rows:
                yield from self._of_batch(rows, keys)
        self._check_met()

    def _digests(self, rows: InputRows) -> Digests:
        return key_digests([rows.values.column(name) for name in self._schema.primary_keys], self._known.seed)

    def _load(self, wanted: "_Wanted | None") -> None:
        """Read the keys of the table; of those that are not `wanted`, only how many each bucket has."""
        source, seed = self._known.source, self._known.seed

        def found() -> Iterator[tuple[Digests, Places]]:
            for split, keys in live_keys(source, self._store, seed):
                place = self._places.number(split.partition, split.bucket)
                if not self._known.replaces:
                    self._places.count(place, len(keys))
                kept = keys if wanted is None else keys.take(wanted.may_have(keys))
                yield kept, np.full(len(kept), place, np.int32)

        self._keys.load(found())
        for placed in source.behind:
            place = self._places.number(placed.partition, placed.bucket)
            for keys, kinds in stored_keys(source, placed, self._store, seed):
                # A delete in one partition and a row in another are of one key: it is where the row is.
                here = keys if self._engine is not MergeEngine.DEDUPLICATE else keys.take(is_add(kinds))
                run = here.distinct()
                self._keys.put(run, np.full(len(run), place, np.int32))

    def _of_batch(self, rows: InputRows, digests: Digests) -> Iterator[InputRows]:
        partitions = self._partitions(rows.values)
        if not self._known.tells_all:
            yield from self._of_round(rows, digests, partitions)
            return
        order = order_rows([digests.high, digests.low], rows.values.num_rows)
        every = rounds(order, rows.kinds, partitions)
        for number, some in enumerate(every):
            part = rows if len(every) == 1 else _taken(rows, some)
            yield from self._of_round(part, digests.take(some), partitions[some], is_first=number == 0)

    def _of_round(
        self, rows: InputRows, digests: Digests, partitions: "npt.NDArray[np.int64]", *, is_first: bool = True
    ) -> Iterator[InputRows]:
        """Yield the rows in their places, and deletes where keys were. `is_first`: none of these rows came before."""
        values, kinds = rows.values, rows.kinds
        order = order_rows([digests.high, digests.low], values.num_rows)
        firsts = order.rows[order.starts]
        keys = digests.take(firsts)
        loaded = self._loaded(keys, values, firsts)
        since = self._keys.put_since(keys)
        known = np.where(since == NOWHERE, loaded, since)
        if self._engine is not MergeEngine.DEDUPLICATE:
            # Rows stay where the table has their key. A commit before this one that says otherwise had a conflict.
            known = np.where(loaded == NOWHERE, since, loaded)
        at = self._places.partitions(known)
        is_sure = loaded != NOWHERE if self._known.source.behind else np.ones(len(keys), dtype=bool)
        if self._known.tells_all:
            homes = logged_homes(order, kinds, partitions=partitions, known=at)
        else:
            homes = key_homes(self._engine, order, kinds, partitions=partitions, known=at, is_sure=is_sure)
        is_known = (known != NOWHERE) & (at == homes.partitions)
        final = known.copy()
        # Keys whose rows are all dropped stay where they are.
        final[~is_known] = self._assigned(homes.partitions[~is_known], values, firsts[~is_known])
        self._places.uncount(known[homes.leaves])
        self._keys.put(keys.take(~is_known), final[~is_known])
        # As in Java, the delete has the values of the row that moves the key.
        last = firsts if self._known.tells_all else order.rows[order.ends]
        leaving = [(last[homes.leaves], known[homes.leaves])]
        if self._known.replaces:
            if self._engine is MergeEngine.DEDUPLICATE:
                leaving.append(self._passed(partitions, homes.partitions))
            self._written.update(np.unique(homes.partitions).tolist())
        if self._known.source.behind and self._engine is MergeEngine.DEDUPLICATE and is_first:
            # The commits that come before may never be made. Then the key is still where the table has it.
            stale = (loaded != NOWHERE) & (loaded != known) & (loaded != final)
            leaving.append((last[stale], loaded[stale]))
        gone = np.concatenate([rows for rows, _ in leaving])
        left = np.concatenate([places for _, places in leaving])
        yield from self._output(rows, gone, left, np.full(len(gone), _DELETE, np.int8), partitions)
        new = None if kinds is None else kinds[homes.rows]
        yield from self._output(rows, homes.rows, final[homes.keys], new, partitions)

    def _passed(self, partitions: "npt.NDArray[np.int64]", homes: "npt.NDArray[np.int64]") -> tuple[Rows, Places]:
        """Return a row and a place in each partition that only rows name that others of their key follow.

        An overwrite replaces these partitions too, so that it does not matter how its rows come in batches.
        """
        named, firsts = np.unique(partitions, return_index=True)
        is_passed = ~np.isin(named, homes)
        self._written.update(named[is_passed].tolist())
        places = [self._places.number_in(number, 0) for number in named[is_passed].tolist()]
        return firsts[is_passed], np.array(places, np.int32)

    def _partitions(self, values: pa.RecordBatch) -> "npt.NDArray[np.int64]":
        """Return the number of each row's partition."""
        codes, found = self._router.partitions(values.column, values.num_rows)
        numbers = np.array([self._places.partition(partition) for partition in found], np.int64)
        of_rows: npt.NDArray[np.int64] = numbers[codes]
        return of_rows

    def _loaded(self, keys: Digests, values: pa.RecordBatch, firsts: Rows) -> Places:
        """Return where the table has the keys. Raises CorruptTable for a key that it has twice."""
        places, others = self._keys.loaded(keys)
        doubled = np.flatnonzero(others != NOWHERE)
        if len(doubled):
            one = int(doubled[0])
            raise CorruptTable(
                f"The key {self._shown(values, int(firsts[one]))} is in {self._name(int(places[one]))} and in "
                f"{self._name(int(others[one]))}: two writers of another engine may have written it at once. Delete "
                "one of the two rows by a condition on key and partition, and write again."
            )
        if not self._known.replaces:
            return places
        for one in np.flatnonzero(places != NOWHERE).tolist():
            partition = self._places.partition_of(int(places[one]))
            self._met.setdefault(partition, self._shown(values, int(firsts[one])))
        return np.full(len(keys), NOWHERE, np.int32)

    def _assigned(self, partitions: "npt.NDArray[np.int64]", values: pa.RecordBatch, rows: Rows) -> Places:
        """Return new places in these partitions, by the order of the keys. `rows`: one row of each key."""
        assigners = self._known.assigners
        of_each = np.zeros(len(rows), np.int32)
        if assigners.count > 1:
            fields = self._schema.key_fields
            columns = take_all([values.column(each.name) for each in fields], rows)
            of_each = assigners.of(hash_rows(columns, [each.type for each in fields]))
        found: Places = np.full(len(rows), NOWHERE, np.int32)
        groups = partitions * assigners.count + of_each
        order = np.argsort(groups, kind="stable")
        starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
        for which in np.split(order, starts[1:]) if len(rows) else ():
            partition, assigner = divmod(int(groups[which[0]]), assigners.count)
            counts = self._places.counts(partition)
            buckets = opened_buckets(len(which), counts, self._options, assigners, assigner)
            for bucket in np.unique(buckets).tolist():
                place, is_here = self._places.number_in(partition, bucket), buckets == bucket
                found[which[is_here]] = place
                self._places.count(place, int(np.count_nonzero(is_here)))
        return found

    def _output(
        self,
        given: InputRows,
        rows: Rows,
        places: Places,
        kinds: Kinds | None,
        partitions: "npt.NDArray[np.int64]",
    ) -> Iterator[InputRows]:
        """Yield these rows in their places."""
        if not len(rows):
            return
        homes = self._places.partitions(places)
        moved = homes != partitions[rows]
        names = self._schema.column_names
        columns = dict(zip(names, take_all(given.values.columns, rows), strict=True))
        if moved.any():
            numbers, codes = np.unique(homes, return_inverse=True)
            fields = self._schema.partition_fields
            types = [each.type for each in fields]
            wanted = [deserialize_row(self._places.bytes_of(number), types) for number in numbers.tolist()]
            for index, each in enumerate(fields):
                column = column_of([values[index] for values in wanted], each.type)
                columns[each.name] = column.take(pa.array(codes))
        yield InputRows(
            pa.RecordBatch.from_arrays(list(columns.values()), list(names)), kinds, self._places.buckets(places)
        )

    def _check_met(self) -> None:
        """Raise InvalidRequest for a key of an overwrite in a partition that stays."""
        stays = {partition: key for partition, key in self._met.items() if partition not in self._written}
        if stays:
            partition, key = next(iter(stays.items()))
            name = partition_name(self._places.bytes_of(partition), self._schema)
            raise InvalidRequest(
                f"Key {key} is in partition {name}, which this overwrite does not replace: the table would have the "
                "key twice. Write the row instead, or overwrite by a condition."
            )

    def _shown(self, values: pa.RecordBatch, row: int) -> str:
        return ", ".join(f"{name} = {shown(values.column(name)[row].as_py())}" for name in self._schema.primary_keys)

    def _name(self, place: int) -> str:
        return bucket_name(*self._places.place(place), self._schema)


class _Wanted:
    """Tells quickly of most keys that they are none of those given."""

    def __init__(self, given: Iterable[Digests]) -> None:
        given = list(given)
        bits = max(10, min(24, sum(map(len, given)).bit_length() + 4))
        self._shift = np.uint64(64 - bits)
        self._is_there = np.zeros(1 << bits, dtype=bool)
        for keys in given:
            self._is_there[keys.high >> self._shift] = True

    def may_have(self, keys: Digests) -> "npt.NDArray[np.bool_]":
        found: npt.NDArray[np.bool_] = self._is_there[keys.high >> self._shift]
        return found


def _taken(rows: InputRows, some: Rows) -> InputRows:
    names = rows.values.schema.names
    values = pa.RecordBatch.from_arrays(list(take_all(rows.values.columns, some)), names)
    return InputRows(values, None if rows.kinds is None else rows.kinds[some])


def _taken_out(first: list[tuple[InputRows, Digests]]) -> Iterator[tuple[InputRows, Digests]]:
    """Yield the rows in their order, and forget them."""
    first.reverse()
    while first:
        yield first.pop()
