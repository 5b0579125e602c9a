"""Bad input: one line that names the object, what was found, what was expected and what to do; nothing left behind.

Each case is a call on a small warehouse, the class of its error, and what the message must say.
"""

import datetime
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakehouse_core as lc

DAY = datetime.date(2013, 1, 1)
ORDERS = {"dt": "DATE NOT NULL", "id": "BIGINT NOT NULL", "status": "STRING", "amount": "DECIMAL(12, 2)", "n": "INT"}
EVENTS = {"id": "INT", "at": "TIMESTAMP(3)", "z": "TIMESTAMP_LTZ(6)", "ok": "BOOLEAN", "f": "FLOAT", "l": "ARRAY<INT>"}


class Warehouse:
    """db.orders: partitioned, keyed, snapshots 2 and 3 (1 expired), tag eod. db.events: append, one snapshot."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.catalog = lc.connect(str(root))
        self.catalog.create_database("db")
        options = {"bucket": "2", "snapshot.num-retained.min": "1", "lakehouse.read.grace": "0 s"}
        self.orders = self.create("orders", ORDERS, primary_keys=["dt", "id"], partition_keys=["dt"], options=options)
        self.events = self.create("events", EVENTS)
        for number in (1, 2, 3):
            self.orders.write([{"dt": DAY, "id": number, "amount": number}])
        self.orders.expire_snapshots(retain_max=2, older_than=datetime.timedelta(0))
        self.orders.create_tag("eod")
        self.events.write([{"id": 1}])

    def create(self, name: str, columns: Any = ORDERS, **declared: Any) -> lc.Table:
        return self.catalog.create_table(f"db.{name}", columns, **declared)

    def visible(self) -> dict[str, int]:
        """Every file that a reader could see, with its size."""
        return {
            str(path.relative_to(self.root)): path.stat().st_size
            for path in self.root.rglob("*")
            if path.is_file() and not path.name.startswith(".")
        }


Call = Callable[[Warehouse], object]


def orders(*rows: dict[str, Any], **options: Any) -> Call:
    return lambda w: w.orders.write([{"dt": DAY, "id": 9, **row} for row in rows], **options)


def events(column: str, values: list[Any], kind: pa.DataType | None = None) -> Call:
    return lambda w: w.events.write(pa.table({column: pa.array(values, kind)}))


def new(columns: Any = ORDERS, name: str = "t", **declared: Any) -> Call:
    return lambda w: w.create(name, columns, **declared)


def keyed(**options: str) -> Call:
    return new({"k": "INT NOT NULL", "v": "INT"}, primary_keys=["k"], options={"bucket": "1", **options})


def alter(*changes: Any) -> Call:
    return lambda w: w.orders.alter(*changes)


def scan(**asked: Any) -> Call:
    return lambda w: w.orders.scan(**asked).to_arrow()


INVALID, MISSING, UNSUPPORTED = lc.InvalidRequest, lc.NotFound, lc.UnsupportedFeature

CASES: dict[str, list[tuple[Call, type[lc.LakehouseError], str]]] = {
    "names": [
        *(
            (lambda w, name=name: w.catalog.create_database(name), INVALID, message)
            for name, message in {
                "": "Invalid database name '': it is empty",
                "  ": "it is empty",
                "a/b": "Invalid database name 'a/b': '/' is not allowed. Use letters, digits",
                "a\\b": "is not allowed",
                "..": "it begins with '.'",
                ".x": "it begins with '.'",
                "a\0b": "control character",
                "a\nb": "control character",
                "a b": "' ' is not allowed",
                "a ": "' ' is not allowed",
                "a.b": "'.' is not allowed",
                "$x": "'$' is not allowed",
                "\u202eabc": "is not allowed",
                "e\u0301": "is not allowed",
                "CON": "names a device",
                "lpt1": "names a device",
                "sys": "kept for system tables",
                "x" * 256: "it has 256 bytes, at most 200",
                "DB": "differs from the database 'db' only by case",
                "db": "exists already. Pass exist_ok=True",
            }.items()
        ),
        *(
            (new(name=name), INVALID, message)
            for name, message in {
                "": "expected 'database.table'",
                "a/b": "Invalid table name 'a/b': '/' is not allowed. Use letters, digits, '_' and '-'.",
                "..": "it begins with '.'",
                "a\0b": "control character",
                "a b": "' ' is not allowed",
                "a.b": "'.' is not allowed",
                "t$snapshots": "system tables are verbs here",
                "x" * 256: "it has 256 bytes",
                "nul": "names a device",
                "Orders": "differs from the table 'orders' only by case",
                "orders": "exists already. Pass exist_ok=True",
            }.items()
        ),
        (lambda w: w.catalog.table("orders"), INVALID, "Table name 'orders': expected 'database.table'"),
        (lambda w: w.catalog.table(5), INVALID, "Table name 5"),
        (lambda w: w.catalog.table("db.order"), MISSING, "'db.order' does not exist. Did you mean 'orders'"),
        (lambda w: w.catalog.table("bd.orders"), MISSING, "Database 'bd' does not exist in .*Did you mean 'db'"),
        (lambda w: w.catalog.table("db.../x"), INVALID, "is not allowed"),
        (lambda w: w.catalog.table("../db.orders"), INVALID, "begins with|is not allowed"),
        (lambda w: w.catalog.table("db.orders$branch_b"), UNSUPPORTED, "branches cannot be opened yet"),
        (lambda w: w.catalog.table("db.orders$files"), INVALID, "system tables are verbs"),
        (lambda w: w.catalog.tables("nope"), MISSING, "Database 'nope' does not exist"),
        (lambda w: w.catalog.drop_table("db.nope"), MISSING, "'db.nope' does not exist"),
        (lambda w: w.catalog.drop_database("db"), INVALID, "has 2 tables .*pass cascade=True"),
        (lambda w: w.catalog.drop_database("nope"), MISSING, "'nope' does not exist"),
        (lambda w: w.catalog.rename_table("db.nope", "db.x"), MISSING, "'db.nope' does not exist"),
        (lambda w: w.catalog.rename_table("db.orders", "db.events"), INVALID, "'db.events' exists already"),
        (lambda w: w.catalog.rename_table("db.orders", "db.a b"), INVALID, "' ' is not allowed"),
        (lambda w: w.catalog.rename_table("db.orders", "nope.x"), MISSING, "'nope' does not exist"),
        *(
            (lambda w, name=name: w.orders.create_tag(name), INVALID, message)
            for name, message in {
                "": "it is blank",
                " ": "it is blank",
                "a/b": "holds a slash",
                "a\nb": "control character",
                "x" * 250: "more than",
                "eod": "is there already, at snapshot 3: delete it first",
            }.items()
        ),
        (lambda w: w.orders.create_tag("x", at=99), MISSING, "Snapshot 99 is not there yet. The latest is 3"),
        (lambda w: w.orders.create_tag("x", at=1), lc.SnapshotExpired, "Snapshot 1 is expired. The earliest .* 2"),
        (
            lambda w: w.orders.create_tag("x", retention=datetime.timedelta(0)),
            INVALID,
            "give more than 0",
        ),
        (lambda w: w.orders.delete_tag("nope"), MISSING, "Tag 'nope': there is no such tag. The tags are: eod"),
    ],
    "warehouse": [
        (lambda w: lc.connect(""), INVALID, "expected a file path or a file:// URI"),
        (lambda w: lc.connect("a\0b"), INVALID, "expected a file path"),
        (lambda w: lc.connect("file://host/x"), INVALID, "names no host, and this one names 'host'"),
        (lambda w: lc.connect("file:x"), INVALID, "expected an absolute path"),
        (lambda w: lc.connect("s3://b/wh"), UNSUPPORTED, "stores of s3: are not supported yet"),
        (lambda w: lc.connect("/x", storage={"secret_key": "hidden"}), INVALID, "was given secret_key. Leave"),
        (lambda w: lc.connect("/x", metastore="postgresql://x"), UNSUPPORTED, "SQL catalogs"),
        (lambda w: lc.connect(str(w.root), spark=5).table("db.orders").compact(full=True), INVALID, "no Spark session"),
    ],
    "columns and keys": [
        (new({}), INVALID, "column"),
        (new({"a": "INT", "A": "INT"}), INVALID, "'A'"),
        (new({"": "INT"}), INVALID, "name"),
        (new({"_VALUE_KIND": "INT"}), INVALID, "'_VALUE_KIND' is reserved"),
        (new({"_KEY_a": "INT"}), INVALID, "reserved"),
        (new({"_SEQUENCE_NUMBER": "INT"}), INVALID, "reserved"),
        (new({"rowkind": "STRING"}), INVALID, "reserved"),
        (new({"a": "NUMBER"}), INVALID, "NUMBER"),
        (new({"a": "DECIMAL(39, 0)"}), INVALID, "DECIMAL"),
        (new({"a": "DECIMAL(2, 3)"}), INVALID, "DECIMAL"),
        (new({"a": "VARCHAR(0)"}), INVALID, "VARCHAR"),
        (new({"a": "TIMESTAMP(10)"}), INVALID, "TIMESTAMP"),
        (new({"a": "ARRAY<INT"}), INVALID, "ARRAY"),
        (new({"a": "INT"}, primary_keys=["b"], options={"bucket": "1"}), INVALID, "'b'"),
        (new({"a": "INT"}, partition_keys=["b"]), INVALID, "'b'"),
        (new({"a": "ARRAY<INT>"}, primary_keys=["a"], options={"bucket": "1"}), INVALID, "ARRAY"),
        (new({"a": "INT"}, primary_keys=["a", "a"], options={"bucket": "1"}), INVALID, "'a'"),
        (
            new({"p": "INT", "k": "INT"}, primary_keys=["k"], partition_keys=["p"], options={"bucket": "1"}),
            INVALID,
            "p",
        ),
        (new({"p": "INT"}, primary_keys=["p"], partition_keys=["p"], options={"bucket": "1"}), INVALID, "partition"),
        (new({"k": "INT", "v": "VARIANT"}), UNSUPPORTED, "VARIANT"),
    ],
    "options": [
        (keyed(**{"snapshot.num-retain.min": "1"}), INVALID, "Did you mean 'snapshot.num-retained.min'"),
        (keyed(**{"snapshot.num-retained.min": "9", "snapshot.num-retained.max": "2"}), INVALID, "num-retained"),
        (keyed(**{"snapshot.time-retained": "1 fortnight"}), INVALID, "snapshot.time-retained"),
        (keyed(**{"target-file-size": "many"}), INVALID, "target-file-size"),
        (keyed(**{"metadata.stats-mode": "most"}), INVALID, "metadata.stats-mode"),
        (keyed(**{"fields.nope.stats-mode": "full"}), INVALID, "nope"),
        (keyed(**{"bucket": "0"}), INVALID, "bucket"),
        (keyed(**{"bucket": "one"}), INVALID, "bucket"),
        (keyed(**{"bucket": "-1"}), UNSUPPORTED, "bucket"),
        (keyed(**{"bucket-key": "v"}), INVALID, "bucket-key"),
        (keyed(**{"bucket-function.type": "mod", "bucket-key": "nope"}), INVALID, "nope"),
        (keyed(**{"merge-engine": "partial-update"}), UNSUPPORTED, "merge-engine = partial-update"),
        (keyed(**{"merge-engine": "best"}), INVALID, "merge-engine"),
        (keyed(**{"changelog-producer": "lookup"}), UNSUPPORTED, "changelog-producer = lookup"),
        (keyed(**{"deletion-vectors.enabled": "true"}), UNSUPPORTED, "deletion-vectors.enabled"),
        (keyed(**{"file.format": "orc"}), UNSUPPORTED, "file.format = orc"),
        (keyed(**{"sequence.field": "nope"}), INVALID, "nope"),
        (keyed(**{"rowkind.field": "nope"}), INVALID, "nope"),
        (new({"a": "INT"}, options={"changelog-producer": "input"}), INVALID, "changelog-producer"),
        (new({"a": "INT"}, options={"bucket": "2"}), INVALID, "bucket-key"),
        (keyed(**{"s3.secret-key": "x"}), INVALID, "s3.secret-key"),
    ],
    "rows": [
        (orders({"id": None}), INVALID, "Column 'id' is the primary key and row 0 holds null"),
        (orders({}, {"dt": None}), INVALID, "Column 'dt' is the primary key and row 1 holds null"),
        (orders({"amuont": 1}), INVALID, "column 'amuont', which the table does not have. Did you mean 'amount'"),
        (orders({"amount": Decimal("1.234")}), INVALID, "Row 0, column 'amount': .*1.234"),
        (orders({}, {"amount": Decimal("1e10")}), INVALID, "Row 1, column 'amount'"),
        (orders({"amount": float("nan")}), INVALID, "Row 0, column 'amount'"),
        (orders({"n": 2**31}), INVALID, "Row 0, column 'n': 2147483648 .*lies outside"),
        (orders({"n": 1.5}), INVALID, "Row 0, column 'n': 1.5"),
        (orders({"n": "many"}), INVALID, "Row 0, column 'n': 'many'"),
        (orders({"n": True}), INVALID, "Row 0, column 'n': True"),
        (orders({"status": 5}), INVALID, "Row 0, column 'status': 5 .*write text"),
        (orders({"dt": "2013-02-31"}), INVALID, "Row 0, column 'dt': '2013-02-31' .*no such day"),
        (orders({"dt": "yesterday"}), INVALID, "Row 0, column 'dt': 'yesterday'"),
        (lambda w: w.orders.write([{"id": 1}]), INVALID, "no column 'dt', which is DATE NOT NULL: add it"),
        (lambda w: w.orders.write("rows.csv"), INVALID, "Cannot write builtins.str: expected a pyarrow Table"),
        (lambda w: w.orders.write(None), INVALID, "Cannot write builtins.NoneType"),
        (lambda w: w.orders.write([1, 2]), INVALID, "Cannot write builtins.list"),
        (events("id", [1, 2**40]), INVALID, "Row 1, column 'id': 1099511627776 does not fit int32"),
        (events("id", ["1"]), INVALID, "'id' is INT and the data has string: cast it to int32"),
        (events("id", [True]), INVALID, "'id' is INT and the data has bool"),
        (events("f", [0.5, 0.1]), INVALID, "Row 1, column 'f': 0.1 does not fit float"),
        (events("at", [1], pa.timestamp("us")), INVALID, "Row 0, column 'at': .*timestamp.ms."),
        (events("at", [1], pa.timestamp("ms", "UTC")), INVALID, "'at' is TIMESTAMP.3. and the data has timestamp"),
        (events("ok", [1]), INVALID, "'ok' is BOOLEAN and the data has int64"),
        (events("l", [["x"]]), INVALID, "'l' is ARRAY<INT>"),
        (events("nope", [1]), INVALID, "column 'nope', which the table does not have"),
        (lambda w: w.events.write(pa.table([[1], [2]], names=["id", "id"])), INVALID, "two columns 'id'"),
    ],
    "row kinds": [
        (orders({"op": "X"}, rowkind_column="op"), INVALID, "Row 0, column 'op': 'X' is no row kind: use"),
        (orders({"op": "+I"}, {"op": None}, rowkind_column="op"), INVALID, "Row 1, column 'op': null is no row kind"),
        (orders({"op": "+i"}, rowkind_column="op"), INVALID, r"'\+i' is no row kind"),
        (orders({}, rowkind_column="op"), INVALID, "no column 'op', which was to hold the row kinds"),
        (
            lambda w: w.events.write([{"id": 1, "op": "-D"}], rowkind_column="op"),
            INVALID,
            "Row 0 has the row kind -D, and the table has no primary key",
        ),
        (
            lambda w: w.events.write([{"id": 1, "op": "-U"}], rowkind_column="op"),
            INVALID,
            "row kind -U",
        ),
    ],
    "partitions": [
        (lambda w: w.orders.overwrite([], partition={"d": DAY}), INVALID, "not partitioned by it. Did you mean 'dt'"),
        (lambda w: w.orders.overwrite([], partition={"dt": "2024-02-31"}), INVALID, "dt='2024-02-31'.*no such day"),
        (lambda w: w.orders.overwrite([], partition={"dt": 1.5}), INVALID, "Partition dt=1.5"),
        (lambda w: w.orders.overwrite([], partition={"dt": DAY}, dynamic=True), INVALID, "not both"),
        (lambda w: w.events.overwrite([], partition={"id": 1}), INVALID, "the table is not partitioned"),
        (lambda w: w.orders.compact(full=True, partition={"x": 1}), INVALID, "not partitioned by it"),
        (
            lambda w: w.orders.overwrite([{"dt": "2013-01-02", "id": 1}], partition={"dt": DAY}),
            INVALID,
            "2013-01-0",
        ),
    ],
    "reading": [
        (scan(columns=["idd"]), INVALID, "there is no column 'idd'. Did you mean 'id'"),
        (scan(columns=[]), INVALID, "at least one column name"),
        (scan(columns="id"), INVALID, "give a list"),
        (scan(columns=["id", "id"]), INVALID, "names a column twice"),
        (scan(where="nope = 1"), INVALID, "'nope', which the table does not have"),
        (scan(where="id = 'x'"), INVALID, "column 'id': 'x'"),
        (scan(where="id = NULL"), INVALID, "compared with NULL, which is never true: use IS NULL"),
        (scan(where="id = amount"), INVALID, "where a literal is expected"),
        (scan(where="status = 5"), INVALID, "'status': 5 is no value of STRING"),
        (scan(where=lc.col("id")), INVALID, "expected SQL text, or a condition"),
        (scan(where=5), INVALID, "where=5"),
        (lambda w: w.events.scan(where="l = 1").to_arrow(), INVALID, "only IS NULL applies"),
    ],
    "time travel": [
        (scan(at=lc.AtSnapshot(0)), INVALID, "ids start at 1"),
        (scan(at=lc.AtSnapshot(-1)), INVALID, "ids start at 1"),
        (scan(at=lc.AtSnapshot(1)), lc.SnapshotExpired, "Snapshot 1 is expired. The earliest available is 2"),
        (scan(at=lc.AtSnapshot(99)), MISSING, "Snapshot 99 is not there yet. The latest is 3"),
        (scan(at=lc.AtTag("nope")), MISSING, "Tag 'nope': there is no such tag. The tags are: eod"),
        (scan(at=lc.AsOf(datetime.datetime(1999, 1, 1))), lc.SnapshotExpired, "No snapshot at 1999-01-01.* or before"),
        (
            lambda w: w.events.scan(at=lc.AsOf(datetime.datetime(1999, 1, 1))).count(),
            MISSING,
            "No snapshot at 1999",
        ),
        (lambda w: lc.AtSnapshot("3"), INVALID, "expected a snapshot id"),
        (lambda w: lc.AsOf("2013"), INVALID, "expected a datetime"),
        (lambda w: w.orders.changes(after=0).to_arrow(), lc.SnapshotExpired, "Snapshot 1 is expired"),
        (lambda w: w.orders.changes(after=3, until=2).to_arrow(), INVALID, "ends before it begins"),
        (lambda w: w.orders.changes(after=2, until=9).to_arrow(), MISSING, "Snapshot 9 is not there yet"),
        (lambda w: w.orders.changes(after=-1).to_arrow(), INVALID, "after=-1"),
        (lambda w: w.orders.snapshot(1), lc.SnapshotExpired, "earliest available is 2"),
        (lambda w: w.create("empty").scan(at=lc.AtSnapshot(1)).count(), MISSING, "the table has no snapshot yet"),
    ],
    "schema changes": [
        (alter(), INVALID, "at least one change"),
        (alter(lc.AddColumn("id", "INT")), INVALID, "id"),
        (alter(lc.AddColumn("x", "INT NOT NULL")), INVALID, "NOT NULL"),
        (alter(lc.AddColumn("x", "INT", after="nope")), INVALID, "nope"),
        (alter(lc.AddColumn("_VALUE_KIND", "INT")), INVALID, "reserved"),
        (alter(lc.DropColumn("id")), INVALID, "id"),
        (alter(lc.DropColumn("dt")), INVALID, "dt"),
        (alter(lc.DropColumn("nope")), INVALID, "nope"),
        (alter(lc.RenameColumn("dt", "day")), INVALID, "dt"),
        (alter(lc.RenameColumn("n", "status")), INVALID, "status"),
        (alter(lc.UpdateColumnType("id", "INT")), INVALID, "id"),
        (alter(lc.UpdateColumnType("n", "ARRAY<INT>")), INVALID, "n"),
        (alter(lc.UpdateColumnNullability("n", False)), INVALID, "n"),
        (alter(lc.SetOption("bucket", "-1")), INVALID, "bucket"),
        (alter(lc.SetOption("merge-engine", "aggregation")), INVALID, "merge-engine"),
        (alter(lc.SetOption("snapshot.num-retain.min", "1")), INVALID, "Did you mean"),
        (alter(lc.RemoveOption("bucket")), INVALID, "bucket"),
        (alter(lc.AddColumn("ok", "INT"), lc.DropColumn("nope")), INVALID, "nope"),
    ],
    "commits": [
        (
            lambda w: w.orders.stage([], commit_user="", commit_identifier=1),
            INVALID,
            "needs a commit user",
        ),
        (
            lambda w: w.orders.stage([], commit_user="u", commit_identifier=-1),
            INVALID,
            "Commit identifier -1 of u",
        ),
        (
            lambda w: w.orders.write([], properties={"lakehouse.ledger": "x"}),
            INVALID,
            "'lakehouse.ledger' is reserved",
        ),
        (
            lambda w: w.events.commit(w.orders.stage([], commit_user="u", commit_identifier=1)),
            INVALID,
            "was staged for db.orders. Commit it there",
        ),
        (lambda w: lc.StagedCommit.from_json("{"), INVALID, "staged commit"),
        (lambda w: lc.StagedCommit.from_json('{"version":9}'), UNSUPPORTED, "9"),
        (
            lambda w: w.orders.expire_snapshots(retain_max=1, retain_min=5),
            INVALID,
            "retain",
        ),
        (lambda w: w.orders.expire_snapshots(older_than=5), INVALID, "expected a timedelta or a datetime"),
        (lambda w: w.orders.compact(), UNSUPPORTED, "full=True"),
    ],
}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory):
    return Warehouse(tmp_path_factory.mktemp("warehouse"))


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        pytest.param(*case, id=f"{group} {number}")
        for group, cases in CASES.items()
        for number, case in enumerate(cases)
    ],
)
def test_bad_input_is_refused_in_one_line_and_leaves_nothing_behind(warehouse, call, kind, message):
    made_by_the_case = "db.db/empty/"
    before = warehouse.visible()

    with pytest.raises(lc.LakehouseError, match=message) as refused:
        call(warehouse)

    assert isinstance(refused.value, kind)
    assert "\n" not in str(refused.value)
    left = {path: size for path, size in warehouse.visible().items() if not path.startswith(made_by_the_case)}
    assert left == before
