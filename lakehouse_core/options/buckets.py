"""Buckets: the values of `bucket` with a special meaning, and the functions that choose a bucket.

Source: docs/semantics/tables.md#bucket-modes.
"""

from enum import StrEnum
from typing import Final

DYNAMIC_BUCKET: Final = -1
POSTPONE_BUCKET: Final = -2


class BucketFunction(StrEnum):
    DEFAULT = "default"
    MOD = "mod"
    HIVE = "hive"
