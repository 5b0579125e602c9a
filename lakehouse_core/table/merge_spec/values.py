"""Values of a merge spec: the spec, its aggregate functions and its sequence groups.

Source: docs/semantics/merge-engines.md#merge-engines.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from lakehouse_core.format.data_types import DataField, DataType
from lakehouse_core.options import MergeEngine, TableOptions

MAX_COUNT: Final = 2**31 - 1


class Mergeable(Protocol):
    """The members of a table's schema that a merge spec needs."""

    @property
    def fields(self) -> tuple[DataField, ...]: ...
    @property
    def primary_keys(self) -> tuple[str, ...]: ...
    @property
    def trimmed_primary_keys(self) -> tuple[str, ...]: ...
    @property
    def options(self) -> Mapping[str, str]: ...
    @property
    def table_options(self) -> TableOptions: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateFunction:
    """The aggregate function of one column. `name` is never an alias.

    Beside `name` and `ignore_retract`, a function uses only its own settings: `distinct` (listagg, collect),
    `delimiter` (listagg), `nested_…` and `count_limit` (nested_update, nested_partial_update), `time_field`
    (merge_map_with_keytime; None: the last field of the rows).
    """

    column: str
    name: str
    type: DataType
    ignore_retract: bool = False
    distinct: bool = False
    delimiter: str = ","
    nested_keys: tuple[str, ...] = ()
    nested_key_null_strategy: str = "merge"
    nested_sequence_fields: tuple[str, ...] = ()
    count_limit: int = MAX_COUNT
    time_field: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceGroup:
    """Columns that change together, by an order of their own.

    `fields`: the sequence fields, in the order of comparison; `protected`: the other columns, in schema order.
    """

    fields: tuple[str, ...]
    protected: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSpec:
    """The rule that merges the records of one key.

    `key_columns` is the trimmed primary key. `functions`, by column in schema order: in the aggregation engine every
    column has one, in partial-update only the aggregated columns, in the others none. `groups` are in schema order of
    their first sequence field. `ignore_delete`: merging skips retracts; never in the aggregation engine, whose writers
    alone drop them. `removes_on_delete`: a `-D` removes the row, in the aggregation engine or partial-update.
    `removing_fields`: sequence fields whose group removes the row at a `-D`.
    """

    engine: MergeEngine
    key_columns: tuple[str, ...]
    fields: tuple[DataField, ...]
    functions: Mapping[str, AggregateFunction] = field(default_factory=dict)
    groups: tuple[SequenceGroup, ...] = ()
    sequence_fields: tuple[str, ...] = ()
    sequence_descending: bool = False
    ignore_delete: bool = False
    removes_on_delete: bool = False
    removing_fields: tuple[str, ...] = ()
