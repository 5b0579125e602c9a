"""The address at which a machine asks for the keys of its role, on loopback: that of EC2, and that of ECS and EKS.

Every answer has new keys, which the stub of the store takes from then on. What they tell of their end makes a client
ask again after some tenths of a second; they end when a test says so.
"""

import json
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.storage.s3_stub import S3Stub

# Clients get new keys this long before the end of the old ones.
RENEWED_BEFORE = timedelta(minutes=5)
BEARER = "the-token-of-a-pod"


class MetadataServer:
    """`given`: when each session token was given. `lifetime_seconds`: older keys end when others are given. `is_away`:
    it answers 503.
    """

    def __init__(self, stub: S3Stub, port: int) -> None:
        self.stub = stub
        self.endpoint = f"http://127.0.0.1:{port}"
        self.given: dict[str, float] = {}
        self.asked: list[str] = []
        self.is_away = False
        self.lifetime_seconds = math.inf
        self._giving = threading.Lock()

    def expire_all(self) -> None:
        """End all keys that were given until now."""
        with self._giving:
            self.stub.expired |= self.given.keys()

    def new_keys(self) -> dict[str, str]:
        with self._giving:
            number = len(self.given) + 1
            keys = {
                "AccessKeyId": f"role-access-{number}",
                "SecretAccessKey": f"role-secret-{number}",
                "Token": f"role-token-{number}",
            }
            self.stub.secrets = {**self.stub.secrets, keys["AccessKeyId"]: keys["SecretAccessKey"]}
            self.given[keys["Token"]] = time.monotonic()
            last = time.monotonic() - self.lifetime_seconds
            self.stub.expired |= {token for token, since in self.given.items() if since < last}
        end = datetime.now(UTC) + RENEWED_BEFORE + timedelta(seconds=0.2)
        return {**keys, "Expiration": f"{end:%Y-%m-%dT%H:%M:%S.%fZ}"}


@contextmanager
def metadata_server(stub: S3Stub) -> Iterator[MetadataServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self._answer("session-token" if self.path == "/latest/api/token" else None)

        def do_GET(self) -> None:
            role = "/latest/meta-data/iam/security-credentials/"
            if self.path == "/pod":
                is_right = self.headers["Authorization"] == BEARER
                self._answer(json.dumps(server.new_keys()) if is_right else None)
            elif self.headers["X-aws-ec2-metadata-token"] != "session-token":
                self._answer(None)
            elif self.path == role:
                self._answer("lake-role")
            elif self.path == f"{role}lake-role":
                self._answer(json.dumps({"Code": "Success", "Type": "AWS-HMAC", **server.new_keys()}))
            else:
                self._answer(None)

        def _answer(self, text: str | None) -> None:
            server.asked.append(f"{self.command} {self.path}")
            body = (text or "").encode()
            self.send_response(503 if server.is_away else 200 if text is not None else 403)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        server = MetadataServer(stub, http.server_port)
        running = threading.Thread(target=http.serve_forever, daemon=True)
        running.start()
        try:
            yield server
        finally:
            http.shutdown()
            running.join()
