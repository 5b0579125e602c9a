"""Column statistics of files: collected while writing, stored as rows of minima and maxima, read to skip files.

Source: Paimon format, "Column statistics (SimpleStats)".
"""

from lakehouse_core.table.data_file import SimpleStats

# Stands for statistics that a manifest holds and nobody asked for. Compare with `is`.
UNREAD_STATS = SimpleStats(min_values=b"", max_values=b"", null_counts=None)


def unknown_stats(arity: int) -> SimpleStats:
    """Return statistics of `arity` columns of which nothing is known."""
    null_bits = bytearray((arity + 63 + 8) // 64 * 8)
    for index in range(8, 8 + arity):
        null_bits[index // 8] |= 1 << index % 8
    row = arity.to_bytes(4, "big") + bytes(null_bits) + bytes(8 * arity)
    return SimpleStats(min_values=row, max_values=row, null_counts=(None,) * arity)
