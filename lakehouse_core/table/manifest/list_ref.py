"""Reference to a manifest list, in snapshots, roots and deletion plans."""

from dataclasses import dataclass, field
from typing import Annotated, TypeAlias

from pydantic import Field

# Not part of a root's equality: plans are written without the checksum, because earlier releases read them.
UnstoredChecksum: TypeAlias = Annotated[str | None, Field(exclude=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestListRef:
    """A manifest list by its name; the size in bytes is unknown in snapshots before Java 1.1.

    `checksum`: what the snapshot's writer recorded, None where another engine wrote it.
    """

    name: str
    size: int | None = None
    checksum: UnstoredChecksum = field(default=None, compare=False)
