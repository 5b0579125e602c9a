"""Random rows of random types: through each library and back, whatever they hold, as they were.

What a library has not is told apart here, so that nothing else may differ: pandas has no NaN beside missing values,
polars has no maps.
"""

import datetime as dt
import random
import tempfile
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import lakehouse_core as lc

ROUNDS = 3
_TEXTS = ("", "a", "\x00", "naïve", "\U0001f389" * 9, 'it\'s "so"\n', " " * 20)
_DAY = dt.date(1, 1, 1)
_WHOLE = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_SIMPLE = (*_WHOLE, "BOOLEAN", "DOUBLE", "FLOAT", "STRING", "BYTES", "DATE", "TIME(3)")
_TYPES = (*_SIMPLE, "DECIMAL(38, 18)", "DECIMAL(5, 0)", "TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP(6)")
_ZONED = "TIMESTAMP(6) WITH LOCAL TIME ZONE"


def search(seed: int) -> None:
    """Raise AssertionError naming the way and the columns that came back otherwise."""
    draw = random.Random(seed)
    for _ in range(ROUNDS):
        columns = {f"c{number}": _type(draw) for number in range(draw.randint(1, 8))}
        rows = [{"id": number, **_row(draw, columns)} for number in range(draw.choice((1, 3, 40)))]
        with tempfile.TemporaryDirectory() as folder:
            _check(lc.connect(folder), columns, rows)


WAYS: dict[str, Callable[[lc.Scan], Any]] = {
    "arrow": lambda scan: scan.to_arrow(),
    "reader": lambda scan: scan.to_reader(),
    "scan": lambda scan: scan,
    "pandas": lambda scan: scan.to_pandas(),
    "polars": lambda scan: scan.to_polars(),
    "duckdb": lambda scan: scan.to_duckdb(),
}


def _check(catalog: lc.Catalog, columns: dict[str, str], rows: list[dict[str, Any]]) -> None:
    catalog.create_database("db")
    declared = {"id": "BIGINT NOT NULL", **columns}
    source = catalog.create_table("db.source", declared)
    source.write(rows)
    for way, give in WAYS.items():
        left_out = [name for name, sql in columns.items() if way == "polars" and "MAP" in sql]
        given = [name for name in declared if name not in left_out]
        target = catalog.create_table(f"db.{way}", declared)
        target.write(give(source.scan(columns=given)))
        found = sorted(target.scan().to_arrow().to_pylist(), key=lambda row: int(row["id"]))
        expected = [{name: None if name in left_out else row[name] for name in declared} for row in rows]
        pairs = list(zip(expected, found, strict=True))
        wrong = {name: sql for name, sql in declared.items() if any(a[name] != b[name] for a, b in pairs)}
        assert not wrong, f"{way}: {wrong} of {expected} came back as {found}"


def _type(draw: random.Random) -> str:
    kind = draw.random()
    if kind < 0.7:
        return draw.choice((*_TYPES, _ZONED))
    if kind < 0.8:
        return f"ARRAY<{draw.choice(_TYPES)}>"
    if kind < 0.9:
        return f"MAP<STRING, {draw.choice(_TYPES)}>"
    return f"ROW<x {draw.choice(_TYPES)}, y {draw.choice(_SIMPLE)}>"


def _row(draw: random.Random, columns: dict[str, str]) -> dict[str, Any]:
    return {name: None if draw.random() < 0.3 else _value(draw, sql) for name, sql in columns.items()}


def _value(draw: random.Random, sql: str) -> Any:
    kind, _, rest = sql.partition("<")
    inner = rest.removesuffix(">")
    match kind:
        case "ARRAY":
            return [None if draw.random() < 0.3 else _value(draw, inner) for _ in range(draw.randint(0, 3))]
        case "MAP":
            item = inner.partition(", ")[2]
            keys = draw.sample(_TEXTS, draw.randint(0, 3))
            return [(key, None if draw.random() < 0.3 else _value(draw, item)) for key in keys]
        case "ROW":
            x, y = inner.removeprefix("x ").rsplit(", y ", 1)
            return {"x": _value(draw, x), "y": None if draw.random() < 0.3 else _value(draw, y)}
        case "BOOLEAN":
            return draw.random() < 0.5
        case "DOUBLE":
            return draw.choice((0.0, -0.0, 0.1, 5e-324, -1.7976931348623157e308, float("inf"), draw.random()))
        case "FLOAT":
            return draw.choice((0.0, 0.5, -(2.0**127), 2.0**-149, float("-inf")))
        case "STRING":
            return draw.choice(_TEXTS)
        case "BYTES":
            return draw.choice((b"", b"\x00\xff", b"x" * 20))
        case "DATE":
            return _DAY + dt.timedelta(draw.choice((0, draw.randint(0, 3_652_058), 3_652_058)))
        case "TIME(3)":
            return (dt.datetime(2000, 1, 1) + dt.timedelta(milliseconds=draw.randint(0, 86_399_999))).time()
        case "DECIMAL(38, 18)":
            return Decimal(draw.choice((0, draw.randint(-(10**38) + 1, 10**38 - 1)))).scaleb(-18)
        case "DECIMAL(5, 0)":
            return Decimal(draw.randint(-99_999, 99_999))
        case _ if kind in _WHOLE:
            top = 1 << (_WHOLE[kind] - 1)
            return draw.choice((-top, top - 1, 0, draw.randint(-top, top - 1)))
        case _:
            digits = int(kind[10])
            micros = draw.choice((-62_135_596_800_000_000, 253_402_300_799_999_999, draw.randint(-(2**55), 2**55)))
            step = 10 ** (6 - digits)
            moment = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=micros - micros % step)
            return moment.replace(tzinfo=dt.UTC) if kind == _ZONED else moment
