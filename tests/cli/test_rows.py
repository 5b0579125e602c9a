"""Rows in and out of files: every format, and files that are not what they seem."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakehouse_core as lc


@pytest.mark.one_in(2)
@pytest.mark.parametrize("ending", ["parquet", "csv", "tsv", "jsonl", "ndjson", "json", "arrow"])
def test_rows_that_were_written_to_a_file_are_read_from_it_again(shell, orders, home, ending):
    before = shell("read", orders, "--json").out
    assert shell("read", orders, "-o", f"rows.{ending}").code == 0

    assert shell("write", orders, f"rows.{ending}", "--overwrite").code == 0

    assert shell("read", orders, "--json").out == before
    assert [path.name for path in home.glob(".*")] == []


@pytest.mark.parametrize("where", ["", "id > 7"])
def test_a_condition_without_overwrite_is_refused(shell, orders, where):
    assert shell("read", orders, "-o", "rows.csv").code == 0
    before = shell("read", orders, "--json").out

    answer = shell("write", orders, "rows.csv", "--where", where)

    assert (answer.code, shell("read", orders, "--json").out) == (2, before)
    assert "Add --overwrite" in answer.err


def test_packed_text_is_read(shell, orders, home):
    (home / "rows.jsonl.gz").write_bytes(gzip.compress(b'{"dt":"2013-01-01","id":7}\n'))

    answer = shell("write", orders, "rows.jsonl.gz", "--json")

    assert json.loads(answer.out)["rows_added"] == 1


def test_the_compaction_after_a_write_is_told_beside_it(shell, home):
    (home / "t.yaml").write_text(
        "columns: {k: INT NOT NULL, v: INT}\nprimary_key: [k]\noptions: {bucket: 1, changelog-producer: lookup}\n"
    )
    (home / "rows.jsonl").write_text('{"k": 1, "v": 1}\n{"k": 2, "v": 1}\n')
    shell("create", "sales.t", "--schema", "t.yaml")
    shell("write", "sales.t", "rows.jsonl")
    (home / "rows.jsonl").write_text('{"k": 1, "v": 2}\n')

    told = [line.rstrip() for line in shell("write", "sales.t", "rows.jsonl").out.splitlines()]

    assert told[0] == "sales.t: snapshot 3 (APPEND)"
    assert "  rows added: 1" in told
    below = told[told.index("  compaction: snapshot 4 (COMPACT)") :]
    assert "    changelog rows added: 2" in below


def test_a_file_that_lacks_a_column_may_be_refused(shell, orders, home):
    (home / "a.jsonl").write_text('{"dt":"2013-01-01","id":1}\n')
    (home / "a.csv").write_text("dt,id\n2013-01-01,1\n")

    for name, what in (("a.jsonl", "Row 0"), ("a.csv", "Row 0")):
        answer = shell("write", orders, name, "--missing", "error")
        assert answer.code == 2
        assert answer.err.startswith(f"lakehouse: sales.orders: {name}: {what} has no column")
        assert "and --missing error expects all" in answer.err

    assert shell("write", orders, "a.jsonl").code == 0


@pytest.mark.parametrize(
    "case",
    [
        ("a.csv", "dt,id,id\n2013-01-01,1,2\n", "a.csv: The header names 'id' twice. Rename or drop one."),
        ("a.csv", "dt,id,amount\n2013-01-01,1\n", "a.csv: Line 2: found 2 fields, expected 3 as in the header."),
        (
            "a.csv",
            "dt,id\n2013-01-01,1,x\n",
            "a.csv: Line 2: found 3 fields, expected 2 as in the header. Quote texts",
        ),
        ("a.csv", "dt,id\n2013-01-01,x\n", "a.csv: Row 0, column 'id': 'x' is not a value of BIGINT NOT NULL"),
        (
            "a.csv",
            'dt,id\n2013-01-01,"1\n',
            "a.csv: Line 2: a quote that opens in this line or a later one is not closed. Close it.",
        ),
        (
            "a.csv",
            'dt,id\n2013-01-01,"1"2\n',
            "a.csv: Line 2: found '2' after a closing quote, expected a delimiter. Double the quotes",
        ),
        ("a.csv", b"\xff\xfe", "invalid start byte). Save it in UTF-8."),
        ("a.jsonl", '{"dt":"2013-01-01","id":1,"id":2}\n', "a.jsonl: Line 1 names 'id' twice. Rename or drop one."),
        ("a.jsonl", '{"dt":"2013-01-01","id":1}\n{"dt":\n', "a.jsonl: Line 2 is not JSON"),
        ("a.jsonl", "[1]\n", "a.jsonl: Line 1 is not a JSON object, as in "),
        ("a.jsonl", '{"dt":"2013-01-01","id":NaN}\n', "a.jsonl: Row 0, column 'id'"),
        ("a.jsonl", '{"dt":"2013-01-01"}\n', "a.jsonl: The data has no column 'id', which is BIGINT NOT NULL: add it."),
        ("a.jsonl", '{"dt":"2013-01-01","id":1,"x":1}\n', "a.jsonl: The data has a column 'x'"),
        ("a.csv", "dt;id\n2013-01-01;1\n", "separated by ';', say so (delimiter=, --delimiter)"),
        ("a.json", '[{"dt":"2013-01-01","id":1},\n 2]', "a.json: Row 1 is not a JSON object, as in "),
        ("a.json", '[{"dt":"2013-01-01"', "a.json: Expected JSON: Expecting ',' delimiter at line 1, column 20."),
        ("a.json", '[{"id":1,"id":2}]', "a.json: An object names 'id' twice. Rename or drop one."),
        ("a.jsonl.gz", b"not packed", "a.jsonl.gz: cannot be read as .jsonl.gz"),
        ("a.parquet", b"PAR1 and no more", "a.parquet: cannot be read as .parquet"),
        ("a.arrow", b"ARROW1 and no more", "a.arrow: cannot be read as .arrow"),
        (
            "a.txt",
            "",
            "a.txt: expected a name that ends with one of .parquet, .csv, .tsv, .jsonl, .ndjson, .json, .arrow. Rename",
        ),
    ],
)
def test_a_file_that_does_not_fit_is_refused_by_name_and_place(shell, orders, home, case):
    name, content, message = case
    (home / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    before = sorted((home / "wh").rglob("*"))

    answer = shell("write", orders, name)

    assert answer.code == 2
    assert answer.err.count("\n") == 1
    assert message in answer.err
    assert sorted((home / "wh").rglob("*")) == before


def test_rows_are_counted_from_the_beginning_of_their_file(shell, orders, home):
    good = '{"dt":"2013-01-01","id":1}\n'
    (home / "first.jsonl").write_text(good)
    (home / "long.jsonl").write_text(good * 70_000 + '{"dt":"x","id":1}\n')

    answer = shell("write", orders, "first.jsonl", "long.jsonl")

    assert "long.jsonl: Row 70000, column 'dt': 'x'" in answer.err


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"dt":"2013-01-01","id":1,"op":"?"}', "Row 0, column 'op': '?' is not a row kind: use +I, -U, +U or -D."),
        ('{"dt":"2013-01-01","id":1}', "no column 'op', the column of row kinds"),
        ('{"dt":"2013-01-01","id":null,"op":"+I"}', "Column 'id' is the primary key and row 0 holds null"),
    ],
)
def test_row_kinds_and_nulls_are_checked_before_anything_is_written(shell, orders, home, row, message):
    (home / "cdc.jsonl").write_text(row + "\n")

    answer = shell("write", orders, "cdc.jsonl", "--rowkind-column", "op")

    assert answer.code == 2
    assert message in answer.err


def test_row_kinds_are_applied(shell, orders, home):
    (home / "cdc.jsonl").write_text('{"dt":"2013-01-01","id":1,"op":"-D"}\n')
    assert shell("write", orders, "cdc.jsonl", "--rowkind-column", "op").code == 0

    kinds = [json.loads(line)["rowkind"] for line in shell("changes", orders, "--after", "1", "--json").lines]

    assert kinds == ["-D"]
    assert len(shell("read", orders, "--json").lines) == 1


@pytest.mark.parametrize("content", ["", "dt,id\n"])
def test_a_file_without_rows_is_an_answer_that_says_so(shell, orders, home, content):
    (home / "empty.csv").write_text(content)

    answer = shell("write", orders, "empty.csv")

    assert answer.code == 0
    assert answer.lines[0] == "sales.orders: nothing done: the input had no rows to write"


def test_a_pipe_takes_all_rows_and_a_limit_is_kept(shell, orders, home):
    (home / "more.csv").write_text("dt,id\n" + "".join(f"2013-01-03,{i}\n" for i in range(1500)))
    shell("write", orders, "more.csv")

    answer = shell("read", orders)

    assert (len(answer.lines), answer.err) == (1503, "")
    assert len(shell("read", orders, "--limit", "7").lines) == 8


def test_a_limit_beyond_all_rows_shows_all(shell, orders):
    assert len(shell("read", orders, "--limit", "99999999999999999999").lines) == 3


def test_an_output_file_that_cannot_be_made_is_exit_code_4(shell, orders):
    answer = shell("read", orders, "-o", "/dev/null/rows.csv")

    assert answer.code == 4
    assert answer.err.startswith("lakehouse: /dev/null/rows.csv: cannot be written (")
    assert answer.err.endswith("). Name a file in a folder that exists.\n")


def test_columns_condition_and_the_past_are_read(shell, orders, home):
    (home / "late.csv").write_text("dt,id,status\n2013-01-01,1,paid\n")
    shell("write", orders, "late.csv")

    now = shell("read", orders, "--columns", "id, status", "--where", "dt = DATE '2013-01-01'", "--json")
    then = shell("read", orders, "--columns", "status", "--where", "id = 1", "--snapshot", "1", "--json")

    assert now.lines == ['{"id":1,"status":"paid"}']
    assert then.lines == ['{"status":"new"}']


def test_files_of_several_formats_are_one_commit(shell, orders, home):
    rows = pa.table({"dt": pa.array([15706], pa.int32()).cast(pa.date32()), "id": [11]})
    pq.write_table(rows, home / "a.parquet")
    (home / "b.csv").write_text("dt,id\n2013-01-01,12\n")

    answer = shell("write", orders, "a.parquet", "b.csv", "--json")

    report = json.loads(answer.out)
    assert (report["snapshot_id"], report["rows_added"]) == (2, 2)


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_binaries_go_into_text_files_and_back_as_base64(shell, home, ending):
    columns = {"id": "INT", "b": "BYTES", **({"l": "MAP<STRING, ARRAY<BYTES>>"} if ending == "jsonl" else {})}
    catalog = lc.connect(home / "wh")
    catalog.create_database("bin")
    table = catalog.create_table("bin.t", columns)
    nested = {"l": {"a": [b"\x01", None]}} if ending == "jsonl" else {}
    table.write([{"id": 1, "b": b"\x00\xff\xfe", **nested}, {"id": 2, "b": None}])
    rows = table.scan().to_arrow()

    assert shell("read", "bin.t", "-o", f"rows.{ending}").code == 0
    assert "AP/+" in (home / f"rows.{ending}").read_text()
    assert shell("write", "bin.t", f"rows.{ending}", "--overwrite").code == 0
    assert table.scan().to_arrow().equals(rows)

    (home / f"bad.{ending}").write_text('{"id":1,"b":"?"}\n' if ending == "jsonl" else "id,b\n1,?\n")
    answer = shell("write", "bin.t", f"bad.{ending}")
    assert answer.code == 2
    assert f"bad.{ending}: Row 0, column 'b': expected base64" in answer.err


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ('{"b":"é"}', "column 'b': expected base64"),
        ('{"b":[1]}', "column 'b'"),
        ('{"m":[1]}', "column 'm'"),
        ('{"m":[[1,"?"]]}', "column 'm': expected base64"),
        ('{"m":[[1]]}', "column 'm'"),
        ('{"r":[1]}', "column 'r'"),
        ('{"r":{"b":"?"}}', "column 'r': expected base64"),
    ],
)
def test_what_cannot_be_a_binary_is_one_line(shell, home, value, says):
    catalog = lc.connect(home / "wh")
    catalog.create_database("bin")
    catalog.create_table("bin.t", {"b": "BYTES", "m": "MAP<INT, BYTES>", "r": "ROW<b BYTES>"})
    empty = {"b": None, "m": None, "r": None}
    (home / "bad.jsonl").write_text(json.dumps({**empty, **json.loads(value)}) + "\n")

    answer = shell("write", "bin.t", "bad.jsonl")

    assert answer.code == 2
    assert f"bad.jsonl: Row 0, {says}" in answer.err
    assert answer.err.count("\n") == 1


def test_changes_end_at_the_limit(shell, orders):
    answer = shell("changes", orders, "--after", "0", "--limit", "1", "--json")

    assert (answer.code, len(answer.lines)) == (0, 1)


def test_a_read_takes_scan_options(shell, orders):
    shell("write", orders, "orders.csv")

    assert len(shell("read", orders, "--option", "incremental-between=1,2", "--json").lines) == 2
    assert shell("read", orders, "--read-optimized", "--json").lines == []
    assert len(shell("read", orders, "--limit", "1", "--json").lines) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--option", "scan.snapshot-id"), "expected key=value, as in scan.watermark=12"),
        (("--option", "scan.version=1", "--option", "scan.version=1"), "scan.version is given twice"),
        (("--option", "bucket=1"), "option bucket is not a read option"),
        (("--option", "scan.snapshot-id=1", "--snapshot", "1"), "both name a read point"),
    ],
)
def test_options_that_mean_nothing_for_a_read_are_refused(shell, orders, words, message):
    answer = shell("read", orders, *words)

    assert answer.code == 2
    assert message in answer.err


def test_system_tables_are_read_by_their_names(shell, orders):
    assert json.loads(shell("read", f"{orders}$options", "--json").lines[0]) == {"key": "bucket", "value": "2"}
    assert shell("read", f"{orders}$audit_log", "--option", "scan.snapshot-id=1").lines[0].startswith("rowkind  dt")
    assert shell("count", f"{orders}$files").out == "2\n"
    assert json.loads(shell("count", f"{orders}$files", "--json").out) == {"table": f"{orders}$files", "rows": 2}
    assert "count takes no options for a system table" in shell("count", f"{orders}$files", "--where", "bucket = 1").err
    told = shell("describe", f"{orders}$files").err
    assert "is a system table, which only `read` and `count` take. Name 'sales.orders'." in told
    assert "takes only --option, --limit and -o" in shell("read", f"{orders}$files", "--where", "bucket = 1").err
    assert "Did you mean snapshots?" in shell("read", f"{orders}$snapshot").err


def test_a_diff_is_told_between_snapshots_or_tags(shell, orders, home):
    (home / "more.jsonl").write_text('{"dt":"2013-01-01","id":1,"status":"paid"}\n')
    shell("write", orders, "more.jsonl")
    shell("tag", "create", orders, "one", "--snapshot", "1")
    shell("tag", "create", orders, "two", "--snapshot", "2")

    by_id = shell("diff", orders, "--after", "1", "--until", "2", "--json")
    by_tag = shell("diff", orders, "--after", "one", "--until", "two", "--json")

    row = {"rowkind": "+I", "dt": "2013-01-01", "id": 1, "status": "paid", "amount": None}
    assert [json.loads(line) for line in by_id.lines] == [row]
    assert by_tag.out == by_id.out


KEYS = {
    "dt=2013-01-02,id=2": [2],
    '{"dt": "2013-01-02", "id": 2}': [2],
    "id=9,dt=2013-01-02": [],
}


@pytest.mark.parametrize("key", KEYS)
def test_rows_are_looked_up_by_keys_in_their_order(shell, orders, home, key):
    answer = shell("lookup", orders, key, "dt=2013-01-01,id=1", "--columns", "id", "--cache", "copies", "--json")

    assert [json.loads(line)["id"] for line in answer.lines] == [*KEYS[key], 1]
    assert len(list((home / "copies").iterdir())) == len([*KEYS[key], 1])
    assert shell("lookup", orders, key, "--snapshot", "1", "-o", "found.arrow").code == 0


def test_a_key_of_one_column_is_looked_up_by_its_value_alone(shell, home):
    (home / "names.yaml").write_text(
        "columns: {name: STRING NOT NULL, n: INT}\nprimary_key: [name]\noptions: {bucket: 1}"
    )
    (home / "names.csv").write_text("name,n\na=b,1\n7,2\n")
    shell("create", "db.names", "--schema", "names.yaml")
    shell("write", "db.names", "names.csv")

    answer = shell("lookup", "db.names", "7", "a=b", "name=7", "nobody", "--json")

    assert [json.loads(line)["n"] for line in answer.lines] == [2, 1, 2]


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("7", "Key '7': expected each key column once, as in dt=…,id=…."),
        ("dt=2013-01-01,dt=2013-01-01", "expected each key column once"),
        ("dt=2013-01-01", "Key 'dt=2013-01-01': it has no id. Give each row all columns of the primary key, in one"),
        ('{"id":1}', "it has no dt. Give each row all columns of the primary key, in one argument: dt=…,id=…."),
        ("dt=2013-01-01,ids=1", "Key 'dt=2013-01-01,ids=1': the table has no column 'ids'. Did you mean id?"),
        ("n=1", "Key 'n=1': the table has no column 'n'. The primary key is (dt, id)."),
        ("{", "Key '{': expected a JSON object"),
        (
            "dt=2013-01-01,id=1,status=2",
            "Key 'dt=2013-01-01,id=1,status=2': status is not in the primary key (dt, id). Leave it",
        ),
        ('{"dt":"2013-01-01","id":1,"status":2}', "status is not in the primary key (dt, id). Leave it out"),
        ("dt=2013-01-01,id=x", "sales.orders: keys: Row 0, column 'id': 'x' is not a value of BIGINT NOT NULL"),
    ],
)
def test_a_key_that_does_not_fit_is_refused(shell, orders, key, message):
    answer = shell("lookup", orders, key)

    assert answer.code == 2
    assert message in answer.err


NULLS = [
    # A line of the file with a STRING and an INT, the words that say how it is read, and what becomes of them.
    ("1,,\n", [], (None, None)),
    ('1,"",\n', [], ("", None)),
    ('1,"",""\n', [], ("", None)),
    ("1,NA,5\n", [], ("NA", 5)),
    ("1,NA,NA\n", ["--null", "NA"], (None, None)),
    ('1,"NA",5\n', ["--null", "NA"], ("NA", 5)),
    ("1,,\n", ["--null", "NA"], ("", None)),
    ("1,\\N,\\N\n", ["--null", "\\N"], (None, None)),
]


@pytest.fixture
def things(shell, home):
    (home / "things.yaml").write_text(
        "columns: {id: INT NOT NULL, s: STRING, n: INT}\nprimary_key: [id]\noptions: {bucket: 1}"
    )
    assert shell("create", "db.things", "--schema", "things.yaml").code == 0
    return "db.things"


@pytest.mark.parametrize("case", NULLS)
def test_null_is_told_from_an_empty_text(shell, things, home, case):
    line, options, expected = case
    (home / "a.csv").write_text("id,s,n\n" + line)

    assert shell("write", things, "a.csv", *options).code == 0

    (row,) = [json.loads(line) for line in shell("read", things, "--json").lines]
    assert (row["s"], row["n"]) == expected


@pytest.mark.parametrize(
    "options", [[], ["--null", "NA"], ["--delimiter", ";"], ["--delimiter", "tab", "--null", "x;y"]], ids=" ".join
)
def test_texts_go_into_csv_and_back_whatever_is_in_them(shell, things, home, options):
    texts = [None, "", "NA", '"', '""', "a,b", "a;b", "a\tb", "line\nbreak", "\r\n", " blank ", "x;y", "é", "'"]
    (home / "rows.json").write_text(json.dumps([{"id": i, "s": text} for i, text in enumerate(texts)]))
    assert shell("write", things, "rows.json").code == 0
    before = shell("read", things, "--json").out

    assert shell("read", things, "-o", "out.csv", *options).code == 0
    assert shell("write", things, "out.csv", "--overwrite", *options).code == 0

    assert shell("read", things, "--json").out == before


def test_a_column_alone_has_a_row_for_each_line_of_csv(shell, home):
    (home / "one.yaml").write_text("columns: {s: STRING}")
    (home / "one.csv").write_text('s\na\n\n""\n')
    shell("create", "db.one", "--schema", "one.yaml")

    shell("write", "db.one", "one.csv")

    assert [json.loads(line)["s"] for line in shell("read", "db.one", "--json").lines] == ["a", None, ""]
    assert shell("read", "db.one", "--format", "csv").out == (home / "one.csv").read_text()


@pytest.mark.parametrize("limit", ["x", "-1", "1.5"])
@pytest.mark.parametrize("verb", ["read", "sql"])
def test_a_limit_that_is_no_number_of_rows_is_refused(shell, orders, verb, limit):
    words = {"read": ["read", orders], "sql": ["sql", "SELECT 1"]}[verb]

    answer = shell(*words, "--limit", limit)

    assert answer.code == 2
    assert f"Invalid value for '--limit': '{limit}': expected a number of rows, 0 or more. Try" in answer.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["write", "x", "a.csv", "--delimiter", ";;"],
            "--delimiter ';;': expected one character, such as",
        ),
        (["write", "x", "a.csv", "--delimiter", '"'], "expected one character"),
        (
            ["write", "x", "-"],
            "-: a pipe has no file name that gives the format. Pass --format parquet, csv,",
        ),
        (
            ["write", "x", "-", "-", "--format", "csv"],
            "-: standard input is named twice, but can be read only once. Name it once.",
        ),
        (["read", "x", "-o", "-"], "-: a pipe has no file name that gives the format"),
        (
            ["read", "x", "-o", "a.csv.gz"],
            "a.csv.gz: a .gz file can be read, but not written. Remove .gz from the name.",
        ),
    ],
)
def test_what_cannot_be_a_file_of_rows_is_refused(shell, orders, home, words, message):
    (home / "a.csv").write_text("dt,id\n2013-01-01,1\n")

    answer = shell(*(orders if word == "x" else word for word in words))

    assert answer.code == 2
    assert message in answer.err


def test_a_json_array_may_be_empty_or_lines_after_all(shell, things, home):
    assert shell("read", things, "--format", "json").out == "[]\n"
    (home / "lines.json").write_text('\n {"id":1}\n{"id":2}\n')

    assert json.loads(shell("write", things, "lines.json", "--json").out)["rows_added"] == 2

    assert json.loads(shell("read", things, "--format", "json", "--columns", "id").out) == [{"id": 1}, {"id": 2}]


def test_rows_are_counted(shell, orders):
    assert shell("count", orders).out == "2\n"
    assert shell("count", orders, "--where", "amount > 1").out == "1\n"
    assert json.loads(shell("count", orders, "--snapshot", "1", "--json").out) == {"table": orders, "rows": 2}
