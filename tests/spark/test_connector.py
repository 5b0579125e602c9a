"""What Hadoop's connector is told of a store; `test_s3a` has it read files."""

import pytest

from lakehouse_core.execution.engines.spark.scan.connector import spark_settings
from lakehouse_core.storage.object_store import StoreSpec

pytestmark = pytest.mark.spark

BUCKET = "fs.s3a.bucket.lake."
AT = (("endpoint", "http://127.0.0.1:9000"), ("region", "eu-west-3"))
TOLD = {
    f"{BUCKET}endpoint": "http://127.0.0.1:9000",
    f"{BUCKET}endpoint.region": "eu-west-3",
    f"{BUCKET}path.style.access": "true",
    f"{BUCKET}connection.ssl.enabled": "false",
}


@pytest.mark.parametrize(
    ("settings", "of_the_session", "told"),
    [
        pytest.param(AT, {}, TOLD, id="the address"),
        pytest.param(
            (("endpoint", "https://s3.example.com"), ("path-style", "false")),
            {},
            {
                f"{BUCKET}endpoint": "https://s3.example.com",
                f"{BUCKET}endpoint.region": "us-east-1",
                f"{BUCKET}path.style.access": "false",
            },
            id="an address without a region, with TLS",
        ),
        pytest.param(
            (("region", "eu-west-3"),), {}, {f"{BUCKET}endpoint.region": "eu-west-3"}, id="a region of Amazon"
        ),
        pytest.param((), {}, {}, id="nothing"),
        pytest.param(AT, {"fs.s3a.endpoint": "http://proxy"}, {}, id="another address of the session"),
        pytest.param(AT, {f"{BUCKET}endpoint": "http://proxy"}, {}, id="another address of the bucket"),
        pytest.param(AT, {"fs.s3a.bucket.other.endpoint": "http://proxy"}, TOLD, id="an address of another bucket"),
        pytest.param(
            AT,
            {"fs.s3a.path.style.access": "false"},
            {name: value for name, value in TOLD.items() if "path.style" not in name},
            id="a setting of the session",
        ),
    ],
)
def test_the_connector_is_told_what_the_session_does_not_say(spark, settings, of_the_session, told):
    session = spark.newSession()
    for name, value in of_the_session.items():
        session.conf.set(name, value)

    assert spark_settings(session, StoreSpec("s3", "lake/wh", settings)) == told


def test_other_stores_have_no_connector(spark):
    assert spark_settings(spark, StoreSpec("az", "lake/wh", (("endpoint", "http://127.0.0.1:9000"),))) == {}
