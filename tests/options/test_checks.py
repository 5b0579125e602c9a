"""What nobody carries out is refused by name, and nothing is accepted and then ignored."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.errors import InvalidRequest, UnsupportedFeature
from lakehouse_core.options import (
    KNOWN,
    OptionKey,
    TableOptions,
    Treatment,
    WriteKind,
    check_bounds,
    check_consistent,
    check_known,
    check_writable,
    parse_duration,
    parse_int,
    parse_size,
)
from lakehouse_core.options.keys import VALUES
from lakehouse_core.options.units import parse_float

COLUMNS = ("id", "name", "price")

# A value of its kind that is not the default, to set every option that there is.
OTHER_VALUES = {"bool": ("true", "false"), "int": ("7",), "float": ("0.5",), "size": ("3 mb",), "duration": ("3 h",)}
OTHER_VALUES |= {"text": ("id",), "levels": ("0:none",)}


def other_value(key: OptionKey) -> str:
    choices = key.kind if isinstance(key.kind, tuple) else OTHER_VALUES[key.kind]
    return next(choice for choice in choices if choice != key.default)


NUMBERS: dict[str, Callable[[str, str], float]] = {
    "int": parse_int,
    "float": parse_float,
    "size": parse_size,
    "duration": parse_duration,
}
REFUSING = {
    Treatment.HONOURED: set[WriteKind](),
    Treatment.HARMLESS: set[WriteKind](),
    Treatment.LEFT_TO_OTHERS: {WriteKind.SETTINGS},
    Treatment.MAINTENANCE_ONLY: {WriteKind.SETTINGS, WriteKind.ROWS},
    Treatment.REFUSED: set(WriteKind),
}
NUMERIC = [key for key in KNOWN.values() if key.kind in NUMBERS and key.treatment is Treatment.HONOURED]
# A snapshot, a time or a watermark of any table: what is not there is told where it is read.
WITHOUT_BOUNDS = {key.name for key in NUMERIC if key.name.startswith("scan.")}


@pytest.mark.parametrize("key", NUMERIC, ids=lambda key: key.name)
def test_every_number_that_is_carried_out_has_bounds(key: OptionKey) -> None:
    assert isinstance(key.kind, str)
    number = NUMBERS[key.kind]
    assert (key.low is None) == (key.name in WITHOUT_BOUNDS)
    for text in (key.low, key.high, key.default):
        if text is not None:
            check_bounds({key.name: text})
    for text, step in ((key.low, -1), (key.high, 1)):
        if text is None:
            continue
        beyond = f"{number(key.name, text) + step:g}" if key.kind == "float" else str(number(key.name, text) + step)
        if beyond.startswith("-") and key.kind in ("size", "duration"):
            with pytest.raises(InvalidRequest, match=f"Option {key.name} is '{beyond}': expected a"):
                check_known({key.name: beyond}, COLUMNS)
            continue
        with pytest.raises(InvalidRequest, match=f"Option {key.name} is {beyond}: expected at "):
            check_bounds({key.name: beyond})


@pytest.mark.parametrize("key", KNOWN.values(), ids=KNOWN)
def test_every_known_option_has_a_default_of_its_kind(key: OptionKey) -> None:
    if key.default is not None:
        check_known({key.name: key.default}, COLUMNS)
        check_writable({key.name: key.default}, table="db.t")


@pytest.mark.parametrize("key", KNOWN.values(), ids=KNOWN)
def test_the_treatment_of_an_option_says_which_writes_refuse_it(key: OptionKey) -> None:
    value = other_value(key)
    check_known({key.name: value}, COLUMNS)
    values = VALUES.get(key.name)
    refusing = REFUSING[key.treatment if values is None else values.get(value, Treatment.REFUSED)]

    for kind in WriteKind:
        if kind not in refusing:
            check_writable({key.name: value}, table="db.t", kind=kind)
            continue
        with pytest.raises(
            UnsupportedFeature, match=r"^db\.t: option .* (is not supported|has no effect here)"
        ) as caught:
            check_writable({key.name: value}, table="db.t", kind=kind)
        assert f"{key.name} = {value}" in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("file.format", "csv"),
        ("row-tracking.enabled", "true"),
        ("file-index.hilbert.columns", "id"),
        ("manifest.compression", "none"),
        ("metastore.partitioned-table", "true"),
        ("partition.expiration-strategy", "custom"),
        ("tag.automatic-creation", "batch"),
        ("sequence.snapshot-ordering", "true"),
        ("parquet.encryption.footer.key", "k1"),
        ("pk-clustering-override", "true"),
        ("orc.encrypt", "pii:id"),
        ("fields.id.default-value", "5"),
        ("fields.id.map.storage-layout", "shared-shredding"),
        ("clustering.columns", "id"),
        ("lakehouse.of-a-newer-version", "x"),
    ],
)
def test_what_is_not_carried_out_is_refused_by_name_and_value(key: str, value: str) -> None:
    with pytest.raises(UnsupportedFeature) as caught:
        check_writable({key: value}, table="db.t")

    assert f"{key} = {value}" in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (key, value)
        for key, values in VALUES.items()
        for value, treatment in values.items()
        if treatment is Treatment.MAINTENANCE_ONLY
    ],
)
def test_a_table_may_be_maintained_with_a_value_with_which_it_is_not_written(key: str, value: str) -> None:
    check_writable({key: value.upper()}, table="db.t", kind=WriteKind.MAINTENANCE)
    for kind in (WriteKind.ROWS, WriteKind.SETTINGS):
        with pytest.raises(UnsupportedFeature, match=r"Compaction and expiry do not need it\.$"):
            check_writable({key: value}, table="db.t", kind=kind)


def test_notes_of_users_and_tuning_of_other_engines_do_no_harm() -> None:
    check_writable({"team": "flights", "orc.compress.size": "1000", "read.batch-size": "99"}, table="db.t")
    check_writable({"commit.callback.my.Class.param": "x", "fields.id.ignore-retract": "true"}, table="db.t")


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("consumer-id", "job", "Option consumer-id = job has no effect here. It says how other engines read. Leave it"),
        ("parquet.bloom.filter.enabled", "true", "It is for the writers of other engines. Leave it out."),
        ("metastore.partitioned-table", "true", "Writers add new partitions and tags to Hive's metastore, which is"),
    ],
)
def test_what_is_left_to_others_is_not_set_here(key: str, value: str, says: str) -> None:
    with pytest.raises(UnsupportedFeature, match=re.escape(says)):
        check_writable({key: value}, table="", kind=WriteKind.SETTINGS)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"bukcet": "4"}, "did you mean bucket?"),
        ({"snapshot.num-retain.max": "4"}, "did you mean snapshot.num-retained.max?"),
        ({"lakehouse.read.grase": "1 h"}, "did you mean lakehouse.read.grace?"),
        (
            {"write.merge-schema.type-widening": "true"},
            "only statements of SQL add columns as they write",
        ),
        ({"zzz": "4"}, "Option zzz is not known: remove it"),
        ({"warehouse": "/x"}, "is an option of a catalog"),
        ({"table-default.bucket": "4"}, "is an option of a catalog"),
        ({"fields.id.stats-mod": "none"}, "did you mean fields.id.stats-mode?"),
        ({"fields.stats-mode": "none"}, "is not known"),
        ({"fields.default-aggregate-functoin": "sum"}, "did you mean fields.default-aggregate-function?"),
        ({"fields.id.colour": "none"}, "it may end in .stats-mode, .aggregate-function"),
        ({"fields.colour.stats-mod": "none"}, "Column 'colour' does not exist: take one of id, name"),
        ({"fields.colour.stats-mode": "none"}, "which the table does not have: take one of id, name"),
        ({"fields.nam.stats-mode": "none"}, "did you mean name?"),
        ({"fields.id,nam.sequence-group": "price"}, "names the column 'nam'"),
        ({"file-index.bitmap.columns": "id,colour"}, "names the column 'colour'"),
        ({"file-index.bitmp.columns": "id"}, "index kind 'bitmp' is not known: did you mean bitmap?"),
        (
            {"file-index.bloom-filter.id.itmes": "5"},
            "'itmes' is not a setting of a bloom-filter index: did you mean items?",
        ),
        ({"file-index.bloom-filter.items": "5"}, "'items' is not a setting of a bloom-filter index"),
        ({"file-index.bloom-filter.id.items": "0"}, "expected at least 1"),
        ({"file-index.bloom-filter.id.fpp": "1"}, "expected a rate between 0 and 1"),
        ({"file-index.bloom-filter.colour.fpp": "0.1"}, "names the column 'colour'"),
        ({"file-index.range-bitmap.id.chunk-size": "big"}, "file-index.range-bitmap.id.chunk-size"),
        ({"write-only": "yes"}, "expected true or false"),
        ({"bucket": "four"}, "expected a whole number"),
        ({"bucket": "99999999999999999999"}, "expected a whole number"),
        ({"compaction.small-file-ratio": "much"}, "expected a number"),
        ({"merge-engine": "replace"}, "expected one of deduplicate"),
        ({"bucket": 4}, "are text"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused_with_a_hint(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_known(options, COLUMNS)

    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"snapshot.num-retained.min": "0"}, "at least 1"),
        ({"target-file-row-num": "0"}, "at least 1"),
        ({"write-buffer-size": "0 mb"}, "at least 1"),
        ({"snapshot.num-retained.min": "20", "snapshot.num-retained.max": "10"}, "set 1 <= min <= max"),
        ({"changelog.num-retained.max": "5"}, "changelog.num-retained.min is 10, .max is 5"),
        ({"compaction.small-file-ratio": "1.5"}, "compaction.small-file-ratio is 1.5: expected at most 1"),
        ({"lookup.cache.bloom.filter.fpp": "0"}, "expected at least 1e-9"),
        ({"lookup.cache.bloom.filter.fpp": "1"}, "expected at most 0.999"),
        ({"compaction.delete-ratio-threshold": "2"}, "compaction.delete-ratio-threshold is 2: expected at most 1"),
        ({"compaction.min.file-num": "0"}, "at least 1"),
        ({"compaction.offpeak.start.hour": "24"}, "expected at most 23"),
        ({"compaction.offpeak.end.hour": "-2"}, "expected at least -1"),
        ({"compaction.size-ratio": "-1"}, "expected at least 0"),
        ({"file.compression.zstd-level": "99"}, "expected at most 22"),
        ({"spill-compression.zstd-level": "0"}, "spill-compression.zstd-level is 0: expected at least 1"),
        ({"local-sort.max-num-file-handles": "2"}, "expected at least 3"),
        ({"metadata.stats-mode": "truncate(0)"}, "expected none, counts, full or truncate(16)"),
        ({"fields.id.stats-mode": "all"}, "expected none, counts, full or truncate(16)"),
        ({"fields.gone.aggregate-function": "sum"}, "names the column 'gone'"),
        ({"data-file.prefix": "a/b"}, "part of a file name"),
        ({"changelog-file.prefix": "_x"}, "part of a file name"),
        ({"partition.default-name": " "}, "part of a file name"),
        ({"data-file.prefix": "a\nb"}, "part of a file name"),
        ({"data-file.prefix": "x" * 101}, "has 101 bytes: expected at most 100"),
        ({"bucket": "2147483648"}, "bucket is 2147483648: expected at most 2147483647"),
        ({"manifest.merge-min-count": "0"}, "manifest.merge-min-count is 0: expected at least 1"),
        ({"lakehouse.commit.max-stall": "0"}, "lakehouse.commit.max-stall is 0: expected at least 1s"),
        ({"commit.timeout": "0 s"}, "commit.timeout is 0 s: expected at least 1ms"),
        ({"file-index.in-manifest-threshold": "2 mb"}, "expected at most 1mb"),
        ({"delete-file.thread-num": "-1", "num-levels": "1"}, "num-levels is 1: expected at least 2"),
    ],
)
def test_options_must_fit_each_other_and_their_bounds(options: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_consistent(options, COLUMNS)

    assert says in str(caught.value)


@given(st.dictionaries(st.one_of(st.sampled_from(sorted(KNOWN)), st.text(max_size=20)), st.text(max_size=20)))
def test_any_options_are_parsed_or_refused_by_name(options: dict[str, str]) -> None:
    for check in (lambda: TableOptions.parse(options), lambda: check_known(options, COLUMNS)):
        message = refusal(check)

        assert message is None or any(str(InvalidRequest(key)) in message for key in options)


def refusal(check: Callable[[], Any]) -> str | None:
    try:
        check()
    except InvalidRequest as error:
        return str(error)
    return None


def test_every_option_that_is_carried_out_is_documented_with_its_default() -> None:
    text = (Path(__file__).parents[2] / "docs" / "options.md").read_text()
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| `")]
    documented = {name.strip(" `"): default.strip(" `") for names, default, _ in rows for name in names.split(",")}
    carried_out = {key.name: key.default or "" for key in KNOWN.values() if key.treatment is Treatment.HONOURED}

    assert documented == carried_out


def test_every_option_that_is_refused_is_on_the_page_of_what_is_not_supported() -> None:
    page = (Path(__file__).parents[2] / "docs" / "semantics" / "differences.md").read_text()
    listed = set(re.findall(r"`([\w.-]+)`", page.partition("## Not supported")[2].partition("\n## ")[0]))
    refused = {key.name for key in KNOWN.values() if key.treatment in (Treatment.REFUSED, Treatment.MAINTENANCE_ONLY)}

    assert refused - listed == set(), "Add each to a row of the page."
    assert len(refused) > 20
