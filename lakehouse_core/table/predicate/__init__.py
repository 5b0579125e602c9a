"""Conditions: values that are bound to a schema and tested against statistics and rows."""

from lakehouse_core.table.predicate.binding import bind
from lakehouse_core.table.predicate.bounds import ColumnRange, may_match
from lakehouse_core.table.predicate.conditions import (
    And,
    Column,
    Compare,
    Comparison,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
    all_of,
    col,
    columns_of,
    conjuncts,
    is_predicate,
    only_columns,
    without_columns,
)
from lakehouse_core.table.predicate.expression import scalar, to_expression
from lakehouse_core.table.predicate.points import holds, point_values, simplify
from lakehouse_core.table.predicate.row_sets import Leaf, possible_rows

__all__ = [
    "And",
    "Column",
    "ColumnRange",
    "Compare",
    "Comparison",
    "In",
    "IsNull",
    "Leaf",
    "Not",
    "Or",
    "Predicate",
    "StartsWith",
    "all_of",
    "bind",
    "col",
    "columns_of",
    "conjuncts",
    "holds",
    "is_predicate",
    "may_match",
    "only_columns",
    "point_values",
    "possible_rows",
    "scalar",
    "simplify",
    "to_expression",
    "without_columns",
]
