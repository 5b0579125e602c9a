"""Kept commits: staged commits that a pipeline stores in the table between its steps, so that a killed run can
continue.

One object per commit user and identifier, below `lakehouse/pending/`: the commit as JSON, and in a second line its
CRC-32. It is not a part of the table's history.
"""

import re
import zlib
from dataclasses import fields
from functools import partial
from typing import Final

from lakehouse_core.errors import CorruptTable, InvalidRequest, NotFound, StorageUnavailable, UnsupportedFeature
from lakehouse_core.metadata.read_back import readable_file
from lakehouse_core.storage.object_store import Children, ObjectStore, StoreReader
from lakehouse_core.table.layout import PENDING_FOLDER, PINS_FOLDER, TableLayout
from lakehouse_core.table.staged_commit import StagedCommit

# The prefix of the checksum line. A person who edits the object removes the line. Stored in tables. Never change.
_SEAL: Final = re.compile(rb"(.*)\ncrc32:([0-9a-f]{8})", re.DOTALL)


def keep_pending(store: ObjectStore, staged: StagedCommit) -> None:
    """Store a staged commit, replacing an earlier one of the same user and identifier."""
    plain = StagedCommit(**{each.name: getattr(staged, each.name) for each in fields(StagedCommit)})
    key = TableLayout.staged_commit(staged.commit_user, staged.commit_identifier)
    data = readable_file(plain, _sealed, partial(parse_pending, where=key), what="The staged commit")
    store.write(key, data)


def load_pending(store: StoreReader, commit_user: str, commit_identifier: int) -> StagedCommit | None:
    """Return the kept commit, None if there is none. Raises CorruptTable if it is damaged, UnsupportedFeature."""
    key = TableLayout.staged_commit(commit_user, commit_identifier)
    try:
        data = store.read(key)
    except NotFound:
        return None
    staged = parse_pending(data, store.uri(key))
    if (staged.commit_user, staged.commit_identifier) != (commit_user, commit_identifier):
        raise CorruptTable(
            f"{store.uri(key)}: it is a commit of {staged.commit_user}/{staged.commit_identifier}, expected one of "
            f"{commit_user}/{commit_identifier}. Keep a copy as evidence, remove it, and stage the data again."
        )
    return staged


def load_all_pending(store: StoreReader, commit_user: str) -> list[StagedCommit]:
    """Return the kept commits of a user, by their identifiers. Raises as `load_pending` does.

    One that is removed meanwhile may be left out.
    """
    name = TableLayout.staged_commit(commit_user, 0).removeprefix(f"{PENDING_FOLDER}/")
    before, after = name.removesuffix("0.json"), ".json"
    numbers = [
        number
        for found in store.children(PENDING_FOLDER).files
        if found.startswith(before) and found.endswith(after)
        # Another user's name may begin with this one's.
        if (number := found.removeprefix(before).removesuffix(after)).isdecimal()
    ]
    kept = (load_pending(store, commit_user, number) for number in sorted(map(int, numbers)))
    return [staged for staged in kept if staged is not None]


def parse_pending(data: bytes, where: str) -> StagedCommit:
    """Return the staged commit in `data`; `where` names the object in errors.

    Raises CorruptTable if it is damaged, UnsupportedFeature if a newer release wrote it.
    """
    sealed = _SEAL.fullmatch(data)
    text = data if sealed is None else sealed[1]
    try:
        if sealed is not None and int(sealed[2], 16) != zlib.crc32(text):
            raise InvalidRequest("it does not fit its checksum.")
        return StagedCommit.from_json(text.decode("utf-8"))
    except (InvalidRequest, UnicodeDecodeError) as error:
        raise CorruptTable(
            f"{where}: expected a staged commit ({error}). Nothing was deleted or committed, because its files "
            "may be needed. Keep a copy as evidence, then remove it."
        ) from error


def forget_pending(store: ObjectStore, commit_user: str, commit_identifier: int) -> None:
    """Delete the kept commit, if there is one, after its commit. Raises StorageUnavailable if it could not be
    deleted.
    """
    key = TableLayout.staged_commit(commit_user, commit_identifier)
    if store.delete([key]):
        raise StorageUnavailable(f"{store.uri(key)}: the kept commit could not be deleted. Call again.")


def _sealed(staged: StagedCommit) -> bytes:
    text = staged.to_json().encode()
    return text + b"\ncrc32:%08x" % zlib.crc32(text)


def pending_commits(store: StoreReader) -> tuple[tuple[str, StagedCommit], ...]:
    """Return the kept commits, by key. Raises UnsupportedFeature or CorruptTable for any other file in the folder."""
    keys = pending_keys(store, store.children(PINS_FOLDER), store.children(PENDING_FOLDER))
    read = zip(keys, store.read_all(keys), strict=True)
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
