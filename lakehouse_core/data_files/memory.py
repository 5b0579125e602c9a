"""Freed memory: keep the C library from returning memory to the kernel between two chunks.

glibc trims its heap when its free end is larger than twice the largest block ever mapped and freed. With blocks of a
chunk's size this happens after every chunk, and the next chunk faults its pages in again: 6 % of a merge.
"""

from typing import Final

import numpy as np

# The limit becomes twice this. The block is mapped and unmapped, never touched.
_LARGEST_BLOCK_BYTES: Final = 16 << 20


def keep_freed_memory() -> None:
    """Let this process keep up to 32 MiB of freed memory. Has no effect without glibc."""
    np.empty(_LARGEST_BLOCK_BYTES, dtype=np.uint8)
