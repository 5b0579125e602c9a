"""From files to snapshots to runs and back, through compactions, as far as the snapshots that are left tell."""

import random

import pyarrow.parquet as pq
import pytest

import lakehouse_core as lc
from tests.pairs import in_turn


def run(number):
    return f"{number:08x}-run"


@pytest.fixture
def catalog(tmp_path):
    catalog = lc.connect(tmp_path)
    catalog.create_database("db")
    return catalog


@pytest.fixture
def table(catalog):
    """A table of two compactions: runs 1, 2, 4 wrote, runs 3 and 5 compacted."""
    options = {"bucket": "1", "write-only": "true", "lakehouse.read.grace": "0 s"}
    table = catalog.create_table("db.t", {"id": "INT NOT NULL", "w": "INT"}, primary_keys=["id"], options=options)
    write(table, 1)
    write(table, 2)
    table.compact(full=True, properties={lc.RUN_ID: run(3)})
    write(table, 4)
    table.compact(full=True, properties={lc.RUN_ID: run(5)})
    return table


def write(table, number, **where):
    table.write([{"id": number, "w": number, **where}], properties={lc.RUN_ID: run(number)})


def origins(records):
    return [(origin.snapshot_id, origin.run_id, len(origin.inputs), bool(origin.note)) for origin in records]


def test_a_file_is_traced_through_compactions_to_the_runs_of_its_rows(table):
    (file,) = table.files(lineage=True)

    assert (file.snapshot_id, file.run_id) == (5, run(5))
    assert (file.source_snapshot_ids, file.source_run_ids) == ((1, 2, 4), (run(1), run(2), run(4)))
    assert file.is_traced
    assert origins(table.trace_file(f"s3://lake/db.db/t/{file.path}")) == [
        (5, run(5), 2, False),
        (3, run(3), 2, False),
        (4, run(4), 0, False),
        (1, run(1), 0, False),
        (2, run(2), 0, False),
    ]
    (known,) = table.system("files", options={"lakehouse.files.lineage": "true"}).to_arrow().to_pylist()
    assert (known["snapshot_id"], known["run_id"], known["source_run_ids"]) == (5, run(5), [run(1), run(2), run(4)])


def test_without_being_asked_for_no_lineage_is_read(table):
    (file,) = table.files()

    assert (file.snapshot_id, file.source_run_ids, file.is_traced) == (None, None, None)
    assert "run_id" not in table.system("files").schema().names
    with pytest.raises(lc.InvalidRequest, match=r"lakehouse\.files\.lineage"):
        table.system("files", options={"lakehouse.files.lineage": "perhaps"})
    with pytest.raises(lc.InvalidRequest, match=r"lakehouse\.files\.lineage"):
        table.scan(options={"lakehouse.files.lineage": "true"}).count()


def test_a_run_leads_to_its_snapshots_by_its_first_characters_too(table):
    table.write([{"id": 9, "w": 9}], properties={lc.RUN_ID: run(1)})

    assert [snapshot.id for snapshot in table.trace_run(run(1))] == [1, 6]
    assert [snapshot.id for snapshot in table.trace_run(run(3)[:8])] == [3]
    assert list(table.trace_run("some other run")) == []
    assert table.snapshots().to_dicts()[2]["run_id"] == run(3)
    with pytest.raises(
        lc.InvalidRequest, match="'0000000': expected the id of a run, or at least its first 8 characters"
    ):
        table.trace_run("0000000")


def test_a_snapshot_leads_to_the_files_it_made_and_to_what_they_were_made_of(table):
    assert origins(table.trace_snapshot(3)) == [(3, run(3), 2, False), (1, run(1), 0, False), (2, run(2), 0, False)]

    table.overwrite([], dynamic=False)
    assert list(table.trace_snapshot(6)) == []
    with pytest.raises(lc.NotFound, match="Snapshot 60 does not exist yet"):
        table.trace_snapshot(60)


def test_a_rescale_brings_no_rows_so_the_trail_goes_on_through_it(catalog):
    table = catalog.create_table(
        "db.u", {"id": "INT NOT NULL", "w": "INT"}, primary_keys=["id"], options={"bucket": "2", "write-only": "true"}
    )
    for number in (1, 2):
        table.write([{"id": id, "w": number} for id in range(9)], properties={lc.RUN_ID: run(number)})
    table.rescale(3, properties={lc.RUN_ID: run(3)})

    files = table.files(lineage=True)
    assert len(files) == 3
    for file in files:
        assert (file.run_id, file.source_run_ids, file.is_traced) == (run(3), (run(1), run(2)), True)


def test_the_trail_ends_where_snapshots_expired_and_says_so(table):
    table.expire_snapshots(retain_max=2, retain_min=1)

    (file,) = table.files(lineage=True)

    assert (file.source_snapshot_ids, file.source_run_ids, file.is_traced) == ((4,), (run(4),), False)
    assert origins(table.trace_file(file.file_name)) == [
        (5, run(5), 2, False),
        (None, None, 0, True),
        (4, run(4), 0, False),
    ]
    assert table.trace_file(file.file_name)[1].note == "made by an expired snapshot; the earliest retained one is 4"
    assert list(table.trace_run(run(1))) == []
    with pytest.raises(lc.SnapshotExpired):
        table.trace_snapshot(1)


def test_a_rollback_leads_to_what_made_the_files_that_came_back_as_far_as_that_is_known(table):
    table.create_tag("two", at=2)
    assert table.rollback_to(2).snapshot_id == 6
    expected = [(1, run(1), 0, False), (2, run(2), 0, False)]

    assert sorted(origins(table.trace_snapshot(6))) == expected
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert [snapshot.id for snapshot in table.snapshots()] == [6]
    first, second = sorted(origins(table.trace_snapshot(6)), key=lambda one: one[0] or 0)
    assert (first, second) == ((None, None, 0, True), expected[1])
    table.delete_tag("two")
    assert {origin.note for origin in table.trace_snapshot(6)} == {
        "made by an expired snapshot; the earliest retained one is 6"
    }
    assert len(table.trace_snapshot(6)) == len(table.files()) == 2


def test_a_tag_keeps_the_trail_of_its_snapshot(table):
    table.create_tag("third", at=3)
    table.expire_snapshots(retain_max=1, retain_min=1)

    (file,) = table.files(lineage=True)

    assert (file.snapshot_id, file.source_snapshot_ids) == (5, ())
    assert [origin.run_id for origin in table.trace_snapshot(3)] == [run(3), None, None]
    assert [snapshot.id for snapshot in table.trace_run(run(3))] == [3]
    (tagged,) = table.files(at=lc.AtTag("third"), lineage=True)
    assert (tagged.snapshot_id, tagged.run_id, tagged.is_traced) == (3, run(3), False)


def test_a_changelog_that_outlives_its_snapshot_keeps_its_part_of_the_trail(catalog):
    options = {"bucket": "1", "bucket-key": "id", "lakehouse.read.grace": "0 s", "changelog.num-retained.max": "20"}
    table = catalog.create_table("db.a", {"id": "INT NOT NULL", "w": "INT"}, options={**options, "write-only": "true"})
    for number in (1, 2, 3):
        write(table, number)
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert [snapshot.id for snapshot in table.changelogs()] == [1, 2]

    assert [file.run_id for file in table.files(lineage=True)] == [run(1), run(2), run(3)]
    assert [snapshot.id for snapshot in table.trace_run(run(1))] == [1]


def test_a_file_that_the_table_never_had_is_not_found(table):
    with pytest.raises(lc.NotFound, match=r"db\.t: File 'x\.parquet' is not in the table"):
        table.trace_file("x.parquet")
    with pytest.raises(lc.InvalidRequest, match="file"):
        table.trace_file(12)


def test_another_engine_that_went_back_to_an_earlier_snapshot_changes_what_its_numbers_mean(table, tmp_path):
    (before,) = table.files()
    table.create_tag("before", at=5)
    folder = tmp_path / "db.db" / "t" / "snapshot"
    for number in (4, 5):
        (folder / f"snapshot-{number}").unlink()
    (folder / "LATEST").write_text("3")

    write(table, 8)
    write(table, 9)

    assert sorted(file.run_id for file in table.files(lineage=True)) == [run(3), run(8), run(9)]
    # Snapshot 5 is another one now, so the tag's snapshot of that number does not count.
    assert origins(table.trace_file(before.file_name)) == [(None, None, 0, True)]


@pytest.mark.parametrize(
    ("keyed", "vectors"),
    in_turn(2, [(True, False), (True, True), (False, False)]),
    ids=["keys", "deletion vectors", "append"],
)
def test_no_row_comes_from_a_run_that_its_file_is_not_traced_to(catalog, tmp_path, keyed, vectors):
    """Each row says which run wrote it; random writes, overwrites, compactions, tags and expiries."""
    options = {"bucket": "2", "num-sorted-run.compaction-trigger": "3", "lakehouse.read.grace": "0 s"}
    options |= {"deletion-vectors.enabled": "true"} if vectors else {}
    options |= {} if keyed else {"bucket-key": "id", "compaction.min.file-num": "2"}
    columns = {"p": "INT NOT NULL", "id": "INT NOT NULL", "w": "INT NOT NULL"}
    keys = ["p", "id"] if keyed else []
    table = catalog.create_table("db.r", columns, partition_keys=["p"], primary_keys=keys, options=options)
    dice = random.Random(f"{keyed} {vectors}")
    compacted = 0
    for number in range(25):
        rows = [{"p": dice.randrange(2), "id": dice.randrange(12), "w": number} for _ in range(dice.randrange(1, 6))]
        rows = list({(row["p"], row["id"]): row for row in rows}.values())
        properties = {lc.RUN_ID: run(number)}
        match dice.choice(["write"] * 6 + ["overwrite", "compact", "compact", "tag", "expire"]):
            case "write":
                table.write(rows, properties=properties)
            case "overwrite":
                table.overwrite(rows, dynamic=True, properties=properties)
            case "compact":
                table.compact(full=dice.random() < 0.5, properties=properties)
            case "tag" if table.snapshot() is not None:
                table.create_tag(f"t{number}")
            case "expire":
                table.expire_snapshots(retain_max=dice.randrange(6, 12), retain_min=1)
        files = table.files(lineage=True)
        trusted = [file for file in files if file.is_traced]
        compacted += sum(len(file.source_run_ids) > 1 for file in trusted)
        for file in trusted:
            writers = pq.read_table(tmp_path / "db.db" / "r" / file.path, columns=["w"], partitioning=None)["w"]
            assert {run(writer) for writer in writers.to_pylist()} <= {*file.source_run_ids}
        assert all(file.snapshot_id is not None for file in trusted)
    assert compacted > 5
