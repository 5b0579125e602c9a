"""The program between pipes and on a terminal: standard input and output, `| head`, and a bar that moves."""

import gzip
import json
import os
import pty
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.program

PROGRAM = [sys.executable, "-c", "from lakehouse_core.cli import main; main()"]


# A form that is read from its end, and one of text; `make test-long` takes the others.
FORMS = ["parquet", "csv", *(pytest.param(form, marks=pytest.mark.long) for form in ("jsonl", "arrow"))]


def run(*words: str, given: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*PROGRAM, *words], input=given, capture_output=True, check=False)


@pytest.mark.parametrize("form", [*FORMS, pytest.param("json", marks=pytest.mark.long)])
def test_rows_go_from_one_table_to_another_through_a_pipe(shell, orders, form):
    shell("create", "sales.copies", "--schema", "orders.yaml")

    read = run("read", orders, "-o", "-", "--format", form)
    written = run("write", "sales.copies", "-", "--format", form, given=read.stdout)

    assert (read.returncode, read.stderr, written.returncode, written.stderr) == (0, b"", 0, b"")
    assert shell("read", "sales.copies", "--json").out == shell("read", orders, "--json").out


@pytest.mark.long
def test_packed_text_and_arrow_files_come_through_a_pipe_too(shell, orders, home):
    packed = gzip.compress(b"dt;id;status\n2013-02-01;7;NA\n")
    assert (
        run("write", orders, "-", "--format", "csv", "--delimiter", ";", "--null", "NA", given=packed).returncode == 0
    )
    assert shell("read", orders, "-o", "rows.arrow").code == 0

    written = run("write", orders, "-", "--format", "arrow", "--json", given=(home / "rows.arrow").read_bytes())

    assert json.loads(written.stdout)["rows_added"] == 3


@pytest.mark.parametrize("form", [pytest.param("parquet", marks=pytest.mark.long), *FORMS[1:]])
def test_whoever_has_seen_enough_ends_the_program_quietly(shell, orders, home, form):
    pq.write_table(
        pa.table({"dt": pa.array(["2013-01-01"] * 200_000).cast(pa.date32()), "id": range(200_000)}),
        home / "many.parquet",
    )
    assert shell("write", orders, "many.parquet").code == 0

    command = f"{PROGRAM[0]} -c '{PROGRAM[2]}' read {orders} --format {form}; echo $? >&2"
    done = subprocess.run(f"({command}) | head -c 100 | wc -c", shell=True, capture_output=True, text=True, check=False)

    assert (done.stdout.strip(), done.stderr) == ("100", "0\n")


def on_terminal(*words: str, home) -> tuple[int, str, str]:
    """Return exit code, what the terminal shows of standard output, and of standard error."""
    ends = [pty.openpty() for _ in range(2)]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
    with subprocess.Popen(
        [*PROGRAM, *words], stdout=ends[0][1], stderr=ends[1][1], stdin=subprocess.DEVNULL, env=environment, cwd=home
    ) as process:
        for _, theirs in ends:
            os.close(theirs)
        shown = [read_all(ours) for ours, _ in ends]
    return process.returncode, *shown


def read_all(end: int) -> str:
    found = bytearray()
    while True:
        try:
            some = os.read(end, 65_536)
        except OSError:
            # How Linux says that nobody holds the other end.
            some = b""
        if not some:
            os.close(end)
            return found.decode()
        found += some


def test_on_a_terminal_rows_are_cut_and_that_is_said(shell, orders, home):
    (home / "more.csv").write_text("dt,id\n" + "".join(f"2013-01-03,{i}\n" for i in range(150)))
    shell("write", orders, "more.csv")

    code, out, err = on_terminal("read", orders, home=home)

    assert (code, len(out.splitlines())) == (0, 101)
    assert err.splitlines() == ["These are the first 100 rows; --limit N shows more, -o FILE and a pipe take all."]


def test_a_write_shows_how_far_it_is_on_a_terminal_alone(shell, orders, home):
    table = pa.table({"dt": pa.array(["2013-01-01"] * 100_000).cast(pa.date32()), "id": range(100_000)})
    pq.write_table(table, home / "many.parquet")

    code, _, err = on_terminal("write", orders, "many.parquet", home=home)
    assert code == 0
    assert "sales.orders: " in err
    assert "of 100,000 rows" in err

    code, out, err = on_terminal("write", orders, "many.parquet", "--json", home=home)
    assert (code, err) == (0, "")
    assert json.loads(out)["rows_added"] == 100_000
    assert run("write", orders, "many.parquet").stderr == b""
