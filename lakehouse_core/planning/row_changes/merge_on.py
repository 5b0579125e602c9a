"""ON of a MERGE: which columns it compares, and what it says of the table alone.

Source: docs/semantics/row-changes.md#merge.
"""

from typing import Any

from sqlglot import exp

from lakehouse_core.planning.sql.conditions import translated_condition
from lakehouse_core.planning.sql.pushing import conjuncts
from lakehouse_core.table.predicate import Predicate, all_of, bind
from lakehouse_core.table.schema import TableSchema


def equated_columns(on: Any, target: str, source: str) -> tuple[dict[str, str], list[Any]]:
    """Return the columns of the table that ON says are equal to columns of the source, and the other conjuncts."""
    found: dict[str, str] = {}
    rest = []
    for node in conjuncts(on):
        sides = (node.this, node.expression) if isinstance(node, exp.EQ) else ()
        names = {str(each.table): str(each.name) for each in sides if isinstance(each, exp.Column)}
        if len(names) == 2 and names[target] not in found:
            found[names[target]] = names[source]
        else:
            rest.append(node)
    return found, rest


def target_condition(on: Any, target: str, schema: TableSchema, *, in_utc: bool) -> Predicate | None:
    """Return what ON says of the rows of the table, as far as a scan can test it; None if nothing is known."""
    found = []
    for node in conjuncts(on):
        if {str(each.table) for each in node.find_all(exp.Column)} == {target}:
            condition = translated_condition(node, schema.fields, in_utc=in_utc)
            if condition is not None:
                found.append(bind(condition, schema.fields))
    return all_of(found)
