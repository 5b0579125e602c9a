"""Aggregator: one aggregate function of one column, as functions of two values.

Values are comparable values (`format.data_types.values`). None is NULL, and the accumulator before the first record.
Source: docs/semantics/merge-engines.md#aggregate-functions; Java 2.0.0.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from typing import Any, TypeAlias

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.table.merge_spec import AggregateFunction

# From the accumulator and a record's value to the next accumulator.
Step: TypeAlias = Callable[[Any, Any], Any]
# The same with the values of several records, one after the other.
Gather: TypeAlias = Callable[[Any, Iterable[Any]], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregator:
    """The steps by which one column combines the records of a key, in order.

    `add` takes a newer value, `add_all` some of them, `add_older` one that a sequence group says is older, `retract`
    the value of a `-U` or `-D`. Call `reset` before the first record of every key, because some functions keep state
    beside the accumulator. Each step raises InvalidRequest naming the column if the values have no result.
    """

    add: Step
    add_all: Gather
    add_older: Step
    retract: Step
    reset: Callable[[], None]


def aggregator_of(
    function: AggregateFunction,
    add: Step,
    *,
    add_all: Gather | None = None,
    retract: Step | None = None,
    add_older: Step | None = None,
    reset: Callable[[], None] = lambda: None,
) -> Aggregator:
    """Return an aggregator with the defaults of most functions: an older value is added in front, a retract is refused.

    `add_all` does what `add` does value by value. An accumulator that grows with its values needs one of its own, or a
    key of n versions would take n * n steps.
    """

    def add_each(accumulator: Any, values: Iterable[Any]) -> Any:
        return reduce(add, values, accumulator)

    def add_in_front(accumulator: Any, value: Any) -> Any:
        return add(value, accumulator)

    def refuse(accumulator: Any, value: Any) -> Any:
        raise InvalidRequest(
            f"Column {function.column}: found a record of kind -U or -D, which the aggregate function "
            f"{function.name} cannot retract. Set fields.{function.column}.ignore-retract to true to keep the "
            "column's value then, or write no such records."
        )

    return Aggregator(
        add=add,
        add_all=add_all or add_each,
        add_older=add_older or add_in_front,
        retract=retract or refuse,
        reset=reset,
    )


def one_of(add_all: Gather) -> Step:
    """Return the step that adds one value."""
    return lambda accumulator, value: add_all(accumulator, (value,))


def ignoring_retracts(aggregator: Aggregator) -> Aggregator:
    """Return the aggregator whose retracts leave the accumulator as it is."""

    def add_in_front(accumulator: Any, value: Any) -> Any:
        # Java's wrapper ignores the function's own rule for older values: they are always added in front.
        return aggregator.add(value, accumulator)

    return replace(aggregator, add_older=add_in_front, retract=lambda accumulator, value: accumulator)


def gathering_non_null(combine: Gather) -> Gather:
    """Return the function that combines the values that are not NULL; a single one is returned unchanged."""

    def add_all(accumulator: Any, values: Iterable[Any]) -> Any:
        there = (value for value in chain((accumulator,), values) if value is not None)
        first = next(there, None)
        second = next(there, None)
        return first if second is None else combine(first, chain((second,), there))

    return add_all


def skipping_nulls(combine: Step) -> Step:
    """Return the step that returns the other value if one is NULL."""

    def step(accumulator: Any, value: Any) -> Any:
        if accumulator is None or value is None:
            return value if accumulator is None else accumulator
        return combine(accumulator, value)

    return step
