"""Staged commits and commit messages as JSON: what a pipeline keeps between two steps, and what tasks answer with.

Versions 1 to 3. Rule: a text is understood whole or refused, for a commit built on half of it would lose files. Bytes
are base64; a field that has its default is left out. Names follow Paimon's DataFileMeta and commit messages.
"""

import base64
import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, Generic, NoReturn, TypeVar, assert_never

from lakehouse_core.errors import InvalidRequest, UnsupportedFeature
from lakehouse_core.format.stored import is_file_name
from lakehouse_core.table.commit_message import (
    Append,
    CommitMessage,
    DynamicOverwrite,
    StagedCommit,
    StaticOverwrite,
    WriteMode,
)
from lakehouse_core.table.data_file import DataFile, FileSource, SimpleStats
from lakehouse_core.table.index_file import IndexFile
from lakehouse_core.table.manifest import DeletionVectorRange

T = TypeVar("T")

# Stored between the steps of pipelines. Raise it when the meaning of a field changes; older versions stay readable.
# What has no index files is written as version 1, and what has no checksums of deletion vectors as version 2, for a
# release before them to commit.
VERSION = 3
_WITHOUT_VECTOR_CHECKSUMS = 2
_WITHOUT_INDEX_FILES = 1

_LOWEST, _HIGHEST = -(2**63), 2**63 - 1


def staged_to_json(staged: StagedCommit) -> str:
    """Return `staged` as one line of JSON that `staged_from_json` turns back into an equal value."""
    return _dump({"version": _version_of(staged.messages), **_STAGED.encode(staged)})


def staged_from_json(text: str) -> StagedCommit:
    """Return the staged commit in `text`. Raises InvalidRequest naming the field, or UnsupportedFeature."""
    return _STAGED.decode(_load(text, "staged commit"), "staged commit")


def messages_to_json(messages: Sequence[CommitMessage]) -> str:
    """Return the messages of one task as one line of JSON."""
    return _dump({"version": _version_of(messages), "messages": [_MESSAGE.encode(message) for message in messages]})


def messages_from_json(text: str) -> tuple[CommitMessage, ...]:
    """Return the messages in `text`, in order. Raises as `staged_from_json` does."""
    document = _load(text, "commit messages")
    if set(document) != {"messages"}:
        _refuse("commit messages", sorted(document), "the fields version and messages")
    found = document["messages"]
    if not isinstance(found, list):
        _refuse("commit messages: messages", found, "a list")
    return tuple(_MESSAGE.decode(item, f"commit messages[{index}]") for index, item in enumerate(found))


def _version_of(messages: Sequence[CommitMessage]) -> int:
    indexes = [index for message in messages for index in message.index_files]
    vectors = (vector for index in indexes for vector in index.deletion_vectors or ())
    if any(vector.checksum is not None for vector in vectors):
        return VERSION
    return _WITHOUT_VECTOR_CHECKSUMS if indexes else _WITHOUT_INDEX_FILES


@dataclass(frozen=True, slots=True)
class _Field:
    """One field of a record: attribute and JSON name, both ways of its value, and the value that is left out."""

    attribute: str
    name: str
    encode: Callable[[Any], Any]
    decode: Callable[[Any, str], Any]
    default: Any


class _Record(Generic[T]):
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
            _refuse(where, value, "an object")
        if unknown := value.keys() - self._by_name.keys():
            _refuse(f"{where}.{min(unknown)}", value[min(unknown)], f"no such field in version {VERSION}")
        arguments = {}
        for field in self._fields:
            if field.name in value:
                arguments[field.attribute] = field.decode(value[field.name], f"{where}.{field.name}")
            elif field.default is MISSING:
                _refuse(f"{where}.{field.name}", None, "a value, for the field is required")
        return self._made(**arguments)


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


def _dump(document: dict[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _load(text: str, what: str) -> dict[str, Any]:
    """Return the object in `text` without its version."""
    try:
        document = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_number, parse_float=_no_number)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"{what}: not one complete JSON object ({error}). Stage the data again.") from error
    if not isinstance(document, dict):
        _refuse(what, document, "an object")
    version = document.pop("version", None)
    if type(version) is int and version > VERSION:
        raise UnsupportedFeature(
            f"{what}: its version is {version}, this release reads up to {VERSION}. Commit it with the release that "
            "staged it, or upgrade."
        )
    if type(version) is not int or version < _WITHOUT_INDEX_FILES:
        _refuse(f"{what}.version", version, f"{_WITHOUT_INDEX_FILES} to {VERSION}")
    return document


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a field occurs more than once")
    return found


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text[:20]} is not an integer")


def _refuse(where: str, found: object, expected: str) -> NoReturn:
    raise InvalidRequest(f"{where} is {found!r:.80}, expected {expected}. Stage the data again.")


def _same(value: Any) -> Any:
    return value


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        _refuse(where, value, "a string")
    return value


def _name(value: Any, where: str) -> str:
    """Return the name of a file: the last part of a key, so nothing that could leave its folder."""
    text = _text(value, where)
    if not is_file_name(text):
        _refuse(where, text, "a plain file name")
    return text


def _int(value: Any, where: str) -> int:
    if type(value) is not int or not _LOWEST <= value <= _HIGHEST:
        _refuse(where, value, "a 64-bit integer")
    return value


def _count(value: Any, where: str) -> int:
    if _int(value, where) < 0:
        _refuse(where, value, "0 or more")
    return int(value)


def _encode_bytes(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _decode_bytes(value: Any, where: str) -> bytes:
    try:
        return base64.b64decode(_text(value, where), validate=True)
    except (binascii.Error, ValueError):
        _refuse(where, value, "base64")


def _decode_source(value: Any, where: str) -> FileSource:
    try:
        return FileSource(_int(value, where))
    except ValueError:
        _refuse(where, value, "0 (append) or 1 (compact)")


def _decode_strings(value: Any, where: str) -> dict[str, str]:
    if not isinstance(value, dict):
        _refuse(where, value, "an object of strings")
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
            return StaticOverwrite(_decode_strings(partition, f"{where}.partition"))
        case {"kind": "dynamic-overwrite"} if len(value) == 1:
            return DynamicOverwrite()
    _refuse(where, value, "the kind append, static-overwrite with its partition, or dynamic-overwrite")


_Codec = tuple[Callable[[Any], Any], Callable[[Any, str], Any]]


def _or_none(codec: _Codec) -> _Codec:
    encode, decode = codec
    return (
        lambda value: None if value is None else encode(value),
        lambda value, where: None if value is None else decode(value, where),
    )


def _tuple_of(codec: _Codec) -> _Codec:
    encode, decode = codec

    def decoded(value: Any, where: str) -> tuple[Any, ...]:
        if not isinstance(value, list):
            _refuse(where, value, "a list")
        return tuple(decode(item, f"{where}[{index}]") for index, item in enumerate(value))

    return lambda values: [encode(value) for value in values], decoded


def _list_of(record: _Record[Any]) -> _Codec:
    return _tuple_of((record.encode, record.decode))


_TEXT: _Codec = (_same, _text)
_NAME: _Codec = (_same, _name)
_INT: _Codec = (_same, _int)
_COUNT: _Codec = (_same, _count)
_BYTES: _Codec = (_encode_bytes, _decode_bytes)

_STATS = _Record(
    SimpleStats,
    {"min_values": _BYTES, "max_values": _BYTES, "null_counts": _or_none(_tuple_of(_or_none(_INT)))},
)
_FILE = _Record(
    DataFile,
    {
        "file_name": _NAME,
        "file_size": _COUNT,
        "row_count": _COUNT,
        "min_key": _BYTES,
        "max_key": _BYTES,
        "key_stats": (_STATS.encode, _STATS.decode),
        "value_stats": (_STATS.encode, _STATS.decode),
        "min_sequence_number": _INT,
        "max_sequence_number": _INT,
        "schema_id": _COUNT,
        "level": _COUNT,
        "extra_files": _tuple_of(_NAME),
        "creation_time_millis": _or_none(_INT),
        "delete_row_count": _or_none(_COUNT),
        "embedded_index": _or_none(_BYTES),
        "file_source": _or_none((int, _decode_source)),
        "value_stats_cols": _or_none(_tuple_of(_TEXT)),
        "external_path": _or_none(_TEXT),
        "first_row_id": _or_none(_INT),
        "write_cols": _or_none(_tuple_of(_TEXT)),
        "write_cols_sequences": _or_none(_tuple_of(_INT)),
    },
)
_VECTOR = _Record(
    DeletionVectorRange,
    {
        "data_file_name": _NAME,
        "offset": _COUNT,
        "length": _COUNT,
        "cardinality": _or_none(_COUNT),
        "checksum": _or_none(_COUNT),
    },
)
_INDEX = _Record(
    IndexFile,
    {
        "index_type": _TEXT,
        "file_name": _NAME,
        "file_size": _COUNT,
        "row_count": _COUNT,
        "deletion_vectors": _or_none(_list_of(_VECTOR)),
    },
)
_MESSAGE = _Record(
    CommitMessage,
    {
        "partition": _BYTES,
        "bucket": _INT,
        "total_buckets": _INT,
        "new_files": _list_of(_FILE),
        "deleted_files": _list_of(_FILE),
        "changelog_files": _list_of(_FILE),
        "compact_before": _list_of(_FILE),
        "compact_after": _list_of(_FILE),
        "compact_changelog_files": _list_of(_FILE),
        "new_index_files": _list_of(_INDEX),
        "deleted_index_files": _list_of(_INDEX),
        "compact_new_index_files": _list_of(_INDEX),
        "compact_deleted_index_files": _list_of(_INDEX),
    },
)
_STAGED = _Record(
    StagedCommit,
    {
        "table": _TEXT,
        "commit_user": _TEXT,
        "commit_identifier": _INT,
        "mode": (_encode_mode, _decode_mode),
        "messages": _list_of(_MESSAGE),
        "schema_id": _COUNT,
        "base_snapshot_id": _or_none(_COUNT),
        "properties": (dict, _decode_strings),
        "watermark": _or_none(_INT),
    },
)
