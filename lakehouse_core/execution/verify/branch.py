"""Branch check: each delta fits the state before it, and every file that a root of the branch names exists."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from lakehouse_core.execution.verify.commit_order import check_commit_order
from lakehouse_core.execution.verify.inspection import Inspection, Rooted
from lakehouse_core.execution.verify.key_buckets import check_key_buckets
from lakehouse_core.execution.verify.moved_keys import check_moved_keys
from lakehouse_core.format.data_types import DataType
from lakehouse_core.planning.findings import (
    Finding,
    Invariant,
    history_findings,
    key_findings,
    row_count_findings,
    schema_missing,
    stamp_findings,
)
from lakehouse_core.planning.readable import deletion_files
from lakehouse_core.planning.replayed_files import ReplayedFiles
from lakehouse_core.table.commit_message import CommitKind
from lakehouse_core.table.data_file import FileSource
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.file_refs import FileKind, FileRef, data_files, index_file
from lakehouse_core.table.layout import manifest_key
from lakehouse_core.table.manifest import (
    DELETION_VECTORS,
    EntryKind,
    IndexManifestEntry,
    ManifestEntry,
    ManifestFile,
    ManifestListRef,
    file_identifier,
    net_of,
)
from lakehouse_core.table.root import RootKind, metadata_files
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """One branch as it was at `now_millis`: snapshots and changelogs in rising order of ids."""

    now_millis: int
    schema: TableSchema
    schemas: Mapping[int, TableSchema]
    snapshots: Sequence[Rooted]
    tags: Sequence[Rooted]
    changelogs: Sequence[Rooted]


def check_branch(inspection: Inspection, branch: Branch) -> None:
    """Report every finding of a branch."""
    _BranchCheck(inspection, branch).run()


class _BranchCheck:
    """Checks the roots of one branch in order, and every file that they name."""

    def __init__(self, inspection: Inspection, branch: Branch) -> None:
        self._inspection = inspection
        self._branch = branch
        self._folders = DataLayout(branch.schema)
        self._key_types: Sequence[DataType] = tuple(field.type for field in branch.schema.key_fields)
        # With a sequence field, sequence numbers decide ties only.
        self._order_decides = bool(self._key_types) and not branch.schema.table_options.sequence_fields

    def run(self) -> None:
        for run in _runs(self._branch.snapshots):
            history = [(each.root.key, each.snapshot) for each in run]
            self._inspection.report(history_findings(history), run[0].root.key)
            self._inspection.report(self._stamps(history), run[0].root.key)
            self._history(run)
        states = {(each.root.snapshot_id, each.root.base, each.root.delta) for each in self._branch.snapshots}
        for tag in self._inspection.ahead(self._branch.tags):
            if (tag.root.snapshot_id, tag.root.base, tag.root.delta) not in states:
                self._history([tag])
            else:
                self._metadata(tag)
                self._manifests(tag)
                self._indexes(tag, None)
        for changelog in self._inspection.ahead(self._branch.changelogs):
            self._metadata(changelog)
            self._manifests(changelog)
            self._changelog(changelog)

    def _stamps(self, history: Sequence[tuple[str, Snapshot]]) -> Iterator[Finding]:
        return stamp_findings(
            history,
            self._inspection.modified_millis,
            now_millis=self._branch.now_millis,
            max_skew_millis=self._branch.schema.table_options.expiry.max_skew_millis,
        )

    def _history(self, run: Sequence[Rooted]) -> None:
        """Replay the deltas of `run`; after a gap, start again at the next snapshot."""
        live: ReplayedFiles | None = None
        before: Sequence[ManifestFile] = ()
        for rooted in self._inspection.ahead(run):
            root = rooted.root
            self._metadata(rooted)
            assert root.base is not None
            assert root.delta is not None
            base = self._inspection.manifests(rooted, root.base)
            delta = self._inspection.manifests(rooted, root.delta)
            is_first = live is None
            live = self._base(rooted, before, base, live)
            changes = self._entries(rooted, root.delta, delta)
            if live is None or changes is None or base is None or delta is None:
                live = None
                # The state before is unknown; the snapshot's own delta is known.
                self._look_at(rooted, _surviving(changes or ()), FileKind.DATA)
                self._indexes(rooted, None)
                continue
            before = [*base, *delta]
            self._step(rooted, live, changes, is_first=is_first)
            if self._branch.snapshots and rooted is self._branch.snapshots[-1]:
                buckets = live.by_bucket()
                for check in (check_key_buckets, check_moved_keys):
                    check(self._inspection, rooted, buckets, self._branch.schemas, self._branch.schema)

    def _base(
        self,
        rooted: Rooted,
        before: Sequence[ManifestFile],
        base: Sequence[ManifestFile] | None,
        live: ReplayedFiles | None,
    ) -> ReplayedFiles | None:
        """Return the state before `rooted`: that of the replay so far, else that of its base list; None if neither can
        be read.

        `before`: the manifests whose entries are the replay so far.
        """
        root = rooted.root
        assert root.base is not None
        if base is None or (live is not None and self._only_merged(rooted, before, base, live)):
            return None if base is None else live
        entries = self._entries(rooted, root.base, base)
        if entries is None:
            return None
        listed = ReplayedFiles(self._key_types)
        findings = listed.apply(root.key, entries)
        if live is not None:
            findings += live.differences(root.key, listed.entries)
        self._inspection.report(findings, root.key)
        # A difference is reported once: from this snapshot on readers see the listed state.
        return listed if live is None or findings else live

    def _only_merged(
        self, rooted: Rooted, before: Sequence[ManifestFile], base: Sequence[ManifestFile], live: ReplayedFiles
    ) -> bool:
        """Return whether `base` certainly lists the files of `live`: it equals `before` except for merged manifests.

        One stretch of the list was replaced by manifests that add the same files, each once.
        """
        assert rooted.root.base is not None
        gone, came = _replaced(before, base)
        if not gone and not came:
            return True
        tallies = [self._inspection.tally(rooted, rooted.root.base, manifest) for manifest in (*gone, *came)]
        known = [one for one in tallies if one is not None]
        if not live.is_sound or len(known) < len(tallies):
            return False
        old, new = known[: len(gone)], known[len(gone) :]
        once = all(one.deleted == 0 for one in new) or (len(new) == 1 and new[0].is_plain)
        return once and net_of(*old) == net_of(*new)

    def _step(self, rooted: Rooted, live: ReplayedFiles, changes: Sequence[ManifestEntry], *, is_first: bool) -> None:
        """Apply the delta of `rooted` to `live`, then check the added files; for the first snapshot, all files."""
        key = rooted.root.key
        adds_rows = rooted.snapshot.commit_kind is CommitKind.APPEND
        crossings = [*live.crossings(changes)] if self._order_decides and adds_rows else ()
        self._inspection.report(live.apply(key, changes), key)
        # A file that a delta deletes may be missing, unless an earlier snapshot needs it.
        new = live.entries.keys() if is_first else map(file_identifier, changes)
        files = [live.entries[identifier] for identifier in new if identifier in live.entries]
        touched = _buckets(files if is_first else changes)
        self._look_at(rooted, files, FileKind.DATA)
        check_commit_order(self._inspection, rooted, crossings, self._branch.schemas, self._branch.schema)
        self._inspection.report(live.bucket_findings(key, touched, self._folders), key)
        self._indexes(rooted, live)
        changelog_rows = None
        if rooted.root.changelog is not None:
            changelog_rows = self._changelog(rooted)
        elif rooted.root.kind is RootKind.SNAPSHOT and rooted.snapshot.changelog_manifest_list is None:
            changelog_rows = 0
        self._inspection.report(
            row_count_findings(
                key,
                rooted.snapshot,
                total=live.row_count,
                delta=sum(entry.file.row_count * (1 if entry.kind is EntryKind.ADD else -1) for entry in changes),
                changelog=changelog_rows,
            ),
            key,
        )

    def _indexes(self, rooted: Rooted, live: ReplayedFiles | None) -> None:
        """Check that the index files of `rooted` exist, and check its deletion vectors if its files, `live`, are
        known.
        """
        key, named_by = rooted.root.key, manifest_key(rooted.root.index_manifest or "")
        indexes = [index for index in self._inspection.index_entries(rooted) or () if index.external_path is None]
        # No reader can tell which of two vectors of a file counts.
        named = [index for index in indexes if index.deletion_vectors is not None]
        self._inspection.read(Invariant.NAMED_FILES, named_by, partial(deletion_files, named, self._folders), key)
        for index in indexes:
            file = self._inspection.read(
                Invariant.NAMED_FILES, named_by, partial(self._index_file, index, named_by), key
            )
            if file is None:
                continue
            self._inspection.exist([file], key)
            if live is not None and index.index_type == DELETION_VECTORS:
                row_counts = partial(live.row_counts, index.partition, index.bucket)
                self._inspection.vectors(file.key, index, row_counts, key)

    def _changelog(self, rooted: Rooted) -> int | None:
        """Check the files of a changelog and return their row count; None if it is unknown."""
        root = rooted.root
        named = root.changelog if root.changelog is not None else root.delta
        if named is None:
            return None
        entries = self._entries(rooted, named, self._inspection.manifests(rooted, named))
        if entries is None:
            return None
        added = [entry for entry in entries if entry.kind is EntryKind.ADD]
        if root.changelog is None:
            added = [entry for entry in added if entry.file.file_source is not FileSource.COMPACT]
        self._look_at(rooted, added, FileKind.CHANGELOG)
        return sum(entry.file.row_count for entry in added)

    def _entries(
        self, rooted: Rooted, named: ManifestListRef, manifests: Sequence[ManifestFile] | None
    ) -> list[ManifestEntry] | None:
        """Return the entries of all manifests of a list, None if one cannot be read."""
        if manifests is None:
            return None
        found = [self._inspection.entries(rooted, named, manifest) for manifest in manifests]
        return None if None in found else [entry for entries in found for entry in entries or ()]

    def _metadata(self, rooted: Rooted) -> None:
        root = rooted.root
        self._inspection.begin()
        self._inspection.exist(metadata_files(root), root.key)
        if rooted.snapshot.schema_id not in self._branch.schemas:
            self._inspection.report([schema_missing(root.key, rooted.snapshot.schema_id)], root.key)

    def _manifests(self, rooted: Rooted) -> None:
        """Check every manifest that `rooted` names and that was not checked before."""
        for named in rooted.root.lists:
            for manifest in self._inspection.manifests(rooted, named) or ():
                self._inspection.tally(rooted, named, manifest)

    def _index_file(self, entry: IndexManifestEntry, named_by: str) -> FileRef:
        folder = self._folders.index_folder(entry.partition, entry.bucket)
        return index_file(entry.file_name, entry.file_size, folder=folder, named_by=named_by)

    def _look_at(self, rooted: Rooted, entries: Iterable[ManifestEntry], kind: FileKind) -> None:
        """Check that the files of `entries` exist, and that their schemas and keys can be read."""
        key = rooted.root.key
        for entry in entries:
            folder = self._folders.bucket(entry.partition, entry.bucket)
            if entry.file.schema_id not in self._branch.schemas:
                self._inspection.report([schema_missing(f"{key}, {entry.file.file_name}", entry.file.schema_id)], key)
            if self._key_types:
                self._inspection.report(key_findings(key, folder, entry, self._key_types), key)
            if entry.file.external_path is None:
                files = self._inspection.read(
                    Invariant.NAMED_FILES,
                    f"{key}, {entry.file.file_name}",
                    partial(self._files_of, entry, kind, key),
                    key,
                )
                self._inspection.exist(files or (), key)
                self._inspection.content(folder, entry.file, self._branch.schemas, key)

    def _files_of(self, entry: ManifestEntry, kind: FileKind, key: str) -> tuple[FileRef, ...]:
        file = entry.file
        folder = self._folders.bucket(entry.partition, entry.bucket)
        return data_files(file.file_name, file.file_size, file.extra_files, kind=kind, folder=folder, named_by=key)


def _runs(snapshots: Sequence[Rooted]) -> Iterator[list[Rooted]]:
    """Yield runs of snapshots with consecutive ids."""
    run: list[Rooted] = []
    for each in snapshots:
        if run and each.root.snapshot_id != run[-1].root.snapshot_id + 1:
            yield run
            run = []
        run.append(each)
    if run:
        yield run


def _replaced(
    before: Sequence[ManifestFile], after: Sequence[ManifestFile]
) -> tuple[Sequence[ManifestFile], Sequence[ManifestFile]]:
    """Return the differing middle parts of `before` and `after`, without their common start and end."""
    shorter = min(len(before), len(after))
    start = next((at for at in range(shorter) if before[at] != after[at]), shorter)
    most = shorter - start
    end = next((at for at in range(most) if before[-1 - at] != after[-1 - at]), most)
    return before[start : len(before) - end], after[start : len(after) - end]


def _surviving(changes: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Return the entries of files that a delta adds and does not delete again."""
    added: dict[Hashable, ManifestEntry] = {}
    for entry in changes:
        if entry.kind is EntryKind.ADD:
            added[file_identifier(entry)] = entry
        else:
            added.pop(file_identifier(entry), None)
    return list(added.values())


def _buckets(entries: Iterable[ManifestEntry]) -> set[tuple[bytes, int]]:
    return {(entry.partition, entry.bucket) for entry in entries}
