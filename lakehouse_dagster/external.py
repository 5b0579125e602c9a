"""External tables: tables of a lake that others write, as assets without a computation.

Rule: an event is reported when the content of a table changed, never for a compaction. So automation conditions of
downstream assets see exactly the changes. No Spark.
"""

from collections.abc import Mapping, Sequence

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.failures import TRANSIENT
from lakehouse_dagster.io_manager import table_metadata
from lakehouse_dagster.metadata import state_metadata
from lakehouse_dagster.partition_maps import PartitionMap
from lakehouse_dagster.pipeline import read_state
from lakehouse_dagster.resources import LakehouseResource
from lakehouse_dagster.translator import LakehouseTranslator, TableFacts

_DATA_VERSION = "dagster/data_version"
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


def external_tables_sensor(
    tables: Sequence[dg.AssetSpec], *, lake: str = "lake", resource: str = "lakehouse", interval_seconds: int = 60
) -> dg.SensorDefinition:
    """Return the sensor that reports each table of `external_table` whose rows changed: its state and data version.

    `resource` is the key of the `LakehouseResource`. Raises InvalidRequest for specs that are not tables of `lake`.
    """
    named: dict[dg.AssetKey, str] = {}
    for spec in tables:
        if spec.metadata.get("paimon/lake") != lake or spec.key in named:
            raise lc.InvalidRequest(
                f"external_tables_sensor: found {spec.key.to_user_string()}, expected each table of the lake {lake} "
                "once, as external_table returns it."
            )
        named[spec.key] = str(spec.metadata["dagster/table_name"])

    @dg.sensor(
        name=f"{lake}_external_tables",
        minimum_interval_seconds=interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Reports tables that others write, when their rows changed.",
        required_resource_keys={resource},
    )
    def external_tables(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        lakehouse: LakehouseResource = getattr(context.resources, resource)
        catalog = lakehouse.local_catalog()
        events, notes = [], []
        for key, table in named.items():
            try:
                event = _changed(catalog, table, key, _known_version(context.instance, key))
            except (lc.NotFound, *TRANSIENT) as error:
                # The other tables are reported; this one at a later tick.
                context.log.warning(f"{table}: {error}")
                notes.append(f"{table}: {error}")
                continue
            events += [] if event is None else [event]
            notes.append(f"{table}: {'unchanged' if event is None else 'changed'}")
        return dg.SensorResult(
            asset_events=events, skip_reason=None if events else dg.SkipReason("\n".join(notes) or "no tables")
        )

    return external_tables


def _changed(catalog: lc.Catalog, table: str, key: dg.AssetKey, known: str | None) -> dg.AssetMaterialization | None:
    opened = catalog.table(table)
    state = read_state(opened)
    if state.content_version == known:
        return None
    return dg.AssetMaterialization(
        key,
        metadata={**state_metadata(state), "dagster/row_count": opened.scan().count(), "dagster/uri": opened.uri},
        tags={_DATA_VERSION: state.content_version},
    )


def _known_version(instance: dg.DagsterInstance, key: dg.AssetKey) -> str | None:
    event = instance.get_latest_materialization_event(key)
    if event is None or event.asset_materialization is None:
        return None
    return (event.asset_materialization.tags or {}).get(_DATA_VERSION)
