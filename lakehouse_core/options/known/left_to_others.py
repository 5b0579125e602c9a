"""Options left to other engines: a table of theirs that has them is written, but none is set here.

Rule: an option stands here only if rows, files and commits of ours are right without it; each group gives the reason.
"""

from typing import Final

from lakehouse_core.options.known.option_key import OptionGroup

LEFT_TO_OTHERS: Final = (
    OptionGroup(
        "It says how other engines read.",
        """
consumer-id text -
streaming-read-overwrite bool false
streaming-read-append-overwrite bool false
scan.plan-sort-partition bool false
scan.ignore-corrupt-files bool false
scan.ignore-lost-files bool false
scan.bucket int -
scan.fallback-branch text -
scan.primary-branch text -
table-read.sequence-number.enabled bool false
key-value.sequence_number.enabled bool false
scan.plan-auto-tag-for-read.time-retained duration -
        """,
    ),
    OptionGroup(
        "It says how other engines name and pack what they write.",
        """
file.block-size size -
file.suffix.include.compression bool false
manifest.delete-file-drop-stats bool false
manifest-sort.enabled bool false
orc.column.encoding.direct int -
orc.dictionary.key.threshold float 0.8
commit.user-prefix text -
        """,
    ),
)
