"""Harmless options: accepted without an effect here.

Rule: an option stands here only if it changes no result, no file and no promise; each group gives the reason.
"""

from typing import Final

from lakehouse_core.options.known.option_key import OptionGroup

HARMLESS: Final = (
    OptionGroup(
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
    OptionGroup(
        "They steer Flink's streaming jobs; a table read or written here has none.",
        """
continuous.discovery-interval duration 10s
streaming-read-mode log|file -
scan.max-splits-per-task int 10
scan.bounded.watermark int -
streaming.read.snapshot.delay duration -
snapshot.watermark-idle-timeout duration -
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
local-merge-buffer-size size -
sink.savepoint.auto-tag bool false
end-input.watermark int -
partition.end-input-to-done bool false
partition.idle-time-to-done duration -
partition.idle-time-to-report-statistic duration 0s
commit.custom-listeners text ''
sink.key-only-deletes.enabled bool false
commit.force-create-snapshot bool false
auto-create bool false
scan.partitions text -
        """,
    ),
    OptionGroup(
        "Java bounds with it the number of buckets that a batch write gives to a partition. Here that is the number "
        "that a compaction would give.",
        """
postpone.batch-write-fixed-bucket.max-parallelism int 2048
        """,
    ),
    OptionGroup(
        "Java expires partitions in the commits of writers. Here a verb of its own does.",
        """
end-input.check-partition-expire bool false
        """,
    ),
    OptionGroup(
        "It bounds what one scan of Flink's compaction jobs takes; the plans of ours are bounded by their groups.",
        """
compaction.file-num-limit int 100000
        """,
    ),
    OptionGroup(
        "Notes that engines and catalogs keep about a table; nothing reads them.",
        """
owner text -
provider text -
        """,
    ),
    OptionGroup(
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
    OptionGroup(
        "They refine a feature whose own switch is refused.",
        """
lookup.blob-as-descriptor bool false
cross-partition-upsert.bootstrap-parallelism int 10
partition.expiration-check-interval duration 1h
partition.expiration-batch-size int -
partition.mark-done-action.custom.class text -
partition.mark-done-action.http.url text -
partition.mark-done-action.http.params text -
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
