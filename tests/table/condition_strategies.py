"""Conditions of every kind on columns of six types, few values apart so that they meet, and rows to test them on."""

import math
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from lakehouse_core.table.predicate import And, Compare, Comparison, In, IsNull, Not, Or, Predicate, StartsWith

TYPES = {"i": "INT", "f": "DOUBLE", "s": "STRING", "d": "DECIMAL(5, 2)", "b": "BOOLEAN", "t": "TIMESTAMP(9)"}
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": st.integers(-3, 3),
    "f": st.sampled_from([-1.5, -0.0, 0.0, 2.0, math.nan, math.inf]),
    "s": st.sampled_from(["", "a", "ab", "b", "é", "\U0001f600"]),
    "d": st.sampled_from([Decimal("-1.00"), Decimal("0.00"), Decimal("1.25")]),
    "b": st.booleans(),
    "t": st.tuples(st.integers(-1, 1), st.sampled_from([0, 1, 999_999])),
}
ROW = st.fixed_dictionaries({name: st.none() | values for name, values in VALUES.items()})


def leaves() -> st.SearchStrategy[Predicate]:
    def of(name: str) -> st.SearchStrategy[Predicate]:
        value = VALUES[name]
        ordered = value.filter(lambda found: not (isinstance(found, float) and math.isnan(found)))
        return st.one_of(
            st.builds(Compare, st.just(name), st.sampled_from(Comparison), value),
            st.builds(lambda found: In(name, tuple(sorted(set(found)))), st.lists(ordered, max_size=3)),
            st.just(IsNull(name)),
            *([st.builds(StartsWith, st.just(name), value)] if name == "s" else []),
        )

    return st.sampled_from(sorted(TYPES)).flatmap(of)


PREDICATES = st.recursive(
    leaves(),
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(lambda parts: And(tuple(parts)), st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda parts: Or(tuple(parts)), st.lists(inner, min_size=1, max_size=3)),
    ),
    max_leaves=6,
)
