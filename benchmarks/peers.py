"""The same tables read, compacted and written by Java Paimon (through the judge) and by pypaimon, in the same rounds.

Bars in core-seconds: merge read 2x, compaction 3x less than Java (wide read 1.2x, by other engines 2x); read and write
20x less than pypaimon. Java counts rows without making columns of them and checks no page; we deliver Arrow from
checked pages (what the checks cost is the line "unchecked"). Both run in one process of their own.
"""

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import lakehouse_core as lc
from benchmarks import _measure as measure
from benchmarks.merge_engines import PARTIAL_UPDATE, aggregation
from tests.interop import pypaimon_client
from tests.interop.judge import Judge

JAVA = "2.0.0"
TABLE = "db.t"
PEER = Path(pypaimon_client.HERE) / "pypaimon_peer.py"
NARROW = {"k": "BIGINT NOT NULL", "s": "STRING", "x": "DOUBLE", "t": "TIMESTAMP(6)"}
WIDE = {"k": "BIGINT NOT NULL"} | {
    f"c{i}": ("INT", "BIGINT", "DOUBLE", "STRING", "TIMESTAMP(6)")[i % 5] for i in range(19)
}
_MAKERS: dict[str, Callable[[np.random.Generator, int], pa.Array]] = {
    "INT": lambda random, rows: pa.array(random.integers(0, 1000, rows, dtype=np.int32)),
    "BIGINT": lambda random, rows: pa.array(random.integers(0, 2**40, rows)),
    "DOUBLE": lambda random, rows: pa.array(random.random(rows)),
    "STRING": lambda random, rows: pa.array(random.integers(0, 10**9, rows)).cast(pa.string()),
    "TIMESTAMP(6)": lambda random, rows: pa.array(random.integers(0, 2**50, rows)).cast(pa.timestamp("us")),
}

_TIMED = """
import json, runpy, sys, time
import pypaimon
sys.argv = sys.argv[1:]
wall, cpu = time.perf_counter(), time.process_time()
runpy.run_path(sys.argv[0], run_name="__main__")
print()
print(json.dumps({"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}))
"""


def main() -> None:
    arguments = measure.arguments(__doc__, rounds=3)
    narrow, wide = measure.scaled(2_000_000, arguments), measure.scaled(1_000_000, arguments)
    # pypaimon merges row by row: a share of the rows is enough to know its pace.
    share = measure.scaled(500_000, arguments)
    measure.print_header(
        "Peers",
        data=f"narrow: 4 runs of {narrow:,} rows, wide: 3 runs of {wide:,} rows of 20 columns, one bucket, zstd 1",
        notes=[f"Java Paimon {JAVA}, pypaimon {pypaimon_client.VERSION}"],
    )
    with tempfile.TemporaryDirectory() as folder, Judge(JAVA, memory="8g", for_speed=True) as java:
        root = Path(folder)
        bars = _against_java(root / "narrow", java, NARROW, runs=4, rows=narrow, rounds=arguments.rounds, read=(2, 3))
        bars += _against_java(root / "wide", java, WIDE, runs=3, rows=wide, rounds=arguments.rounds, read=(1.2, 1.2))
        for name, options, nulls in (
            ("partial-update", PARTIAL_UPDATE, 0.75),
            ("aggregation", aggregation({column: kind.removesuffix(" NOT NULL") for column, kind in WIDE.items()}), 0),
        ):
            _fill(root / name, WIDE, 3, wide, options=options, nulls=nulls)
            series = _reads_against_java(root / name, java, arguments.rounds)
            bars.append(_times_less(f"{name} merge read, Java / ours (CPU)", series, "java", 2, 3))
        bars += _against_pypaimon(root / "pypaimon", share)
    measure.print_bars(bars)


def _against_java(
    warehouse: Path,
    java: Judge,
    columns: dict[str, str],
    *,
    runs: int,
    rows: int,
    rounds: int,
    read: tuple[float, float],
) -> list[measure.Bar]:
    name = warehouse.name
    _fill(warehouse, columns, runs, rows)
    series = _reads_against_java(warehouse, java, rounds)

    target, copy = _copier(warehouse)
    compaction = measure.interleave(
        {
            "ours": lambda: lc.connect(str(target)).table(TABLE).compact(full=True).files_added,
            "java": lambda: java.call("compact", table=TABLE, warehouse=str(target), strategy="full"),
        },
        rounds=rounds,
        before_each=copy,
    )
    measure.print_table(f"{name}: full compaction", compaction, against="java")
    return [
        _times_less(f"{name} merge read, Java / ours (CPU)", series, "java", *read),
        _times_less(f"{name} compaction, Java / ours (CPU)", compaction, "java", 3, 5),
    ]


def _reads_against_java(warehouse: Path, java: Judge, rounds: int) -> dict[str, measure.Series]:
    place = {"table": TABLE, "warehouse": str(warehouse)}
    name = warehouse.name
    unchecked = warehouse.with_name(f"{name}-unchecked")
    shutil.copytree(warehouse, unchecked)
    lc.connect(str(unchecked)).table(TABLE).alter(lc.SetOption("lakehouse.read.verify", "false"))
    series = measure.interleave(
        {
            "ours": lambda: _count(warehouse),
            "unchecked": lambda: _count(unchecked),
            "java": lambda: java.call("read", countOnly=True, **place)["count"],
        },
        rounds=rounds,
    )
    measure.print_table(f"{name}: merge read", series, against="java")
    assert len({one.samples[0].value for one in series.values()}) == 1
    return series


def _count(warehouse: Path) -> int:
    return sum(batch.num_rows for batch in lc.connect(str(warehouse)).table(TABLE).scan().to_batches())


def _against_pypaimon(warehouse: Path, rows: int) -> list[measure.Bar]:
    _fill(warehouse, NARROW, 4, rows)
    file = warehouse / "rows.arrow"
    reads = measure.interleave(
        {
            "ours": lambda: lc.connect(str(warehouse)).table(TABLE).scan().to_arrow().num_rows,
            "pypaimon": lambda: _pypaimon("read", warehouse, file),
        },
        rounds=1,
    )
    measure.print_table(f"merge read, {rows:,} rows a run", reads, against="pypaimon")

    batch = _batch(NARROW, 0, rows)
    with pa.ipc.new_stream(str(file), batch.schema) as stream:
        stream.write_table(batch)
    target, copy = _copier(warehouse)
    writes = measure.interleave(
        {
            "ours": lambda: lc.connect(str(target)).table(TABLE).write(batch).rows_added,
            "pypaimon": lambda: _pypaimon("write", target, file),
        },
        rounds=1,
        before_each=copy,
    )
    measure.print_table(f"write, {rows:,} rows", writes, against="pypaimon")
    return [
        _times_less("merge read, pypaimon / ours (CPU)", reads, "pypaimon", 20, 35),
        _times_less("write, pypaimon / ours (CPU)", writes, "pypaimon", 20, 50),
    ]


def _pypaimon(verb: str, warehouse: Path, file: Path) -> measure.Sample:
    """Let pypaimon work in its own environment; the start of its interpreter does not count."""
    python = str(pypaimon_client.python())
    done = measure.command([python, "-c", _TIMED, str(PEER), verb, str(warehouse), TABLE, str(file)])
    took = json.loads(done.value.splitlines()[-1])
    return measure.Sample(took["wall"], took["cpu"])


def _times_less(what: str, series: dict[str, measure.Series], peer: str, must: float, aim: float) -> measure.Bar:
    return measure.Bar(what, measure.cpu_ratio(series, peer, "ours"), must, aim, smaller_is_better=False)


def _fill(
    warehouse: Path,
    columns: dict[str, str],
    runs: int,
    rows: int,
    *,
    options: Mapping[str, str] | None = None,
    nulls: float = 0,
) -> None:
    catalog = lc.connect(str(warehouse))
    catalog.create_database("db")
    whole = {"bucket": "1", "write-buffer-size": "1 gb", "target-file-size": "1 gb", **(options or {})}
    table = catalog.create_table(TABLE, columns, primary_keys=["k"], options=whole)
    for run in range(runs):
        table.write(_batch(columns, run, rows, nulls=nulls))


def _batch(columns: dict[str, str], run: int, rows: int, *, nulls: float = 0) -> pa.Table:
    """Return `rows` distinct keys drawn from twice as many: each key is in half of the runs.

    `nulls`: which share of the values is null.
    """
    random = np.random.default_rng(run)
    keys = np.sort(random.choice(2 * rows, rows, replace=False)).astype(np.int64)
    made = {name: _MAKERS[type_](random, rows) for name, type_ in columns.items() if name != "k"}
    if nulls:
        for name, column in made.items():
            made[name] = pc.if_else(pa.array(random.random(rows) < nulls), pa.scalar(None, column.type), column)
    return pa.table({"k": keys} | made)


def _copier(warehouse: Path) -> tuple[Path, Callable[[], None]]:
    """Return a place and what puts a fresh copy of the warehouse there."""
    target = warehouse.with_name(f"{warehouse.name}-copy")

    def copy() -> None:
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(warehouse, target)

    return target, copy


if __name__ == "__main__":
    main()
