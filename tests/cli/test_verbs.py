"""The verbs about tables and their upkeep: what they print for people, and the JSON for programs."""

import json
import os
import sys
from dataclasses import replace
from datetime import date
from io import StringIO

import pytest

import lakehouse_core as lc
from lakehouse_core.cli.program import run


def test_tables_are_listed_and_described(shell, orders):
    assert shell("tables").out == "sales.orders\n"
    assert shell("tables", "--json").out == '{"table":"sales.orders"}\n'

    answer = shell("describe", orders)

    assert "primary key: dt, id" in answer.out
    assert "  changelog-producer = input" in answer.out
    assert json.loads(shell("describe", orders, "--json").out)["records"] == 2


@pytest.mark.parametrize("verb", ["describe", "snapshots", "files", "manifests", "tags", "schemas", "read"])
def test_no_line_ends_with_blanks(shell, orders, verb):
    shell("tag", "create", orders, "eod", "--retention", "30d")

    for line in shell(verb, orders).lines:
        assert line == line.rstrip()


def test_an_empty_warehouse_says_so(shell, home):
    (home / "wh").mkdir()

    answer = shell("tables")

    assert (answer.code, answer.out) == (0, "")
    assert answer.err.endswith("/wh has no tables.\n")


def test_the_folder_of_a_database_is_no_warehouse(shell, orders, home):
    answer = shell("-w", str(home / "wh" / "sales.db"), "tables")

    assert "/sales.db has no tables. It looks like the folder of a database: the warehouse is file:" in answer.err


@pytest.mark.parametrize(
    "words",
    [
        "tables",
        "describe a.b",
        "read a.b",
        "snapshots a.b",
        "write a.b orders.csv",
        "compact a.*",
        "verify a.b",
        "drop a.b --yes",
    ],
)
def test_a_warehouse_that_is_not_there_is_told_and_not_made(shell, home, words):
    (home / "orders.csv").write_text("id\n1\n")

    answer = shell(*words.split())

    assert (answer.code, answer.out) == (2, "")
    assert answer.err == (
        f"lakehouse: Warehouse {home}/wh does not exist. Check -w and LAKEHOUSE_WAREHOUSE; create makes it with its "
        "first table, and so does CREATE DATABASE in sql.\n"
    )
    assert not (home / "wh").exists()


def test_a_warehouse_may_lie_in_the_home_folder(shell, home, monkeypatch):
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("LAKEHOUSE_WAREHOUSE", "~/in/there")

    assert shell("create", "d.t", "--schema", "orders.yaml").code == 0

    assert (home / "in" / "there" / "d.db" / "t" / "schema" / "schema-0").exists()
    assert "user '~nobody-at-all' does not exist" in shell("-w", "~nobody-at-all/x", "tables").err


def test_an_existing_table_that_is_accepted_is_not_said_to_be_new(shell, orders):
    answer = shell("create", orders, "--schema", "orders.yaml", "--exist-ok")

    assert answer.code == 0
    assert answer.out.startswith("sales.orders: exists already at ")


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ("columns: {a: NUMBER}", "bad.yaml: column 'a': 'NUMBER' is not a data type"),
        ("columns: {a: INT}\nprimary_key: [b]", "The primary key names column 'b', which the table does not have"),
        ("columns: {a: INT}\noptions: {buckets: 1}", "Option buckets is not known: did you mean bucket?"),
        ("columns: {a: INT}\noptions: [1]", "bad.yaml: options is [1], expected a mapping"),
        ("columns: {a: INT, a: INT}", "bad.yaml: found 'a' twice"),
        ("columns: [a]", "bad.yaml: expected a mapping with columns"),
        ("columns: {a: 5}", "bad.yaml: column 'a' is 5, expected a SQL type."),
        (
            "columns: {a: {type: INT, coment: x}}",
            "bad.yaml: column 'a': 'coment' is not a key of a column. Use type, comment",
        ),
        (
            "columns: {a: INT}\nprimary_keys: [a]",
            "bad.yaml: 'primary_keys' is not a key of a table. Did you mean primary_key?",
        ),
        (
            "columns: {a: NUMBER, b: INT}\ncoment: x\noptions: [1]",
            "bad.yaml: 'coment' is not a key of a table. Did you mean comment?\n"
            "lakehouse: bad.yaml: options is [1], expected a mapping, as in `options: {bucket: 4}`.\n"
            "lakehouse: bad.yaml: column 'a': 'NUMBER' is not a data type",
        ),
        ("columns: {a: INT", "bad.yaml: line 1: expected YAML (expected ',' or '}', but got '<stream end>')."),
        ("columns: {a: INT}\ncomment: 2013-13-01", "bad.yaml: expected YAML (month must be in 1..12)."),
    ],
)
def test_a_table_that_cannot_be_made_leaves_no_database_behind(shell, home, declared, message):
    (home / "bad.yaml").write_text(declared)

    answer = shell("create", "fresh.t", "--schema", "bad.yaml")

    assert answer.code == 2
    assert answer.err.count("\n") == message.count("\n") + 1
    assert message in answer.err
    assert not (home / "wh").exists()


@pytest.mark.parametrize("name", ["fresh", "fresh.a b", "../x.t", "fresh.t$files", "sys.t"])
def test_a_name_that_is_refused_leaves_no_database_behind(shell, home, name):
    answer = shell("create", name, "--schema", "orders.yaml")

    assert answer.code == 2
    assert not (home / "wh").exists()


def test_a_dropped_table_is_gone(shell, orders, home):
    assert shell("drop", orders, "--yes").out == "sales.orders: dropped\n"

    assert shell("tables").out == ""
    assert shell("drop", orders, "--yes").code == 2


class Terminal(StringIO):
    """Somebody who types."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("typed", "dropped"), [("y\n", True), ("yes\n", True), ("n\n", False), ("\n", False)])
def test_who_drops_a_table_by_hand_is_asked(shell, orders, monkeypatch, typed, dropped):
    monkeypatch.setattr(sys, "stdin", Terminal(typed))

    answer = shell("drop", orders)

    assert "Drop sales.orders with all its files, snapshots and tags, for good? [y/N]" in answer.err
    assert answer.code == (0 if dropped else 2)
    assert answer.out == ("sales.orders: dropped\n" if dropped else "")
    assert answer.err.endswith("lakehouse: sales.orders: not dropped\n") is not dropped
    assert shell("tables").out == ("" if dropped else "sales.orders\n")


@pytest.mark.parametrize("standard_input", [StringIO("y\n"), None], ids=["a pipe", "none"])
def test_where_nobody_can_be_asked_a_table_is_dropped_with_yes_alone(shell, orders, monkeypatch, standard_input):
    monkeypatch.setattr(sys, "stdin", standard_input)

    answer = shell("drop", orders)

    assert answer.code == 2
    assert answer.err == (
        "lakehouse: sales.orders: drop deletes all its files, snapshots and tags. Pass --yes to confirm.\n"
    )
    assert shell("tables").out == "sales.orders\n"


def test_a_table_that_is_not_there_is_told_before_anything_is_asked(shell, orders, monkeypatch):
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))

    answer = shell("drop", "sales.order")

    assert answer.code == 2
    assert "Did you mean orders?" in answer.err
    assert "for good?" not in answer.err


def test_describe_shows_what_a_table_and_its_columns_are_about(shell, home):
    (home / "things.yaml").write_text(
        "columns:\n  id: {type: INT NOT NULL, comment: its number}\n  n: {type: INT, description: how many}\n"
        "primary_key: [id]\noptions: {bucket: 1}\ncomment: One row per thing.\n"
    )
    shell("create", "a.things", "--schema", "things.yaml")

    shown = shell("describe", "a.things")

    assert "comment: One row per thing." in shown.lines
    assert [line.split()[-2:] for line in shown.lines[-2:]] == [["its", "number"], ["how", "many"]]
    (document,) = (json.loads(line) for line in shell("describe", "a.things", "--json").lines)
    assert document["comment"] == "One row per thing."
    assert [column["comment"] for column in document["columns"]] == ["its number", "how many"]


def test_records_are_tables_for_people_and_lines_of_json_for_programs(shell, orders):
    shell("tag", "create", orders, "eod", "--retention", "30d")

    assert shell("snapshots", orders).lines[0].split()[:3] == ["id", "commit_kind", "time"]
    assert shell("tags", orders).lines[1].endswith("30 days")
    for verb, count in {"snapshots": 1, "files": 2, "manifests": 1, "tags": 1, "schemas": 1}.items():
        assert len([json.loads(line) for line in shell(verb, orders, "--json").lines]) == count


def test_the_columns_of_a_schema_are_readable_and_json_all_the_way_down(shell, orders):
    assert "dt DATE NOT NULL, id BIGINT NOT NULL, status STRING, amount DECIMAL(12, 2)" in shell("schemas", orders).out

    (schema,) = [json.loads(line) for line in shell("schemas", orders, "--json").lines]

    assert schema["fields"][0] == {"id": 0, "name": "dt", "type": "DATE NOT NULL"}


def test_a_report_says_each_thing_once(shell, orders):
    lines = shell("write", orders, "orders.csv").lines

    assert lines[0] == "sales.orders: snapshot 2 (APPEND)"
    assert "  rows added: 2" in lines
    assert not [line for line in lines if "commit identifier" in line or "snapshot ids" in line]


def test_expiry_says_why_nothing_went_once(shell, orders):
    lines = shell("expire", orders).lines

    assert lines[0] == "sales.orders: nothing done: snapshot 1, the only one, stays: at least 10 are to be retained"
    assert not [line for line in lines if line.startswith("  reason")]


def test_maintenance_runs_after_a_dry_run_that_changed_nothing(shell, orders):
    for _ in range(3):
        shell("write", orders, "orders.csv")
    for words in (
        ["compact", orders, "--full"],
        ["compact-manifests", orders],
        ["expire", orders, "--retain-max", "1", "--retain-min", "1", "--older-than", "0s"],
    ):
        before = shell("snapshots", orders, "--json").out
        assert shell(*words, "--dry-run").lines[0] == "sales.orders: dry run, nothing changed"
        assert shell("snapshots", orders, "--json").out == before

        assert "nothing done" not in shell(*words).out

    assert len(shell("snapshots", orders, "--json").lines) == 1
    assert shell("verify", orders).lines[0] == "sales.orders: no findings"


def test_the_warehouse_comes_from_the_command_line_too(home, capsys, monkeypatch):
    monkeypatch.delenv("LAKEHOUSE_WAREHOUSE")

    assert run(["-w", str(home / "other"), "create", "d.t", "--schema", "orders.yaml", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["table"] == "d.t"


def test_the_plan_of_a_compaction_names_partitions_as_people_do(shell, orders):
    told = shell("compact", orders, "--full", "--dry-run").out

    assert "partition=dt=2013-01-01, bucket=" in told
    (report,) = map(json.loads, shell("compact", orders, "--full", "--dry-run", "--json").lines)
    assert {bucket["partition"]["dt"] for bucket in report["buckets"]} == {"2013-01-01", "2013-01-02"}
    assert {bucket["bucket"] for bucket in report["buckets"]} <= {0, 1}


def test_the_plan_for_a_table_without_partitions_names_buckets_alone(shell, home):
    (home / "plain.yaml").write_text("columns: {k: INT NOT NULL}\nprimary_key: [k]\noptions: {bucket: 1}\n")
    shell("create", "sales.plain", "--schema", "plain.yaml")
    (home / "plain.csv").write_text("k\n1\n")
    shell("write", "sales.plain", "plain.csv")

    assert "buckets: bucket=0, files=1, " in shell("compact", "sales.plain", "--full", "--dry-run").out


def test_many_tables_are_compacted_at_once_and_one_that_fails_stops_no_other(shell, orders, home):
    for name in ("a", "b"):
        shell("create", f"sales.{name}", "--schema", "orders.yaml")
        shell("write", f"sales.{name}", "orders.csv")
    (schema,) = (home / "wh" / "sales.db" / "a" / "schema").glob("schema-0")
    schema.write_text("{")

    answer = shell("compact", "sales.?", "--full")

    assert answer.code == 5
    assert answer.err.startswith("lakehouse: sales.a: ")
    assert answer.lines[0] == "sales.a: failed, exit code 5"
    assert [line for line in answer.lines if line.startswith("sales.b: snapshot 2 (COMPACT)")]
    assert not [line for line in answer.lines if line.startswith("sales.orders")]

    (broken, done) = (json.loads(line) for line in shell("compact", "sales.?", "--json").lines)
    assert (broken["table"], broken["exit_code"]) == ("sales.a", 5)
    assert "schema-0" in broken["error"]
    assert (done["error"], done["noop_reason"][:12]) == (None, "the strategy")
    (home / "wh" / "sales.db" / "a").rename(home / "broken")


def test_partitions_in_use_are_left_alone(shell, orders):
    shell("write", orders, "orders.csv")

    answer = shell("compact", orders, "--full", "--partition-idle", "1h")

    assert answer.lines[0] == "sales.orders: nothing done: every partition had a new file within the idle time"


def test_a_rollback_is_traced_to_what_it_brought_back(shell, orders):
    shell("write", orders, "orders.csv", "--overwrite")
    for _ in range(2):
        shell("rollback", orders, "--to", "1")
        shell("write", orders, "orders.csv")

    (first, *_) = shell("trace", f"{orders}@3").lines
    removed = shell("trace", f"{orders}@5").lines

    assert first == "sales.orders: snapshot 3, a rollback to snapshot 1: rows of snapshot 1"
    assert removed == ["sales.orders: snapshot 5, a rollback to snapshot 1: it made no file, and brought none back"]


def test_a_file_a_snapshot_and_a_run_are_traced(shell, orders, home):
    table = lc.connect(home / "wh").table(orders)
    row = {"dt": date(2013, 1, 1), "id": 1, "status": "paid", "amount": None}
    table.write([row], properties={lc.RUN_ID: "0a1b2c3d-4e5f"})
    table.compact(full=True, properties={lc.RUN_ID: "8c9d0e1f-2a3b"})
    (file,) = (file for file in table.files(lineage=True) if "0a1b2c3d-4e5f" in file.source_run_ids)

    answer = shell("trace", f"{home}/wh/sales.db/orders/{file.path}")

    assert answer.lines[:2] == [f"sales.orders: {file.file_name}: rows of snapshots 1, 2", "  runs: 0a1b2c3d-4e5f"]
    assert [line.split()[1] for line in answer.lines[3:]] == ["3", "2", "1"]
    assert shell("trace", "8c9d0e1f").lines[0] == "sales.orders: 1 snapshot by 8c9d0e1f-2a3b"
    traced = [json.loads(line) for line in shell("trace", "sales.orders@2", "--json").lines]
    assert [(each["table"], each["run_id"], each["inputs"]) for each in traced] == [
        ("sales.orders", "0a1b2c3d-4e5f", [])
    ]
    (found,) = shell("trace", "0a1b2c3d-4e5f", "--table", orders, "--json").lines
    assert (json.loads(found)["id"], json.loads(found)["table"]) == (2, "sales.orders")

    shell("expire", orders, "--retain-max", "1", "--retain-min", "1")

    assert shell("trace", file.file_name).lines[:2] == [
        f"sales.orders: {file.file_name}: rows of no known snapshot",
        "  the trail ends at 2 files made by an expired snapshot; the earliest retained one is 3",
    ]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ("x.parquet", 2, "'x.parquet': no known snapshot of 1 table has this file. Check the name and --table."),
        (
            "0123abcd",
            2,
            "'0123abcd': no known snapshot of 1 table was made by this run. It made none, or they expired.",
        ),
        ("0123abc", 2, "expected the id of a run, or at least its first 8 characters"),
        ("12", 2, "'12': expected a snapshot with its table, as in sales.orders@12."),
        ("sales.orders@9", 2, "sales.orders: Snapshot 9 does not exist yet: the latest is 1."),
        ("sales.nothing@9", 2, "sales.nothing"),
        ("0123abcd --table sales.none", 2, "sales.none"),
    ],
)
def test_what_cannot_be_traced_is_said_in_a_line(shell, orders, words, code, told):
    answer = shell("trace", *words.split())

    assert (answer.code, answer.out) == (code, "")
    assert told in answer.err
    assert answer.err.count("\n") == 1


def test_the_plan_of_a_fleet_is_printed_and_written_as_a_page_or_json(shell, orders, home):
    for name in ("more", "most"):
        (home / f"{name}.csv").write_text("dt,id,status\n2013-01-01,1,old\n")
        shell("write", orders, f"{name}.csv")

    answer = shell("fleet", "plan", "--budget", "1gb", "--reads", f"{orders}=1000000", "-o", "plan.html")

    assert (answer.code, answer.err) == (0, "plan.html: 2 operations\n")
    assert "2 operations on 1 table with 4 files" in answer.lines[0]
    assert "sales.orders: compact --full dt=2013-01-01: full compaction in 1 of 1 bucket: rewrites" in answer.out
    assert f"  not {orders}: expire: snapshots 1 to 3 stay: at least 10 are to be retained" in answer.lines
    assert "<h1>Maintenance of 1 table</h1>" in (home / "plan.html").read_text()
    document = json.loads(shell("fleet", "plan", "sales.*", "--time", "2h", "--operation", "expire", "--json").out)
    assert (document["budget"]["seconds"], document["choices"]) == (7200.0, [])
    assert [refusal["operation"] for refusal in document["refusals"]] == ["expire"]
    lc.connect(home / "other").create_database("d")
    assert shell("fleet", "plan", "--also", str(home / "other"), "--requests", "10", "--only-urgent").code == 0
    twice = shell("fleet", "plan", "--also", str(home / "wh"), "--requests", "10")
    assert (twice.code, "is given twice" in twice.err) == (2, True)


def test_a_plan_is_carried_out_from_its_file_or_at_once(shell, orders, home):
    for name in ("more", "most"):
        (home / f"{name}.csv").write_text("dt,id,status\n2013-01-01,1,old\n")
        shell("write", orders, f"{name}.csv")
    read = ("--reads", f"{orders}=1000000", "--budget", "1gb")
    (home / "plan.json").write_text(shell("fleet", "plan", *read, "--json").out)

    answer = shell("fleet", "run", "--plan", "plan.json")

    assert (answer.code, answer.err) == (0, "")
    assert answer.lines[0].startswith("2 of 2 operations done: ")
    assert answer.lines[1].startswith("  sales.orders: compact --full dt=2013-01-01: snapshot 4 (COMPACT), ")
    # A compaction more is a manifest more.
    done = json.loads(shell("fleet", "run", *read, "--json").out)
    assert [outcome["operation"] for outcome in done["outcomes"]] in ([], ["compact_manifests"])
    assert shell("drop", orders, "--yes").code == 0
    answer = shell("fleet", "run", "--plan", "plan.json")
    assert ("skipped: " in answer.out, answer.code) == (True, 3)


def test_a_plan_and_its_run_are_written_as_a_page_or_as_json(shell, orders, home):
    for name in ("more", "most"):
        (home / f"{name}.csv").write_text("dt,id,status\n2013-01-01,1,old\n")
        shell("write", orders, f"{name}.csv")
    read = ("--reads", f"{orders}=1000000", "--budget", "1gb")

    assert shell("fleet", "plan", *read, "-o", "plan.json").err == "plan.json: 2 operations\n"
    answer = shell("fleet", "run", "--plan", "plan.json", "-o", "done.html")

    assert (answer.code, answer.err) == (0, "")
    page = (home / "done.html").read_text()
    assert "<th>outcome</th>" in page
    assert "snapshot 4 (COMPACT), " in page
    again = shell("fleet", "run", "--plan", "plan.json", "-o", "again.json")
    (report,) = json.loads((home / "again.json").read_text())["reports"]
    assert "counts as spent" in report["outcomes"][0]["skipped"]
    assert "counts as spent" in again.out
    assert json.loads(shell("fleet", "run", *read, "-o", "json").out)["warehouse"].endswith("/wh")
    assert json.loads(shell("fleet", "plan", *read, "-o", "json").out)["budget"]["bytes"] == 1 << 30


def test_a_run_whose_page_cannot_be_written_is_refused_before_it_or_told_after_it(shell, orders, home):
    words = ("--requests", "100", "--reads", f"{orders}=1000000")

    refused = shell("fleet", "run", *words, "-o", "no/such/done.html")

    assert (refused.code, refused.out) == (2, "")
    assert "no/such/done.html: cannot be written (its folder does not exist)" in refused.err
    assert shell("fleet", "run", *words, "-o", str(home)).err.endswith("Name a file in a folder that exists.\n")
    (home / "locked.html").symlink_to(home / "gone" / "page.html")
    told = shell("fleet", "run", *words, "-o", "locked.html")
    assert (told.code, "operations done: " in told.out) == (2, True)
    assert "locked.html: cannot be written (No such file or directory)" in told.err


@pytest.mark.parametrize(("budget", "is_left"), [({}, False), ({"bytes": 1}, True), ({"requests": 0}, True)])
def test_a_run_that_leaves_some_of_its_plan_ends_with_the_code_to_try_again(shell, orders, home, budget, is_left):
    for name in ("more", "most"):
        (home / f"{name}.csv").write_text("dt,id,status\n2013-01-01,1,old\n")
        shell("write", orders, f"{name}.csv")
    words = ("--reads", f"{orders}=1000000", "--budget", "1gb", "--operation", "compact-full")
    document = json.loads(shell("fleet", "plan", *words, "--json").out)
    document["budget"] |= budget
    (home / "plan.json").write_text(json.dumps(document))

    answer = shell("fleet", "run", "--plan", "plan.json", "--json")

    told = json.loads(answer.out)["outcomes"]
    assert ([each["is_left"] for each in told], answer.code) == ([is_left], 3 if is_left else 0)
    # What was done since the plan is not left.
    assert is_left or shell("fleet", "run", "--plan", "plan.json").code == 0


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ("--plan plan.json --budget 1gb", 2, "the plan has its tables and its budget. Leave the others out"),
        ("--plan plan.json --requests 0", 2, "the plan has its tables and its budget. Leave the others out"),
        ("--plan none.json", 2, "none.json: cannot be read"),
        ("--plan orders.yaml", 2, "expected a plan as to_json returns it"),
        ("", 2, "No budget is given"),
    ],
)
def test_a_plan_that_cannot_be_carried_out_is_refused_in_a_line(shell, orders, words, code, told):
    answer = shell("fleet", "run", *words.split())

    assert (answer.code, answer.out) == (code, "")
    assert told in answer.err
    assert answer.err.count("\n") == 1


@pytest.mark.damage
def test_a_run_of_a_plan_ends_with_the_most_severe_code(shell, orders, home):
    for name in ("more", "most"):
        (home / f"{name}.csv").write_text("dt,id,status\n2013-01-01,1,old\n")
        shell("write", orders, f"{name}.csv")
    (home / "plan.json").write_text(
        shell("fleet", "plan", "--reads", f"{orders}=1000000", "--budget", "1gb", "--json").out
    )
    files = lc.connect(home / "wh").table(orders).files()
    first = next(file.path for file in files if file.partition == {"dt": "2013-01-01"})
    (home / "wh" / "sales.db" / "orders" / first).write_bytes(b"PAR1")

    answer = shell("fleet", "run", "--plan", "plan.json")

    assert answer.code == 5
    assert "1 of 2 operations done, 1 failed" in answer.out
    assert answer.err.startswith("lakehouse: ")


def test_a_lake_that_is_gone_stops_no_other_and_a_plan_of_other_lakes_is_refused(shell, orders, home):
    other = lc.connect(home / "other")
    other.create_database("d")
    table = other.create_table("d.t", {"id": "INT NOT NULL"}, primary_keys=["id"], options={"bucket": "1"})
    for number in range(6):
        table.write([{"id": number}])
    made = lc.connect(home / "wh").plan_maintenance(
        budget=lc.Budget(bytes=10**9), reads={"d.t": 1e6}, operations=["compact_full", "expire"], also=[other]
    )
    gone = replace(made, warehouses=(str(home / "gone"), *made.warehouses))
    (home / "plan.json").write_text(gone.to_json())
    (home / "others.json").write_text(replace(made, warehouses=(other.uri,)).to_json())

    answer = shell("fleet", "run", "--plan", "plan.json")

    assert answer.code == 2
    assert "gone" in answer.err
    assert "d.t: compact --full: snapshot 8 (COMPACT)" in answer.out
    refused = shell("fleet", "run", "--plan", "others.json")
    assert (refused.code, refused.out) == (2, "")
    assert "and the warehouse given is" in refused.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("", "No budget is given. Pass --budget, --requests or --time"),
        ("--budget many", "Option --budget is 'many': expected a size such as 128 mb"),
        ("--requests -5", "Budget: requests=-5: expected a whole number of 0 or more"),
        ("--time 5", "Option --time is '5': expected a unit"),
        ("--time 2h --reads sales.orders", "--reads 'sales.orders': expected a table and a number"),
        ("--time 2h --reads sales.none=2", "reads: found 'sales.none', expected names of tables of the plan"),
        ("sales.none --time 2h", "No table matches 'none' in sales."),
        ("--time 2h --also nowhere", "Warehouse"),
        ("--time 2h --operation drop", "'drop' is not one of"),
        ("--time 2h -o no/such/plan.html", "no/such/plan.html: cannot be written"),
    ],
)
def test_a_budget_that_cannot_be_planned_is_refused_in_a_line(shell, orders, words, told):
    answer = shell("fleet", "plan", *words.split())

    assert (answer.code, answer.out) == (2, "")
    assert told in answer.err
    assert answer.err.count("\n") == 1


def test_a_report_of_a_table_or_of_all_is_written_as_a_page(shell, orders, home):
    answer = shell("report", orders, "-o", "orders.html")

    assert (answer.code, answer.out) == (0, "orders.html: 1 table, maintenance due for 0\n")
    assert "<h1>Health of sales.orders</h1>" in (home / "orders.html").read_text()
    assert json.loads(shell("report", "-o", "all.html", "--json").out) == {
        "output": "all.html",
        "tables": 1,
        "tables_due": 0,
    }
    assert shell("report", "-o", "no/such/folder.html").err == (
        "lakehouse: no/such/folder.html: cannot be written (No such file or directory). Name a file in a folder that "
        "exists.\n"
    )
    assert shell("report", "sales.none", "-o", "x.html").code == 2
    assert not (home / "x.html").exists()


def test_files_get_the_indexes_that_options_ask_for(shell, orders):
    before = sorted(shell("read", orders).lines)
    assert shell("rewrite-file-index", orders, "--dry-run").code == 0
    report = json.loads(shell("rewrite-file-index", orders, "--json").out)

    assert (report["files_indexed"], report["snapshot_id"]) == (0, None)
    assert report["noop_reason"] == "every file has the indexes that the options ask for"
    assert sorted(shell("read", orders).lines) == before
    assert shell("rewrite-file-index", orders, "--partition", "nix=1").code == 2


def test_a_table_is_rescaled(shell, orders):
    before = sorted(shell("read", orders).lines)
    assert shell("rescale", orders, "--buckets", "3", "--dry-run").code == 0
    report = json.loads(shell("rescale", orders, "--buckets", "3", "--json").out)

    assert (report["buckets"], report["commit_kind"]) == (3, "OVERWRITE")
    assert sorted(shell("read", orders).lines) == before
    assert shell("rescale", orders, "--buckets", "0").code == 2


def test_orphans_are_planned_and_deleted_when_told_to(shell, orders, home):
    assert "every file is needed" in shell("orphans", orders).out
    left = home / "wh" / "sales.db" / "orders" / "manifest" / "manifest-left"
    left.write_bytes(b"left behind")
    young = json.loads(shell("orphans", orders, "--json").out)
    assert (young["files_removed"], young["files_younger"], young["bytes_younger"]) == (0, 1, 11)
    os.utime(left, (0, 0))

    planned = json.loads(shell("orphans", orders, "--json").out)
    assert (planned["dry_run"], planned["files_deleted"], planned["paths"]) == (
        True,
        {"manifest": 1},
        ["manifest/manifest-left"],
    )
    assert left.exists()
    assert "files removed: 1\n" in shell("orphans", "sales.*", "--older-than", "7d", "--apply").out
    assert not left.exists()
    wrong = shell("orphans", orders, "--older-than", "10min", "--apply")
    assert wrong.code == 2
    assert "--older-than 0:10:00: expected an age of at least 1 hour" in wrong.err


def test_branches_are_created_listed_renamed_and_deleted(shell, orders):
    before = shell("read", orders).lines
    shell("tag", "create", orders, "eod")

    report = json.loads(shell("branch", "create", orders, "trial", "--tag", "eod", "--json").out)

    assert (report["branch"], report["branch_snapshot_id"]) == ("trial", 1)
    assert shell("branch", "list", orders).out == shell("branches", orders).out
    assert shell("read", f"{orders}$branch_trial").lines == before
    shell("branch", "rename", orders, "trial", "tried")
    assert json.loads(shell("branches", orders, "--json").out)["name"] == "tried"
    assert "the table has the files of snapshot 1" in shell("branch", "forward", orders, "tried", "--dry-run").out
    report = json.loads(shell("branch", "forward", orders, "tried", "--json").out)
    assert (report["branch"], report["branch_snapshot_id"]) == ("tried", 1)
    assert shell("branch", "delete", orders, "tried", "--dry-run").code == 0
    assert shell("branch", "delete", orders, "tried").code == 0
    again = shell("branch", "create", orders, "tried")
    assert (again.code, "A name is used once" in again.err) == (2, True)
    assert shell("branch", "delete", orders, "tried").code == 2


def test_tags_are_replaced_renamed_and_expired_and_a_table_is_rolled_back_to_one(shell, orders):
    before = shell("read", orders).lines
    shell("tag", "create", orders, "eod", "--snapshot", "1")
    shell("tag", "replace", orders, "eod")
    shell("tag", "rename", orders, "eod", "noon")
    assert shell("tags", orders).lines[1].startswith("noon")
    shell("truncate", orders)
    assert shell("rollback", orders, "--to", "noon", "--dry-run").code == 0
    assert shell("read", orders).lines != before

    report = json.loads(shell("rollback", orders, "--to", "noon", "--json").out)

    assert (report["commit_kind"], report["rolled_back_to"]) == ("OVERWRITE", 1)
    assert shell("read", orders).lines == before
    wrong = shell("rollback", orders, "--to", "yesterday")
    assert wrong.code == 2
    assert "--to 'yesterday': expected the id of a snapshot, the name of a tag, or a time." in wrong.err
    shell("tag", "expire", orders)
    # The rollback keeps the files that came back by a tag of its own.
    _, of_rollback, noon = shell("tags", orders).lines
    assert (of_rollback.startswith("lakehouse-holds-for-rollback-"), noon.split()[0]) == (True, "noon")


def test_a_table_without_a_key_has_no_row_to_look_up(shell, orders, home):
    (home / "visits.yaml").write_text("columns:\n  page: STRING\n")
    shell("create", "sales.visits", "--schema", "visits.yaml")

    answer = shell("lookup", "sales.visits", "1")

    assert answer.code == 2
    assert "sales.visits: the table has no primary key, so rows cannot be looked up. Read it with lakehouse read" in (
        answer.err
    )
