"""Option keys: current and former names of options."""

from collections.abc import Mapping
from typing import Final

from lakehouse_core.errors import InvalidRequest, near_names
from lakehouse_core.options.known import KNOWN, OptionKey, Treatment


def _carried_out(*words: str) -> dict[str, Treatment]:
    return dict.fromkeys(words, Treatment.HONOURED)


# The treatment of the values of options that are not treated alike with all values. A value that is missing is refused.
VALUES: Final[Mapping[str, Mapping[str, Treatment]]] = {
    "type": _carried_out("table"),
    "file.format": _carried_out("parquet", "orc", "avro"),
    "partition.expiration-strategy": _carried_out("values-time", "update-time"),
    "spill-compression": _carried_out("zstd", "lz4", "none"),
    # After each job that wrote rows, Java's engines tag the latest snapshot of a table with `batch`; a compaction
    # changes no row, so that tag stays right.
    "tag.automatic-creation": _carried_out("none", "process-time", "process_time", "watermark")
    | {"batch": Treatment.MAINTENANCE_ONLY},
    "manifest.format": _carried_out("avro"),
    "manifest.compression": _carried_out("zstd", "zstandard", "snappy", "deflate", "null"),
}

# Older names of options, read where the current name is not set.
FORMER_NAMES: Final[Mapping[str, str]] = {
    "first-row.ignore-delete": "ignore-delete",
    "deduplicate.ignore-delete": "ignore-delete",
    "partial-update.ignore-delete": "ignore-delete",
    "write.compaction-skip": "write-only",
    "log.scan": "scan.mode",
    "log.scan.timestamp-millis": "scan.timestamp-millis",
    "log.scan.remove-normalize": "scan.remove-normalize",
    "snapshot.expire.clean-empty-directories": "snapshot.clean-empty-directories",
    "orc.write.batch-size": "write.batch-size",
    "delete-file.thread-num": "file-operation.thread-num",
    "changelog-producer.lookup-wait": "lookup-wait",
    "changelog.precommit-compact": "precommit-compact",
    "sink.clustering.by-columns": "clustering.columns",
    "sink.clustering.strategy": "clustering.strategy",
    "streaming-read.shuffle-bucket-with-partition": "read.shuffle-bucket-with-partition",
    "lookup.dynamic-partition": "scan.partitions",
    "parquet.variant.shreddingSchema": "variant.shreddingSchema",
    "blob.stored-descriptor-fields": "blob-descriptor-field",
}

# Options of a catalog that look like a table's.
CATALOG_KEYS: Final = frozenset(
    {
        "warehouse",
        "metastore",
        "uri",
        "table.type",
        "lock.enabled",
        "lock.type",
        "lock-check-max-sleep",
        "lock-acquire-timeout",
        "client-pool-size",
        "cache-enabled",
        "case-sensitive",
        "allow-upper-case",
        "sync-all-properties",
        "format-table.enabled",
        "resolving-file-io.enabled",
        "file-io.allow-cache",
    }
)

# Defaults for all tables, and the settings of clients of stores: secrets, which have no place in a schema.
_CATALOG_PREFIXES: Final = ("table-default.", "s3.", "s3a.", "fs.", "oss.", "hadoop.")

# Endings of `fields.<column>[,<column>…].<ending>`.
FIELD_ENDINGS: Final[Mapping[str, Treatment]] = {
    "stats-mode": Treatment.HONOURED,
    # Read by the merge engines that have functions and groups; see `table.merge_spec`.
    "aggregate-function": Treatment.HONOURED,
    "ignore-retract": Treatment.HONOURED,
    "distinct": Treatment.HONOURED,
    "list-agg-delimiter": Treatment.HONOURED,
    "nested-key": Treatment.HONOURED,
    "nested-key-null-strategy": Treatment.HONOURED,
    "nested-sequence-field": Treatment.HONOURED,
    "count-limit": Treatment.HONOURED,
    "ts-field": Treatment.HONOURED,
    "sequence-group": Treatment.HONOURED,
    # A default of the column itself takes the place of this old option; a map layout changes the data files.
    "default-value": Treatment.REFUSED,
    "map": Treatment.REFUSED,
}


def under_current_names(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options under their current names. When both names are set, the current one applies."""
    former = {FORMER_NAMES[key]: value for key, value in options.items() if key in FORMER_NAMES}
    return former | {key: value for key, value in options.items() if key not in FORMER_NAMES}


def check_alters_nothing(key: str) -> None:
    """Raise InvalidRequest for an option of a write by which Java's Spark connector alters the table, under the name of
    the option or of the session's setting. Statements of SQL have settings for it.
    """
    if key.lower().removeprefix("spark.paimon.").startswith("write.merge-schema"):
        raise InvalidRequest(
            f"Option {key}: only statements of SQL add columns as they write: INSERT … BY NAME and MERGE with *, by "
            "sql(…, settings={…}). Else alter the table first, by alter(AddColumn(…), UpdateColumnType(…)), and leave "
            "the option out."
        )


def known_key(key: str) -> OptionKey:
    """Return the option of that name, current or former. Raises InvalidRequest naming the nearest one."""
    if (known := KNOWN.get(FORMER_NAMES.get(key, key))) is not None:
        return known
    check_alters_nothing(key)
    if key in CATALOG_KEYS or key.startswith(_CATALOG_PREFIXES):
        raise InvalidRequest(f"Option {key} is an option of a catalog, not of a table. Pass it to connect.")
    near = near_names(key, [*KNOWN, *FORMER_NAMES], most=1, cutoff=0.7)
    hint = f"did you mean {near}?" if near else "remove it, or look its name up in Paimon's documentation."
    raise InvalidRequest(f"Option {key} is not known: {hint}")
