"""The history of a followed table: what another table that has its changes may go on from.

Rule: a rollback or a fast-forward tells no change. A table goes on only if the rows that it has are on the way.
"""

from collections.abc import Collection, Iterable
from contextlib import suppress

import lakehouse_core as lc

_FEW_SNAPSHOTS = 8
# Of a snapshot: the delta of the followed snapshot whose changes it has, which tells that one from another with its id.
# Stored in snapshots: never change it.
_FOLLOWED = "lakehouse.followed"


def undone_after(
    followed: lc.Table, table: lc.Table, done: int, *, commit_user: str, staged: Collection[int]
) -> frozenset[int]:
    """Return the snapshots after `done` that rollbacks took back, and the rollbacks: `table`, which has the changes up
    to `done`, never takes theirs, and those of the others lead to the latest state.

    Raises InvalidRequest if a rollback led to another state: to one before `done`, to that of a branch, or to one of
    which nothing is known any more; also if changes that were taken back are `staged`.
    """
    latest = followed.snapshot()
    found: set[int] = set()
    if latest is None or latest.id <= done:
        return frozenset()
    at = latest.id
    for each in _newest_first(followed, latest.id, done):
        if each.id > at:
            found.add(each.id)
        elif each.brings_files:
            found.add(each.id)
            at = int(each.rolled_back_to or 0) if _is_in_history(each, followed, table, commit_user) else 0
            if at < max(done, 1) or any(at < number < each.id for number in staged):
                raise lc.InvalidRequest(
                    f"{table.name}: it has the changes of {followed.name} up to snapshot {max(done, *staged, 0)}, and "
                    f"snapshot {each.id} {_what_it_did(followed, each)}, which no change tells. Drop {table.name}; the "
                    "next run makes it anew."
                )
    return frozenset(found)


def _is_in_history(rollback: lc.Snapshot, followed: lc.Table, table: lc.Table, commit_user: str) -> bool:
    """Return whether a rollback led to the snapshot that has the id, or had it when `table` took its changes: a tag may
    keep one of a history whose ids another engine gave to others since.
    """
    named, delta = rollback.rolled_back_to or "", rollback.rolled_back_delta
    if delta is None or not named.isdecimal() or int(named) >= rollback.id:
        return False
    there = followed_mark(followed, int(named)).get(_FOLLOWED)
    if there is None:
        # An expiry keeps the snapshots whose changes the table has yet to take, and not the one before them.
        last, there = _taken(table, commit_user)
        return last == int(named) and there == delta
    return there == delta


def last_rollback(followed: lc.Table, after_id: int) -> lc.Snapshot | None:
    """Return the newest of the existing snapshots after `after_id` that rolled the table back, or fast-forwarded it."""
    latest = followed.snapshot()
    if latest is None or latest.id <= after_id:
        return None
    found = _newest_first(followed, latest.id, after_id)
    return next((each for each in found if each.brings_files), None)


def followed_mark(followed: lc.Table, snapshot_id: int) -> dict[str, str]:
    """Return the property that tells which snapshot was followed; none if it is expired."""
    with suppress(lc.SnapshotExpired):
        if (snapshot := followed.snapshot(snapshot_id)) is not None:
            return {_FOLLOWED: snapshot.delta_manifest_list}
    return {}


def check_same(followed: lc.Table, table: lc.Table, commit_user: str) -> None:
    """Raise InvalidRequest if the snapshot whose changes `table` has taken last is gone, or another one has its id:
    another engine rolled the followed table back, or fast-forwarded it.
    """
    last, known = _taken(table, commit_user)
    latest = followed.snapshot()
    if last and (latest is None or latest.id < last):
        now = "this snapshot is not there any more"
    elif known is not None and known != followed_mark(followed, last).get(_FOLLOWED, known):
        now = "another snapshot has this id now"
    else:
        return
    raise lc.InvalidRequest(
        f"{table.name}: it has the changes of {followed.name} up to snapshot {last}, and {now}: another engine rolled "
        f"{followed.name} back or fast-forwarded it, which no change tells. Drop {table.name}; the next run makes it "
        "anew."
    )


def _taken(table: lc.Table, commit_user: str) -> tuple[int, str | None]:
    """Return the snapshot whose changes `table` has taken last, 0 before any, and its delta, None if it is unknown."""
    last = next((each for each in table.committers() if each.commit_user == commit_user), None)
    if last is None:
        return 0, None
    with suppress(lc.SnapshotExpired, lc.NotFound):
        if (made := table.snapshot(last.snapshot_id)) is not None:
            return last.commit_identifier, made.properties.get(_FOLLOWED)
    return last.commit_identifier, None


def _what_it_did(followed: lc.Table, snapshot: lc.Snapshot) -> str:
    if snapshot.rolled_back_to is None:
        return f"brought {followed.name} to the state of its branch {snapshot.forwarded_from}"
    return f"rolled {followed.name} back to snapshot {snapshot.rolled_back_to}"


def _newest_first(followed: lc.Table, latest_id: int, after_id: int) -> Iterable[lc.Snapshot]:
    """Return the existing snapshots (after_id, latest_id]. A few are read alone, many with all before them."""

    def few(seen: lc.Table) -> list[lc.Snapshot]:
        found = (seen.snapshot(one) for one in range(latest_id, after_id, -1))
        return [each for each in found if each is not None]

    if latest_id - after_id <= _FEW_SNAPSHOTS:
        with suppress(lc.SnapshotExpired):
            return followed.at_one_moment(few)
    return [each for each in reversed(followed.snapshots()) if each.id > after_id]
