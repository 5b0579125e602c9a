"""Ledger: the commits that each user has applied, carried from snapshot to snapshot in a property.

Rule: a repeated commit is recognised without a walk through history, also after its snapshots have expired.
Source: docs/reliability/commit.md#state-in-snapshots.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from lakehouse_core.errors import CorruptTable, UnsupportedFeature
from lakehouse_core.table.commit_message import BATCH_IDENTIFIER, CommitKind
from lakehouse_core.table.snapshot import Snapshot

# Stored in every snapshot that we write. Never rename.
LEDGER_PROPERTY = "lakehouse.ledger"
NONCE_PROPERTY = "lakehouse.nonce"
# The property of a snapshot whose commit was queued: others may still wait. Without it no commit lists the queue, which
# saves a call.
QUEUE_PROPERTY = "lakehouse.queue"

MAX_USERS = 512
# Each batch commit has a fresh user, whose entry is needed only while the commit may be repeated.
MAX_BATCH_USERS = 128
MAX_BYTES = 48 * 1024
# A user that is dropped sooner than this may still repeat a commit.
YOUNG_DAYS = 7

_VERSION = 1
_DAY_MILLIS = 86_400_000
_LETTERS = {CommitKind.APPEND: "A", CommitKind.COMPACT: "C", CommitKind.OVERWRITE: "O", CommitKind.ANALYZE: "S"}
# Compactions and statistics change no row, but for compactions that bring waiting rows into their buckets.
CONTENT_KINDS = (CommitKind.APPEND, CommitKind.OVERWRITE)
_KINDS = {letter: kind for kind, letter in _LETTERS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """The highest identifier of a user, the snapshot id of each commit kind, and the day (days since 1970-01-01)."""

    identifier: int
    snapshots: Mapping[CommitKind, int]
    day: int

    @property
    def last_snapshot_id(self) -> int:
        return max(self.snapshots.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The last commit of each user. `dropped_until`: the highest snapshot id of a dropped entry (0: none dropped)."""

    entries: Mapping[str, LedgerEntry] = field(default_factory=dict)
    dropped_until: int = 0

    def to_json(self) -> str:
        """Return the value of the property. Users are in the order of their last commits."""
        users = {
            user: [
                entry.identifier,
                {_LETTERS[kind]: snapshot_id for kind, snapshot_id in entry.snapshots.items()},
                entry.day,
            ]
            for user, entry in self.entries.items()
        }
        document = {"v": _VERSION, "dropped": self.dropped_until, "users": users}
        return json.dumps(document, ensure_ascii=False, separators=(",", ":"))

    def with_commit(self, snapshot: Snapshot) -> "tuple[Ledger, int]":
        """Return the ledger after `snapshot`, within its bounds, and the number of dropped users younger than a week.

        An identifier below the user's highest is not recorded: another engine may go back, this one never does.
        """
        entry = self.entries.get(snapshot.commit_user)
        day = snapshot.time_millis // _DAY_MILLIS
        if entry is not None and entry.identifier > snapshot.commit_identifier:
            return self, 0
        snapshots = {snapshot.commit_kind: snapshot.id}
        if entry is not None and entry.identifier == snapshot.commit_identifier:
            snapshots = {**entry.snapshots, **snapshots}
        noted = LedgerEntry(identifier=snapshot.commit_identifier, snapshots=snapshots, day=day)
        others = {user: other for user, other in self.entries.items() if user != snapshot.commit_user}
        return _within_bounds(replace(self, entries={**others, snapshot.commit_user: noted}), day)


class LedgerAnswer(Enum):
    """Whether a snapshot was applied, by the ledger of a later one."""

    APPLIED = "applied"
    NOT_APPLIED = "not applied"
    FORGOTTEN = "forgotten"


def ledger_answer(snapshot: Snapshot, ledger: Ledger) -> LedgerAnswer:
    """Return whether `ledger`, that of a later snapshot, records `snapshot` itself as applied."""
    entry = ledger.entries.get(snapshot.commit_user)
    if entry is None:
        return LedgerAnswer.FORGOTTEN if ledger.dropped_until >= snapshot.id else LedgerAnswer.NOT_APPLIED
    if entry.identifier > snapshot.commit_identifier:
        return LedgerAnswer.FORGOTTEN
    is_noted = (
        entry.identifier == snapshot.commit_identifier and entry.snapshots.get(snapshot.commit_kind) == snapshot.id
    )
    return LedgerAnswer.APPLIED if is_noted else LedgerAnswer.NOT_APPLIED


def parse_ledger(text: str, key: str) -> Ledger:
    """Return the ledger in the property of snapshot `key`. Raises CorruptTable, UnsupportedFeature."""
    try:
        document = json.loads(text)
        if document["v"] > _VERSION:
            raise UnsupportedFeature(
                f"{key}: its ledger has version {document['v']}, this release knows {_VERSION}: a commit would "
                "lose the record of earlier commits. Upgrade before writing."
            )
        entries = {user: _entry(*found) for user, found in document["users"].items()}
        return Ledger(entries=entries, dropped_until=int(document["dropped"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptTable(
            f"{key}: its property {LEDGER_PROPERTY} is not a ledger ({error}). Keep the file as evidence; "
            "run `lakehouse verify`."
        ) from error


def ledger_of(snapshot: Snapshot, key: str) -> Ledger | None:
    """Return the ledger in `snapshot`, None if another engine wrote the snapshot."""
    text = snapshot.properties.get(LEDGER_PROPERTY)
    return None if text is None else parse_ledger(text, key)


def rebuilt(start: Ledger, later: Iterable[Snapshot]) -> Ledger:
    """Return the ledger after the snapshots `later`, oldest first, none of which has a ledger.

    Batch commits of other engines get no entry: their users never commit again, and entries would displace others.
    """
    ledger = start
    for snapshot in later:
        if snapshot.commit_identifier != BATCH_IDENTIFIER:
            ledger, _ = ledger.with_commit(snapshot)
    return ledger


def content_snapshot_id(newest_live: int | None, ledger: Ledger) -> int | None:
    """Return the id of the newest snapshot that changed rows, which may have expired; None if it is unknown.

    `newest_live`: the newest of them that is live. `ledger`: that of the latest snapshot.
    """
    kinds = CONTENT_KINDS
    noted = [made for entry in ledger.entries.values() for kind, made in entry.snapshots.items() if kind in kinds]
    return max([*noted, *([] if newest_live is None else [newest_live])], default=None)


def _entry(identifier: Any, snapshots: Any, day: Any) -> LedgerEntry:
    found = {_KINDS[letter]: int(snapshot_id) for letter, snapshot_id in snapshots.items()}
    if not found:
        raise ValueError("an entry without a snapshot")
    return LedgerEntry(identifier=int(identifier), snapshots=found, day=int(day))


def _within_bounds(ledger: Ledger, today: int) -> tuple[Ledger, int]:
    """Return the ledger within its bounds, and the number of dropped users younger than a week. Batch users are dropped
    first, then the oldest; entries are in the order of their last commits.
    """
    dropped: list[LedgerEntry] = []
    entries = dict(ledger.entries)
    batch = [user for user, entry in entries.items() if entry.identifier == BATCH_IDENTIFIER]
    for user in batch[: max(0, len(batch) - MAX_BATCH_USERS)]:
        dropped.append(entries.pop(user))
    while len(entries) > MAX_USERS:
        dropped.append(entries.pop(next(iter(entries))))
    size = len(replace(ledger, entries=entries).to_json().encode())
    while size > MAX_BYTES and len(entries) > 1:
        user = next(iter(entries))
        size -= len(Ledger(entries={user: entries[user]}).to_json().encode()) - len(Ledger().to_json().encode()) + 1
        dropped.append(entries.pop(user))
    if not dropped:
        return ledger, 0
    until = max(ledger.dropped_until, *(entry.last_snapshot_id for entry in dropped))
    named = [entry for entry in dropped if entry.identifier != BATCH_IDENTIFIER]
    return replace(ledger, entries=entries, dropped_until=until), sum(today - entry.day < YOUNG_DAYS for entry in named)
