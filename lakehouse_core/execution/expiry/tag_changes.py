"""Tag changes: replace a tag, rename one, delete those whose time is over.

Rule: the state that a tag names is held by a root at each moment, until the caller gives it up.
Source: docs/semantics/maintenance.md#tags, docs/reliability/deletion.md#tags.
"""

from lakehouse_core.errors import (
    CommitConflict,
    InvalidRequest,
    shown,
)
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.expiry.deletion import DryRun, finish_deletions, preview
from lakehouse_core.execution.expiry.expire import ExpiryResult, check_understood, deletion_result, tag_deletion
from lakehouse_core.execution.expiry.history import storage_now_millis
from lakehouse_core.execution.expiry.holding import held
from lakehouse_core.execution.expiry.tag_success import check_free, withdraw
from lakehouse_core.execution.expiry.tags import (
    check_new_tag,
    check_one_automatic,
    is_taken,
    tag_content,
    tag_source,
    take_back,
)
from lakehouse_core.execution.expiry.unlinking import delete_all, deleting, unlink
from lakehouse_core.execution.presence import check_kept
from lakehouse_core.format.stored import check_name_for_file
from lakehouse_core.format.strict_json import json_with_checksum, strict_json
from lakehouse_core.metadata.deletion_plans import begin
from lakehouse_core.metadata.tag_log import tag_in
from lakehouse_core.storage.outcomes import begun, created, replaced
from lakehouse_core.table.deletion_plan import DeletionPlan
from lakehouse_core.table.snapshot import ROLLBACK_TAG, TAG_FORMER_NAME_FIELD, TAG_NAME_FIELD, Tag


def replace_tag(
    table: TableContext,
    name: str,
    *,
    snapshot_id: int | None = None,
    retention_millis: int | None = None,
    dry_run: bool = False,
) -> tuple[Tag, ExpiryResult]:
    """Let a tag name another snapshot (None: the latest), and delete the files that only its former state needed.

    The arguments are those of `create_tag`. Raises NotFound for a tag that does not exist, CommitConflict if another
    call changes the tag meanwhile, and the errors of `create_tag` and `delete_tag`.
    """
    check_new_tag(name, retention_millis)
    key = table.layout.tag(name)
    schema = table.schemas.latest()
    check_understood(table.store.uri(""), schema)
    table.tags.tag_among_all(name)
    found = table.store.read_versioned(key)
    if found is None:
        raise CommitConflict(f"Tag {shown(name)} was deleted meanwhile. Nothing was replaced: call again.")
    deletion = tag_deletion(table, name, tag_in(table.store, key, found[0]).snapshot)
    source_key, data = tag_source(table, snapshot_id)
    check_one_automatic(table, schema.table_options.tags, name, source_key, data)
    content, tag = tag_content(name, data, source_key, table.clock, retention_millis)
    given_up = () if tag_deletion(table, name, tag.snapshot).roots == deletion.roots else (deletion,)
    if dry_run:
        boundary = table.snapshots.boundary.first_id()
        return tag, deletion_result(given_up, preview(table, schema, DryRun(plans=given_up), boundary=boundary))
    with held(table, source_key, data):
        for plan in given_up:
            begin(table.store, plan)
        if not replaced(table.store, key, content, if_version=found[1]):
            raise CommitConflict(f"Tag {shown(name)} was changed meanwhile. Nothing was replaced: call again.")
        with deleting():
            check_kept(table, [key], content=content)
            return tag, deletion_result(given_up, finish_deletions(table, schema, unlinked=given_up))


def rename_tag(table: TableContext, name: str, new_name: str, *, dry_run: bool = False) -> Tag:
    """Give a tag another name; its times stay. If a call is killed, the tag may have both names until it is repeated.

    Raises NotFound, InvalidRequest for a bad or taken name, CommitConflict if another call changes the tag meanwhile.
    """
    check_name_for_file("Tag", name)
    check_name_for_file("Tag", new_name)
    tag = table.tags.tag_among_all(name)
    key, new_key = table.layout.tag(name), table.layout.tag(new_name)
    found = table.store.read_versioned(key)
    if found is None:
        raise CommitConflict(f"Tag {shown(name)} was deleted meanwhile. Nothing was renamed.")
    options = table.schemas.latest().table_options.tags
    check_free(options, new_name)
    check_one_automatic(table, options, new_name, key, found[0], besides=name)
    document = {**strict_json(found[0], key), TAG_NAME_FIELD: new_name, TAG_FORMER_NAME_FIELD: name}
    content = json_with_checksum(document)
    if is_taken(table, new_key) if dry_run else not created(table.store, new_key, content):
        raise InvalidRequest(f"Tag {shown(new_name)} exists already: delete it first, or use another name.")
    if dry_run:
        return tag
    with begun(f"The tag may have both names, {shown(name)} and {shown(new_name)}: rename it again."):
        # Both sides write before they read: if the tag still is what it was, its files are there.
        there = table.store.read_versioned(key)
        if there is None or there[0] != found[0]:
            take_back(table, new_name, tag)
            raise CommitConflict(f"Tag {shown(name)} was changed meanwhile. Nothing was renamed: call again.")
        delete_all(table.store, [key])
        check_kept(table, [new_key], content=content)
    return tag


def expire_tags(table: TableContext, *, older_than_millis: int | None = None, dry_run: bool = False) -> ExpiryResult:
    """Delete the tags whose retention is over, and those made before `older_than_millis`, if given, in UTC.

    A tag without a creation time has that of its file. Tags that a rollback left stay: an expiry of snapshots deletes
    them when they are not needed. Files that only these tags needed are deleted as by
    `delete_tag`. Raises WriteOutcomeUnknown when it stopped midway: the next expiry completes the deletion.
    """
    schema = table.schemas.latest()
    check_understood(table.store.uri(""), schema)
    deletions = _outdated(table, older_than_millis)
    if not deletions:
        return ExpiryResult(noop_reason="no tag is out of time")
    if dry_run:
        boundary = table.snapshots.boundary.first_id()
        return deletion_result(deletions, preview(table, schema, DryRun(plans=deletions), boundary=boundary))
    with deleting():
        if schema.table_options.tags.has_success_file:
            withdraw(table, deletions)
        for deletion in deletions:
            begin(table.store, deletion)
            unlink(table, deletion)
        return deletion_result(deletions, finish_deletions(table, schema, unlinked=deletions))


def _outdated(table: TableContext, older_than_millis: int | None) -> tuple[DeletionPlan, ...]:
    tags = table.tags.all()
    files = table.store.infos(map(table.layout.tag, tags))
    # A tag has the wall clock of its writer, a file the time of the storage.
    ahead_millis = table.clock.local_now_millis() - table.clock.now_millis()
    storage_ahead_millis = storage_now_millis(table) - table.clock.now_millis()
    found = []
    for name, tag in tags.items():
        if name.startswith(ROLLBACK_TAG):
            continue
        info = files.get(table.layout.tag(name))
        if tag.create_time_millis is not None:
            made_millis = tag.create_time_millis - ahead_millis
        elif info is not None:
            made_millis = info.modified_millis - storage_ahead_millis
        else:
            continue
        retained = tag.time_retained_millis
        is_over = retained is not None and table.clock.now_millis() > made_millis + retained
        if is_over or (older_than_millis is not None and made_millis < older_than_millis):
            found.append(tag_deletion(table, name, tag.snapshot))
    return tuple(found)
