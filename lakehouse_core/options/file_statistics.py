"""File statistics options: for which columns, and in which length, files keep bounds of their values.

Source: docs/format/statistics.md.
"""

import re
from collections.abc import Mapping
from typing import Final

from lakehouse_core.errors import InvalidRequest, shown

_FIELD_STATS: Final = re.compile(r"fields\.(?P<column>.+)\.stats-mode")
_STATS_MODE: Final = re.compile(r"none|counts|full|truncate\(\s*(?P<length>\d{1,9})\s*\)", re.IGNORECASE)


def stats_modes(options: Mapping[str, str]) -> dict[str, str]:
    """Return the statistics modes of the columns that have their own."""
    matches = ((key, _FIELD_STATS.fullmatch(key), mode) for key, mode in options.items())
    return {match["column"]: parse_stats_mode(key, mode) for key, match, mode in matches if match}


def parse_stats_mode(key: str, text: str) -> str:
    """Return none, counts, full or truncate(n), n ≥ 1, in lower case. Raises InvalidRequest naming the option."""
    match = _STATS_MODE.fullmatch(text.strip())
    if match is None or (match["length"] and int(match["length"]) == 0):
        raise InvalidRequest(f"Option {key} is {shown(text)}: expected none, counts, full or truncate(16).")
    return f"truncate({int(match['length'])})" if match["length"] else match[0].lower()
