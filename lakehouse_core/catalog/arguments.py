"""What users hand to the verbs of a table → what the core takes. Raises InvalidRequest naming the argument."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import PurePath
from typing import Any, Final

from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.planning.partitions import partition_texts
from lakehouse_core.planning.where import parse_where
from lakehouse_core.storage import home_expanded
from lakehouse_core.table.changes import DynamicOverwrite, StaticOverwrite, WriteMode
from lakehouse_core.table.predicate import Predicate, bind, is_predicate
from lakehouse_core.table.schema import TableSchema

_MILLISECOND: Final = timedelta(milliseconds=1)


def bound_condition(where: str | Predicate | None) -> Callable[[TableSchema], Predicate | None]:
    """Return a function that binds the condition to a schema."""
    condition = parse_where(where) if isinstance(where, str) else where
    if condition is None:
        return lambda schema: None
    if not is_predicate(condition):
        raise InvalidRequest(f"where={shown(where)}: expected SQL text, or a condition such as col('id') > 10.")
    return lambda schema: bind(condition, schema.fields)


def overwrite_mode(partition: Mapping[str, Any] | None, dynamic: bool | None, schema: TableSchema) -> WriteMode:
    """Return what an overwrite replaces; `dynamic` None: what the option of a partitioned table says."""
    if partition is not None:
        if not partition:
            raise InvalidRequest(f"partition={shown(partition)} names no partition: leave it out, or say which.")
        if dynamic:
            raise InvalidRequest("overwrite takes a partition, or dynamic=True for those that the data has: not both.")
        return StaticOverwrite(partition_texts(partition, schema))
    if dynamic is None:
        dynamic = bool(schema.partition_keys) and schema.table_options.dynamic_partition_overwrite
    return DynamicOverwrite() if dynamic else StaticOverwrite()


def cache_directory(cache: str | PurePath | None) -> str | None:
    """Return the directory of local lookup files; None: that of this process."""
    if cache is None:
        return None
    if not isinstance(cache, str | PurePath) or not str(cache):
        raise InvalidRequest(
            f"cache={shown(cache)}: expected the path of a directory, or nothing for one of this process."
        )
    return home_expanded(str(cache))


def idle_millis(partition_idle: timedelta | None) -> int:
    """Return 0 for None: partitions need not be idle."""
    if partition_idle is None:
        return 0
    if not isinstance(partition_idle, timedelta) or partition_idle < timedelta():
        raise InvalidRequest(f"partition_idle={shown(partition_idle)}: expected a timedelta of 0 or more.")
    return partition_idle // _MILLISECOND


def count_of(name: str, count: int | None) -> int | None:
    """Return a number of snapshots, given as the argument `name`."""
    if count is not None and (isinstance(count, bool) or not isinstance(count, int)):
        raise InvalidRequest(f"{name}={shown(count)}: expected a number of snapshots.")
    return count


def age_millis(older_than: timedelta | datetime | None, now_millis: int) -> int | None:
    """Return the age from which on something is old; a time without a zone is UTC."""
    match older_than:
        case None:
            return None
        case timedelta():
            return older_than // _MILLISECOND
        case datetime():
            zoned = older_than if older_than.tzinfo is not None else older_than.replace(tzinfo=UTC)
            return now_millis - (zoned - datetime(1970, 1, 1, tzinfo=UTC)) // _MILLISECOND
        case _:
            raise InvalidRequest(f"older_than={shown(older_than)}: expected a timedelta or a datetime.")


def retention_millis(retention: timedelta | None) -> int | None:
    """Return None for None: a tag stays until it is deleted."""
    if retention is not None and not isinstance(retention, timedelta):
        raise InvalidRequest(f"retention={shown(retention)}: expected a timedelta.")
    return None if retention is None else retention // _MILLISECOND
