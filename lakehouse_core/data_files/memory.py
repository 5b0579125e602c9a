"""Keeps the C library from handing memory back to the kernel between one chunk and the next.

glibc trims its heap when more free memory lies at its end than twice the largest block that was ever mapped and freed.
With blocks of a chunk's size that is after every chunk, and the next one faults its pages in again: 6 % of a merge.
"""

from typing import Final

import numpy as np

# The limit becomes twice this. The block is mapped and unmapped, never touched.
_LARGEST_BLOCK_BYTES: Final = 16 << 20


def keep_freed_memory() -> None:
    """Let this process keep up to 32 MiB that it has freed. Elsewhere than with glibc nothing changes."""
    np.empty(_LARGEST_BLOCK_BYTES, dtype=np.uint8)
