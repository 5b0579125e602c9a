"""An S3 server for measurements: the strict one of the tests in a process of its own, where each request takes time."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.storage.s3_stub import ACCESS, SECRET

# What a request to an object store takes from a machine nearby.
DELAY_SECONDS = 0.02


@contextmanager
def s3_server(
    *, delay_seconds: float = DELAY_SECONDS, lost: float = 0, log: Path | None = None
) -> Iterator[Mapping[str, str]]:
    """Yield the settings by which `lc.connect("s3://lake/…")` reaches a server. `lost`: the share of all writes that
    are carried out and get no answer. `log`: a file that gets a line for each request, for `benchmarks._waiting`.
    """
    argv = [sys.executable, "-m", "tests.storage.s3_stub", "--delay", f"{delay_seconds}", "--lose", f"{lost}"]
    argv += [] if log is None else ["--log", f"{log}"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        yield {"endpoint": server.stdout.readline().strip(), "access-key": ACCESS, "secret-key": SECRET}
        server.stdin.close()
