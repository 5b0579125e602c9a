"""Read back: parse a value's file by the readers' rules before it is published.

Rule: nothing unreadable is published. A published snapshot, schema or tag that no reader accepts would make the table
unusable.
"""

from collections.abc import Callable
from typing import TypeVar

from lakehouse_core.errors import CorruptTable, InvalidRequest, UnsupportedFeature

T = TypeVar("T")


def readable_file(value: T, serialize: Callable[[T], bytes], parse: Callable[[bytes], T], *, what: str) -> bytes:
    """Return the file of `value`. Raises InvalidRequest, whose text begins with `what`, unless parsing the file gives
    an equal value.
    """
    try:
        data = serialize(value)
    except (TypeError, ValueError) as error:
        raise _refused(what, f"cannot be written ({error})") from error
    try:
        found = parse(data)
    except (CorruptTable, UnsupportedFeature, InvalidRequest) as error:
        raise _refused(what, f"could not be read back ({error})") from error
    if found != value:
        raise _refused(what, "would be read back as another value")
    return data


def _refused(what: str, problem: str) -> InvalidRequest:
    return InvalidRequest(f"{what} {problem}. Nothing was changed.")
