"""verify with the data: every page of every file that history needs is decoded, once, and nothing else is said."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

import lakehouse_core as lc


@pytest.fixture
def table(tmp_path):
    """Files of two schemas, of levels 0 and 5, of a tag alone, and of changelogs."""
    catalog = lc.connect(tmp_path)
    catalog.create_database("db")
    table = catalog.create_table(
        "db.t",
        {"k": "INT NOT NULL", "v": "STRING", "m": "MAP<STRING, ARRAY<INT>>"},
        primary_keys=["k"],
        options={"bucket": "2", "changelog-producer": "input", "lakehouse.read.grace": "0 s"},
    )
    rows = [{"k": k, "v": f"v{k}", "m": {"a": [k]}} for k in range(200)]
    table.write(rows)
    table.create_tag("first")
    table.alter(lc.AddColumn("x", "DOUBLE"))
    table.compact(full=True)
    table.write([row | {"x": 0.5} for row in rows[::3]])
    return table


def files(tmp_path, pattern):
    return sorted(path for path in tmp_path.rglob(pattern) if ".dropped" not in path.parts)


def test_sound_files_are_nothing_to_speak_of(table):
    assert table.verify(data=True).findings == ()


@pytest.mark.parametrize("pattern", ["data-*.parquet", "changelog-*.parquet"])
def test_a_changed_bit_in_a_page_of_any_column_is_found_in_the_one_file_that_has_it(table, tmp_path, pattern):
    for path in files(tmp_path, pattern):
        sound = path.read_bytes()
        for end in ends_of_columns(path):
            path.write_bytes(sound[: end - 1] + bytes([sound[end - 1] ^ 1]) + sound[end:])

            (finding,) = table.verify(data=True).findings

            assert (finding.promise, finding.object) == ("I11", f"{path.parent.name}/{path.name}")
            assert table.verify().findings == ()
        path.write_bytes(sound)


def ends_of_columns(path):
    """Where the last page of each column ends."""
    with pq.ParquetFile(path) as file:
        group = file.metadata.row_group(0)
        columns = [group.column(position) for position in range(group.num_columns)]
    starts = [column.dictionary_page_offset or column.data_page_offset for column in columns]
    return [start + column.total_compressed_size for start, column in zip(starts, columns, strict=True)]


@pytest.mark.damage
def test_a_file_that_is_cut_short_is_told_of_once(table, tmp_path):
    path = files(tmp_path, "data-*.parquet")[0]
    path.write_bytes(path.read_bytes()[:-1])

    (finding,) = table.verify(data=True).findings

    assert "bytes" in finding.found
