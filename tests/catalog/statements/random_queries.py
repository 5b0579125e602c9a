"""Queries made at random: numbers of every type, computed, compared, cast and carried through other queries."""

import random
from collections.abc import Sequence
from decimal import Decimal

import lakehouse_core as lc

TABLE = "s.measures"
COLUMNS = {
    "k": "INT NOT NULL",
    "g": "INT",
    "i": "INT",
    "l": "BIGINT",
    "t": "TINYINT",
    "d": "DECIMAL(7, 2)",
    "e": "DECIMAL(15, 4)",
    "w": "DECIMAL(22, 0)",
    "f": "DOUBLE",
}
_NUMBERS = ("i", "l", "t", "d", "e", "w", "f")
_LITERALS = ("0", "1", "3", "0.5", "1.25", "100.00", "7", "2")
_DERIVED = ("a", "b", "c")


def make_table(catalog: lc.Catalog) -> None:
    """Create the table of the queries in database `s`: 24 rows, a third of the values NULL."""
    chance = random.Random(7)
    rows = [
        {
            "k": number,
            "g": number % 3,
            "i": chance.randrange(-9, 9),
            "l": chance.randrange(-99, 99),
            "t": chance.randrange(-5, 5),
            "d": Decimal(chance.randrange(-99999, 99999)) / 100,
            "e": Decimal(chance.randrange(-9999999, 9999999)) / 10000,
            "w": Decimal(chance.randrange(-(10**6), 10**6)),
            "f": chance.randrange(-64, 64) / 8,
        }
        for number in range(24)
    ]
    for row in rows:
        for name in _NUMBERS:
            if chance.random() < 1 / 4:
                row[name] = None
    catalog.create_table(TABLE, COLUMNS).write(rows)


def random_query(seed: int) -> str:
    """Return a query over the table, which the seed decides: derived columns, then columns or aggregates of these."""
    chance = random.Random(seed)
    inner = _derived(chance)
    if chance.random() < 1 / 4:
        inner = f"{inner} UNION ALL {_derived(chance)}"
    source, before = f"({inner}) AS x", ""
    if chance.random() < 1 / 3:
        source, before = "x", f"WITH x AS ({inner}) "
    if chance.random() < 1 / 2:
        columns = ", ".join(f"{_aggregate(chance)} AS c{number}" for number in range(4))
        return f"{before}SELECT g, {columns} FROM {source} GROUP BY g ORDER BY g"
    columns = ", ".join(f"{_number(chance, _DERIVED, 2)} AS c{number}" for number in range(4))
    return f"{before}SELECT k, {columns} FROM {source} ORDER BY k, a, b, c"


def _derived(chance: random.Random) -> str:
    columns = ", ".join(f"{_number(chance, _NUMBERS, 2)} AS {name}" for name in _DERIVED)
    return f"SELECT k, g, {columns} FROM {TABLE}"


def _aggregate(chance: random.Random) -> str:
    value = _number(chance, _DERIVED, 1)
    aggregate = chance.choice(("sum", "avg", "min", "max", "sum", "avg"))
    text = f"{aggregate}({value})"
    if chance.random() < 1 / 4:
        text = f"{text} FILTER (WHERE {_condition(chance, _DERIVED)})"
    if chance.random() < 1 / 4:
        text = f"{text} {chance.choice('+-*')} {chance.choice(_LITERALS)}"
    return text


def _number(chance: random.Random, columns: Sequence[str], depth: int) -> str:
    if depth == 0 or chance.random() < 1 / 5:
        return chance.choice(columns) if chance.random() < 3 / 4 else chance.choice(_LITERALS)

    def part() -> str:
        return _number(chance, columns, depth - 1)

    match chance.randrange(12):
        case 0 | 1 | 2:
            return f"({part()} {chance.choice('+-*')} {part()})"
        case 3:
            return f"({part()} / (abs({part()}) + 1))"
        case 4:
            return f"CASE WHEN {_condition(chance, columns)} THEN {part()} ELSE {part()} END"
        case 5:
            return f"coalesce({part()}, {part()})"
        case 6:
            return f"if({_condition(chance, columns)}, {part()}, {part()})"
        case 7:
            return f"nullif({part()}, {part()})"
        case 8:
            return f"{chance.choice(('greatest', 'least'))}({part()}, {part()})"
        case 9:
            return f"CAST({part()} AS {chance.choice(('DECIMAL(30, 3)', 'DOUBLE', 'DECIMAL(38, 8)'))})"
        case 10:
            return f"{chance.choice(('abs', '-'))}({part()})"
    return f"(SELECT {chance.choice(('max', 'sum', 'avg'))}(o.{chance.choice(_NUMBERS)}) FROM {TABLE} o)"


def _condition(chance: random.Random, columns: Sequence[str]) -> str:
    return f"{chance.choice(columns)} {chance.choice(('<', '>=', '=', '<>'))} {chance.choice(_LITERALS)}"
