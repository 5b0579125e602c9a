"""Alerts: what an address gets of a failed run, over real HTTP on this machine."""

from typing import Any

import dagster as dg
import pytest

from lakehouse_dagster import log_failed_run, webhook_sensor
from lakehouse_dagster.automation import alerts
from tests.lakehouse_dagster.web_address import address


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alerts, "_WAIT_SECONDS", 0)


DEAD = "c71a80c2-03d0-47f7-bae0-0fa2f0af27a0"


@dg.op
def breaks() -> None:
    raise ZeroDivisionError("nothing is divided by 0")


@dg.job
def breaking() -> None:
    breaks()


def tick(sensor: dg.SensorDefinition, *, run_id: str | None = None, **tags: str) -> tuple[dg.DagsterRun, Any]:
    """Let a run fail, and the sensor see it; return the run and what the sensor answered."""
    with dg.DagsterInstance.ephemeral() as instance:
        result = breaking.execute_in_process(instance=instance, tags=tags, run_id=run_id, raise_on_error=False)
        (failure,) = (event for event in result.all_events if event.event_type == dg.DagsterEventType.RUN_FAILURE)
        context = dg.build_run_status_sensor_context(
            sensor_name=sensor.name, dagster_instance=instance, dagster_run=result.dagster_run, dagster_event=failure
        )
        return result.dagster_run, sensor(context.for_run_failure())


def test_a_failed_run_is_posted_with_its_table_and_its_first_run():
    tags = {
        "lakehouse/table": "sales.orders",
        "lakehouse/operation": "commit+ingest",
        "dagster/will_retry": "true",
        "lakehouse/root_run_id": "first",
    }
    with address() as found:
        run, _ = tick(webhook_sensor(found.url), **tags)

    (alert,) = found.taken
    assert "breaks" in alert.pop("message")
    assert alert == {
        "run_id": run.run_id,
        "root_run_id": "first",
        "job": "breaking",
        "table": "sales.orders",
        "operation": "commit+ingest",
        "will_retry": True,
    }


def test_a_run_that_the_sensor_carries_on_will_be_retried_whatever_dagster_says():
    with address() as found:
        for run_id in (DEAD, None):
            claimed = {"dagster/will_retry": "false", "lakehouse/carry_on": DEAD}
            tick(webhook_sensor(found.url), run_id=run_id, **claimed)

    assert [alert["will_retry"] for alert in found.taken] == [True, False]


def test_an_address_that_fails_for_a_moment_gets_the_alert_once():
    with address(503, 500) as found:
        tick(webhook_sensor(found.url))

    assert len(found.taken) == 1


def test_an_address_that_does_not_take_it_fails_the_tick_and_stays_a_secret():
    with address(500, 500, 500) as found, pytest.raises(RuntimeError) as failed:
        tick(webhook_sensor(found.url))

    assert "127.0.0.1" in str(failed.value)
    assert "HTTP Error 500" in str(failed.value)
    assert "secret" not in str(failed.value)
    refused: Any = failed.value.__cause__
    assert refused.closed, "the connection of the answer stays open"


def test_an_address_in_a_variable_that_is_not_set_is_asked_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SHOP_ALERTS", raising=False)

    _, answer = tick(webhook_sensor(dg.EnvVar("SHOP_ALERTS")))

    assert isinstance(answer, dg.SkipReason)
    assert "set the environment variable" in str(answer.skip_message)


def test_alerts_are_on_by_default():
    for sensor in (webhook_sensor("http://127.0.0.1:1"), log_failed_run):
        assert sensor.default_status == dg.DefaultSensorStatus.RUNNING
