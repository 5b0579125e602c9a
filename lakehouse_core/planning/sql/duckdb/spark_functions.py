"""Functions of Spark that DuckDB lacks or computes in another way, as macros of each box: those of several steps.

Rule: the rewrites of the tree choose a macro by the types of its arguments.
Source: docs/sql.md#without-spark.
"""

from typing import Any, Final

from sqlglot import exp

# What cannot be computed ends in a cast of a message and this to TINYINT: DuckDB takes `error` for volatile, which it
# refuses in windows. No text that a query itself casts ends so.
FAILED: Final = " (failed)"
# Behind a text that Spark does not read as a type: DuckDB shall not read it either. Messages leave it out.
NOT_READ: Final = " (not read)"
DIVIDED_BY_ZERO: Final = "Division by zero"
_MACROS: Final = r"""
-- Numbers.
spark_long(x) AS CASE
    WHEN isnan(x) THEN 0 WHEN x >= 9223372036854775807 THEN 9223372036854775807
    WHEN x <= -9223372036854775808 THEN -9223372036854775808 ELSE CAST(x AS BIGINT) END;
spark_round(x, n) AS CASE
    WHEN abs(x) < 1e15 AND abs(abs(x * 10.0 ** n - trunc(x * 10.0 ** n)) - 0.5) < 1e-5
    THEN CAST(round(CAST(CAST(x AS VARCHAR) AS DECIMAL(38, 18)), n) AS DOUBLE) ELSE round(x, n) END;
spark_ln(x) AS CASE WHEN x > 0 THEN ln(x) END;
spark_log(b, x) AS CASE WHEN b > 0 AND x > 0 THEN ln(x) / ln(b) END;
-- The text of a FLOAT of at least 10,000,000, by the fewest digits that are read as it.
spark_float_digits(x) AS CASE
    WHEN CAST(printf('%.5e', x) AS FLOAT) = x THEN printf('%.5e', x)
    WHEN CAST(printf('%.6e', x) AS FLOAT) = x THEN printf('%.6e', x)
    WHEN CAST(printf('%.7e', x) AS FLOAT) = x THEN printf('%.7e', x) ELSE printf('%.8e', x) END;
spark_float_text(x) AS replace(regexp_replace(spark_float_digits(x), '0*e[+]0*', 'E'), '.E', '.0E');
spark_sign(x) AS CASE WHEN isnan(x) THEN x ELSE CAST(sign(x) AS DOUBLE) END;
spark_signed(x, n) AS CASE WHEN x >= n THEN x - n - n ELSE x END;
spark_shift_left(x, n) AS CAST(spark_signed(
    (CAST(x AS BIGINT) * (CAST(1 AS BIGINT) << CAST(n & 31 AS INTEGER))) & 4294967295, 2147483648) AS INTEGER);
spark_shift_left_long(x, n) AS CAST(spark_signed(
    (CAST(x AS HUGEINT) * (CAST(1 AS HUGEINT) << CAST(n & 63 AS INTEGER))) & CAST(18446744073709551615 AS HUGEINT),
    CAST(9223372036854775808 AS HUGEINT)) AS BIGINT);
spark_shift_right(x, n) AS x >> CAST(n & 31 AS INTEGER);
spark_shift_right_long(x, n) AS x >> CAST(n & 63 AS INTEGER);
-- Dates and times.
spark_second(x) AS CAST(microsecond(x) / 1000000 AS DECIMAL(8, 6));
spark_day_micros(x) AS epoch_us(x) - epoch_us(CAST(CAST(x AS DATE) AS TIMESTAMP));
spark_months(a, b) AS (year(a) - year(b)) * 12 + month(a) - month(b);
spark_months_between(a, b) AS CASE
    WHEN day(a) = day(b) OR (last_day(a) = CAST(a AS DATE) AND last_day(b) = CAST(b AS DATE))
    THEN CAST(spark_months(a, b) AS DOUBLE)
    ELSE spark_months(a, b) + ((day(a) - day(b)) * 86400
        + spark_day_micros(a) // 1000000 - spark_day_micros(b) // 1000000) / 2678400 END;
-- The day of `a`, or the one next to it towards `b` if a part of a day is missing.
spark_whole_day(a, b) AS CAST(a AS DATE) - CAST(CASE
    WHEN CAST(a AS DATE) > CAST(b AS DATE) AND spark_day_micros(a) < spark_day_micros(b) THEN 1
    WHEN CAST(a AS DATE) < CAST(b AS DATE) AND spark_day_micros(a) > spark_day_micros(b) THEN -1 ELSE 0 END AS INTEGER);
spark_whole_months(a, b) AS CAST(trunc((spark_months(spark_whole_day(a, b), b) * 32
    + day(spark_whole_day(a, b)) - day(b)) / 32) AS BIGINT);
spark_truncated(x, n) AS CAST(trunc(x / n) AS BIGINT);
-- Arrays.
spark_element(x, n) AS x[CASE
    WHEN n < 0 OR n >= len(x) THEN CAST('an index is outside of its array, whose first element is 0:failed' AS TINYINT)
    ELSE n + 1 END];
spark_element_at(x, n) AS x[CASE
    WHEN n = 0 OR abs(n) > len(x) THEN CAST('an index of element_at is outside of its array:failed' AS TINYINT)
    ELSE n END];
spark_array_contains(x, e) AS CASE
    WHEN x IS NULL OR e IS NULL THEN NULL WHEN list_contains(x, e) THEN true
    WHEN list_count(x) < len(x) THEN NULL ELSE false END;
spark_array_position(x, e) AS CASE
    WHEN x IS NULL OR e IS NULL THEN NULL ELSE coalesce(list_position(x, e), 0) END;
spark_any(x) AS CASE
    WHEN x IS NULL THEN NULL WHEN list_contains(x, true) THEN true WHEN list_count(x) < len(x) THEN NULL ELSE false END;
spark_all(x) AS CASE
    WHEN x IS NULL THEN NULL WHEN list_contains(x, false) THEN false
    WHEN list_count(x) < len(x) THEN NULL ELSE true END;
spark_distinct(x) AS list_filter(x, lambda e, i: list_position(x, e) = i);
spark_flatten(x) AS CASE WHEN list_count(x) < len(x) THEN NULL ELSE flatten(x) END;
spark_not_empty(x) AS CASE
    WHEN len(x) = 0 THEN error('the step of a sequence does not lead from its start to its end') ELSE x END;
spark_sequence(a, b) AS CASE WHEN a > b THEN generate_series(a, b, -1) ELSE generate_series(a, b) END;
spark_days(a, b) AS CASE
    WHEN a > b THEN generate_series(a, b, to_days(-1)) ELSE generate_series(a, b, to_days(1)) END;
spark_slice_start(n) AS CASE WHEN n = 0 THEN error('slice counts from 1: the start is 0') ELSE n END;
spark_slice_length(n) AS CASE WHEN n < 0 THEN error('the length of a slice is negative') ELSE n END
"""
MACROS: Final = ";\n".join(
    f"CREATE MACRO {macro.strip().replace(':failed', FAILED)}"
    for macro in "\n".join(line for line in _MACROS.splitlines() if not line.startswith("--")).split(";")
)


def call(name: str, *arguments: Any) -> Any:
    """Return the call of a function of DuckDB, or of a macro, with copies of the nodes."""
    return exp.Anonymous(this=name, expressions=[each.copy() for each in arguments])
