"""Context of a table's assets: keys, arguments, the catalog of a step, and its errors.

Rule: no warehouse is read while assets are defined, so a slow store cannot break the code location.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from inspect import signature
from typing import Any, TypeVar

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.event_tags import CODE_VERSION, DATA_VERSION, input_pointer, input_version
from lakehouse_dagster.failures import retry_transient
from lakehouse_dagster.feed import Batch
from lakehouse_dagster.instance.dagster_internals import NO_EVENT
from lakehouse_dagster.lake import Lake
from lakehouse_dagster.lateness import freshness_policy
from lakehouse_dagster.lineage import Dataset, StepLineage, attempt_in, emitted_lineage, table_dataset
from lakehouse_dagster.metadata import batch_metadata, input_snapshots
from lakehouse_dagster.pipeline import CommittedBatch, Staged, TableState, table_of_run
from lakehouse_dagster.resources import LakehouseResource, spark_job
from lakehouse_dagster.run_tags import table_tags
from lakehouse_dagster.sources import Delivery, RowSource, row_source
from lakehouse_dagster.specs import TableSpec

R = TypeVar("R")

# Part of the code version of each asset: raise it when the assets do something else than before.
FACTORY_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAssets:
    """The common part of the assets of one table."""

    lake: Lake
    spec: TableSpec
    source: RowSource = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", row_source(self.lake, self.spec))

    @property
    def key(self) -> dg.AssetKey:
        return self.lake.table_key(self.spec)

    def operation(self, name: str) -> dg.AssetKey:
        return self.lake.operation_key(self.spec, name)

    def common(self, operation: str) -> dict[str, Any]:
        """Return the arguments that every asset of the table has."""
        translator, facts = self.lake.translator, self.lake.facts(self.spec)
        tags = {"lakehouse/table": self.spec.identifier, "lakehouse/operation": operation}
        return {
            # One box a table in the lineage: inside a database's, five assets named `ingest` would look alike.
            "group_name": translator.group_name(facts),
            "kinds": {*translator.kinds(facts), "spark" if self.in_spark else "python"},
            "owners": list(translator.owners(facts)) or None,
            "tags": {**tags, **translator.tags(facts)},
            "op_tags": tags,
            # Two runs never commit to one table at a time. The table would refuse the loser; this saves its work.
            "pool": "/".join(self.lake.identity(self.spec).path),
            "code_version": f"{FACTORY_VERSION}-{self.spec.digest}",
            "required_resource_keys": {self.lake.resource},
        }

    def batched(self, operation: str) -> dict[str, Any]:
        """Return the arguments of the two assets that take batches: one run for any range of batches."""
        needed = {"required_resource_keys": {self.lake.resource, *self.source.resources}}
        # Of the ingest alone: maintenance materializes the table too.
        fresh = self.spec.freshness if operation == "ingest" else None
        policy = {} if fresh is None else {"freshness_policy": freshness_policy(fresh)}
        is_automatic = self.spec.ingest.takes_news and self.source.is_derived
        condition = {"automation_condition": self._condition(operation)} if is_automatic else {}
        arguments = {**self.common(operation), **self.source.batching, **needed, **policy, **condition}
        if self.spec.commit.is_together and operation == "ingest":
            # Many runs may stage at the same time, each a batch of its own.
            del arguments["pool"]
            arguments["backfill_policy"] = dg.BackfillPolicy.multi_run()
        return arguments

    def _condition(self, operation: str) -> dg.AutomationCondition[Any]:
        """Return when an asset of a derived table is requested: one run ingests and commits.

        Its input has new rows: maintenance of the input brings none. The blocking check of the input holds. A load that
        failed is left to the sensor of news, or it would be requested again with each new row of the input.
        """
        on = dg.AutomationCondition
        if operation == "commit":
            return on.any_deps_match(on.will_be_requested())
        return (
            on.any_deps_match(on.data_version_changed()).since_last_handled()
            & on.all_deps_blocking_checks_passed()
            & ~on.in_progress()
            & ~on.execution_failed()
            & ~on.asset_matches(self.key, on.execution_failed())
        )

    @property
    def in_spark(self) -> bool:
        return self.spec.runs_on == "spark"

    def lakehouse(self, context: dg.AssetExecutionContext) -> LakehouseResource:
        resource: LakehouseResource = getattr(context.resources, self.lake.resource)
        return resource

    def catalog(self, context: dg.AssetExecutionContext) -> lc.Catalog:
        lakehouse = self.lakehouse(context)
        return lakehouse.catalog() if self.in_spark else lakehouse.local_catalog()

    def table(
        self,
        context: dg.AssetExecutionContext,
        read: Callable[[lc.Table], R],
        opened: Callable[[lc.Catalog, TableSpec], lc.Table] | None = None,
    ) -> tuple[lc.Table, R]:
        """Return the table of a step, as an earlier step of the run has opened it, if one has, and what `read` returns
        for it, which reads the schema at least. `opened`: opens a table that need not exist.
        """

        def of_catalog() -> lc.Table:
            catalog, spec = self.catalog(context), self.spec
            return catalog.table(spec.identifier) if opened is None else opened(catalog, spec)

        place = self.lakehouse(context).place, self.in_spark
        return table_of_run(context.run.run_id, place, self.spec.identifier, of_catalog, read)

    def partition_of(self, batch: Batch) -> str | None:
        """Return the Dagster partition of a batch, None for assets without partitions."""
        return batch.key if "partitions_def" in self.source.batching else None

    def partitions_of(self, committed: Iterable[CommittedBatch]) -> dict[str, CommittedBatch]:
        """Return the batches that are partitions, by their keys."""
        return {key: part for part in committed if (key := self.partition_of(part.batch)) is not None}

    def inputs(self, delivery: Delivery) -> dict[str, Any]:
        """Return the sources of a delivery as metadata."""
        return input_snapshots([(self.source.upstream.to_user_string(), delivery.version, delivery.snapshot_id)])

    @contextmanager
    def step(self, context: dg.AssetExecutionContext, operation: str) -> Iterator[StepLineage]:
        """Name the step's Spark jobs after it, let Dagster retry only transient errors, and tell of its lineage."""
        table = self.spec.identifier
        group = f"{context.run.run_id}/{table}/{operation}"
        tag_run(context)
        with (
            retry_transient(table, operation, retry_number=context.retry_number),
            spark_job(group, f"{operation} {table}"),
            self.lineage(context, operation) as lineage,
        ):
            yield lineage

    def lineage(self, context: dg.AssetExecutionContext, operation: str) -> AbstractContextManager[StepLineage]:
        """Tell of the lineage of an operation of the table."""
        lakehouse, job = self.lakehouse(context), f"{self.spec.identifier}.{operation}"
        step = attempt_in(context.run, namespace=self.lake.name, job=job, attempt=context.retry_number)
        return emitted_lineage(
            step, lakehouse.lineage, lakehouse.lineage_api_key, context.log.warning, context.instance
        )

    def source_dataset(self, context: dg.AssetExecutionContext, delivery: Delivery) -> Dataset:
        """Return the source of a delivery as lineage names it: a table of the warehouse by its snapshot."""
        if self.spec.changes_of is None:
            return Dataset(namespace="dagster", name=self.source.upstream.to_user_string(), version=delivery.version)
        followed = self.lakehouse(context).local_catalog().table(self.spec.changes_of.table)
        return table_dataset(self.lakehouse(context).uri, followed, delivery.snapshot_id)

    def dataset(
        self, context: dg.AssetExecutionContext, table: lc.Table, state: TableState, reports: Iterable[lc.Report] = ()
    ) -> Dataset:
        """Return the table as lineage names it, at its snapshot; with the `reports` of the verbs that wrote it."""
        return table_dataset(self.lakehouse(context).uri, table, state.snapshot_id or 0, reports)


def tag_run(context: dg.AssetExecutionContext) -> None:
    """Tag the run of a step with what it is about, where the instance has no run coordinator that did so before."""
    about = table_tags(node.tags for node in context.job_def.nodes)
    if missing := {name: value for name, value in about.items() if name not in context.run.tags}:
        context.instance.add_run_tags(context.run.run_id, missing)


def is_shown(
    context: dg.AssetExecutionContext, key: dg.AssetKey, partitions: Sequence[str | None], version: str | None = None
) -> bool:
    """Return whether Dagster has materializations of these partitions; of the asset, with this data version, without
    any.

    It lacks them in a new instance, and in the re-execution of a run that was killed after its commit.
    """
    wanted = {partition for partition in partitions if partition is not None}
    if wanted:
        return wanted <= set(context.instance.get_materialized_partitions(key))
    event = context.instance.get_latest_materialization_event(key)
    if event is None or event.asset_materialization is None:
        return False
    return version is None or (event.asset_materialization.tags or {}).get(DATA_VERSION) == version


def report_versions(context: dg.AssetExecutionContext, key: dg.AssetKey, versions: Mapping[str, str]) -> None:
    """Report the data version of each of some partitions, which this step has materialized with one version for all.

    Dagster takes one version of a result. A second event of a partition has what the first one has.
    """
    for partition, version in versions.items():
        wanted = dg.AssetRecordsFilter(asset_key=key, asset_partitions=[partition])
        (record,) = context.instance.fetch_materializations(wanted, limit=1).records
        made = record.asset_materialization
        assert made is not None
        tags = {**(made.tags or {}), DATA_VERSION: version}
        context.log_event(
            dg.AssetMaterialization(
                key, description=made.description, metadata=made.metadata, partition=partition, tags=tags
            )
        )


def report_batches(
    context: dg.AssetExecutionContext,
    assets: TableAssets,
    batches: Sequence[CommittedBatch],
    state: TableState,
    metadata: Mapping[str, Any],
) -> None:
    """Report committed batches that this step has no result for; partitions whose pages show them are left out."""
    shown = context.instance.get_materialized_partitions(assets.key)
    own = {partition: part for part in batches if (partition := assets.partition_of(part.batch)) is not None}
    told: dict[str | None, tuple[Mapping[str, Any], str]] = {
        partition: (
            batch_metadata(part),
            state.content_version if part.snapshot_id is None else state.version_at(part.snapshot_id),
        )
        for partition, part in own.items()
        if not (part.is_replay and partition in shown)
    }
    for partition, (figures, version) in (told if own else {None: ({}, state.content_version)}).items():
        tags = input_tags(context, assets, assets.operation("ingest"), partition)
        context.log_event(
            dg.AssetMaterialization(
                assets.key,
                partition=partition,
                metadata={**metadata, **figures},
                tags={**tags, DATA_VERSION: version},
            )
        )


def input_tags(
    context: dg.AssetExecutionContext, assets: TableAssets, upstream: dg.AssetKey, partition: str | None
) -> Mapping[str, str]:
    """Return the tags by which Dagster tells whether an event is out of date, as it sets them for a result."""
    made = context.instance.get_materialized_partitions(upstream)
    found = partition in made or not made
    record = (
        context.instance.get_latest_data_version_record(upstream, partition_key=partition if made else None)
        if found
        else None
    )
    event = None if record is None else record.asset_materialization or record.asset_observation
    return {
        CODE_VERSION: str(assets.common("commit")["code_version"]),
        input_pointer(upstream): "NULL" if record is None else str(record.storage_id),
        input_version(upstream): ((event and event.tags) or {}).get(DATA_VERSION, "INITIAL"),
    }


def observed(
    context: dg.AssetExecutionContext, key: dg.AssetKey, notes: Iterable[tuple[str | None, str, Mapping[str, Any]]]
) -> dg.MaterializeResult[Any]:
    """Log observations of an asset, each a partition, a description and metadata; return a result without an event.

    Later steps of the run are executed: a table that follows this one may still have to take its changes.
    """
    for partition, description, metadata in notes:
        context.log_event(dg.AssetObservation(key, partition=partition, description=description, metadata=metadata))
    return dg.MaterializeResult(metadata=dict(NO_EVENT))


def defined_asset(**arguments: Any) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """Return Dagster's decorator `asset` for arguments that are put together, typed as what it then is."""
    with warnings.catch_warnings():
        # Dagster calls backfill policies a beta; what is used of them is tested.
        warnings.filterwarnings("ignore", message=".*is currently in beta", category=dg.BetaWarning)
        decorator: Callable[[Callable[..., Any]], dg.AssetsDefinition] = dg.asset(**arguments)

    def asset_of(function: Callable[..., Any]) -> dg.AssetsDefinition:
        # Dagster asks 16 times for it.
        function.__signature__ = signature(function)  # type: ignore[attr-defined]
        return decorator(function)

    return asset_of


def batch_count(before: str, parts: Sequence[Staged | CommittedBatch]) -> str:
    """Return the number of batches as text for the log. A whole load is not a batch."""
    count = sum(part.batch.key is not None for part in parts)
    return "" if not count else f"{before} {count} batch{'es' if count > 1 else ''}"
