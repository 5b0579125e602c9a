"""Batches into a table, in two steps: files staged under a stable identity, then committed once each.

Between the two, the staged commits lie in the table's own folder: whoever is killed there goes on from them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import lakehouse_core as lc
from assets.batches import Batch, Feed
from assets.specs import TableSpec
from assets.state import BATCH, RUN_ID, committed_identifier

# Maintenance is an asset of its own, with a run, a page and a report: an ingest leaves it to that. A table whose
# readers or changelog need the compaction with the write says so in its specification.
PIPELINE_DEFAULTS: Mapping[str, str] = {"write-only": "true"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A batch and the files written for it; none when an earlier attempt has committed it already."""

    batch: Batch
    files: int = 0
    rows: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """A batch and the report of its commit; None when it was committed before and nothing is pending any more."""

    batch: Batch
    report: lc.CommitReport | None


def create_table(catalog: lc.Catalog, spec: TableSpec, defaults: Mapping[str, str]) -> lc.Table:
    """Return the table of the specification, created now where it is missing; an existing one is left as it is."""
    catalog.create_database(spec.database, exist_ok=True)
    return catalog.create_table(
        spec.identifier,
        {name: column.type for name, column in spec.columns.items()},
        partition_keys=list(spec.partition_by),
        primary_keys=list(spec.primary_key),
        options={**PIPELINE_DEFAULTS, **defaults, **spec.options},
        comment=spec.comment,
        exist_ok=True,
    )


def differences(table: lc.Table, spec: TableSpec) -> list[str]:
    """Return in words what the specification says and the table, made from an earlier one, has not."""
    schema = table.schema
    found = [
        f"the specification has a column {name!r}, the table has none"
        for name in spec.columns
        if not schema.has_field(name)
    ]
    found += [
        f"option {key} is {value} in the specification and {schema.options.get(key, 'not set')} in the table"
        for key, value in spec.options.items()
        if schema.options.get(key) != value
    ]
    keys = (
        ("primary key", spec.primary_key, schema.primary_keys),
        ("partition", spec.partition_by, schema.partition_keys),
    )
    found += [
        f"its {what} is {', '.join(wanted) or 'none'} in the specification and {', '.join(has) or 'none'} in the table"
        for what, wanted, has in keys
        if tuple(wanted) != tuple(has)
    ]
    return found


def open_table(catalog: lc.Catalog, name: str) -> lc.Table | None:
    """Return the table, None while nobody has created it."""
    try:
        return catalog.table(name)
    except lc.NotFound:
        return None


def refuse_gap(
    table: lc.Table,
    batches: Sequence[Batch],
    feed: Feed,
    is_gap: Callable[[str | None, str], bool],
    *,
    commit_user: str,
) -> None:
    """Raise InvalidRequest when a batch before `batches` was never committed: a later one would hide that for ever.

    `is_gap` says whether batches strictly between two bring any rows. Refused, too, are batches for an append table
    that has some of another version of the feed: it would hold their rows twice.
    """
    if not batches or batches[0].key is None:
        return
    done = committed_identifier(table, commit_user)
    same_feed = commit_user.partition("@")[0] + "@"
    earlier = [c.commit_user for c in table.committers() if c.commit_user.startswith(same_feed)]
    if done is None and earlier and not table.schema.primary_keys:
        raise lc.InvalidRequest(
            f"{table.name}: {commit_user} has batches for an append table that took them from {earlier[-1]}: "
            "rows would be doubled. Go on with the version of the feed it began with, or load another warehouse."
        )
    last = None if done is None else feed.batch_key(done)
    first = batches[0].key
    if (done is None or done < batches[0].identifier) and is_gap(last, first):
        raise lc.InvalidRequest(
            f"{table.name}: batch {first} was asked for, but the last one committed is {last or 'none'}: "
            "batches are taken in order, so load those between first."
        )


def stage_batches(
    table: lc.Table,
    batches: Iterable[Batch],
    read: Callable[[Batch], object],
    *,
    commit_user: str,
    rowkind_column: str | None = None,
    progress: Callable[[lc.Progress], None] | None = None,
) -> Iterator[Staged]:
    """Write the files of each batch and keep its staged commit in the table's folder, one batch after the other.

    What an earlier attempt has staged or committed under the same user is not written again.
    """
    done = committed_identifier(table, commit_user)
    # Without them a batch would number its rows as if those before it did not exist, and not win over them.
    uncommitted: list[lc.StagedCommit] = []
    for batch in batches:
        if done is not None and batch.identifier <= done:
            yield Staged(batch=batch)
            continue
        staged = table.pending(commit_user, batch.identifier)
        if staged is None:
            staged = table.stage(
                read(batch),
                commit_user=commit_user,
                commit_identifier=batch.identifier,
                rowkind_column=rowkind_column,
                properties={BATCH: batch.key} if batch.key else {},
                behind=uncommitted,
                progress=progress,
            )
            table.keep_pending(staged)
        uncommitted.append(staged)
        files = [file for message in staged.messages for file in message.new_files]
        yield Staged(
            batch=batch,
            files=len(files),
            rows=sum(file.row_count for file in files),
            bytes=sum(file.file_size for file in files),
        )


def commit_batches(
    table: lc.Table,
    batches: Iterable[Batch],
    *,
    commit_user: str,
    run_id: str,
    tag_batches: bool,
    progress: Callable[[lc.Progress], None] | None = None,
) -> Iterator[Committed]:
    """Commit each staged batch, oldest first, and tag the table after it.

    Safe to repeat at any point: a batch that is committed stays so, once. What is pending is forgotten after the last
    batch. Raises NotFound for a batch that is neither staged nor committed.
    """
    done = committed_identifier(table, commit_user)
    finished = []
    for batch in batches:
        staged = table.pending(commit_user, batch.identifier)
        if staged is None and done is not None and batch.identifier <= done:
            yield Committed(batch=batch, report=None)
            continue
        if staged is not None and not staged.messages and done is not None and batch.identifier < done:
            # A batch without rows leaves no snapshot: the table cannot tell that it was committed, and need not.
            finished.append(staged)
            yield Committed(batch=batch, report=None)
            continue
        if staged is None:
            raise lc.NotFound(
                f"{table.name}: nothing is staged under {commit_user} for batch {batch.key or 'whole load'}; "
                "materialise its ingest asset first, in the same run or a re-execution of it."
            )
        report = commit_staged(table, staged, run_id, progress=progress)
        if tag_batches and batch.key is not None and report.snapshot_ids:
            # The compaction's, if there was one: where readers pass over level 0, it shows the rows.
            _tag(table, f"batch-{batch.key}", report.snapshot_ids[-1])
        finished.append(staged)
        yield Committed(batch=batch, report=report)
    for staged in finished:
        table.forget_pending(staged)


def commit_staged(
    table: lc.Table,
    staged: lc.StagedCommit,
    run_id: str,
    *,
    progress: Callable[[lc.Progress], None] | None = None,
) -> lc.CommitReport:
    """Commit; the snapshot says which run made it, so that one can go from either to the other."""
    return table.commit(replace(staged, properties={**staged.properties, RUN_ID: run_id}), progress=progress)


def _tag(table: lc.Table, name: str, snapshot_id: int) -> None:
    """Tag the snapshot of a batch. A batch that is delivered again moves its tag."""
    existing = {tag.name: tag.snapshot_id for tag in table.tags()}.get(name)
    if existing == snapshot_id:
        return
    if existing is not None:
        table.delete_tag(name)
    table.create_tag(name, at=snapshot_id)
