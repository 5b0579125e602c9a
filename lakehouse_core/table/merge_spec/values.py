"""How the records of one key become one, as values: a spec, its aggregate functions, its sequence groups.

Source: docs/semantics/merge-engines.md#merge-engines.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from lakehouse_core.format.data_types import DataField, DataType
from lakehouse_core.options import MergeEngine, TableOptions

MAX_COUNT: Final = 2**31 - 1


class Mergeable(Protocol):
    """What merging asks of a table's schema."""

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
    """How the values of one column are combined. `name` is never an alias.

    Beside the name and `ignore_retract`, a function looks only at the settings that are its own: `distinct` (listagg,
    collect), `delimiter` (listagg), `nested_…` and `count_limit` (nested_update, nested_partial_update), `time_field`
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

    `fields` in the order in which they are compared; `protected` in schema order, without the `fields` themselves.
    """

    fields: tuple[str, ...]
    protected: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSpec:
    """How the records of one key become one.

    `key_columns` is the trimmed primary key. `functions`, by column in schema order: in the aggregation engine every
    column has one, in partial-update those that are not plainly overwritten, in the others none. `groups` are in schema
    order of their first sequence field. `ignore_delete`: merging skips retracts; never in the aggregation engine, whose
    writers alone drop them. `removes_on_delete`: a `-D` removes the row, in the aggregation engine or partial-update.
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
