"""Errors the core raises, by what to do about them.

LakehouseError
├── NotFound                 no such table, snapshot or object: check the name
│   ├── SnapshotExpired      it was there: start again from the earliest id, which the message names
│   └── TableDropped         it was there when the handle was opened: open it again under its present name
├── InvalidRequest           the call or an option is wrong: fix it, then call again
│   ├── StaleCommit          this user has committed a later identifier: go on with a fresh user
│   └── PlanTooLarge         the plan does not fit its bound: add the filter that the message names
├── UnsupportedFeature       the table uses what we do not implement: upgrade, or use another engine
├── CommitConflict           someone else's commit won: re-read, re-plan
├── CommitTimeout            nothing was applied before the deadline: commit the same again
├── CommitOutcomeUnknown     it may have been applied: commit the same again, which finds out; never abort
├── BackPressure             compaction lags behind the writers: nothing is lost; wait, then write again
├── StorageUnavailable       the store did not answer: retry later
│   ├── WriteOutcomeUnknown  the object may have been written: look before anything else
│   ├── StorageFull          no space left: make room, then call again
│   └── CredentialsMissing   this process has no keys for the store: set them in its environment
├── TaskFailed               a task failed in each of its attempts: see its cause
└── CorruptTable             stored bytes contradict the spec or each other: stop, keep the evidence
"""

import difflib
import reprlib
from collections.abc import Callable, Iterable
from typing import Final

# One line of a terminal's log, with the advice at its end.
_LONGEST_HEAD: Final = 1_500
_LONGEST_TAIL: Final = 500
_LONGEST_VALUE: Final = 120
# Longer than any name; what is longer is compared by its beginning.
_LONGEST_NAME: Final = 1_000


class LakehouseError(Exception):
    """The root of all errors that the core raises on purpose. Its text is one line that every terminal can show; an
    error of several faults has a line for each of its arguments.
    """

    def __str__(self) -> str:
        return "\n".join(_one_line(str(each)) for each in self.args)


def retell(error: LakehouseError, told: Callable[[str], str]) -> None:
    """Change the first line of an error, and keep those of its other faults."""
    first, *others = error.args or ("",)
    error.args = (told(str(first)), *others)


def shown(value: object) -> str:
    """Return a caller's value for a message: its `repr`, cut to a short line."""
    return _one_line(_VALUES.repr(value))


def near_hint(name: object, known: Iterable[object], otherwise: str, *, most: int = 3, cutoff: float = 0.5) -> str:
    """Return advice for an unknown name: the known ones that are most like it, or `otherwise`."""
    near = near_names(name, known, most=most, cutoff=cutoff)
    return f"Did you mean {near}?" if near else otherwise


def near_names(name: object, known: Iterable[object], *, most: int = 3, cutoff: float = 0.5) -> str:
    """Return the known names that are most like an unknown one, as `a or b`; empty if none is like it.

    `most`: how many are named; `cutoff`: how like they have to be, from 0 to 1.
    """
    if not isinstance(name, str):
        return ""
    # Letters of the other case are the most frequent mistake.
    texts = {text.casefold(): text for text in map(str, known)}
    near = difflib.get_close_matches(name[:_LONGEST_NAME].casefold(), texts, n=most, cutoff=cutoff)
    return " or ".join(texts[each] for each in near)


def written_as(value: object) -> str:
    """Return advice on how to write a number or a flag as text; nothing for other values."""
    match value:
        case bool():
            return f', as in "{str(value).lower()}"'
        case float():
            return f', as in "{value}"'
        case int() if value.bit_length() < 64:
            return f', as in "{value}"'
    return ""


class _Values(reprlib.Repr):
    """The `repr` of a value, shortened inside long and deep values; a failing `repr` of the value is replaced."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 4
        self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = self.maxdict = 12
        self.maxstring = self.maxother = _LONGEST_VALUE

    def repr_int(self, x: int, level: int) -> str:
        # Python turns no longer integer into text.
        return super().repr_int(x, level) if x.bit_length() < 10_000 else f"<an integer of {x.bit_length()} bits>"

    def repr_str(self, x: str, level: int) -> str:
        return super().repr_str(x, level) if type(x) is str else self.repr_instance(x, level)


_VALUES: Final = _Values()


def _one_line(text: str) -> str:
    if len(text) > _LONGEST_HEAD + _LONGEST_TAIL:
        text = f"{text[:_LONGEST_HEAD]} … {text[-_LONGEST_TAIL:]}"
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")


class NotFound(LakehouseError):
    """The table, snapshot, tag or object does not exist."""


class SnapshotExpired(NotFound):
    """The snapshot is expired. The message names the earliest existing one."""


class TableDropped(NotFound):
    """The table was dropped or renamed after its handle was opened, and before the verb had an effect on it."""


class InvalidRequest(LakehouseError):
    """The call, a value or an option is wrong."""


class StaleCommit(InvalidRequest):
    """This commit user has already committed a later identifier."""


class PlanTooLarge(InvalidRequest):
    """The plan does not fit its bound."""


class UnsupportedFeature(LakehouseError):
    """The table needs a feature that is not implemented. The core does not guess."""


class CommitConflict(LakehouseError):
    """Another commit changed files that this one relies on. Nothing was applied."""


class CommitTimeout(LakehouseError):
    """Every attempt lost its race before the deadline. Nothing was applied."""


class CommitOutcomeUnknown(LakehouseError):
    """The commit may have been applied. A replay of the same commit finds out."""


class BackPressure(LakehouseError):
    """Compaction lags behind the writers. No verb raises it yet: a write compacts what piled up by itself, and a
    write-only table is left to its compactions (docs/semantics/compaction.md#stop-trigger).
    """


class StorageUnavailable(LakehouseError):
    """The store did not answer, or reported a failure that may be temporary."""


class WriteOutcomeUnknown(StorageUnavailable):
    """The object may have been written."""


class StorageFull(StorageUnavailable):
    """The store has no space left."""


class CredentialsMissing(StorageUnavailable):
    """This process has no credentials for the store. Another attempt does not find any, either."""


class TaskFailed(LakehouseError):
    """A task failed in each of its attempts."""


class CorruptTable(LakehouseError):
    """Stored bytes contradict the specification or each other."""

    @classmethod
    def missing(cls, uri: str) -> "CorruptTable":
        """Return the error for a missing file that a snapshot still names, as far as is known."""
        return cls(
            f"{uri}: it is missing, but a snapshot names it. If that snapshot is expired, start again; else "
            "run `lakehouse verify` and keep its report."
        )
