"""Overtaking: rows that a run has staged, while another run has loaded the same part of the table anew.

Rule: what was read earlier never replaces what was read later (docs/decisions/0025-stale-loads-are-read-again.md).
"""

from collections.abc import Iterable, Mapping

import lakehouse_core as lc
from lakehouse_dagster.feed import RUN_USERS, Batch
from lakehouse_dagster.pipeline.table_state import (
    BATCH,
    batch_keys,
    committed_identifier,
    pending_batches,
)

# A property of staged commits, not of snapshots: the latest snapshot before the rows were read, 0 if there was none.
READ_AFTER = "lakehouse.read_after"


def read_after(table: lc.Table) -> Mapping[str, str]:
    """Return the property that tells when rows are read, before they are read."""
    latest = table.snapshot()
    return {READ_AFTER: str(0 if latest is None else latest.id)}


def overtaken_by(table: lc.Table, staged: lc.StagedCommit) -> str | None:
    """Return which load came between the reading of a staged load and now, in words; None if none did.

    A load that cannot be told, because snapshots have expired, may have come.
    """
    # Releases before this one did not note it.
    after = int(staged.properties.get(READ_AFTER, staged.base_snapshot_id or 0))
    snapshots = table.snapshots()
    if after == (snapshots[-1].id if snapshots else 0):
        return None
    if not snapshots or not snapshots[0].id - 1 <= after <= snapshots[-1].id:
        return f"the snapshots after {after}, which would tell of newer loads, are not there any more"
    part = [staged.properties[BATCH]] if BATCH in staged.properties else []
    for snapshot in snapshots:
        is_load = snapshot.commit_user.startswith(RUN_USERS) and str(snapshot.commit_kind) != "COMPACT"
        is_other = snapshot.id > after and snapshot.commit_user != staged.commit_user
        if is_load and is_other and batch_keys(snapshot.properties) == part:
            return f"run {(snapshot.run_id or snapshot.commit_user)[:8]} has loaded it since, as snapshot {snapshot.id}"
    return None


def overtaken(table: lc.Table, batches: Iterable[Batch], *, commit_user: str) -> dict[Batch, str]:
    """Return the batches whose staged rows another load has overtaken before they were committed, with the load in
    words.
    """
    done = committed_identifier(table, commit_user)
    left = [batch for batch in batches if done is None or batch.identifier > done]
    pending = pending_batches(table, commit_user, left)
    staged = {batch: pending(batch.identifier) for batch in left}
    found = {batch: overtaken_by(table, each) for batch, each in staged.items() if each is not None}
    return {batch: why for batch, why in found.items() if why is not None}
