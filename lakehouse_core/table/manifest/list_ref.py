"""The reference to a manifest list, in a snapshot and wherever else one is named."""

from dataclasses import dataclass, field
from typing import Annotated, TypeAlias

from pydantic import Field

# Not part of what a root is: plans are written without it, as earlier releases read them.
UnstoredChecksum: TypeAlias = Annotated[str | None, Field(exclude=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestListRef:
    """A manifest list by its name; the size in bytes is unknown in snapshots before Java 1.1.

    `checksum`: what the snapshot's writer recorded, None where another engine wrote it.
    """

    name: str
    size: int | None = None
    checksum: UnstoredChecksum = field(default=None, compare=False)
