"""Options that bind writes of rows to a service that is not reached from here; maintenance does not need it.

Rule: an option stands here if a commit that adds no partition and removes none is right without it.
"""

from typing import Final

from lakehouse_core.options.known.option_key import OptionGroup

MAINTENANCE_ONLY: Final = (
    OptionGroup(
        "Writers add new partitions and tags to Hive's metastore, which is not done here.",
        """
metastore.partitioned-table bool false
metastore.tag-to-partition text -
        """,
    ),
)
