"""The asset `<lake>/<database>/<table>`, which is the table itself: it commits the staged batches."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from lakehouse_dagster.assets.context import (
    TableAssets,
    batch_count,
    defined_asset,
    is_shown,
    observed,
    report_versions,
)
from lakehouse_dagster.lake import Lake
from lakehouse_dagster.metadata import batch_metadata, column_lineage, commit_metadata, definition_metadata
from lakehouse_dagster.page import last_maintenance, page_metadata, show_state
from lakehouse_dagster.pipeline import commit_batches, logged_progress, partition_versions, read_state
from lakehouse_dagster.resources import spark_app_id
from lakehouse_dagster.specs import TableSpec


def commit_asset(lake: Lake, table: TableSpec) -> dg.AssetsDefinition:
    """Return the asset that commits the staged batches of a table, each once."""
    assets = TableAssets(lake=lake, spec=table)
    source = assets.source

    @defined_asset(
        key=assets.key,
        deps=[assets.operation("ingest")],
        description=lake.translator.description(lake.facts(table)),
        # By these an IO manager finds the table under any key.
        metadata={**definition_metadata(table), "paimon/lake": lake.name},
        **assets.batched("commit"),
    )
    def commit(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult[Any]]:
        with assets.step(context, "commit") as lineage:
            opened = assets.catalog(context).table(table.identifier)
            delivery = source.delivery(context, in_spark=assets.in_spark, inputs={})
            lineage.reads(lambda: assets.source_dataset(context, delivery))
            committed = []
            for part in commit_batches(
                opened,
                delivery.batches_to_commit(opened),
                commit_user=delivery.user,
                run_id=context.run.run_id,
                tag_batches=table.tag_batches,
                progress=logged_progress(context.log.info),
            ):
                committed.append(part)
                if part.report is not None and part.report.compaction_failure is not None:
                    context.log.warning(
                        f"{table.identifier}: committed, but not compacted: {part.report.compaction_failure} The "
                        "next commit or compaction tries again."
                    )
            state = read_state(opened)
            reports = [part.report for part in committed if part.report is not None and not part.is_replay]
            if any(report.snapshot_id is not None for report in reports):
                lineage.writes(lambda: assets.dataset(context, opened, state, reports))
            notes = [(assets.partition_of(part.batch), part.noop_reason, batch_metadata(part)) for part in committed]
            partitions = [partition for partition, _, _ in notes]
            if all(part.is_replay for part in committed) and is_shown(
                context, assets.key, partitions, state.content_version
            ):
                notes = notes or [(None, "no batch is staged", {})]
                context.log.info(f"{table.identifier}: nothing was committed: {notes[0][1]}")
                done = f"found by run {context.run.run_id[:8]}"
                show_state(context.instance, lake, table, opened, done=done)
                yield observed(context, assets.key, [(key, f"nothing was committed: {t}", m) for key, t, m in notes])
                return
            for partition, _, metadata in notes:
                if partition is not None:
                    context.add_asset_metadata(metadata, partition_key=partition)
            context.log.info(
                f"{table.identifier}: committed{batch_count('', committed)}, now at snapshot {state.snapshot_id}"
            )
            page = page_metadata(state, table.maintenance, last_maintenance(context.instance, lake, table))
            yield dg.MaterializeResult(
                data_version=dg.DataVersion(state.content_version),
                metadata={
                    **page,
                    **commit_metadata(committed),
                    # Again: the page tells of the current snapshot, not of those of the run.
                    **page,
                    "dagster/row_count": opened.scan().count(),
                    "dagster/uri": f"{assets.lakehouse(context).uri}/{table.database}.db/{table.name}",
                    "paimon/spark_app_id": spark_app_id(),
                    **assets.inputs(delivery),
                    **column_lineage(table, source.upstream, source.column_prefix),
                },
            )
            report_versions(context, assets.key, partition_versions(state, assets.partitions_of(committed)))
            # The latest event is that of any partition of the range, with the snapshot of its batch: a later batch or a
            # compaction may have overtaken it.
            show_state(context.instance, lake, table, opened, done=f"commit by run {context.run.run_id[:8]}")

    return commit
