"""The asset `<lake>/<database>/<table>`, which is the table itself: it commits the staged batches."""

from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.assets.context import (
    TableAssets,
    batch_count,
    defined_asset,
    is_shown,
    observed,
    report_batches,
    report_versions,
)
from lakehouse_dagster.assets.staging import report_staged, stage, stages_itself
from lakehouse_dagster.feed import Batch
from lakehouse_dagster.lake import Lake
from lakehouse_dagster.metadata import Metadata, batch_metadata, column_lineage, commit_metadata, definition_metadata
from lakehouse_dagster.page import last_maintenance, page_metadata, show_state
from lakehouse_dagster.pipeline import (
    Committer,
    JointCommit,
    commit_batches,
    forget_committed,
    logged_progress,
    partition_versions,
    read_state,
)
from lakehouse_dagster.resources import spark_app_id
from lakehouse_dagster.specs import TableSpec


def commit_asset(lake: Lake, table: TableSpec) -> dg.AssetsDefinition:
    """Return the asset that commits the staged batches of a table, each once.

    With `commit: together` a run commits all batches that are staged, whatever its own are.
    """
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
            step = stage(context, assets, lineage, {}) if stages_itself(context, assets) else None
            if step is not None:
                report_staged(context, assets, step)
                opened, delivery = step.table, step.delivery
            else:
                opened = assets.catalog(context).table(table.identifier)
                delivery = source.delivery(context, in_spark=assets.in_spark, inputs={})
                lineage.reads(lambda: assets.source_dataset(context, delivery))
            wanted = delivery.batches_to_commit(opened)
            joint = _committed(context, assets, opened, delivery.user, wanted)
            committed = joint.committed
            state = read_state(opened)
            reports = [part.report for part in committed if part.report is not None and not part.is_replay]
            if any(report.snapshot_id is not None for report in reports):
                lineage.writes(lambda: assets.dataset(context, opened, state, reports))

            def metadata() -> Metadata:
                page = page_metadata(state, table.maintenance, last_maintenance(context.instance, lake, table))
                return {
                    **page,
                    **commit_metadata(committed),
                    # Again: the page tells of the current snapshot, not of those of the run.
                    **page,
                    "dagster/row_count": opened.scan().count(),
                    "dagster/uri": f"{assets.lakehouse(context).uri}/{table.database}.db/{table.name}",
                    "paimon/spark_app_id": spark_app_id(),
                    **assets.inputs(delivery),
                    **column_lineage(table, source.upstream, source.column_prefix),
                }

            own = [part for part in committed if part.batch in wanted]
            held = [(assets.partition_of(batch), text) for batch, text in joint.waiting.items() if batch in wanted]
            # Batches that other runs have staged.
            others = [part for part in committed if part.batch not in wanted]
            done = f"commit by run {context.run.run_id[:8]}"
            partitions = [assets.partition_of(part.batch) for part in own]
            is_known = all(part.is_replay for part in own) and is_shown(
                context, assets.key, partitions, state.content_version
            )
            # A result would be one for every partition of the run, also for those that wait; and Dagster takes the
            # ingest of before the step for its input.
            is_reported = bool(held) or step is not None
            if is_known or is_reported:
                others += [] if is_known else own
                notes: list[tuple[str | None, str, Metadata]] = [(key, text, {}) for key, text in held]
                if is_known:
                    notes += [(assets.partition_of(part.batch), part.noop_reason, batch_metadata(part)) for part in own]
                    notes = notes or [(None, "no batch is staged", {})]
                    done = f"found by run {context.run.run_id[:8]}"
                if notes:
                    context.log.info(f"{table.identifier}: nothing was committed: {notes[0][1]}")
                if others:
                    context.log.info(f"{table.identifier}: committed{batch_count('', others)}")
                result = observed(context, assets.key, [(key, f"nothing was committed: {t}", m) for key, t, m in notes])
            else:
                for part in own:
                    if (partition := assets.partition_of(part.batch)) is not None:
                        context.add_asset_metadata(batch_metadata(part), partition_key=partition)
                context.log.info(
                    f"{table.identifier}: committed{batch_count('', committed)}, now at snapshot {state.snapshot_id}"
                )
                result = dg.MaterializeResult(data_version=dg.DataVersion(state.content_version), metadata=metadata())
            yield result
            if not is_known and not is_reported:
                report_versions(context, assets.key, partition_versions(state, assets.partitions_of(own)))
            if others:
                report_batches(context, assets, others, state, metadata())
            # The latest event is that of any partition of the range, with the snapshot of its batch: a later batch or a
            # compaction may have overtaken it.
            show_state(context.instance, lake, table, opened, done=done)
            # Last: what was not told because the run was killed, the next one finds.
            forget_committed(opened, joint)

    return commit


def _committed(
    context: dg.AssetExecutionContext, assets: TableAssets, table: lc.Table, user: str, wanted: Sequence[Batch]
) -> JointCommit:
    """Commit the wanted batches, each in a snapshot of its own, or all that are staged together."""
    spec, progress = assets.spec, logged_progress(context.log.info)
    if not spec.commit.is_together:
        committed = commit_batches(
            table,
            wanted,
            commit_user=user,
            run_id=context.run.run_id,
            tag_batches=spec.tag_batches,
            progress=progress,
        )
        return _warned(context, JointCommit(committed=list(committed)))
    committer = Committer(
        # The record of groups is small, also where Spark writes the table.
        catalog=assets.lakehouse(context).local_catalog(),
        table=table,
        commit_user=user,
        run_id=context.run.run_id,
        most_batches=spec.commit.most_batches,
        tag_batches=spec.tag_batches,
        held_back=lambda batches, groups: assets.source.held_back(context.resources, batches, groups),
        progress=progress,
    )
    return _warned(context, committer.commit(wanted))


def _warned(context: dg.AssetExecutionContext, joint: JointCommit) -> JointCommit:
    """Warn of compactions that failed after their commit."""
    reports = (part.report for part in joint.committed)
    for report in reports:
        if report is not None and report.compaction_failure is not None:
            context.log.warning(
                f"{report.table}: committed, but not compacted: {report.compaction_failure} The next commit or "
                "compaction tries again."
            )
    return joint
