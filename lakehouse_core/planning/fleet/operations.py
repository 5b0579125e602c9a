"""Operations: what a plan of maintenance can do to a table. Source: docs/decisions/0019-value-of-maintenance.md."""

from typing import Final, Literal, TypeAlias

Operation: TypeAlias = Literal["compact", "compact_full", "compact_manifests", "expire"]
# In the order in which one table gets them: a compaction leaves a manifest more, expiry drops what both replaced.
OPERATIONS: Final[tuple[Operation, ...]] = ("compact", "compact_full", "compact_manifests", "expire")
# The two alternatives for the files of a partition.
COMPACTIONS: Final[frozenset[Operation]] = frozenset({"compact", "compact_full"})
