"""The asset `<lake>/<database>/<table>`, which is the table itself: it commits the staged batches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
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
from lakehouse_dagster.assets.staging import report_staged, rereads, stage, stages_itself
from lakehouse_dagster.feed import Batch
from lakehouse_dagster.lake import Lake
from lakehouse_dagster.lineage import StepLineage
from lakehouse_dagster.metadata import Metadata, batch_metadata, column_lineage, commit_metadata, definition_metadata
from lakehouse_dagster.page import last_maintenance, page_metadata, show_state
from lakehouse_dagster.pipeline import (
    CommittedBatch,
    Committer,
    JointCommit,
    TableState,
    commit_batches,
    forget_committed,
    logged_progress,
    partition_versions,
    read_state,
)
from lakehouse_dagster.resources import spark_app_id
from lakehouse_dagster.sources import Delivery, feed_source
from lakehouse_dagster.specs import TableSpec


def commit_asset(lake: Lake, table: TableSpec) -> dg.AssetsDefinition:
    """Return the asset that commits the staged batches of a table, each once, and stages those of a run without ingest.

    With `commit: together` a run commits all batches that are staged, whatever its own are.
    """
    assets = TableAssets(lake=lake, spec=table)

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
            step = _committed(context, assets, lineage)
            is_known = step.is_known()
            # A result would be one for every partition of the run, also for those that wait; and Dagster takes the
            # ingest of before the step for its input.
            has_result = not (is_known or step.held or step.has_staged)
            others = [*step.others, *([] if is_known or has_result else step.own)]
            yield step.result() if has_result else step.observations(others, is_known=is_known)
            if has_result:
                report_versions(context, assets.key, partition_versions(step.state, assets.partitions_of(step.own)))
            if others:
                report_batches(context, assets, others, step.state, step.metadata())
            # The latest event is that of any partition of the range, with the snapshot of its batch: a later batch or a
            # compaction may have overtaken it.
            done = f"{'found' if is_known else 'commit'} by run {context.run.run_id[:8]}"
            show_state(context.instance, lake, table, step.table, done=done)
            step.delivery.committed(step.table)
            # Last: what was not told because the run was killed, the next one finds.
            forget_committed(step.table, step.joint)

    return commit


@dataclass(frozen=True, slots=True, kw_only=True)
class _CommittedStep:
    """What a step has committed, and how Dagster shows it.

    `has_staged`: the step staged its batches itself, without a step of the ingest before it.
    """

    context: dg.AssetExecutionContext
    assets: TableAssets
    table: lc.Table
    delivery: Delivery
    wanted: Sequence[Batch]
    joint: JointCommit
    state: TableState
    has_staged: bool

    @property
    def own(self) -> list[CommittedBatch]:
        """The committed batches of the run."""
        return [part for part in self.joint.committed if part.batch in self.wanted]

    @property
    def others(self) -> list[CommittedBatch]:
        """The committed batches that other runs have staged."""
        return [part for part in self.joint.committed if part.batch not in self.wanted]

    @property
    def held(self) -> list[tuple[str | None, str]]:
        """The batches of the run that wait: the partition of each, and the reason."""
        return [
            (self.assets.partition_of(batch), text)
            for batch, text in self.joint.waiting.items()
            if batch in self.wanted
        ]

    def is_known(self) -> bool:
        """Return whether the batches of the run were committed before, and Dagster shows them."""
        own, key = self.own, self.assets.key
        partitions = [self.assets.partition_of(part.batch) for part in own]
        return all(part.is_replay for part in own) and is_shown(
            self.context, key, partitions, self.state.content_version
        )

    def metadata(self) -> Metadata:
        """Return what the page of the table shows after the step."""
        context, assets, spec, source = self.context, self.assets, self.assets.spec, self.assets.source
        page = page_metadata(self.state, spec.maintenance, last_maintenance(context.instance, assets.lake, spec))
        return {
            **page,
            **commit_metadata(self.joint.committed),
            # Again: the page tells of the current snapshot, not of those of the run.
            **page,
            "dagster/row_count": self.table.scan().count(),
            "dagster/uri": f"{assets.lakehouse(context).uri}/{spec.database}.db/{spec.name}",
            "paimon/spark_app_id": spark_app_id(),
            **assets.inputs(self.delivery),
            **column_lineage(spec, source.upstream, source.column_prefix),
        }

    def result(self) -> dg.MaterializeResult[Any]:
        """Return a result for all batches of the run."""
        for part in self.own:
            if (partition := self.assets.partition_of(part.batch)) is not None:
                self.context.add_asset_metadata(batch_metadata(part), partition_key=partition)
        count, snapshot = batch_count("", self.joint.committed), self.state.snapshot_id
        self.context.log.info(f"{self.assets.spec.identifier}: committed{count}, now at snapshot {snapshot}")
        version = dg.DataVersion(self.state.content_version)
        return dg.MaterializeResult(data_version=version, metadata=self.metadata())

    def observations(self, others: Sequence[CommittedBatch], *, is_known: bool) -> dg.MaterializeResult[Any]:
        """Observe the batches for which nothing was committed; `others` are reported apart."""
        notes: list[tuple[str | None, str, Metadata]] = [(key, text, {}) for key, text in self.held]
        if is_known:
            partition = self.assets.partition_of
            notes += [(partition(part.batch), part.noop_reason, batch_metadata(part)) for part in self.own]
            notes = notes or [(None, "no batch is staged", {})]
        name = self.assets.spec.identifier
        if notes:
            self.context.log.info(f"{name}: nothing was committed: {notes[0][1]}")
        if others:
            self.context.log.info(f"{name}: committed{batch_count('', others)}")
        told = [(key, f"nothing was committed: {text}", metadata) for key, text, metadata in notes]
        return observed(self.context, self.assets.key, told)


def _committed(context: dg.AssetExecutionContext, assets: TableAssets, lineage: StepLineage) -> _CommittedStep:
    """Stage the batches where the step does that itself, and commit what is staged."""
    staged = stage(context, assets, lineage, {}) if stages_itself(context, assets) else None
    if staged is None:
        table, _ = assets.table(context, lambda kept: kept.schema)
        delivery = assets.source.delivery(context, in_spark=assets.in_spark, inputs={})
        lineage.reads(lambda: assets.source_dataset(context, delivery))
        staged = stage(context, assets, lineage, {}) if rereads(assets, table, delivery) else None
    if staged is not None:
        report_staged(context, assets, staged)
        table, delivery = staged.table, staged.delivery
    wanted = delivery.batches_to_commit(table)
    joint = _joint_commit(context, assets, table, delivery, wanted)
    state = read_state(table)
    reports = [part.report for part in joint.committed if part.report is not None and not part.is_replay]
    if any(report.snapshot_id is not None for report in reports):
        lineage.writes(lambda: assets.dataset(context, table, state, reports))
    return _CommittedStep(
        context=context,
        assets=assets,
        table=table,
        delivery=delivery,
        wanted=wanted,
        joint=joint,
        state=state,
        has_staged=staged is not None,
    )


def _joint_commit(
    context: dg.AssetExecutionContext, assets: TableAssets, table: lc.Table, delivery: Delivery, wanted: Sequence[Batch]
) -> JointCommit:
    """Commit the wanted batches, each in a snapshot of its own, or all that are staged together."""
    spec, progress = assets.spec, logged_progress(context.log.info)
    if not spec.commit.is_together:
        committed = commit_batches(
            table,
            wanted,
            commit_user=delivery.user,
            run_id=context.run.run_id,
            tag_batches=spec.tag_batches,
            by_run=delivery.by_run,
            progress=progress,
        )
        return _warned(context, JointCommit(committed=list(committed)))
    committer = Committer(
        # The record of groups is small, also where Spark writes the table.
        catalog=assets.lakehouse(context).local_catalog(),
        table=table,
        commit_user=delivery.user,
        run_id=context.run.run_id,
        most_batches=spec.commit.most_batches,
        tag_batches=spec.tag_batches,
        held_back=partial(feed_source(assets.lake, spec).held_back, context.resources),
        progress=progress,
    )
    return _warned(context, committer.commit(wanted))


def _warned(context: dg.AssetExecutionContext, joint: JointCommit) -> JointCommit:
    """Warn of compactions and automatic tags that failed after their commit."""
    reports = (part.report for part in joint.committed)
    for report in reports:
        if report is not None and report.compaction_failure is not None:
            context.log.warning(
                f"{report.table}: committed, but not compacted: {report.compaction_failure} The next commit or "
                "compaction tries again."
            )
        if report is not None and report.tag_failure is not None:
            context.log.warning(
                f"{report.table}: committed, but not tagged: {report.tag_failure} The next commit or compaction tries "
                "again."
            )
    return joint
