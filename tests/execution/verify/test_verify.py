"""verify: nothing to say about a sound table, one finding for each thing that is broken."""

from dataclasses import replace
from datetime import timedelta
from functools import cache
from itertools import count

import pytest

import lakehouse_core as lc
from lakehouse_core.errors import NotFound
from lakehouse_core.execution.expiry.expire import expire
from lakehouse_core.execution.verify.verify import verify
from lakehouse_core.format.binary_row import serialize_row
from lakehouse_core.storage import FaultyStore, MemoryStore
from lakehouse_core.table.commit_message import Append
from lakehouse_core.table.manifest import (
    EntryKind,
    IndexManifestEntry,
    encode_index_manifest,
    encode_manifest,
    encode_manifest_list,
)
from lakehouse_core.table.schema import serialize_schema
from lakehouse_core.table.snapshot import serialize_snapshot, serialize_tag
from tests.contexts import context_of
from tests.execution.memory_place import MemoryPlace
from tests.execution.small_table import INT, TOP_LEVEL, SmallTable

DECOUPLED = {"changelog.num-retained.min": "1", "changelog.num-retained.max": "9", "changelog.time-retained": "9 h"}


@cache
def _sound_table():
    table = SmallTable(options=DECOUPLED)
    for number in range(3):
        table.write({1: f"v{number}", number: "x"})
    table.tag("old", at=2)
    table.compact()
    table.write({1: "w"})
    table.expire(retain_max=2)
    table.write({2: "w"}, bucket=1)
    table.write({3: "w"})
    table.tag("new", at=6)
    table.write({4: "w"})
    return table


def sound_table():
    """Snapshots 4 to 8 (one of them a compaction), changelogs 1 to 3, tags `old` (expired) and `new`."""
    return _sound_table().copy()


def test_a_sound_table_has_no_findings():
    table = sound_table()

    assert table.ids() == [4, 5, 6, 7, 8]
    assert table.context.changelogs.ids() == [1, 2, 3]
    assert verify(table.context) == ()


def test_where_there_is_no_table_there_is_nothing_to_verify():
    store = MemoryStore()

    with pytest.raises(NotFound, match="there is no table"):
        verify(context_of(store, SmallTable().clock))


def test_a_folder_of_another_file_is_no_table():
    store = MemoryStore()
    store.write({"schema/notes.txt": b"x"})

    with pytest.raises(NotFound, match="there is no table"):
        verify(context_of(store, SmallTable().clock))


def test_verify_writes_nothing():
    table = sound_table()
    counting = FaultyStore(table.store)

    table.over(counting).findings()

    assert not [call for call in counting.calls if call.writes]


# What is broken, and what is said of it


def snapshot_key(snapshot_id):
    return f"snapshot/snapshot-{snapshot_id}"


def rewrite(table, snapshot_id, **changes):
    snapshot = table.context.snapshots.snapshot(snapshot_id).model_copy(update=changes)
    table.store.write({snapshot_key(snapshot_id): serialize_snapshot(snapshot)})


def new_delta(table, snapshot_id, entries, **listed):
    """Give a snapshot another delta, whose list says `listed` of it."""
    snapshot = table.context.snapshots.snapshot(snapshot_id)
    (manifest,) = table.context.manifests.delta(snapshot)
    data = encode_manifest(entries)
    table.store.write({"manifest/manifest-odd-0": data})
    described = {
        "file_name": "manifest-odd-0",
        "file_size": len(data),
        "num_added_files": sum(entry.kind is EntryKind.ADD for entry in entries),
        "num_deleted_files": sum(entry.kind is EntryKind.DELETE for entry in entries),
        "schema_id": max(entry.file.schema_id for entry in entries),
        "checksum": None,
        **listed,
    }
    list_data = encode_manifest_list([replace(manifest, **described)])
    table.store.write({"manifest/manifest-list-odd-0": list_data})
    rewrite(
        table,
        snapshot_id,
        delta_manifest_list="manifest-list-odd-0",
        delta_manifest_list_size=len(list_data),
        properties={},
    )


def delta_entries(table, snapshot_id):
    (manifest,) = table.context.manifests.delta(table.context.snapshots.snapshot(snapshot_id))
    return table.context.manifests.entries(manifest, with_stats=True)


def data_key(table, snapshot_id):
    (entry,) = delta_entries(table, snapshot_id)
    return f"{table.folders.bucket(entry.partition, entry.bucket)}/{entry.file.file_name}"


def manifest_key(table, snapshot_id):
    return f"manifest/{table.context.manifests.delta(table.context.snapshots.snapshot(snapshot_id))[0].file_name}"


def list_key(table, snapshot_id):
    return f"manifest/{table.context.snapshots.snapshot(snapshot_id).delta_manifest_list}"


def cut(table, key):
    table.store.write({key: table.store.read(key)[:-3]})


def flip(table, key, position=-9):
    data = bytearray(table.store.read(key))
    data[position] ^= 4
    table.store.write({key: bytes(data)})


def gone(table, key):
    table.store.delete([key])


def later_delta(table, change):
    """Let the latest snapshot's delta hold, after its own file, what `change` makes of it."""
    (entry,) = delta_entries(table, 8)
    new_delta(table, 8, [entry, change(entry)])


def second_top_level_file(table):
    file = replace(table.data_file({0: "y", 9: "z"}), level=TOP_LEVEL)
    (entry,) = delta_entries(table, 8)
    new_delta(table, 8, [replace(entry, file=file)])
    rewrite(
        table, 8, total_record_count=table.context.snapshots.snapshot(7).total_record_count + 2, delta_record_count=2
    )


def extra_file_is_missing(table):
    file = replace(table.data_file({1: "a"}), extra_files=("x.index",))
    table.store.write({f"{table.folder()}/x.index": b"index"})
    table.commit([table.message("d", 0, new_files=(file,))], Append())
    gone(table, f"{table.folder()}/x.index")


def odd_key(table, snapshot_id):
    entries = delta_entries(table, snapshot_id)
    new_delta(table, snapshot_id, [replace(entry, file=replace(entry.file, min_key=b"\0")) for entry in entries])


def other_bucket_count(table):
    (entry,) = delta_entries(table, 8)
    new_delta(table, 8, [replace(entry, total_buckets=3)])


def index_manifest_of(table, entries):
    table.store.write({"manifest/index-manifest-odd-0": encode_index_manifest(entries)})
    rewrite(table, 8, index_manifest="index-manifest-odd-0")


def index_entry():
    return IndexManifestEntry(
        partition=bytes(12), bucket=0, index_type="HASH", file_name="index-odd-0", file_size=5, row_count=1
    )


def unknown_schema_of_a_file(table):
    (entry,) = delta_entries(table, 8)
    new_delta(table, 8, [replace(entry, file=replace(entry.file, schema_id=7))])


def another_base(table):
    """Let the base of the latest snapshot lack a manifest that the one before it has."""
    snapshot = table.context.snapshots.snapshot(8)
    data = encode_manifest_list(table.context.manifests.base(snapshot)[:-1])
    table.store.write({"manifest/manifest-list-odd-0": data})
    rewrite(table, 8, base_manifest_list="manifest-list-odd-0", base_manifest_list_size=len(data), properties={})


def repeated_identifier(table):
    other = table.context.snapshots.snapshot(5)
    rewrite(table, 8, commit_identifier=other.commit_identifier)


def wrong_tag(table):
    tag = table.context.tags.tag("old")
    spoiled = replace(tag, snapshot=tag.snapshot.model_copy(update={"total_record_count": 77}))
    table.store.write({"tag/tag-old": serialize_tag(spoiled)})


DAMAGE = {
    "an id in the middle is missing": (
        lambda t: gone(t, snapshot_key(6)),
        "I1 snapshot/snapshot-6: snapshots 6 to 6 are missing",
    ),
    "a snapshot below the boundary": (
        lambda t: t.store.write({"snapshot/snapshot-2": t.store.read("tag/tag-old")}),
        "I1 snapshot/snapshot-2: its id is below the boundary 4",
    ),
    "a boundary that is not a number": (
        lambda t: t.store.write({"lakehouse/boundary": b"soon"}),
        "I1 lakehouse/boundary: it cannot be read",
    ),
    "a snapshot cut short": (lambda t: cut(t, snapshot_key(7)), "I2 snapshot/snapshot-7: it cannot be read"),
    "a snapshot changed in one bit": (
        lambda t: flip(t, snapshot_key(7), 200),
        "I2 snapshot/snapshot-7: it cannot be read",
    ),
    "a tag cut short": (lambda t: cut(t, "tag/tag-old"), "I2 tag/tag-old: it cannot be read"),
    "a changelog cut short": (lambda t: cut(t, "changelog/changelog-2"), "I2 changelog/changelog-2: it cannot be read"),
    "a consumer cut short": (
        lambda t: t.store.write({"consumer/consumer-c": b'{"next'}),
        "I2 consumer/consumer-c: it cannot be read",
    ),
    "a deletion plan that is none": (
        lambda t: t.store.write({"lakehouse/plan-x.json": b"{}"}),
        "I2 lakehouse: it cannot be read",
    ),
    "a pending commit that is none": (
        lambda t: t.store.write({"lakehouse/pending/commit-u-1.json": b"{}"}),
        "I2 lakehouse/pending: it cannot be read",
    ),
    "one identifier committed twice": (repeated_identifier, "I4 snapshot/snapshot-8: APPEND commit"),
    "a file added twice": (lambda t: later_delta(t, lambda entry: entry), "at level 0, which is there already"),
    "a file deleted that was never added": (
        lambda t: later_delta(
            t, lambda e: replace(e, kind=EntryKind.DELETE, file=replace(e.file, file_name="data-ghost.json"))
        ),
        "I7 snapshot/snapshot-8: it deletes data-ghost.json at level 0, which is not there",
    ),
    "one file live at two levels": (
        lambda t: later_delta(t, lambda e: replace(e, file=replace(e.file, level=TOP_LEVEL))),
        "the file is live twice",
    ),
    "a base that forgets files": (
        another_base,
        "I7 snapshot/snapshot-8: its base does not list 1 files that the snapshot before it has",
    ),
    "a wrong total": (
        lambda t: rewrite(t, 8, total_record_count=99),
        "I8 snapshot/snapshot-8: totalRecordCount is 99; expected",
    ),
    "a wrong delta": (
        lambda t: rewrite(t, 8, delta_record_count=99),
        "I8 snapshot/snapshot-8: deltaRecordCount is 99; expected 1",
    ),
    "a changelog count without changelog": (
        lambda t: rewrite(t, 8, changelog_record_count=5),
        "changelogRecordCount is 5; expected 0",
    ),
    "a wrong total in a tag": (wrong_tag, "I8 tag/tag-old: totalRecordCount is 77; expected"),
    "time going back": (
        lambda t: rewrite(t, 8, time_millis=5),
        "I8 snapshot/snapshot-8: timeMillis is 5; expected at least",
    ),
    "a watermark going back": (
        lambda t: rewrite(t, 7, watermark=1000),
        "I8 snapshot/snapshot-8: the watermark is None; expected at least 1000",
    ),
    "a list that miscounts its manifest": (
        lambda t: new_delta(t, 8, delta_entries(t, 8), num_added_files=4),
        "I8 manifest/manifest-odd-0: it adds 1 and deletes 0 files; expected 4 and 0",
    ),
    "a list that knows an older schema only": (
        lambda t: (
            t.store.write({"schema/schema-1": serialize_schema(replace(t.schema, id=1))}),
            new_delta(t, 8, [replace(e, file=replace(e.file, schema_id=1)) for e in delta_entries(t, 8)], schema_id=0),
        ),
        "I8 manifest/manifest-odd-0: its newest schema is 1; expected 0",
    ),
    "a data file is missing": (
        lambda t: gone(t, data_key(t, 8)),
        ".json: it is missing; expected a file, because snapshot/snapshot-8 needs it",
    ),
    "a data file cut short": (lambda t: cut(t, data_key(t, 8)), ".json: it has 7 bytes; expected 10"),
    "an extra file is missing": (extra_file_is_missing, "I11 bucket-0/x.index: it is missing"),
    "a data file of a tag is missing": (
        lambda t: gone(t, f"{t.folder()}/{_a_file_of(t, 'old')}"),
        "because tag/tag-old needs it",
    ),
    "a file of a changelog is missing": (
        lambda t: gone(t, f"{t.folder()}/{_a_changelog_file_of(t, 3)}"),
        "because changelog/changelog-3 needs it",
    ),
    "a manifest is missing": (lambda t: gone(t, manifest_key(t, 8)), "it is missing, but a snapshot names it"),
    "a manifest cut short": (lambda t: cut(t, manifest_key(t, 8)), "it cannot be read"),
    "a manifest changed in one bit": (lambda t: flip(t, manifest_key(t, 8), -40), "it cannot be read"),
    "a manifest list is missing": (lambda t: gone(t, list_key(t, 8)), "it is missing; expected a file"),
    "a manifest list cut short": (lambda t: cut(t, list_key(t, 8)), "bytes; expected"),
    "a manifest list changed in one bit": (lambda t: flip(t, list_key(t, 8)), "it cannot be read"),
    "an index manifest is missing": (
        lambda t: rewrite(t, 8, index_manifest="index-manifest-ghost"),
        "I11 manifest/index-manifest-ghost: it is missing",
    ),
    "an index file is missing": (
        lambda t: index_manifest_of(t, [index_entry()]),
        "I11 index/index-odd-0: it is missing",
    ),
    "an index file that leaves its folder": (
        lambda t: index_manifest_of(t, [replace(index_entry(), file_name="../schema/schema-0")]),
        "record 0: field _FILE_NAME is '../schema",
    ),
    "a statistics file is missing": (
        lambda t: rewrite(t, 8, statistics="stat-ghost"),
        "I11 statistics/stat-ghost: it is missing",
    ),
    "a hint that is not a number": (
        lambda t: t.store.write({"snapshot/LATEST": b"yesterday"}),
        "I17 snapshot/LATEST: it holds 'yesterday'",
    ),
    "a hint beyond the latest": (
        lambda t: t.store.write({"snapshot/LATEST": b"12"}),
        "I17 snapshot/LATEST: it says 12; expected at most 8",
    ),
    "a changelog hint beyond the last": (
        lambda t: t.store.write({"changelog/LATEST": b"12"}),
        "I17 changelog/LATEST: it says 12; expected at most 3",
    ),
    "overlapping files in a level": (second_top_level_file, "at level 5 its keys begin at (0,), those of"),
    "a key of other types at level 0": (
        lambda t: odd_key(t, 8),
        "its smallest or greatest key cannot be decoded",
    ),
    "a key of other types above level 0": (
        lambda t: odd_key(t, 4),
        "its smallest or greatest key cannot be decoded",
    ),
    "two bucket counts in a partition": (other_bucket_count, "its files were written for 2 and 3 buckets"),
    "a schema cut short": (lambda t: cut(t, "schema/schema-0"), "I23 schema/schema-0: it cannot be read"),
    "a file of an unknown schema": (
        unknown_schema_of_a_file,
        ".json: it needs schema 7; expected a schema file that can be read",
    ),
    "a snapshot of an unknown schema": (
        lambda t: rewrite(t, 8, schema_id=7),
        "I23 snapshot/snapshot-8: it needs schema 7",
    ),
    "a branch without schema": (
        lambda t: t.store.write({"branch/branch-b/snapshot/snapshot-1": b"{}"}),
        "I23 branch/branch-b/schema: the branch has no schema",
    ),
    "a branch's snapshot cut short": (
        lambda t: (t.branch("b", at=5), cut(t, "branch/branch-b/snapshot/snapshot-5")),
        "I2 branch/branch-b/snapshot/snapshot-5: it cannot be read",
    ),
}


def _a_file_of(table, tag):
    tagged = {
        entry.file.file_name for entry in table.context.manifests.live_entries(table.context.tags.tag(tag).snapshot)
    }
    retained = {
        entry.file.file_name
        for s in table.context.snapshots.history()
        for entry in table.context.manifests.live_entries(s)
    }
    return min(tagged - retained)


def _a_changelog_file_of(table, changelog_id):
    (manifest,) = table.context.manifests.delta(table.context.changelogs.changelog(changelog_id))
    return table.context.manifests.entries(manifest)[0].file.file_name


@pytest.mark.parametrize(("damage", "said"), DAMAGE.values(), ids=DAMAGE.keys())
def test_every_kind_of_damage_is_named(damage, said):
    table = sound_table()
    damage(table)

    # What a handle has read before hides nothing.
    for handle in (context_of(table.store, table.clock), table.context):
        findings = [str(finding) for finding in verify(handle)]

        assert any(said in finding for finding in findings), findings


@pytest.mark.parametrize(("damage", "said"), DAMAGE.values(), ids=DAMAGE.keys())
def test_a_finding_says_what_was_expected_and_what_to_do(damage, said):
    table = sound_table()
    damage(table)

    for finding in verify(table.context):
        assert all((finding.object, finding.found, finding.expected, finding.advice))
        assert str(finding).startswith(f"{finding.promise} {finding.object}: ")


def test_one_damaged_file_is_reported_once_however_many_roots_need_it():
    table = sound_table()
    key = data_key(table, 5)
    gone(table, key)

    assert [finding.split(":")[0] for finding in table.findings()] == [f"I11 {key}"]


def test_after_a_missing_manifest_the_rest_of_the_history_is_still_looked_at():
    table = sound_table()
    gone(table, manifest_key(table, 6))
    gone(table, data_key(table, 8))

    found = " ".join(table.findings())

    assert "manifest" in found
    assert "because snapshot/snapshot-8 needs it" in found


@pytest.mark.slow
def test_what_an_expiry_takes_meanwhile_is_not_reported():
    calls = FaultyStore(sound_table().store)
    counted = sound_table().over(calls)
    counted.findings()
    for number in range(1, len(calls.calls) + 1):
        table = sound_table()

        def interrupt(call, number=number, inner=table.store, table=table):
            if call.number == number:
                expire(context_of(inner, table.clock), retain_max=1)

        inner = table.store
        findings = table.over(FaultyStore(inner, on_call=interrupt)).findings()

        assert findings == [], number
        assert table.over(inner).findings() == []


def test_a_schema_that_was_added_meanwhile_is_not_missing():
    ready = MemoryPlace({"k": "INT NOT NULL"}, (["k"], [], {"bucket": "1"}), {})
    ready.table().write([{"k": 1}])
    for number in count(1):
        place = ready.copy()

        def interrupt(call, number=number, place=place):
            if call.number == number:
                place.table().alter(lc.AddColumn("n", "INT"))
                place.table().write([{"k": 2, "n": 2}])

        store = FaultyStore(place.store, on_call=interrupt)
        assert place.table(store).verify(data=True).findings == (), number
        if len(store.calls) < number:
            break


def test_a_branch_that_is_deleted_while_the_roots_are_read_is_not_broken():
    ready = MemoryPlace({"k": "INT NOT NULL"}, (["k"], [], {"bucket": "1"}), {})
    ready.table().write([{"k": 1}])
    ready.table().create_branch("b")

    def interrupt(call):
        if call.key.endswith("snapshot-1") and "branch" not in call.key:
            ready.table().delete_branch("b")

    store = FaultyStore(ready.store, on_call=interrupt)

    assert ready.table(store).verify().findings == ()
    assert [branch.name for branch in ready.table().branches()] == []


def test_a_tag_is_looked_at_also_where_every_listed_snapshot_expires_meanwhile():
    ready = MemoryPlace({"k": "INT NOT NULL"}, (["k"], [], {"bucket": "1"}), {})
    ready.table().write([{"k": 1}])
    ready.table().create_tag("kept")
    for number in count(1):
        place = ready.copy()

        def interrupt(call, number=number, place=place):
            if call.number == number:
                place.table().write([{"k": 2}])
                place.table().expire_snapshots(retain_max=1, older_than=timedelta(0))

        store = FaultyStore(place.store, on_call=interrupt)
        assert place.table(store).verify().findings == (), number
        if len(store.calls) < number:
            break


def interrupted_by_an_older_version():
    """Return a table in which an expiry ended after it had forbidden ids and before it made their changelogs."""
    table = SmallTable(options={**DECOUPLED, "lakehouse.read.grace": "1 h"})
    for number in range(4):
        table.write({1: f"v{number}"})
    snapshots = {key: table.store.read(key) for key in map(snapshot_key, (1, 2, 3))}
    table.expire(retain_max=1)
    (plan,) = (key for key in table.objects() if key.startswith("lakehouse/plan-"))
    assert b'"made_changelog_ids"' in table.store.read(plan)
    return table, snapshots


def test_a_changelog_that_an_expiry_did_not_come_to_make_is_told_of():
    table, snapshots = interrupted_by_an_older_version()
    assert table.findings() == []
    gone(table, "changelog/changelog-2")

    (lost,) = table.findings()
    assert lost.startswith("I1 changelog/changelog-2: it is missing, and snapshot 2 has expired; ")
    assert "Restore it" in lost

    table.store.write({snapshot_key(2): snapshots[snapshot_key(2)]})
    assert "Expire snapshots, which makes it." in " ".join(table.findings())


def test_keys_that_touch_are_in_one_file_only():
    table = SmallTable()
    low = replace(table.data_file({1: "a", 5: "b"}), level=TOP_LEVEL)
    high = replace(table.data_file({6: "a", 9: "b"}), level=TOP_LEVEL)
    table.commit([table.message("d", 0, new_files=(low, high))], Append())

    assert table.findings() == []

    (entry, other) = table.context.manifests.live_entries(table.context.snapshots.latest())
    touching = replace(other, file=replace(other.file, min_key=serialize_row((5,), [INT])))
    table.store.write({"snapshot/snapshot-2": table.store.read("snapshot/snapshot-1")})
    gone(table, "snapshot/snapshot-2")
    new_delta_of_first(table, [replace(entry), touching])

    assert "its keys begin at (5,)" in " ".join(table.findings())


def new_delta_of_first(table, entries):
    (manifest,) = table.context.manifests.delta(table.context.snapshots.snapshot(1))
    stats = {entry.file.file_name: entry for entry in table.context.manifests.entries(manifest, with_stats=True)}
    written = [
        replace(entry, file=replace(stats[entry.file.file_name].file, min_key=entry.file.min_key)) for entry in entries
    ]
    new_delta(table, 1, written)


def test_a_table_rolled_back_below_its_boundary_is_told_how_to_go_on():
    table = SmallTable()
    for number in range(4):
        table.write({1: f"v{number}"})
    early = table.store.read("snapshot/snapshot-2")
    table.expire(retain_max=1)
    table.store.write({"snapshot/snapshot-2": early})
    gone(table, "snapshot/snapshot-4")

    found = " ".join(table.findings())

    assert "snapshot/snapshot-2: its id is below the boundary 4" in found
    assert "Write 2 into lakehouse/boundary if that was meant." in found


@pytest.mark.parametrize("partitions", [["p"], []])
@pytest.mark.parametrize("reads_data", [True, False])
def test_two_deletion_vectors_of_one_file_are_a_finding(partitions, reads_data):
    columns = {"k": "INT NOT NULL", "p": "INT NOT NULL", "v": "STRING", "n": "INT"}
    options = {"bucket": "-1", "deletion-vectors.enabled": "true"}
    place = MemoryPlace(columns, (["k"], partitions, options), {})
    for value in ("a", "b"):
        place.table().write([{"k": k, "p": 0, "v": value, "n": k} for k in range(3 if value == "a" else 2)])
        place.table().compact(full=value == "a")
    context = place.table()._context
    latest = context.snapshots.latest()
    entries = context.manifests.index_entries(latest)
    (marked,) = (entry for entry in entries if entry.deletion_vectors)
    twice = [*entries, replace(marked, file_name=f"{marked.file_name}-other")]
    place.store.write({"db.db/t/index/" + twice[-1].file_name: place.store.read(f"db.db/t/index/{marked.file_name}")})
    place.store.write({"db.db/t/manifest/index-manifest-odd-0": encode_index_manifest(twice)})
    changed = latest.model_copy(update={"index_manifest": "index-manifest-odd-0", "properties": {}})
    place.store.delete([f"db.db/t/snapshot/snapshot-{latest.id}"])
    place.store.write({f"db.db/t/snapshot/snapshot-{latest.id}": serialize_snapshot(changed)})

    (found,) = (str(one) for one in place.table().verify(data=reads_data).findings if "vector" in str(one))

    assert "expected one vector per data file" in found
