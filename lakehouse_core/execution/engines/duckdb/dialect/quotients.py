"""Exact quotients of decimals, which DuckDB divides as DOUBLE: by integers that hold all their digits.

Rule: a half is rounded away from zero. What needs more than 38 digits on its way is left to DuckDB.
"""

from typing import Any, Final

from lakehouse_core.execution.engines.duckdb.dialect.decimals import Size, decimal_text
from lakehouse_core.execution.engines.duckdb.dialect.fragments import fragment
from lakehouse_core.execution.engines.duckdb.spark_functions import call

_MOST_DIGITS: Final = 38
_MOST_SCALE: Final = 18
_OF_BIGINT: Final = 18


def exact_quotient(dividend: Any, of: Size, divisor: Any, by: Size, result: Size) -> Any | None:
    """Return the quotient of two decimals or integers of the sizes `of` and `by`, as a decimal of the size `result`;
    NULL where the divisor is zero. None where a step would need too many digits.
    """
    scale = result[1]
    shift = scale + by[1] - of[1]
    widths = (_width(of), of[0] + shift, result[0], _width(by))
    if shift < 0 or max(widths) > _MOST_DIGITS or scale > _MOST_SCALE:
        return None
    kind = "BIGINT" if max(widths) <= _OF_BIGINT else "HUGEINT"
    above = fragment(f"{_unscaled(of, kind)} * CAST({10**shift} AS {kind})", x=dividend)
    quotient = call("spark_quotient", above, fragment(_unscaled(by, kind), x=divisor))
    return fragment(
        f"CAST(CAST(:q // {10**scale} AS {decimal_text(result)}) + CAST(:q % {10**scale} AS DECIMAL({scale}, 0)) "
        f"* CAST(0.{1:0{scale}} AS DECIMAL({scale}, {scale})) AS {decimal_text(result)})",
        q=quotient,
    )


def _width(size: Size) -> int:
    """Return how many digits a number has beside the power of ten that makes it an integer."""
    return size[0] + size[1] + 1 if size[1] else size[0]


def _unscaled(size: Size, kind: str) -> str:
    """Return the SQL of a number as an integer, without its point."""
    return (
        f"CAST(:x * CAST({10 ** size[1]} AS DECIMAL({size[1] + 1}, 0)) AS {kind})" if size[1] else f"CAST(:x AS {kind})"
    )
