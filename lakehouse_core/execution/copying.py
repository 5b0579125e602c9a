"""Copy: put the roots of a table, and all files that they need, into another store.

Order: the mark, the files, the roots, the schemas, schema 0 at last. With the mark and without schema 0 there is no
table, so an interrupted copy is not seen, and copying again goes on from the files that are there. The source is only
read: it keeps no file for the copy.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from lakehouse_core.clock import Clock
from lakehouse_core.errors import (
    CommitConflict,
    CorruptTable,
    InvalidRequest,
    NotFound,
    SnapshotExpired,
    StorageUnavailable,
    WriteOutcomeUnknown,
)
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.engine import Engine
from lakehouse_core.execution.expiry.branch_schemas import DeltasAreChangelogs
from lakehouse_core.execution.expiry.reachability import NamedFiles, reachable
from lakehouse_core.execution.presence import check_here
from lakehouse_core.metadata.boundary import Boundaries, Boundary
from lakehouse_core.metadata.changelog_log import ChangelogLog
from lakehouse_core.metadata.hints import write_hint
from lakehouse_core.metadata.manifest_reader import ManifestReader, Missing
from lakehouse_core.metadata.roots import branch_names, collect_roots
from lakehouse_core.metadata.schema_log import SchemaLog
from lakehouse_core.planning.copying import CopyChoice, check_choice, chosen_roots
from lakehouse_core.planning.read.packing import pack
from lakehouse_core.progress import NO_WATCH, Watch
from lakehouse_core.retry import LISTING
from lakehouse_core.storage import is_hidden, read_all
from lakehouse_core.storage.object_store import ObjectStore
from lakehouse_core.storage.outcomes import begun, clear_away, created, replaced
from lakehouse_core.table.boundary import BranchWork, serialize_boundary
from lakehouse_core.table.copy_mark import CopyMark, parse_mark, serialize_mark
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.deletion_plan import DeletionStage
from lakehouse_core.table.file_refs import FileRef
from lakehouse_core.table.layout import BRANCH_FOLDER, COPY_MARK, MAIN, TableLayout
from lakehouse_core.table.root import Root, RootKind, root_of
from lakehouse_core.table.snapshot import parse_snapshot, parse_tag
from lakehouse_core.tasks.copy import CopyTask, copied, run_copy

# What a task of the engine copies, at most: so many bytes, and a quarter of that many kilobytes of files.
_TASK_BYTES: Final = 256 << 20
_FILE_COST_BYTES: Final = 1 << 20
# Less is copied here in the time in which a job of Spark starts.
_FEW_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyResult:
    """What a copy has, and what this call had to copy of its files."""

    snapshot_ids: Sequence[int]
    tags: int
    branches: int
    files: int
    files_copied: int
    bytes_copied: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Contents:
    """What a copy has: files that roots need, and objects with their bytes. `schemas`: of the main branch, by id."""

    files: Mapping[str, FileRef]
    objects: Mapping[str, bytes]
    schemas: Mapping[int, bytes]
    roots: Sequence[Root]
    branches: int
    boundary: int


def copy_files(
    source: TableContext,
    target: ObjectStore,
    choice: CopyChoice,
    clock: Clock,
    *,
    engine: Callable[[], Engine],
    watch: Watch = NO_WATCH,
) -> CopyResult:
    """Make a copy of the table in the folder `target`, which holds nothing but an earlier, unfinished copy of it.

    An `engine` in other processes copies the files, unless they are few.

    Raises InvalidRequest if another copy or a table is there, SnapshotExpired if the source expires what is being
    copied, CommitConflict if another call goes on with this copy, CorruptTable, UnsupportedFeature,
    StorageUnavailable: then the target is not a table yet. WriteOutcomeUnknown: it may be one.
    """
    if source.layout != MAIN:
        raise InvalidRequest(
            f"{source.name}: it is a branch. Copy its table, with branches=['{source.layout.branch}'] for this branch."
        )
    check_choice(choice, tags=source.tags.names(), branches=_open_branches(source.store))
    mark = _begin(source, target, clock)

    def attempt() -> CopyResult:
        watch.at("reading the metadata")
        contents = _contents(source, choice)
        with _unpublished(), _marked_if_dropped(target, mark):
            _check_own(target, mark)
            count, size = _copy_files(source.store, target, contents, engine, watch, mark=mark)
            # That took long. A table that was created meanwhile has roots of the same names.
            _check_own(target, mark)
            _write_roots(target, contents, mark)
            _check_own(target, mark)
            target.write({MAIN.schema(id): data for id, data in contents.schemas.items() if id})
        if not created(target, MAIN.schema(0), contents.schemas[0]):
            raise _taken(target)
        with begun("The copy may be a table: look, or copy again."):
            found = target.read_found([COPY_MARK]).get(COPY_MARK)
        if found != mark:
            raise WriteOutcomeUnknown(
                f"{target.uri('')}: another call dropped this copy, or has gone on with it. Look at the table; if it "
                "is not what was copied, drop it and copy again."
            )
        snapshots = [root for root in contents.roots if _is_of_main(root, RootKind.SNAPSHOT)]
        return CopyResult(
            snapshot_ids=[root.snapshot_id for root in snapshots],
            tags=sum(_is_of_main(root, RootKind.TAG) for root in contents.roots),
            branches=contents.branches,
            files=len(contents.files),
            files_copied=count,
            bytes_copied=size,
        )

    try:
        # What the source has expired is left out when all is read again.
        return LISTING.call(
            attempt,
            on=(NotFound,),
            exhausted=lambda attempts: SnapshotExpired(
                f"{source.store.uri('')}: in each of {attempts} attempts a file was deleted before it was copied. Copy "
                "again; what is there stays. If a file is missing for good, `lakehouse verify` names it."
            ),
        )
    except (NotFound, CorruptTable) as error:
        check_here(source, error)
        raise


def end_copy(target: ObjectStore) -> None:
    """Remove the mark of a copy that is a table. A mark that stays has no effect."""
    clear_away(target, [COPY_MARK])


def is_complete(target: ObjectStore) -> bool:
    """Return whether the copy at `target` is a table."""
    return bool(target.infos([MAIN.schema(0)]))


def copied_from(target: ObjectStore) -> str | None:
    """Return the address of the table whose copy at `target` has not ended, None if there is none."""
    found = target.read_found([COPY_MARK])
    return parse_mark(found[COPY_MARK], target.uri(COPY_MARK)).source if found else None


def _begin(source: TableContext, target: ObjectStore, clock: Clock) -> bytes:
    """Write the mark, also over that of an earlier call, and return it."""
    mark = serialize_mark(CopyMark(source=source.store.uri(""), uuid=clock.uuid()))
    found = target.read_versioned(COPY_MARK)
    if found is not None and (other := parse_mark(found[0], target.uri(COPY_MARK)).source) != source.store.uri(""):
        raise InvalidRequest(
            f"{target.uri('')}: an unfinished copy of {other} is there. Copy that table again to finish it, or drop "
            "the unfinished table."
        )
    with _unpublished():
        if not replaced(target, COPY_MARK, mark, if_version=None if found is None else found[1]):
            raise _overtaken(target)
    return mark


def _contents(source: TableContext, choice: CopyChoice) -> _Contents:
    store = source.store
    boundary = source.snapshots.boundary.first_id()
    boundaries = Boundaries(store, {MAIN.prefix: boundary})
    branches = _open_branches(store)
    found = collect_roots(store, boundaries)
    if any(plan.stage is DeletionStage.UNLINKING and plan.made_changelog_ids for plan in found.plans):
        raise CommitConflict(
            f"{store.uri('')}: an expiry is turning snapshots into changelogs, or was interrupted meanwhile. Expire "
            "its snapshots again, then copy."
        )
    schemas = SchemaLog(store, MAIN)
    latest = schemas.latest()
    if _open_branches(store) != branches:
        raise NotFound(f"{store.uri(BRANCH_FOLDER)}: a branch was created, renamed or deleted meanwhile. Copy again.")
    roots = chosen_roots(found.roots, choice, branches)
    named_files = NamedFiles(
        ManifestReader(store, MAIN, Missing.NOT_FOUND),
        DataLayout(latest),
        at_once=store.requests_at_once,
        refuses_outside=True,
    )
    files = reachable(named_files, roots, delta_is_changelog=DeltasAreChangelogs(source, latest))
    layouts = [TableLayout(name) for name in branches if choice.branches is None or name in choice.branches]
    beside = [layout.schema(id) for layout in layouts for id in SchemaLog(store, layout).ids()]
    # Branches that Java made have no such mark.
    beside += store.infos(layout.branch_base for layout in layouts)
    keys = [root.key for root in roots] + beside
    objects = dict(zip(keys, read_all(store, keys), strict=True))
    for layout in layouts:
        # The boundary by which the roots were read. What goes on in the source does not go on in the copy.
        if first_id := max(boundaries.of(layout.prefix).first_kept_id, _first_id(roots, layout.prefix)):
            objects[layout.boundary] = serialize_boundary(first_id)
    for root in roots:
        if _root_in(objects[root.key], root) != root:
            raise NotFound(f"{store.uri(root.key)}: it was replaced while it was copied. Copy again.")
    # A schema with a higher id may be of another table.
    ids = [id for id in schemas.ids() if id <= latest.id]
    if 0 not in ids:
        raise CorruptTable.missing(store.uri(MAIN.schema(0)))
    if of_main := [root for root in roots if _is_of_main(root, RootKind.SNAPSHOT)]:
        newest = max(of_main, key=lambda root: root.snapshot_id).key
        schemas.check_own(parse_snapshot(objects[newest], newest))
    first = _first_id(roots, MAIN.prefix)
    return _Contents(
        files=files,
        objects=objects,
        schemas=dict(zip(ids, read_all(store, map(MAIN.schema, ids)), strict=True)),
        roots=roots,
        branches=len(layouts),
        boundary=max(boundary, first if first > 1 else 0),
    )


def _first_id(roots: Sequence[Root], prefix: str) -> int:
    ids = (root.snapshot_id for root in roots if root.history == prefix and root.kind is RootKind.SNAPSHOT)
    return min(ids, default=0)


def _open_branches(store: ObjectStore) -> list[str]:
    """Return the names of the branches, without those that a verb creates or deletes.

    Raises CommitConflict for one that is renamed, which would be missing under both names.
    """
    boundaries = Boundaries(store, {})
    marks = {name: boundaries.of(TableLayout(name).prefix) for name in branch_names(store)}
    if renamed := [name for name, mark in marks.items() if mark.work is BranchWork.RENAMING]:
        raise CommitConflict(
            f"{store.uri(TableLayout(renamed[0]).folder)}: a verb renames the branch, or was interrupted. Nothing was "
            "copied: call again when the verb has ended, or first call it again if it was interrupted."
        )
    return [name for name, mark in marks.items() if not mark.is_closed]


def _copy_files(
    source: ObjectStore,
    target: ObjectStore,
    contents: _Contents,
    engine: Callable[[], Engine],
    watch: Watch,
    *,
    mark: bytes,
) -> tuple[int, int]:
    """Copy the files that are not there in their size, and delete what an earlier call copied and the source has no
    more; return count and bytes.
    """
    there = {info.key: info.size for info in target.list("")}
    _delete_others(target, contents, mark, there)
    unsized = [key for key, file in contents.files.items() if file.size is None and key in there]
    sizes = {key: info.size for key, info in source.infos(unsized).items()}
    missing = [
        file
        for key, file in contents.files.items()
        if key not in there or there[key] != (sizes.get(key) if file.size is None else file.size)
    ]
    costs = [(file.size or 0) + _FILE_COST_BYTES for file in missing]
    if sum(costs) > _FEW_BYTES and engine().is_remote:
        watch.at("copying", 0, len(missing), "files")
        total = sum(map(int, engine().run(run_copy, _tasks(source, target, missing, costs))))
    else:
        more = watch.counting("copying", len(missing), "files")
        total = 0
        for size in copied(source, target, missing):
            total += size
            more(1)
    # An earlier call may have ended before it did this.
    target.make_last(contents.files)
    return len(missing), total


def _tasks(source: ObjectStore, target: ObjectStore, files: Sequence[FileRef], costs: Sequence[int]) -> list[CopyTask]:
    """Return the tasks that copy the files, the largest first."""
    bins = pack(files, costs, target_bytes=_TASK_BYTES, open_cost_bytes=_FILE_COST_BYTES)
    tasks = [CopyTask(source=source.spec, target=target.spec, files=tuple(some)) for some in bins]
    return sorted(tasks, key=lambda task: -sum(file.size or 0 for file in task.files))


def _delete_others(target: ObjectStore, contents: _Contents, mark: bytes, there: Iterable[str]) -> None:
    """Delete what is not part of the copy. Raises InvalidRequest if a schema of another table is there."""
    schemas = {MAIN.schema(id): data for id, data in contents.schemas.items()}
    held = target.read_found(key for key in there if key.startswith(f"{MAIN.folders.schemas}/"))
    if any(schemas.get(key) != data for key, data in held.items()):
        raise _taken(target)
    needed = contents.files.keys() | contents.objects.keys() | schemas.keys() | {COPY_MARK}
    # Hidden files may be those of a write that has not ended.
    others = [key for key in there if key not in needed and not is_hidden(key.rpartition("/")[2])]
    if others:
        # They may be those of a table that a later copy has become.
        _check_own(target, mark)
    if left := target.delete(others):
        raise StorageUnavailable(
            f"{target.uri(left[0])} and {len(left) - 1} others: the store did not delete them. Copy again."
        )


def _write_roots(target: ObjectStore, contents: _Contents, mark: bytes) -> None:
    target.write(contents.objects)
    if contents.boundary:
        Boundary(target, MAIN).advance(contents.boundary, lambda: _check_own(target, mark))
    snapshots = [root.snapshot_id for root in contents.roots if _is_of_main(root, RootKind.SNAPSHOT)]
    changelogs = [root.snapshot_id for root in contents.roots if _is_of_main(root, RootKind.CHANGELOG)]
    if snapshots:
        write_hint(target, MAIN.hints.earliest, min(snapshots))
        write_hint(target, MAIN.hints.latest, max(snapshots))
    if changelogs:
        ChangelogLog(target, MAIN).write_hints(min(changelogs), max(changelogs))


@contextmanager
def _unpublished() -> Iterator[None]:
    """What the block writes is not a table yet. Raises StorageUnavailable for WriteOutcomeUnknown."""
    try:
        yield
    except WriteOutcomeUnknown as error:
        raise StorageUnavailable(
            f"{error} The copy is not a table yet. Copy again, which goes on from here."
        ) from error


@contextmanager
def _marked_if_dropped(target: ObjectStore, mark: bytes) -> Iterator[None]:
    """Put the mark back if the block raises CommitConflict and left files with neither a mark nor a table, which would
    keep the name, and could not be dropped. Nothing is deleted here: the files of a later copy have the same names.
    """
    try:
        yield
    except CommitConflict as error:
        with suppress(StorageUnavailable, WriteOutcomeUnknown):
            is_rest = not target.infos([COPY_MARK, MAIN.schema(0)]) and next(iter(target.list("")), None) is not None
            if is_rest and target.create_new(COPY_MARK, mark):
                raise CommitConflict(f"{error} Files of this copy remain: copy again, or drop the table.") from None
        raise


def _taken(target: ObjectStore) -> InvalidRequest:
    return InvalidRequest(f"{target.uri('')}: another table was created there meanwhile. Copy to another name.")


def _check_own(target: ObjectStore, mark: bytes) -> None:
    """Raise CommitConflict unless the mark is ours: another call may have made the copy a table, which has commits."""
    if target.read_found([COPY_MARK]).get(COPY_MARK) != mark:
        raise _overtaken(target)


def _overtaken(target: ObjectStore) -> CommitConflict:
    return CommitConflict(
        f"{target.uri('')}: another call has gone on with this copy, or dropped it. Wait until it has ended, and copy "
        "again if there is no table."
    )


def _root_in(data: bytes, root: Root) -> Root:
    snapshot = parse_tag(data, root.key).snapshot if root.kind is RootKind.TAG else parse_snapshot(data, root.key)
    return root_of(snapshot, root.key, root.kind, history=root.history)


def _is_of_main(root: Root, kind: RootKind) -> bool:
    return root.history == MAIN.prefix and root.kind is kind
