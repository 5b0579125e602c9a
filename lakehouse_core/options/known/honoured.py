"""Honoured options: each has a reader in `options`, and an effect."""

from typing import Final

from lakehouse_core.options.known.option_key import OptionGroup

HONOURED: Final = (
    OptionGroup(
        "What this package carries out; `VALUES` says which values of it.",
        """
bucket int -1 -2..2147483647
bucket-key text -
bucket-function.type default|mod|hive default
bucket-append-ordered bool true
dynamic-bucket.target-row-num int 2000000 1..
dynamic-bucket.initial-buckets int - 1..
dynamic-bucket.max-buckets int -1 -1..32767
dynamic-bucket.assigner-parallelism int - 1..
cross-partition-upsert.index-ttl duration - 1ms..
postpone.batch-write-fixed-bucket bool -
postpone.default-bucket-num int - 1..32767
postpone.merge-on-read bool false
postpone.target-row-num-per-bucket int - 1..
postpone.target-size-per-bucket size 1gb 1..
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
delete.force-produce-changelog bool false
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
partition.expiration-max-num int 100 1..2147483647
compaction.skip-expired-partitions bool false
partition.expiration-strategy text values-time
partition.mark-done-action text success-file
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
consumer.expiration-time duration - 1ms..
tag.time-expire-enabled bool true
tag.automatic-creation none|process-time|watermark|batch none
tag.creation-period daily|hourly|two-hours daily
tag.creation-period-duration duration - 1ms..
tag.creation-delay duration 0s 0..
tag.period-formatter tag-formatter with_dashes
tag.automatic-completion bool false
tag.num-retained-max int - 1..
tag.default-time-retained duration - 1ms..
tag.create-success-file bool false
sink.watermark-time-zone text UTC
sink.process-time-zone text -
lakehouse.bucket.next int - -1..2147483647
lakehouse.read.grace duration 1h 0..3650d
lakehouse.read.verify bool true
lakehouse.commit.max-stall duration 2min 1s..1d
lakehouse.expire.max-skew duration 10min 0..3650d
file-index.read.enabled bool true
file-index.in-manifest-threshold size 500b 0..1mb
        """,
    ),
)
