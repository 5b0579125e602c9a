"""Part facts: the facts of many files that are found at once are those that each file's writer finds."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from lakehouse_core.clock import VirtualClock
from lakehouse_core.data_files import small_files
from lakehouse_core.data_files.parquet.writer import Encoding
from lakehouse_core.data_files.part_facts import part_facts
from lakehouse_core.data_files.small_files import SmallFiles
from lakehouse_core.data_files.writer import FileNames, FileOutput, FileSettings
from lakehouse_core.storage.nowhere import Nowhere
from lakehouse_core.tasks.write import key_writer
from tests.pairs import in_turn
from tests.tasks.loose_files import LooseFiles, key_table

COLUMNS = {
    "p": ("INT", pa.int32()),
    "k": ("STRING", pa.string()),
    "flag": ("BOOLEAN", pa.bool_()),
    "tiny": ("TINYINT", pa.int8()),
    "f": ("FLOAT", pa.float32()),
    "d": ("DOUBLE", pa.float64()),
    "s": ("STRING", pa.string()),
    "b": ("BYTES", pa.binary()),
    "n": ("DECIMAL(30, 2)", pa.decimal128(30, 2)),
    "day": ("DATE", pa.date32()),
    "time": ("TIME(3)", pa.time32("ms")),
    "ms": ("TIMESTAMP(3)", pa.timestamp("ms")),
    "us": ("TIMESTAMP_LTZ(6)", pa.timestamp("us", "UTC")),
    # Java's casts leave more digits than the type has.
    "cast": ("TIMESTAMP(0)", pa.timestamp("ms")),
    "list": ("ARRAY<INT>", pa.list_(pa.int32())),
}


def data(seed: int) -> pa.Table:
    """Rows of ten partitions, some of which have only nulls, zeros of one sign, NaN, or long text in a column."""
    random = np.random.default_rng(seed)
    count = 200
    small = random.integers(-3, 3, count)
    zeros = random.choice([0.0, -0.0, 1.5, -1.5, np.nan], count, p=(0.3, 0.3, 0.19, 0.19, 0.02))
    text = [random.choice(["", "é", "a" * 20, "\U0010ffff" * 20, "b" * 5000]) for _ in range(count)]
    values = {
        "p": np.arange(count) % 10,
        "k": [f"key {number}" for number in random.permutation(count)],
        "flag": small > 0,
        "tiny": small,
        "f": zeros,
        "d": zeros,
        "s": text,
        "b": [each.encode() for each in text],
        "n": [str(each) for each in small],
        "day": small,
        "time": small + 10,
        "ms": small,
        "us": small,
        "cast": small + 1_001,
        "list": [[int(each)] for each in small],
    }
    columns = {}
    for name, (_, kind) in COLUMNS.items():
        array = pa.array(values[name])
        if pa.types.is_floating(kind):
            array = array.cast(kind)
        elif pa.types.is_date(kind) or pa.types.is_time(kind):
            array = array.cast(pa.int32()).cast(kind)
        else:
            array = array.cast(kind)
        is_null = (random.random(count) < 0.1) | (np.arange(count) % 10 == 7)
        columns[name] = array if name in ("p", "k") else pa.array(array.to_pylist(), kind, mask=is_null)
    return pa.table(columns)


def written(options: dict[str, str]) -> tuple[LooseFiles, list[object]]:
    table = key_table(
        {name: kind for name, (kind, _) in COLUMNS.items()},
        primary_keys=("p", "k"),
        partition_keys=("p",),
        bucket="2",
        **options,
    )
    files = [file for seed in range(2) for message in table.write(data(seed)) for file in message.new_files]
    return table, [replace(file, creation_time_millis=None) for file in files]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "options",
    in_turn(
        3,
        [
            {},
            {"metadata__stats_mode": "full"},
            {"metadata__stats_mode": "counts"},
            {"metadata__stats_mode": "none"},
            {"metadata__stats_dense_store": "false", "fields__s__stats_mode": "none"},
            {"metadata__stats_keep_first_n_columns": "3"},
            {"data_file__thin_mode": "true"},
        ],
    ),
    ids=str,
)
def test_the_facts_of_files_that_are_written_together_are_those_of_each_alone(options, monkeypatch):
    found = []
    monkeypatch.setattr(small_files, "part_facts", lambda *given: found.append(given) or part_facts(*given))
    together, entries = written(options)
    assert len(found) == 2
    monkeypatch.setattr(key_writer, "_FEW_ROWS", -1)
    alone, expected = written(options)

    assert len(found) == 2
    assert len(entries) == 40
    assert entries == expected
    assert [together.store.read(info.key) for info in together.store.list("")] == [
        alone.store.read(info.key) for info in alone.store.list("")
    ]


def test_files_of_a_large_batch_are_written_one_by_one_and_are_the_same(monkeypatch):
    _, expected = written({})
    monkeypatch.setattr(small_files, "part_facts", lambda *given: pytest.fail("a large batch was taken"))
    monkeypatch.setattr(small_files, "_MOST_BYTES", 0)
    _, entries = written({})
    assert entries == expected


class Unsettled(Nowhere):
    """Sinks of other files that are still being sent."""

    def settle(self):
        pytest.fail("The other files were waited for.")


def test_where_no_small_file_was_written_no_other_file_is_waited_for():
    encoding = Encoding(key_table().schema)
    output = FileOutput(store=Unsettled(), encoding=encoding, names=FileNames("small"), clock=VirtualClock())
    with SmallFiles(output, FileSettings(prefix="data-", target_bytes=1)) as files:
        assert files.close() == []
