"""Bad input: one line that names the object, what was found, what was expected and what to do; nothing left behind.

Each case is a call on a small warehouse, the class of its error, and what the message must say.
"""

import datetime
import json
import os
import re
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import lakehouse_core as lc

DAY = datetime.date(2013, 1, 1)
LONG = "x" * (17 << 20)
ORDERS = {"dt": "DATE NOT NULL", "id": "BIGINT NOT NULL", "status": "STRING", "amount": "DECIMAL(12, 2)", "n": "INT"}
EVENTS = {"id": "INT", "at": "TIMESTAMP(3)", "z": "TIMESTAMP_LTZ(6)", "ok": "BOOLEAN", "f": "FLOAT", "l": "ARRAY<INT>"}


class Warehouse:
    """db.orders: partitioned, keyed, snapshots 2 and 3 (1 expired), tag eod. db.events: append, one snapshot.

    db.empty: no snapshot. db.rescaled: has rows in one bucket, and 2 buckets from now on.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.catalog = lc.connect(str(root))
        self.orders, self.events, self.empty, self.rescaled = (
            self.catalog.table(f"db.{name}") for name in ("orders", "events", "empty", "rescaled")
        )

    def create(self, name: str, columns: Any = ORDERS, **declared: Any) -> lc.Table:
        return self.catalog.create_table(f"db.{name}", columns, **declared)

    def connect(self, metastore: Any, options: Any = None) -> lc.Catalog:
        return lc.connect(self.root, metastore=metastore, metastore_options=options)

    def visible(self) -> dict[str, bytes]:
        """Every file that a reader could see."""
        return {
            str(path.relative_to(self.root)): path.read_bytes()
            for path in self.root.rglob("*")
            if path.is_file() and not path.name.startswith(".")
        }


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    root = tmp_path_factory.mktemp("template")
    catalog = lc.connect(str(root))
    catalog.create_database("db")
    keyed_by = {"primary_keys": ["dt", "id"], "partition_keys": ["dt"]}
    options = {"bucket": "2", "snapshot.num-retained.min": "1", "lakehouse.read.grace": "0 s"}
    orders = catalog.create_table("db.orders", ORDERS, options=options, **keyed_by)
    for number in (1, 2, 3):
        orders.write([{"dt": DAY, "id": number, "amount": number}])
    orders.expire_snapshots(retain_max=2, retain_min=2, older_than=datetime.timedelta(0))
    orders.create_tag("eod")
    catalog.create_table("db.events", EVENTS).write([{"id": 1}])
    catalog.create_table("db.empty", {"a": "INT"})
    rescaled = catalog.create_table("db.rescaled", ORDERS, options={"bucket": "1"}, **keyed_by)
    rescaled.write([{"dt": DAY, "id": 1}])
    rescaled.alter(lc.SetOption("bucket", "2"))
    return root


@pytest.fixture
def warehouse(template, tmp_path):
    return Warehouse(shutil.copytree(template, tmp_path / "warehouse"))


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
                "$x": "'$' is not allowed. Use letters, digits",
                "\u202eabc": "is not allowed",
                "e\u0301": "is not allowed",
                "CON": "names a device",
                "lpt1": "names a device",
                "sys": "reserved for system tables",
                "x" * 256: "it has 256 bytes, at most 200",
                "DB": "the database 'db' differs only by case. Choose another",
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
                "t$snapshots": "is a system table: call system_table",
                "x" * 256: "it has 256 bytes",
                "nul": "names a device",
                "Orders": "the table 'orders' differs only by case. Choose another",
                "orders": "exists already. Pass exist_ok=True",
            }.items()
        ),
        (lambda w: w.catalog.table("orders"), INVALID, "Table name 'orders': expected 'database.table'"),
        (lambda w: w.catalog.table(5), INVALID, "Table name 5"),
        (lambda w: w.catalog.table("db.order"), MISSING, "'db.order' does not exist. Did you mean orders"),
        (lambda w: w.catalog.table("bd.orders"), MISSING, "Database 'bd' does not exist in .*Did you mean db"),
        (lambda w: w.catalog.table("db.../x"), INVALID, "is not allowed"),
        (lambda w: w.catalog.table("../db.orders"), INVALID, "Table name '../db.orders': expected 'database.table'"),
        (lambda w: w.catalog.create_database("../out"), INVALID, "Invalid database name '../out'"),
        (
            lambda w: w.catalog.table("db.orders$branch_b"),
            MISSING,
            "Branch 'b' does not exist. The table has no branches",
        ),
        (lambda w: w.catalog.table("db.orders$files"), INVALID, "is a system table: call system_table"),
        (lambda w: w.catalog.tables("nope"), MISSING, "Database 'nope' does not exist"),
        (lambda w: w.catalog.compact("ordres"), MISSING, "No table matches 'ordres' in db. Did you mean"),
        (lambda w: w.catalog.compact(database="x?"), MISSING, "No database matches 'x?'"),
        (lambda w: w.catalog.compact(5), INVALID, "tables=5: expected a name or a pattern"),
        (lambda w: w.catalog.drop_table("db.nope"), MISSING, "'db.nope' does not exist"),
        (lambda w: w.catalog.drop_database("db"), INVALID, "has 4 tables (.*pass cascade=True"),
        (lambda w: w.catalog.drop_database("nope"), MISSING, "'nope' does not exist"),
        (lambda w: w.catalog.rename_table("db.nope", "db.x"), MISSING, "'db.nope' does not exist"),
        (
            lambda w: w.catalog.rename_table("db.orders", "db.events"),
            INVALID,
            "'db.events': the table or its folder already exists",
        ),
        (lambda w: w.catalog.rename_table("db.orders", "db.a b"), INVALID, "' ' is not allowed"),
        (lambda w: w.catalog.rename_table("db.orders", "nope.x"), MISSING, "'nope' does not exist"),
        *(
            (lambda w, name=name: w.orders.create_tag(name), INVALID, message)
            for name, message in {
                "": "it is blank",
                " ": "it is blank",
                "a/b": "contains a slash",
                "a\nb": "control character",
                "x" * 250: "more than",
                "eod": "exists already, at snapshot 3: delete it first",
            }.items()
        ),
        (lambda w: w.orders.create_tag("x", at=99), MISSING, "Snapshot 99 does not exist yet: the latest is 3"),
        (
            lambda w: w.orders.create_tag("x", at=1),
            lc.SnapshotExpired,
            "Snapshot 1 is expired. The earliest available is 2.",
        ),
        (
            lambda w: w.orders.create_tag("x", retention=datetime.timedelta(0)),
            INVALID,
            "expected more than 0",
        ),
        (lambda w: w.orders.delete_tag("nope"), MISSING, "Tag 'nope' does not exist. The tags are: eod"),
    ],
    "warehouse": [
        (lambda w: lc.connect(w.root, storage=5), INVALID, "connect: storage=5: expected a dict"),
        (lambda w: w.catalog.compact(properties={"run": 1}), INVALID, "names and values are text"),
        (lambda w: w.catalog.drop_database("db", cascade="no"), INVALID, "(cascade='no'): expected True or False"),
        (lambda w: lc.connect(""), INVALID, "expected a path, a file:// URI, s3://bucket/prefix or az://"),
        (lambda w: lc.connect("a\0b"), INVALID, "expected a path, a file:// URI"),
        (lambda w: lc.connect(__file__), INVALID, "is a file. Expected a folder, which need not exist yet"),
        (lambda w: lc.connect(f"file://{__file__}/below"), INVALID, "is a file. Expected a folder"),
        (lambda w: lc.connect("file://host/x"), INVALID, "found the host 'host', expected a file URI without one"),
        (lambda w: lc.connect("file:x"), INVALID, "expected an absolute path"),
        (
            lambda w: lc.connect("gs://b/wh"),
            UNSUPPORTED,
            "stores of gs: are not supported yet. Use a path, a file:// URI, s",
        ),
        (lambda w: lc.connect("s3a://b/wh"), INVALID, "found s3a:, expected s3://bucket/prefix"),
        (lambda w: lc.connect("abfss://c@a.dfs.core.windows.net/wh"), INVALID, "expected az://container/prefix"),
        (lambda w: lc.connect("/x", storage={"secret_key": "hidden"}), INVALID, "has the settings ['secret_key'], but"),
        *(
            (lambda w, given=given: w.connect(*given), kind, message)
            for given, kind, message in (
                (("postgresql://x",), INVALID, "found no database, expected postgresql://user@host/database"),
                (("mysql://h",), INVALID, "found no database, expected mysql://user@host/database"),
                (("mysql+asyncmy://h/d",), UNSUPPORTED, "the driver 'asyncmy' is not supported"),
                (("thrift://h:9083",), UNSUPPORTED, "a Hive metastore is not supported. Use a SQL catalog"),
                (("hive",), UNSUPPORTED, "metastore='hive': a Hive metastore is not supported. Use a SQL catalog"),
                (("rest",), UNSUPPORTED, "Paimon's REST catalog is not supported yet. Use a SQL catalog"),
                (("rest://h",), UNSUPPORTED, "metastore='rest': Paimon's REST catalog is not supported yet. Use a SQL"),
                (("https://h",), UNSUPPORTED, "Paimon's REST catalog is not supported yet. Use a SQL catalog"),
                (("filesystem",), INVALID, "Leave metastore out, and the folders of the warehouse are the names"),
                (("jdbc:sqlite:/c.db",), INVALID, "found an address as Java writes it (jdbc:…). Leave out 'jdbc:'"),
                (("oracle://h/d",), UNSUPPORTED, "metastore='oracle': there is no catalog of that kind"),
                (("postgresql+asyncpg://h/d",), UNSUPPORTED, "the driver 'asyncpg' is not supported"),
                (("secret canary",), INVALID, "metastore: expected the address of a database, found another text"),
                ((5,), INVALID, "metastore=5: expected the address of a database"),
                (("sqlite://",), INVALID, "a catalog in SQLite needs a file, found none"),
                (("sqlite://data/c.db",), INVALID, "found a host or settings in the address of SQLite"),
                (("postgresql://h/d?password=x",), INVALID, "found a password or a key among the settings"),
                (("mysql://h/d?passwd=x",), INVALID, "found a password or a key among the settings"),
                (("postgresql://h/d?api_key=x",), INVALID, "found a password or a key among the settings"),
                (("postgresql://h/d?password%20=x",), INVALID, "found a password or a key among the settings"),
                (("postgresql://h/d;password=x",), INVALID, "found a password or a key among the settings"),
                (("postgresql://me:x@y@h/d",), INVALID, "found a second @ in the address. Write an @ in a user or"),
                (("sqlite:////c.db", {"x": "1"}), INVALID, "no option 'x' of a SQL catalog.*Expected catalog"),
                (("sqlite:////c.db", {"lock.enable": "true"}), INVALID, "Did you mean lock.enabled?"),
                (("sqlite:////c.db", {"lock.enabled": "yes"}), INVALID, "lock.enabled is 'yes'. Expected true or"),
                (("sqlite:////c.db", {"lock.enabled": True}), INVALID, "lock.enabled is True. Expected text"),
                (("sqlite:////c.db", {"catalog-key": ""}), INVALID, "catalog-key is ''. Expected 1 to 255 letters"),
                (("sqlite:////c.db", {"jdbc.user": "ann"}), INVALID, "jdbc.user: a file of SQLite has no users. Leave"),
                (("sqlite:////c.db", {"lock-acquire-timeout": "x"}), INVALID, "lock-acquire-timeout is 'x': expected"),
                (("sqlite:////c.db", 7), INVALID, "connect: metastore_options=7: expected a dict"),
                ((None, {"lock.enabled": "true"}), INVALID, "has ['lock.enabled'], but no metastore is given"),
            )
        ),
        (lambda w: w.catalog.create_database("new", properties={"a": 1}), INVALID, "names and values are text"),
        (
            lambda w: w.catalog.create_database("new", properties={"a": "b"}),
            UNSUPPORTED,
            "a catalog of folders keeps no properties, found ['a']. Leave them out, or connect with a SQL catalog",
        ),
        (lambda w: w.catalog.database_properties("dc"), MISSING, "Did you mean db?"),
        (
            lambda w: lc.connect(str(w.root), spark=5).table("db.orders").compact(full=True),
            INVALID,
            "is not a Spark session",
        ),
    ],
    "columns and keys": [
        (new({}), INVALID, "db.t: A table needs at least one column."),
        (new({"a": "INT", "A": "INT"}), INVALID, "Column 'A' differs from column 'a' only by case. Choose another"),
        (new(pa.schema([("a", pa.int32()), ("a", pa.int32())])), INVALID, "has 2 columns named 'a': names must differ"),
        (new({"": "INT"}), INVALID, "a column named '': a name needs a character"),
        (new({"_VALUE_KIND": "INT"}), INVALID, "Column '_VALUE_KIND': the name is reserved, as are .*Choose another"),
        (new({"_KEY_a": "INT"}), INVALID, "Column '_KEY_a': the name is reserved"),
        (new({"_SEQUENCE_NUMBER": "INT"}), INVALID, "'_SEQUENCE_NUMBER': the name is reserved"),
        (new({"rowkind": "STRING"}), INVALID, "'rowkind': the name is reserved"),
        (
            new({"a": "NUMBER"}),
            INVALID,
            "Column 'a': 'NUMBER' is not a data type: unknown type NUMBER (did you mean DECIMAL?)",
        ),
        (new({"a": "DECIMAL(39, 0)"}), INVALID, "the precision of DECIMAL is 39, expected 1 to 38"),
        (new({"a": "DECIMAL(2, 3)"}), INVALID, "the scale of DECIMAL is 3, expected 0 to 2"),
        (new({"a": "VARCHAR(0)"}), INVALID, "the length of VARCHAR is 0, expected 1 to"),
        (new({"a": "TIMESTAMP(10)"}), INVALID, "the precision of TIMESTAMP is 10, expected 0 to 9"),
        (new({"a": "ARRAY<INT"}), INVALID, "'ARRAY<INT' is not a data type: expected '>'"),
        (
            new({"a": "INT"}, primary_keys=["b"], options={"bucket": "1"}),
            INVALID,
            "The primary key names column 'b', which",
        ),
        (
            new({"a": "INT"}, partition_keys=["b"]),
            INVALID,
            "The partition key names column 'b', which the table does not",
        ),
        (
            new({"a": "ARRAY<INT>"}, primary_keys=["a"], options={"bucket": "1"}),
            INVALID,
            "cannot be part of the primary",
        ),
        (new({"a": "INT"}, primary_keys=["a", "a"], options={"bucket": "1"}), INVALID, "names column 'a' 2 times"),
        (
            new({"p": "INT", "k": "INT"}, primary_keys=["k"], partition_keys=["p"], options={"bucket": "1"}),
            INVALID,
            "lacks a partition column of (p).*Add the partition columns to the primary key",
        ),
        (
            new({"p": "INT"}, primary_keys=["p"], partition_keys=["p"], options={"bucket": "1"}),
            INVALID,
            "has partition columns only",
        ),
        (new({"k": "INT", "v": "VARIANT"}), UNSUPPORTED, "Column v: the type VARIANT is not supported yet"),
    ],
    "options": [
        (keyed(**{"snapshot.num-retain.min": "1"}), INVALID, "did you mean snapshot.num-retained.min?"),
        (
            keyed(**{"snapshot.num-retained.min": "9", "snapshot.num-retained.max": "2"}),
            INVALID,
            "min is 9, .max is 2: set 1 <= min",
        ),
        (keyed(**{"snapshot.time-retained": "1 fortnight"}), INVALID, "is '1 fortnight': expected a duration such as"),
        (keyed(**{"target-file-size": "many"}), INVALID, "Option target-file-size is 'many': expected a size such as"),
        (
            keyed(**{"metadata.stats-mode": "most"}),
            INVALID,
            "Option metadata.stats-mode is 'most': expected none, counts, full",
        ),
        (
            keyed(**{"fields.nope.stats-mode": "full"}),
            INVALID,
            "names the column 'nope', which the table does not have",
        ),
        (keyed(**{"bucket": "0"}), INVALID, "Option bucket is 0: expected 1 or more, -1, or with a primary key -2"),
        (keyed(**{"bucket": "one"}), INVALID, "Option bucket is 'one': expected a whole number"),
        (keyed(**{"dynamic-bucket.target-row-num": "0"}), INVALID, "target-row-num is 0: expected at least 1."),
        (keyed(**{"dynamic-bucket.max-buckets": "40000"}), INVALID, "max-buckets is 40000: expected at most 32767."),
        (keyed(**{"bucket-key": "v"}), INVALID, "bucket-key names v, which is not in the primary key (k)"),
        (
            keyed(**{"bucket-function.type": "mod", "bucket-key": "nope"}),
            INVALID,
            "bucket-key names 'nope', which is no",
        ),
        (
            keyed(**{"bucket": "-2", "postpone.merge-on-read": "yes"}),
            INVALID,
            "Option postpone.merge-on-read is 'yes': expected true or false",
        ),
        (keyed(**{"merge-engine": "best"}), INVALID, "Option merge-engine is 'best': expected one of"),
        (
            keyed(**{"merge-engine": "aggregation", "fields.v.aggregate-function": "sun"}),
            INVALID,
            "fields.v.aggregate-function is 'sun', which is not an aggregate function: did you mean sum",
        ),
        (keyed(**{"merge-engine": "first-row", "changelog-producer": "input"}), INVALID, "take none or lookup"),
        (keyed(**{"merge-engine": "first-row", "deletion-vectors.enabled": "true"}), INVALID, "which deletes nothing"),
        (keyed(**{"changelog-producer": "both"}), INVALID, "Option changelog-producer is 'both': expected one of"),
        (
            keyed(**{"deletion-vectors.enabled": "true", "changelog-producer": "full-compaction"}),
            INVALID,
            "take none, input or lookup",
        ),
        (
            keyed(**{"changelog-producer": "lookup", "full-compaction.delta-commits": "3"}),
            INVALID,
            "changelog-producer is lookup and full-compaction.delta-commits is set",
        ),
        (
            new({"v": "INT"}, options={"full-compaction.delta-commits": "3"}),
            INVALID,
            "full-compaction.delta-commits is set for an append table without buckets",
        ),
        (keyed(**{"row-tracking.enabled": "true"}), UNSUPPORTED, "Option row-tracking.enabled = true is not supported"),
        (keyed(**{"commit.callbacks": "x"}), UNSUPPORTED, "Option commit.callbacks = x is not supported"),
        (
            keyed(**{"changelog.precommit-compact.buffer-size": "2 gb"}),
            INVALID,
            "Option changelog.precommit-compact.buffer-size is 2 gb: expected at most 2147483647",
        ),
        (keyed(**{"file.format": "csv"}), UNSUPPORTED, "file.format = csv .*: set avro, orc or parquet"),
        (keyed(**{"file.format": "parqet"}), UNSUPPORTED, "did you mean parquet? Set avro, orc or parquet"),
        (keyed(**{"file.compression": "ztsd"}), UNSUPPORTED, "did you mean zstd? Set zstd, snappy, gzip, lz4"),
        (keyed(**{"changelog-file.format": "parqet"}), UNSUPPORTED, "did you mean parquet"),
        (keyed(**{"spill-compression": "lz5"}), UNSUPPORTED, "did you mean lz4? Set lz4, none or zstd"),
        (
            new(
                {"dt": "STRING", "v": "STRING"},
                partition_keys=["dt"],
                options={"partition.timestamp-pattern": "$dt $hour"},
            ),
            INVALID,
            "$hour names no partition column; the table is partitioned by $dt",
        ),
        (
            new({"v": "STRING"}, options={"partition.timestamp-pattern": "$v"}),
            INVALID,
            "$v names no partition column; the table is partitioned by no columns",
        ),
        (
            keyed(**{"file.format": "avro", "file.compression": "lz4"}),
            UNSUPPORTED,
            "lz4 does not go with files of avro: set zstd, zstandard, snappy, deflate or null",
        ),
        (keyed(**{"file.format.per.level": "0:csv"}), UNSUPPORTED, "file.format.per.level names the format csv"),
        (keyed(**{"sequence.field": "nope"}), INVALID, "sequence.field names 'nope', which is not a column"),
        (keyed(**{"rowkind.field": "nope"}), INVALID, "rowkind.field names 'nope', which is not a column"),
        (new({"a": "INT"}, options={"changelog-producer": "input"}), INVALID, "only a table with a primary key"),
        (new({"a": "INT"}, options={"bucket": "2"}), INVALID, "set bucket-key, or bucket to -1"),
        (keyed(**{"s3.secret-key": "x"}), INVALID, "is an option of a catalog, not of a table. Pass it"),
    ],
    "rows": [
        (orders({"id": None}), INVALID, "Column 'id' is the primary key and row 0 holds null"),
        (orders({}, {"dt": None}), INVALID, "Column 'dt' is the primary key and row 1 holds null"),
        (orders({"amuont": 1}), INVALID, "column 'amuont', which the table does not have. Did you mean amount"),
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
        (
            lambda w: w.orders.write("rows.csv"),
            INVALID,
            "Cannot write str: expected an object with an Arrow stream.* For a file write lc.RowFiles('rows.csv')",
        ),
        (lambda w: w.orders.write(None), INVALID, "Cannot write NoneType"),
        (
            lambda w: w.orders.write([{"ID": 1}]),
            INVALID,
            "a column 'ID', which the table does not have. Did you mean id?",
        ),
        (lambda w: w.orders.write([1, 2]), INVALID, "Cannot write a list whose row 0 is int"),
        (events("id", [1, 2**40]), INVALID, "Row 1, column 'id': 1099511627776 does not fit INT without loss"),
        (events("id", ["1"]), INVALID, "'id' is INT and the data has string: cast it to int32"),
        (events("id", [True]), INVALID, "'id' is INT and the data has bool"),
        (events("f", [0.5, 0.1]), INVALID, "Row 1, column 'f': 0.1 does not fit FLOAT without loss"),
        (events("at", [1], pa.timestamp("us")), INVALID, "Row 0, column 'at': .*does not fit TIMESTAMP(3)"),
        (events("at", [1], pa.timestamp("ms", "UTC")), INVALID, "'at' is TIMESTAMP(3) and the data has timestamp"),
        (events("ok", [1]), INVALID, "'ok' is BOOLEAN and the data has int64"),
        (events("l", [["x"]]), INVALID, "'l' is ARRAY<INT>"),
        (events("nope", [1]), INVALID, "column 'nope', which the table does not have"),
        (lambda w: w.events.write(pa.table([[1], [2]], names=["id", "id"])), INVALID, "two columns 'id'"),
    ],
    "row kinds": [
        (orders({"op": "X"}, rowkind_column="op"), INVALID, "Row 0, column 'op': 'X' is not a row kind: use"),
        (
            orders({"op": "+I"}, {"op": None}, rowkind_column="op"),
            INVALID,
            "Row 1, column 'op': null is not a row kind",
        ),
        (orders({"op": "+i"}, rowkind_column="op"), INVALID, "'+i' is not a row kind"),
        (orders({}, rowkind_column="op"), INVALID, "no column 'op', the column of row kinds"),
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
    "buckets": [
        (
            lambda w: w.rescaled.write([{"dt": DAY, "id": 2}]),
            INVALID,
            "partition dt=2013-01-01 has files in 1 buckets, and the table's option bucket is now 2. Call rescale",
        ),
    ],
    "partitions": [
        (lambda w: w.orders.overwrite([], partition={"d": DAY}), INVALID, "not partitioned by it. Did you mean dt"),
        (lambda w: w.orders.overwrite([], partition={"dt": "2024-02-31"}), INVALID, "dt='2024-02-31'.*no such day"),
        (lambda w: w.orders.overwrite([], partition={"dt": 1.5}), INVALID, "Partition dt=1.5"),
        (lambda w: w.orders.overwrite([], partition={"dt": DAY}, dynamic=True), INVALID, "expected at most one"),
        (lambda w: w.events.overwrite([], partition={"id": 1}), INVALID, "the table is not partitioned"),
        (lambda w: w.orders.compact(full=True, partition={"x": 1}), INVALID, "not partitioned by it"),
        (
            lambda w: w.orders.overwrite([{"dt": "2013-01-02", "id": 1}], partition={"dt": DAY}),
            INVALID,
            "The overwrite of dt=2013-01-01 has rows of other partitions. Leave them out",
        ),
    ],
    "reading": [
        (scan(columns=["idd"]), INVALID, "there is no column 'idd'. Did you mean id"),
        (scan(columns=[]), INVALID, "at least one column name"),
        (scan(columns="id"), INVALID, "give a list"),
        (scan(columns=["id", "id"]), INVALID, "names a column twice"),
        # What fits no table is refused at once, by the line that says it.
        (lambda w: w.orders.scan(columns="id"), INVALID, "db.orders: columns='id': give a list"),
        (lambda w: w.orders.scan(columns=["id", "id"]), INVALID, "names a column twice"),
        (lambda w: w.orders.scan(columns=[5]), INVALID, "columns=[5]: give a list of column names"),
        (lambda w: w.orders.scan(limit=-2), INVALID, "db.orders: limit=-2: expected a number of rows, 0 or more"),
        (lambda w: w.orders.scan(limit="5"), INVALID, "limit='5': expected a number of rows"),
        (
            lambda w: w.orders.scan(options={"bucket": "1"}),
            INVALID,
            "option bucket is not a read option. Read options: ",
        ),
        (lambda w: w.orders.scan(options={"scan.tag": "a"}), INVALID, "not a read option. Did you mean scan.tag-name"),
        (
            lambda w: w.orders.scan(at=lc.Latest(), options={"scan.snapshot-id": "1"}),
            INVALID,
            "both name a read point. Give one of them",
        ),
        (lambda w: w.orders.lookup([], columns="id"), INVALID, "columns='id': give a list"),
        (lambda w: w.orders.lookups(columns="id"), INVALID, "columns='id': give a list"),
        (scan(where="nope = 1"), INVALID, "'nope', which the table does not have"),
        (scan(where="id = 'x'"), INVALID, "column 'id': 'x'"),
        (scan(where="id = NULL"), INVALID, "compared with NULL, which is never true: use IS NULL"),
        (scan(where="id = amount"), INVALID, "where a literal is expected"),
        (scan(where="status = 5"), INVALID, "'status': 5 is not a value of STRING"),
        (scan(where=lc.col("id")), INVALID, "expected SQL text, or a condition"),
        (scan(where=5), INVALID, "where=5"),
        (scan(where=["id > 0", None]), INVALID, "where=None: expected SQL text, or a condition"),
        (scan(where=["id > 0) OR (id < 9"]), INVALID, "'id > 0) OR (id < 9' is not SQL"),
        (lambda w: w.events.scan(where="l = 1").to_arrow(), INVALID, "only IS NULL applies"),
    ],
    "time travel": [
        (scan(at=lc.AtSnapshot(0)), INVALID, "ids start at 1"),
        (scan(at=lc.AtSnapshot(-1)), INVALID, "ids start at 1"),
        (scan(at=lc.AtSnapshot(1)), lc.SnapshotExpired, "Snapshot 1 is expired. The earliest available is 2"),
        (scan(at=lc.AtSnapshot(99)), MISSING, "Snapshot 99 does not exist yet: the latest is 3"),
        (scan(at=lc.AtTag("nope")), MISSING, "Tag 'nope' does not exist. The tags are: eod"),
        (scan(at=lc.AsOf(datetime.datetime(1999, 1, 1))), lc.SnapshotExpired, "No snapshot at 1999-01-01.* or before"),
        (
            lambda w: w.events.scan(at=lc.AsOf(datetime.datetime(1999, 1, 1))).count(),
            MISSING,
            "No snapshot at 1999",
        ),
        (lambda w: lc.AsOf("2013"), INVALID, "AsOf('2013'): expected a datetime, a date, or text in ISO 8601"),
        (lambda w: lc.AsOf(1359633600), INVALID, "expected a datetime, a date, or text in ISO 8601"),
        (lambda w: lc.AsOf(pd.NaT), INVALID, "expected a datetime, a date, or text in ISO 8601"),
        (lambda w: w.orders.scan(at=3), INVALID, "for the snapshot of this id write at=lc.AtSnapshot(3)."),
        (lambda w: w.orders.scan(at="3"), INVALID, "for the snapshot of this id write at=lc.AtSnapshot(3)."),
        (lambda w: w.orders.scan(at="eod"), INVALID, "for the snapshot of a tag write at=lc.AtTag('eod')."),
        (lambda w: w.orders.scan(at="latest"), INVALID, "for the newest snapshot write at=lc.Latest()."),
        (lambda w: w.orders.scan(at="2013-01-05"), INVALID, "at this time write at=lc.AsOf('2013-01-05')."),
        (
            lambda w: w.orders.scan(at=datetime.datetime(2013, 1, 5, 10)),
            INVALID,
            "for the newest snapshot at this time write at=lc.AsOf('2013-01-05T10:00:00').",
        ),
        (lambda w: w.orders.scan(at=DAY), INVALID, "when this day began write at=lc.AsOf('2013-01-01')."),
        (lambda w: w.orders.scan(at=w.orders.snapshot()), INVALID, "write at=lc.AtSnapshot(3)."),
        (lambda w: w.orders.scan(at=lc.Latest), INVALID, "Latest is a class: write at=lc.Latest()."),
        (lambda w: w.orders.scan(at=lc.AsOf), INVALID, "AsOf is a class: write at=lc.AsOf(…)."),
        (lambda w: w.orders.scan(at=3.0), INVALID, "expected a point such as lc.Latest(), lc.AtSnapshot(12)"),
        (lambda w: w.orders.lookup([(DAY, 1)], at=3), INVALID, "write at=lc.AtSnapshot(3)."),
        (lambda w: w.orders.lookups(at="eod"), INVALID, "write at=lc.AtTag('eod')."),
        (lambda w: w.orders.files(at=3), INVALID, "write at=lc.AtSnapshot(3)."),
        (lambda w: w.orders.buckets(at="eod"), INVALID, "write at=lc.AtTag('eod')."),
        (lambda w: w.orders.manifests(at=3), INVALID, "write at=lc.AtSnapshot(3)."),
        (lambda w: w.orders.manifests(at=lc.LatestDelta()), INVALID, "means changes, not a state"),
        (lambda w: w.orders.create_tag("x", at="eod"), INVALID, "write at=lc.AtTag('eod')."),
        (lambda w: w.orders.create_tag("x", at=True), INVALID, "expected a snapshot id"),
        (lambda w: w.orders.changes("eod").to_arrow(), INVALID, "after='eod': expected a snapshot id"),
        (lambda w: w.orders.changes(lc.AtSnapshot(2)).to_arrow(), INVALID, "write after=2"),
        (lambda w: w.orders.diff(lc.AtTag("eod"), lc.AtSnapshot(3)).to_arrow(), INVALID, "write after='eod'"),
        (lambda w: w.orders.changes("eod"), INVALID, "after='eod': expected a snapshot id"),
        (lambda w: w.orders.changes(after=-1), INVALID, "after=-1"),
        (lambda w: w.orders.changes(after=3, until=2), INVALID, "ends before it begins"),
        (lambda w: w.orders.diff("eod", 3), INVALID, "diff: after='eod' and until=3: give two snapshot ids, or two"),
        (lambda w: w.orders.diff(3, 2), INVALID, "ends before it begins"),
        (lambda w: w.orders.changes(after=0).to_arrow(), lc.SnapshotExpired, "Snapshot 1 is expired"),
        (lambda w: w.orders.changes(after=3, until=2).to_arrow(), INVALID, "ends before it begins"),
        (lambda w: w.orders.changes(after=2, until=9).to_arrow(), MISSING, "Snapshot 9 does not exist yet"),
        (lambda w: w.orders.changes(after=-1).to_arrow(), INVALID, "after=-1"),
        (lambda w: w.orders.snapshot(1), lc.SnapshotExpired, "earliest available is 2"),
        (lambda w: w.empty.scan(at=lc.AtSnapshot(1)).count(), MISSING, "the table has no snapshot yet"),
    ],
    "wrong types": [
        (lambda w: lc.connect(5), INVALID, "Warehouse 5: expected a path"),
        (
            lambda w: lc.connect("wh", spark="local[2]"),
            INVALID,
            "connect: spark='local[2]' is not a Spark session. Pass",
        ),
        (lambda w: lc.connect("wh", spark=False), INVALID, "connect: spark=False is not a Spark session. Pass"),
        (lambda w: lc.connect("wh", spark=dict), INVALID, "connect: spark=<class 'dict'> is not a Spark session. Pass"),
        (lambda w: w.catalog.create_database(5), INVALID, "Invalid database name 5: expected text"),
        (new(5), INVALID, "schema=5: expected a dict from column names to SQL types"),
        (new({"a": "INT"}, options=["bucket"]), INVALID, "options=['bucket']: expected a dict"),
        (
            new({"a": "INT"}, options={"bucket": 4}),
            INVALID,
            "Option 'bucket' = 4: keys and values of options are text, as in \"4\".",
        ),
        (new({"a": "INT"}, options={"write-only": True}), INVALID, 'options are text, as in "true".'),
        (lambda w: w.orders.scan(options={"scan.snapshot-id": 2}), INVALID, 'options are text, as in "2".'),
        (new(pd.DataFrame({"a": [1]})), INVALID, "DataFrame, which has a schema but is not one: pass"),
        (new(pa.table({"a": [1]})), INVALID, "pyarrow Table, which has a schema but is not one: pass table."),
        (lambda w: new(w.orders)(w), INVALID, "lakehouse_core Table, which has a schema but is not one: pass"),
        (new({"a": "INT"}, primary_keys="a"), INVALID, "give a list of column names"),
        (new({"a": "INT"}, comment=5), INVALID, "The comment of the table is 5: expected text"),
        (scan(at=3), INVALID, "at=3: for the snapshot of this id write at=lc.AtSnapshot(3)."),
        (lambda w: w.empty.files(at="eod"), INVALID, "at='eod': for the snapshot of a tag write at=lc.AtTag('eod')."),
        (scan(columns=5), INVALID, "columns=5: give a list"),
        (lambda w: lc.col(5), INVALID, "col(5): expected the name of a column"),
        (lambda w: w.orders.snapshot("1"), INVALID, "AtSnapshot('1'): expected a snapshot id"),
        (lambda w: w.orders.create_tag(5), INVALID, "Tag 5: expected a text as its name"),
        (
            lambda w: w.orders.create_tag("a", at="1"),
            INVALID,
            "at='1': for the snapshot of this id write at=lc.AtSnapshot(1).",
        ),
        (lambda w: w.orders.create_tag("a", retention=5), INVALID, "retention=5: expected a timedelta"),
        (lambda w: w.orders.expire_snapshots(retain_max="1"), INVALID, "retain_max='1': expected a number"),
        (alter("note"), INVALID, "'note' is not a change, such as AddColumn"),
        (lambda w: w.orders.changes(after=None).plan(), INVALID, "changes: after=None: expected a snapshot id"),
        (lambda w: w.orders.diff(2, None).plan(), INVALID, "diff: until=None: give two snapshot ids"),
        (lambda w: w.orders.diff(99, None).plan(), INVALID, "diff: until=None: give two snapshot ids"),
        (scan(columns=[["id"]]), INVALID, "columns=[['id']]: give a list of column names"),
        (lambda w: w.orders.scan(options=5), INVALID, "options=5: expected a dict"),
        (lambda w: w.orders.system("files", options=5), INVALID, "options=5: expected a dict"),
        (lambda w: w.orders.system(["files"]), MISSING, "system table ['files'] does not exist"),
        (lambda w: w.orders.pending(5, 1), INVALID, "commit_user is 5: expected a name"),
        (lambda w: w.orders.keep_pending(5), INVALID, "keep_pending(5): expected what stage"),
        (lambda w: w.orders.forget_pending(5), INVALID, "forget_pending(5): expected what stage"),
        (lambda w: w.orders.delete_tag(5), INVALID, "AtTag: the name is 5"),
        (lambda w: w.orders.lookup([], cache="a\0b"), INVALID, "cache='a\\x00b': expected the path of a directory"),
        (lambda w: w.orders.compact(full="no"), INVALID, "db.orders: compact(full='no'): expected True or False"),
        (lambda w: w.orders.expire_snapshots(dry_run=None), INVALID, "(dry_run=None): expected True or False"),
        (lambda w: w.orders.compact_manifests(dry_run=0), INVALID, "(dry_run=0): expected True or False"),
        (lambda w: w.orders.compact_manifests(properties=5), INVALID, "properties=5: expected a dict"),
        (lambda w: w.orders.compact_manifests(properties={"lakehouse.nonce": "x"}), INVALID, "is reserved"),
        (lambda w: lc.connect("a\ud800"), INVALID, "Warehouse 'a\\ud800': expected a path"),
        (new({"a": "INT"}, primary_keys=[["a"]]), INVALID, "The primary-key is [['a']]: give a list of column names"),
        (new({"a": "INT"}, partition_keys=5), INVALID, "The partition is 5: give a list of column names"),
        (orders({}, rowkind_column=["op"]), INVALID, "rowkind_column is ['op']: expected text"),
        (
            lambda w: w.orders.stage([], commit_user="u", commit_identifier=1, behind=[5]),
            INVALID,
            "behind=[5]: expected a list of what stage returned",
        ),
    ],
    "names of arguments": [
        (
            lambda w: w.orders.scan(snapshot=1),
            INVALID,
            "db.orders: scan: there is no argument 'snapshot'. Write at=lc.AtSnapshot(1).",
        ),
        (
            lambda w: w.orders.create_tag("a", snapshot_id=1),
            INVALID,
            "create_tag: there is no argument 'snapshot_id'. ",
        ),
        (lambda w: w.orders.files(tag="eod"), INVALID, "files: there is no argument 'tag'. Write at=lc.AtTag('eod')."),
        (lambda w: w.orders.changes(version=1), INVALID, "there is no argument 'version'. It has after, until."),
        (lambda w: w.orders.scan(column=["id"]), INVALID, "there is no argument 'column'. Did you mean columns?"),
        (lambda w: w.orders.scan(filter="id = 1"), INVALID, "there is no argument 'filter'. Did you mean where?"),
        (lambda w: w.orders.scan(fields=["id"]), INVALID, "there is no argument 'fields'. Did you mean columns?"),
        (
            lambda w: w.orders.write([], mode="append"),
            INVALID,
            "write adds rows, and replaces those of the same primary",
        ),
        (
            lambda w: w.orders.schemas(limit=1),
            INVALID,
            "schemas: there is no argument 'limit'. It has none: leave it out.",
        ),
        (
            new({"a": "INT"}, if_not_exists=True),
            INVALID,
            "Catalog: create_table: there is no argument 'if_not_exists'. Did",
        ),
        (
            new({"a": "INT"}, partition_by=["a"]),
            INVALID,
            "there is no argument 'partition_by'. Did you mean partition_keys",
        ),
        (
            lambda w: w.orders.scan().to_spark(spark=1),
            INVALID,
            "db.orders: to_spark: there is no argument 'spark'. Did you",
        ),
        (
            lambda w: lc.connect("x", catalog="y"),
            INVALID,
            "connect: there is no argument 'catalog'. It has warehouse, ",
        ),
        (lambda w: w.orders.scan().to_pandas(columns=["id"]), INVALID, "db.orders: to_pandas: there is no argument"),
        (
            lambda w: lc.RowFiles("a.csv", sep=";"),
            INVALID,
            "RowFiles: there is no argument 'sep'. Did you mean delimiter?",
        ),
        (
            lambda w: lc.AtSnapshot(snapshot_id=1),
            INVALID,
            "AtSnapshot: there is no argument 'snapshot_id'. Did you mean id?",
        ),
        (
            lambda w: lc.AsOf(timestamp="2013-01-31"),
            INVALID,
            "AsOf: there is no argument 'timestamp'. Did you mean time?",
        ),
        (lambda w: lc.AddColumn("a", typ="INT"), INVALID, "AddColumn: there is no argument 'typ'. Did you mean type?"),
        (lambda w: lc.WhenMatched({"a": 1}), INVALID, "Write their names: update=…, delete=… or where=…."),
        (lambda w: lc.WhenNotMatched(), INVALID, "WhenNotMatched: insert is missing. Write WhenNotMatched(insert=…)."),
        (lambda w: lc.register(), INVALID, "register: session is missing. Write register(session=…)."),
        (
            lambda w: w.orders.compact(True),
            INVALID,
            "compact: found 1 argument without a name, expected 0 at most. Write their names: full=…, ",
        ),
        (
            lambda w: lc.connect("s3://b", {"s3.secret-key": "hunter2"}),
            INVALID,
            "connect: found 2 arguments without a name, expected 1 at most. Write their names: profile=…, ",
        ),
        (
            lambda w: w.catalog.create_table("db.u", {"a": "INT"}, ["a"]),
            INVALID,
            "create_table: found 3 arguments without a name, expected 2 at most. Write their names: partition_keys",
        ),
        (
            lambda w: w.orders.delete_tag("a", "hunter2"),
            INVALID,
            "delete_tag: found 2 arguments without a name, expected 1 at most. Write delete_tag(dry_run=…).",
        ),
        (
            lambda w: w.orders.snapshots(1, 2),
            INVALID,
            "found 2 arguments without a name, expected 0 at most. Leave it out.",
        ),
        (
            lambda w: w.orders.scan(["id"], columns=["id"]),
            INVALID,
            "columns is given twice, by its place and by its name",
        ),
        (lambda w: w.orders.delete(), INVALID, "delete: where is missing. Write delete(where=…)."),
        (
            lambda w: w.orders.stage([]),
            INVALID,
            "stage: commit_user and commit_identifier are missing. Write stage(commit_user=…, commit_identifier=…).",
        ),
    ],
    "values": [
        (lambda w: lc.AtSnapshot("3"), INVALID, "expected a snapshot id"),
        (lambda w: lc.AddColumn(5, "INT"), INVALID, "AddColumn: name is 5: give a column's name"),
        (lambda w: lc.AddColumn("x", 5), INVALID, "AddColumn: type is 5: expected text"),
        (lambda w: lc.AddColumn("x", "INT", first="no"), INVALID, "AddColumn: first is 'no': expected True or False"),
        (lambda w: lc.AddColumn("x", "INT", after=5), INVALID, "AddColumn: after is 5: expected text"),
        (lambda w: lc.DropColumn(()), INVALID, "DropColumn: name is (): give a column's name"),
        (lambda w: lc.RenameColumn("n", 5), INVALID, "RenameColumn: new_name is 5: expected text"),
        (lambda w: lc.UpdateColumnNullability("n", 1), INVALID, "nullable is 1: expected True or False"),
        (lambda w: lc.UpdateColumnDefault(("n",), "5"), INVALID, "UpdateColumnDefault: name is ('n',): expected text"),
        (lambda w: lc.UpdateColumnDefault("n", 5), INVALID, "UpdateColumnDefault: default is 5: expected text"),
        (lambda w: lc.UpdateColumnComment("n", 5), INVALID, "UpdateColumnComment: comment is 5: expected text"),
        (lambda w: lc.UpdateComment(5), INVALID, "UpdateComment: comment is 5: expected text"),
        (lambda w: lc.SetOption("bucket", 4), INVALID, 'SetOption: value is 4: expected text, as in "4".'),
        (lambda w: lc.MoveColumn("n", last=1), INVALID, "MoveColumn: last is 1: expected True or False"),
        (lambda w: lc.RemoveOption(5), INVALID, "RemoveOption: key is 5: expected text"),
        (lambda w: lc.AtTag(5), INVALID, "AtTag: the name is 5: expected text"),
        (lambda w: lc.AtSnapshot(2**63), INVALID, "AtSnapshot(9223372036854775808): expected a snapshot id"),
        (lambda w: lc.StaticOverwrite(5), INVALID, "StaticOverwrite(5): expected a dict from columns to texts"),
        (lambda w: lc.StaticOverwrite({"dt": 5}), INVALID, "StaticOverwrite: 'dt' = 5: columns and the values"),
        (lambda w: lc.col("n").isin(5), INVALID, "col('n').isin(5): expected a list of values"),
        (lambda w: lc.col("n").isin("ab"), INVALID, "col('n').isin('ab'): expected a list of values"),
        (lambda w: w.orders.schema.field(5), INVALID, "Column 5: expected the name of a column"),
        (
            lambda w: lc.UpdateComment(LONG),
            INVALID,
            "UpdateComment: comment has 17825792 bytes, at most 65536 are kept",
        ),
        (lambda w: lc.UpdateColumnComment("n", LONG), INVALID, "comment has 17825792 bytes, at most 65536 are kept"),
        (lambda w: lc.UpdateColumnDefault("n", LONG), INVALID, "default has 17825792 bytes, at most 65536 are kept"),
        (lambda w: lc.SetOption("file.format", LONG), INVALID, "SetOption: value has 17825792 bytes"),
        (lambda w: lc.UpdateComment("a\ud800"), INVALID, "comment is 'a\\ud800', which holds half of a surrogate pair"),
        (lambda w: lc.AtTag("\udfff"), INVALID, "which holds half of a surrogate pair: write whole characters"),
    ],
    "folders for data files": [
        *(
            (new(options={"data-file.path-directory": folder}), INVALID, message)
            for folder, message in {
                "../elsewhere": "expected a folder below the table's",
                "/data": "expected a folder below the table's",
                "a/../b": "expected a folder below the table's",
                "a//b": "expected a folder below the table's",
                "a\\b": "expected plain, visible names of folders",
                "a\0b": "expected plain, visible names of folders",
                "a\nb": "expected plain, visible names of folders",
                "data/.hidden": "expected plain, visible names of folders",
                "_data": "expected plain, visible names of folders",
                "x" * 256: "a name has 255 bytes at most",
                **{
                    folder: "holds other files of the table. Choose another name, such as data."
                    for folder in (
                        *("snapshot", "schema", "manifest", "index", "statistics", "tag", "branch", "changelog"),
                        *("consumer", "lakehouse", "Snapshot", "snapshot/data"),
                    )
                },
            }.items()
        ),
    ],
    "what no file can hold": [
        (new({"a": "INT"}, comment=LONG), INVALID, "The comment of the table has 17825792 bytes"),
        (new({"a": "INT"}, options={"partition.default-name": LONG}), INVALID, "has 17825792 bytes, at most 65536"),
        (new({"a": f"ROW<b INT '{'x' * 70_000}'>"}), INVALID, "The comment of column 'b' has 70000 bytes"),
        (new({LONG: "INT"}), INVALID, "The name of a column has 17825792 bytes, at most 255 are kept"),
        (new({"x" * 256: "INT"}), INVALID, "The name of a column has 256 bytes, at most 255 are kept"),
        (new({"a\0b": "INT"}), INVALID, "'a\\x00b': the control character '\\x00' is not allowed in a name"),
        (new({"a\nb": "INT"}), INVALID, "Column 'a\\nb': the control character '\\n' is not allowed in a name"),
        (new({"a\u2028b": "INT"}), INVALID, "the control character '\\u2028' is not allowed in a name"),
        (new({"a": "MAP<INT, ARRAY<ROW<`b\nc` INT>>>"}), INVALID, "Column 'b\\nc': the control character"),
        (new(pa.schema([("a\x7f", pa.int32())])), INVALID, "the control character '\\x7f' is not allowed"),
        (alter(lc.AddColumn("a\0b", "INT")), INVALID, "the control character '\\x00' is not allowed"),
        (alter(lc.AddColumn("a", "ROW<`b\nc` INT>")), INVALID, "Column 'b\\nc': the control character"),
        (alter(lc.RenameColumn("n", "a\rb")), INVALID, "the control character '\\r' is not allowed"),
        (alter(lc.RenameColumn("n", "x" * 256)), INVALID, "The name of a column has 256 bytes"),
        (
            new({f"c{number}": "INT" for number in range(10_001)}),
            INVALID,
            "would have 10001 columns, nested fields included: at most 10000 are allowed",
        ),
        (orders({"status": "a\ud800"}), INVALID, "Row 0, column 'status': 'a\\ud800' is not a value of STRING"),
        (scan(where=lc.col("status") == "\ud800"), INVALID, "it holds half of a surrogate pair"),
        (orders({}, properties={"run": LONG}), INVALID, "Snapshot property 'run' has 17825792 bytes, at most 1048576"),
        (
            orders({}, properties={f"run {number}": "x" * 60_000 for number in range(20)}),
            INVALID,
            "The snapshot properties have 1200110 bytes, at most 1048576 are kept",
        ),
        (orders({}, properties={"run": "\ud800"}), INVALID, "which holds half of a surrogate pair"),
        (
            lambda w: w.orders.stage([], commit_user="x" * 1001, commit_identifier=1),
            INVALID,
            "The commit user has 1001 bytes, at most 1000 are kept",
        ),
        (
            lambda w: w.orders.stage([], commit_user="\ud800", commit_identifier=1),
            INVALID,
            "The commit user is '\\ud800', which holds half of a surrogate pair",
        ),
        (lambda w: w.orders.commit("x"), INVALID, "commit('x'): expected what stage"),
        (lambda w: lc.StagedCommit.from_json(5), INVALID, "staged commit: expected the text of to_json"),
        (lambda w: w.orders.stage([], commit_user=5, commit_identifier=1), INVALID, "expected a name. By it"),
        (lambda w: w.orders.stage([], commit_user="u", commit_identifier="1"), INVALID, "Commit identifier '1' of u"),
        (lambda w: w.orders.stage([], commit_user="u", commit_identifier=1, mode="x"), INVALID, "mode='x': expected"),
        (orders({}, properties={"run": 1}), INVALID, "Snapshot property 'run' = 1: names and values are text"),
        (lambda w: w.orders.overwrite([], partition="x"), INVALID, "partition='x': expected a dict"),
        (lambda w: w.orders.overwrite([], partition={}), INVALID, "partition={}: expected a value"),
        (lambda w: w.orders.overwrite([], partition={None: 1}), INVALID, "Partition column None: expected the name of"),
        (lambda w: w.orders.compact(full=True, partition="x"), INVALID, "partition='x': expected a dict"),
    ],
    "schema changes": [
        (alter(), INVALID, "at least one change"),
        (alter(lc.AddColumn("id", "INT")), INVALID, "Column id exists already: choose another name"),
        (
            alter(lc.AddColumn("x", "INT NOT NULL")),
            INVALID,
            "a new column is NULL in existing rows, so it cannot be NOT NULL",
        ),
        (alter(lc.AddColumn("x", "INT", after="nope")), INVALID, "There is no column nope. Columns: dt, id,"),
        (alter(lc.AddColumn("_VALUE_KIND", "INT")), INVALID, "'_VALUE_KIND': the name is reserved"),
        (alter(lc.AddColumn("ID", "INT")), INVALID, "Column 'ID' differs from column 'id' only by case"),
        (alter(lc.RenameColumn("n", "Amount")), INVALID, "Column 'Amount' differs from column 'amount'"),
        (alter(lc.DropColumn("id")), INVALID, "Column id is part of the primary key: it cannot be dropped"),
        (alter(lc.DropColumn("dt")), INVALID, "Column dt is part of the partition key: it cannot be dropped"),
        (alter(lc.DropColumn("ammount")), INVALID, "There is no column ammount. Did you mean amount?"),
        (alter(lc.RenameColumn("dt", "day")), INVALID, "Column dt is part of the partition key: folder names"),
        (alter(lc.RenameColumn("n", "status")), INVALID, "Column status exists already"),
        (alter(lc.UpdateColumnType("id", "INT")), INVALID, "is part of the primary key: it never changes its type"),
        (alter(lc.UpdateColumnType("n", "ARRAY<INT>")), INVALID, "Column n: INT cannot become ARRAY<INT>"),
        (alter(lc.UpdateColumnNullability("n", False)), INVALID, "Column n may hold nulls, so it stays nullable"),
        (alter(lc.SetOption("bucket", "-1")), INVALID, "Option bucket is 2 and cannot become -1"),
        (alter(lc.SetOption("merge-engine", "aggregation")), INVALID, "is deduplicate and the table has data"),
        (alter(lc.SetOption("snapshot.num-retain.min", "1")), INVALID, "did you mean snapshot.num-retained.min?"),
        (alter(lc.RemoveOption("bucket")), INVALID, "Option bucket cannot be removed: it is the number"),
        (alter(lc.AddColumn("ok", "INT"), lc.DropColumn("nope")), INVALID, "There is no column nope"),
    ],
    "commits": [
        (
            lambda w: w.orders.stage([], commit_user="", commit_identifier=1),
            INVALID,
            "expected a name. By it",
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
            "found a commit staged for db.orders. Commit it to that table",
        ),
        (lambda w: lc.StagedCommit.from_json("{"), INVALID, "staged commit: not one complete JSON object"),
        (
            lambda w: lc.StagedCommit.from_json('{"version":9}'),
            UNSUPPORTED,
            "its version is 9, this release reads up to 5",
        ),
        (
            lambda w: w.orders.expire_snapshots(retain_max=1, retain_min=5),
            INVALID,
            "At least 5 and at most 1 are to be retained: set 1 <= min <= max",
        ),
        (lambda w: w.orders.expire_snapshots(older_than=5), INVALID, "a datetime, as in datetime.timedelta(days=7)"),
        (lambda w: w.orders.compact(partition_idle=5), INVALID, "partition_idle=5: expected a timedelta of 0 or more"),
    ],
}


@pytest.mark.parametrize(
    ("group", "call", "kind", "message"),
    [
        pytest.param(group, *case, id=f"{group} {number}")
        for group, cases in CASES.items()
        for number, case in enumerate(cases)
    ],
)
def test_bad_input_is_refused_in_one_line_and_leaves_nothing_behind(warehouse, group, call, kind, message):
    before = warehouse.visible()

    with pytest.raises(lc.LakehouseError, match=".*".join(map(re.escape, message.split(".*")))) as refused:
        call(warehouse)

    said = str(refused.value)
    assert isinstance(refused.value, kind)
    assert "\n" not in said
    # The value of no call without its name.
    assert "hunter2" not in said
    assert said.endswith((".", "?", "…"))
    assert group in NO_TABLE or "db." in said or said.startswith(OWN_OBJECTS)
    assert warehouse.visible() == before


@pytest.mark.parametrize("call", [lc.Table.verify, lc.Scan.schema, lambda: lc.Table.write(data=[])])
def test_a_verb_of_the_class_itself_says_as_python_does_that_the_object_is_missing(call):
    with pytest.raises(TypeError, match="missing a required argument: 'self'"):
        call()


# Their objects are no tables yet, or none at all.
NO_TABLE = {"names", "warehouse", "values"}
OWN_OBJECTS = (
    *("staged commit", "AtSnapshot", "AsOf", "col(", "Warehouse ", "Catalog: ", "connect: ", "register: "),
    *("AddColumn: ", "RowFiles: ", "WhenMatched: ", "WhenNotMatched: "),
    "Invalid database name",
)

NEWEST = {
    "snapshot": "snapshot/snapshot-3",
    "schema": "schema/schema-0",
    "manifest list": "manifest/manifest-list-*",
    "manifest": "manifest/manifest-[!l]*",
    "Parquet file": "dt=*/bucket-*/data-*.parquet",
}


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 16]) + data[middle + 1 :]


@pytest.mark.parametrize(
    ("columns", "declared", "rows", "says"),
    [
        (
            {"k": "STRING NOT NULL"},
            {"primary_keys": ["k"], "options": {"bucket": "1"}},
            [{"k": "a"}, {"k": "x" * ((1 << 20) + 1)}],
            "Column 'k' is part of the primary key and row 1 holds a value of 1048577 bytes: at most 1048576",
        ),
        (
            {"v": "STRING"},
            {"options": {"file.format": "avro"}},
            [{"v": "x" * (65 << 20)}],
            "bytes in an Avro file, whose blocks hold 67108864 at most",
        ),
    ],
    ids=["key", "Avro row"],
)
def test_values_too_long_to_be_read_back_are_not_written(warehouse, columns, declared, rows, says):
    table = warehouse.create("t", columns, **declared)
    before = warehouse.visible()

    with pytest.raises(INVALID, match=re.escape(says)):
        table.write(rows)

    assert warehouse.visible() == before


def test_long_values_leave_bounds_that_manifests_can_hold(warehouse):
    table = warehouse.create("t", {"v": "STRING"}, options={"metadata.stats-mode": "full"})
    table.write([{"v": "x" * (17 << 20)}])

    again = lc.connect(str(warehouse.root)).table("db.t")
    assert len(again.scan(where=lc.col("v") > "w").to_arrow()["v"][0].as_py()) == 17 << 20
    assert again.verify().findings == ()


@pytest.mark.parametrize("damage", [cut, flipped, lambda data: b""])
@pytest.mark.parametrize("what", NEWEST)
@pytest.mark.damage
def test_damaged_files_are_named_and_no_row_comes_from_them(warehouse, what, damage):
    folder = warehouse.root / "db.db/orders"
    for path in folder.glob(NEWEST[what]):
        path.write_bytes(damage(path.read_bytes()))
    before = warehouse.visible()

    with pytest.raises(lc.CorruptTable) as told:
        lc.connect(str(warehouse.root)).table("db.orders").scan().to_arrow()

    said = str(told.value)
    assert "\n" not in said
    assert said.startswith("db.orders: ")
    assert any(path.name in said for path in folder.glob(NEWEST[what]))
    assert warehouse.visible() == before


@pytest.mark.damage
def test_verify_answers_where_every_other_verb_refuses(warehouse):
    (warehouse.root / "db.db/orders/lakehouse/boundary").write_text("soon")

    (finding,) = warehouse.orders.verify().findings

    assert "lakehouse/boundary" in str(finding)


@pytest.mark.parametrize("what", ["snapshot", "schema"])
@pytest.mark.damage
def test_a_table_of_a_newer_format_version_is_refused(warehouse, what):
    path = warehouse.root / "db.db/orders" / NEWEST[what]
    document = json.loads(path.read_text()) | {"version": 9}
    # Ours, which another engine's file does not have.
    del document["lakehouseCrc32"]
    path.write_text(json.dumps(document))

    with pytest.raises(lc.UnsupportedFeature, match=rf"db.orders: .*{path.name}.*version is 9, .*3"):
        lc.connect(str(warehouse.root)).table("db.orders").scan().to_arrow()


@pytest.mark.parametrize(
    "nothing",
    [
        [],
        pa.table({"id": pa.array([], pa.int32())}),
        pa.record_batch({"id": pa.array([], pa.int32())}),
        pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int32())]), []),
    ],
    ids=["list", "table", "batch", "reader"],
)
def test_writing_no_rows_does_nothing_and_says_so(warehouse, nothing):
    before = warehouse.visible()

    report = warehouse.events.write(nothing)

    assert (report.snapshot_id, report.noop_reason) == (None, "the input had no rows to write")
    assert warehouse.visible() == before


def test_a_full_disk_is_told_and_the_table_goes_on_when_there_is_room(warehouse, little_room):
    before = warehouse.visible()
    row = {"dt": DAY, "status": "x" * 1000}

    with (
        little_room(warehouse.root),
        pytest.raises(lc.StorageFull, match=r"db.orders: .*no space left.*Make room, then call again\."),
    ):
        warehouse.orders.write([{**row, "id": number, "status": os.urandom(500).hex()} for number in range(2000)])

    assert warehouse.visible() == before
    assert warehouse.orders.write([{**row, "id": 4}]).snapshot_id == 4
    assert warehouse.orders.verify().findings == ()


@pytest.fixture
def little_room():
    """A file system with 256 kB where one can be mounted over the table's new files, else files of at most that."""

    @contextmanager
    def limited(root: Path) -> Iterator[None]:
        target = root / "db.db/orders/dt=15706/bucket-0"
        target.mkdir(parents=True, exist_ok=True)
        kept = {path.name: path.read_bytes() for path in target.iterdir()}
        mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", target]
        if shutil.which("mount") and not subprocess.run(mount, check=False, capture_output=True).returncode:
            for name, data in kept.items():
                (target / name).write_bytes(data)
            try:
                yield
            finally:
                subprocess.run(["umount", target], check=True)
            return
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (256_000, limits[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    return limited


def test_two_writers_at_once_both_succeed(warehouse):
    orders = [lc.connect(str(warehouse.root)).table("db.orders") for _ in range(2)]
    staged = [
        table.stage([{"dt": DAY, "id": 10 + number}], commit_user=f"writer {number}", commit_identifier=1)
        for number, table in enumerate(orders)
    ]

    reports = [table.commit(each) for table, each in zip(orders, staged, strict=True)]

    assert [report.snapshot_id for report in reports] == [4, 5]
    assert sorted(warehouse.orders.scan(columns=["id"]).to_arrow()["id"].to_pylist()) == [1, 2, 3, 10, 11]


def test_of_two_overwrites_the_later_is_told_what_it_would_have_lost(warehouse):
    mode = lc.StaticOverwrite({"dt": str(DAY)})
    first, second = (
        warehouse.orders.stage([{"dt": DAY, "id": number}], commit_user=f"w{number}", commit_identifier=1, mode=mode)
        for number in (10, 11)
    )
    warehouse.orders.commit(first)

    advice = r"db.orders: .*Nothing was applied: stage the overwrite again.* with dynamic=True only the partitions that"
    with pytest.raises(lc.CommitConflict, match=advice):
        warehouse.orders.commit(second)

    assert warehouse.orders.scan(columns=["id"]).to_arrow()["id"].to_pylist() == [10]


def test_a_text_that_its_new_type_cannot_hold_is_told_with_its_column(tmp_path):
    catalog = lc.connect(tmp_path)
    catalog.create_database("db")
    table = catalog.create_table("db.t", {"id": "INT", "status": "STRING"})
    table.write([{"id": 1, "status": "new"}])
    report = table.alter(lc.UpdateColumnType("status", "INT"))
    assert "reads cast the texts that are in column status to INT, and fail at one" in (report.cast_note or "")
    assert table.alter(lc.UpdateColumnType("id", "BIGINT")).cast_note is None

    with pytest.raises(
        lc.UnsupportedFeature, match=r"db\.t: Column status: The text 'new' cannot be read as INT: give"
    ):
        table.scan().to_arrow()

    # By the name that it has now, whatever that of the file is.
    table.alter(lc.RenameColumn("status", "state"))
    with pytest.raises(lc.UnsupportedFeature, match=r"db\.t: Column state: The text 'new' cannot be read as INT: give"):
        table.scan().to_arrow()

    table.alter(lc.UpdateColumnType("state", "STRING"))
    assert table.scan().to_arrow()["state"].to_pylist() == ["new"]
