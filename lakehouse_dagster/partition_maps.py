"""Partition maps: from the partition keys of a Dagster asset to the partitions of its table.

Rule: each key means one part of the table, and different keys mean different parts. A key without a part is an error.
"""

import re
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from functools import reduce
from typing import Annotated, Any, Literal, TypeAlias

import dagster as dg
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

import lakehouse_core as lc

_MICROSECOND = timedelta(microseconds=1)
# A column of the table's partitions → its value as text, as the names of partitions show it.
Texts: TypeAlias = Mapping[str, str]


class _Map(BaseModel):
    # A name that is not known is an error of who wrote the map.
    model_config = ConfigDict(frozen=True, extra="forbid")


class KeyColumn(_Map):
    """The partition key is the value of `column`. With `values`, it is the name of a value: key → value."""

    kind: Literal["key"] = "key"
    column: str
    values: Mapping[str, str] | None = None

    @property
    def key_columns(self) -> frozenset[str]:
        return frozenset({self.column})

    def texts(self, key: str, partitions: dg.PartitionsDefinition) -> Texts:
        if self.values is None:
            return {self.column: key}
        if len(set(self.values.values())) < len(self.values):
            raise lc.InvalidRequest(
                f"partition map of {self.column}: two keys have one value. Give each key a value of its own."
            )
        if key not in self.values:
            raise lc.InvalidRequest(
                f"partition map of {self.column}: found key {key!r}, expected one of {', '.join(self.values)}. Add "
                "the key to the map."
            )
        return {self.column: self.values[key]}


class TimeColumns(_Map):
    """The start of a time window makes the values: column → pattern of `strftime`, such as `{"dt": "%Y-%m-%d"}`."""

    kind: Literal["time"] = "time"
    columns: Mapping[str, str] = Field(min_length=1)

    @property
    def key_columns(self) -> frozenset[str]:
        return frozenset()

    def texts(self, key: str, partitions: dg.PartitionsDefinition) -> Texts:
        if not isinstance(partitions, dg.TimeWindowPartitionsDefinition):
            raise lc.InvalidRequest(
                f"partition map of {', '.join(self.columns)}: found {type(partitions).__name__}, expected time "
                "windows. Map the key with KeyColumn."
            )
        window = partitions.time_window_for_partition_key(key)
        texts = self._formatted(window.start)
        neighbours = (self._formatted(window.end), self._formatted(window.start - _MICROSECOND))
        if texts in neighbours or self._parsed(texts) != window.start.replace(tzinfo=None):
            raise lc.InvalidRequest(
                f"partition map {dict(self.columns)}: partition {texts} of the table is not that of key {key!r} "
                "alone. Use a pattern as fine as the time windows, with all parts of the date."
            )
        return texts

    def _formatted(self, moment: datetime) -> Texts:
        return {column: moment.strftime(pattern) for column, pattern in self.columns.items()}

    def _parsed(self, texts: Texts) -> datetime | None:
        try:
            return datetime.strptime("\n".join(texts.values()), "\n".join(self.columns.values()))
        except ValueError:
            return None


class Dimensions(_Map):
    """One map for each dimension of multi-dimensional partitions: dimension → map."""

    kind: Literal["dimensions"] = "dimensions"
    maps: Mapping[str, Annotated[KeyColumn | TimeColumns, Field(discriminator="kind")]] = Field(min_length=1)

    @property
    def key_columns(self) -> frozenset[str]:
        return frozenset(column for each in self.maps.values() for column in each.key_columns)

    def texts(self, key: str, partitions: dg.PartitionsDefinition) -> Texts:
        if not isinstance(partitions, dg.MultiPartitionsDefinition):
            raise lc.InvalidRequest(
                f"partition map of dimensions {', '.join(self.maps)}: found {type(partitions).__name__}, expected "
                "MultiPartitionsDefinition. Give the map of the one dimension."
            )
        names = set(partitions.partition_dimension_names)
        if names != set(self.maps):
            raise lc.InvalidRequest(
                f"partition map of dimensions {', '.join(sorted(self.maps))}: found the dimensions "
                f"{', '.join(sorted(names))}. Map each dimension."
            )
        # A key that comes as text has its dimensions in the order of their names.
        keys = partitions.get_partition_key_from_str(key).keys_by_dimension
        found: dict[str, str] = {}
        for name, each in self.maps.items():
            texts = each.texts(keys[name], partitions.get_partitions_def_for_dimension(name))
            if twice := found.keys() & texts.keys():
                raise lc.InvalidRequest(
                    f"partition map of dimensions: two of them map {', '.join(sorted(twice))}. Leave one out."
                )
            found |= texts
        return found


PartitionMap: TypeAlias = KeyColumn | TimeColumns | Dimensions
_ADAPTER: TypeAdapter[PartitionMap] = TypeAdapter(Annotated[PartitionMap, Field(discriminator="kind")])


def parse_partition_map(found: object) -> PartitionMap:
    """Return the map that an asset's metadata hold. Raises InvalidRequest."""
    try:
        return _ADAPTER.validate_python(found)
    except ValidationError as error:
        raise lc.InvalidRequest(
            f"partition_map: found {found!r}, expected KeyColumn, TimeColumns or Dimensions. Pass one of them to "
            "table_metadata."
        ) from error


def partition_values(
    table: lc.Table, mapped: PartitionMap | None, key: str, partitions: dg.PartitionsDefinition
) -> Mapping[str, Any]:
    """Return the part of the table that a partition key means: column → value. Raises InvalidRequest without one."""
    if mapped is None:
        raise lc.InvalidRequest(
            f"{table.name}: found partition key {key!r}, but the asset has no partition_map. Add one to its metadata: "
            "table_metadata(partition_map=…)."
        )
    texts = mapped.texts(key, partitions)
    own = table.schema.partition_keys
    if unknown := [column for column in texts if column not in own]:
        raise lc.InvalidRequest(
            f"{table.name}: the partition_map has column {unknown[0]!r}, but the table is partitioned by "
            f"{', '.join(own) or 'nothing'}. Map these columns."
        )
    types = table.scan(list(texts)).schema()
    return {
        column: _value(table, column, text, types.field(column).type, is_key=column in mapped.key_columns)
        for column, text in texts.items()
    }


def any_of(conditions: list[Any]) -> Any:
    """Return the condition that one of several holds; its depth grows with the logarithm of their number."""
    while len(conditions) > 1:
        pairs = [conditions[at : at + 2] for at in range(0, len(conditions), 2)]
        conditions = [reduce(lambda left, right: left | right, pair) for pair in pairs]
    return conditions[0]


def partition_condition(values: Mapping[str, Any]) -> Any:
    """Return the condition that a row lies in a part of the table."""
    return reduce(lambda left, right: left & right, [lc.col(column) == value for column, value in values.items()])


def _value(table: lc.Table, column: str, text: str, kind: pa.DataType, *, is_key: bool) -> Any:
    """`is_key`: the text is a partition key, and no other text may mean the same value."""
    value: Any = None
    if pa.types.is_string(kind):
        return text
    elif pa.types.is_integer(kind):
        value = int(text) if re.fullmatch(r"-?[0-9]+", text) else None
    elif pa.types.is_date(kind):
        value = _date(text)
    else:
        raise lc.InvalidRequest(
            f"{table.name}: partition column {column} has the type {kind}; a partition_map can make text, whole "
            "numbers and dates."
        )
    if value is None or (is_key and str(value) != text):
        raise lc.InvalidRequest(
            f"{table.name}: found partition {column}={text}, expected a value of {kind} as the table writes it. "
            "Correct the partition_map."
        )
    return value


def is_value_of(text: str, sql_type: str) -> bool:
    """Return whether the text is the name of a partition by a column of this type, as the table writes it."""
    name = re.split(r"[^A-Za-z]", sql_type.strip(), maxsplit=1)[0].upper()
    if name in ("STRING", "VARCHAR", "CHAR"):
        return True
    if name in ("TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT"):
        return re.fullmatch(r"-?[0-9]+", text) is not None
    return name == "DATE" and _date(text) is not None


def _date(text: str) -> date | None:
    try:
        value = date.fromisoformat(text)
    except ValueError:
        return None
    # Weeks and dates without hyphens are other texts of the same day.
    return value if value.isoformat() == text else None
