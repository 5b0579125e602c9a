"""pypaimon from the package index as a side of the comparison, in a virtual environment below `build/`."""

import json
import subprocess
from pathlib import Path
from typing import Self

import pyarrow as pa

from tests.environments import python_of

HERE = Path(__file__).resolve().parent
VERSION = "2.1.0"


class PyPaimon:
    """A process of pypaimon that takes one call after the other, as a context manager.

    `warehouse` of its verbs: a folder, or the options of a catalog as JSON.
    """

    def __init__(self, scratch: Path) -> None:
        self._file = str(scratch / "rows.arrow")
        self._errors = (scratch / "errors.txt").open("w+")
        command = [str(python()), str(HERE / "pypaimon_peer.py")]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)
        self._errors.close()

    def create(self, warehouse: Path | str, table: str, schema: pa.Schema, **keys: object) -> None:
        self._stream(schema.empty_table())
        self._call("create", warehouse, table, json.dumps(keys))

    def write(self, warehouse: Path | str, table: str, rows: pa.Table) -> None:
        self._stream(rows)
        self._call("write", warehouse, table)

    def read(self, warehouse: Path | str, table: str) -> pa.Table:
        self._call("read", warehouse, table)
        with pa.ipc.open_stream(self._file) as stream:
            return stream.read_all()

    def _stream(self, rows: pa.Table) -> None:
        with pa.ipc.new_stream(self._file, rows.schema) as stream:
            stream.write_table(rows)

    def _call(self, verb: str, warehouse: Path | str, table: str, extra: str = "{}") -> None:
        calls, answers = self._process.stdin, self._process.stdout
        assert calls is not None
        assert answers is not None
        calls.write(json.dumps([verb, str(warehouse), table, self._file, extra]) + "\n")
        calls.flush()
        # What it prints of its own comes before the answer; the end of its output means that it died.
        if not any(line == "done\n" for line in answers):
            self._errors.seek(0)
            raise AssertionError(f"pypaimon failed to {verb} {table}: {self._errors.read()[-2000:]}")


def python() -> Path:
    """Return the interpreter of pypaimon's environment."""
    return python_of(HERE / "pypaimon.lock")
