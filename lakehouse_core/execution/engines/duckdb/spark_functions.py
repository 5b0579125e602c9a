"""Functions of Spark that DuckDB lacks or computes in another way, as macros of each box.

Rule: a macro is told what each of its arguments is; the rewrites of the tree choose it by the types of these.
Source: docs/sql.md#without-spark.
"""

from typing import Any, Final

from sqlglot import exp

from lakehouse_core.errors import UnsupportedFeature
from lakehouse_core.planning.sql.tokens import DIALECT

_MACROS: Final = r"""
-- Texts.
spark_upper(x) AS upper(replace(x, 'ß', 'SS'));
spark_not_negative(n) AS CASE WHEN n < 0 THEN 0 ELSE n END;
spark_substring(x, p, n) AS substring(x, CASE WHEN p = 0 THEN 1 ELSE p END, spark_not_negative(n));
spark_lpad(x, n, f) AS CASE WHEN f = '' THEN left(x, spark_not_negative(n)) ELSE lpad(x, CAST(n AS INTEGER), f) END;
spark_rpad(x, n, f) AS CASE WHEN f = '' THEN left(x, spark_not_negative(n)) ELSE rpad(x, CAST(n AS INTEGER), f) END;
spark_locate(f, x, p) AS CASE
    WHEN p IS NULL THEN 0 WHEN f IS NULL OR x IS NULL THEN NULL WHEN p < 1 THEN 0 WHEN f = '' THEN 1
    WHEN strpos(substring(x, p), f) = 0 THEN 0 ELSE strpos(substring(x, p), f) + p - 1 END;
spark_split(x, f) AS CASE WHEN f IS NOT NULL THEN str_split_regex(x, f) END;
spark_split_part(x, f, n) AS CASE
    WHEN n = 0 THEN error('split_part counts from 1: the index is 0')
    WHEN f = '' THEN CASE WHEN n IN (1, -1) THEN x ELSE left(x, 0) END ELSE split_part(x, f, n) END;
spark_chr(n) AS CASE WHEN n < 0 THEN '' ELSE chr(CAST(n & 255 AS INTEGER)) END;
spark_unhex(x) AS CASE WHEN regexp_full_match(x, '[0-9A-Fa-f]*') THEN unhex(x) END;
-- Numbers as texts: Java writes those below 0.001 and from ten million on with an exponent.
spark_significand(x) AS CASE WHEN contains(x, '.') THEN x ELSE x || '.0' END;
spark_from_digits(x) AS left(x, 1) || '.' || CASE rtrim(substring(x, 2), '0') WHEN '' THEN '0'
    ELSE rtrim(substring(x, 2), '0') END;
spark_positive_text(x) AS CASE
    WHEN contains(x, 'e') THEN
        spark_significand(split_part(x, 'e', 1)) || 'E' || CAST(CAST(split_part(x, 'e', 2) AS INTEGER) AS VARCHAR)
    WHEN strpos(x, '.') > 8 THEN spark_from_digits(replace(x, '.', '')) || 'E' || CAST(strpos(x, '.') - 2 AS VARCHAR)
    WHEN starts_with(x, '0.000') AND x <> '0.0' THEN spark_from_digits(substring(x, 6)) || 'E-4'
    ELSE x END;
spark_number_text(x) AS CASE
    WHEN isnan(x) THEN 'NaN' WHEN isinf(x) THEN CASE WHEN x > 0 THEN 'Infinity' ELSE '-Infinity' END
    WHEN starts_with(CAST(x AS VARCHAR), '-') THEN '-' || spark_positive_text(substring(CAST(x AS VARCHAR), 2))
    ELSE spark_positive_text(CAST(x AS VARCHAR)) END;
-- Texts as numbers and times. A text that is none gets a word that says so, which the cast then refuses.
spark_integer(x) AS CASE WHEN regexp_full_match(x, '\s*[+-]?[0-9]+\s*') THEN x ELSE x || ' (not an integer)' END;
spark_decimal(x) AS CASE
    WHEN regexp_full_match(x, '\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*') THEN x
    ELSE x || ' (not a number)' END;
spark_double(x) AS CASE
    WHEN regexp_full_match(x, '(?i)\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?\s*') THEN x
    WHEN regexp_full_match(x, '(?i)\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?[df]\s*')
        THEN regexp_replace(x, '[dDfF]\s*$', '')
    WHEN regexp_full_match(x, '(?i)\s*(nan|[+-]?inf(inity)?)\s*') THEN trim(x)
    ELSE x || ' (not a number)' END;
spark_date(x) AS CASE
    WHEN regexp_full_match(x, '\s*[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([ T].*)?\s*')
        THEN regexp_extract(x, '[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}')
    WHEN regexp_full_match(x, '\s*[0-9]{4}-[0-9]{1,2}\s*') THEN trim(x) || '-01'
    WHEN regexp_full_match(x, '\s*[0-9]{4}\s*') THEN trim(x) || '-01-01'
    ELSE x || ' (not a date)' END;
spark_time(x) AS CASE
    WHEN regexp_full_match(x, '\s*[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([ T][0-9]{1,2}:.*)?\s*') THEN trim(x)
    WHEN regexp_full_match(x, '\s*[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}[ T][0-9]{1,2}\s*') THEN trim(x) || ':00'
    WHEN regexp_full_match(x, '\s*[0-9]{4}(-[0-9]{1,2})?\s*') THEN spark_date(x)
    ELSE x || ' (not a time)' END;
spark_seconds(x) AS epoch_us(x) / 1000000;
spark_whole_seconds(x) AS CAST(floor(epoch_us(x) / 1000000) AS BIGINT);
spark_instant(x) AS CAST(make_timestamp(CAST(trunc(x * CAST(1000000 AS BIGINT)) AS BIGINT)) AS TIMESTAMPTZ);
-- Numbers.
spark_long(x) AS CASE
    WHEN isnan(x) THEN 0 WHEN x >= 9223372036854775807 THEN 9223372036854775807
    WHEN x <= -9223372036854775808 THEN -9223372036854775808 ELSE CAST(x AS BIGINT) END;
spark_round(x, n) AS CASE
    WHEN abs(x) < 1e15 AND abs(abs(x * 10.0 ** n - trunc(x * 10.0 ** n)) - 0.5) < 1e-5
    THEN CAST(round(CAST(CAST(x AS VARCHAR) AS DECIMAL(38, 18)), n) AS DOUBLE) ELSE round(x, n) END;
spark_ln(x) AS CASE WHEN x > 0 THEN ln(x) END;
spark_log(b, x) AS CASE WHEN b > 0 AND x > 0 THEN ln(x) / ln(b) END;
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
spark_after_day(a, b) AS day(a) > day(b) OR (day(a) = day(b) AND spark_day_micros(a) > spark_day_micros(b));
spark_whole_months(a, b) AS spark_months(a, b) - CASE
    WHEN spark_months(a, b) > 0 AND spark_after_day(b, a) THEN 1
    WHEN spark_months(a, b) < 0 AND spark_after_day(a, b) THEN -1 ELSE 0 END;
spark_truncated(x, n) AS CAST(trunc(x / n) AS BIGINT);
-- Arrays.
spark_element(x, n) AS CASE
    WHEN n < 0 OR n >= len(x) THEN error('an index is outside of its array, whose first element is 0')
    ELSE x[n + 1] END;
spark_element_at(x, n) AS CASE
    WHEN n = 0 OR abs(n) > len(x) THEN error('an index of element_at is outside of its array') ELSE x[n] END;
spark_array_contains(x, e) AS CASE
    WHEN x IS NULL OR e IS NULL THEN NULL WHEN list_contains(x, e) THEN true
    WHEN list_count(x) < len(x) THEN NULL ELSE false END;
spark_array_position(x, e) AS CASE
    WHEN x IS NULL OR e IS NULL THEN NULL ELSE coalesce(list_position(x, e), 0) END;
spark_flatten(x) AS CASE WHEN list_count(x) < len(x) THEN NULL ELSE flatten(x) END;
spark_not_empty(x) AS CASE
    WHEN len(x) = 0 THEN error('the step of a sequence does not lead from its start to its end') ELSE x END;
spark_sequence(a, b) AS CASE WHEN a > b THEN generate_series(a, b, -1) ELSE generate_series(a, b) END;
spark_days(a, b) AS CASE
    WHEN a > b THEN generate_series(CAST(a AS TIMESTAMP), CAST(b AS TIMESTAMP), to_days(-1))
    ELSE generate_series(CAST(a AS TIMESTAMP), CAST(b AS TIMESTAMP), to_days(1)) END;
spark_slice_start(n) AS CASE WHEN n = 0 THEN error('slice counts from 1: the start is 0') ELSE n END;
spark_slice_length(n) AS CASE WHEN n < 0 THEN error('the length of a slice is negative') ELSE n END
"""
MACROS: Final = ";\n".join(
    f"CREATE MACRO {macro.strip()}"
    for macro in "\n".join(line for line in _MACROS.splitlines() if not line.startswith("--")).split(";")
)


def call(name: str, *arguments: Any) -> Any:
    """Return the call of a function of DuckDB, or of a macro, with copies of the nodes."""
    return exp.Anonymous(this=name, expressions=[each.copy() for each in arguments])


def cast(node: Any, kind: str) -> Any:
    """Return a copy of the node as a type, which is written as in Spark's SQL."""
    made = exp.Cast(this=node.copy(), to=exp.DataType.from_str(kind, dialect=DIALECT))
    made.type = made.to
    return made


def whole_number(node: Any) -> int | None:
    """Return the value of a literal of a whole number, with or without a sign; None for anything else."""
    match node:
        case exp.Paren():
            return whole_number(node.this)
        case exp.Neg():
            value = whole_number(node.this)
            return None if value is None else -value
        case exp.Literal() if not node.is_string and str(node.this).isdigit():
            return int(node.this)
    return None


def needs_spark(what: str, instead: str) -> UnsupportedFeature:
    """Return the error for a part that this engine would compute in another way."""
    return UnsupportedFeature(f"SQL: {what} is not carried out without Spark. {instead}, or connect with spark=….")
