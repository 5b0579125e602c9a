"""Options are parsed once, into values with units and defaults; former names mean what the current ones do."""

import pytest

from lakehouse_core.options import (
    FORMER_NAMES,
    KNOWN,
    BucketFunction,
    ChangelogProducer,
    FileStyle,
    TableOptions,
    current_options,
    option_of_unknown_roots,
)


def test_a_table_without_options_has_the_defaults() -> None:
    assert TableOptions.parse({}) == TableOptions()


def test_options_are_parsed_into_values_with_units() -> None:
    options = TableOptions.parse(
        {
            "bucket": "4",
            "bucket-key": "id, name",
            "bucket-function.type": "MOD",
            "changelog-producer": "full_compaction",
            "sequence.field": "price,name",
            "sequence.field.sort-order": "descending",
            "target-file-size": "1 mb",
            "num-sorted-run.compaction-trigger": "8",
            "metadata.stats-mode": "TRUNCATE( 8 )",
            "fields.name.stats-mode": "none",
            "commit.timeout": "5 s",
            "lakehouse.read.grace": "0",
            "snapshot.num-retained.max": "20",
            "a note": "of the user",
        }
    )

    assert (options.bucket, options.bucket_key) == (4, ("id", "name"))
    assert options.bucket_function is BucketFunction.MOD
    assert options.changelog_producer is ChangelogProducer.FULL_COMPACTION
    assert (options.sequence_fields, options.sequence_descending) == (("price", "name"), True)
    assert options.target_file_size_bytes(has_key=True) == options.target_file_size_bytes(has_key=False) == 1 << 20
    assert options.num_levels == 9
    assert (options.stats_mode_by_column, options.style.stats_mode) == ({"name": "none"}, "truncate(8)")
    assert options.commit.timeout_millis == 5_000
    assert options.read_grace_millis == 0
    assert options.expiry.max_retained == 20


def test_files_of_key_tables_are_half_as_large_by_default() -> None:
    options = TableOptions()

    assert options.target_file_size_bytes(has_key=True) == 128 << 20
    assert options.target_file_size_bytes(has_key=False) == 256 << 20


@pytest.mark.parametrize("former", FORMER_NAMES)
def test_former_names_of_options_still_work(former: str) -> None:
    current = FORMER_NAMES[former]
    assert current in KNOWN
    assert current_options({former: "x"}) == {current: "x"}
    assert current_options({former: "x", current: "y"}) == {current: "y"}


def test_the_current_name_of_an_option_wins() -> None:
    assert TableOptions.parse({"deduplicate.ignore-delete": "true"}).ignore_delete
    assert not TableOptions.parse({"deduplicate.ignore-delete": "true", "ignore-delete": "false"}).ignore_delete


@pytest.mark.parametrize(
    ("options", "decoupled"),
    [
        ({}, False),
        ({"changelog.num-retained.max": "100"}, False),
        ({"snapshot.num-retained.max": "50", "changelog.num-retained.max": "100"}, True),
        ({"changelog.num-retained.min": "11"}, True),
        ({"changelog.time-retained": "2 h"}, True),
        ({"changelog.time-retained": "30 min"}, False),
        ({"snapshot.time-retained": "10 h"}, False),
    ],
)
def test_changelogs_outlive_snapshots_when_any_figure_is_larger(options: dict[str, str], decoupled: bool) -> None:
    assert TableOptions.parse(options).changelog_expiry.decoupled is decoupled


def test_files_of_each_kind_have_a_style_of_their_own() -> None:
    options = TableOptions.parse(
        {
            "file.format": "ORC",
            "file.format.per.level": "0:avro,5:parquet",
            "file.compression.per.level": "0:snappy",
            "metadata.stats-mode.per.level": "0:none,1:full",
            "changelog-file.format": "Parquet",
            "changelog-file.stats-mode": "counts",
        }
    )

    assert options.style == FileStyle(format="orc", compression="zstd", stats_mode="truncate(16)")
    assert options.style_at(0) == FileStyle(format="avro", compression="snappy", stats_mode="none")
    assert options.style_at(1) == FileStyle(format="orc", compression="zstd", stats_mode="full")
    assert options.style_at(4) == options.style
    assert options.style_at(5).format == "parquet"
    assert options.changelog_style_at(0) == FileStyle(format="parquet", compression="snappy", stats_mode="counts")
    assert options.changelog_style_at(4) == FileStyle(format="parquet", compression="zstd", stats_mode="counts")


def test_tries_of_a_commit_are_counted_only_where_the_table_says_so() -> None:
    assert TableOptions.parse({}).commit.max_retries is None
    assert TableOptions.parse({"commit.max-retries": "10"}).commit.max_retries == 10


def test_options_say_what_expiry_keeps_beside_snapshots() -> None:
    keys = ("consumer.changelog-only", "tag.time-expire-enabled", "snapshot.expire.clean-empty-directories")
    expiry = TableOptions.parse(dict(zip(keys, ("true", "false", "true"), strict=True))).expiry

    assert (expiry.consumers_hold_snapshots, expiry.tags_expire, expiry.clean_empty_folders) == (False, False, True)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"chain-table.enabled": "true"}, ("chain-table.enabled", "true")),
        ({"chain-table.enabled": "false"}, None),
        ({"lakehouse.of-tomorrow": "1"}, ("lakehouse.of-tomorrow", "1")),
        ({"lakehouse.read.grace": "1 h", "a note": "of the user"}, None),
    ],
)
def test_an_option_that_may_keep_files_in_an_unknown_way_is_named(
    options: dict[str, str], found: tuple[str, str] | None
) -> None:
    assert option_of_unknown_roots(options) == found
