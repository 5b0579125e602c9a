"""Functions that keep one of the values, or join texts: first, last, least, greatest, and, or, listagg.

Source: docs/semantics/merge-engines.md#aggregate-functions; Java 2.0.0, asked.
"""

import math
from collections.abc import Iterable
from itertools import chain
from typing import Any, Final

from lakehouse_core.format.data_types import FLOAT_ROOTS, AtomicType
from lakehouse_core.merge.functions.aggregator import Aggregator, Gather, aggregator_of, one_of, skipping_nulls
from lakehouse_core.table.merge_spec import AggregateFunction

# Java's Character.isWhitespace: unlike Python it leaves out no-break spaces and U+0085.
_BLANKS: Final = frozenset(
    "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2008\u2009\u200a"
    "\u2028\u2029\u205f\u3000"
)


def primary_key(function: AggregateFunction) -> Aggregator:
    return aggregator_of(function, _take, retract=_take)


def last_value(function: AggregateFunction) -> Aggregator:
    return aggregator_of(function, _take, retract=lambda accumulator, value: None)


def last_non_null_value(function: AggregateFunction) -> Aggregator:
    return aggregator_of(
        function,
        lambda accumulator, value: accumulator if value is None else value,
        retract=lambda accumulator, value: accumulator if value is None else None,
    )


def first_value(function: AggregateFunction) -> Aggregator:
    first = _First(takes_null=True)
    return aggregator_of(function, first.add, reset=first.reset)


def first_non_null_value(function: AggregateFunction) -> Aggregator:
    first = _First(takes_null=False)
    return aggregator_of(function, first.add, reset=first.reset)


class _First:
    """Keeps the first value, and separately whether there was one, because the value may be NULL.

    An older value replaces the kept one. So does an older NULL, also for first_non_null_value, as in Java
    (docs/semantics/differences.md#faults-to-know).
    """

    def __init__(self, *, takes_null: bool) -> None:
        self._takes_null, self._seen = takes_null, False

    def add(self, accumulator: Any, value: Any) -> Any:
        if self._seen or (value is None and not self._takes_null):
            return accumulator
        self._seen = True
        return value

    def reset(self) -> None:
        self._seen = False


def bool_and(function: AggregateFunction) -> Aggregator:
    return aggregator_of(function, skipping_nulls(lambda accumulator, value: accumulator and value))


def bool_or(function: AggregateFunction) -> Aggregator:
    return aggregator_of(function, skipping_nulls(lambda accumulator, value: accumulator or value))


def least(function: AggregateFunction) -> Aggregator:
    order = _order(function)

    def choose(accumulator: Any, value: Any) -> Any:
        return accumulator if order(accumulator) < order(value) else value

    return aggregator_of(function, skipping_nulls(choose))


def greatest(function: AggregateFunction) -> Aggregator:
    order = _order(function)

    def choose(accumulator: Any, value: Any) -> Any:
        return value if order(accumulator) < order(value) else accumulator

    return aggregator_of(function, skipping_nulls(choose))


def _order(function: AggregateFunction) -> Any:
    assert isinstance(function.type, AtomicType)
    return float_order if function.type.root in FLOAT_ROOTS else lambda value: value


def float_order(value: float) -> tuple[bool, float, float]:
    """Return what orders floats as Java's Double.compare does: NaN is greatest and equal to itself, -0.0 below 0.0."""
    return (True, 0.0, 0.0) if math.isnan(value) else (False, value, math.copysign(1, value))


def listagg(function: AggregateFunction) -> Aggregator:
    add_all = _joined_distinct(function) if function.distinct else _joined(function)
    return aggregator_of(function, one_of(add_all), add_all=add_all)


def _joined(function: AggregateFunction) -> Gather:
    def join(accumulator: str | None, values: Iterable[str | None]) -> str | None:
        texts = [text for text in chain((accumulator,), values) if text is not None and not is_blank(text)]
        return function.delimiter.join(texts) if texts else accumulator

    return join


def _joined_distinct(function: AggregateFunction) -> Gather:
    """Return the step that appends only new tokens; the accumulated text stays unchanged."""
    # An empty delimiter joins without a sign and splits at blanks, as in Java.
    separator = function.delimiter or " "

    def join(accumulator: str | None, values: Iterable[str | None]) -> str | None:
        parts: list[str] = []
        known: set[str] = set()
        for text in chain((accumulator,), values):
            if text is None or is_blank(text):
                continue
            tokens = text.split(separator)
            if not parts:
                parts, known = [text], set(tokens)
                continue
            for token in tokens:
                if token not in known and not is_blank(token):
                    known.add(token)
                    parts.append(token)
            if len(function.delimiter) != 1:
                # The joined text may be split at other places.
                parts = [function.delimiter.join(parts)]
                known = set(parts[0].split(separator))
        return function.delimiter.join(parts) if parts else accumulator

    return join


def is_blank(text: str) -> bool:
    """Whether the text has nothing but blanks as Java counts them, or nothing at all."""
    return all(character in _BLANKS for character in text)


def _take(accumulator: Any, value: Any) -> Any:
    return value
