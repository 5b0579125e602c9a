"""An S3-compatible server in this process, with the bucket `lake`."""

import threading
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
    _serve_one_by_one(moto)
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


def _serve_one_by_one(moto: ThreadedMotoServer) -> None:
    """Carry out one request at a time: this server checks a condition and writes in two steps, so two could win."""
    server, lock = moto._server, threading.Lock()
    assert server is not None
    app = server.app

    def one_by_one(environ: Any, start_response: Any) -> list[bytes]:
        with lock:
            return list(app(environ, start_response))

    server.app = one_by_one


def storage_of(client: Any) -> dict[str, str]:
    """Return the settings by which `lc.connect` reaches the server."""
    return {"endpoint": client.meta.endpoint_url, "access-key": ACCESS, "secret-key": SECRET}
