"""Specifications: one file a table, every fault with file, line and the nearest name."""

from pathlib import Path
from typing import Any

import pytest

import lakehouse_core as lc
from lakehouse_dagster.specs.loading import load_specs, parse_spec

GOOD = """\
database: ops
name: orders
comment: Orders.
columns:
  id: BIGINT NOT NULL
  dt: {type: DATE NOT NULL, description: Day.}
primary_key: [id]
options:
  bucket: 4
  ignore-delete: true
write_mode: merge
feed: {source: shop, name: orders}
"""


PRODUCER = "changelog-producer: lookup"


def test_a_specification_is_the_table_it_describes():
    spec = parse_spec(GOOD, "orders.yaml")

    assert spec.identifier == "ops.orders"
    assert {name: column.type for name, column in spec.columns.items()} == {
        "id": "BIGINT NOT NULL",
        "dt": "DATE NOT NULL",
    }
    assert spec.options == {"bucket": "4", "ignore-delete": "true"}
    assert spec.feed.batches


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (("comment: Orders.", "coment: Orders."), "orders.yaml:3: coment is not known; did you mean 'comment'?"),
        (("comment: Orders.\n", ""), "orders.yaml:1: comment is missing"),
        (
            ("{type: DATE NOT NULL,", "{typ: DATE NOT NULL,"),
            "orders.yaml:6: columns.dt.typ is not known; did you mean 'type'?",
        ),
        (("name: orders}", "nam: orders}"), "orders.yaml:12: feed.nam is not known; did you mean 'name'?"),
        (("name: orders\n", "name: or-ders\n"), "orders.yaml:2: name: found 'or-ders', expected letters, digits"),
        (("[id]", "[idd]"), "orders.yaml:7: primary_key names 'idd', which is not a column; did you mean 'id'?"),
        (
            ("write_mode: merge", "write_mode: append"),
            "orders.yaml:11: write_mode is 'append', but the table has primary_key",
        ),
        (
            ("write_mode: merge", "write_mode: replace"),
            "orders.yaml:11: write_mode: found 'replace', expected 'append', 'upsert', 'overwrite' or 'cdc'",
        ),
        (
            ("write_mode: merge", "write_mode: cdc"),
            "orders.yaml:11: write_mode is 'cdc': found rowkind_column None, expected the column of +I, -U, +U and -D",
        ),
        (
            ("write_mode: merge", "write_mode: upsert\nrowkind_column: kind"),
            "orders.yaml:11: write_mode is 'upsert': found rowkind_column 'kind', expected the column of +I, -U, +U",
        ),
        (
            ("write_mode: merge", "write_mode: overwrite"),
            "orders.yaml:11: write_mode is 'overwrite', but a feed in batches gives new rows, not whole partitions.",
        ),
        (("write_mode: merge\n", ""), "orders.yaml:1: write_mode is missing"),
        (("database: ops", "database: ops\ndatabase: ref"), "orders.yaml:2: database is given twice. Keep one."),
        (("  bucket: 4", "  bucket: 4\n  bucket: 5"), "orders.yaml:10: bucket is given twice. Keep one."),
        (("columns:", "columns: ["), "orders.yaml:6: not YAML"),
        (
            ("feed: {source: shop, name: orders}\n", ""),
            "orders.yaml:1: rows come from one source: found none, expected one of feed, changes_of,",
        ),
        (
            ("feed: {source: shop, name: orders}", "changes_of: {table: ops.carts, while: [id]}"),
            "orders.yaml:12: changes_of.while is not known; did you mean 'while_null'?",
        ),
        (
            ("feed: {source: shop, name: orders}", "files: {paths: incoming/*.csv}"),
            "orders.yaml:12: files.paths is not known; did you mean 'path'?",
        ),
        (
            ("feed: {source: shop, name: orders}", "files: {path: incoming/*.csv, format: xml}"),
            "orders.yaml:12: files.format: found 'xml', expected 'parquet', 'csv'",
        ),
        (
            ("feed: {source: shop, name: orders}", "feed: {source: s, name: n}\nfiles: {path: incoming/*.csv}"),
            "orders.yaml:13: rows come from one source: found feed and files, expected one of feed, changes_of,",
        ),
        (
            ("feed: {source: shop", "partitions: {time: {every: day, start: 2013-01-01}}\nfeed: {source: shop"),
            "orders.yaml:12: partitions are for files, and for function, asset, sql without cursor; other sources say",
        ),
        (
            (
                "feed: {source: shop, name: orders}",
                "function: {call: a.b}\npartitions: {static: {keys: [a], column: dt}}",
            ),
            "orders.yaml:13: partitions map 'dt', which is not in partition_by; the table has none.",
        ),
        (
            ("feed: {source: shop, name: orders}", "function: {call: a.b}\npartitions: {static: {key: [a]}}"),
            "orders.yaml:13: partitions.static.key is not known; did you mean 'keys'?",
        ),
        (
            ("feed: {source: shop, name: orders}", "function: {call: a.b}\npartitions: {}"),
            "orders.yaml:13: partitions: found no kind, expected one of time, static, dynamic, multi. Give one of",
        ),
        (
            ("feed: {source: shop, name: orders}", "function: {call: orders}"),
            "orders.yaml:12: function.call: found 'orders', expected the dotted name of a function, such as shop.rows.",
        ),
        (
            ("write_mode: merge", "write_mode: merge\nbehind: {warn_over: 2}"),
            "orders.yaml:12: behind.warn_over is not known; did you mean 'warn_above'?",
        ),
        (
            ("write_mode: merge", "write_mode: merge\nbehind:\n  warn_above: 9\n  fail_above: 3"),
            "orders.yaml:12: behind: warn_above is 9 and fail_above is 3. Warn at fewer batches than fail",
        ),
        (
            ("write_mode: merge", "write_mode: merge\nbehind:\n  fail_after: 36"),
            "orders.yaml:13: behind.fail_after: found 36, expected a whole number with a unit, s, min, h or d, such as",
        ),
        (
            ("write_mode: merge", "write_mode: merge\nbehind: {fail_after: 20 s}"),
            "orders.yaml:12: behind.fail_after: found '20 s', expected at least '1 min'",
        ),
        (
            ("write_mode: merge", "write_mode: merge\nfreshness: {}"),
            "orders.yaml:12: freshness: found neither, expected fail_after, or deadline with within. Give one of the",
        ),
        (
            ("write_mode: merge", "write_mode: merge\nfreshness:\n  deadline: 0 6 * *\n  within: 1 h"),
            "orders.yaml:13: freshness.deadline: found '0 6 * *', expected the five fields of a cron schedule, such as",
        ),
        (
            ("write_mode: merge", "write_mode: merge\nfreshness: {deadline: 0 * * * *, within: 2 h}"),
            "orders.yaml:12: freshness: found within 2:00:00, expected at most the time between two",
        ),
        (
            ("write_mode: merge", "write_mode: merge\nfreshness: {fail_after: 2 h, warn_after: 2 h}"),
            "orders.yaml:12: freshness: found warn_after 2:00:00 and fail_after 2:00:00, expected a fail_after that is",
        ),
        (
            ("write_mode: merge", "write_mode: merge\nfreshness: {deadline: 0 6 * * *}"),
            "orders.yaml:12: freshness: found deadline without within, expected both. Give both, or fail_after alone",
        ),
        (
            ("feed: {source: shop, name: orders}", "ingest:\n  news: true\nsql: {connection: A, query: q, cursor: id}"),
            "orders.yaml:13: ingest.news: sql does not tell what is new. Give a schedule",
        ),
        (
            ("feed: {source: shop, name: orders}", "ingest: {news: true}\nfeed: {source: s, name: n, batches: false}"),
            "orders.yaml:12: ingest.news: a feed that is loaded whole does not tell what is new. Give a schedule",
        ),
        (
            (
                "feed: {source: shop, name: orders}",
                "behind:\n  warn_above: 1\nsql: {connection: A, query: q, cursor: id}",
            ),
            "orders.yaml:12: behind: sql does not tell what is new, so there is no check inputs_current. Leave it out",
        ),
        (
            ("write_mode: merge", "write_mode: merge\ningest: {schedule: 0 25 * * *}"),
            "orders.yaml:12: ingest.schedule: found '0 25 * * *': hour '25', expected numbers from 0 to 23, as in",
        ),
        (
            (
                "feed: {source: shop, name: orders}",
                "ingest: {schedule: 0 6 * * *}\nfunction: {call: a.b}\n"
                "partitions: {multi: {a: {static: {keys: [n]}}, b: {static: {keys: [m]}}}}",
            ),
            "orders.yaml:12: ingest.schedule is for partitions of one dimension. Leave it out, and request the keys",
        ),
        (
            ("write_mode: merge", "write_mode: merge\nmaintenance: {max_manifests: many}"),
            "orders.yaml:12: maintenance.max_manifests: found 'many', expected a whole number.",
        ),
        (
            ("feed:", "partitions:\n  time: {every: day, start: 2013-13-01}\nfeed:"),
            "orders.yaml:13: not YAML: found 2013-13-01, expected a date (month must be in 1..12).",
        ),
        ((GOOD, "- a list\n"), "orders.yaml:1: expected a mapping of database, name"),
        (("  bucket: 4", "  bucket: [4]"), "orders.yaml:9: options.bucket: found a list, expected a text."),
        (("primary_key:", "primary-key:"), "orders.yaml:7: primary-key is not known; did you mean 'primary_key'?"),
        (
            ("  ignore-delete: true", "  num-sorted-run.compaction-trigger: [4]"),
            "orders.yaml:10: options.num-sorted-run.compaction-trigger: found a list, expected a text.",
        ),
        (
            ("  dt: {type: DATE", "  order-date: {typ: DATE"),
            "orders.yaml:6: columns.order-date.typ is not known; did you mean 'type'?",
        ),
        (("  dt: {type: DATE", "  callable: {typ: DATE"), "orders.yaml:6: columns.callable.typ is not known"),
        (("  bucket: 4", "  '[key]': [4]"), "orders.yaml:8: options: found a list, expected a text."),
        (("comment: Orders.", "comment: Orders.\n'[key]': 1"), "orders.yaml:4: [key] is not known; there are"),
    ],
)
def test_a_fault_is_told_with_its_line(change: tuple[str, str], fault: str):
    text = GOOD.replace(*change)

    with pytest.raises(lc.InvalidRequest) as refused:
        parse_spec(text, "orders.yaml")
    assert fault in str(refused.value)


SOURCE = "feed: {source: shop, name: orders}"


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("feed: 'postgresql://u:hunter2@h/db'", "feed: found an address, expected a mapping"),
        ("files: hunter2", "files: found a text, expected a mapping"),
        ("sql: {connection: 'postgresql://u:hunter2@h/db', query: q}", "sql.connection: expected the name of an"),
        ("sql: hunter2", "sql: expected a mapping"),
        ("changes_of: {table: 'postgresql://u:hunter2@h/db'}", "changes_of.table: found an address"),
        ("function: {call: 'postgresql://u:hunter2@h/db'}", "function.call: found an address, expected the dotted"),
        ("function: {call: {token: hunter2}}", "function.call: found a mapping, expected a text"),
        ("feed: {source: [hunter2], name: orders}", "feed.source: found a list, expected a text"),
    ],
)
def test_a_fault_does_not_show_what_may_have_a_password(source: str, fault: str):
    with pytest.raises(lc.InvalidRequest) as refused:
        parse_spec(GOOD.replace(SOURCE, source), "orders.yaml")

    assert f"orders.yaml:12: {fault}" in str(refused.value)
    assert "hunter2" not in str(refused.value)


WITHOUT_COMMENT = ("comment: Orders.\n", "")


@pytest.mark.parametrize(
    ("changes", "faults"),
    [
        ((WITHOUT_COMMENT, ("BIGINT", "BIGNT")), ("1: comment is missing", "4: Column 'id': 'BIGNT NOT NULL' is not")),
        ((WITHOUT_COMMENT, ("bucket", "buckett")), ("1: comment is missing", "8: Option buckett is not known")),
        ((WITHOUT_COMMENT, ("merge", "append")), ("1: comment is missing", "10: write_mode is 'append'")),
        (
            (("BIGINT", "BIGNT"), ("DATE NOT", "DAY NOT"), ("bucket", "buckett"), ("[id]", "[idd]"), ("merge", "add")),
            (
                "5: Column 'id': 'BIGNT NOT NULL' is not a data type",
                "6: Column 'dt': 'DAY NOT NULL' is not a data type",
                "9: Option buckett is not known",
                "11: write_mode: found 'add', expected",
            ),
        ),
        (
            (("[id]", "[idd]"), ("merge", "append"), ("bucket: 4", "bucket: many")),
            ("7: primary_key names 'idd'", "9: Option bucket is 'many'", "11: write_mode is 'append'"),
        ),
        # What may follow from another fault alone is not told: a source or a key under another name, a type.
        ((("feed:", "feeed:"),), ("12: feeed is not known",)),
        ((("primary_key", "primary_keys"),), ("7: primary_keys is not known",)),
        ((("[id]", "[id]\npartition_by: [day]"),), ("8: partition_by names 'day'",)),
        (
            (("dt: {type: DATE", "dt: {type: DAY"), ("bucket: 4", "bucket: 4\n  sequence.field: dt")),
            ("6: Column 'dt': 'DAY NOT NULL' is not a data type",),
        ),
    ],
)
def test_all_faults_of_a_specification_are_told_at_once(changes: tuple[tuple[str, str], ...], faults: tuple[str, ...]):
    text = GOOD
    for change in changes:
        text = text.replace(*change)

    with pytest.raises(lc.InvalidRequest) as refused:
        parse_spec(text, "orders.yaml")

    told = str(refused.value).splitlines()
    assert len(told) == len(faults), told
    for line, fault in zip(told, faults, strict=True):
        assert line.startswith(f"orders.yaml:{fault}"), told
        assert line.endswith((".", "?"))


def test_a_file_whose_name_ends_otherwise_is_told(tmp_path: Path):
    (tmp_path / "orders.yml").write_text(GOOD)

    with pytest.raises(
        lc.InvalidRequest, match=r"orders\.yml: a specification is in a file whose name ends with \.yaml"
    ):
        load_specs(tmp_path)


def test_all_faults_of_all_files_are_told_at_once(tmp_path: Path):
    (tmp_path / "a.yaml").write_text(GOOD.replace("comment", "coment"))
    (tmp_path / "b.yaml").write_text(GOOD.replace("merge", "append"))

    with pytest.raises(lc.InvalidRequest) as refused:
        load_specs(tmp_path)

    first, second = str(refused.value).splitlines()
    assert first.startswith("a.yaml:3")
    assert "write_mode is 'append'" in second


@pytest.mark.parametrize(
    ("sources", "fault"),
    [
        ({"shops": ["orders"]}, "a.yaml:12: feed.source 'shop' is not known; did you mean 'shops'?"),
        ({"shop": ["order", "items"]}, "a.yaml:12: feed.name 'orders' is not known; did you mean 'order'?"),
    ],
)
def test_a_feed_that_nobody_has_is_refused_where_the_feeds_are_known(tmp_path: Path, sources: Any, fault: str):
    (tmp_path / "a.yaml").write_text(GOOD)

    with pytest.raises(lc.InvalidRequest) as refused:
        load_specs(tmp_path, sources)

    assert str(refused.value) == fault


@pytest.mark.parametrize(
    ("followed", "column", "fault"),
    [
        ("ops.cart", "id", "b.yaml:12: changes_of.table 'ops.cart' is not specified; did you mean 'ops.carts'?"),
        (
            "ops.carts",
            "idd",
            "b.yaml:12: changes_of.while_null names 'idd', no column of ops.carts; did you mean 'id'?",
        ),
        (
            "ops.carts",
            "id",
            "b.yaml:12: changes_of.table ops.carts has no changelog. Set its option changelog-producer.",
        ),
    ],
)
def test_a_table_that_cannot_be_followed_is_refused(tmp_path: Path, followed: str, column: str, fault: str):
    carts = GOOD.replace("name: orders\n", "name: carts\n")
    (tmp_path / "a.yaml").write_text(carts if column == "id" else carts.replace("ignore-delete: true", PRODUCER))
    changes = f"changes_of: {{table: {followed}, while_null: [{column}]}}"
    (tmp_path / "b.yaml").write_text(GOOD.replace("feed: {source: shop, name: orders}", changes))

    with pytest.raises(lc.InvalidRequest) as refused:
        load_specs(tmp_path)

    assert str(refused.value) == fault


def test_two_files_for_one_table_are_refused(tmp_path: Path):
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(GOOD)

    with pytest.raises(lc.InvalidRequest, match=r"b\.yaml:2: ops\.orders is specified in a\.yaml too"):
        load_specs(tmp_path)


def test_a_changed_specification_has_another_digest():
    assert parse_spec(GOOD, "f").digest == parse_spec(GOOD, "g").digest
    assert parse_spec(GOOD, "f").digest != parse_spec(GOOD.replace("bucket: 4", "bucket: 5"), "f").digest


def test_a_specification_knows_its_file_and_its_digest_does_not(tmp_path: Path):
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "orders.yaml").write_text(GOOD)

    (below,) = load_specs(tmp_path / "tables")
    (elsewhere,) = load_specs(tmp_path / "tables", root=tmp_path / "other")

    assert (below.file, elsewhere.file) == ("tables/orders.yaml", "../tables/orders.yaml")
    assert parse_spec(GOOD, "orders.yaml").file == ""
    assert below.digest == elsewhere.digest == parse_spec(GOOD, "orders.yaml").digest


def test_a_folder_that_is_not_there_is_told(tmp_path: Path):
    with pytest.raises(lc.NotFound, match="typo: the folder of table specifications does not exist"):
        load_specs(tmp_path / "typo")


@pytest.mark.parametrize(
    ("path", "pattern"),
    [("incoming/*.csv", "{folder}/incoming/*.csv"), ("/data/*.csv", "/data/*.csv"), ("~/x.csv", "{home}/x.csv")],
)
def test_a_relative_path_of_files_begins_at_the_folder_of_the_specification(tmp_path: Path, path: str, pattern: str):
    (tmp_path / "a.yaml").write_text(GOOD.replace("feed: {source: shop, name: orders}", f"files: {{path: {path}}}"))

    (spec,) = load_specs(tmp_path)

    assert spec.files_pattern == pattern.format(folder=tmp_path, home=Path.home())
