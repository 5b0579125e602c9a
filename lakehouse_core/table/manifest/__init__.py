"""Manifests: the lists of a table's files, as values, as Avro files and as columns."""

from lakehouse_core.table.manifest.columns import ABSENT, EntryColumns, RareFields, columns_of, concatenate
from lakehouse_core.table.manifest.decoding import FEW_ENTRIES, decode_manifest, decode_manifest_columns
from lakehouse_core.table.manifest.encoding import encode_index_manifest, encode_manifest, encode_manifest_list
from lakehouse_core.table.manifest.entry import (
    DELETION_VECTORS,
    HASH_INDEX,
    DeletionVectorRange,
    EntryKind,
    GlobalIndex,
    Identifier,
    IndexManifestEntry,
    ManifestEntry,
    ManifestFile,
    file_identifier,
    merge_entries,
)
from lakehouse_core.table.manifest.folding import BucketRows, bucket_rows, live_rows, merge_columns
from lakehouse_core.table.manifest.list_ref import ManifestListRef
from lakehouse_core.table.manifest.record_decoding import Keep, decode_index_manifest, decode_manifest_list
from lakehouse_core.table.manifest.summary import summarize_manifest
from lakehouse_core.table.manifest.tally import Tally, net_of, tally

__all__ = [
    "ABSENT",
    "DELETION_VECTORS",
    "FEW_ENTRIES",
    "HASH_INDEX",
    "BucketRows",
    "DeletionVectorRange",
    "EntryColumns",
    "EntryKind",
    "GlobalIndex",
    "Identifier",
    "IndexManifestEntry",
    "Keep",
    "ManifestEntry",
    "ManifestFile",
    "ManifestListRef",
    "RareFields",
    "Tally",
    "bucket_rows",
    "columns_of",
    "concatenate",
    "decode_index_manifest",
    "decode_manifest",
    "decode_manifest_columns",
    "decode_manifest_list",
    "encode_index_manifest",
    "encode_manifest",
    "encode_manifest_list",
    "file_identifier",
    "live_rows",
    "merge_columns",
    "merge_entries",
    "net_of",
    "summarize_manifest",
    "tally",
]
