"""What real Java Paimon says about merging: the options that it takes, and what its functions make of records."""

import itertools
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from datasketches import hll_sketch

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.format.data_types import DataField, parse_type
from lakehouse_core.format.roaring64 import decode_roaring64
from lakehouse_core.table.merge_spec import merge_spec
from lakehouse_core.table.schema import TableSchema
from tests.interop.judge import Judge, JudgeError
from tests.interop.values import Row
from tests.merge.functions.folding import canonical, records, shown
from tests.oracle.aggregation import Record, flushed, read
from tests.table.merge_options import CASES, COLUMNS, Case

pytestmark = pytest.mark.interop

ROW: Row = {
    **{"k": 1, "a": 1, "b": "b", "c": 1, "s": 1, "t": 1, "bo": True, "vc": "v", "ai": [1], "d": "1.00", "x y": 1},
    **{"p.q": 1, "m": [["a", 1]], "r": [{"x": 1, "y": "y"}], "mt": [["a", {"v": 1, "ts": "1"}]]},
    **{"mi": [["a", {"v": "1", "ts": 1}]]},
}


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    with Judge("2.0.0", tmp_path_factory.mktemp("merging")) as judge:
        yield judge


@pytest.mark.parametrize("case", CASES, ids=lambda case: "; ".join(f"{k}={v}" for k, v in case.options.items()))
def test_java_takes_and_refuses_what_the_decision_table_says(java: Judge, case: Case) -> None:
    table = f"db.t{CASES.index(case)}"

    assert refusal(java, table, case) == case.java


def refusal(java: Judge, table: str, case: Case) -> str:
    """Return when Java refuses the options: at the creation, later when records meet, or never."""
    try:
        java.create(table, COLUMNS.items(), ["k"], options={"bucket": "1", **case.options})
    except JudgeError:
        return "create"
    try:
        java.write(table, [ROW, ROW, ROW])
    except JudgeError:
        return "later"
    return "never"


NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(6, 2)", "DECIMAL(25, 5)")
NESTED = "ARRAY<ROW<x INT, y STRING, z INT>>"
# Java fails where distinct rows are collected and one is NULL: this type stands for arrays without.
PAIRS = "ARRAY<ROW<x INT, y STRING>>"
TIMED = "MAP<STRING, ROW<v INT, ts STRING>>"
# Functions that take values back, and those that only take them.
TAKING_BACK: dict[str, tuple[str, dict[str, str]]] = {
    **{f"sum {text}": (text, {"aggregate-function": "sum"}) for text in NUMBERS},
    **{
        f"{name} {text}": (text, {"aggregate-function": name})
        for name in ("last_value", "last_non_null_value", "primary-key")
        for text in ("INT", "ARRAY<INT>")
    },
    "collect": ("ARRAY<INT>", {"aggregate-function": "collect"}),
    "collect distinct": ("ARRAY<STRING>", {"aggregate-function": "collect", "distinct": "true"}),
    "merge_map": ("MAP<INT, STRING>", {"aggregate-function": "merge_map"}),
    "nested_update": (NESTED, {"aggregate-function": "nested_update"}),
    "nested_update key": (NESTED, {"aggregate-function": "nested_update", "nested-key": "x,y"}),
    "nested_update key ignore": (
        NESTED,
        {"aggregate-function": "nested_update", "nested-key": "x", "nested-key-null-strategy": "ignore"},
    ),
    "nested_update key sequence": (
        NESTED,
        {"aggregate-function": "nested_update", "nested-key": "x", "nested-sequence-field": "z,y"},
    ),
}
ONLY_TAKING: dict[str, tuple[str, dict[str, str]]] = {
    **{f"product {text}": (text, {"aggregate-function": "product"}) for text in NUMBERS},
    **{
        f"{name} {text}": (text, {"aggregate-function": name})
        for name in ("min", "max")
        for text in (*NUMBERS, "STRING", "BYTES", "DATE", "TIME(3)", "TIMESTAMP(6)", "TIMESTAMP_LTZ(3)", "CHAR(3)")
    },
    **{
        f"{name} {text}": (text, {"aggregate-function": name})
        for name in ("first_value", "first_non_null_value", "first_not_null_value")
        for text in ("INT", "MAP<INT, STRING>")
    },
    "bool_and": ("BOOLEAN", {"aggregate-function": "bool_and"}),
    "bool_or": ("BOOLEAN", {"aggregate-function": "bool_or"}),
    "listagg": ("STRING", {"aggregate-function": "listagg"}),
    "listagg delimiter": ("STRING", {"aggregate-function": "listagg", "list-agg-delimiter": "; "}),
    "listagg distinct": ("STRING", {"aggregate-function": "listagg", "distinct": "true"}),
    "listagg distinct no delimiter": (
        "STRING",
        {"aggregate-function": "listagg", "distinct": "true", "list-agg-delimiter": ""},
    ),
    "collect distinct rows": (PAIRS, {"aggregate-function": "collect", "distinct": "true"}),
    "merge_map_with_keytime": (TIMED, {"aggregate-function": "merge_map_with_keytime"}),
    "nested_update limit": (NESTED, {"aggregate-function": "nested_update", "count-limit": "3"}),
    # With a key and a limit, Java's hash map decides which keys of an earlier merge find room.
    "nested_partial_update": (NESTED, {"aggregate-function": "nested_partial_update", "nested-key": "x"}),
    "nested_partial_update ignore": (
        NESTED,
        {"aggregate-function": "nested_partial_update", "nested-key": "x", "nested-key-null-strategy": "ignore"},
    ),
    # Retracts of such a column leave it as it is.
    "max ignored": ("INT", {"aggregate-function": "max", "ignore-retract": "true"}),
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("takes_back", [True, False], ids=["with-retracts", "adds-only"])
def test_functions_make_of_records_what_java_makes_of_them(java: Judge, takes_back: bool, seed: int) -> None:
    columns = TAKING_BACK if takes_back else ONLY_TAKING
    names = {f"c{index}": what for index, what in enumerate(columns.values())}
    options = {
        "bucket": "1",
        "merge-engine": "aggregation",
        **{f"fields.{name}.{key}": text for name, (_, told) in names.items() for key, text in told.items()},
    }
    types = {"k": "INT NOT NULL", **{name: text for name, (text, _) in names.items()}}
    table = f"db.functions_{takes_back}_{seed}"
    java.create(table, types.items(), ["k"], options=options)
    schema = schema_of(types, options)
    spec, runs, generator = merge_spec(schema), [], random.Random(seed)

    for _ in range(5):
        rows = [random_row(generator, types, takes_back) for _ in range(60)]
        java.write(table, rows, commitUser="job")
        runs.append(flushed(spec, records(rows, schema)))
        found: dict[Any, Record] = read(spec, runs)

        assert differing(shown(found, schema), canonical(java.rows(table)), columns) == []


def schema_of(types: dict[str, str], options: dict[str, str]) -> TableSchema:
    fields = [DataField(index, name, parse_type(text)) for index, (name, text) in enumerate(types.items())]
    return TableSchema(id=0, fields=tuple(fields), highest_field_id=len(fields), primary_keys=("k",), options=options)


def differing(ours: list[str], theirs: list[str], columns: dict[str, Any]) -> list[str]:
    """Return the functions whose columns differ, with both values: what is read when a case fails."""
    labels, found = ["k", *columns], []
    assert len(ours) == len(theirs)
    for one, other in zip(map(json.loads, ours), map(json.loads, theirs), strict=True):
        left, right = ([row[name] for name in ("k", *(f"c{i}" for i in range(len(columns))))] for row in (one, other))
        found += [
            f"{label}: {mine} here, {his} in Java"
            for label, mine, his in zip(labels, left, right, strict=True)
            if mine != his
        ]
    return found


def random_row(generator: random.Random, types: dict[str, str], takes_back: bool) -> Row:
    row: Row = {name: random_value(generator, text) for name, text in types.items() if name != "k"}
    kinds = ("+I", "+I", "+U", "-U", "-D") if takes_back else ("+I", "+U")
    return {"_kind": generator.choice(kinds), "k": generator.randrange(12), **row}


# Few different values, small enough that sums and products of hundreds fit every type.
VALUES: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT"), (-1, -1, 1, 1, 0)),
    **dict.fromkeys(("FLOAT", "DOUBLE"), (0.1, -0.0, 0.0, 1.5, -2.25, 1e-3, "NaN")),
    "DECIMAL(6, 2)": ("0.10", "-1.25", "1.01", "0.00", "3.33"),
    "DECIMAL(25, 5)": ("0.00001", "-1.25000", "123456789.00001", "0.00000"),
    "STRING": ("a", "b", "c", "a,b", "a;b", "", " ", "\u00a0", "b c", "é", "\U0001f600", "\uffff", "a; b", ",a,"),
    "CHAR(3)": ("abc", "abd", "zzz"),
    "BYTES": ("", "00", "ff", "7f80", "80"),
    "DATE": ("1969-12-31", "2024-02-29", "1970-01-01"),
    "TIME(3)": ("00:00:00.000", "23:59:59.999"),
    "TIMESTAMP(6)": ("1969-12-31T23:59:58.000001", "2024-02-29T00:00:00.123456"),
    "TIMESTAMP_LTZ(3)": ("1970-01-01T00:00:00.001Z", "2024-02-29T00:00:00.123Z"),
    "BOOLEAN": (True, False),
}


def random_value(generator: random.Random, text: str) -> Any:
    if generator.random() < 0.2:
        return None
    if text in VALUES:
        return generator.choice(VALUES[text])
    if text.startswith("MAP"):
        values: tuple[Any, ...] = ("a", "b", None)
        if text == TIMED:
            values = (None, *({"v": v, "ts": ts} for v in (1, 2) for ts in ("1", "2", "10", None)))
        keys = generator.sample("abcd" if text == TIMED else range(4), generator.randrange(4))
        return [[key, generator.choice(values)] for key in keys]
    elements: tuple[Any, ...] = (1, 2, 3, None) if text == "ARRAY<INT>" else ("a", "b", None)
    if text == NESTED:
        choices: tuple[tuple[Any, ...], ...] = ((1, 2, 3, None), ("a", "b", None), (1, 2, None))
        elements = (None, *(dict(zip("xyz", row, strict=True)) for row in itertools.product(*choices)))
    if text == PAIRS:
        elements = tuple({"x": x, "y": y} for x in (1, None) for y in ("a", "b", None))
    return [generator.choice(elements) for _ in range(generator.randrange(4))]


@pytest.mark.parametrize(
    ("text", "function", "records_of_key"),
    [
        ("TINYINT", "sum", [("+I", 127), ("+I", 1)]),
        ("SMALLINT", "sum", [("+I", -32768), ("-U", 1)]),
        ("INT", "sum", [("+I", None), ("-D", -(2**31))]),
        ("BIGINT", "product", [("+I", 2**62), ("+I", 2)]),
        ("INT", "product", [("+I", -(2**31)), ("-D", -1)]),
        ("INT", "product", [("+I", 3), ("-D", 0)]),
        ("DECIMAL(6, 2)", "product", [("+I", "1.00"), ("-D", "3.00")]),
        ("DECIMAL(6, 2)", "product", [("+I", "1.00"), ("-D", "0.00")]),
        ("INT", "max", [("+I", 3), ("-D", 3)]),
        ("STRING", "listagg", [("+I", "a"), ("-U", "a")]),
        ("BYTES", "hll_sketch", [("+I", "00"), ("+I", "01")]),
        ("BYTES", "rbm32", [("+I", "00"), ("+I", "01")]),
        ("BYTES", "rbm64", [("+I", "ff"), ("+I", "01")]),
    ],
)
def test_records_without_a_result_are_refused_on_both_sides(
    java: Judge, text: str, function: str, records_of_key: list[tuple[str, Any]]
) -> None:
    types = {"k": "INT NOT NULL", "v": text}
    options = {"bucket": "1", "merge-engine": "aggregation", "fields.v.aggregate-function": function}
    rows = [{"_kind": kind, "k": 1, "v": value} for kind, value in records_of_key]
    words = "_".join(str(value) for _, value in records_of_key)
    table = f"db.refused_{function}_{text.split('(', maxsplit=1)[0]}_{words}".replace("-", "m").replace(".", "p")
    java.create(table, types.items(), ["k"], options=options)
    schema = schema_of(types, options)

    with pytest.raises(JudgeError):
        java.write(table, rows)
    with pytest.raises(InvalidRequest, match="Column v"):
        flushed(merge_spec(schema), records(rows, schema))


@pytest.mark.parametrize("kind", ["hll_sketch", "theta_sketch", "rbm32", "rbm64"])
def test_sketches_that_are_united_here_are_those_that_java_unites(java: Judge, kind: str) -> None:
    options = {"bucket": "1", "merge-engine": "aggregation", "fields.v.aggregate-function": kind}
    types = {"k": "INT NOT NULL", "v": "BYTES"}
    table, generator = f"db.sketches_{kind}", random.Random(kind)
    java.create(table, types.items(), ["k"], options=options)
    schema = schema_of(types, options)
    sizes = [(0, 0), (1, 0), (0, 3), (1, 1), (2, 3), (40, 90), (3, 500), (5000, 3), (9000, 9000)]
    spread = 31 if kind != "rbm64" else 60
    rows = [
        {"k": key, "v": sketch_of(java, kind, [generator.getrandbits(spread) for _ in range(size)])}
        for key, pair in enumerate(sizes)
        for size in pair
    ]

    united = flushed(merge_spec(schema), records(rows, schema))
    java.write(table, rows)
    theirs = {row["k"]: row["v"] for row in java.rows(table)}

    for record in united.values():
        assert meaning(kind, record.values["v"]) == meaning(kind, bytes.fromhex(theirs[record.values["k"]]))
    # Java reads ours, too: uniting it with what is there changes nothing.
    java.write(table, [{"k": record.values["k"], "v": record.values["v"].hex()} for record in united.values()])
    for row in java.rows(table):
        assert meaning(kind, bytes.fromhex(row["v"])) == meaning(kind, bytes.fromhex(theirs[row["k"]])), row["k"]


def sketch_of(java: Judge, kind: str, values: list[int]) -> str:
    written: str = java.call("sketch", kind=kind, values=values)["bytes"]
    return written


def meaning(kind: str, data: bytes) -> Any:
    """Return what a sketch says; bytes where both sides write the same.

    The libraries list the entries of small HLL sketches in another order and remember other estimates of the large
    ones, which are the same within the error of a sketch. Java's 64-bit bitmaps may have empty places.
    """
    if kind == "hll_sketch":
        sketch = hll_sketch.deserialize(data)
        return sketch.lg_config_k, pytest.approx(sketch.get_estimate(), rel=0.02), len(data)
    if kind == "rbm64":
        return sorted((key, list(low)) for key, low in decode_roaring64(data).items())
    return data
