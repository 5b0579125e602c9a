"""Lateness: the checks of what the source of a table has and the table lacks, and of the age of its rows.

Rule: a source that cannot be asked fails the check of its table alone.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.answers import answered
from lakehouse_dagster.page import (
    CONTENT_AGE,
    INPUTS_CURRENT,
    LatestCheck,
    Pages,
    latest_checks,
    read_pages,
    report_check,
)
from lakehouse_dagster.pipeline import TableState
from lakehouse_dagster.sources import Behind, RowSource
from lakehouse_dagster.specs import FreshnessSpec, TableSpec

# Without a limit of its own, a table that loads news by itself is late after this time.
FAIL_AFTER = timedelta(hours=1)
# How often the page of a late table shows anew for how long it has been late.
_SHOW_AGAIN = timedelta(minutes=10)
# The oldest batch that waits, and since when.
_OLDEST, _SINCE = "paimon/input_oldest", "paimon/behind_since"
# The metadata that make a check differ from its last evaluation. The time alone does not.
_SUBJECT = ("paimon/behind", _OLDEST, "paimon/input_newest", "paimon/input_taken", "paimon/limit")
_FIRST_DEADLINE, _DEADLINE_FORMAT = "2000-01-01-00:00", "%Y-%m-%d-%H:%M"


def ask_source(
    source: RowSource, key: dg.AssetKey, table: lc.Table | None, resources: Any, instance: dg.DagsterInstance
) -> Behind:
    """Return what a table has not taken of its source; a source that fails to answer is a fault of the answer.

    `key` is the asset of the table. Where the source does not tell since when its oldest batch waits, it waits since
    the check `inputs_current` saw it first.
    """
    try:
        behind = answered(("behind", source.key), lambda: source.behind(table, resources, instance))
    except Exception as error:  # The feeds of teams may raise any error, and other tables must be looked at too.
        fault = f"{source.label} cannot be asked: {type(error).__name__}: {error}"
        return Behind(source=source.label, unit="batch", fault=fault)
    if not behind.waiting or behind.since is not None:
        return behind
    latest = latest_checks(instance, key, [INPUTS_CURRENT]).get(INPUTS_CURRENT)
    seen = {} if latest is None else latest.evaluation.metadata
    since = seen.get(_SINCE)
    is_seen = seen.get(_OLDEST) == dg.MetadataValue.text(behind.waiting[0])
    if is_seen and isinstance(since, dg.TimestampMetadataValue):
        return replace(behind, since=datetime.fromtimestamp(since.value, UTC))
    return replace(behind, since=datetime.now(UTC))


def inputs_check(key: dg.AssetKey, spec: TableSpec, behind: Behind, *, now: datetime) -> dg.AssetCheckResult:
    """Evaluate the check `inputs_current` of a table: a warning up to the limits of its specification, then an error.

    Where it is not known since when the batches wait, their number alone counts.
    """
    limits = spec.behind
    count = len(behind.waiting)
    is_known = not count or behind.since is not None
    waits = now - behind.since if behind.since is not None and count else timedelta()
    fail_after = limits.fail_after or (FAIL_AFTER if spec.ingest.takes_news else None)
    is_old = fail_after is not None and waits > fail_after
    is_late = count > limits.fail_above or is_old
    limit = f"warns above {limits.warn_above}, fails above {limits.fail_above}"
    # What a source that cannot be asked has is not known: a figure would be wrong.
    figures = {"paimon/behind": count, "paimon/behind_seconds": int(waits.total_seconds())}
    known = figures if is_known else {"paimon/behind": count}
    description = f"behind by {behind.text}" if count else f"has all of {behind.source}"
    if behind.since is not None and count:
        description += f"; the oldest waits for {duration_text(waits)}"
    if behind.fault:
        description = behind.fault
    return dg.AssetCheckResult(
        asset_key=key,
        check_name=INPUTS_CURRENT,
        passed=not behind.fault and not is_late and count <= limits.warn_above,
        severity=dg.AssetCheckSeverity.ERROR if behind.fault or is_late else dg.AssetCheckSeverity.WARN,
        description=description,
        metadata={
            **{name: dg.MetadataValue.int(number) for name, number in known.items() if count or not behind.fault},
            # Texts: as numbers Dagster would plot them.
            "paimon/input": dg.MetadataValue.text(behind.source),
            "paimon/input_newest": dg.MetadataValue.text(behind.newest),
            "paimon/input_taken": dg.MetadataValue.text(behind.taken),
            **({"paimon/input_held": dg.MetadataValue.text(behind.held)} if behind.held else {}),
            _OLDEST: dg.MetadataValue.text(behind.waiting[0] if count else ""),
            **({_SINCE: dg.MetadataValue.timestamp(behind.since)} if behind.since is not None and count else {}),
            "paimon/limit": dg.MetadataValue.text(
                limit if fail_after is None else f"{limit} or after {duration_text(fail_after)}"
            ),
        },
    )


def freshness_policy(freshness: FreshnessSpec) -> dg.FreshnessPolicy:
    """Return the policy of Dagster for the ingest of a table."""
    if freshness.fail_after is not None:
        return dg.FreshnessPolicy.time_window(fail_window=freshness.fail_after, warn_window=freshness.warn_after)
    assert freshness.deadline is not None
    assert freshness.within is not None
    return dg.FreshnessPolicy.cron(freshness.deadline, freshness.within, freshness.timezone)


def content_age_check(
    key: dg.AssetKey, freshness: FreshnessSpec, state: TableState, *, now: datetime
) -> dg.AssetCheckResult:
    """Evaluate the check `content_age`: the age of the newest snapshot that changed rows, of any writer."""
    newest = state.content_time
    age = now - newest if newest is not None else timedelta()
    warns = passed = False
    if freshness.fail_after is not None:
        limit = f"at most {duration_text(freshness.fail_after)}"
        if newest is not None:
            warns = age <= freshness.fail_after
            passed = age <= (freshness.warn_after or freshness.fail_after)
    else:
        deadline, within = last_deadline(freshness, now=now), freshness.within
        assert within is not None
        limit = f"at most {duration_text(within)} at {deadline:%Y-%m-%d %H:%M %Z}"
        # In UTC: where the clocks change in between, the wall clock counts an hour more or less.
        passed = newest is not None and newest >= deadline.astimezone(UTC) - within
    if newest is not None:
        description = f"the newest rows are {duration_text(age)} old, {limit}"
    elif state.content_snapshot_id is None:
        description, warns = "the table has no rows yet", True
    else:
        description = f"the newest rows are of snapshot {state.content_snapshot_id}, which has expired, {limit}"
    return dg.AssetCheckResult(
        asset_key=key,
        check_name=CONTENT_AGE,
        passed=passed,
        severity=dg.AssetCheckSeverity.WARN if warns else dg.AssetCheckSeverity.ERROR,
        description=description,
        metadata={
            "paimon/content_age_seconds": dg.MetadataValue.int(int(age.total_seconds())),
            "paimon/limit": dg.MetadataValue.text(limit),
        },
    )


def last_deadline(freshness: FreshnessSpec, *, now: datetime) -> datetime:
    """Return when the deadline was due last."""
    windows = dg.TimeWindowPartitionsDefinition(
        start=_FIRST_DEADLINE,
        fmt=_DEADLINE_FORMAT,
        cron_schedule=freshness.deadline,
        timezone=freshness.timezone,
    )
    return windows.start_time_for_partition_key(windows.get_partition_key_for_timestamp(now.timestamp()))


def report_lateness(
    instance: dg.DagsterInstance, result: dg.AssetCheckResult, *, now: datetime, seen: Pages | None = None
) -> None:
    """Store the evaluation of a check of this module, unless the page shows the same already.

    `seen`: what the page showed a moment ago; it is read again if that is not the same.
    """
    assert result.asset_key is not None
    name = str(result.check_name)
    if seen is not None and is_told(result, seen.check(result.asset_key, name), now=now):
        return
    if not is_told(result, read_pages(instance, [result.asset_key]).check(result.asset_key, name), now=now):
        report_check(instance, result)


def is_told(result: dg.AssetCheckResult, latest: LatestCheck | None, *, now: datetime) -> bool:
    """Return whether the `latest` evaluation of a check, after the latest event of its table, tells the same."""
    if latest is None:
        return False
    shown = latest.evaluation
    is_old = now - datetime.fromtimestamp(latest.time, UTC) > _SHOW_AGAIN
    is_same = (shown.passed, shown.severity) == (result.passed, result.severity) and all(
        shown.metadata.get(name) == result.metadata.get(name) for name in _SUBJECT
    )
    return is_same and (result.passed or not is_old)


def duration_text(duration: timedelta) -> str:
    """Return a time in its two largest units, as in `2 h 5 min`."""
    seconds = max(0, int(duration.total_seconds()))
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if not minutes:
        return f"{seconds} s"
    if not hours:
        return f"{minutes} min"
    parts = ((days, "d"), (hours % 24, "h")) if days else ((hours, "h"), (minutes % 60, "min"))
    return " ".join(f"{count} {unit}" for count, unit in parts if count)
