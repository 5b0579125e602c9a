"""Codecs: how the parts of staged commits and commit messages become JSON and back.

Rule: a text is parsed completely or refused. Bytes are base64; a field with its default value is left out.
"""

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, Generic, NoReturn, TypeVar, assert_never

from lakehouse_core.errors import InvalidRequest, UnsupportedFeature
from lakehouse_core.format.stored import is_file_name
from lakehouse_core.table.commit_message import Append, DynamicOverwrite, StaticOverwrite, WriteMode

T = TypeVar("T")

# Stored between the steps of pipelines. Raise it when the meaning of a field changes; older versions stay readable.
# Messages without index files are written as version 1, without checksums of deletion vectors as version 2, staged
# commits without the time of their base as version 3 at most, and those without read indexes as version 4 at most, so
# that older releases can commit them.
VERSION = 5
WITHOUT_READ_INDEXES = 4
WITHOUT_BASE_TIME = 3
WITHOUT_VECTOR_CHECKSUMS = 2
WITHOUT_INDEX_FILES = 1

_LOWEST = -(2**63)
_HIGHEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class _Field:
    """One field of a record: attribute and JSON name, both ways of its value, and the value that is left out."""

    attribute: str
    name: str
    encode: Callable[[Any], Any]
    decode: Callable[[Any, str], Any]
    default: Any


class RecordCodec(Generic[T]):
    """The JSON form of a frozen dataclass, field by field."""

    def __init__(self, made: type[T], codecs: Mapping[str, "tuple[Callable[[Any], Any], Callable[[Any, str], Any]]"]):
        defaults = {
            item.name: item.default_factory() if item.default_factory is not MISSING else item.default
            for item in fields(made)  # type: ignore[arg-type]
        }
        assert set(defaults) == set(codecs), "every field has its codec"
        self._made = made
        self._fields = tuple(
            _Field(name, _camel(name), encode, decode, defaults[name]) for name, (encode, decode) in codecs.items()
        )
        self._by_name = {field.name: field for field in self._fields}

    def encode(self, value: T) -> dict[str, Any]:
        found = ((field, getattr(value, field.attribute)) for field in self._fields)
        return {field.name: field.encode(part) for field, part in found if part != field.default}

    def decode(self, value: Any, where: str) -> T:
        if not isinstance(value, dict):
            refuse(where, value, "an object")
        if unknown := value.keys() - self._by_name.keys():
            refuse(f"{where}.{min(unknown)}", value[min(unknown)], f"no such field in version {VERSION}")
        arguments = {}
        for field in self._fields:
            if field.name in value:
                arguments[field.attribute] = field.decode(value[field.name], f"{where}.{field.name}")
            elif field.default is MISSING:
                refuse(f"{where}.{field.name}", None, "a value, for the field is required")
        return self._made(**arguments)


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


def dump(document: dict[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def load(text: str, what: str) -> dict[str, Any]:
    """Return the object in `text` without its version."""
    try:
        document = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_number, parse_float=_no_number)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"{what}: not one complete JSON object ({error}). Stage the data again.") from error
    if not isinstance(document, dict):
        refuse(what, document, "an object")
    version = document.pop("version", None)
    if type(version) is int and version > VERSION:
        raise UnsupportedFeature(
            f"{what}: its version is {version}, this release reads up to {VERSION}. Commit it with the release that "
            "staged it, or upgrade."
        )
    if type(version) is not int or version < WITHOUT_INDEX_FILES:
        refuse(f"{what}.version", version, f"{WITHOUT_INDEX_FILES} to {VERSION}")
    return document


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a field occurs more than once")
    return found


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text[:20]} is not an integer")


def refuse(where: str, found: object, expected: str) -> NoReturn:
    raise InvalidRequest(f"{where} is {found!r:.80}, expected {expected}. Stage the data again.")


def _same(value: Any) -> Any:
    return value


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        refuse(where, value, "a string")
    return value


def _name(value: Any, where: str) -> str:
    """Return the value as a plain file name, which cannot point outside its folder."""
    text = _text(value, where)
    if not is_file_name(text):
        refuse(where, text, "a plain file name")
    return text


def decode_int(value: Any, where: str) -> int:
    if type(value) is not int or not _LOWEST <= value <= _HIGHEST:
        refuse(where, value, "a 64-bit integer")
    return value


def _count(value: Any, where: str) -> int:
    if decode_int(value, where) < 0:
        refuse(where, value, "0 or more")
    return int(value)


def _encode_bytes(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _decode_bytes(value: Any, where: str) -> bytes:
    try:
        return base64.b64decode(_text(value, where), validate=True)
    except (binascii.Error, ValueError):
        refuse(where, value, "base64")


def decode_strings(value: Any, where: str) -> dict[str, str]:
    if not isinstance(value, dict):
        refuse(where, value, "an object of strings")
    return {name: _text(text, f"{where}.{name}") for name, text in value.items()}


def _encode_mode(mode: WriteMode) -> dict[str, Any]:
    match mode:
        case Append():
            return {"kind": "append"}
        case StaticOverwrite(partition):
            return {"kind": "static-overwrite", "partition": dict(partition)}
        case DynamicOverwrite():
            return {"kind": "dynamic-overwrite"}
        case _:
            assert_never(mode)


def _decode_mode(value: Any, where: str) -> WriteMode:
    match value:
        case {"kind": "append"} if len(value) == 1:
            return Append()
        case {"kind": "static-overwrite", "partition": partition} if len(value) == 2:
            return StaticOverwrite(decode_strings(partition, f"{where}.partition"))
        case {"kind": "dynamic-overwrite"} if len(value) == 1:
            return DynamicOverwrite()
    refuse(where, value, "the kind append, static-overwrite with its partition, or dynamic-overwrite")


_Codec = tuple[Callable[[Any], Any], Callable[[Any, str], Any]]


def or_none(codec: _Codec) -> _Codec:
    encode, decode = codec
    return (
        lambda value: None if value is None else encode(value),
        lambda value, where: None if value is None else decode(value, where),
    )


def tuple_of(codec: _Codec) -> _Codec:
    encode, decode = codec

    def decoded(value: Any, where: str) -> tuple[Any, ...]:
        if not isinstance(value, list):
            refuse(where, value, "a list")
        return tuple(decode(item, f"{where}[{index}]") for index, item in enumerate(value))

    return lambda values: [encode(value) for value in values], decoded


def list_of(record: RecordCodec[Any]) -> _Codec:
    return tuple_of((record.encode, record.decode))


TEXT: _Codec = (_same, _text)
NAME: _Codec = (_same, _name)
INT: _Codec = (_same, decode_int)
COUNT: _Codec = (_same, _count)
BYTES: _Codec = (_encode_bytes, _decode_bytes)
MODE: _Codec = (_encode_mode, _decode_mode)
