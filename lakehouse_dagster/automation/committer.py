"""Committer sensor: for tables that take batches together, it starts a run for each new batch that stages it, and a run
that commits what is staged.

Rule: a table has one commit at a time, and it waits for runs that are still staging, so that it takes their batches
too. No Spark.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import blake2b
from typing import TypeAlias

import dagster as dg

from lakehouse_dagster.answers import answered
from lakehouse_dagster.automation.requests import first_requests
from lakehouse_dagster.feed import Batch
from lakehouse_dagster.lake import Lake
from lakehouse_dagster.pipeline import batch_of, open_table, read_groups
from lakehouse_dagster.resources import LakehouseResource
from lakehouse_dagster.run_tags import OPERATION, TABLE
from lakehouse_dagster.sources import feed_source
from lakehouse_dagster.specs import TableSpec

_IN_PROGRESS = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
_PARTITION = "dagster/partition"
# A commit that failed is started again, with the same batches at most this often.
_AGAIN_AFTER_MINUTES = 10
# More would fill the queue in one tick. The next tick requests the others.
_MOST_REQUESTS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What waits in a table: the staged batches that can be committed, oldest first, why others have to wait, and the
    batches of the source that are to be staged.
    """

    ready: Sequence[Batch] = ()
    reason: str = ""
    new: Sequence[str] = ()


# The assets of a run that is queued or running, each with its partitions.
Running: TypeAlias = Mapping[dg.AssetKey, Collection[str | None]]


def committer_sensors(lake: Lake) -> list[dg.SensorDefinition]:
    """Return the sensor of the tables of a lake that take batches together, none without such tables. It is on."""
    tables = [spec for spec in lake.tables if spec.commit.is_together]
    if not tables:
        return []
    needed = {lake.resource, *(key for spec in tables for key in feed_source(lake, spec).resources)}
    sensor = lake.scoped("committer")

    @dg.sensor(
        name=sensor,
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        asset_selection=dg.AssetSelection.assets(
            *(key for spec in tables for key in (lake.operation_key(spec, "ingest"), lake.table_key(spec)))
        ),
        description="Stages new batches, each in a run of its own, and commits all that are staged in one run.",
        required_resource_keys=needed,
    )
    def committer(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        now, runs = datetime.now(UTC), _runs_in_progress(context.instance)
        since: dict[str, str] = json.loads(context.cursor or "{}")
        seen: dict[str, str] = {}
        requests: list[dg.RunRequest] = []
        lines: list[str] = []
        for spec in tables:
            name = spec.identifier
            try:
                found = answered(("committer", lake.table_key(spec)), partial(_waiting, context, lake, spec))
            except Exception as error:  # The feeds of teams may raise any error, and other tables wait too.
                context.log.warning(f"{name}: {error}")
                lines.append(f"{name}: {error}")
                continue
            ingest, own = lake.operation_key(spec, "ingest"), lake.table_key(spec)
            # A run of the table itself stages its batch, unless another run has staged it.
            begun = {partition for run in runs for key in (ingest, own) for partition in run.get(key, ())}
            asked = (_staging_request(lake, spec, key, now=now) for key in found.new if key not in begun)
            new = first_requests(context.instance, sensor, asked, most=max(0, _MOST_REQUESTS - len(requests)))
            requests += new
            if not found.ready:
                lines.append(f"{name}: {found.reason}")
                continue
            seen[name] = since.get(name, now.isoformat(timespec="seconds"))
            waited = now - datetime.fromisoformat(seen[name])
            staging = len(new) + sum(ingest in run for run in runs)
            count = f"{len(found.ready)} batch{'es' if len(found.ready) > 1 else ''} staged"
            if any(own in run for run in runs):
                lines.append(f"{name}: {count}, a run is committing")
            elif staging and waited < timedelta(minutes=spec.commit.wait_minutes):
                lines.append(f"{name}: {count}, {staging} more run{'s are' if staging > 1 else ' is'} staging")
            else:
                requests.append(_request(lake, spec, found.ready, count, now=now))
                # What is staged after this commit waits anew.
                del seen[name]
        cursor = json.dumps(seen, sort_keys=True)
        if requests:
            context.log.info("\n".join(lines))
            return dg.SensorResult(run_requests=requests, cursor=cursor)
        return dg.SensorResult(skip_reason="\n".join(lines), cursor=cursor)

    return [committer]


def _waiting(context: dg.SensorEvaluationContext, lake: Lake, spec: TableSpec) -> Waiting:
    """Look at what is staged for a table."""
    lakehouse: LakehouseResource = getattr(context.resources, lake.resource)
    catalog, source = lakehouse.local_catalog(), feed_source(lake, spec)
    table = open_table(catalog, spec.identifier)
    takes_news = spec.ingest.takes_news and source.tells_news
    behind = source.behind(table, context.resources, context.instance) if takes_news else None
    if behind is not None and behind.fault:
        context.log.warning(f"{spec.identifier}: {behind.fault}")
    loadable = () if behind is None else behind.partitions or ()
    if table is None:
        return Waiting(reason="not created yet", new=loadable)
    groups, staged = read_groups(catalog, table, commit_user=source.staging_user(context.resources))
    left = [batch_of(each) for number, each in staged.items() if not groups.is_committed(number)]
    held = source.held_back(context.resources, left, groups)
    asked = [each for number, each in staged.items() if number not in held and not groups.is_committed(number)]
    bad = {
        each.commit_identifier: reason
        for each, reason in zip(asked, table.why_not_committed(asked), strict=True)
        if reason is not None
    }
    # Also what a committer has committed and did not come to tell.
    ready = [batch_of(each) for number, each in staged.items() if number not in held.keys() | bad.keys()]
    unknown = set(source.feed.not_offered(context.instance, [str(batch.key) for batch in ready]))
    offered = [batch for batch in ready if batch.key not in unknown]
    reasons = [f"{len(held)} staged: {next(iter(held.values()))}"] if held else []
    reasons += [f"{len(bad)} staged cannot be committed: {next(iter(bad.values()))}"] if bad else []
    reasons += [behind.fault] if behind is not None and behind.fault else []
    reasons += [f"{len(unknown)} staged are not offered as partitions yet"] if unknown else []
    keys = {batch_of(each).key for each in staged.values()}
    new = [key for key in loadable if key not in keys]
    return Waiting(ready=offered, reason="; ".join(reasons) or "nothing is staged", new=new)


def _staging_request(lake: Lake, spec: TableSpec, key: str, *, now: datetime) -> dg.RunRequest:
    """Return the run that stages a batch. A run that failed is requested again in the next hour by the clock."""
    return dg.RunRequest(
        run_key=f"stage:{spec.identifier}:{key}#h{now:%Y%m%d%H}",
        asset_selection=[lake.operation_key(spec, "ingest")],
        tags={_PARTITION: key, TABLE: spec.identifier, OPERATION: "ingest", "lakehouse/reason": "the batch is new"},
    )


def _request(lake: Lake, spec: TableSpec, ready: Sequence[Batch], count: str, *, now: datetime) -> dg.RunRequest:
    """Return the run that commits all that is staged. It is of the newest batch, because each run is of some partition.

    The key has the batches and the time, so a run that failed is requested again some minutes later.
    """
    digest = blake2b(" ".join(str(batch.key) for batch in ready).encode(), digest_size=8).hexdigest()
    turn = int(now.timestamp() // 60 // _AGAIN_AFTER_MINUTES)
    return dg.RunRequest(
        run_key=f"commit:{spec.identifier}:{digest}#{turn}",
        asset_selection=[lake.table_key(spec)],
        tags={_PARTITION: str(ready[-1].key), TABLE: spec.identifier, OPERATION: "commit", "lakehouse/reason": count},
    )


def _runs_in_progress(instance: dg.DagsterInstance) -> list[Running]:
    return [_running(instance, run) for run in instance.get_runs(dg.RunsFilter(statuses=_IN_PROGRESS))]


def _running(instance: dg.DagsterInstance, run: dg.DagsterRun) -> Running:
    partition = run.tags.get(_PARTITION)
    if run.asset_selection is not None and partition is not None:
        return dict.fromkeys(run.asset_selection, (partition,))
    # A range of partitions, or a job without a selection: what Dagster has planned is exact.
    found: dict[dg.AssetKey, set[str | None]] = {key: set() for key in run.asset_selection or ()}
    planned = instance.get_records_for_run(run.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED)
    for record in planned.records:
        if record.asset_key is not None:
            found.setdefault(record.asset_key, set()).add(record.partition_key)
    return found
