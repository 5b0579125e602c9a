"""Arguments of procedures: literals of SQL as the values that verbs take.

Rule: an error names the procedure and the argument.
"""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.options.units import parse_duration
from lakehouse_core.planning.read.read_point import parse_time


def text_of(procedure: str, name: str, arguments: Mapping[str, Any]) -> str:
    """Return a text that must be there."""
    value = arguments.get(name)
    if not isinstance(value, str) or not value:
        raise InvalidRequest(f"sys.{procedure}: {name} is {shown(value)}, expected text.")
    return value


def flag_of(procedure: str, name: str, arguments: Mapping[str, Any]) -> bool:
    """Return a flag, false if it is left out."""
    value = arguments.get(name, False)
    if not isinstance(value, bool):
        raise InvalidRequest(f"sys.{procedure}: {name} is {shown(value)}, expected true or false.")
    return value


def duration_of(procedure: str, name: str, arguments: Mapping[str, Any]) -> timedelta | None:
    """Return a duration such as '1 d', None if it is left out."""
    if name not in arguments:
        return None
    return timedelta(milliseconds=parse_duration(name, text_of(procedure, name, arguments)))


def time_of(procedure: str, name: str, arguments: Mapping[str, Any]) -> datetime | None:
    """Return a time, None if it is left out."""
    match arguments.get(name):
        case None:
            return None
        case datetime() as time:
            return time
        case str() as text:
            return parse_time(text)
        case other:
            raise InvalidRequest(f"sys.{procedure}: {name} is {shown(other)}, expected a time such as '2013-01-31'.")


def whole_of(procedure: str, name: str, arguments: Mapping[str, Any], what: str) -> int | None:
    """Return a whole number, None if it is left out. `what` it is, for the error."""
    value = arguments.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise InvalidRequest(f"sys.{procedure}: {name} is {shown(value)}, expected {what}.")
    return value


def pattern_of(procedure: str, name: str, arguments: Mapping[str, Any], default: str) -> re.Pattern[str]:
    """Return a regular expression; `default` if it is left out."""
    text = str(arguments.get(name, default))
    try:
        return re.compile(text)
    except re.error as error:
        raise InvalidRequest(f"sys.{procedure}: {name} is {shown(text)}, not a regular expression.") from error


def partitions_of(procedure: str, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the partitions of `dt=2013-01-01,h=1;dt=2013-01-02`."""
    found = []
    text = text_of(procedure, "partitions", arguments)
    for part in filter(None, (one.strip() for one in text.split(";"))):
        values: dict[str, Any] = {}
        for pair in part.split(","):
            key, equals, value = pair.partition("=")
            if not equals or not key.strip():
                raise InvalidRequest(f"sys.{procedure}: partitions has {shown(pair)}, expected column=value.")
            name, literal = key.strip(), value.strip().strip("'\"")
            if values.setdefault(name, literal) != literal:
                raise InvalidRequest(
                    f"sys.{procedure}: partitions has {shown(part)}, which gives {name} two values: "
                    f"{shown(values[name])} and {shown(literal)}. Separate partitions by semicolons."
                )
        found.append(values)
    return found
