"""The tables that the queries of `queries.txt` ask, and the queries."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import lakehouse_core as lc

QUERIES = Path(__file__).parent / "queries.txt"


def make_tables(catalog: lc.Catalog) -> None:
    """Make a key table whose reads merge, an append table with partitions, and a small one with every type."""
    catalog.create_database("s")
    orders = catalog.create_table(
        "s.orders",
        {
            "id": "BIGINT NOT NULL",
            "customer": "INT",
            "status": "STRING",
            "amount": "DECIMAL(12, 2)",
            "score": "DOUBLE",
            "day": "DATE",
            "seen": "TIMESTAMP(6)",
            "at": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
            "paid": "BOOLEAN",
            "tags": "ARRAY<STRING>",
            "Note": "STRING",
        },
        primary_keys=["id"],
        options={"bucket": "2"},
    )
    orders.write([_order(number, "new") for number in range(40)])
    orders.write([_order(number, "paid") for number in range(0, 40, 3)])
    customers = catalog.create_table(
        "s.customers", {"id": "INT", "name": "STRING", "region": "STRING"}, partition_keys=["region"]
    )
    customers.write(
        [{"id": number, "name": f"c{number}", "region": ["north", "south", "east"][number % 3]} for number in range(6)]
    )
    customers.write([{"id": 9, "name": None, "region": "north"}])
    values = catalog.create_table(
        "s.numbers", {"a": "INT", "b": "BIGINT", "c": "DECIMAL(5, 1)", "d": "DOUBLE", "f": "FLOAT", "t": "STRING"}
    )
    values.write(
        [
            {"a": 7, "b": 2, "c": Decimal("2.5"), "d": 0.5, "f": 0.1, "t": " x "},
            {"a": -7, "b": 2, "c": Decimal("-2.5"), "d": float("nan"), "f": 1.5, "t": "a_b%c"},
            {"a": None, "b": None, "c": None, "d": None, "f": None, "t": None},
            {"a": 3, "b": 5, "c": Decimal("0.1"), "d": float("inf"), "f": -1.0, "t": "a,b,c"},
            {"a": 0, "b": 9_000_000_000, "c": Decimal("9999.9"), "d": -0.0, "f": 0.0, "t": ""},
        ]
    )


def _order(number: int, status: str) -> dict[str, Any]:
    is_null = number % 7 == 6
    return {
        "id": number,
        "customer": None if number % 11 == 10 else number % 5,
        "status": None if is_null else status,
        "amount": None if is_null else Decimal(number * 125) / 100,
        "score": number / 4 if number % 5 else float("nan"),
        "day": date(2013, 1, 1 + number % 28),
        "seen": datetime(2013, 1, 1 + number % 28, number % 24, 30, 15, 123456),
        "at": datetime(2013, 3, 1 + number % 28, number % 24, tzinfo=UTC),
        "paid": None if is_null else status == "paid",
        "tags": None if is_null else [f"t{number % 3}", "x"][: number % 3],
        "Note": f"note {number}",
    }


def queries() -> list[str]:
    """Return the queries; a line that begins with `--` names a difference that is expected, or explains."""
    return [block.strip() for block in QUERIES.read_text().split("\n\n") if block.strip()]


def rows_of(table: Any, *, ordered: bool) -> list[tuple[Any, ...]]:
    """Return rows as values that compare across engines: numbers as such, times in UTC, NaN equal to itself."""
    columns = [column.to_pylist() for column in table.columns]
    rows = [tuple(map(_value, row)) for row in zip(*columns, strict=True)]
    return rows if ordered else sorted(rows, key=repr)


def _value(value: Any) -> Any:
    match value:
        case float():
            return "NaN" if math.isnan(value) else float(f"{value:.12g}") + 0.0
        case Decimal():
            return float(f"{value:.12g}") + 0.0
        case bool():
            return value
        case int():
            return float(value)
        case datetime():
            return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
        case dict():
            return tuple((key, _value(one)) for key, one in value.items())
        case list() | tuple():
            return tuple(map(_value, value))
    return value
