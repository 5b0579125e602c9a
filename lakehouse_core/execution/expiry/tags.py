"""Tags: named snapshots that keep their files.

Order: `create_tag` writes the tag and then checks that its source still exists; expiry unlinks roots and then reads the
tags. Both write before they read, so at least one of them sees the other.
Source: docs/semantics/maintenance.md#tags, docs/reliability/deletion.md#tags.
"""

from functools import partial

from lakehouse_core.clock import Clock
from lakehouse_core.errors import (
    InvalidRequest,
    NotFound,
    SnapshotExpired,
    StorageUnavailable,
    TableDropped,
    WriteOutcomeUnknown,
    shown,
)
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.expiry.deletion import DryRun, finish_deletions, preview
from lakehouse_core.execution.expiry.expire import ExpiryResult, check_understood, deletion_result, tag_deletion
from lakehouse_core.execution.expiry.tag_success import announce, check_free, withdraw
from lakehouse_core.execution.expiry.unlinking import deleting, unlink
from lakehouse_core.execution.presence import check_here, check_kept
from lakehouse_core.format.stored import check_name_for_file
from lakehouse_core.format.strict_json import json_with_checksum, strict_json
from lakehouse_core.metadata.deletion_plans import begin, skip_wait
from lakehouse_core.metadata.look import Look
from lakehouse_core.metadata.read_ahead import both
from lakehouse_core.metadata.tag_log import read_tag
from lakehouse_core.options import TagOptions
from lakehouse_core.planning.auto_tag_names import auto_tag_time
from lakehouse_core.planning.auto_tags import taken_by
from lakehouse_core.storage.outcomes import created
from lakehouse_core.table.read_back import readable_file
from lakehouse_core.table.snapshot import (
    TAG_FORMER_NAME_FIELD,
    TAG_NAME_FIELD,
    Snapshot,
    Tag,
    new_tag,
    parse_tag,
    serialize_tag,
)

_OWN_FIELDS = ("tagCreateTime", "tagTimeRetained", TAG_NAME_FIELD, TAG_FORMER_NAME_FIELD)


def create_tag(
    table: TableContext,
    name: str,
    *,
    snapshot_id: int | None = None,
    retention_millis: int | None = None,
    dry_run: bool = False,
) -> Tag:
    """Create a tag of a snapshot (None: the latest), which keeps the snapshot's files until the tag is deleted.

    With `retention_millis`, or the table's option, an expiry after that time deletes the tag. An expired snapshot can
    be tagged while another tag holds it. With `dry_run` the tag is returned and not written.
    Raises InvalidRequest for a bad or taken name, NotFound, SnapshotExpired, WriteOutcomeUnknown.
    """
    check_new_tag(name, retention_millis)
    schema, (source_key, data) = both(
        table.schemas.latest, lambda: tag_source(table, snapshot_id), at_once=table.store.requests_at_once
    )
    # No schema may have been known when the snapshot was found.
    table.schemas.check_own(parse_tag(data, source_key).snapshot)
    options = schema.table_options.tags
    check_free(options, name)
    if retention_millis is None:
        retention_millis = options.retention_millis
    check_one_automatic(table, options, name, source_key, data)
    tag = tag_of(table, name, source_key, data, retention_millis=retention_millis, dry_run=dry_run)
    if not dry_run:
        announce(table, options, name)
    return tag


def check_one_automatic(
    table: TableContext, options: TagOptions, name: str, source_key: str, data: bytes, *, besides: str | None = None
) -> None:
    """Raise InvalidRequest if `name` would be the second automatic tag of the snapshot in `data`, `besides` a tag that
    goes.
    """
    if not options.is_automatic or auto_tag_time(name, options) is None:
        return
    snapshot_id = parse_tag(data, source_key).snapshot.id
    tags = {each: tag.snapshot.id for each, tag in table.tags.all().items() if each != besides}
    if (other := taken_by(name, snapshot_id, tags, options)) is not None:
        raise InvalidRequest(
            f"Tag {shown(name)}: it has the name of an automatic tag, and snapshot {snapshot_id} has one, "
            f"{shown(other)}. Use a name that is not a time, or tag another snapshot."
        )


def check_new_tag(name: str, retention_millis: int | None) -> None:
    """Raise InvalidRequest for a name that no file can have, and for a retention that is over at once."""
    check_name_for_file("Tag", name)
    if retention_millis is not None and retention_millis <= 0:
        raise InvalidRequest(
            f"Tag {shown(name)}: retention is {retention_millis} ms: expected more than 0. Give a longer one, or none."
        )


def tag_of(
    table: TableContext, name: str, source_key: str, data: bytes, *, retention_millis: int | None, dry_run: bool = False
) -> Tag:
    """Create a tag of the state that `data`, the content of `source_key`, holds. Raises as `create_tag` does."""
    tag = new_tag_of(table, name, source_key, data, retention_millis=retention_millis, dry_run=dry_run)
    if tag is None:
        held = table.tags.all().get(name)
        at = "" if held is None else f", at snapshot {held.snapshot.id}"
        raise InvalidRequest(f"Tag {shown(name)} exists already{at}: delete it first, or use another name.")
    return tag


def new_tag_of(
    table: TableContext, name: str, source_key: str, data: bytes, *, retention_millis: int | None, dry_run: bool = False
) -> Tag | None:
    """Create a tag as `tag_of` does; return None if there is one of this name."""
    data, tag = tag_content(name, data, source_key, table.clock, retention_millis)
    key = table.layout.tag(name)
    # A tag that existed before the call is another writer's, whatever its content; later only its bytes show its
    # writer.
    if is_taken(table, key) or not (dry_run or created(table.store, key, data)):
        return None
    if not dry_run and not _is_still_held(table, source_key, name, tag):
        take_back(table, name, tag)
        raise SnapshotExpired(
            f"Snapshot {tag.snapshot.id} expired while tag {shown(name)} was created, so the tag does not exist. "
            f"The earliest snapshot is {table.snapshots.ids.earliest()}."
        )
    if not dry_run:
        check_kept(table, [key], content=data)
    return tag


def take_back(table: TableContext, name: str, tag: Tag) -> None:
    """Unlink a tag that was just made of a state that may be gone.

    Its files may be deleted already, or were kept because of it. It is unlinked as every tag, so that the next expiry
    finds and deletes the remaining files.
    """
    with deleting():
        deletion = begin(table.store, tag_deletion(table, name, tag.snapshot))
        unlink(table, deletion)
        skip_wait(table.store, deletion)


def delete_tag(table: TableContext, name: str, *, dry_run: bool = False) -> ExpiryResult:
    """Delete a tag and, when its readers have ended, the files that only the tag needed.

    With `dry_run` nothing changes; the result is that of a run. Raises NotFound, CorruptTable for any tag,
    WriteOutcomeUnknown when it stopped midway: the next expiry completes the deletion.
    """
    schema = table.schemas.latest()
    check_understood(table.store.uri(""), schema)
    deletion = tag_deletion(table, name, table.tags.tag_among_all(name).snapshot)
    if dry_run:
        planned = DryRun(plans=(deletion,))
        return deletion_result(
            [deletion], preview(table, schema, planned, boundary=table.snapshots.boundary.first_id())
        )
    with deleting():
        if schema.table_options.tags.has_success_file:
            withdraw(table, [deletion])
    begin(table.store, deletion)
    with deleting():
        unlink(table, deletion, hint=partial(check_here, table))
        check_kept(table)
        return deletion_result(
            [deletion],
            finish_deletions(table, schema, unlinked=[deletion]),
        )


def is_taken(table: TableContext, key: str) -> bool:
    """Return whether an object has this key."""
    return key in table.store.infos([key])


def tag_source(table: TableContext, snapshot_id: int | None) -> tuple[str, bytes]:
    """Return key and content of the snapshot file (None: the latest), or of a tag that holds the snapshot."""
    if snapshot_id is None:
        latest = table.snapshots.ids.latest()
        if latest is None:
            raise NotFound(f"{table.store.uri('')}: there is no snapshot to tag yet. Write to the table first.")
        snapshot_id = latest
    key = table.layout.snapshot(snapshot_id)
    try:
        # The content of the file that was found before the boundary was read.
        look = Look(table.store)
        table.snapshots.snapshot(snapshot_id, look)
        data = look.get(key)
        return key, table.store.read(key) if data is None else data
    except SnapshotExpired:
        holders = [name for name, tag in table.tags.all().items() if tag.snapshot.id == snapshot_id]
        if not holders:
            raise
        key = table.layout.tag(holders[0])
        return key, table.store.read(key)


def tag_content(
    name: str, data: bytes, source_key: str, clock: Clock, retention_millis: int | None
) -> tuple[bytes, Tag]:
    """Return the content of the tag's file and its record: every field of the source, also those of other engines, with
    our times and name.
    """
    snapshot = parse_tag(data, source_key).snapshot
    tag = new_tag(snapshot, name=name, local_now_millis=clock.local_now_millis(), retained_millis=retention_millis)
    document = {each: value for each, value in strict_json(data, source_key).items() if each not in _OWN_FIELDS}
    own = strict_json(serialize_tag(tag), source_key)
    document |= {each: own[each] for each in _OWN_FIELDS if each in own}
    return readable_file(
        tag, lambda _: json_with_checksum(document), lambda data: parse_tag(data, source_key), what="The tag"
    ), tag


def snapshot_content(data: bytes, source_key: str) -> bytes:
    """Return the file of the snapshot in `data`, the content of a snapshot or a tag."""
    document = strict_json(data, source_key)
    if not any(each in document for each in _OWN_FIELDS):
        return data
    return json_with_checksum({each: value for each, value in document.items() if each not in _OWN_FIELDS})


def is_held(table: TableContext, source_key: str, snapshot: Snapshot) -> bool:
    """Return whether the source of a root that was just made still holds `snapshot`, and so its files are there."""
    try:
        if source_key == table.layout.snapshot(snapshot.id):
            # Together: an expiry raises the boundary before it unlinks the file, and reads the tags after that.
            is_there, first_id = both(
                lambda: is_taken(table, source_key),
                table.snapshots.boundary.first_id,
                at_once=table.store.requests_at_once,
            )
            return is_there and snapshot.id >= first_id
        # Another call may have let the tag name another state.
        return read_tag(table.store, source_key).snapshot == snapshot
    except TableDropped:
        raise
    except NotFound:
        return False


def _is_still_held(table: TableContext, source_key: str, name: str, tag: Tag) -> bool:
    snapshot_id = tag.snapshot.id
    try:
        return is_held(table, source_key, tag.snapshot)
    except (StorageUnavailable, TableDropped) as error:
        raise WriteOutcomeUnknown(
            f"{error} Tag {shown(name)} was made, but snapshot {snapshot_id} may have expired meanwhile: "
            "delete the tag and make it again, or run `lakehouse verify`."
        ) from error
