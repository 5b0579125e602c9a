"""SQL text states exactly the condition that it seems to, or is refused with the piece that is not understood."""

from datetime import UTC, date, datetime, time
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.planning.read.where import parse_where
from lakehouse_core.table.predicate import And, Not, Or, col, is_predicate

a, b = col("a"), col("b")

UNDERSTOOD = [
    ("a = 1", a == 1),
    ("a == 1", a == 1),
    ("a <> 1", a != 1),
    ("a != -1", a != -1),
    ("a < 1", a < 1),
    ("a <= 1.50", a <= Decimal("1.50")),
    ("a > 1e400", a > Decimal("1e400")),
    ("a >= 12345678901234567890123.45", a >= Decimal("12345678901234567890123.45")),
    ("5 < a", a > 5),
    ("5 >= a", a <= 5),
    ("5 = a", a == 5),
    ("(a) = (1)", a == 1),
    ("a = 'it''s'", a == "it's"),
    ("a = true", a == True),  # noqa: E712
    ("a", a == True),  # noqa: E712
    ("NOT a", Not(a == True)),  # noqa: E712
    ("a = X'CAFE'", a == b"\xca\xfe"),
    ("a = DATE '2013-01-05'", a == date(2013, 1, 5)),
    ("a = CAST('2013-01-05' AS DATE)", a == date(2013, 1, 5)),
    ("a = TIME '10:00:00'", a == time(10)),
    ("a >= TIMESTAMP '2013-01-05 10:00:00.123'", a >= datetime(2013, 1, 5, 10, 0, 0, 123000)),
    ("a >= TIMESTAMP '2013-01-05T10:00:00Z'", a >= datetime(2013, 1, 5, 10, tzinfo=UTC)),
    ("a >= TIMESTAMP_LTZ '2013-01-05 10:00:00'", a >= datetime(2013, 1, 5, 10, tzinfo=UTC)),
    ("a = 1 AND b = 2", And((a == 1, b == 2))),
    ("a = 1 OR a = 2 OR a = 3", Or((a == 1, a == 2, a == 3))),
    ("a = 1 AND (b = 2 OR b = 3)", And((a == 1, Or((b == 2, b == 3))))),
    ("NOT (a = 1 AND b = 2)", Not(And((a == 1, b == 2)))),
    ("a IN (1, -2, 2.5)", a.isin([1, -2, Decimal("2.5")])),
    ("a NOT IN ('x')", Not(a.isin(["x"]))),
    ("a BETWEEN 1 AND 2", a.between(1, 2)),
    ("a NOT BETWEEN 1 AND 2", Not(a.between(1, 2))),
    ("a IS NULL", a.is_null()),
    ("a IS NOT NULL", a.is_not_null()),
    ("a LIKE 'x%'", a.startswith("x")),
    ("a NOT LIKE 'x%'", Not(a.startswith("x"))),
    ("a LIKE 'x'", a == "x"),
    ("a LIKE '%'", a.startswith("")),
    ('"a b" = 1', col("a b") == 1),
    ("`a b` = 1", col("a b") == 1),
    ('"a.b" = 1', col("a.b") == 1),
    ("a = 1 -- why", a == 1),
]


@pytest.mark.parametrize(("text", "condition"), UNDERSTOOD, ids=[text for text, _ in UNDERSTOOD])
def test_sql_states_a_condition(text, condition):
    assert parse_where(text) == condition


REFUSED = [
    ("", "is not SQL"),
    ("a =", "is not SQL at character 3"),
    ("a = 1 AND", "is not SQL"),
    ("a = 1 GROUP BY b", "is not SQL"),
    ("a = 'open", "a quote is not closed"),
    ("a <=> 1", "'a IS NOT DISTINCT FROM 1' is not understood"),
    ("a = b", "the column 'b' where a literal is expected (a text is in single quotes: 'paid')"),
    ("a = b + 1", "'b + 1' where a literal is expected"),
    (
        "a = 1 AND lower(b) = 'x'",
        "AND lower(b) = 'x'\": the comparison \"LOWER(b) = 'x'\", in which neither side is a column",
    ),
    ("1 = 1", "in which neither side is a column by itself"),
    ("true", "'TRUE' is not understood"),
    ("a IN (SELECT 1)", "'a IN (SELECT 1)' is not understood"),
    ("a IN ()", "IN without values"),
    ("EXISTS (SELECT 1)", "EXISTS"),
    ("a IS TRUE", "IS with anything but NULL"),
    ("a ILIKE 'x%'", "ILIKE"),
    ("a LIKE '%x'", "only a trailing % is"),
    ("a LIKE 'x_%'", "only a trailing % is"),
    ("a LIKE 'x!%' ESCAPE '!'", "ESCAPE"),
    ("a.b = 1", "nested or qualified"),
    ("a = current_date", "'CURRENT_DATE' where a literal"),
    ("a = INTERVAL '1' DAY", 'DAY" where a literal'),
    ("a = CAST('1' AS INT)", "a literal of type INT"),
    ("a = DATE '2013-02-31'", "no such day"),
    ("a = ?", "'?' where a literal"),
    ("a = 1; DROP TABLE t", "'a = 1; DROP TABLE t' is not understood"),
    ("SELECT 1", "SELECT"),
    ("CASE WHEN a = 1 THEN true END", "CASE"),
    ("(" * 5000 + "a = 1" + ")" * 5000, "nested too deeply"),
    ("a" * (1 << 21), "at most 1048576 are read"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=[text[:30] for text, _ in REFUSED])
def test_what_is_not_understood_is_named(text, message):
    with pytest.raises(InvalidRequest) as refused:
        parse_where(text)

    assert message in str(refused.value)


def test_a_long_chain_of_or_is_one_condition():
    parsed = parse_where(" OR ".join(f"a = {number}" for number in range(2000)))

    assert isinstance(parsed, Or)
    assert len(parsed.parts) == 2000


@given(text=st.text(max_size=60) | st.text(alphabet="ab= 1'\"()<>%,ANDORNTILKE-.;", max_size=60))
def test_any_text_is_a_condition_or_refused(text):
    try:
        parsed = parse_where(text)
    except InvalidRequest:
        return
    assert is_predicate(parsed)
