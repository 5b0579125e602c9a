"""File indexes: find the rows of one data file that may satisfy a condition.

For a column without an index, or with a type change that may change its index keys, any row may match.
Source: docs/format/file-index.md#container, docs/semantics/reading.md#raw-reads.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyroaring import BitMap

from lakehouse_core.format.data_types import INTEGER_BITS, AtomicType, DataField, DataType, TypeRoot, has_same_kind
from lakehouse_core.format.file_index import (
    BLOOM_FILTER,
    BloomFilter,
    Directory,
    KeyForm,
    KeyRange,
    Place,
    RowIndex,
    body_of,
    corrupt,
    hash_literal,
    key_form,
    literal_key,
    open_row_index,
    parse_directory,
    successor,
    takes,
)
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.predicate import (
    Compare,
    Comparison,
    In,
    IsNull,
    Leaf,
    Predicate,
    StartsWith,
    possible_rows,
)
from lakehouse_core.table.schema import TableSchema

# The suffix of a side file's name, after the data file's name. Stored in every table.
INDEX_SUFFIX: Final = ".index"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileIndex:
    """The indexes of one file: their positions, and a function that reads them. `what` names the file in errors."""

    directory: Directory
    fetch: Callable[[Place], bytes]
    what: str


def embedded_index(data: bytes, file: DataFile) -> FileIndex:
    """Return the index that the file's manifest entry holds. Raises CorruptTable, UnsupportedFeature."""
    what = f"{file.file_name}, its embedded index"
    directory = parse_directory(data, what, file.file_name)
    return FileIndex(directory=directory, fetch=lambda place: body_of(data, place, what), what=what)


def index_file_name(file: DataFile) -> str | None:
    """Return the name of the side file with the data file's index, None if it has none."""
    return next((name for name in file.extra_files if name.endswith(INDEX_SUFFIX)), None)


def matching_rows(
    predicate: Predicate, index: FileIndex, file: DataFile, file_schema: TableSchema, fields: Iterable[DataField]
) -> BitMap | None:
    """Return the rows of the file that may satisfy the predicate, None if all rows may.

    `predicate` is bound to `fields`, the columns of the read's schema. Raises CorruptTable, UnsupportedFeature.
    """
    question = _Question(index, file, file_schema, {field.name: field for field in fields})
    rows = possible_rows(predicate, question.rows)
    return None if rows is not None and len(rows) == file.row_count else rows


def open_every_index(index: FileIndex, file: DataFile, file_schema: TableSchema) -> None:
    """Read every index of the file, and decode those that a scan would use. Raises CorruptTable."""
    question = _Question(index, file, file_schema, {})
    fields = {field.name: field for field in file_schema.fields}
    for column, places in index.directory.items():
        source = fields.get(column)
        for kind, place in places.items():
            if place is None:
                continue
            if source is not None and isinstance(source.type, AtomicType) and takes(kind, source.type):
                question.open(source, kind, place)
            else:
                index.fetch(place)


class _Question:
    """One condition on one file; an index is opened when a leaf of the condition needs it."""

    def __init__(
        self, index: FileIndex, file: DataFile, file_schema: TableSchema, fields: Mapping[str, DataField]
    ) -> None:
        self._index = index
        self._file = file
        self._sources = {field.id: field for field in file_schema.fields}
        self._fields = fields
        self._opened: dict[tuple[str, str], RowIndex | BloomFilter] = {}

    def rows(self, leaf: Leaf, wanted: bool) -> BitMap | None:
        target = self._fields[leaf.column]
        source = self._sources.get(target.id)
        if source is None:
            return _rows_without_values(leaf, wanted)
        places = self._index.directory.get(source.name)
        if not places or not _has_same_keys(source.type, target.type) or _loses_blanks(source.type, self._file):
            return None
        if None in places.values():
            return _rows_without_values(leaf, wanted)
        assert isinstance(source.type, AtomicType)
        found: BitMap | None = None
        for kind, place in places.items():
            if place is not None and takes(kind, source.type):
                rows = self._asked(leaf, wanted, self.open(source, kind, place), source.type)
                found = rows if found is None else found if rows is None else found & rows
        return found

    def _asked(self, leaf: Leaf, wanted: bool, index: RowIndex | BloomFilter, kind: AtomicType) -> BitMap | None:
        if isinstance(index, BloomFilter):
            return _bloom_rows(leaf, wanted, index, kind)
        values = index.non_null()
        if isinstance(leaf, IsNull):
            return BitMap(range(index.row_count)) - values if wanted else values
        form = key_form(kind)
        assert form is not None, kind
        possible, certain = _key_ranges(leaf, form)
        return index.rows_in(possible) if wanted else values - index.rows_in(certain)

    def open(self, source: DataField, kind: str, place: Place) -> RowIndex | BloomFilter:
        key = (source.name, kind)
        if key not in self._opened:
            what = f"{self._index.what}: {kind} of column {source.name!r}"
            body = self._index.fetch(place)
            if kind == BLOOM_FILTER:
                self._opened[key] = BloomFilter(body, what)
            else:
                form = key_form(source.type)
                assert form is not None, source
                opened = open_row_index(kind, body, form, what)
                assert opened is not None, kind
                if opened.row_count != self._file.row_count:
                    raise corrupt(what, f"it has {opened.row_count} rows, its data file {self._file.row_count}")
                self._opened[key] = opened
        return self._opened[key]


def _rows_without_values(leaf: Leaf, wanted: bool) -> BitMap | None:
    """Return the rows of a leaf on a column of nulls only: IS NULL is true, any other condition unknown."""
    return None if isinstance(leaf, IsNull) and wanted else BitMap()


def _bloom_rows(leaf: Leaf, wanted: bool, index: BloomFilter, kind: AtomicType) -> BitMap | None:
    """Return no rows if the filter excludes every value that the leaf needs, else None: all rows may match."""
    match leaf:
        case Compare(_, Comparison.EQUAL, value) if wanted:
            values: Sequence[Any] = (value,)
        case Compare(_, Comparison.NOT_EQUAL, value) if not wanted:
            values = (value,)
        case In(_, literals) if wanted:
            values = literals
        case _:
            return None
    spelled = (each for value in values for each in _spellings(value))
    return None if any(index.may_contain(hash_literal(value, kind)) for value in spelled) else BitMap()


def _spellings(value: Any) -> tuple[Any, ...]:
    return (0.0, -0.0) if isinstance(value, float) and value == 0 else (value,)


def _key_ranges(leaf: Compare | In | StartsWith, form: KeyForm) -> tuple[list[KeyRange], list[KeyRange]]:
    """Return the ranges of index keys for which the leaf may be true, and those for which it certainly is."""
    match leaf:
        case StartsWith(_, prefix):
            start = prefix.encode("utf-8", "surrogatepass")
            ranges: list[KeyRange] = [(start, _after_prefix(start))]
            return ranges, ranges
        case In(_, values):
            possible = [_equal(value, form) for value in values]
            return possible, possible if form.is_exact else []
        case Compare(_, comparison, value):
            return _comparison_ranges(comparison, value, form)


def _comparison_ranges(comparison: Comparison, value: Any, form: KeyForm) -> tuple[list[KeyRange], list[KeyRange]]:
    if isinstance(value, float) and math.isnan(value):
        everything: list[KeyRange] = [(None, None)] if comparison is Comparison.NOT_EQUAL else []
        return everything, everything
    low, after = _equal(value, form)
    below, above = (None, low), (after, form.nan)
    # If a key stands for several values, rows with the literal's own key may satisfy the leaf or not.
    upto, onwards = (None, after), (low, form.nan)
    exact = form.is_exact
    match comparison:
        case Comparison.EQUAL:
            return [(low, after)], [(low, after)] if exact else []
        case Comparison.NOT_EQUAL:
            others: list[KeyRange] = [below, (after, None)]
            return others if exact else [(None, None)], others
        case Comparison.LESS:
            return [below if exact else upto], [below]
        case Comparison.LESS_OR_EQUAL:
            return [upto], [upto if exact else below]
        case Comparison.GREATER:
            return [above if exact else onwards], [above]
        case Comparison.GREATER_OR_EQUAL:
            return [onwards], [onwards if exact else above]


def _equal(value: Any, form: KeyForm) -> KeyRange:
    """Return the range of keys of the values equal to this one: for a floating-point zero, both zeros."""
    spelled = [literal_key(each, form) for each in _spellings(value)]
    return min(spelled), successor(max(spelled))


def _after_prefix(prefix: bytes) -> bytes | None:
    """Return the smallest text above all texts with the prefix. UTF-8 has no byte 255."""
    return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else None


def _loses_blanks(kind: DataType, file: DataFile) -> bool:
    """Return whether values of the file lack trailing blanks that their index keys may have: CHAR in ORC files."""
    return isinstance(kind, AtomicType) and kind.root is TypeRoot.CHAR and file.file_name.endswith(".orc")


def _has_same_keys(source: DataType, target: DataType) -> bool:
    """Return whether values keep their index keys when the column is read as `target`."""
    if has_same_kind(source, target):
        return True
    if not isinstance(source, AtomicType) or not isinstance(target, AtomicType):
        return False
    if source.root in INTEGER_BITS and target.root in INTEGER_BITS:
        return INTEGER_BITS[source.root] <= INTEGER_BITS[target.root]
    both_text = source.root is TypeRoot.VARCHAR and target.root is TypeRoot.VARCHAR
    return both_text and (source.length or 0) <= (target.length or 0)
