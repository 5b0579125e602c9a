"""One table with a column of each type and values at the edges, and the expressions that both engines compute for it.

The files of `expressions/` hold one expression a line. `!` before it: both engines raise an error. `?`: without Spark
it is refused. `aggregates.txt` holds those of all rows.
"""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Final

import lakehouse_core as lc

TABLE: Final = "s.samples"
FOLDER: Final = Path(__file__).parent / "expressions"
COLUMNS: Final = {
    "k": "INT NOT NULL",
    "bo": "BOOLEAN",
    "ti": "TINYINT",
    "i": "INT",
    "n": "INT",  # small: a length, a count, a place
    "l": "BIGINT",
    "f": "FLOAT",
    "d": "DOUBLE",
    "m": "DECIMAL(10, 2)",
    "w": "DECIMAL(22, 4)",
    "s": "STRING",
    "p": "STRING",  # a part of `s`, or not
    "num": "STRING",  # a number as text
    "b": "BINARY",
    "dt": "DATE",
    "ts": "TIMESTAMP(6)",
    "tz": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "a": "ARRAY<INT>",
    "sa": "ARRAY<STRING>",
    "da": "ARRAY<DOUBLE>",
    "mp": "MAP<STRING, INT>",
    "st": "ROW<x INT, y STRING>",
}
_NAN, _INF = float("nan"), float("inf")
# Each column has values of its own; a shorter one begins anew.
_VALUES: Final[dict[str, list[object]]] = {
    "bo": [True, False, None],
    "ti": [0, 1, -1, 127, -128, None, 7],
    "i": [0, 1, -1, 7, -7, 2_147_483_647, -2_147_483_648, None, 100],
    "n": [0, 1, -1, 2, -2, 3, 5, -5, 20, None],
    "l": [0, 1, -1, 12, -12, 9_000_000_000, None, 4_611_686_018_427_387_904],
    "f": [0.0, 0.1, -1.5, 1e10, _NAN, _INF, None, 16_777_216.0, 1e-5],
    "d": [0.0, -0.0, 0.1, -2.5, 2.5, 1e7, 1.5e-7, _NAN, _INF, -_INF, None, 123456789.125, 1e22, 100.0],
    "m": [Decimal("0.00"), Decimal("2.50"), Decimal("-2.50"), Decimal("12345678.99"), None, Decimal("0.05")],
    "w": [Decimal("0.0000"), Decimal("1.2345"), Decimal("-123456789012345678.5"), None, Decimal("99.9999")],
    "s": ["abc", "", " ab ", "a,b,,c", "Ünï cödé", "HELLO world", None, "a.b.c", "aaa", "x_y%z", "🙂b", "\tab\n", "ß"],
    "p": ["b", "", "z", ",", "ö", "world", "a", None, ".", "aa", "_", "🙂"],
    "num": ["12", "-7", "12.7", " 5 ", "1e3", "0", None, "+4", "007"],
    "b": [b"abc", b"", b"\x00\xff", None, "Ü".encode()],
    "dt": [
        date(2013, 1, 1),
        date(2012, 2, 29),
        date(1970, 1, 1),
        date(1899, 12, 31),
        None,
        date(2024, 12, 30),
        date(2021, 1, 3),
    ],
    "ts": [
        datetime(2013, 1, 1),
        datetime(2012, 2, 29, 23, 59, 59, 999999),
        datetime(1969, 12, 31, 23, 59, 59, 500000),
        None,
        datetime(2024, 3, 31, 2, 30, 0, 120000),
    ],
    "tz": [
        datetime(2013, 1, 1, tzinfo=UTC),
        datetime(2013, 7, 1, 12, 30, 15, 123000, tzinfo=UTC),
        None,
        datetime(1969, 12, 31, 23, 59, 59, 500000, tzinfo=UTC),
    ],
    "a": [[1, 2, 3], [], [3, None, 1], None, [5, 5, -5], [2]],
    "sa": [["b", "a"], [], ["x", None, ""], None, ["a", "a", "B"]],
    "da": [[0.5, _NAN, -1.0], [], [1.0, None, -0.0, 0.0], None],
    "mp": [{"a": 1, "b": 2}, {}, {"": 0}, None, {"b": None}],
    "st": [{"x": 1, "y": "a"}, {"x": None, "y": ""}, None],
}
ROWS: Final = 42
# Queries whose answers have decimals that are in no expression alone, and the types of their columns.
ANSWERS: Final = {
    f"SELECT (SELECT 1.5), (SELECT max(m) FROM {TABLE}) AS most, row_number() OVER (ORDER BY k) FROM {TABLE}": (
        "decimal128(2, 1)",
        "decimal128(10, 2)",
        "int32",
    ),
    f"SELECT m FROM {TABLE} UNION ALL SELECT l FROM {TABLE}": ("decimal128(22, 2)",),
    f"WITH v AS (SELECT m + 1 AS z FROM {TABLE} UNION ALL SELECT 1) SELECT z, z / 3 FROM v": (
        "decimal128(12, 2)",
        "decimal128(16, 6)",
    ),
    f"WITH v AS (SELECT NULL AS z UNION ALL SELECT m FROM {TABLE}) SELECT z, z / 3 FROM v": (
        "decimal128(10, 2)",
        "decimal128(14, 6)",
    ),
    "SELECT q + 1, q / 3 FROM VALUES (10.5), (2.25), (NULL) AS v(q)": ("decimal128(5, 2)", "decimal128(8, 6)"),
}


def make_samples(catalog: lc.Catalog) -> None:
    """Create the table in database `s`, which is there."""
    rows = [{"k": row} | {name: values[row % len(values)] for name, values in _VALUES.items()} for row in range(ROWS)]
    catalog.create_table(TABLE, COLUMNS).write(rows)


def expressions(name: str) -> list[str]:
    """Return the expressions of a file that have a value."""
    return [line for line in _lines(name) if line[0] not in "!?"]


def failures() -> list[str]:
    """Return the expressions of all files that are errors on both engines. None of them names a column."""
    return [line.removeprefix("!").strip() for name in files() for line in _lines(name) if line.startswith("!")]


def refused() -> list[str]:
    """Return the expressions of all files that only Spark computes."""
    return [line.removeprefix("?").strip() for name in files() for line in _lines(name) if line.startswith("?")]


def files() -> list[str]:
    """Return the names of the files."""
    return sorted(path.stem for path in FOLDER.glob("*.txt"))


def _lines(name: str) -> list[str]:
    lines = (FOLDER / f"{name}.txt").read_text().splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("--")]
