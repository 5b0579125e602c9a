"""Staged commits that a pipeline keeps in the table between its steps, so that a killed run can go on.

One object per commit user and identifier, below `lakehouse/pending/`. It is no part of the table's history.
"""

import hashlib
from dataclasses import fields
from typing import Final
from urllib.parse import quote

from lakehouse_core.errors import NotFound, StorageUnavailable
from lakehouse_core.execution.read_back import readable_file
from lakehouse_core.storage import ObjectStore
from lakehouse_core.table.changes import StagedCommit
from lakehouse_core.table.changes_json import staged_from_json, staged_to_json
from lakehouse_core.table.layout import PENDING_FOLDER

_LONGEST_NAME: Final = 150


def keep_pending(store: ObjectStore, staged: StagedCommit) -> None:
    """Keep a staged commit, replacing an earlier one of the same user and identifier."""
    plain = StagedCommit(**{each.name: getattr(staged, each.name) for each in fields(StagedCommit)})
    data = readable_file(plain, _to_bytes, _from_bytes, what="The staged commit")
    store.write(_key(staged.commit_user, staged.commit_identifier), data)


def load_pending(store: ObjectStore, commit_user: str, commit_identifier: int) -> StagedCommit | None:
    """Return what was kept, None when nothing is. Raises InvalidRequest when it cannot be read."""
    try:
        data = store.read(_key(commit_user, commit_identifier))
    except NotFound:
        return None
    return _from_bytes(data)


def forget_pending(store: ObjectStore, commit_user: str, commit_identifier: int) -> None:
    """Forget what was kept, once it is committed. Nothing kept is fine. Raises StorageUnavailable: it may be there."""
    key = _key(commit_user, commit_identifier)
    if store.delete([key]):
        raise StorageUnavailable(f"{store.uri(key)}: the kept commit could not be deleted. Call again.")


def _to_bytes(staged: StagedCommit) -> bytes:
    return staged_to_json(staged).encode()


def _from_bytes(data: bytes) -> StagedCommit:
    return staged_from_json(data.decode())


def _key(commit_user: str, commit_identifier: int) -> str:
    name = quote(commit_user, safe="")
    if len(name) > _LONGEST_NAME:
        name = name[: _LONGEST_NAME - 33] + "-" + hashlib.blake2b(commit_user.encode(), digest_size=16).hexdigest()
    # A user may be named "..", which is no part of a key.
    return f"{PENDING_FOLDER}/commit-{name}-{commit_identifier}.json"
