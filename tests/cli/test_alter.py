"""alter: the words of each step, several steps as one change, and tables that are many."""

import json

import pytest

import lakehouse_core as lc

COLUMNS = "dt DATE NOT NULL, id BIGINT NOT NULL, status STRING, amount DECIMAL(12, 2)"

STEPS = {
    "add-column note STRING": f"{COLUMNS}, note STRING",
    "add-column note STRING --after status": COLUMNS.replace("status STRING", "status STRING, note STRING"),
    "add-column --first note STRING": f"note STRING, {COLUMNS}",
    "add-column --before=amount note STRING": COLUMNS.replace("status STRING", "status STRING, note STRING"),
    "add-column set STRING drop-column set": COLUMNS,
    "drop-column status": COLUMNS.replace(" status STRING,", ""),
    "rename-column status state": COLUMNS.replace("status", "state"),
    "move-column amount --after id": "dt DATE NOT NULL, id BIGINT NOT NULL, amount DECIMAL(12, 2), status STRING",
    "move-column dt --last": "id BIGINT NOT NULL, status STRING, amount DECIMAL(12, 2), dt DATE NOT NULL",
    "change-type amount DECIMAL(14,2)": COLUMNS.replace("12", "14"),
    "drop-column status add-column note INT rename-column note n": COLUMNS.replace(" status STRING,", "") + ", n INT",
    "set alter-column-null-to-not-null.disabled=false set-not-null status": COLUMNS.replace(
        "STRING", "STRING NOT NULL"
    ),
    "add-column a ROW<b_INT> add-column a.c STRING change-type a.b BIGINT": f"{COLUMNS}, a ROW<`b` BIGINT, `c` STRING>",
}


def columns(shell, table):
    return json.loads(shell("describe", table, "--json").out)["columns"]


@pytest.mark.parametrize("words", STEPS)
def test_steps_change_the_columns(shell, orders, words):
    answer = shell("alter", orders, *(word.replace("<b_INT>", "<b INT>") for word in words.split()))

    assert (answer.code, answer.err) == (0, "")
    assert ", ".join(f"{each['name']} {each['type']}" for each in columns(shell, orders)) == STEPS[words]


def test_options_defaults_and_comments_are_set_and_taken_back(shell, orders):
    described = lambda: json.loads(shell("describe", orders, "--json").out)  # noqa: E731
    before = described()

    set_all = ["set", "write-buffer-size=64mb", "file.compression=lz4", "set-default", "status", "new"]
    answer = shell(
        "alter", orders, *set_all, "comment", "One row per order.", "comment", "its state", "--column=status"
    )
    assert answer.lines[0] == "sales.orders: done"
    after = described()
    assert after["options"] == {**before["options"], "write-buffer-size": "64mb", "file.compression": "lz4"}
    assert after["comment"] == "One row per order."
    assert after["columns"][2] == {"name": "status", "type": "STRING", "default": "new", "comment": "its state"}

    unset = ["unset", "write-buffer-size", "file.compression", "drop-default", "status"]
    shell("alter", orders, *unset, "comment", "", "comment", "", "--column", "status", "--json")
    assert {**described(), "schema_id": 0} == before


def test_a_default_may_begin_with_a_minus(shell, orders):
    assert shell("alter", orders, "set-default", "amount", "-1.50").code == 0

    assert columns(shell, orders)[3]["default"] == "-1.50"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "Missing command"),
        ("add-colum note STRING", "'add-colum' is not a step. Did you mean add-column?"),
        ("add-column note INT NOT NULL", "A type of several words is in quotes, as in 'INT NOT NULL'."),
        ("add-column note", "Missing argument 'TYPE'."),
        ("add-column note STRING --behind id", "No such option '--behind'"),
        ("add-column note NUMBER", "'NUMBER' is not a data type"),
        ("set bucket", "set 'bucket': expected KEY=VALUE, as in bucket=8."),
        ("unset", "Missing argument 'KEY...'."),
        ("drop-column note STRING", "'STRING' is not a step. The steps are add-column, drop-column,"),
        ("drop-column nope", "There is no column nope."),
        ("drop-column a.b", "There is no column a."),
        ("add-column note STRING drop-column id", "Column id is part of the primary key"),
    ],
)
def test_what_is_wrong_with_one_step_changes_nothing(shell, orders, words, message):
    before = shell("schemas", orders, "--json").out

    answer = shell("alter", orders, *words.split())

    assert answer.code == 2
    assert message in answer.err
    assert answer.err.count("\n") == 1
    assert shell("schemas", orders, "--json").out == before


def test_no_option_of_a_table_has_the_name_of_a_step():
    from lakehouse_core.cli.alter import STEPS as names
    from lakehouse_core.options.known import KNOWN

    assert not names & set(KNOWN)


def test_a_renamed_table_keeps_what_it_has(shell, orders):
    assert shell("rename", orders, "sales.orders_2013").out.startswith(
        "sales.orders: renamed to sales.orders_2013, at file:"
    )

    assert shell("tables").out == "sales.orders_2013\n"
    assert shell("count", "sales.orders_2013").out == "2\n"
    assert shell("rename", orders, "sales.x").code == 2
    assert "expected 'database.table'" in shell("rename", "sales.orders_2013", "orders").err


@pytest.fixture
def three(shell, orders, home):
    """sales.a, which is damaged, sales.b and sales.orders."""
    for name in ("a", "b"):
        shell("create", f"sales.{name}", "--schema", "orders.yaml")
        shell("write", f"sales.{name}", "orders.csv")
    schema = home / "wh" / "sales.db" / "a" / "schema" / "schema-0"
    schema.write_text("{")
    yield ["sales.a", "sales.b", "sales.orders"]
    (home / "wh" / "sales.db" / "a").rename(home / "broken")


@pytest.mark.parametrize(
    "words",
    [
        "compact X --full",
        "compact-manifests X",
        "expire X",
        "count X",
        "alter X set write-buffer-size=64mb",
    ],
)
def test_of_many_tables_one_that_fails_is_told_and_stops_no_other(shell, three, words):
    answer = shell(*words.replace("X", "sales.*").split())

    assert answer.code == 5
    assert [line.partition(":")[0] for line in answer.lines if not line.startswith(" ")] == three
    assert answer.lines[0] == "sales.a: failed, exit code 5"
    assert answer.err.startswith("lakehouse: sales.a: ")


def test_what_many_tables_tell_is_a_line_of_json_for_each(shell, three):
    told = [json.loads(line) for line in shell("count", "sales.[ab]", "--json").lines]

    assert [(each["table"], each.get("exit_code"), each.get("rows")) for each in told] == [
        ("sales.a", 5, None),
        ("sales.b", None, 2),
    ]
    assert "schema-0" in told[0]["error"]


def test_findings_in_one_of_many_tables_are_an_exit_code_too(shell, three, home):
    assert shell("verify", "sales.[bo]*").code == 0

    answer = shell("verify", "sales.*")

    assert answer.code == 1
    assert [line for line in answer.lines if not line.startswith(" ")] == [
        "sales.a: 1 findings",
        "sales.b: no findings",
        "sales.orders: no findings",
    ]


def test_tables_are_listed_by_a_pattern(shell, three):
    assert shell("tables", "sales.?").lines == ["sales.a", "sales.b"]
    assert shell("tables", "*").lines == three
    assert "No table matches 'x*' in sales" in shell("tables", "sales.x*").err


@pytest.mark.parametrize("words", ["read X", "drop X --yes", "describe X", "rename X sales.y", "write X orders.csv"])
def test_verbs_that_are_for_one_table_take_no_pattern(shell, orders, words):
    answer = shell(*words.replace("X", "sales.*").split())

    assert answer.code == 2
    assert "'sales.*' is a pattern for many tables" in answer.err
    assert shell("tables").out == "sales.orders\n"


def test_partitions_are_listed_with_what_their_files_hold(shell, orders, home):
    shell("tag", "create", orders, "eod")
    (home / "more.csv").write_text("dt,id\n2013-01-02,3\n,4\n".replace(",4", "2012-12-31,4"))
    shell("write", orders, "more.csv")

    told = [json.loads(line) for line in shell("partitions", orders, "--json").lines]

    assert [(each["partition"]["dt"], each["row_count"], each["file_count"]) for each in told] == [
        ("2012-12-31", 1, 1),
        ("2013-01-01", 1, 1),
        ("2013-01-02", 2, 2),
    ]
    assert shell("partitions", orders, "--tag", "eod").lines[1].startswith("dt=2013-01-01  1  ")
    files = lc.connect(home / "wh").table(orders).files()
    assert sum(each["file_size"] for each in told) == sum(file.file_size for file in files)


def test_tags_are_listed_in_two_ways(shell, orders):
    shell("tag", "create", orders, "eod")

    assert shell("tag", "list", orders).out == shell("tags", orders).out
    assert json.loads(shell("tag", "list", orders, "--json").out)["name"] == "eod"
