"""Arguments: turn the values that users pass to the verbs of a table into the values that the core takes.

Rule: a wrong argument raises InvalidRequest, and the message names the argument.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import PurePath
from typing import Any, Final, TypeAlias

from lakehouse_core.errors import InvalidRequest, shown, written_as
from lakehouse_core.execution.row_changes.change_base import ReadAt
from lakehouse_core.format.stored import check_text, is_broken, is_int64
from lakehouse_core.planning.partitions import partition_texts
from lakehouse_core.planning.row_changes.statements import Isolation
from lakehouse_core.progress import Listener, Watch
from lakehouse_core.storage import home_expanded
from lakehouse_core.table.commit_message import DynamicOverwrite, Missing, StaticOverwrite, WriteMode
from lakehouse_core.table.predicate import Predicate, all_of, bind, is_predicate
from lakehouse_core.table.schema import TableSchema

_MILLISECOND: Final = timedelta(milliseconds=1)
_LEAST_ORPHAN_AGE_MILLIS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class CallOptions:
    """The arguments that mean the same in every verb, as the caller gave them."""

    properties: Mapping[str, str] | None = None
    progress: Listener | None = None
    dry_run: bool = False

    def checked_properties(self) -> Mapping[str, str]:
        """Return the properties for the snapshot. Raises InvalidRequest."""
        return mapping_of("properties", self.properties)

    def watch(self, verb: str, table: str) -> Watch:
        """Return the reporter of a verb. Raises InvalidRequest."""
        return Watch(verb, table, self.progress)


@dataclass(frozen=True, slots=True)
class GivenRows:
    """Rows to write, as the caller gave them. `read_at`: where a query read them from the latest rows of the table."""

    data: object
    rowkind_column: str | None = None
    missing: Missing = "null"
    read_at: ReadAt | None = None


def mapping_of(name: str, given: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the dict given as the argument `name`; an empty one for None.

    Its entries are checked where they are used.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidRequest(f"{name}={shown(given)}: expected a dict.")
    return given


def texts_of(name: str, given: Mapping[str, str] | None) -> dict[str, str]:
    """Return the dict given as the argument `name`, whose names and values are text; an empty one for None."""
    found = mapping_of(name, given)
    for key, value in found.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise InvalidRequest(
                f"{name}: {shown(key)} = {shown(value)}: names and values are text{written_as(value)}."
            )
    return dict(found)


def options_of(options: Mapping[str, str] | None) -> dict[str, str]:
    """Return the read options. Keys and values are text."""
    found = mapping_of("options", options)
    for key, value in found.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise InvalidRequest(
                f"Option {shown(key)} = {shown(value)}: keys and values of options are text{written_as(value)}."
            )
    return dict(found)


def column_name(name: str, given: str | None) -> str | None:
    """Return the column name given as the argument `name`; None when the caller leaves it out."""
    if given is not None:
        check_text(name, given)
    return given


def checked_missing(missing: object) -> Missing:
    """Return how to treat columns that the data lacks."""
    match missing:
        case str() if missing == "null":
            return "null"
        case str() if missing == "error":
            return "error"
    raise InvalidRequest(f"missing={shown(missing)}: expected 'null', or 'error' to refuse data that lacks a column.")


def checked_isolation(isolation: object) -> Isolation:
    """Return how a row change treats rows that others add after it has read the table."""
    match isolation:
        case str() if isolation == "snapshot":
            return "snapshot"
        case str() if isolation == "serializable":
            return "serializable"
    raise InvalidRequest(
        f"isolation={shown(isolation)}: expected 'snapshot', or 'serializable' to begin again when a write added rows "
        "that satisfy the condition."
    )


def partition_list(
    partitions: Mapping[str, Any] | Sequence[Mapping[str, Any]], advice: str = ""
) -> Sequence[Mapping[str, Any]]:
    """Return the partitions, of which one may be given by itself. Raises InvalidRequest, with `advice`."""
    given = [partitions] if isinstance(partitions, Mapping) else partitions
    if not isinstance(given, list | tuple) or not given or not all(isinstance(one, Mapping) and one for one in given):
        raise InvalidRequest(
            f"partitions={shown(partitions)}: expected a dict from partition columns to values, or a list of these."
            f"{advice}"
        )
    return given


# A list stands for all of its conditions.
Condition: TypeAlias = str | Predicate | Sequence[str | Predicate] | None


@dataclass(frozen=True, slots=True)
class Where:
    """A condition as the caller gave it. Call it with a schema to bind it."""

    given: Condition
    condition: Predicate | None

    def __call__(self, schema: TableSchema) -> Predicate | None:
        return None if self.condition is None else bind(self.condition, schema.fields)


def bound_condition(where: Condition) -> Where:
    """Return a function that binds the condition, or all of several, to a schema. Raises InvalidRequest."""
    given = where if isinstance(where, list | tuple) else () if where is None else (where,)
    conditions: list[Any] = [_parsed(each) if isinstance(each, str) else each for each in given]
    for each, condition in zip(given, conditions, strict=True):
        if not is_predicate(condition):
            raise InvalidRequest(
                f"where={shown(each)}: expected SQL text, or a condition such as col('id') > 10, or a list of these."
            )
    return Where(where, all_of(conditions))


def _parsed(text: str) -> Predicate:
    # Programs that give no text need not load the parser.
    from lakehouse_core.planning.read.where import parse_where  # noqa: PLC0415

    return parse_where(text)


def overwrite_mode(partition: Mapping[str, Any] | None, dynamic: bool | None, schema: TableSchema) -> WriteMode:
    """Return the mode of an overwrite. When `dynamic` is None, the option of a partitioned table decides."""
    if partition is not None:
        if not mapping_of("partition", partition):
            raise InvalidRequest(
                f"partition={shown(partition)}: expected a value for at least one partition column. Add one, or leave "
                "partition out."
            )
        if dynamic:
            raise InvalidRequest(
                "overwrite: partition and dynamic=True are both given, expected at most one. Leave one of them out."
            )
        return StaticOverwrite(partition_texts(partition, schema))
    if dynamic is None:
        dynamic = bool(schema.partition_keys) and schema.table_options.dynamic_partition_overwrite
    return DynamicOverwrite() if dynamic else StaticOverwrite()


def check_only_where(partition: Mapping[str, Any] | None, dynamic: bool | None) -> None:
    """Raise InvalidRequest if an overwrite by a condition is also told its partitions in another way."""
    for name, value in (("partition", partition), ("dynamic", dynamic)):
        if value is not None:
            raise InvalidRequest(
                f"overwrite: where and {name} are both given, expected at most one. Put the partition into where."
            )


def cache_directory(cache: str | PurePath | None) -> str | None:
    """Return the directory of local lookup files; None means the directory of this process."""
    if cache is None:
        return None
    if not isinstance(cache, str | PurePath) or not str(cache) or "\0" in str(cache) or is_broken(str(cache)):
        raise InvalidRequest(
            f"cache={shown(cache)}: expected the path of a directory, or None for a directory of this process."
        )
    return home_expanded(str(cache))


def idle_millis(partition_idle: timedelta | None) -> int:
    """Return the idle time in milliseconds; 0 for None, which means that partitions need not be idle."""
    if partition_idle is None:
        return 0
    if not isinstance(partition_idle, timedelta) or partition_idle < timedelta():
        raise InvalidRequest(f"partition_idle={shown(partition_idle)}: expected a timedelta of 0 or more.")
    return partition_idle // _MILLISECOND


def count_of(name: str, count: int | None, *, of: str = "snapshots") -> int | None:
    """Return a number of snapshots or of other things; `name` is the argument's name."""
    if count is not None and not is_int64(count):
        raise InvalidRequest(f"{name}={shown(count)}: expected a number of {of}.")
    return count


def bucket_numbers(buckets: Sequence[int] | None) -> frozenset[int] | None:
    """Return the numbers of buckets, None for all. Raises InvalidRequest."""
    if buckets is None:
        return None
    given: list[object] = list(buckets) if isinstance(buckets, Sequence) else []
    if not given or not all(is_int64(each) and each >= 0 for each in given):
        raise InvalidRequest(f"buckets={shown(buckets)}: expected numbers of buckets, as in [0, 3].")
    return frozenset(buckets)


def age_millis(older_than: timedelta | datetime | None, now_millis: int) -> int | None:
    """Return the age in milliseconds. A point in time becomes its age; a time without a zone is UTC."""
    match older_than:
        case None:
            return None
        case timedelta():
            return older_than // _MILLISECOND
        case datetime():
            zoned = older_than if older_than.tzinfo is not None else older_than.replace(tzinfo=UTC)
            return now_millis - (zoned - datetime(1970, 1, 1, tzinfo=UTC)) // _MILLISECOND
        case _:
            raise InvalidRequest(
                f"older_than={shown(older_than)}: expected a timedelta or a datetime, as in datetime.timedelta(days=7)."
            )


def orphan_age_millis(older_than: timedelta | datetime, now_millis: int) -> int:
    """Return the age from which on an orphan is deleted, in milliseconds, at least an hour. Raises InvalidRequest."""
    age = age_millis(older_than, now_millis)
    if age is None or age < _LEAST_ORPHAN_AGE_MILLIS:
        raise InvalidRequest(
            f"older_than={older_than}: expected an age of at least 1 hour, because no snapshot names the files of a "
            "writer before it commits."
        )
    return age


def retention_millis(retention: timedelta | None) -> int | None:
    """Return the retention in milliseconds. None means that the tag stays until the caller deletes it."""
    if retention is not None and not isinstance(retention, timedelta):
        raise InvalidRequest(f"retention={shown(retention)}: expected a timedelta.")
    return None if retention is None else retention // _MILLISECOND
