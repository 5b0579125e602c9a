"""The tables of the interop matrix: every kind in scope, each with batches of rows in the judge's JSON.

Every batch is written by one commit. Kinds of rows are in `_kind`; tables whose rows carry their kind in a column of
their own (`rowkind.field`) have none.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.interop.values import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    name: str
    fields: Sequence[tuple[str, str]]
    primary_keys: Sequence[str] = ()
    partition_keys: Sequence[str] = ()
    options: dict[str, str] = field(default_factory=dict)
    batches: Sequence[Sequence[Row]]


def _upserts(**more: object) -> list[list[Row]]:
    """Inserts, updates, deletes, a delete of what is not there, a key that comes back."""

    def row(kind: str, k: int, v: str | None, n: int | None) -> Row:
        return {"_kind": kind, "k": k, "v": v, "n": n, **more}

    return [
        [row("+I", 1, "one", 1), row("+I", 2, "two", 2), row("+I", 3, None, None), row("+I", 4, "", 4)],
        [row("+U", 2, "two again", 22), row("-D", 3, None, None), row("+I", 5, "five", 5), row("+I", 5, "5", 55)],
        [row("-D", 9, "never there", 9), row("+I", 3, "three is back", 3), row("-U", 1, "one", 1)],
        [row("+I", 6, "a value longer than sixteen characters", -6), row("+U", 1, "one again", 11)],
    ]


def _appends(**more: object) -> list[list[Row]]:
    return [
        [{"k": batch * 10 + i, "v": None if i == 2 else f"v{batch}/{i}", "n": -i, **more} for i in range(5)]
        for batch in range(4)
    ]


def _partitioned(batches: list[list[Row]]) -> list[list[Row]]:
    days = ["2024-02-28", "2024-02-29", "2013-01-01"]
    return [[row | {"dt": days[row["k"] % 3]} for row in batch] for batch in batches]


_PLAIN = [("k", "INT NOT NULL"), ("v", "STRING"), ("n", "BIGINT")]
_SEQUENCED: list[list[Row]] = [
    [{"_kind": "+I", "k": 1, "a": 5, "b": 1, "v": "s5"}, {"_kind": "+I", "k": 2, "a": None, "b": 2, "v": "null"}],
    [{"_kind": "+I", "k": 1, "a": 4, "b": 9, "v": "late"}, {"_kind": "+I", "k": 2, "a": 1, "b": None, "v": "s1"}],
    [{"_kind": "+I", "k": 1, "a": 5, "b": 1, "v": "tie"}, {"_kind": "-D", "k": 2, "a": 0, "b": 0, "v": "late"}],
    [{"_kind": "+I", "k": 3, "a": 7, "b": 1, "v": "x"}, {"_kind": "+I", "k": 3, "a": 6, "b": 2, "v": "y"}],
]
_EVERY_TYPE = [
    ("k", "INT NOT NULL"),
    ("f_boolean", "BOOLEAN"),
    ("f_tinyint", "TINYINT"),
    ("f_smallint", "SMALLINT"),
    ("f_int", "INT"),
    ("f_bigint", "BIGINT"),
    ("f_float", "FLOAT"),
    ("f_double", "DOUBLE"),
    ("f_decimal5", "DECIMAL(5, 2)"),
    ("f_decimal18", "DECIMAL(18, 4)"),
    ("f_decimal38", "DECIMAL(38, 10)"),
    ("f_char", "CHAR(5)"),
    ("f_varchar", "VARCHAR(20)"),
    ("f_string", "STRING"),
    ("f_binary", "BINARY(4)"),
    ("f_varbinary", "VARBINARY(8)"),
    ("f_bytes", "BYTES"),
    ("f_date", "DATE"),
    ("f_time", "TIME(3)"),
    ("f_ts0", "TIMESTAMP(0)"),
    ("f_ts3", "TIMESTAMP(3)"),
    ("f_ts6", "TIMESTAMP(6)"),
    ("f_ltz3", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
    ("f_ltz6", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
    ("f_array", "ARRAY<INT>"),
    ("f_array_array", "ARRAY<ARRAY<BIGINT>>"),
    ("f_map", "MAP<STRING, INT>"),
    ("f_multiset", "MULTISET<STRING>"),
    ("f_row", "ROW<a INT, b STRING, c ROW<d DECIMAL(10, 2), e TIMESTAMP(3)>>"),
    ("f_array_row", "ARRAY<ROW<x INT, y STRING>>"),
]
_FULL_ROW: Row = {
    "f_boolean": True,
    "f_tinyint": -128,
    "f_smallint": 32767,
    "f_int": -2147483648,
    "f_bigint": 9223372036854775807,
    "f_float": 1.5,
    "f_double": -2.25e300,
    "f_decimal5": "-123.45",
    "f_decimal18": "12345678901234.0012",
    "f_decimal38": "-1234567890123456789012345678.0123456789",
    "f_char": "ab",
    "f_varchar": "variable",
    "f_string": "a string that is longer than sixteen, äöü 漢字",
    "f_binary": "01020304",
    "f_varbinary": "0aff",
    "f_bytes": "00112233445566778899aabbccddeeff00",
    "f_date": "1582-10-15",
    "f_time": "23:59:59.999",
    "f_ts0": "1969-12-31T23:59:59",
    "f_ts3": "2024-02-29T13:14:15.678",
    "f_ts6": "9999-12-31T23:59:59.999999",
    "f_ltz3": "2024-02-29T13:14:15.678Z",
    "f_ltz6": "1900-01-01T00:00:00.000001Z",
    "f_array": [1, None, 3],
    "f_array_array": [[1, 2], None, []],
    "f_map": [["a", 1], ["b", None]],
    "f_multiset": [["p", 2], ["q", 1]],
    "f_row": {"a": 1, "b": "in", "c": {"d": "1.25", "e": "2024-02-29T13:14:15.678"}},
    "f_array_row": [{"x": 1, "y": "one"}, None, {"x": None, "y": "two"}],
}
_TYPED = [
    [_FULL_ROW | {"k": 1}, {"k": 2}, _FULL_ROW | {"k": 3, "f_array": [], "f_map": [], "f_row": None}],
    [{"k": 1}, _FULL_ROW | {"k": 4}],
]


def _without_early_fractions(batches: list[list[Row]]) -> list[list[Row]]:
    """ORC loses fractions of a second before 1970: what Java does with them is not what was written."""
    return [
        [row | {"f_ltz6": "1900-01-01T00:00:01.000000Z"} if len(row) > 1 else row for row in batch] for batch in batches
    ]


_COMPOSITE_FIELDS = [
    ("s", "STRING NOT NULL"),
    ("b", "BIGINT NOT NULL"),
    ("d", "DECIMAL(20, 3) NOT NULL"),
    ("t", "TIMESTAMP(6) NOT NULL"),
    ("v", "STRING"),
]
_COMPOSITE: list[list[Row]] = [
    [
        {"s": s, "b": b, "d": "1.500", "t": "2024-02-29T13:14:15.678901", "v": f"{round_}/{s}/{b}"}
        for s in ("", "a", "a longer key than seven bytes", "ä")
        for b in (-1, 0, 2**40)
    ]
    for round_ in range(3)
]

KINDS = [
    Kind(name="append", fields=_PLAIN, batches=_appends()),
    Kind(
        name="append partitioned",
        fields=[("dt", "DATE"), *_PLAIN],
        partition_keys=["dt"],
        batches=_partitioned(_appends()),
    ),
    Kind(name="append bucketed", fields=_PLAIN, options={"bucket": "3", "bucket-key": "k"}, batches=_appends()),
    Kind(
        name="append indexed",
        fields=_PLAIN,
        options={
            "file-index.bloom-filter.columns": "v",
            "file-index.bloom-filter.v.items": "100",
            "file-index.bitmap.columns": "k,v",
            "file-index.range-bitmap.columns": "n,v",
            "file-index.in-manifest-threshold": "1 b",
        },
        batches=_appends(),
    ),
    Kind(name="append every type", fields=_EVERY_TYPE, batches=_TYPED),
    Kind(
        name="append stats none",
        fields=_PLAIN,
        options={"metadata.stats-mode": "none", "fields.n.stats-mode": "full"},
        batches=_appends(),
    ),
    Kind(
        name="append orc", fields=_EVERY_TYPE, options={"file.format": "orc"}, batches=_without_early_fractions(_TYPED)
    ),
    Kind(name="append avro", fields=_EVERY_TYPE, options={"file.format": "avro"}, batches=_TYPED),
    Kind(name="key", fields=_PLAIN, primary_keys=["k"], options={"bucket": "2"}, batches=_upserts()),
    Kind(
        name="key partitioned",
        fields=[("dt", "DATE NOT NULL"), *_PLAIN],
        primary_keys=["dt", "k"],
        partition_keys=["dt"],
        options={"bucket": "2"},
        batches=_partitioned(_upserts()),
    ),
    Kind(name="key every type", fields=_EVERY_TYPE, primary_keys=["k"], options={"bucket": "1"}, batches=_TYPED),
    Kind(
        name="key orc",
        fields=_EVERY_TYPE,
        primary_keys=["k"],
        options={"bucket": "1", "file.format": "orc", "file.compression": "zlib"},
        batches=_without_early_fractions(_TYPED),
    ),
    Kind(
        name="key avro",
        fields=_EVERY_TYPE,
        primary_keys=["k"],
        options={"bucket": "1", "file.format": "avro", "file.compression": "snappy"},
        batches=_TYPED,
    ),
    Kind(
        name="key formats per level",
        fields=_PLAIN,
        primary_keys=["k"],
        options={
            "bucket": "1",
            "file.format.per.level": "0:avro,5:orc",
            "file.compression.per.level": "0:deflate",
            "metadata.stats-mode.per.level": "0:none",
            "changelog-producer": "input",
            "changelog-file.format": "orc",
            "changelog-file.compression": "lz4",
            "changelog-file.stats-mode": "counts",
        },
        batches=_upserts(),
    ),
    Kind(
        name="key composite",
        fields=_COMPOSITE_FIELDS,
        primary_keys=["s", "b", "d", "t"],
        options={"bucket": "4"},
        batches=_COMPOSITE,
    ),
    Kind(
        name="key thin",
        fields=_PLAIN,
        primary_keys=["k"],
        options={"bucket": "1", "data-file.thin-mode": "true"},
        batches=_upserts(),
    ),
    Kind(
        name="key bucket mod",
        fields=_PLAIN,
        primary_keys=["k"],
        options={"bucket": "3", "bucket-function.type": "mod"},
        batches=_upserts(),
    ),
    Kind(
        name="key bucket hive",
        fields=_PLAIN,
        primary_keys=["k"],
        options={"bucket": "3", "bucket-function.type": "hive"},
        batches=_upserts(),
    ),
    Kind(
        name="key sequence",
        fields=[("k", "INT NOT NULL"), ("a", "INT"), ("b", "INT"), ("v", "STRING")],
        primary_keys=["k"],
        options={"bucket": "1", "sequence.field": "a,b"},
        batches=_SEQUENCED,
    ),
    Kind(
        name="key sequence descending",
        fields=[("k", "INT NOT NULL"), ("a", "INT"), ("b", "INT"), ("v", "STRING")],
        primary_keys=["k"],
        options={"bucket": "1", "sequence.field": "a,b", "sequence.field.sort-order": "descending"},
        # Among rows of one write Java 1.4.2 orders ascending all the same; 2.0.0 does as we do.
        batches=_SEQUENCED[:3],
    ),
    Kind(
        name="key ignore-delete",
        fields=_PLAIN,
        primary_keys=["k"],
        options={"bucket": "1", "ignore-delete": "true"},
        batches=_upserts(),
    ),
    Kind(
        name="key rowkind, input",
        fields=[*_PLAIN, ("op", "STRING")],
        primary_keys=["k"],
        options={"bucket": "1", "rowkind.field": "op", "changelog-producer": "input"},
        batches=[[{**row, "op": row["_kind"]} for row in batch] for batch in _upserts()],
    ),
    Kind(
        name="key changelog input",
        fields=_PLAIN,
        primary_keys=["k"],
        options={"bucket": "2", "changelog-producer": "input"},
        batches=_upserts(),
    ),
]
BY_NAME = {kind.name: kind for kind in KINDS}
