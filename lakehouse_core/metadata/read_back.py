"""What is about to be published is first read back by the readers' own rules.

What was published stays: a snapshot, a schema or a tag that no reader takes would end the table.
"""

from collections.abc import Callable
from typing import TypeVar

from lakehouse_core.errors import CorruptTable, InvalidRequest, UnsupportedFeature

T = TypeVar("T")


def readable_file(value: T, serialize: Callable[[T], bytes], parse: Callable[[bytes], T], *, what: str) -> bytes:
    """Return the file of `value`. Raises InvalidRequest, which begins with `what`, unless it reads back the same."""
    try:
        data = serialize(value)
    except (TypeError, ValueError) as error:
        raise _refused(what, f"cannot be written ({error})") from error
    try:
        found = parse(data)
    except (CorruptTable, UnsupportedFeature, InvalidRequest) as error:
        raise _refused(what, f"could not be read back ({error})") from error
    if found != value:
        raise _refused(what, "would be read back as another one")
    return data


def _refused(what: str, problem: str) -> InvalidRequest:
    return InvalidRequest(f"{what} {problem}. Nothing was changed.")
