"""External tables: tables of a lake that others write, as assets without a computation.

Rule: `LakehouseIOManager` and the sensor of external tables know the table by the metadata of its asset.
"""

from collections.abc import Mapping, Sequence

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.io_manager import table_metadata
from lakehouse_dagster.partition_maps import PartitionMap
from lakehouse_dagster.specs import part_fault
from lakehouse_dagster.translator import LakehouseTranslator, TableFacts

_DEFAULT = LakehouseTranslator()


def external_table(
    table: str,
    *,
    lake: str = "lake",
    comment: str = "",
    owners: Sequence[str] = (),
    tags: Mapping[str, str] | None = None,
    partitions_def: dg.PartitionsDefinition | None = None,
    partition_map: PartitionMap | None = None,
    translator: LakehouseTranslator = _DEFAULT,
) -> dg.AssetSpec:
    """Return the asset of the table `database.name` that others write. `LakehouseIOManager` reads it.

    `partition_map` says what part of the table a key of `partitions_def` means. Raises InvalidRequest.
    """
    database, _, name = table.partition(".")
    if not database or not name or "." in name:
        raise lc.InvalidRequest(f"external_table({table!r}): expected the name of a table, 'database.name'.")
    if (fault := part_fault(table)) is not None:
        raise lc.InvalidRequest(f"external_table: {fault}.")
    facts = TableFacts(
        lake=lake, database=database, name=name, comment=comment, owners=tuple(owners), tags=dict(tags or {})
    )
    return dg.AssetSpec(
        translator.key(facts),
        description=translator.description(facts) or None,
        group_name=translator.group_name(facts),
        owners=list(translator.owners(facts)),
        tags=dict(translator.tags(facts)),
        kinds=translator.kinds(facts),
        partitions_def=partitions_def,
        metadata={
            **table_metadata(lake=lake, table=table, partition_map=partition_map),
            "dagster/storage_kind": "paimon",
        },
    )
