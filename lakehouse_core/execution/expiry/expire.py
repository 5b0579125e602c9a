"""Expiry: write the deletion plan, forbid ids, unlink roots; delete files when no reader can need them.

Source: docs/semantics/maintenance.md#snapshot-expiry, docs/reliability/deletion.md#order.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from lakehouse_core.clock import Clock
from lakehouse_core.errors import InvalidRequest, UnsupportedFeature
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.expiry.deletion import Deleted, DryRun, finish_deletions, preview
from lakehouse_core.execution.expiry.history import (
    Dates,
    History,
    Resumed,
    load_history,
    resume_interrupted,
    storage_now_millis,
)
from lakehouse_core.execution.expiry.tag_success import withdraw
from lakehouse_core.execution.expiry.unlinking import deleting, interrupted, make_changelogs, unlink
from lakehouse_core.execution.presence import check_here, check_kept
from lakehouse_core.metadata.consumers import outdated_consumers, remove_consumers
from lakehouse_core.metadata.deletion_plans import begin
from lakehouse_core.metadata.ids import snapshot_ids
from lakehouse_core.metadata.read_ahead import both
from lakehouse_core.options import TableOptions, option_of_unknown_roots
from lakehouse_core.planning.expiry.retention import ExpiryPlan, Retention, plan_expiry, retention_of
from lakehouse_core.planning.expiry.rollback_tags import is_needed, rollback_ids
from lakehouse_core.planning.timestamps import believed_now
from lakehouse_core.progress import NO_WATCH, Watch
from lakehouse_core.table.deletion_plan import DeletionPlan
from lakehouse_core.table.layout import TAG_PREFIX, TableLayout
from lakehouse_core.table.root import Root, RootKind, root_of
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import ROLLBACK_TAG, Snapshot, Tag


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryResult:
    """The roots and files that an expiry removed, or would remove. Ids are rising, sizes in bytes.

    `made_changelog_ids`: those of `snapshot_ids` that became long-lived changelogs. `deleted_keys`: every deleted
    object, roots and ended plans included; `files_deleted` counts the others by kind. `files_waiting`: how many files a
    later run deletes, once their readers have ended; `waiting_keys` names them if this run added some. `reason` says
    with figures what keeps the rest; `noop_reason` is set when nothing was done.
    """

    snapshot_ids: tuple[int, ...] = ()
    made_changelog_ids: tuple[int, ...] = ()
    changelog_ids: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    earliest_id: int | None = None
    latest_id: int | None = None
    deleted_keys: tuple[str, ...] = ()
    files_deleted: Mapping[str, int] = field(default_factory=dict)
    bytes_deleted: int = 0
    files_waiting: int = 0
    bytes_waiting: int = 0
    waiting_keys: tuple[str, ...] = ()
    waiting_plan_ids: tuple[str, ...] = ()
    reason: str = ""
    noop_reason: str | None = None


def expire(
    table: TableContext,
    *,
    retain_max: int | None = None,
    retain_min: int | None = None,
    max_age_millis: int | None = None,
    dry_run: bool = False,
    watch: Watch = NO_WATCH,
) -> ExpiryResult:
    """Expire snapshots, changelogs and tags, and delete the files that only they needed. None: as the table's options
    say.

    Safe to call again after a crash, and from several processes. With `dry_run` nothing changes, and the result is that
    of a run. If `retain_max` is below the table's minimum and `retain_min` is None, the minimum is `retain_max`.
    Raises CorruptTable when a root cannot be read: then nothing is deleted; WriteOutcomeUnknown when it stopped midway.
    """
    watch.at("planning the expiry")
    schema, begun = both(table.schemas.latest, lambda: interrupted(table), at_once=table.store.requests_at_once)
    check_understood(table.store.uri(""), schema)
    lowered = retain_min is None and retain_max is not None and 1 <= retain_max < _least_retained(schema)
    retain_min = retain_max if lowered else retain_min
    options = _options(schema, retain_max=retain_max, retain_min=retain_min, max_age_millis=max_age_millis)
    snapshots, changelogs = _retentions(options)
    resumed = resume_interrupted(table, begun, dry_run=dry_run)
    outlook = _outlook(table, schema, resumed, snapshots, changelogs)
    state, plan, tags = outlook.history, outlook.plan, outlook.tags
    if lowered:
        note = f"the table retains at least {_least_retained(schema)}, but at most {retain_max} were asked for"
        plan = replace(plan, reason=f"{plan.reason}; {note}")
    # The tag of a rollback goes after the snapshots for which it is there.
    deletions = (*_deletions(table.clock, state, plan), *tags)
    if dry_run:
        planned = _dry_run(table.layout, state, plan, resumed, deletions)
        deleted = preview(table, schema, planned, boundary=max(plan.first_kept_id, state.boundary))
    else:
        with deleting():
            remove_consumers(table.store, table.layout, state.outdated_consumers)
        deleted = _carried_out(table, schema, resumed, deletions, watch)
    return _result(state, plan, resumed, deletions, deleted)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryOutlook:
    """What an expiry would unlink now: the ids of `plan`, and the `tags` whose time is over."""

    history: History
    plan: ExpiryPlan
    tags: Sequence[DeletionPlan]


def expiry_outlook(table: TableContext) -> ExpiryOutlook:
    """Return what an expiry by the table's options would unlink now. Changes nothing, and reads no manifest.

    Raises CorruptTable, UnsupportedFeature.
    """
    schema, begun = both(table.schemas.latest, lambda: interrupted(table), at_once=table.store.requests_at_once)
    check_understood(table.store.uri(""), schema)
    snapshots, changelogs = _retentions(schema.table_options)
    return _outlook(table, schema, resume_interrupted(table, begun, dry_run=True), snapshots, changelogs)


def _outlook(
    table: TableContext, schema: TableSchema, resumed: Resumed, snapshots: Retention, changelogs: Retention
) -> ExpiryOutlook:
    at_once = table.store.requests_at_once
    state, (storage_millis, tags) = both(
        lambda: load_history(table, snapshots, changelogs, resumed),
        lambda: both(lambda: storage_now_millis(table), lambda: _tags(table, schema), at_once=at_once),
        at_once=at_once,
    )
    state = _without_outdated(table, schema, state, storage_millis)
    skew = schema.table_options.expiry.max_skew_millis
    now_millis = believed_now(table.clock.now_millis(), storage_millis, max_skew_millis=skew)
    dates = Dates(table.store, now_millis=now_millis, max_skew_millis=skew)
    plan = _plan(state, schema, snapshots, changelogs, dates)
    # The writer's clock and the local one show the same error.
    local_now_millis = table.clock.local_now_millis() + now_millis - table.clock.now_millis()
    expired = _expired_tags(table, tags, local_now_millis=local_now_millis)
    unneeded = _unneeded_tags(table, tags, first_kept_id=plan.first_kept_id, storage_millis=storage_millis)
    return ExpiryOutlook(history=state, plan=plan, tags=(*expired, *unneeded))


def _without_outdated(table: TableContext, schema: TableSchema, state: History, storage_millis: int) -> History:
    """Return the history without the consumers that were not written for longer than the table lets them live."""
    max_age = schema.table_options.expiry.consumer_max_age_millis
    if max_age is None or not (state.consumers.next_ids or state.consumers.faults):
        return state
    names = outdated_consumers(
        table.store, table.layout, state.consumers, max_age_millis=max_age, now_millis=storage_millis
    )
    return replace(state, consumers=state.consumers.without(names), outdated_consumers=names)


def _dry_run(
    layout: TableLayout, state: History, plan: ExpiryPlan, resumed: Resumed, deletions: tuple[DeletionPlan, ...]
) -> DryRun:
    made = {**resumed.made_changelogs, **{id: state.snapshots[id] for id in plan.made_changelog_ids}}
    return DryRun(
        plans=deletions,
        unlinked_keys=resumed.root_keys,
        made_changelogs=tuple(_root(layout, made[id], RootKind.CHANGELOG) for id in sorted(made)),
    )


def _carried_out(
    table: TableContext, schema: TableSchema, resumed: Resumed, deletions: Sequence[DeletionPlan], watch: Watch
) -> Deleted:
    """Unlink the roots of `deletions`, delete the files that nothing needs, and return what was deleted."""
    unlinked = watch.counting("unlinking", sum(len(deletion.roots) for deletion in deletions), "snapshots")
    with deleting():
        if schema.table_options.tags.has_success_file:
            withdraw(table, deletions)
        for deletion in deletions:
            begin(table.store, deletion)
            if deletion.kind is not RootKind.SNAPSHOT:
                unlink(table, deletion, unlinked)
                continue
            make_changelogs(table, deletion)
            table.snapshots.boundary.advance(deletion.first_kept_id, partial(check_here, table))
            unlink(table, deletion, unlinked, hint=partial(_hint, table, deletion))
        return finish_deletions(
            table,
            schema,
            unlinked=(*resumed.plans, *deletions),
            watch=watch,
        )


def _hint(table: TableContext, deletion: DeletionPlan) -> None:
    """Write the hint of the earliest snapshot, and look whether the boundary was raised in this table."""
    both(
        lambda: table.snapshots.ids.write_earliest_hint(deletion.first_kept_id),
        lambda: _check_raised(table, deletion),
        at_once=table.store.requests_at_once,
    )


def _check_raised(table: TableContext, deletion: DeletionPlan) -> None:
    """Raise as `check_kept` does. If another table is there, first remove the plan from it, and the boundary and its
    hint if they are above all snapshots, which readers would take for expired.
    """
    raised = [table.layout.boundary, table.layout.hints.earliest]
    try:
        check_kept(table, [*raised, deletion.key])
    except InvalidRequest:
        ids = snapshot_ids(table.store, table.layout)
        table.store.delete([deletion.key, *(raised if not ids or ids[-1] < deletion.first_kept_id else ())])
        raise


def check_understood(table: str, schema: TableSchema) -> None:
    """Raise UnsupportedFeature for a table with an option that adds roots unknown here."""
    if (found := option_of_unknown_roots(schema.options)) is not None:
        key, value = found
        raise UnsupportedFeature(
            f"{table}: option {key} = {value}: which files such a table needs is not known here, so nothing was "
            "deleted. "
            "Upgrade, or expire it with the engine that set the option."
        )


def _tags(table: TableContext, schema: TableSchema) -> Mapping[str, Tag]:
    """Return the tags by name, none if none expires in the table."""
    return table.tags.all() if schema.table_options.expiry.tags_expire else {}


def _expired_tags(table: TableContext, tags: Mapping[str, Tag], *, local_now_millis: int) -> Sequence[DeletionPlan]:
    """Return the deletion plans of the expired tags; tags without a retention time stay."""
    found = []
    for name, tag in tags.items():
        created, retained = tag.create_time_millis, tag.time_retained_millis
        # The time in a tag is its writer's wall clock, without a time zone.
        if created is not None and retained is not None and local_now_millis > created + retained:
            found.append(tag_deletion(table, name, tag.snapshot))
    return tuple(found)


def _unneeded_tags(
    table: TableContext, tags: Mapping[str, Tag], *, first_kept_id: int, storage_millis: int
) -> Sequence[DeletionPlan]:
    """Return the deletion plans of the tags that rollbacks left and that nothing needs from `first_kept_id` on."""
    mine = {name: tag for name, tag in tags.items() if name.startswith(ROLLBACK_TAG)}
    if not mine:
        return ()
    rollbacks = rollback_ids(table.snapshots.history())
    files = table.store.infos(map(table.layout.tag, mine))
    found = []
    for name, tag in mine.items():
        info = files.get(table.layout.tag(name))
        age_millis = None if info is None else storage_millis - info.modified_millis
        if not is_needed(tag.snapshot.id, rollbacks, first_kept_id=first_kept_id, age_millis=age_millis):
            found.append(tag_deletion(table, name, tag.snapshot))
    return tuple(found)


def tag_deletion(table: TableContext, name: str, snapshot: Snapshot) -> DeletionPlan:
    root = root_of(snapshot, table.layout.tag(name), RootKind.TAG, history=table.layout.prefix)
    return DeletionPlan(uuid=table.clock.uuid(), kind=RootKind.TAG, roots=(root,))


def _least_retained(schema: TableSchema) -> int:
    return schema.table_options.expiry.min_retained


def _options(
    schema: TableSchema, *, retain_max: int | None, retain_min: int | None, max_age_millis: int | None
) -> TableOptions:
    """Return the options with the caller's values; they also hold for changelogs that have no options of their own."""
    asked = {
        "snapshot.num-retained.max": retain_max,
        "snapshot.num-retained.min": retain_min,
        "snapshot.time-retained": None if max_age_millis is None else f"{max_age_millis} ms",
    }
    given = {key: str(value) for key, value in asked.items() if value is not None}
    return TableOptions.parse({**schema.options, **given}) if given else schema.table_options


def _retentions(options: TableOptions) -> tuple[Retention, Retention]:
    """Return the retention of snapshots and that of changelogs. Raises InvalidRequest."""
    return retention_of(options.expiry), retention_of(options.changelog_expiry)


def _plan(state: History, schema: TableSchema, snapshots: Retention, changelogs: Retention, dates: Dates) -> ExpiryPlan:
    first = state.snapshot_ids[0] if state.snapshot_ids else 0
    if state.latest is None:
        return _nothing(first, "the table has no snapshot")
    if state.unreadable_consumer is not None:
        return _nothing(first, f"a consumer that cannot be read protects everything: {state.unreadable_consumer}")
    plan = plan_expiry(
        dates.of(state.snapshots, state.layout.snapshot),
        dates.of(state.changelogs, state.layout.changelog),
        latest_id=state.latest.id,
        last_changelog_id=state.changelog_ids[-1] if state.changelog_ids else None,
        snapshot_retention=snapshots,
        changelog_retention=changelogs,
        now_millis=dates.now_millis,
        consumers=state.consumers.next_ids,
        consumers_hold_snapshots=schema.table_options.expiry.consumers_hold_snapshots,
    )
    if state.outdated_consumers:
        names = ", ".join(state.outdated_consumers)
        plan = replace(plan, reason=f"{plan.reason}; removed by consumer.expiration-time: consumer {names}")
    if not dates.is_ahead(state.latest):
        return plan
    ahead = (state.latest.time_millis - dates.now_millis) / 1000
    note = f"the time of snapshot {state.latest.id} is {ahead:.0f} s ahead, so the time of its file counts"
    return replace(plan, reason=f"{plan.reason}; {note}")


def _nothing(first_kept_id: int, reason: str) -> ExpiryPlan:
    return ExpiryPlan(
        snapshot_ids=(),
        first_kept_id=first_kept_id,
        made_changelog_ids=(),
        changelog_ids=(),
        first_kept_changelog_id=None,
        reason=reason,
    )


def _deletions(clock: Clock, state: History, plan: ExpiryPlan) -> Iterable[DeletionPlan]:
    layout = state.layout
    if plan.snapshot_ids:
        successor_id = min(id for id in state.snapshots if id >= plan.first_kept_id)
        yield DeletionPlan(
            uuid=clock.uuid(),
            kind=RootKind.SNAPSHOT,
            roots=tuple(_root(layout, state.snapshots[id], RootKind.SNAPSHOT) for id in plan.snapshot_ids),
            successor=_root(layout, state.snapshots[successor_id], RootKind.SNAPSHOT),
            made_changelog_ids=plan.made_changelog_ids,
        )
    if plan.changelog_ids:
        yield DeletionPlan(
            uuid=clock.uuid(),
            kind=RootKind.CHANGELOG,
            roots=tuple(_root(layout, state.changelogs[id], RootKind.CHANGELOG) for id in plan.changelog_ids),
        )


def _root(layout: TableLayout, snapshot: Snapshot, kind: RootKind) -> Root:
    key = layout.snapshot(snapshot.id) if kind is RootKind.SNAPSHOT else layout.changelog(snapshot.id)
    return root_of(snapshot, key, kind, history=layout.prefix)


def _result(
    state: History, plan: ExpiryPlan, resumed: Resumed, deletions: Sequence[DeletionPlan], deleted: Deleted
) -> ExpiryResult:
    gone = deletion_result(deletions, deleted)
    outdated = {state.layout.consumer(name) for name in state.outdated_consumers}
    result = replace(
        gone,
        deleted_keys=tuple(sorted({*gone.deleted_keys, *resumed.root_keys, *outdated})),
        snapshot_ids=plan.snapshot_ids,
        made_changelog_ids=plan.made_changelog_ids,
        changelog_ids=plan.changelog_ids,
        earliest_id=plan.first_kept_id if state.latest else None,
        latest_id=state.latest.id if state.latest else None,
        reason=plan.reason,
    )
    return result if result.deleted_keys else replace(result, noop_reason=_why_nothing(result))


def _why_nothing(result: ExpiryResult) -> str:
    if not result.waiting_plan_ids:
        return result.reason
    return f"{result.reason}; {result.files_waiting} files wait until their readers have ended"


def deletion_result(deletions: Sequence[DeletionPlan], deleted: Deleted) -> ExpiryResult:
    """Return the result of `deletions`, which began now, and of those that began earlier."""
    roots = [root for deletion in deletions for root in deletion.roots]
    ended_keys = set(deleted.plan_keys) - {deletion.key for deletion in deletions}
    return ExpiryResult(
        tags=tuple(_tag_name(root) for root in roots if root.kind is RootKind.TAG),
        deleted_keys=tuple(sorted([*(root.key for root in roots), *(file.key for file in deleted.files), *ended_keys])),
        files_deleted=dict(sorted(Counter(file.kind.value for file in deleted.files).items())),
        bytes_deleted=sum(file.size or 0 for file in deleted.files),
        files_waiting=sum(waiting.file_count for waiting in deleted.waiting),
        bytes_waiting=sum(waiting.size_bytes for waiting in deleted.waiting),
        waiting_keys=deleted.waiting_keys,
        waiting_plan_ids=tuple(waiting.uuid for waiting in deleted.waiting),
    )


def _tag_name(root: Root) -> str:
    return root.key.rpartition("/")[2].removeprefix(TAG_PREFIX)
