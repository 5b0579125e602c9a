"""Refused options: refused unless they have their default.

Rule: an option that changes a result, a file or a promise and is not carried out stands here.
"""

from typing import Final

from lakehouse_core.options.known.option_key import OptionGroup

REFUSED: Final = (
    OptionGroup(
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
postpone.merge-on-read bool false
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
)
