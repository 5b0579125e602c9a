"""Conditions of queries as predicates of scans.

Rule: a condition is translated only where a scan gives it the meaning that both engines give it: by the types of the
column and of the literal. Source: docs/conditions.md.
"""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

from sqlglot import exp

from lakehouse_core.errors import LakehouseError
from lakehouse_core.format.data_types import INTEGER_BITS, AtomicType, DataField, TypeRoot
from lakehouse_core.planning.read.where import COMPARISONS
from lakehouse_core.table.predicate import (
    And,
    Compare,
    Comparison,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
    bind,
)


def translated_condition(node: Any, fields: Sequence[DataField], *, in_utc: bool) -> Predicate | None:
    """Return the condition as a predicate of a table, None if a scan cannot test it with the same meaning.

    `in_utc`: the engine takes times without a zone for UTC.
    """
    return _Translation(fields, in_utc=in_utc).bound(node)


def is_utc(zone: str) -> bool:
    """Return whether a time zone of a session, by its name, is UTC."""
    return zone in ("UTC", "Etc/UTC", "Z", "GMT")


def holds_for_nulls(condition: Predicate) -> bool | None:
    """Return whether a row of nulls satisfies the condition; None: unknown."""
    match condition:
        case IsNull():
            return True
        case Not(part):
            inner = holds_for_nulls(part)
            return None if inner is None else not inner
        case And(parts):
            results = [holds_for_nulls(part) for part in parts]
            return False if False in results else None if None in results else True
        case Or(parts):
            results = [holds_for_nulls(part) for part in parts]
            return True if True in results else None if None in results else False
        case _:
            return None


_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d:\d\d(?:\.\d{1,6})?)?(?P<zone>Z|[+-]\d\d:\d\d)?")
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?|\.\d+")
_INTEGER_TYPES: Final = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})


class _NotPushed(Exception):
    """A part of a condition has no exact counterpart."""


class _Translation:
    """Conditions of a tree as predicates of a table."""

    def __init__(self, fields: Sequence[DataField], *, in_utc: bool) -> None:
        self._fields = fields
        self._by_name = {field.name.lower(): field for field in fields}
        self._in_utc = in_utc

    def bound(self, node: Any) -> Predicate | None:
        """Return the condition, None if the scan cannot test it with the same meaning."""
        try:
            condition = self._condition(node)
            bind(condition, self._fields)
        except (_NotPushed, LakehouseError, RecursionError, ValueError, ArithmeticError):
            return None
        return condition

    def _condition(self, node: Any) -> Predicate:
        match node:
            case exp.Paren():
                return self._condition(node.this)
            case exp.And():
                return And((self._condition(node.this), self._condition(node.expression)))
            case exp.Or():
                return Or((self._condition(node.this), self._condition(node.expression)))
            case exp.Not():
                return Not(self._condition(node.this))
            case exp.Is() if isinstance(node.expression, exp.Null):
                return IsNull(self._field(node.this).name)
            case exp.Between() if not node.args.get("symmetric"):
                field = self._field(node.this)
                low, high = self._value(node.args["low"], field), self._value(node.args["high"], field)
                return And(
                    (
                        Compare(field.name, Comparison.GREATER_OR_EQUAL, low),
                        Compare(field.name, Comparison.LESS_OR_EQUAL, high),
                    )
                )
            case exp.In() if node.expressions and not node.args.get("query") and not node.args.get("unnest"):
                field = self._field(node.this)
                return In(field.name, tuple(self._value(value, field) for value in node.expressions))
            case exp.Like():
                return self._like(node)
            case exp.Column():
                field = self._field(node)
                if self._root(field) is TypeRoot.BOOLEAN:
                    return Compare(field.name, Comparison.EQUAL, True)
        if type(node) in COMPARISONS:
            comparison = COMPARISONS[type(node)]
            left, right = node.this, node.expression
            if isinstance(right, exp.Column):
                left, right, comparison = right, left, comparison.mirrored
            field = self._field(left)
            return Compare(field.name, comparison, self._value(right, field))
        raise _NotPushed

    def _like(self, node: Any) -> Predicate:
        field, pattern = self._field(node.this), node.expression
        if not isinstance(pattern, exp.Literal) or not pattern.is_string or self._root(field) is not TypeRoot.VARCHAR:
            raise _NotPushed
        text = str(pattern.this)
        prefix = text.removesuffix("%")
        if any(mark in prefix for mark in "%_\\"):
            raise _NotPushed
        found: Predicate = (
            Compare(field.name, Comparison.EQUAL, text) if prefix == text else StartsWith(field.name, prefix)
        )
        return Not(found) if node.args.get("negate") else found

    def _field(self, node: Any) -> DataField:
        while isinstance(node, exp.Paren):
            node = node.this
        if not isinstance(node, exp.Column) or node.name.lower() not in self._by_name:
            raise _NotPushed
        return self._by_name[node.name.lower()]

    def _root(self, field: DataField) -> TypeRoot | None:
        return field.type.root if isinstance(field.type, AtomicType) else None

    def _value(self, node: Any, field: DataField) -> Any:
        while isinstance(node, exp.Paren):
            node = node.this
        root = self._root(field)
        match root:
            case TypeRoot.BOOLEAN if isinstance(node, exp.Boolean):
                return bool(node.this)
            case TypeRoot.VARCHAR if isinstance(node, exp.Literal) and node.is_string:
                return str(node.this)
            case TypeRoot.DATE:
                return date.fromisoformat(self._text(node, "DATE", _DATE))
            case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
                return self._time(node, has_zone=root is TypeRoot.TIMESTAMP_LTZ)
            case TypeRoot.DOUBLE:
                return float(self._double(node))
        if root in INTEGER_BITS or root is TypeRoot.DECIMAL:
            return self._number(node)
        raise _NotPushed

    def _number(self, node: Any) -> int | Decimal:
        if isinstance(node, exp.Neg):
            return -self._number(node.this)
        if isinstance(node, exp.Cast) and node.to.this.name in _INTEGER_TYPES:
            node = node.this
        if not isinstance(node, exp.Literal) or node.is_string or not _NUMBER.fullmatch(str(node.this)):
            raise _NotPushed
        text = str(node.this)
        return int(text) if text.isdecimal() else Decimal(text)

    def _double(self, node: Any) -> Any:
        if isinstance(node, exp.Cast) and node.to.this.name == "DOUBLE" and isinstance(node.this, exp.Literal):
            return str(node.this.this)
        return self._number(node)

    def _text(self, node: Any, kind: str, pattern: re.Pattern[str]) -> str:
        if isinstance(node, exp.Cast) and node.to.this.name == kind:
            node = node.this
        if not isinstance(node, exp.Literal) or not node.is_string or not pattern.fullmatch(str(node.this)):
            raise _NotPushed
        return str(node.this)

    def _time(self, node: Any, *, has_zone: bool) -> datetime:
        """Return the time. Without a zone its meaning is that of the session, unless the column has none either."""
        is_instant = isinstance(node, exp.Cast) and node.to.this.name in ("TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMP")
        is_local = isinstance(node, exp.Cast) and node.to.this.name == "TIMESTAMPNTZ"
        text = self._text(node.this if is_instant or is_local else node, "", _TIME)
        time = datetime.fromisoformat(text)
        if has_zone:
            if time.tzinfo is None and not self._in_utc:
                raise _NotPushed
            return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
        if is_instant and (time.tzinfo is not None or not self._in_utc):
            raise _NotPushed
        if time.tzinfo is not None:
            raise _NotPushed
        return time
