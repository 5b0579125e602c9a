"""DELETE of one row of a hundred, and MERGE of one row for twenty, in each kind of table, against delta-rs on the same
rows in the same rounds.

Eight commits of distinct keys in any order. The rows to delete are in every part of the table ("spread"), or the lowest
keys. Of the rows to merge, half have keys that are there, in any order, and half are new; once with the values of the
source, and once with computed ones. delta-rs writes no deletion vectors: it always rewrites the files. Both compress
them by zstd 1. Each side works on a fresh copy of its table. Ours syncs each file to the disk, delta-rs none; so bars
are on CPU seconds, and wall seconds are in the tables.

delta-rs is installed into build/ the first time.
"""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import lakehouse_core as lc
from benchmarks import _measure as measure
from tests.environments import python_of

HERE = Path(__file__).resolve().parent
COMMITS = 8
TABLE = "db.t"
COLUMNS = {"k": "BIGINT NOT NULL", "g": "INT", "s": "STRING", "x": "DOUBLE"}
# What a MERGE computes of a row of the table and one of the source.
COMPUTED = {"g": "t.g + s.g", "s": "s.s", "x": "t.x * 2 + s.x"}
# Name → primary key, options, what a delete does.
KINDS: dict[str, tuple[list[str], dict[str, str], str]] = {
    "key table": (["k"], {"bucket": "4"}, "records"),
    "append, vectors": ([], {"deletion-vectors.enabled": "true"}, "marks"),
    "append, copy-on-write": ([], {}, "files"),
}


def main() -> None:
    arguments = measure.arguments(__doc__, rounds=5)
    rows = measure.scaled(2_000_000, arguments)
    measure.print_header(
        "Row changes", data=f"{COMMITS} commits of {rows // COMMITS:,} rows of 4 columns, one row of a hundred deleted"
    )
    bars: list[measure.Bar] = []
    with tempfile.TemporaryDirectory() as folder, delta_rs() as delta:
        root = Path(folder)
        _fill(root, delta, rows)
        for what, where in (("spread", "g = 7"), ("lowest keys", f"k < {rows // 100}")):
            bars += _deletes(root, delta, what, where, arguments.rounds)
        for computes in (False, True):
            bars += _merges(root, delta, rows, arguments.rounds, computes=computes)
    measure.print_bars(bars)


@contextmanager
def delta_rs() -> Iterator["Peer"]:
    process = subprocess.Popen(
        [str(python_of(HERE / "delta.lock")), "-m", "benchmarks._delta_peer"],
        cwd=HERE.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Peer(process)
    finally:
        process.communicate()


class Peer:
    """The process of delta-rs."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def call(self, verb: str, *values: Any) -> measure.Sample:
        """Return what the request took, as the other process saw it, and what it answered."""
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        requests.write(json.dumps([verb, *values]) + "\n")
        requests.flush()
        line = answers.readline()
        if not line:
            raise SystemExit(f"delta-rs failed to {verb}: see its error above.")
        answer = json.loads(line)
        return measure.Sample(answer["wall"], answer["cpu"], answer["value"])


def _deletes(root: Path, delta: Peer, what: str, where: str, rounds: int) -> list[measure.Bar]:
    def delete(kind: str) -> int:
        report = lc.connect(str(root / "ours-copy" / kind)).table(TABLE).delete(where)
        assert report.method == KINDS[kind][2]
        return int(report.rows_deleted or 0)

    series = measure.interleave(
        {
            "delta-rs": partial(delta.call, "delete", str(root / "delta-copy"), where),
            **{kind: partial(delete, kind) for kind in KINDS},
        },
        rounds=rounds,
        before_each=partial(_fresh, root),
    )
    measure.print_table(f"delete, {what}", series, against="delta-rs")
    assert len({one.samples[0].value for one in series.values()}) == 1
    return [
        measure.Bar(f"{kind}, {what} / delta-rs (CPU)", measure.cpu_ratio(series, kind, "delta-rs"), 1, 0.5)
        for kind in KINDS
    ]


def _merges(root: Path, delta: Peer, rows: int, rounds: int, *, computes: bool) -> list[measure.Bar]:
    file = str(root / "changes.arrow")
    random = np.random.default_rng(2)
    count = rows // 20
    keys = np.concatenate([random.permutation(rows)[: count // 2], rows + np.arange(count - count // 2)])
    changes = _rows(random, random.permutation(keys))
    with pa.ipc.new_file(file, changes.schema) as batches:
        batches.write_table(changes)

    def merge(kind: str) -> int:
        with pa.ipc.open_file(file) as batches:
            source = batches.read_all()
        table = lc.connect(str(root / "ours-copy" / kind)).table(TABLE)
        matched = lc.WhenMatched(update=COMPUTED if computes else "*")
        report = table.merge(source, "t.k = s.k", matched, lc.WhenNotMatched(insert="*"))
        assert report.method == KINDS[kind][2]
        return int(report.rows_updated or 0) + report.rows_inserted

    series = measure.interleave(
        {
            "delta-rs": partial(delta.call, "merge", str(root / "delta-copy"), file, COMPUTED if computes else None),
            **{kind: partial(merge, kind) for kind in KINDS},
        },
        rounds=rounds,
        before_each=partial(_fresh, root),
    )
    what = "merge, computed values" if computes else "merge"
    measure.print_table(f"{what}, {count:,} rows", series, against="delta-rs")
    assert {one.samples[0].value for one in series.values()} == {count}
    bars = [
        measure.Bar(f"{kind}, {what} / delta-rs (CPU)", measure.cpu_ratio(series, kind, "delta-rs"), 1, 0.5)
        for kind in KINDS
    ]
    if computes:
        # The bar of the design, for a narrow table.
        seconds = series["key table"].cpu_seconds
        bars.append(measure.Bar(f"key table, {what}, {count:,} rows (CPU)", seconds, 0.4, 0.3, unit="s"))
    return bars


def _fresh(root: Path) -> None:
    for name in ("ours", "delta"):
        shutil.rmtree(root / f"{name}-copy", ignore_errors=True)
        shutil.copytree(root / name, root / f"{name}-copy")


def _rows(random: np.random.Generator, keys: Any) -> pa.Table:
    return pa.table(
        {
            "k": keys,
            "g": random.integers(0, 100, len(keys), dtype=np.int32),
            "s": pa.array(random.integers(0, 10**9, len(keys))).cast(pa.string()),
            "x": random.random(len(keys)),
        }
    )


def _fill(root: Path, delta: Peer, rows: int) -> None:
    random = np.random.default_rng(1)
    data = _rows(random, random.permutation(rows))
    size = rows // COMMITS
    parts = [data.slice(number * size, size) for number in range(COMMITS)]
    file = root / "rows.arrow"
    with pa.ipc.new_file(str(file), data.schema) as batches:
        for part in parts:
            batches.write_table(part, max_chunksize=size)
    delta.call("fill", str(root / "delta"), str(file))
    for kind, (keys, options, _) in KINDS.items():
        catalog = lc.connect(str(root / "ours" / kind))
        catalog.create_database("db")
        table = catalog.create_table(TABLE, COLUMNS, primary_keys=keys, options={"write-only": "true", **options})
        for part in parts:
            table.write(part)


if __name__ == "__main__":
    main()
