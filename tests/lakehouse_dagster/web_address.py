"""A web address on this machine that takes JSON."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any


class Address:
    """A web address that keeps what it gets, and answers with the given codes, then with 200."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)
        self.taken: list[dict[str, Any]] = []
        self.url = ""


@contextmanager
def address(*codes: int) -> Iterator[Address]:
    found = Address(*codes)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.headers["Content-Type"] == "application/json"
            body = self.rfile.read(int(self.headers["Content-Length"]))
            code = found.codes.pop(0) if found.codes else 200
            if code == 200:
                found.taken.append(json.loads(body))
            self.send_response(code)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing on the terminal."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_port}/alerts/secret"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
