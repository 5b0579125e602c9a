"""pypaimon from the package index as a side of the comparison, in a virtual environment below `build/`."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa

HERE = Path(__file__).resolve().parent
ENVIRONMENT = HERE.parents[1] / "build" / "pypaimon"
VERSION = "2.1.0"


class PyPaimon:
    """One warehouse as pypaimon sees it; each call is a process."""

    def __init__(self, warehouse: Path, scratch: Path) -> None:
        self._python = python()
        self._warehouse = warehouse
        self._scratch = scratch

    def create(self, table: str, schema: pa.Schema, **keys: object) -> None:
        self._stream(schema.empty_table())
        self._run("create", table, json.dumps(keys))

    def write(self, table: str, rows: pa.Table) -> None:
        self._stream(rows)
        self._run("write", table)

    def read(self, table: str) -> pa.Table:
        self._run("read", table)
        with pa.ipc.open_stream(self._file) as stream:
            return stream.read_all()

    @property
    def _file(self) -> str:
        return str(self._scratch / "rows.arrow")

    def _stream(self, rows: pa.Table) -> None:
        with pa.ipc.new_stream(self._file, rows.schema) as stream:
            stream.write_table(rows)

    def _run(self, verb: str, table: str, extra: str = "{}") -> None:
        command = [self._python, HERE / "pypaimon_peer.py", verb, self._warehouse, table, self._file, extra]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]


def python() -> Path:
    """Return the interpreter of pypaimon's environment, made from its lock file when it is not there yet."""
    found = ENVIRONMENT / "bin" / "python"
    done = ENVIRONMENT / ".complete"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True)
        pip = [str(found), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
        subprocess.run([*pip, "-r", str(HERE / "pypaimon.lock")], check=True)
        done.touch()
    return found
