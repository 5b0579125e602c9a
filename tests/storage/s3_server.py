"""An S3-compatible server in this process, with the bucket `lake`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from moto.server import ThreadedMotoServer

ACCESS, SECRET = "canary-access", "canary-secret-key"


@contextmanager
def s3_server() -> Iterator[Any]:
    """Yield a client of the server's own kind, as an opinion from outside."""
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    client = boto3.client(
        "s3",
        endpoint_url=f"http://{host}:{port}",
        aws_access_key_id=ACCESS,
        aws_secret_access_key=SECRET,
        region_name="us-east-1",
    )
    client.create_bucket(Bucket="lake")
    try:
        yield client
    finally:
        moto.stop()


def storage_of(client: Any) -> dict[str, str]:
    """Return the settings by which `lc.connect` reaches the server."""
    return {"endpoint": client.meta.endpoint_url, "access-key": ACCESS, "secret-key": SECRET}
