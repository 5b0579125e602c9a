"""Deletion vector writer: replace the index files of a bucket, or of a partition without buckets, by new ones.

Rule: a new index file holds every vector of the old one that still applies. A commit takes new and old files together.
Source: docs/semantics/deletion-vectors.md#key-tables, docs/semantics/commit.md#index-manifests.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lakehouse_core.clock import Clock
from lakehouse_core.errors import CorruptTable, NotFound
from lakehouse_core.format.deletion_vector import (
    Positions,
    check_index_file,
    checksum_of,
    decode_vector,
    encode_index_file,
    encode_vector,
    vector_bytes,
)
from lakehouse_core.options import DeletionVectorOptions
from lakehouse_core.storage.object_store import ObjectStore
from lakehouse_core.storage.outcomes import clear_away
from lakehouse_core.table.index_file import IndexFile
from lakehouse_core.table.layout import INDEX_FOLDER
from lakehouse_core.table.manifest import DELETION_VECTORS, DeletionVectorRange


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFolder:
    """The folder of a bucket's index files. `has_buckets`: the bucket has one index file of any size; else files have a
    target size.
    """

    store: ObjectStore
    options: DeletionVectorOptions
    has_buckets: bool
    key: str = INDEX_FOLDER


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexChange:
    """Index files that one commit adds and removes together; both empty when nothing changes."""

    new: tuple[IndexFile, ...] = ()
    deleted: tuple[IndexFile, ...] = ()


def change_vectors(
    folder: IndexFolder,
    present: Sequence[IndexFile],
    clock: Clock,
    *,
    marks: Mapping[str, Positions] | None = None,
    removed: Collection[str] = (),
) -> IndexChange:
    """Write index files that also mark the rows in `marks` (by data file name) as deleted, without the vectors of
    `removed` files.

    `present`: the live index files of deletion vectors in the bucket or partition. The new files are durable on return;
    a caller that does not commit them deletes them. Raises CorruptTable for damaged present files, and InvalidRequest
    for row positions beyond the form of the table's vectors.
    """
    marks = {name: rows for name, rows in (marks or {}).items() if len(rows) and name not in removed}
    gone = [index for index in present if _speaks_of(index, removed) or _speaks_of(index, marks)]
    if not gone and not marks:
        return IndexChange()
    if folder.has_buckets:
        gone = list(present)
    vectors = [vector for index in gone for vector in _stored(folder, index) if vector.data_file_name not in removed]
    changed = _with_marks(folder, vectors, marks)
    files, objects = [], {}
    uuid = clock.uuid()
    for number, group in enumerate(_rolled(folder, changed)):
        file, data = _index_file(f"index-{uuid}-{number}", group)
        files.append(file)
        objects[f"{folder.key}/{file.file_name}"] = data
    try:
        folder.store.write(objects)
    except BaseException:
        clear_away(folder.store, objects)
        raise
    return IndexChange(new=tuple(files), deleted=tuple(gone))


def marked_rows(folder: IndexFolder, present: Sequence[IndexFile]) -> dict[str, Positions]:
    """Return, by data file name, the rows that these index files mark as deleted. Raises CorruptTable."""
    return {vector.data_file_name: vector.rows for index in present for vector in _stored(folder, index)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Vector:
    """A vector as bytes, with a verified checksum but not decoded."""

    data_file_name: str
    data: bytes
    length: int
    cardinality: int | None
    where: str

    @property
    def rows(self) -> Positions:
        return decode_vector(self.data, self.length, self.where, cardinality=self.cardinality)


def _speaks_of(index: IndexFile, names: Collection[str]) -> bool:
    return any(vector.data_file_name in names for vector in index.deletion_vectors or ())


def _stored(folder: IndexFolder, index: IndexFile) -> Iterator[_Vector]:
    key = f"{folder.key}/{index.file_name}"
    try:
        data = folder.store.read(key)
    except NotFound as error:
        raise CorruptTable.missing(folder.store.uri(key)) from error
    check_index_file(data, key)
    for one in index.deletion_vectors or ():
        where = f"{key}, at {one.offset} for {one.data_file_name}"
        yield _Vector(
            data_file_name=one.data_file_name,
            data=vector_bytes(data[one.offset :], one.length, where, checksum=one.checksum),
            length=one.length,
            cardinality=one.cardinality,
            where=where,
        )


def _with_marks(folder: IndexFolder, vectors: Sequence[_Vector], marks: Mapping[str, Positions]) -> list[_Vector]:
    """Return the vectors with the rows of `marks`; those that do not change keep their bytes and their form."""
    known = {vector.data_file_name for vector in vectors}
    return [
        *(
            _vector(folder, vector.data_file_name, np.union1d(vector.rows, marks[vector.data_file_name]))
            if vector.data_file_name in marks
            else vector
            for vector in vectors
        ),
        *(_vector(folder, name, rows) for name, rows in marks.items() if name not in known),
    ]


def _vector(folder: IndexFolder, name: str, rows: Positions) -> _Vector:
    data = encode_vector(rows, bits64=folder.options.bits64)
    _, (span,) = encode_index_file([data])
    return _Vector(
        data_file_name=name, data=data, length=span.length, cardinality=len(np.unique(rows)), where=f"vector of {name}"
    )


def _rolled(folder: IndexFolder, vectors: Sequence[_Vector]) -> Iterator[list[_Vector]]:
    """Yield the vectors of each new index file: all in one file with buckets, else up to the target size."""
    group: list[_Vector] = []
    size = 0
    for vector in vectors:
        group.append(vector)
        size += len(vector.data)
        if not folder.has_buckets and size >= folder.options.index_file_target_bytes:
            yield group
            group, size = [], 0
    if group:
        yield group


def _index_file(name: str, vectors: Sequence[_Vector]) -> tuple[IndexFile, bytes]:
    data, spans = encode_index_file(vector.data for vector in vectors)
    ranges = tuple(
        DeletionVectorRange(
            data_file_name=vector.data_file_name,
            offset=span.offset,
            length=span.length,
            cardinality=len(vector.rows) if vector.cardinality is None else vector.cardinality,
            checksum=checksum_of(vector.data),
        )
        for vector, span in zip(vectors, spans, strict=True)
    )
    file = IndexFile(
        index_type=DELETION_VECTORS,
        file_name=name,
        file_size=len(data),
        row_count=len(ranges),
        deletion_vectors=ranges,
    )
    return file, data
