"""JSON files of a table: read strictly, written as in Java, with a checksum that detects a changed byte.

Rule: a file is parsed completely or raises CorruptTable. Numbers stay exact: integers are signed 64-bit integers,
numbers with a fraction are Decimals.
Source: docs/format/snapshot.md#checksums.
"""

import json
import zlib
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NoReturn

from lakehouse_core.errors import CorruptTable

MAX_JSON_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 64

# A field of our own at the end of each file we write. Other engines ignore fields they do not know and drop them when
# they rewrite a file (a snapshot into a tag, say), so a checksum that is there belongs to the text it is in. Among a
# snapshot's `properties` it would not: those are copied into other documents. Stored in tables. Never rename.
CHECKSUM_FIELD = "lakehouseCrc32"

_LOWEST, _HIGHEST = -(2**63), 2**63 - 1
# Digits and sign of the longest 64-bit integer: longer texts are refused before Python converts them.
_LONGEST_INTEGER = 20


def strict_json(data: bytes, key: str) -> dict[str, Any]:
    """Return the JSON object in `data`, without its checksum field. `key` names the file in errors.

    Raises CorruptTable for anything but one complete object in UTF-8 of at most 16 MiB; for duplicate keys, NaN, lone
    surrogates and integers beyond 64 bits; and for content that does not fit its checksum, if it has one.
    """
    if len(data) > MAX_JSON_BYTES:
        raise _corrupt(key, f"it has {len(data)} bytes, the limit is {MAX_JSON_BYTES}")
    if not data:
        raise _corrupt(key, "the file is empty, expected a JSON object")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _corrupt(key, f"byte {error.start} is not UTF-8") from error
    try:
        document = json.loads(
            text,
            object_pairs_hook=_object_without_duplicates,
            parse_int=_integer,
            parse_float=Decimal,
            parse_constant=_no_constant,
        )
    except RecursionError as error:
        raise _corrupt(key, "its values are nested too deeply") from error
    except (json.JSONDecodeError, _Refused) as error:
        raise _corrupt(key, f"it is not one complete JSON object ({error})") from error
    if not isinstance(document, dict):
        raise _corrupt(key, f"it holds a JSON {type(document).__name__}, expected an object")
    if _depth(document) > MAX_DEPTH:
        raise _corrupt(key, f"its values are nested deeper than {MAX_DEPTH}")
    if "\\u" in text:
        _refuse_lone_surrogates(document, key)
    return _without_checksum(document, key)


def json_with_checksum(document: Mapping[str, Any]) -> bytes:
    """Return the file that `strict_json` reads back as `document`: `json_text` with the checksum as its last field."""
    return json_text({**document, CHECKSUM_FIELD: _checksum(document)}).encode("utf-8")


def json_text(value: Any) -> str:
    """Return `value` laid out as Java lays it out: two spaces per object level, ` : `, arrays in one line.

    Takes None, booleans, integers, Decimals, strings, sequences and mappings from string; a Decimal keeps its digits.
    """
    return _text(value, "")


class _Refused(ValueError):
    """Valid JSON that no table file may contain."""


def _text(value: Any, indent: str) -> str:
    match value:
        case str() | bool() | int() | None:
            return json.dumps(value, ensure_ascii=False)
        case Decimal():
            return format(value, "f")
        case Mapping():
            if not value:
                return "{ }"
            inner = indent + "  "
            fields = (f"{inner}{json.dumps(name, ensure_ascii=False)} : {_text(v, inner)}" for name, v in value.items())
            return "{\n" + ",\n".join(fields) + "\n" + indent + "}"
        case Sequence():
            # Jackson indents by the depth of objects alone.
            return "[ " + ", ".join(_text(item, indent) for item in value) + " ]" if value else "[ ]"
    raise TypeError(f"{type(value).__name__} has no JSON form: use str, int, bool, Decimal, None, lists and dicts.")


def _without_checksum(document: dict[str, Any], key: str) -> dict[str, Any]:
    if CHECKSUM_FIELD not in document:
        # Damage may change the checksum field's name and other bytes; the remains of the name show it.
        broken = [name for name in document if name.startswith("lakehouse") or name.endswith("Crc32")]
        if broken:
            raise _corrupt(key, f"it has a field {broken[0]!r}, which no engine writes: expected {CHECKSUM_FIELD}")
        return document
    content = {name: value for name, value in document.items() if name != CHECKSUM_FIELD}
    if document[CHECKSUM_FIELD] != _checksum(content):
        raise _corrupt(
            key,
            f"its checksum {CHECKSUM_FIELD} is {document[CHECKSUM_FIELD]!r}, its content has {_checksum(content)!r}",
        )
    return content


def _checksum(document: Mapping[str, Any]) -> str:
    """Return the CRC-32 of the values, whatever their layout and order, so that reformatting breaks nothing."""
    text = json.dumps(document, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
    return f"{zlib.crc32(text.encode('utf-8')):08x}"


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Refused(f"the field {twice!r} occurs more than once")
    return found


def _integer(text: str) -> int:
    if len(text) > _LONGEST_INTEGER or not _LOWEST <= int(text) <= _HIGHEST:
        raise _Refused(f"the integer {text[:_LONGEST_INTEGER]}… is beyond 64 bits")
    return int(text)


def _no_constant(text: str) -> NoReturn:
    raise _Refused(f"{text} is not JSON")


def _depth(document: Any) -> int:
    deepest, pending = 0, [(document, 1)]
    while pending:
        value, depth = pending.pop()
        deepest = max(deepest, depth)
        children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        pending.extend((child, depth + 1) for child in children if isinstance(child, dict | list))
    return deepest


def _refuse_lone_surrogates(document: dict[str, Any], key: str) -> None:
    try:
        json.dumps(document, ensure_ascii=False, default=str).encode("utf-8")
    except UnicodeEncodeError as error:
        raise _corrupt(key, "a string holds half of a surrogate pair") from error


def _corrupt(key: str, found: str) -> CorruptTable:
    return CorruptTable(
        f"{key}: {found}. Keep the file as evidence; restore it from a copy of the table, or read another snapshot."
    )
