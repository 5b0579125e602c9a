"""Reads of every sort, the same tables read by both: scan options, incremental reads, diffs, system tables."""

from collections.abc import Mapping
from pathlib import Path

import pytest

import lakehouse_core as lc
from tests.interop.engines import TABLE, Ours
from tests.interop.judge import Judge, JudgeError
from tests.interop.kinds import KINDS, Kind
from tests.interop.system_tables import OF_METADATA, OF_ROWS, differences, our_rows
from tests.interop.values import Row, canonical, java_rows
from tests.planning.read.test_options import Case, cases

pytestmark = pytest.mark.interop

by_kind = pytest.mark.parametrize("kind", KINDS, ids=[kind.name.replace(" ", "-") for kind in KINDS])


@pytest.fixture(scope="module")
def board(judge: Judge, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of five snapshots with watermarks, the third of a compaction, and two tags."""
    warehouse = tmp_path_factory.mktemp("board")

    def call(verb: str, **request: object) -> None:
        judge.call(verb, table=TABLE, warehouse=str(warehouse), **request)

    fields = [{"name": "k", "type": "INT NOT NULL"}, {"name": "v", "type": "INT"}]
    call("create", fields=fields, primaryKeys=["k"], options={"bucket": "1"})
    for number in (1, 2):
        call("write", rows=[{"k": number, "v": number}, {"k": 9, "v": number}], watermark=number * 100)
    call("compact", strategy="full")
    call("write", rows=[{"_kind": "-D", "k": 1, "v": 1}, {"k": 3, "v": 3}], watermark=300)
    call("create-tag", tag="sod", snapshot=1)
    call("create-tag", tag="eod", snapshot=4)
    return warehouse


def read_by_java(judge: Judge, warehouse: Path, options: Mapping[str, str], table: str = TABLE) -> list[Row]:
    rows: list[Row] = judge.call("read", table=table, warehouse=str(warehouse), options=dict(options))["rows"]
    return rows


@pytest.mark.parametrize("case", cases(), ids=lambda case: " ".join(f"{k}={v}" for k, v in case.options.items()))
def test_options_are_read_or_refused_as_java_does(judge: Judge, board: Path, case: Case) -> None:
    java_reads = case.java == "reads" or (case.refused is None and case.java is None)

    if not java_reads:
        with pytest.raises(JudgeError):
            read_by_java(judge, board, case.options)
        return
    told = read_by_java(judge, board, case.options)
    if case.refused is None:
        scan = lc.connect(board).table(TABLE).scan(options=case.options)
        ours = java_rows(scan.to_arrow(), scan.plan().schema.fields)
        # Java hands out deletes, too; SQL engines on top of it drop them.
        assert canonical(ours) == canonical(row for row in told if row["_kind"] in ("+I", "+U"))


@by_kind
def test_what_came_between_two_snapshots_is_the_same(judge: Judge, tmp_path: Path, kind: Kind) -> None:
    ours = Ours(tmp_path)
    ours.create(kind)
    for batch in kind.batches[:-1]:
        ours.write(list(batch))
    ours.compact()
    ours.write(list(kind.batches[-1]))
    table, last = ours.table, len(ours.table.snapshots())

    for after in (0, 1, last - 1):
        for mode in ("auto", "delta", "changelog", "diff"):
            if mode == "diff" and not after:
                continue
            options = {"incremental-between": f"{after},{last}", "incremental-between-scan-mode": mode}
            told = read_by_java(judge, tmp_path, options, f"{TABLE}$audit_log")
            assert differences(told, our_rows(table, "audit_log", **options), "audit_log") == [], options
        if after:
            diff = table.diff(after, last).to_arrow()
            kinds = diff.column("rowkind").to_pylist()
            found = [
                {"rowkind": one} | row for one, row in zip(kinds, java_rows(diff, table.schema.fields), strict=True)
            ]
            assert differences(told, found, "audit_log") == []


@by_kind
def test_java_tells_the_same_of_tables_that_we_wrote(judge: Judge, tmp_path: Path, kind: Kind) -> None:
    ours = Ours(tmp_path)
    ours.create(kind)
    for batch in kind.batches:
        ours.write(list(batch))
    ours.tag("kept")
    ours.compact()

    for name in (*OF_METADATA, *OF_ROWS):
        told = read_by_java(judge, tmp_path, {}, f"{TABLE}${name}")
        assert differences(told, our_rows(ours.table, name), name) == [], name
