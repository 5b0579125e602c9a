"""Full compaction that finds out what it changes, without writing the changelog, against plain compaction of the same.

The oldest run lies at the top level, as a compaction before left it. Once as a whole, with the write of the records
that stay on both sides, and once the merges alone. In this process and one thread; memory: see `memory`.
"""

import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks import _measure as measure
from benchmarks._shapes import Shape, make_shape
from benchmarks.compaction import compact
from lakehouse_core.clock import SystemClock
from lakehouse_core.data_files.parquet.writer import Encoding
from lakehouse_core.data_files.writer import DataFileWriter, FileNames, FileOutput, FileSettings
from lakehouse_core.planning.compaction.plan import CompactionPlan, Merge
from lakehouse_core.storage import LocalStore
from lakehouse_core.storage.overlap import DirectSinks
from lakehouse_core.tasks.changelogs.merge import ChangelogMerge
from lakehouse_core.tasks.merge_scan import BucketFiles, merged_records

SHAPES: Final = ("narrow", "wide")
RUNS: Final = 4
TELLING: Final = {"changelog-producer": "full-compaction"}


def main() -> None:
    arguments = measure.arguments(__doc__)
    rows = measure.scaled(1_000_000, arguments)
    measure.print_header("Changelog", data=f"{RUNS} runs of {rows:,} rows each, the oldest at the top level, zstd 1")
    bars = []
    for name in SHAPES:
        with tempfile.TemporaryDirectory() as folder:
            shape = make_compacted_shape(Path(folder) / name, name, rows=rows)
            alternatives = {
                "merge": partial(merge_alone, shape),
                "merge and diff": partial(diff_alone, shape),
                "compaction": partial(compact, shape),
                "compaction and diff": partial(compact_and_diff, shape),
                "compaction and changelog": partial(compact, shape.with_options(TELLING)),
            }
            series = measure.interleave(alternatives, rounds=arguments.rounds)
        measure.print_table(f"{name}, {shape.row_count:,} rows", series, against="compaction")
        whole = measure.cpu_ratio(series, "compaction and diff", "compaction")
        alone = measure.cpu_ratio(series, "merge and diff", "merge")
        bars.append(measure.Bar(f"{name}: compaction with diff / plain", whole, 1.8, 1.5))
        bars.append(measure.Bar(f"{name}: merge with diff / plain, nothing written", alone, 1.8, 1.5))
    measure.print_bars(bars)


def make_compacted_shape(root: Path, name: str, *, rows: int) -> Shape:
    """Write runs, the oldest of which counts as what a compaction left."""
    shape = make_shape(root, name, runs=RUNS, rows=rows)
    top, *newer = shape.files
    level = shape.schema.table_options.num_levels - 1
    return replace(shape, files=(replace(top, level=level), *newer))


def merge_alone(shape: Shape) -> int:
    """Merge as a compaction does, and write nothing."""
    plan, files = _plan_and_files(shape)
    merges = (step.sections for step in plan.steps if isinstance(step, Merge))
    return sum(
        batch.num_rows
        for sections in merges
        for batch in merged_records(
            files, sections, shape.schema, shape.schema.fields, with_sequence_number=True, drops_deletes=True
        )
    )


def diff_alone(shape: Shape) -> int:
    """Merge and find out what changes, and write nothing."""
    telling = shape.with_options(TELLING)
    plan, files = _plan_and_files(telling)
    merge = ChangelogMerge(files=files, schema=telling.schema, plan=plan)
    return sum(
        chunk.records.num_rows
        for step in plan.steps
        if isinstance(step, Merge)
        for chunk in merge.chunks(step.sections, step.changelog_mode)
    )


def compact_and_diff(shape: Shape) -> int:
    """Compact, find out what changes, write the records and delete them again; the changelog is made, not written."""
    telling = shape.with_options(TELLING)
    plan, files = _plan_and_files(telling)
    merge = ChangelogMerge(files=files, schema=telling.schema, plan=plan)
    clock = SystemClock()
    store = LocalStore(shape.root)
    output = FileOutput(
        store=DirectSinks(store), encoding=Encoding(telling.schema), names=FileNames(clock.uuid()), clock=clock
    )
    kind = FileSettings(prefix="data-", target_bytes=8 << 30, level=plan.output_level)
    with DataFileWriter(output, "bucket-0", kind) as writer:
        for step in plan.steps:
            assert isinstance(step, Merge)
            for chunk in merge.chunks(step.sections, step.changelog_mode):
                writer.write(chunk.records)
        made = writer.close()
    store.delete(f"bucket-0/{file.file_name}" for file in made)
    return sum(file.row_count for file in made)


def _plan_and_files(shape: Shape) -> tuple[CompactionPlan, BucketFiles]:
    plan = shape.rewrite_task().plan
    assert isinstance(plan, CompactionPlan)
    schemas = {shape.schema.id: shape.schema}
    return plan, BucketFiles(store=LocalStore(shape.root), folder="bucket-0", schemas=schemas)


if __name__ == "__main__":
    main()
