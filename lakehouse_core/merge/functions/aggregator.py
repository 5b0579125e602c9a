"""One aggregate function of one column, as functions of two values. Source: Paimon semantics D.4, Java 2.0.0.

Values are comparable values (`format.data_types.values`). None is NULL, and the accumulator before the first record.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.table.merge_spec import AggregateFunction

# From the accumulator and a record's value to the next accumulator.
Step: TypeAlias = Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregator:
    """What one column does with the records of a key, in their order.

    `add` takes a newer value, `add_older` one that a sequence group says is older, `retract` the value of a `-U` or
    `-D`. Call `reset` before the first record of every key: what came first is remembered beside the accumulator.
    Each raises InvalidRequest naming the column when the values have no result.
    """

    add: Step
    add_older: Step
    retract: Step
    reset: Callable[[], None]


def aggregator_of(
    function: AggregateFunction,
    add: Step,
    *,
    retract: Step | None = None,
    add_older: Step | None = None,
    reset: Callable[[], None] = lambda: None,
) -> Aggregator:
    """Return the aggregator with what most functions share: older values come in front, retracts are refused."""

    def add_in_front(accumulator: Any, value: Any) -> Any:
        return add(value, accumulator)

    def refuse(accumulator: Any, value: Any) -> Any:
        raise InvalidRequest(
            f"Column {function.column}: the aggregate function {function.name} cannot take a value back, and a record "
            f"of kind -U or -D asks it to. Set fields.{function.column}.ignore-retract to true to leave the column as "
            "it is then, or do not delete from this table."
        )

    return Aggregator(add=add, add_older=add_older or add_in_front, retract=retract or refuse, reset=reset)


def ignoring_retracts(aggregator: Aggregator) -> Aggregator:
    """Return the aggregator whose retracts leave the accumulator as it is."""

    def add_in_front(accumulator: Any, value: Any) -> Any:
        # Java's wrapper forgets what its function does with older values: they always come in front.
        return aggregator.add(value, accumulator)

    return replace(aggregator, add_older=add_in_front, retract=lambda accumulator, value: accumulator)


def skipping_nulls(combine: Step) -> Step:
    """Return the step that leaves the other value where one is NULL."""

    def step(accumulator: Any, value: Any) -> Any:
        if accumulator is None or value is None:
            return value if accumulator is None else accumulator
        return combine(accumulator, value)

    return step
