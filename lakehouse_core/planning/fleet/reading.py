"""Reading: what a read of a bucket opens and merges, now and after a planned compaction.

Rule: only figures of manifests count. Rows that a newer version replaces are not known from them, so a compaction
frees at least what is said here. Source: docs/fleet.md#what-an-operation-is-worth.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from lakehouse_core.format.data_types import DataType
from lakehouse_core.planning.compaction.append import AppendCompactionPlan, Marked
from lakehouse_core.planning.compaction.plan import CompactionPlan, Merge
from lakehouse_core.planning.fleet.cost import RATES, Rates
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.levels import run_count
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.sections import sections
from lakehouse_core.table.sorted_run import KeyedFile, keyed_files


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one read of some buckets opens: files, sorted runs and bytes; `merged_bytes` share keys with other runs.

    Append tables have no sorted runs.
    """

    files: int = 0
    runs: int = 0
    bytes: int = 0
    merged_bytes: int = 0

    def __add__(self, other: "Reading") -> "Reading":
        return Reading(
            files=self.files + other.files,
            runs=self.runs + other.runs,
            bytes=self.bytes + other.bytes,
            merged_bytes=self.merged_bytes + other.merged_bytes,
        )

    def seconds(self, rates: Rates = RATES) -> float:
        """Return the time of one read."""
        return (
            self.files * rates.request_seconds
            + self.bytes / rates.read_bytes_per_second
            + self.merged_bytes / rates.merged_bytes_per_second
        )


NO_READING = Reading()


def reading_now(files: Sequence[DataFile], schema: TableSchema) -> Reading:
    """Return what a read of one bucket opens. Raises CorruptTable."""
    if schema.is_append:
        return Reading(files=len(files), bytes=sum(file.file_size for file in files))
    return _of_key_table(keyed_files(files, _key_types(schema)), len(files), schema)


def reading_after(
    files: Sequence[DataFile],
    plan: CompactionPlan | AppendCompactionPlan,
    schema: TableSchema,
    *,
    marked: Marked,
) -> Reading:
    """Return what a read of the bucket opens after the compaction. `marked`: the files with deletion vectors."""
    touched = {file.file_name for file in plan.files}
    rest = [file for file in files if file.file_name not in touched]
    target = schema.table_options.target_file_size_bytes(has_key=not schema.is_append)
    if isinstance(plan, AppendCompactionPlan):
        sizes = [sum(_left(file, marked, drops_deletes=False) for file in group) for group in plan.groups]
        return Reading(
            files=len(rest) + sum(_file_count(size, target) for size in sizes),
            bytes=sum(file.file_size for file in rest) + sum(sizes),
        )
    pieces = list(keyed_files(rest, _key_types(schema)))
    count = len(rest)
    for step in plan.steps:
        if isinstance(step, Merge):
            keyed = [each for section in step.sections for run in section for each in run.files]
            size = sum(_left(each.file, marked, drops_deletes=plan.drops_deletes) for each in keyed)
            if size == 0:
                continue
            count += _file_count(size, target)
            pieces.append(_merged(keyed, size, plan.output_level))
        else:
            (keyed_file,) = keyed_files([step.file], _key_types(schema))
            pieces.append(replace(keyed_file, file=replace(step.file, level=plan.output_level)))
            count += 1
    return _of_key_table(pieces, count, schema)


def _of_key_table(files: Sequence[KeyedFile], file_count: int, schema: TableSchema) -> Reading:
    return Reading(
        files=file_count,
        runs=run_count(keyed.file for keyed in files),
        bytes=sum(keyed.file.file_size for keyed in files),
        merged_bytes=_merged_bytes(files, schema),
    )


def _merged_bytes(files: Iterable[KeyedFile], schema: TableSchema) -> int:
    """Return the bytes that a read merges.

    In a table whose readers skip level 0, rows there wait for a compaction: they count as if readers merged them.
    """
    skips = schema.table_options.skips_level_0
    found = 0
    for section in sections(files):
        of_section = [file for run in section for file in run.data_files]
        if any(file.level == 0 for file in of_section) if skips else len(section) > 1:
            found += sum(file.file_size for file in of_section)
    return found


def _merged(files: Sequence[KeyedFile], size: int, level: int) -> KeyedFile:
    return KeyedFile(
        file=replace(files[0].file, file_size=size, level=level),
        min_key=min(keyed.min_key for keyed in files),
        max_key=max(keyed.max_key for keyed in files),
    )


def _left(file: DataFile, marked: Marked, *, drops_deletes: bool) -> int:
    """Return the bytes of a file without the rows that a rewrite is known to drop, at an equal size of all rows."""
    vector = marked.get(file.file_name)
    dropped = (file.delete_row_count or 0) if drops_deletes else 0
    dropped += 0 if vector is None else vector.count or 0
    return file.file_size * max(file.row_count - dropped, 0) // max(file.row_count, 1)


def _file_count(size: int, target: int) -> int:
    return -(-size // max(target, 1))


def _key_types(schema: TableSchema) -> list[DataType]:
    return [field.type for field in schema.key_fields]
