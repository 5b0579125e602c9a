"""Exact quotients of decimals, which DuckDB divides as DOUBLE: by integers that hold all their digits.

Rule: a half is rounded away from zero. What needs more than 38 digits on its way is left to DuckDB.
Source: docs/sql.md#without-spark.
"""

from typing import Any, Final

from lakehouse_core.planning.sql.duckdb.decimals import Size, decimal_text
from lakehouse_core.planning.sql.duckdb.fragments import fragment

_MOST_DIGITS: Final = 38
_MOST_SCALE: Final = 18
_OF_BIGINT: Final = 18


def exact_quotient(dividend: Any, of: Size, divisor: Any, by: Size, result: Size) -> Any | None:
    """Return the quotient of two decimals or integers of the sizes `of` and `by`, as a decimal of the size `result`;
    NULL where the divisor is zero. None where a step would need too many digits.

    Each side stands in it once, so that a quotient of quotients stays short.
    """
    scale = result[1] + 1
    shift = scale + by[1] - of[1]
    widths = (_width(of), of[0] + shift, result[0] + 1, _width(by))
    if shift < 0 or max(widths) > _MOST_DIGITS or result[1] > _MOST_SCALE:
        return None
    kind = "BIGINT" if max(widths) <= _OF_BIGINT else "HUGEINT"
    above = f"{_unscaled(of, kind, 'x')} * CAST({10**shift} AS {kind})"
    # One digit more than asked for: DuckDB cuts off what is behind it, and the cast rounds by it.
    cut = f"CAST({above} // {_unscaled(by, kind, 'y')} AS {decimal_text((max(result[0] + 1, scale), 0))})"
    point = f"CAST(0.{1:0{scale}} AS {decimal_text((scale, scale))})"
    return fragment(f"CAST({cut} * {point} AS {decimal_text(result)})", x=dividend, y=divisor)


def _width(size: Size) -> int:
    """Return how many digits a number has beside the power of ten that makes it an integer."""
    return size[0] + size[1] + 1 if size[1] else size[0]


def _unscaled(size: Size, kind: str, name: str) -> str:
    """Return the SQL of a number, which has a name there, as an integer without its point."""
    if not size[1]:
        return f"CAST(:{name} AS {kind})"
    # DuckDB multiplies two decimals of at most 18 digits in 64 bits, even if their product has more.
    digits = size[1] + 1 if _width(size) <= _OF_BIGINT else max(size[1], _OF_BIGINT) + 1
    return f"CAST(:{name} * CAST({10 ** size[1]} AS DECIMAL({digits}, 0)) AS {kind})"
