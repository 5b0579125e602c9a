"""Every table option that Paimon 1.x and 2.x know: its kind of value, its default, and what we do about it.

One rule: nothing is accepted and then ignored. An option that is neither carried out nor harmless is refused wherever
a table with it is created or written. Source: Paimon semantics, "Table options", and the option classes of Java 2.0.0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final


class Treatment(Enum):
    """What becomes of an option that a table sets."""

    HONOURED = "carried out"
    HARMLESS = "changes no result, file or promise"
    REFUSED = "not supported unless it has its default"


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionKey:
    """`kind` is one of bool, int, float, size, duration, text, levels, or the allowed words. `default` None: unset.

    `low` and `high` are the first and the last value that may be set, as texts of that kind; None: as far as the kind
    goes. What lies beyond would make a table useless. Tables that other engines made with such values are read.
    """

    name: str
    kind: str | tuple[str, ...]
    default: str | None
    treatment: Treatment
    reason: str
    low: str | None = None
    high: str | None = None


@dataclass(frozen=True, slots=True)
class _Group:
    treatment: Treatment
    reason: str
    # One option a line: name, kind, default; "-" for no default, '' for the empty text. Of a number that is carried out
    # also its bounds, as in 1..22; either may be left open.
    lines: str


_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "table-type": ("table", "format-table", "materialized-table", "object-table", "lance-table", "iceberg-table"),
    "scan-mode": (
        "default",
        "latest-full",
        "full",
        "latest",
        "latest-delta",
        "compacted-full",
        "from-timestamp",
        "from-creation-timestamp",
        "from-file-creation-time",
        "from-snapshot",
        "from-snapshot-full",
        "incremental",
    ),
    "path-strategy": ("none", "specific-fs", "round-robin", "entropy-inject", "weight-robin"),
    "tag-formatter": ("with_dashes", "without_dashes", "without_dashes_and_spaces"),
    "index-action": ("throw_error", "drop_partition_index", "ignore"),
    "merge-engine": ("deduplicate", "partial-update", "aggregation", "first-row"),
    "producer": ("none", "input", "full-compaction", "lookup"),
}

_GROUPS: Final = (
    _Group(
        Treatment.HONOURED,
        "What this package carries out; `WRITABLE` says which values of it.",
        """
bucket int -1 -2..2147483647
bucket-key text -
bucket-function.type default|mod|hive default
bucket-append-ordered bool true
type table-type table
primary-key text -
partition text -
merge-engine merge-engine deduplicate
changelog-producer producer none
commit.force-compact bool false
full-compaction.delta-commits int - 1..2147483647
force-lookup bool false
lookup-wait bool true
changelog-producer.row-deduplicate bool false
changelog-producer.row-deduplicate-ignore-fields text -
sequence.field text -
sequence.field.sort-order ascending|descending ascending
rowkind.field text -
ignore-delete bool false
ignore-update-before bool false
fields.default-aggregate-function text -
aggregation.remove-record-on-delete bool false
partial-update.remove-record-on-delete bool false
partial-update.remove-record-on-sequence-group text -
file.format text parquet
file.compression text zstd
file.format.per.level levels ''
file.compression.per.level levels ''
file.compression.zstd-level int 1 1..22
parquet.enable.dictionary bool true
parquet.dictionary.page.size int 1048576 1..2147483647
parquet.page.size int - 1..2147483647
parquet.page.row.count.limit int - 1..2147483647
data-file.prefix text data-
data-file.path-directory text -
data-file.thin-mode bool false
changelog-file.prefix text changelog-
changelog-file.format text -
changelog-file.compression text -
changelog-file.stats-mode text -
target-file-size size - 1..
target-file-row-num int 9223372036854775807 1..
precommit-compact bool false
changelog.precommit-compact.buffer-size size 128mb 0..2147483647
write-buffer-size size 256mb 1..
write-buffer-spillable bool true
write-buffer-spill.max-disk-size size 9223372036854775807b 0..
spill-compression text zstd
spill-compression.zstd-level int 1 1..22
local-sort.max-num-file-handles int 128 3..2147483647
write-only bool false
num-levels int - 2..1000
num-sorted-run.compaction-trigger int 5 1..100000
num-sorted-run.stop-trigger int - 1..2147483647
compaction.small-file-ratio float 0.7 0..1
compaction.min.file-num int 5 1..2147483647
compaction.size-ratio int 1 0..2147483647
compaction.max-size-amplification-percent int 200 0..2147483647
compaction.offpeak.start.hour int -1 -1..23
compaction.offpeak.end.hour int -1 -1..23
compaction.offpeak-ratio int 0 0..2147483647
compaction.optimization-interval duration - 0..
compaction.total-size-threshold size - 0..
compaction.incremental-size-threshold size - 0..
compaction.force-up-level-0 bool false
compaction.force-rewrite-all-files bool false
compaction.delete-ratio-threshold float 0.2 0..1
lookup-compact radical|gentle radical
lookup-compact.max-interval int - 1..2147483647
lookup.cache-file-retention duration 1h 0..
lookup.cache-max-disk-size size 9223372036854775807b 0..
lookup.cache.bloom.filter.enabled bool true
lookup.cache.bloom.filter.fpp float 0.05 1e-9..0.999
record-level.expire-time duration - 1s..2147483647s
record-level.time-field text -
overwrite-upgrade bool true
metadata.stats-mode text truncate(16)
metadata.stats-mode.per.level levels ''
metadata.stats-dense-store bool true
metadata.stats-keep-first-n-columns int -1 -1..2147483647
manifest.format text avro
manifest.compression text zstd
manifest.target-file-size size 8mb 1..
manifest.merge-min-count int 30 1..2147483647
manifest.full-compaction-threshold-size size 16mb 0..
partition.default-name text __DEFAULT_PARTITION__
partition.legacy-name bool true
partition.expiration-time duration - 1ms..
compaction.skip-expired-partitions bool false
partition.expiration-strategy text values-time
partition.timestamp-formatter text -
partition.timestamp-pattern text -
partition.timestamp-format.strict bool false
dynamic-partition-overwrite bool true
source.split.target-size size 128mb 1..
source.split.open-file-cost size 4mb 0..
scan.mode scan-mode default
scan.timestamp text -
scan.timestamp-millis int - ..
scan.watermark int - ..
scan.file-creation-time-millis int - ..
scan.creation-time-millis int - ..
scan.snapshot-id int - ..
scan.tag-name text -
scan.version text -
incremental-between text -
incremental-between-scan-mode auto|delta|changelog|diff auto
incremental-between-timestamp text -
incremental-to-auto-tag text -
incremental-between-tag-to-snapshot bool false
snapshot.num-retained.min int 10 1..2147483647
snapshot.num-retained.max int 2147483647 1..2147483647
snapshot.time-retained duration 1h 0..
snapshot.expire.limit int 50 1..2147483647
changelog.num-retained.min int - 1..2147483647
changelog.num-retained.max int - 1..2147483647
changelog.time-retained duration - 0..
snapshot.ignore-empty-commit bool -
commit.max-retries int 10 0..2147483647
commit.timeout duration - 1ms..
commit.min-retry-wait duration 10ms 0..
commit.max-retry-wait duration 10s 0..
alter-column-null-to-not-null.disabled bool true
disable-explicit-type-casting bool false
add-column-before-partition bool false
deletion-vectors.enabled bool false
deletion-vectors.modifiable bool false
deletion-vector.index-file.target-size size 2mb 1..
deletion-vectors.merge-on-read bool false
deletion-vectors.bitmap64 bool false
snapshot.clean-empty-directories bool false
consumer.changelog-only bool false
tag.time-expire-enabled bool true
lakehouse.read.grace duration 1h 0..3650d
lakehouse.read.verify bool true
lakehouse.commit.max-stall duration 2min 1s..1d
lakehouse.expire.max-skew duration 10min 0..3650d
file-index.read.enabled bool true
file-index.in-manifest-threshold size 500b 0..1mb
        """,
    ),
    _Group(
        Treatment.REFUSED,
        "Each changes a result, a file or a promise, and is not honoured yet: only its default is accepted.",
        """
data-file.external-paths text -
path text -
branch text main
primary-key.nullable bool false
chain-table.enabled bool false
scan.fallback-snapshot-branch text -
scan.fallback-delta-branch text -
file.suffix.include.compression bool false
file.block-size size -
manifest-sort.enabled bool false
upsert-key text -
scan.bucket int -
write.sequence-number-init-mode scan|snapshot scan
table-read.sequence-number.enabled bool false
key-value.sequence_number.enabled bool false
sequence.snapshot-ordering bool false
scan.ignore-corrupt-files bool false
scan.ignore-lost-files bool false
auto-create bool false
streaming-read-overwrite bool false
streaming-read-append-overwrite bool false
partition.end-input-to-done bool false
scan.plan-sort-partition bool false
consumer-id text -
consumer.expiration-time duration -
end-input.check-partition-expire bool false
commit.callbacks text ''
tag.callbacks text ''
metastore.partitioned-table bool false
metastore.tag-to-partition text -
tag.automatic-creation none|process-time|watermark|batch none
tag.create-success-file bool false
tag.default-time-retained duration -
scan.plan-auto-tag-for-read.time-retained duration -
local-merge-buffer-size size -
commit.force-create-snapshot bool false
delete.force-produce-changelog bool false
commit.user-prefix text -
scan.fallback-branch text -
scan.primary-branch text -
manifest.delete-file-drop-stats bool false
partition.idle-time-to-report-statistic duration 0s
query-auth.enabled bool false
commit.strict-mode.last-safe-snapshot int -
clustering.columns text -
clustering.incremental bool false
row-tracking.enabled bool false
data-evolution.enabled bool false
index-file-in-data-file-dir bool false
blob-field text -
blob-descriptor-field text -
blob-view-field text -
commit.discard-duplicate-files bool false
visibility-callback.enabled bool false
vector-field text -
pk-vector.index.columns text -
pk-btree.index.columns text -
pk-bitmap.index.columns text -
pk-full-text.index.columns text -
pk-clustering-override bool false
metadata.iceberg.storage text disabled
blob-external-storage-field text -
scan.partitions text -
sink.savepoint.auto-tag bool false
partition.idle-time-to-done duration -
end-input.watermark int -
commit.custom-listeners text ''
sink.key-only-deletes.enabled bool false
orc.column.encoding.direct int -
orc.dictionary.key.threshold float 0.8
orc.timestamp-ltz.legacy.type bool true
        """,
    ),
    _Group(
        Treatment.HARMLESS,
        "Memory, threads and spilling of Java's processes: rows and files are the same.",
        """
read.batch-size int 1024
write.batch-size int 1024
write.batch-memory size 128mb
page-size size 64kb
cache-page-size size 64kb
sort-engine min-heap|loser-tree loser-tree
sort-spill-threshold int -
sort-spill-buffer-size size 64mb
write-buffer-for-append bool false
write-max-writers-to-spill int 10
async-file-write bool true
file-reader-async-threshold size 10mb
file-operation.thread-num int -
scan.manifest.parallelism int -
snapshot.expire.execution-mode sync|async sync
format-table.scan.list-parallelism int 64
local-kv-db.block-size size 4kb
        """,
    ),
    _Group(
        Treatment.HARMLESS,
        "They steer Flink's streaming jobs; a table read or written here has none.",
        """
continuous.discovery-interval duration 10s
streaming-read-mode log|file -
scan.max-splits-per-task int 10
scan.bounded.watermark int -
streaming.read.snapshot.delay duration -
snapshot.watermark-idle-timeout duration -
sink.watermark-time-zone text UTC
sink.process-time-zone text -
partition.sink-strategy none|hash|partition_dynamic none
sink.parallelism int -
scan.parallelism int -
unaware-bucket.compaction.parallelism int -
unaware-bucket.no-shuffle bool false
compaction.bucket-distribution-strategy linear|even linear
scan.infer-parallelism bool true
scan.infer-parallelism.max int 1024
changelog-producer.compaction-interval duration 0s
scan.watermark.emit.strategy on-periodic|on-event on-event
scan.watermark.alignment.group text -
scan.watermark.idle-timeout duration -
scan.watermark.alignment.max-drift duration -
scan.watermark.alignment.update-interval duration 1s
scan.split-enumerator.batch-size int 10
scan.max-snapshot.count int -1
scan.split-enumerator.mode fair|preemptive fair
sink.use-managed-memory-allocator bool false
scan.remove-normalize bool false
read.shuffle-bucket-with-partition bool true
sink.managed.writer-buffer-memory size 256mb
sink.cross-partition.managed-memory size 256mb
source.checkpoint-align.enabled bool false
source.checkpoint-align.timeout duration 30s
lookup.async bool false
lookup.bootstrap-parallelism int 4
lookup.async-thread-number int 16
lookup.cache auto|memory|full auto
lookup.cache-rows int 10000
lookup.continuous.discovery-interval duration -
lookup.dynamic-partition.refresh-interval duration 1h
lookup.refresh.async bool false
lookup.dynamic-partition.refresh.async bool false
lookup.refresh.async.pending-snapshot-count int 5
lookup.refresh.time-periods-blacklist text -
lookup.refresh.full-load-threshold int -
sink.writer-cpu float 1.0
sink.writer-memory size -
sink.committer-cpu float 1.0
sink.committer-memory size -
sink.committer-operator-chaining bool true
partition.mark-done-action.mode process-time|watermark process-time
partition.time-interval duration -
partition.mark-done.recover-from-state bool true
sink.clustering.sort-in-cluster bool true
sink.clustering.sample-factor int 100
changelog.precommit-compact.thread-num int -
source.operator-uid.suffix text -
sink.operator-uid.suffix text -
scan.bounded bool -
scan.dedicated-split-generation bool false
sink.coordinator-commit.enabled bool false
sink.writer-coordinator.enabled bool false
sink.writer-coordinator.cache-memory size 2gb
sink.writer-coordinator.cache-expire-after-access duration -
sink.writer-coordinator.cache-soft-values bool true
sink.writer-coordinator.page-size size 32kb
sink.writer-coordinator.prefetch-manifests bool false
filesystem.job-level-settings.enabled bool true
sink.writer-refresh-detectors text -
consumer.mode exactly-once|at-least-once exactly-once
consumer.ignore-progress bool false
stream-scan-mode none|compact-bucket-table|file-monitor none
batch-scan-mode none|compact none
        """,
    ),
    _Group(
        Treatment.HARMLESS,
        "It bounds what one scan of Flink's compaction jobs takes; the plans of ours are bounded by their groups.",
        """
compaction.file-num-limit int 100000
        """,
    ),
    _Group(
        Treatment.HARMLESS,
        "Notes that engines and catalogs keep about a table; nothing reads them.",
        """
owner text -
provider text -
        """,
    ),
    _Group(
        Treatment.HARMLESS,
        "How Java lays out and caches its own lookup files. Those here are plain rows, mapped into memory and searched "
        "by bisection; what is found is the same.",
        """
lookup.local-file-type sort|hash sort
lookup.hash-load-factor float 0.75
lookup.cache-spill-compression text zstd
lookup.cache-max-memory-size size 256mb
lookup.cache.high-priority-pool-ratio float 0.25
lookup.remote-file.enabled bool false
lookup.remote-file.level-threshold int -2147483648
lookup.merge-buffer-size size 8mb
lookup.merge-records-threshold int 1024
        """,
    ),
    _Group(
        Treatment.HARMLESS,
        "They refine a feature whose own switch is refused.",
        """
lookup.blob-as-descriptor bool false
dynamic-bucket.target-row-num int 2000000
dynamic-bucket.initial-buckets int -
dynamic-bucket.max-buckets int -1
dynamic-bucket.assigner-parallelism int -
cross-partition-upsert.index-ttl duration -
cross-partition-upsert.bootstrap-parallelism int 10
postpone.batch-write-fixed-bucket bool true
postpone.merge-on-read bool false
postpone.batch-write-fixed-bucket.max-parallelism int 2048
postpone.default-bucket-num int 1
postpone.target-row-num-per-bucket int -
postpone.target-size-per-bucket size 1gb
partition.expiration-check-interval duration 1h
partition.expiration-max-num int 100
partition.expiration-batch-size int -
partition.mark-done-action text success-file
partition.mark-done-action.custom.class text -
partition.mark-done-action.http.url text -
partition.mark-done-action.http.params text -
tag.num-retained-max int -
tag.creation-period daily|hourly|two-hours daily
tag.creation-delay duration 0s
tag.period-formatter tag-formatter with_dashes
tag.creation-period-duration duration -
tag.automatic-completion bool false
tag.batch.customized-name text -
metastore.tag-to-partition.preview none|process-time|watermark|batch none
sort-compaction.range-strategy size|quantity size
sort-compaction.local-sample.magnification int 1000
zorder.var-length-contribution int 8
clustering.strategy text auto
clustering.history-partition.limit int 5
clustering.history-partition.idle-to-full-sort duration -
clustering.incremental.optimize-write bool false
clustering.incremental.mode global-sort|local-sort global-sort
branch-merge.enabled bool false
manifest.merge-optimize.enabled bool true
manifest-sort.partition-field text -
manifest-sort.max-rewrite-size size 256mb
data-file.external-paths.strategy path-strategy none
data-file.external-paths.specific-fs text -
data-file.external-paths.weights text -
scan.fallback-branch.read-fail-fast bool false
chain-table.chain-partition-keys text -
chain-table.streaming.merge-snapshot bool false
chain-table.split.key-range-enabled bool true
variant.shreddingSchema text -
variant.inferShreddingSchema bool false
variant.shredding.inferenceMode per-file|adaptive per-file
variant.shredding.maxSchemaWidth int 300
variant.shredding.maxSchemaDepth int 50
variant.shredding.minFieldCardinalityRatio float 0.1
variant.shredding.maxInferBufferRow int 4096
variant.shredding.adaptive.maxInferBufferRow int 256
variant.shredding.adaptive.retentionRatio float 0.05
blob.target-file-size size -
blob.split-by-file-size bool -
blob.copy-buffer-size size 4kb
blob-view.resolve.enabled bool true
blob-as-descriptor bool false
blob-descriptor.source-table text -
blob-write-null-on-missing-file bool false
blob-write-null-on-fetch-failure bool false
blob-compaction.enabled bool false
blob-external-storage-path text -
vector.file.format text -
vector.target-file-size size -
vector-search.distribute.enabled bool false
vector-search.lateral-join.batch-size int 256
row-tracking.partition-group-on-commit bool true
data-evolution.reassign.skip-contiguous-row-count int 1000000000
data-evolution.row-id-conflict-rewrite.max-size size 256mb
data-evolution.row-sidecar.enabled bool false
data-evolution.row-sidecar.max-selected-rows int 4096
data-evolution.row-sidecar.max-selection-ratio float 0.05
data-evolution.merge-into.file-pruning bool true
data-evolution.merge-into.source-persist bool false
data-evolution.compaction.rewrite-row-ids bool false
global-index.external-path text -
global-index.column-update-action index-action throw_error
global-index.row-count-per-shard int 100000
global-index.build.max-shard int 32
global-index.build.max-parallelism int 4096
global-index.enabled bool true
global-index.search-mode fast|full|detail -
global-index.thread-num int 32
scalar-index.search-mode fast|full|detail fast
vector-index.search-mode fast|full|detail fast
full-text-index.search-mode fast|full|detail fast
format-table.implementation paimon|engine paimon
format-table.partition-path-only-value bool false
format-table.file.compression text -
format-table.commit-hive-sync-url text -
materialized-table.definition-query text -
materialized-table.interval-freshness text -
materialized-table.interval-freshness.time-unit SECOND|MINUTE|HOUR|DAY -
materialized-table.logical-refresh-mode CONTINUOUS|FULL|AUTOMATIC -
materialized-table.refresh-mode CONTINUOUS|FULL|AUTOMATIC -
materialized-table.refresh-status INITIALIZING|ACTIVATED|SUSPENDED -
materialized-table.refresh-handler-description text -
materialized-table.refresh-handler-bytes text -
visibility-callback.timeout duration 30min
visibility-callback.check-interval duration 10s
metadata.iceberg.storage-location text -
metadata.iceberg.format-version int 2
metadata.iceberg.compaction.min.file-num int 10
metadata.iceberg.compaction.max.file-num int 50
metadata.iceberg.delete-after-commit.enabled bool true
metadata.iceberg.previous-versions-max int 0
metadata.iceberg.uri text -
metadata.iceberg.hive-conf-dir text -
metadata.iceberg.hadoop-conf-dir text -
metadata.iceberg.manifest-compression text snappy
metadata.iceberg.manifest-legacy-version bool false
metadata.iceberg.hive-client-class text -
metadata.iceberg.database text -
metadata.iceberg.table text -
metadata.iceberg.glue.skip-archive bool false
metadata.iceberg.hive-skip-update-stats bool false
        """,
    ),
)


def _known() -> dict[str, OptionKey]:
    keys = {}
    for group in _GROUPS:
        for line in filter(None, map(str.strip, group.lines.splitlines())):
            name, kind, default, *bounds = line.split()
            low, _, high = bounds[0].partition("..") if bounds else ("", "", "")
            keys[name] = OptionKey(
                name=name,
                kind=_WORDS.get(kind) or (tuple(kind.split("|")) if "|" in kind else kind),
                default={"-": None, "''": ""}.get(default, default),
                treatment=group.treatment,
                reason=group.reason,
                low=low or None,
                high=high or None,
            )
    return keys


KNOWN: Final[Mapping[str, OptionKey]] = _known()
