"""rewrite_file_index: files that are there get the indexes that the options ask for, and stay as they are."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.data_files.file_index import stored_bodies
from lakehouse_core.storage import Call, Fault, FaultKind, FaultyStore
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.manifest import EntryKind, ManifestEntry, file_identifier
from tests.execution.memory_place import Kind, MemoryPlace
from tests.execution.other_calls import deleted, expired, rewrote, wrote
from tests.pairs import each_with_one

COLUMNS = {"k": "INT NOT NULL", "p": "INT NOT NULL", "v": "STRING", "n": "INT"}
VECTORS = {"deletion-vectors.enabled": "true"}
KINDS: dict[str, Kind] = {
    "append": ([], ["p"], {"bucket": "-1"}),
    "append, vectors": ([], [], {"bucket": "-1", **VECTORS}),
    "append, buckets, orc": ([], [], {"bucket": "2", "bucket-key": "k", "file.format": "orc"}),
    "key": (["k"], [], {"bucket": "2", "write-only": "true"}),
    "key, avro, told": (["k"], [], {"bucket": "1", "changelog-producer": "lookup", "file.format": "avro"}),
    "key, vectors": (["k"], [], {"bucket": "1", **VECTORS}),
    "key, dynamic": (["p", "k"], ["p"], {"bucket": "-1", "dynamic-bucket.target-row-num": "9"}),
    "key, moving": (["k"], ["p"], {"bucket": "-1", "dynamic-bucket.target-row-num": "9", "write-only": "true"}),
    "key, aggregation": (
        ["k"],
        [],
        {"bucket": "1", "merge-engine": "aggregation", "fields.n.aggregate-function": "sum", "write-only": "true"},
    ),
}
BLOOM = {"file-index.bloom-filter.columns": "v", "file-index.bloom-filter.v.items": "100"}
EVERY = {**BLOOM, "file-index.bitmap.columns": "v,n", "file-index.range-bitmap.columns": "n,k"}
BESIDE = {"file-index.in-manifest-threshold": "1 b"}
INSIDE = {"file-index.in-manifest-threshold": "1 mb"}
DAY = timedelta(days=1)


class Place(MemoryPlace):
    """A table of one of the kinds, without indexes."""

    def __init__(self, kind: str = "append", **options: str) -> None:
        super().__init__(COLUMNS, KINDS[kind], options)

    def write(self, keys: range, note: str) -> None:
        self.table().write([{"k": k, "p": k % 2, "v": f"{note}{k}", "n": k if k % 5 else None} for k in keys])

    def lived(self) -> "Place":
        """Write files, some of them of several levels, and change rows as far as the table takes it."""
        self.write(range(40), "a")
        self.write(range(20, 50, 3), "b")
        self.table().compact(full=True)
        self.write(range(5, 70, 7), "c")
        if "aggregation" not in self.table().schema.options.values():
            self.table().delete("k = 5 OR k = 20")
        return self

    def ask_for(self, options: dict[str, str]) -> None:
        asked = [key for key in self.table().schema.options if key.startswith("file-index.")]
        changes: list[lc.SchemaChange] = list(map(lc.RemoveOption, asked))
        self.table().alter(*changes, *(lc.SetOption(key, value) for key, value in options.items()))

    def rows(self, **scan: Any) -> list[tuple[Any, ...]]:
        return sorted(map(repr, self.table().scan(**scan).to_arrow().to_pylist()))

    def entries(self) -> list[ManifestEntry]:
        context = self.table()._context
        latest = context.snapshots.latest()
        assert latest is not None
        return context.manifests.live_entries(latest, with_stats=True)

    def check_as_java_reads(self) -> None:
        """Check that no entry is live that any manifest deletes, for Java takes such a file for deleted."""
        context = self.table()._context
        latest = context.snapshots.latest()
        assert latest is not None
        manifests = context.manifests
        entries = [entry for each in manifests.entries_of_each(manifests.of(latest)) for entry in each]
        deleted = {file_identifier(entry) for entry in entries if entry.kind is EntryKind.DELETE}
        assert deleted.isdisjoint(map(file_identifier, self.entries()))

    def names(self) -> dict[str, tuple[str, ...]]:
        """The names of the index files, by data file."""
        return {entry.file.file_name: entry.file.extra_files for entry in self.entries()}

    def indexes(self) -> dict[str, dict[str, dict[str, bytes | None]] | None]:
        """The indexes of each data file, by column and kind."""
        context = self.table()._context
        layout = DataLayout(context.schemas.latest())
        found = {}
        for entry in self.entries():
            folder = layout.bucket(entry.partition, entry.bucket)
            found[entry.file.file_name] = stored_bodies(context.store, folder, entry.file)
        return found

    def keys_on_disk(self) -> set[str]:
        return {info.key for info in self.store.list("db.db/t") if "/bucket-" in info.key}


def _as_without_index(file: DataFile) -> tuple[Any, ...]:
    return (file.file_name, file.level, file.row_count, file.min_key, file.value_stats, file.max_sequence_number)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("kind", "where"), each_with_one(KINDS, ["beside", "inside"], step=2))
def test_files_get_the_indexes_that_a_writer_would_have_given_them(kind: str, where: str) -> None:
    place, place_of_index = Place(kind).lived(), {"beside": BESIDE, "inside": INSIDE}[where]
    rows, before = place.rows(), place.entries()
    data = {key: place.store.read(key) for key in place.keys_on_disk()}
    place.ask_for({**EVERY, **place_of_index})

    report = place.table().rewrite_file_index(properties={"why": "asked"})

    assert (report.commit_kind, report.files_examined, report.files_indexed) == ("COMPACT", len(before), len(before))
    assert (report.rows_added, report.rows_removed, report.files_added, report.files_removed) == (0, 0, 0, 0)
    assert place.table().snapshots()[-1].properties["why"] == "asked"
    assert place.rows() == rows
    assert sorted(map(_as_without_index, (entry.file for entry in before))) == sorted(
        _as_without_index(entry.file) for entry in place.entries()
    )
    # As a writer would have: the same rows in a table that had the options from the beginning.
    twin = Place(kind, **EVERY, **place_of_index).lived()
    assert sorted(map(repr, place.indexes().values())) == sorted(map(repr, twin.indexes().values()))
    assert {key: place.store.read(key) for key in data} == data
    beside = sum(map(len, place.names().values()))
    assert beside == (len(before) if place_of_index is BESIDE else 0)
    assert place.table().verify(data=True).findings == ()
    again = place.table().rewrite_file_index()
    assert (again.noop_reason, again.snapshot_id) == ("every file has the indexes that the options ask for", None)


@pytest.mark.parametrize("kind", ["append", "append, vectors", "key"])
def test_a_read_skips_files_by_their_new_index(kind: str) -> None:
    place = Place(kind, **{"metadata.stats-mode": "none"})
    for start in (0, 10, 20):
        place.write(range(start, start + 10), "a")
    place.table().compact(full=True)
    for start in (30, 40):
        place.write(range(start, start + 10), "a")
    if kind == "key":
        place.table().compact(full=True)

    def opened() -> int:
        store = FaultyStore(place.store)
        found = place.table(store).scan(where="v = 'a35'").to_arrow().to_pylist()
        assert [row["k"] for row in found] == [35]
        return len([call for call in store.calls if call.method == "open_read" and call.key.endswith(".parquet")])

    before = opened()
    place.ask_for({**BLOOM, **BESIDE})
    place.table().rewrite_file_index()

    assert opened() < before


def test_another_form_other_settings_and_fewer_columns_are_noticed() -> None:
    place = Place().lived()
    steps: list[dict[str, str]] = [
        {**BLOOM, **BESIDE},
        {**BLOOM, **INSIDE},
        # Back, and forth again: an entry that was removed before is live once more.
        {**BLOOM, **BESIDE},
        {**BLOOM, **INSIDE},
        {**BLOOM, **INSIDE, "file-index.bloom-filter.v.items": "50"},
        {**BLOOM, **BESIDE, "file-index.bloom-filter.v.fpp": "0.01"},
        {**EVERY, **BESIDE},
        {"file-index.bitmap.columns": "n", **BESIDE, "file-index.bitmap.n.index-block-size": "1 kb"},
    ]
    for options in steps:
        place.ask_for(options)
        assert place.table().rewrite_file_index().files_indexed == len(place.entries()), options
        assert place.table().rewrite_file_index().snapshot_id is None
        assert place.table().verify(data=True).findings == ()
        place.check_as_java_reads()

    place.ask_for({})
    report = place.table().rewrite_file_index()
    assert (report.files_indexed, report.indexes_dropped, report.index_bytes) == (0, len(place.entries()), 0)
    assert list(place.indexes().values()) == [None] * len(place.entries())
    place.check_as_java_reads()
    assert place.table().rewrite_file_index().snapshot_id is None


def test_a_plan_says_what_would_be_written_and_writes_nothing() -> None:
    place = Place().lived()
    place.ask_for({**EVERY, **BESIDE})
    before = {info.key for info in place.store.list("")}

    plan = place.table().rewrite_file_index(dry_run=True)

    assert {info.key for info in place.store.list("")} == before
    report = place.table().rewrite_file_index()
    figures = [
        (one.files_examined, one.files_indexed, one.index_bytes, one.partitions_changed) for one in (plan, report)
    ]
    assert figures[0] == figures[1]
    assert (plan.dry_run, plan.snapshot_id, plan.commit_user) == (True, None, "")


def test_a_partition_is_indexed_alone() -> None:
    place = Place().lived()
    place.ask_for({**BLOOM, **BESIDE})

    report = place.table().rewrite_file_index(partition={"p": 1})

    indexed = {
        file.path.split("/")[-3] for file in place.table().files() if place.names()[file.path.rpartition("/")[2]]
    }
    assert (report.partitions_changed, indexed) == (1, {"p=1"})
    with pytest.raises(lc.InvalidRequest, match="Partition column 'v': the table is not partitioned by it"):
        place.table().rewrite_file_index(partition={"v": 1})


def test_files_of_older_schemas_are_indexed_under_their_own_names_and_types() -> None:
    place = Place()
    place.write(range(10), "a")
    place.table().alter(
        lc.RenameColumn("v", "w"), lc.AddColumn("x", "STRING", first=True), lc.UpdateColumnType("n", "BIGINT")
    )
    place.table().write([{"k": 50, "p": 0, "w": "new", "n": 2**40, "x": "there"}])
    place.ask_for({"file-index.bitmap.columns": "w,n,x", **INSIDE})

    place.table().rewrite_file_index()

    found = [sorted(index or ()) for index in place.indexes().values()]
    assert sorted(found) == [["n", "v"], ["n", "v"], ["n", "w", "x"]]
    assert place.table().scan(where="w = 'a3' AND n = 3").to_arrow().column("k").to_pylist() == [3]
    assert place.table().scan(where="x IS NULL AND n = 4").to_arrow().column("k").to_pylist() == [4]
    assert place.table().scan(where=f"n = {2**40}").to_arrow().column("k").to_pylist() == [50]
    assert place.table().verify(data=True).findings == ()
    assert place.table().rewrite_file_index().snapshot_id is None


def test_an_index_that_is_not_written_here_is_refused_and_changes_nothing() -> None:
    place = Place().lived()
    before = place.table().snapshots()[-1].id
    key = f"db.db/t/schema/schema-{place.table().schema.id}"
    stored = json.loads(place.store.read(key))
    # As Java writes it, which stores no checksum.
    del stored["lakehouseCrc32"]
    stored["options"]["file-index.bsi.columns"] = "n"
    place.store.write({key: json.dumps(stored).encode()})

    with pytest.raises(lc.UnsupportedFeature, match="bsi indexes can be read, but not written"):
        place.table().rewrite_file_index()

    assert place.table().snapshots()[-1].id == before


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", ["append", "append, vectors", "key, vectors"])
def test_expiry_deletes_the_old_index_and_neither_the_data_file_nor_what_a_tag_needs(kind: str) -> None:
    place = Place(kind).lived()
    place.ask_for({**BLOOM, **BESIDE})
    place.table().rewrite_file_index()
    rows, old = place.rows(), place.names()
    place.table().create_tag("old")
    place.ask_for({**EVERY, **BESIDE})
    place.table().rewrite_file_index()
    new = place.names()
    assert old.keys() == new.keys()
    assert all(old[name] != new[name] for name in old)

    def on_disk() -> set[str]:
        return {key.rpartition("/")[2] for key in place.keys_on_disk()}

    place.table().expire_snapshots(retain_max=1, older_than=timedelta(0))
    assert on_disk() == {*old, *(name for names in (*old.values(), *new.values()) for name in names)}
    assert place.rows(at=lc.AtTag("old"), where="v <> 'x'") == place.rows(where="v <> 'x'") == rows
    place.table().delete_tag("old")
    assert on_disk() == {*new, *(name for names in new.values() for name in names)}
    assert place.rows() == rows
    place.clock.advance(3 * 86_400)
    assert place.table().remove_orphans(older_than=DAY).paths == ()
    assert place.table().verify(data=True).findings == ()
    # Back to an earlier state, and forth again.
    place.table().create_branch("side")
    place.ask_for({})
    place.table().rewrite_file_index()
    place.table().rollback_to(place.table().snapshots()[0].id)
    assert place.names() == new
    place.table().expire_snapshots(retain_max=1, older_than=timedelta(0))
    assert (place.rows(), place.table().verify(data=True).findings) == (rows, ())
    catalog = Catalog(place.store, clock=place.clock)
    catalog.copy_table(catalog.table("db.t"), "db.copy")
    assert catalog.table("db.copy").verify(data=True).findings == ()


@pytest.mark.parametrize("kind", ["append", "key, avro, told"])
def test_followers_are_told_nothing(kind: str) -> None:
    place = Place(kind).lived()
    last = place.table().snapshots()[-1].id
    place.ask_for({**EVERY, **BESIDE})

    place.table().rewrite_file_index()

    assert place.table().changes(after=last).to_arrow().num_rows == 0
    assert place.table().diff(last, place.table().snapshots()[-1].id).to_arrow().num_rows == 0


def _indexed(table: lc.Table) -> None:
    table.rewrite_file_index()


def _overwrote(table: lc.Table) -> None:
    table.overwrite([{"k": 1, "p": 1, "v": "all", "n": 1}])


OTHERS = [wrote, deleted, rewrote, expired, _indexed, _overwrote]
SHORT = [("append", deleted), ("key", rewrote), ("append, vectors", expired), ("key", _indexed)]
KINDS_AND_OTHERS = [(kind, other) for kind in ("append", "append, vectors", "key", "key, vectors") for other in OTHERS]
# In make test every thirteenth call of some pairs, in make test-long each call of all of them.
PAIRS = [
    *(pytest.param(kind, other, 13) for kind, other in SHORT),
    *(pytest.param(kind, other, 1, marks=pytest.mark.long) for kind, other in KINDS_AND_OTHERS),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("kind", "other", "step"), PAIRS)
def test_whatever_others_do_between_two_calls_both_are_done(
    kind: str, other: Callable[[lc.Table], None], step: int
) -> None:
    ready = Place(kind).lived()
    ready.write(range(30, 36), "d")
    ready.ask_for({**BLOOM, **BESIDE})
    expected = ready.copy()
    other(expected.table())
    calls = 0
    for number in count(1, step):
        place = ready.copy()

        def interrupt(call: Call, number: int = number, place: Place = place) -> None:
            if call.number == number:
                other(place.table())

        counting = FaultyStore(place.store, on_call=interrupt)
        report = place.table(counting).rewrite_file_index()
        if number > len(counting.calls):
            break
        calls += 1
        assert report.files_conflicted == 0
        assert place.rows() == expected.rows(), number
        # What is there by now has its index, but for files that others write while this call ends.
        place.table().rewrite_file_index()
        assert all(place.names().values()), number
        place.table().expire_snapshots(retain_max=1, older_than=timedelta(0))
        named = {name for data, names in place.names().items() for name in (data, *names)}
        assert {key.rpartition("/")[2] for key in place.keys_on_disk() if "/bucket-" in key} == named, number
        assert place.table().verify(data=True).findings == ()
    assert calls > 30 // step


def _merged(table: lc.Table) -> None:
    rows = [{"k": key, "p": 0, "v": "merged", "n": 1} for key in (8, 900)]
    table.merge(rows, "t.k = s.k", lc.WhenMatched(update={"v": "s.v"}), lc.WhenNotMatched(insert="*"))


def _went_back(table: lc.Table) -> None:
    table.rollback_to(2)


def _took_another_type(table: lc.Table) -> None:
    table.alter(lc.UpdateColumnType("n", "BIGINT"), lc.RenameColumn("v", "w"))


def _has_other_buckets(table: lc.Table) -> None:
    table.rescale(4)


def _compacted_manifests(table: lc.Table) -> None:
    table.compact_manifests()


def _verified(table: lc.Table) -> None:
    assert table.verify(data=True).findings == ()


INTERRUPTED = [wrote, deleted, rewrote, _overwrote, _merged, _went_back, _took_another_type, _compacted_manifests]
SHORT_INTERRUPTED = [
    ("append", deleted),
    ("append, vectors", _merged),
    ("key", _has_other_buckets),
    ("key, vectors", _went_back),
    ("key, moving", wrote),
    ("key, dynamic", _verified),
]
INTERRUPTED_PAIRS = [
    *(pytest.param(kind, verb, 13) for kind, verb in SHORT_INTERRUPTED),
    *(
        pytest.param(kind, verb, 1, marks=pytest.mark.long)
        for kind in ("append", "append, vectors", "key", "key, vectors", "key, moving", "key, dynamic")
        for verb in INTERRUPTED
    ),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("kind", "verb", "step"), INTERRUPTED_PAIRS)
def test_whatever_others_do_its_rows_are_right_if_files_get_other_indexes_between_two_calls(
    kind: str, verb: Callable[[lc.Table], None], step: int
) -> None:
    ready = Place(kind).lived()
    ready.write(range(30, 36), "d")
    ready.ask_for({**BLOOM, **BESIDE})
    ready.table().create_tag("kept")
    expected = ready.copy()
    verb(expected.table())
    done = 0
    for number in count(1, step):
        place = ready.copy()

        def interrupt(call: Call, number: int = number, place: Place = place) -> None:
            if call.number == number:
                place.table().rewrite_file_index()

        counting = FaultyStore(place.store, on_call=interrupt)
        try:
            verb(place.table(counting))
        except lc.CommitConflict:
            # A compaction whose files all have other entries by now; no other verb gives up.
            assert verb is rewrote, number
            assert place.rows() == ready.rows(), number
        else:
            done += 1
            assert place.rows() == expected.rows(), number
        assert place.table().verify(data=True).findings == (), number
        place.check_as_java_reads()
        if number > len(counting.calls):
            break
    assert done > 1


def _failures(every: int) -> Iterator[tuple[int, FaultKind]]:
    for number in count(1, every):
        for kind in (FaultKind.FAIL_BEFORE, FaultKind.FAIL_AFTER, FaultKind.DIE_AFTER):
            yield number, kind


def test_a_failed_call_deletes_new_indexes_only_and_never_a_data_file(every: int) -> None:
    ready = Place().lived()
    ready.ask_for({**BLOOM, **BESIDE})
    before, rows = ready.keys_on_disk(), ready.rows()
    for number, kind in _failures(every):
        place = ready.copy()
        faulty = FaultyStore(place.store, [Fault(at=number, kind=kind)])
        with suppress(lc.LakehouseError, BaseException):
            place.table(faulty).rewrite_file_index()
        assert before <= place.keys_on_disk(), (number, kind)
        assert place.rows() == rows
        assert place.table().verify(data=True).findings == ()
        if len(faulty.calls) < number:
            break


def test_files_of_a_commit_that_certainly_failed_are_deleted() -> None:
    ready = Place().lived()
    ready.ask_for({**BLOOM, **BESIDE})
    before = {info.key for info in ready.store.list("")}
    refused = 0
    for number in count(1):
        place = ready.copy()
        faulty = FaultyStore(place.store, [Fault(at=number, kind=FaultKind.FAIL_BEFORE)])
        try:
            place.table(faulty).rewrite_file_index()
        except lc.StorageUnavailable:
            refused += 1
            assert {info.key for info in place.store.list("")} == before, number
        if len(faulty.calls) < number:
            break
    assert refused > 5
