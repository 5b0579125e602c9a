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
upsert-key text -
write.sequence-number-init-mode scan|snapshot scan
sequence.snapshot-ordering bool false
commit.callbacks text ''
tag.callbacks text ''
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
orc.timestamp-ltz.legacy.type bool true
        """,
    ),
)
