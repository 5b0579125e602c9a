"""Columns that a query with groups names outside of them: what is said of one, and where it is."""

import re
from typing import Any, Final

from sqlglot import exp

_NOT_GROUPED: Final = re.compile(r"column (.*) is neither in GROUP BY nor inside an aggregate function\.")


def not_grouped(column: str) -> str:
    """Return what is said of such a column, whose name an engine tells."""
    return (
        f"column {column} is neither in GROUP BY nor inside an aggregate function. Add it to GROUP BY, or take one of "
        f"its values, as in any_value({column})"
    )


def not_grouped_place(message: str, tree: Any) -> int | None:
    """Return where a query names the column of which a message says this; None if it is about something else, or the
    column comes from a star.
    """
    said = _NOT_GROUPED.search(message)
    if said is None:
        return None
    starts = [
        int(column.this.meta["start"] if not column.table else column.args["table"].meta["start"])
        for column in tree.find_all(exp.Column)
        if str(column.name).casefold() == said[1].casefold() and _is_outside(column)
    ]
    return min(starts, default=None)


def _is_outside(column: Any) -> bool:
    """Return whether a column stands where a query with groups has one value a group, and it is not a group."""
    above = column.find_ancestor(exp.Query, exp.AggFunc, exp.From, exp.Join, exp.Where, exp.Group)
    if not isinstance(above, exp.Select):
        return False
    group = above.args.get("group")
    if group is None:
        return above.find(exp.AggFunc) is not None
    return str(column.name).casefold() not in {str(one.name).casefold() for one in group.expressions}
