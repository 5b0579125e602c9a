"""Scan mode: where a batch read starts, by the options of the table and of the read: one mode, and the option it needs.

Rule, stricter than Java's: an option that the mode does not use is refused, because the answer would not be the one
that the caller asked for. Source: docs/semantics/reading.md#scan-modes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.options.keys import FORMER_NAMES, under_current_names
from lakehouse_core.options.known import KNOWN
from lakehouse_core.options.units import parse_bool, parse_word

SCAN_MODE_KEY: Final = "scan.mode"


class ScanMode(StrEnum):
    """Java's startup modes. `default` and `full` are resolved before."""

    LATEST_FULL = "latest-full"
    LATEST = "latest"
    LATEST_DELTA = "latest-delta"
    COMPACTED_FULL = "compacted-full"
    FROM_TIMESTAMP = "from-timestamp"
    FROM_CREATION_TIMESTAMP = "from-creation-timestamp"
    FROM_FILE_CREATION_TIME = "from-file-creation-time"
    FROM_SNAPSHOT = "from-snapshot"
    FROM_SNAPSHOT_FULL = "from-snapshot-full"
    INCREMENTAL = "incremental"


# The options of which a mode needs exactly one. Their order decides the mode where none is given.
_NEEDED: Final[Mapping[ScanMode, tuple[str, ...]]] = {
    ScanMode.FROM_TIMESTAMP: ("scan.timestamp-millis", "scan.timestamp"),
    ScanMode.FROM_SNAPSHOT: ("scan.snapshot-id", "scan.tag-name", "scan.watermark", "scan.version"),
    ScanMode.FROM_FILE_CREATION_TIME: ("scan.file-creation-time-millis",),
    ScanMode.FROM_CREATION_TIMESTAMP: ("scan.creation-time-millis",),
    ScanMode.INCREMENTAL: ("incremental-between", "incremental-between-timestamp", "incremental-to-auto-tag"),
}
_START_KEYS: Final = tuple(key for keys in _NEEDED.values() for key in keys)
# Options that only say how an incremental read works: alone they do not request one.
_CHANGES_KEY: Final = "incremental-between-scan-mode"
_TAGS_KEY: Final = "incremental-between-tag-to-snapshot"
_MANNER_KEYS: Final = (_CHANGES_KEY, _TAGS_KEY)
SCAN_KEYS: Final = frozenset({SCAN_MODE_KEY, *_START_KEYS, *_MANNER_KEYS})


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanStart:
    """Where a batch read starts.

    `key` is the option that the mode needs, with its text; None when the mode needs none.
    """

    mode: ScanMode
    key: str | None = None
    text: str = ""


def scan_start(options: Mapping[str, str]) -> ScanStart:
    """Return the start that the options ask for.

    Ignores other options. Raises InvalidRequest for options that do not fit.
    """
    for key in (SCAN_KEYS | FORMER_NAMES.keys()) & options.keys():
        if not isinstance(options[key], str):
            raise InvalidRequest(
                f"Option {shown(key)} = {shown(options[key])}: expected text. Put the value in quotes."
            )
    current = under_current_names(options)
    given = [key for key in _START_KEYS if key in current]
    mode = _mode(current.get(SCAN_MODE_KEY), given)
    needed = ("scan.snapshot-id",) if mode is ScanMode.FROM_SNAPSHOT_FULL else _NEEDED.get(mode, ())
    for key in given:
        if key not in needed:
            wanted = f"needs {' or '.join(needed)}" if needed else "takes no start"
            raise InvalidRequest(f"Option {key} is set, and {SCAN_MODE_KEY} {mode} {wanted}: remove one of the two.")
    if not needed:
        return ScanStart(mode=mode)
    if len(given) != 1:
        found = " and ".join(given) or "none of them"
        raise InvalidRequest(
            f"{SCAN_MODE_KEY} {mode}: found {found}, expected exactly one of {', '.join(needed)}. Set one."
        )
    return ScanStart(mode=mode, key=given[0], text=current[given[0]])


def incremental_mode(options: Mapping[str, str]) -> str:
    """Return where the changes of an incremental read come from, as a word of the option."""
    kind = KNOWN[_CHANGES_KEY].kind
    assert isinstance(kind, tuple)
    return parse_word(_CHANGES_KEY, options.get(_CHANGES_KEY, "auto"), kind)


def tags_as_ids(options: Mapping[str, str]) -> bool:
    """Return whether the tags of an incremental read stand for the ids of their snapshots."""
    return parse_bool(_TAGS_KEY, options.get(_TAGS_KEY, "false"))


def _mode(text: str | None, given: list[str]) -> ScanMode:
    kind = KNOWN[SCAN_MODE_KEY].kind
    assert isinstance(kind, tuple)
    word = "default" if text is None else parse_word(SCAN_MODE_KEY, text, kind)
    if word == "full":
        return ScanMode.LATEST_FULL
    if word != "default":
        return ScanMode(word)
    for mode, keys in _NEEDED.items():
        if any(key in given for key in keys):
            return mode
    return ScanMode.LATEST_FULL
