"""Ingestion: loads that start by themselves, when a source has news and by schedules.

Rule: what a table has not taken stays to be done: a load that failed is requested again in the next hour by the clock,
and other tables are loaded meanwhile.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from itertools import groupby

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.answers import answered
from lakehouse_dagster.automation.jobs import AssetJob
from lakehouse_dagster.automation.requests import first_requests
from lakehouse_dagster.automation.rounds import from_asset, look_at_each
from lakehouse_dagster.lake import Lake
from lakehouse_dagster.lateness import ask_source, duration_text, inputs_check, report_lateness
from lakehouse_dagster.page import VERIFY, latest_checks
from lakehouse_dagster.run_tags import OPERATION, TABLE, range_tags
from lakehouse_dagster.sources import Behind, row_source
from lakehouse_dagster.specs import TableSpec

# Dagster misses an update that comes just after it has requested a run, and rows that others commit to a table
# with partitions. After this time the sensor requests what the condition has not requested.
MISSED_AFTER = timedelta(minutes=2)
_UNASKED = "due by its schedule; the tick has no time left to ask what is new"
_UNREACHED = "the tick has no time left to ask what is due; it is taken the next time"
# Dagster allows no signs in the names of schedules.
_WORDS = str.maketrans({"*": "any", "/": "_by_", "-": "_to_", ",": "_and_", " ": "_"})
# The characters of names of time zones that names in Dagster do not have: Etc/GMT+5 is another than Etc/GMT-5.
_ZONE_WORDS = str.maketrans({"/": "_", "+": "_plus_", "-": "_minus_"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One table to load, and why. `partitions`: the first and the last, in the order of Dagster; None: it has none."""

    spec: TableSpec
    partitions: tuple[str, str] | None
    reason: str
    # What waits: for the same, one run is requested in an hour by the clock.
    waiting: tuple[str, ...] = ()

    @property
    def group(self) -> tuple[str, ...]:
        """Loads of one group are one run: tables that take the same batches of a feed, else each its own."""
        if self.spec.feed is not None and self.partitions is not None:
            return "feed", self.spec.feed.source, *self.partitions
        return "table", self.spec.identifier, *(self.partitions or ())


def news_sensors(lake: Lake, job: AssetJob) -> list[dg.SensorDefinition]:
    """Return the sensors that load what the sources of a lake have that its tables lack; none without such tables.

    They are on: one for each feed, which also shows how far behind its tables are, and one for all other sources. Their
    runs are runs of the ingest `job`, with its hooks. A table that is kept from another's changes is loaded by its
    automation condition; the sensor requests only what the condition has missed.
    """
    telling = [spec for spec in lake.tables if row_source(lake, spec).tells_news]
    return [
        _news_sensor(lake, job, feed, specs)
        for feed, specs in _by_feed(telling)
        if feed or any(map(_takes_news, specs))
    ]


def _takes_news(spec: TableSpec) -> bool:
    # Batches that are committed together are staged by the sensor `committer`, each in a run of its own.
    return spec.ingest.takes_news and not spec.commit.is_together


def _by_feed(specs: Iterable[TableSpec]) -> list[tuple[str, list[TableSpec]]]:
    """Return tables by the name of their feed, empty for other sources: a feed that cannot start stops only its own."""
    named = sorted(("" if spec.feed is None else spec.feed.source, at, spec) for at, spec in enumerate(specs))
    return [(feed, [spec for *_, spec in group]) for feed, group in groupby(named, key=lambda each: each[0])]


def _news_sensor(lake: Lake, job: AssetJob, feed: str, specs: Sequence[TableSpec]) -> dg.SensorDefinition:
    taking = {lake.table_key(spec): spec for spec in specs if feed or _takes_news(spec)}
    tables = {key: spec.identifier for key, spec in taking.items()}
    name = lake.scoped(f"{feed}_news" if feed else "news")

    @dg.sensor(
        name=name,
        job=job,
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Loads what {f'the feed {feed} has' if feed else 'the sources have'} and the tables lack.",
        required_resource_keys={lake.resource, *(key for spec in specs for key in row_source(lake, spec).resources)},
    )
    def news(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        loads: list[Load] = []

        def look(key: dg.AssetKey, table: lc.Table | None) -> str:
            spec, now = taking[key], datetime.now(UTC)
            behind = ask_source(row_source(lake, spec), key, table, context.resources, context.instance)
            if behind.fault:
                context.log.warning(f"{spec.identifier}: {behind.fault}")
            if feed:
                report_lateness(context.instance, inputs_check(key, spec, behind, now=now), now=now)
            found = news_of(context.instance, lake, spec, behind, now=now)
            if not isinstance(found, Load):
                return found
            loads.append(found)
            return found.reason

        lines, cursor = look_at_each(context, lake.resource, tables, look, first=context.cursor)
        asked = run_requests(lake, loads, context.repository_def, now=datetime.now(UTC))
        requests = first_requests(context.instance, name, asked)
        if requests:
            context.log.info(lines)
            return dg.SensorResult(run_requests=requests, cursor=cursor)
        return dg.SensorResult(skip_reason=lines, cursor=cursor)

    return news


def derived_sensors(lake: Lake) -> list[dg.SensorDefinition]:
    """Return the sensor of the automation conditions of a lake's derived tables; none without such tables. It is on."""
    specs = [spec for spec in lake.tables if spec.ingest.takes_news and row_source(lake, spec).is_derived]
    keys = [key for spec in specs for key in (lake.operation_key(spec, "ingest"), lake.table_key(spec))]
    if not keys:
        return []
    return [
        dg.AutomationConditionSensorDefinition(
            lake.scoped("derived"),
            target=dg.AssetSelection.assets(*keys),
            default_status=dg.DefaultSensorStatus.RUNNING,
            minimum_interval_seconds=30,
            description="Loads tables when the rows of the tables and assets that they are made of have changed.",
        )
    ]


def ingest_schedules(lake: Lake, job: AssetJob) -> list[dg.ScheduleDefinition]:
    """Return the schedules of the tables of a lake that have one, one for each time. They are on.

    A schedule loads what is new where the source tells, the partitions that are due, and everything else as a whole.
    """
    timed = sorted({(s.ingest.schedule, s.ingest.timezone) for s in lake.tables if s.ingest.schedule})
    return [
        _ingest_schedule(lake, job, feed, specs)
        for time in timed
        for feed, specs in _by_feed(s for s in lake.tables if (s.ingest.schedule, s.ingest.timezone) == time)
    ]


def _ingest_schedule(lake: Lake, job: AssetJob, feed: str, specs: Sequence[TableSpec]) -> dg.ScheduleDefinition:
    """Return the schedule of tables with one time, which take rows of one feed, or of other sources."""
    cron, timezone = str(specs[0].ingest.schedule), specs[0].ingest.timezone
    sources = {lake.table_key(spec): row_source(lake, spec) for spec in specs}
    tables = {lake.table_key(spec): spec.identifier for spec in specs}

    @dg.schedule(
        name=lake.scoped(f"{feed and f'{feed}_'}ingest_{_time_name(cron, timezone)}"),
        job=job,
        cron_schedule=cron,
        execution_timezone=timezone,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=f"Loads {', '.join(spec.identifier for spec in specs)}.",
        required_resource_keys={lake.resource, *(key for source in sources.values() for key in source.resources)},
    )
    def ingest(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest] | dg.SkipReason:
        now = context.scheduled_execution_time
        loads: list[Load] = []

        def look(key: dg.AssetKey, table: lc.Table | None) -> str:
            found = scheduled(context, lake, lake.table(tables[key]), table)
            if not isinstance(found, Load):
                return found
            loads.append(found)
            return found.reason

        lines, cursor = look_at_each(context, lake.resource, tables, look)
        for key in from_asset(tables, cursor):
            # A run without partitions finds out by itself what is new.
            is_whole = not sources[key].batching
            loads += [Load(spec=lake.table(tables[key]), partitions=None, reason=_UNASKED)] if is_whole else []
            lines += f"\n{tables[key]}: {_UNASKED if is_whole else _UNREACHED}"
        context.log.info(lines)
        return list(run_requests(lake, loads, context.repository_def, now=now)) or dg.SkipReason(lines)

    return ingest


def _time_name(cron: str, timezone: str) -> str:
    """Return a time as a part of names, another for each time, such as `daily_6_30_Europe_Berlin`."""
    # Numbers with leading zeros are another text of the same time, and have another name.
    daily = re.fullmatch(r"(0|[1-9]\d?) (0|[1-9]\d?) \* \* \*", cron)
    name = f"daily_{daily[2]}_{daily[1].zfill(2)}" if daily else cron.translate(_WORDS)
    return name if timezone == "UTC" else f"{name}_{timezone.translate(_ZONE_WORDS)}"


def news_of(instance: dg.DagsterInstance, lake: Lake, spec: TableSpec, behind: Behind, *, now: datetime) -> Load | str:
    """Return the load of what the source of a table has and the table lacks, or why there is none."""
    source = row_source(lake, spec)
    if behind.fault:
        return behind.fault
    if not behind.waiting:
        return f"has all of {behind.source}"
    if not _takes_news(spec):
        return f"behind by {behind.text}"
    if (hindrance := _hindrance(instance, lake, spec, now=now)) is not None:
        return f"behind by {behind.text}, {hindrance}"
    if source.is_derived:
        waits = timedelta() if behind.since is None else now - behind.since
        if behind.since is not None and waits < MISSED_AFTER:
            return f"behind by {behind.text} for {duration_text(waits)}, which its condition loads"
        if not _is_sound(instance, source.upstream):
            return f"behind by {behind.text}, held back: the check {VERIFY} of {behind.source} has failed"
    return _load(spec, behind.partitions, f"behind by {behind.text}", waiting=behind.waiting)


def scheduled(context: dg.ScheduleEvaluationContext, lake: Lake, spec: TableSpec, table: lc.Table | None) -> Load | str:
    """Return the load of a table that is due by its schedule, or why there is none."""
    source = row_source(lake, spec)
    record = _latest_load(context.instance, lake, spec)
    if record is not None and not record.dagster_run.is_finished:
        return f"run {record.dagster_run.run_id[:8]} loads it"
    if source.tells_news:
        behind = ask_source(source, lake.table_key(spec), table, context.resources, context.instance)
        if behind.fault or not behind.waiting:
            return behind.fault or f"has all of {behind.source}"
        return _load(spec, behind.partitions, "due by its schedule", waiting=behind.waiting)
    key = lake.table_key(spec)
    try:
        partitions = answered(
            ("scheduled", key),
            lambda: source.scheduled_keys(
                table, key, context.resources, context.instance, now=context.scheduled_execution_time
            ),
        )
    except Exception as error:  # The feeds of teams may raise any error, and other tables are due too.
        context.log.warning(f"{spec.identifier}: {error}")
        return f"{source.label} cannot be asked: {type(error).__name__}: {error}"
    return _load(spec, partitions, "due by its schedule")


def _load(
    spec: TableSpec, partitions: Sequence[str] | None, reason: str, *, waiting: tuple[str, ...] = ()
) -> Load | str:
    if partitions is None:
        return Load(spec=spec, partitions=None, reason=reason, waiting=waiting)
    if not partitions:
        return "no partition is due"
    return Load(spec=spec, partitions=(partitions[0], partitions[-1]), reason=reason, waiting=waiting)


def run_requests(
    lake: Lake, loads: Iterable[Load], known: dg.RepositoryDefinition | None, *, now: datetime
) -> Iterator[dg.RunRequest]:
    """Yield one run for each group of loads.

    Its key has what waits and the hour, so a load that left something is requested again in the next hour by the clock.
    """
    groups: dict[tuple[str, ...], list[Load]] = {}
    for load in loads:
        groups.setdefault(load.group, []).append(load)
    for group, members in groups.items():
        keys = [k for m in members for k in (lake.operation_key(m.spec, "ingest"), lake.table_key(m.spec))]
        feeds = {
            lake.feeds[m.spec.feed.source].key for m in members if m.spec.feed is not None and m.partitions is not None
        }
        # An asset that makes the batches of a feed is part of the load, where the code location has it.
        made = {} if known is None else known.assets_defs_by_key
        keys += [key for key in feeds if key in made and made[key].is_materializable]
        digest = blake2b(repr((group, sorted((m.spec.identifier, m.waiting) for m in members))).encode(), digest_size=8)
        partitions = members[0].partitions
        ends = {} if partitions is None else range_tags(*partitions)
        single = {TABLE: members[0].spec.identifier} if len(members) == 1 else {}
        reason = "; ".join(f"{m.spec.identifier}: {m.reason}" for m in members)
        yield dg.RunRequest(
            run_key=f"ingest:{digest.hexdigest()}#h{now.astimezone(UTC):%Y%m%d%H}",
            asset_selection=keys,
            tags={**ends, **single, OPERATION: "ingest", "lakehouse/reason": reason},
        )


def _latest_load(instance: dg.DagsterInstance, lake: Lake, spec: TableSpec) -> dg.RunRecord | None:
    """Return the run that loads a table now or when its turn comes, else the latest that has loaded it or failed to."""
    assets = instance.get_asset_records([lake.operation_key(spec, "ingest"), lake.table_key(spec)])
    runs = {run for asset in assets if (run := asset.asset_entry.last_run_id) is not None}
    records = instance.get_run_records(dg.RunsFilter(run_ids=sorted(runs))) if runs else []
    return max(records, key=lambda each: (not each.dagster_run.is_finished, each.create_timestamp), default=None)


def _hindrance(instance: dg.DagsterInstance, lake: Lake, spec: TableSpec, *, now: datetime) -> str | None:
    """Return why no load of a table is to be requested now, None if one is."""
    record = _latest_load(instance, lake, spec)
    if record is None or record.dagster_run.is_success:
        return None
    run = record.dagster_run.run_id
    if not record.dagster_run.is_finished:
        return f"which run {run[:8]} loads"
    ended = datetime.fromtimestamp(record.end_time or record.update_timestamp.timestamp(), UTC)
    if _hour(ended) != _hour(now):
        return None
    made = instance.get_latest_materialization_event(lake.table_key(spec))
    if made is not None and made.run_id == run:
        return None  # the run failed in another table
    return f"which run {run[:8]} did not load; again from {_hour(now) + timedelta(hours=1):%H:%M} UTC on"


def _hour(time: datetime) -> datetime:
    return time.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def _is_sound(instance: dg.DagsterInstance, table: dg.AssetKey) -> bool:
    """Return whether the blocking check of a table has not failed."""
    latest = latest_checks(instance, table, [VERIFY]).get(VERIFY)
    return latest is None or latest.evaluation.passed
