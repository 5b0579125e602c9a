"""Values as Java prints them: what system tables show as text.

Two forms: as SQL casts a value to text (partitions), and as the objects print themselves that hold it inside (keys and
bounds): there a date is its number of days. Bytes, of which Java prints an address, are hexadecimal.
Source: docs/semantics/reading.md#system-tables.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from lakehouse_core.format.data_types import BINARY_ROOTS, AtomicType, DataType
from lakehouse_core.format.partition_path import value_text

_NANOS_PER_SECOND: Final = 1_000_000_000


def row_text(values: Sequence[Any], types: Sequence[DataType]) -> str:
    """Return comparable values as the cast of a row to text, such as `{2024-02-29, 5, null}`."""
    texts = (
        "null" if value is None else value_text(value, data_type, legacy=False)
        for value, data_type in zip(values, types, strict=True)
    )
    return f"{{{', '.join(texts)}}}"


def array_text(values: Sequence[Any], types: Sequence[DataType]) -> str:
    """Return comparable values as an array of the objects inside, such as `[19782, 5]`."""
    return f"[{', '.join(object_text(value, data_type) for value, data_type in zip(values, types, strict=True))}]"


def map_text(texts: Mapping[str, str]) -> str:
    """Return a sorted map such as `{a=1, b=null}`; keys are ordered as Java orders text, by UTF-16."""
    ordered = sorted(texts.items(), key=lambda item: item[0].encode("utf-16-be"))
    return f"{{{', '.join(f'{name}={text}' for name, text in ordered)}}}"


def object_text(value: Any, data_type: DataType) -> str:
    """Return a comparable value as the object prints itself that holds it inside Java; null is `null`."""
    if value is None:
        return "null"
    if isinstance(data_type, AtomicType) and data_type.root in BINARY_ROOTS:
        return bytes(value).hex()
    return value_text(value, data_type, legacy=True)


def duration_text(seconds: Decimal) -> str:
    """Return a duration of 0 or more as Java prints it, in hours, minutes and seconds: `PT36H`, `PT1M30.5S`."""
    nanos = int(seconds * _NANOS_PER_SECOND)
    whole, fraction = divmod(nanos, _NANOS_PER_SECOND)
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    text = f"{hours}H" if hours else ""
    text += f"{minutes}M" if minutes else ""
    if left or fraction:
        text += str(left) + (f".{fraction:09}".rstrip("0") if fraction else "") + "S"
    return f"PT{text or '0S'}"
