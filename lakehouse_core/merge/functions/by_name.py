"""Functions by name: the aggregator of each function. Source: docs/semantics/merge-engines.md#aggregate-functions."""

from collections.abc import Callable, Mapping
from typing import Final

from lakehouse_core.merge.functions import arithmetic, choices, nested, sketches
from lakehouse_core.merge.functions.aggregator import Aggregator, ignoring_retracts
from lakehouse_core.table.merge_spec import AggregateFunction

AGGREGATORS: Final[Mapping[str, Callable[[AggregateFunction], Aggregator]]] = {
    "primary-key": choices.primary_key,
    "sum": arithmetic.sum_of,
    "product": arithmetic.product_of,
    "min": choices.least,
    "max": choices.greatest,
    "last_value": choices.last_value,
    "last_non_null_value": choices.last_non_null_value,
    "first_value": choices.first_value,
    "first_non_null_value": choices.first_non_null_value,
    "bool_and": choices.bool_and,
    "bool_or": choices.bool_or,
    "listagg": choices.listagg,
    "collect": nested.collect,
    "merge_map": nested.merge_map,
    "merge_map_with_keytime": nested.merge_map_with_keytime,
    "nested_update": nested.nested_update,
    "nested_partial_update": nested.nested_partial_update,
    "hll_sketch": sketches.hll_sketch_of,
    "theta_sketch": sketches.theta_sketch_of,
    "rbm32": sketches.rbm32_of,
    "rbm64": sketches.rbm64_of,
}


def aggregator(function: AggregateFunction) -> Aggregator:
    """Return a new aggregator of the column; it serves one key at a time."""
    found = AGGREGATORS[function.name](function)
    return ignoring_retracts(found) if function.ignore_retract else found
