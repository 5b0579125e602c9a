"""What holds for every verb: help, exit codes, one line per mistake, and streams that someone closed."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from itertools import count
from threading import Thread

import pyarrow.parquet as pq
import pytest

from lakehouse_core.cli.program import cli

VERBS = [
    *("tables", "describe", "create", "alter", "rename", "copy", "drop"),
    *("write", "read", "count", "lookup", "changes", "diff", "sql"),
    *("delete", "update", "truncate", "drop-partitions", "expire-partitions"),
    *("snapshots", "partitions", "files", "manifests", "tags", "branches", "schemas", "trace", "report", "fleet"),
    *("compact", "compact-manifests", "rescale", "rewrite-file-index", "expire", "tag", "branch", "rollback"),
    *("orphans", "pending", "verify", "completion"),
]
PROGRAM = [sys.executable, "-c", "from lakehouse_core.cli import main; main()"]


def test_without_a_verb_the_help_is_shown_as_it_is_laid_out(shell):
    answer = shell()

    assert answer.code == 2
    assert answer.err.startswith("Usage: lakehouse")
    assert re.findall(r"^  (\S+)", answer.err.split("Commands:\n")[1].split("Example:")[0], re.MULTILINE) == VERBS


def test_a_group_of_verbs_shows_its_help_too(shell):
    answer = shell("tag")

    assert answer.code == 2
    assert answer.err.startswith("Usage: lakehouse tag")


def test_every_verb_is_listed_with_a_sentence_that_is_not_cut(shell):
    answer = shell("--help")

    assert answer.code == 0
    assert "..." not in answer.out.split("Commands:\n")[1]


GROUPS = {
    "fleet": ["plan", "run"],
    "tag": ["create", "replace", "rename", "delete", "expire", "list"],
    "branch": ["create", "rename", "delete", "forward", "list"],
    "pending": ["list", "forget"],
    "alter": [
        *("add-column", "drop-column", "rename-column", "move-column", "change-type", "set-not-null", "drop-not-null"),
        *("set-default", "drop-default", "comment", "set", "unset"),
    ],
}


@pytest.mark.parametrize("group", GROUPS)
def test_the_help_of_a_group_lists_its_verbs(shell, group):
    listed = shell(group, "--help").out.split("Commands:\n")[1].split("Example:")[0]

    assert re.findall(r"^  (\S+)", listed, re.MULTILINE) == sorted(GROUPS[group])


@pytest.mark.parametrize(
    "words",
    [
        *([verb] for verb in VERBS if verb not in GROUPS),
        *([group, verb] for group, verbs in GROUPS.items() for verb in verbs),
    ],
)
def test_the_help_of_every_verb_ends_with_an_example_that_parses(shell, words):
    answer = shell(*([words[0], "a.b", *words[1:]] if words[0] == "alter" else words), "--help")

    assert answer.code == 0
    assert max(map(len, answer.lines)) <= 100
    example = answer.out.split("Example:\n")[1].strip()
    named = ["alter sales.orders", *words[1:]] if words[0] == "alter" else words
    assert re.match(rf"(eval \"\$\()?lakehouse (-w|{' '.join(named)})", example)
    group, rest = cli, example.split("\n")[0].split("  #")[0].replace("'", "").split()[1:]
    while rest[0] == "-w":
        rest = rest[2:]
    for word in words:
        group = group.get_command(None, word)
    assert {part.split("=")[0] for part in rest if part.startswith("--")} <= {
        name for parameter in group.params for name in parameter.opts
    }


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["xyzzy"], 2, "No such command 'xyzzy'. Try 'lakehouse --help'."),
        (["wrte"], 2, "No such command 'wrte'. Did you mean 'write'? Try 'lakehouse --help'."),
        (["tables", "-w", "lake"], 2, "-w comes before the verb, as in 'lakehouse -w lake tables'."),
        (["tag", "crate", "t"], 2, "Did you mean 'create'? Try 'lakehouse tag --help'."),
        (["verify"], 2, "Missing argument 'TABLE'. Try 'lakehouse verify --help'."),
        (["verify", "a.b", "c"], 2, "unexpected extra argument (c)"),
        (["read", "sales.orders", "--nope"], 2, "No such option '--nope'"),
        (["read", "sales.orders", "--snapshot", "x"], 2, "'x' is not a valid integer"),
        (
            ["read", "sales.orders", "--snapshot", "9"],
            2,
            "sales.orders: Snapshot 9 does not exist yet: the latest is 1.",
        ),
        (["read", "sales.orders", "--as-of", "yesterday"], 2, "Time 'yesterday': expected ISO 8601"),
        (
            ["read", "sales.orders", "--snapshot", "1", "--tag", "x"],
            2,
            "Give only one of --snapshot, --tag and --as-of.",
        ),
        (["read", "sales.order"], 2, "Table 'sales.order' does not exist. Did you mean orders?"),
        (["read", "sales.orders", "--where", "id >"], 2, "is not SQL at character 4"),
        (["read", "sales.orders", "-o", "rows.txt"], 2, "rows.txt: expected a name that ends with one of .parquet"),
        (["-w", "gs://bucket/wh", "tables"], 6, "stores of gs: are not supported yet"),
        (
            ["-w", "", "tables"],
            2,
            "No warehouse is given. Pass -w WAREHOUSE before the verb, or set LAKEHOUSE_WAREHOUSE.",
        ),
        (["compact", "sales.orders", "--partition-idle", "5"], 2, "--partition-idle is '5': expected a unit"),
        (["compact", "sales.x*"], 2, "No table matches 'x*' in sales. There are: orders."),
        (["tables", "x.*"], 2, "No database matches 'x'"),
        (["create", "sales.orders", "--schema", "orders.yaml"], 2, "exists already. Pass --exist-ok to accept that."),
        (["create", "sales.x", "--schema", "no.yaml"], 2, "no.yaml: cannot be read (No such file or directory)."),
        (["completion"], 2, "Missing argument '{bash|zsh|fish}'. Choose from: bash, zsh, fish. Try"),
        (["fleet", "run", "--plan", "no.json"], 2, "no.json: cannot be read (No such file or directory). Name a file"),
        (["sql", "SELECT :a"], 2, "parameter :a has no value. Pass it: --parameter a=…."),
        (["sql", "-f", "no.sql"], 2, "no.sql: cannot be read (No such file or directory). Name a file of statements."),
        (
            ["expire", "sales.orders", "--older-than", "5"],
            2,
            "--older-than is '5': expected a unit. Write it, as in 5 min",
        ),
        (
            ["read", "sales.orders", "--as-of", "9999999999999999"],
            2,
            "Time '9999999999999999': it lies beyond year 9999.",
        ),
        (["expire", "sales.orders", "--older-than", "99999999999d"], 2, "'99999999999d': expected at most 999999999 d"),
        (["tag", "create", "sales.orders", "x", "--retention", "99999999999d"], 2, "expected at most 999999999 d"),
        (["read", "sales.orders", "--where", "(" * 3000 + "id = 1" + ")" * 3000], 2, "))' is nested too deeply"),
        (["expire", "sales.orders", "--older-than", "soon"], 2, "--older-than is 'soon': expected a duration"),
        (["expire", "sales.orders", "--retain-max", "1", "--retain-min", "9"], 2, "At least 9 and at most 1"),
        (["compact", "sales.orders", "--full", "--partition", "dt"], 2, "expected column=value, as in dt=2013-01-01"),
        (
            ["compact", "sales.orders", "--full", "--partition", "dt=2013-01-01", "--partition", "dt=2013-01-02"],
            2,
            "column dt is given twice",
        ),
    ],
)
def test_a_mistake_is_one_line_and_an_exit_code(shell, orders, words, code, message):
    answer = shell(*words)

    assert answer.code == code
    assert answer.out == ""
    assert answer.err.startswith("lakehouse: ")
    assert answer.err.count("\n") == 1
    assert message in answer.err


@pytest.mark.damage
def test_a_corrupt_table_is_exit_code_5(shell, orders, home):
    snapshot = home / "wh/sales.db/orders/snapshot/snapshot-1"
    snapshot.write_bytes(snapshot.read_bytes()[:100])

    answer = shell("read", orders)

    assert answer.code == 5
    assert "snapshot-1" in answer.err


@pytest.mark.damage
def test_verify_that_finds_something_is_exit_code_1(shell, orders, home):
    next((home / "wh").rglob("data-*.parquet")).unlink()

    answer = shell("verify", orders)

    assert answer.code == 1
    assert "data-" in answer.out


@pytest.mark.damage
def test_verify_looks_into_the_files_where_that_is_asked_for(shell, orders, home):
    file = next((home / "wh").rglob("data-*.parquet"))
    with pq.ParquetFile(file) as parquet:
        end = parquet.metadata.row_group(0).column(0).total_compressed_size + 4
    data = bytearray(file.read_bytes())
    data[end - 1] ^= 1
    file.write_bytes(data)

    assert shell("verify", orders).code == 0
    answer = shell("verify", orders, "--data")
    assert answer.code == 1
    assert file.name in answer.out


@pytest.fixture
def many(shell, orders, home):
    """So many rows that no pipe holds them."""
    (home / "many.csv").write_text("dt,id\n" + "".join(f"2013-01-01,{i}\n" for i in range(30_000)))
    assert shell("write", orders, "many.csv").code == 0
    return orders


@pytest.mark.program
@pytest.mark.parametrize("words", [["--json"], pytest.param(["--limit", "30000"], marks=pytest.mark.long)])
def test_a_reader_that_has_seen_enough_is_no_failure(many, words):
    with subprocess.Popen(
        [*PROGRAM, "read", many, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()

    assert process.returncode == 0
    assert said == ""


@pytest.mark.parametrize(
    "verb",
    [
        "--help",
        pytest.param("tables", marks=pytest.mark.long),
        pytest.param("verify sales.orders", marks=pytest.mark.long),
        pytest.param("snapshots sales.orders --json", marks=pytest.mark.long),
    ],
)
def test_a_pipe_that_nobody_reads_is_no_failure(orders, verb):
    done = _with_stdout(f"{verb}", _closed_pipe())

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "verb",
    [
        pytest.param("tables", marks=pytest.mark.long),
        pytest.param("snapshots sales.orders", marks=pytest.mark.long),
        pytest.param("read sales.orders --json", marks=pytest.mark.long),
        "read sales.orders",
    ],
)
def test_an_output_that_takes_nothing_is_told_in_one_line(orders, verb):
    with open("/dev/full", "w") as full:
        done = _with_stdout(verb, full.fileno())

    assert done.returncode == 4
    assert done.stderr == "lakehouse: standard output: No space left on device\n"


@pytest.mark.program
@pytest.mark.parametrize(
    "closed", [">&-", *(pytest.param(each, marks=pytest.mark.long) for each in ("2>&-", ">&- 2>&-")), "<&-"]
)
def test_closed_streams_change_nothing(orders, closed):
    command = f"{sys.executable} -c 'from lakehouse_core.cli import main; main()' read {orders} --limit 1 {closed}"

    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)

    assert done.returncode == 0
    assert done.stderr == ""


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_write_that_is_stopped_leaves_the_table_whole(shell, orders, sent, code):
    # Whoever runs the tests in the background may have had SIGINT ignored, which children inherit.
    heeding = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    ready = f"{heeding}; from lakehouse_core.cli import main; print('ready', flush=True)"
    started = [*PROGRAM[:2], f"{ready}; {PROGRAM[2]}"]
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*started, "write", orders, "-", "--format", "csv"], **streams) as process:
        process.stdout.readline()
        # The input has no end, so the write is at work whenever the signal comes.
        rows = Thread(target=_write_until_closed, args=(process.stdin,))
        rows.start()
        time.sleep(0.5)
        process.send_signal(sent)
        said = process.stderr.read()
        rows.join()

    assert process.returncode == code
    assert said == ("lakehouse: interrupted\n" if sent == signal.SIGINT else "")
    assert shell("verify", orders).code == 0
    assert len(shell("read", orders, "--json").lines) == 2
    assert shell("write", orders, "orders.csv").code == 0


def _write_until_closed(stream):
    with suppress(BrokenPipeError):
        stream.write("dt,id\n")
        for number in count():
            stream.write(f"2013-01-01,{number}\n")
    with suppress(BrokenPipeError):
        stream.close()


def _closed_pipe() -> int:
    reader, writer = os.pipe()
    os.close(reader)
    return writer


def _with_stdout(words: str, stdout: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAM, *words.split()], stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)
