"""Kept commits: staged commits that a pipeline stores in the table between its steps, so that a killed run can
continue.

One object per commit user and identifier, below `lakehouse/pending/`: the commit as JSON, and in a second line its
CRC-32. It is not a part of the table's history. Source: docs/format/layout.md#names-of-this-project.
"""

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Final
from urllib.parse import unquote

from lakehouse_core.errors import (
    CorruptTable,
    InvalidRequest,
    LakehouseError,
    NotFound,
    StorageUnavailable,
    UnsupportedFeature,
)
from lakehouse_core.storage.object_store import Children, ObjectStore, StoreReader, read_all
from lakehouse_core.table.layout import PENDING_FOLDER, PINS_FOLDER, TableLayout
from lakehouse_core.table.read_back import readable_file
from lakehouse_core.table.staged_commit import StagedCommit

# The prefix of the checksum line. A person who edits the object removes the line. Stored in tables. Never change.
_WITH_CHECKSUM: Final = re.compile(rb"(.*)\ncrc32:([0-9a-f]{8})", re.DOTALL)
_NAME: Final = re.compile(r"(.+)-(\d+)\.json")


def keep_pending(store: ObjectStore, layout: TableLayout, staged: StagedCommit) -> None:
    """Store a staged commit, replacing an earlier one of the same user and identifier."""
    plain = StagedCommit(**{each.name: getattr(staged, each.name) for each in fields(StagedCommit)})
    key = layout.staged_commit(staged.commit_user, staged.commit_identifier)
    data = readable_file(plain, _with_checksum, partial(parse_pending, where=key), what="The staged commit")
    store.write({key: data})


def load_pending(
    store: StoreReader, layout: TableLayout, commit_user: str, commit_identifier: int
) -> StagedCommit | None:
    """Return the kept commit, None if there is none. Raises CorruptTable if it is damaged, UnsupportedFeature."""
    key = layout.staged_commit(commit_user, commit_identifier)
    try:
        data = store.read(key)
    except NotFound:
        return None
    staged = parse_pending(data, store.uri(key))
    if (staged.commit_user, staged.commit_identifier) != (commit_user, commit_identifier):
        raise _misplaced(store, key, staged, commit_user, commit_identifier)
    return staged


def _misplaced(
    store: StoreReader, key: str, staged: StagedCommit, commit_user: str, commit_identifier: int
) -> CorruptTable:
    return CorruptTable(
        f"{store.uri(key)}: it is a commit of {staged.commit_user}/{staged.commit_identifier}, expected one of "
        f"{commit_user}/{commit_identifier}. Keep a copy as evidence, remove it, and stage the data again."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A kept commit, or the `error` that its object is read with. Then user and identifier are those of its name."""

    key: str
    commit_user: str
    commit_identifier: int
    staged: StagedCommit | None = None
    error: LakehouseError | None = None


def all_kept(store: StoreReader, layout: TableLayout, commit_user: str | None = None) -> list[Kept]:
    """Return the kept commits of a branch, of a user or of all, by user and identifier; unreadable ones too.

    One that is removed meanwhile may be left out. The name of an object has a digest in place of a very long user.
    """
    named = [
        (f"{PENDING_FOLDER}/{name}", unquote(match[1]), int(match[2]))
        for name in store.children(PENDING_FOLDER).files
        if name.startswith(layout.staged_prefix) and (match := _NAME.fullmatch(name.removeprefix(layout.staged_prefix)))
    ]
    if commit_user is not None:
        named = [
            (key, commit_user, number) for key, _, number in named if key == layout.staged_commit(commit_user, number)
        ]
    found = store.read_found(key for key, _, _ in named)
    kept = [
        _kept(store, layout, Kept(key=key, commit_user=user, commit_identifier=number), found[key])
        for key, user, number in named
        if key in found
    ]
    return sorted(kept, key=lambda each: (each.commit_user, each.commit_identifier))


def load_all_pending(
    store: StoreReader, layout: TableLayout, commit_user: str, *, only_readable: bool = False
) -> list[StagedCommit]:
    """Return the kept commits of a user, by their identifiers; with `only_readable` without those that are damaged.

    Raises as `load_pending` does.
    """
    found = []
    for each in all_kept(store, layout, commit_user):
        if each.error is not None and not only_readable:
            raise each.error
        if each.staged is not None:
            found.append(each.staged)
    return found


def _kept(store: StoreReader, layout: TableLayout, named: Kept, data: bytes) -> Kept:
    key = named.key
    try:
        staged = parse_pending(data, store.uri(key))
        if layout.staged_commit(staged.commit_user, staged.commit_identifier) != key:
            raise _misplaced(store, key, staged, named.commit_user, named.commit_identifier)
    except LakehouseError as error:
        return replace(named, error=error)
    return replace(named, commit_user=staged.commit_user, staged=staged)


def parse_pending(data: bytes, where: str) -> StagedCommit:
    """Return the staged commit in `data`; `where` names the object in errors.

    Raises CorruptTable if it is damaged, UnsupportedFeature if a newer release wrote it.
    """
    checked = _WITH_CHECKSUM.fullmatch(data)
    text = data if checked is None else checked[1]
    try:
        if checked is not None and int(checked[2], 16) != zlib.crc32(text):
            raise InvalidRequest("it does not fit its checksum.")
        return StagedCommit.from_json(text.decode("utf-8"))
    except (InvalidRequest, UnicodeDecodeError) as error:
        raise CorruptTable(
            f"{where}: expected a staged commit ({error}). Nothing was deleted or committed, because its files "
            "may be needed. Keep a copy as evidence, then remove it."
        ) from error


def remove(store: ObjectStore, keys: Sequence[str]) -> None:
    """Delete the objects of kept commits, those that are there. Raises StorageUnavailable if one could not be
    deleted.
    """
    if left := store.delete(keys):
        raise StorageUnavailable(f"{store.uri(left[0])}: the kept commit could not be deleted. Call again.")


def _with_checksum(staged: StagedCommit) -> bytes:
    text = staged.to_json().encode()
    return text + b"\ncrc32:%08x" % zlib.crc32(text)


def pending_commits(store: StoreReader) -> tuple[tuple[str, StagedCommit], ...]:
    """Return the kept commits, by key. Raises UnsupportedFeature or CorruptTable for any other file in the folder."""
    keys = pending_keys(store, store.children(PINS_FOLDER), store.children(PENDING_FOLDER))
    read = zip(keys, read_all(store, keys), strict=True)
    return tuple((key, parse_pending(data, store.uri(key))) for key, data in read)


def pending_keys(store: StoreReader, pins: Children, pending: Children) -> list[str]:
    """Return the keys of the kept commits, from the folders `PINS_FOLDER` and `PENDING_FOLDER`.

    Raises UnsupportedFeature for a pin.
    """
    if pins.files:
        raise UnsupportedFeature(
            f"{store.uri(PINS_FOLDER)}: pin {pins.files[0]} was set by a newer release, and protects files unknown to "
            "this one. Nothing was deleted; upgrade, or remove the pin."
        )
    return [f"{PENDING_FOLDER}/{name}" for name in pending.files]
