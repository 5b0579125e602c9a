"""Memberships: the conditions `column IN (SELECT …)` that all rows of a DELETE or UPDATE satisfy, and the text in which
the answers of their queries stand instead: few values, or the name of data.

Rule: values are parameters, never text. Source: docs/sql.md#queries.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from sqlglot import exp

from lakehouse_core.format.data_types import in_backquotes
from lakehouse_core.planning.sql.expressions import PartText, without_case
from lakehouse_core.planning.sql.pushing import conjuncts
from lakehouse_core.planning.sql.query import parse_query
from lakehouse_core.planning.sql.statement import Part, QueryText
from lakehouse_core.planning.sql.tokens import SqlText, TokenCursor


@dataclass(frozen=True, slots=True)
class Membership:
    """A column of the table, and the query that it is tested by: the text of the condition from `start` to `end`."""

    column: str
    query: QueryText
    start: int
    end: int


def memberships(part: Part, columns: Sequence[str], parameters: Mapping[str, Any]) -> Iterator[Membership]:
    """Yield those of a condition over a table with these columns. REQUIRES: `parse_part` took it."""
    text = PartText(part)
    tree = parse_query(QueryText(text, 0, 0), parameters).tree.expressions[0]
    for node in conjuncts(tree):
        if not isinstance(node, exp.In) or node.args.get("query") is None or not isinstance(node.this, exp.Column):
            continue
        names = without_case(str(node.this.name), columns)
        cursor = TokenCursor(text)
        while not cursor.is_done and cursor.start <= int(node.this.this.meta["start"]):
            cursor.skip()
        if len(names) == 1 and cursor.takes("IN") and cursor.takes("("):
            start, end = cursor.start, _end(cursor)
            skipped = len(text.text) - len(part.text)
            query = QueryText(SqlText(text.text[start:end]), 0, 0)
            yield Membership(names[0], query, start - skipped, end - skipped)


def _end(cursor: TokenCursor) -> int:
    """Return the place of the bracket that closes the one before the cursor."""
    depth = 0
    while not cursor.is_done and (depth or not cursor.is_at(")")):
        depth += cursor.is_at("(") - cursor.is_at(")")
        cursor.skip()
    return cursor.start


def with_answers(
    part: Part, answers: Mapping[Membership, Sequence[Any] | str], parameters: Mapping[str, Any]
) -> tuple[Part, dict[str, Any]]:
    """Return the condition with the values that the queries gave, none of which is NULL, or with the names under which
    a statement finds their answers, and its parameters.
    """
    text, found = part.text, dict(parameters)
    names = (name for number in count() if (name := f"answer_{number}") not in found)
    for one in sorted(answers, key=lambda each: each.start, reverse=True):
        answer = answers[one]
        if isinstance(answer, str):
            written = f"SELECT * FROM {in_backquotes(answer)}"
        else:
            given = {next(names): value for value in answer}
            found |= given
            # Nothing is IN (NULL).
            written = ", ".join(f":{name}" for name in given) or "NULL"
        text = f"{text[: one.start]}{written}{text[one.end :]}"
    return Part(SqlText(text), 0, len(text)), found
