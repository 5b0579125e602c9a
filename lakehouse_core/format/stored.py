"""Stored values: check that texts and numbers for a table's files can be decoded by every reader and are not too large.

Rule: values are checked when a call receives them, so that no call publishes a file that readers refuse.
"""

from typing import Final, TypeGuard

from lakehouse_core.errors import InvalidRequest, shown, written_as

# Far below the 16 MiB of a JSON file, which holds many of them.
LONGEST_TEXT_BYTES: Final = 64 << 10
# Names stand in messages, in folders and in the headers of all files.
LONGEST_NAME_BYTES: Final = 255
# The prefix of a file name and the suffix of a temporary file need some of the 255 bytes that a file name has.
_LONGEST_NAMED_BYTES: Final = 200


def check_text(what: str, value: object, *, longest: int = LONGEST_TEXT_BYTES) -> None:
    """Raise InvalidRequest, which begins with `what`, unless `value` is Unicode text of at most `longest` bytes."""
    if not isinstance(value, str):
        raise InvalidRequest(f"{what} is {shown(value)}: expected text{written_as(value)}.")
    if is_broken(value):
        raise InvalidRequest(f"{what} is {shown(value)}, which holds half of a surrogate pair: write whole characters.")
    size = len(value.encode())
    if size > longest:
        raise InvalidRequest(f"{what} has {size} bytes, at most {longest} are kept: {shown(value)}. Shorten it.")


def check_name_for_file(what: str, name: object) -> None:
    """Raise InvalidRequest, which begins with `what`, unless a file can be named after the tag or consumer `name`."""
    if not isinstance(name, str):
        raise InvalidRequest(f"{what} {shown(name)}: expected a text as its name.")
    fault = None
    if not name.strip():
        fault = "it is blank"
    elif any(character in name for character in "/\\") or not name.isprintable():
        fault = "it contains a slash, a backslash or a control character"
    elif len(name.encode("utf-8", "surrogatepass")) > _LONGEST_NAMED_BYTES:
        fault = f"it has more than {_LONGEST_NAMED_BYTES} bytes"
    if fault is not None:
        raise InvalidRequest(f"{what} {shown(name)}: {fault}. Use letters, digits, '-', '_' and '.'.")


def is_broken(text: str) -> bool:
    """Return whether the text holds half of a surrogate pair, which no UTF-8 has."""
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)


def is_int64(value: object) -> TypeGuard[int]:
    """Return whether `value` is a whole number of 64 bits; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def is_file_name(name: str) -> bool:
    """Return whether the name of a file, as stored, cannot leave its folder and fits a file system."""
    if not 0 < len(name) <= LONGEST_NAME_BYTES or name in (".", "..") or not _PATH_CHARACTERS.isdisjoint(name):
        return False
    return name.isascii() or (not is_broken(name) and len(name.encode()) <= LONGEST_NAME_BYTES)


def control_character(text: str) -> str | None:
    """Return the first character of the text that controls a terminal or breaks a line, None when there is none."""
    return next((character for character in text if character in _LINE_BREAKS or ord(character) in _CONTROLS), None)


_PATH_CHARACTERS: Final = frozenset("/\\\0")
_CONTROLS: Final = frozenset({*range(0x20), *range(0x7F, 0xA0)})
_LINE_BREAKS: Final = "\u2028\u2029"
