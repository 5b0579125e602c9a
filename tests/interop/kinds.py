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

_WIDE = [("k", "INT NOT NULL"), ("a", "INT"), ("b", "STRING"), ("c", "BIGINT"), ("d", "DOUBLE")]
# Each row brings some columns; a key comes back within a batch and over batches.
_PARTS: list[list[Row]] = [
    [{"k": 1, "a": 1}, {"k": 2, "a": 2, "b": "two"}, {"k": 1, "b": "one"}, {"k": 3}],
    [{"k": 1, "c": 10}, {"k": 2, "a": 22, "d": 2.5}, {"k": 4, "b": ""}],
    [{"k": 3, "a": 3, "b": "three", "c": 3, "d": 3.0}, {"k": 2, "b": "two again"}, {"k": 2, "c": -2}],
    [{"k": 4, "a": None, "d": -0.5}, {"k": 1, "a": 11, "b": "one again"}],
]
_REMOVED: list[list[Row]] = [
    _PARTS[0],
    [{"_kind": "-D", "k": 1}, {"k": 2, "c": 20}, {"_kind": "-D", "k": 9}],
    [{"k": 1, "d": 1.5}, {"_kind": "-D", "k": 2}, {"k": 2, "a": 222}],
    [{"k": 1, "a": 111, "b": "back"}, {"_kind": "-D", "k": 3}],
]
_GROUPED = [
    ("k", "INT NOT NULL"),
    *(("s", "INT"), ("a", "INT"), ("total", "BIGINT")),
    *(("t", "INT"), ("u", "INT"), ("b", "STRING"), ("names", "STRING")),
    ("free", "STRING"),
]
_GROUP_OPTIONS = {
    "bucket": "1",
    "merge-engine": "partial-update",
    "fields.s.sequence-group": "a,total",
    "fields.t,u.sequence-group": "b,names",
    "fields.total.aggregate-function": "sum",
    "fields.names.aggregate-function": "listagg",
}
# Groups that go on, that come late, that are left out; deletes take back what they carry.
_GROUPS: list[list[Row]] = [
    [
        {"k": 1, "s": 5, "a": 50, "total": 5, "t": 1, "u": 1, "b": "b1", "names": "n1", "free": "f"},
        {"k": 2, "s": 1, "a": 10, "total": 1},
        {"k": 2, "t": 2, "u": None, "b": "b2", "names": "n2"},
    ],
    [
        {"k": 1, "s": 4, "a": 40, "total": 40, "t": 1, "u": 2, "b": "b3", "names": "n3"},
        {"k": 2, "s": None, "a": 99, "total": 99, "free": "g"},
        {"_kind": "-U", "k": 2, "s": 2, "a": 10, "total": 1},
    ],
    [
        {"k": 1, "s": 6, "a": None, "total": None, "t": 1, "u": 1, "b": "late", "names": "n4"},
        {"k": 3, "s": 1, "a": 1, "total": 1, "t": 1, "u": 1, "b": "b", "names": "x", "free": "h"},
    ],
    [
        {"k": 3, "s": 1, "a": 2, "total": 2, "t": 0, "u": 9, "b": "no", "names": "late"},
        {"_kind": "-D", "k": 1, "s": 6, "a": 0, "total": 6},
        {"k": 2, "s": 3, "a": 30, "total": 30, "t": 3, "u": 3, "b": None, "names": None, "free": None},
    ],
]
_AGGREGATED = [
    ("k", "INT NOT NULL"),
    *(("total", "BIGINT"), ("price", "DECIMAL(10, 2)"), ("low", "DATE"), ("high", "STRING"), ("ever", "BOOLEAN")),
    *(("first", "INT"), ("tags", "ARRAY<STRING>"), ("counts", "MAP<STRING, INT>"), ("names", "STRING")),
]
_FUNCTIONS = {"total": "sum", "price": "sum", "low": "min", "high": "max", "ever": "bool_or"} | {
    "first": "first_non_null_value",
    "tags": "collect",
    "counts": "merge_map",
    "names": "listagg",
}


def _aggregates() -> list[list[Row]]:
    """Values of each column that meet within a batch and over batches, nulls among them."""

    def row(k: int, n: int) -> Row:
        return {
            "k": k,
            "total": n,
            "price": f"{n}.25",
            "low": f"2024-02-{n + 1:02}",
            "high": "xyz"[n % 3] * n,
            "ever": n % 2 == 0,
            "first": None if n < 3 else n,
            "tags": [f"t{n}"],
            "counts": [[f"c{n % 2}", n]],
            "names": f"n{n}",
        }

    return [
        [row(1, 1), row(2, 2), row(1, 3), {"k": 3}],
        [row(2, 4), {"k": 1}, row(4, 5)],
        [row(3, 6), row(1, 7), row(3, 0)],
        [row(4, 8), row(5, 9), {"k": 5}],
    ]


_AGGREGATION = {
    "bucket": "1",
    "merge-engine": "aggregation",
    **{f"fields.{name}.aggregate-function": function for name, function in _FUNCTIONS.items()},
}
_SUMMED: list[list[Row]] = [
    [{"k": 1, "n": 5, "v": "a"}, {"k": 2, "n": 7, "v": "b"}],
    [{"_kind": "-U", "k": 1, "n": 5, "v": "a"}, {"_kind": "+U", "k": 1, "n": 6, "v": "c"}, {"k": 3, "n": 1, "v": ""}],
    [{"_kind": "-D", "k": 2, "n": 7, "v": "b"}, {"k": 3, "n": None, "v": None}, {"_kind": "-U", "k": 1, "n": 1}],
    [{"k": 2, "n": 70, "v": "again"}, {"_kind": "-D", "k": 9, "n": 9, "v": "never there"}],
]
_FIRST: list[list[Row]] = [
    [{"k": 1, "v": "first", "n": 1}, {"k": 1, "v": "second", "n": 2}, {"k": 2, "v": None, "n": 2}],
    [{"k": 2, "v": "late", "n": 22}, {"k": 3, "v": "three", "n": 3}],
    [{"k": 1, "v": "third", "n": 3}, {"k": 4, "v": "four", "n": 4}, {"k": 4, "v": "4", "n": 44}],
    [{"k": 5, "v": "five", "n": 5}, {"k": 3, "v": "no", "n": 33}],
]


def _key(name: str, batches: list[list[Row]], *, fields: Sequence[tuple[str, str]] = _PLAIN, **options: str) -> Kind:
    """Return a table with the key `k`; in names of options `_` means `-`, and `__` a dot."""
    given = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return Kind(name=name, fields=fields, primary_keys=["k"], options={"bucket": "1", **given}, batches=batches)


def _with(name: str, fields: Sequence[tuple[str, str]], options: dict[str, str], batches: list[list[Row]]) -> Kind:
    return Kind(name=name, fields=fields, primary_keys=["k"], options=options, batches=batches)


_LOOKUP = {"changelog-producer": "lookup"}
_MERGING = [
    _key("partial-update", _PARTS, fields=_WIDE, merge_engine="partial-update"),
    _with("partial-update groups", _GROUPED, _GROUP_OPTIONS, _GROUPS),
    _key(
        "partial-update remove",
        _REMOVED,
        fields=_WIDE,
        merge_engine="partial-update",
        partial_update__remove_record_on_delete="true",
    ),
    _with("aggregation", _AGGREGATED, _AGGREGATION, _aggregates()),
    _key(
        "aggregation retracts",
        _SUMMED,
        merge_engine="aggregation",
        fields__n__aggregate_function="sum",
        fields__v__aggregate_function="last_value",
    ),
    _key("first-row", _FIRST, merge_engine="first-row"),
    _key("first-row lookup", _FIRST, merge_engine="first-row", changelog_producer="lookup"),
    _key("lookup", _upserts(), changelog_producer="lookup"),
    _key(
        "lookup deduplicated",
        [*_upserts()[:2], _upserts()[1], _upserts()[3]],
        changelog_producer="lookup",
        changelog_producer__row_deduplicate="true",
        changelog_producer__row_deduplicate_ignore_fields="n",
    ),
    _key(
        "lookup sequence",
        _SEQUENCED,
        fields=[("k", "INT NOT NULL"), ("a", "INT"), ("b", "INT"), ("v", "STRING")],
        changelog_producer="lookup",
        sequence__field="a,b",
    ),
    _key("lookup partial-update", _PARTS, fields=_WIDE, merge_engine="partial-update", changelog_producer="lookup"),
    _with("lookup groups", _GROUPED, _GROUP_OPTIONS | _LOOKUP, _GROUPS),
    _with("lookup aggregation", _AGGREGATED, _AGGREGATION | _LOOKUP, _aggregates()),
    _key("full-compaction", _upserts(), changelog_producer="full-compaction"),
    _key(
        "full-compaction partial-update",
        _PARTS,
        fields=_WIDE,
        merge_engine="partial-update",
        changelog_producer="full-compaction",
        changelog_producer__row_deduplicate="true",
    ),
    _key("force-lookup", _upserts(), force_lookup="true"),
    _key("vectors", _upserts(), deletion_vectors__enabled="true"),
    _key("vectors 64", _upserts(), deletion_vectors__enabled="true", deletion_vectors__bitmap64="true"),
    _key("vectors lookup", _upserts(), deletion_vectors__enabled="true", changelog_producer="lookup"),
    _key(
        "vectors partial-update",
        _PARTS,
        fields=_WIDE,
        merge_engine="partial-update",
        deletion_vectors__enabled="true",
    ),
]
_FORMATS = [
    _key(
        "lookup format per level",
        _upserts(),
        file__format__per__level="0:avro,5:orc",
        num_levels="6",
        changelog_producer="lookup",
        changelog_file__format="avro",
    ),
    _key(
        "key indexed",
        _upserts(),
        file_index__bloom_filter__columns="v",
        file_index__bitmap__columns="n",
        file_index__range_bitmap__columns="n",
    ),
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
    _key("key avro deflated", _upserts(), **{"file.format": "avro", "file.compression": "deflate"}),
    _key("key avro stored", _upserts(), **{"file.format": "avro", "file.compression": "null"}),
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
        name="key dynamic",
        fields=_PLAIN,
        primary_keys=["k"],
        options={"bucket": "-1", "dynamic-bucket.target-row-num": "2"},
        batches=_upserts(),
    ),
    Kind(
        name="key dynamic partitioned",
        fields=[("dt", "DATE NOT NULL"), *_PLAIN],
        primary_keys=["dt", "k"],
        partition_keys=["dt"],
        options={"bucket": "-1", "dynamic-bucket.target-row-num": "3", "changelog-producer": "input"},
        batches=_partitioned(_upserts()),
    ),
    Kind(
        name="key dynamic composite",
        fields=_COMPOSITE_FIELDS,
        primary_keys=["s", "b", "d", "t"],
        options={"bucket": "-1", "dynamic-bucket.target-row-num": "2", "dynamic-bucket.max-buckets": "3"},
        batches=_COMPOSITE,
    ),
    Kind(
        name="key dynamic vectors",
        fields=_PLAIN,
        primary_keys=["k"],
        options={"bucket": "-1", "dynamic-bucket.target-row-num": "2", "deletion-vectors.enabled": "true"},
        batches=_upserts(),
    ),
    Kind(
        name="key dynamic lookup",
        fields=_PLAIN,
        primary_keys=["k"],
        options={"bucket": "-1", "dynamic-bucket.target-row-num": "2", "changelog-producer": "lookup"},
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
    *_MERGING,
    *_FORMATS,
]
# Java knows it since 2.0.0.
MERGE_ON_READ = _key(
    "vectors merge-on-read",
    _upserts(),
    deletion_vectors__enabled="true",
    deletion_vectors__merge_on_read="true",
)
BY_NAME = {kind.name: kind for kind in KINDS}
