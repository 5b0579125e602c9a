"""The name under which a data file was written, kept inside it: a whole file in the place of another shows by it.

Names are never used twice, and files are never renamed, but for those of a changelog that come to share one object.
Files of other engines hold no name.
"""

from typing import Final

from lakehouse_core.errors import CorruptTable
from lakehouse_core.table.joined_changelog import segment_of

# In the footer of Parquet files and the header of Avro files. Stored in data files. Never rename.
FILE_NAME_KEY: Final = "lakehouse.file"


def file_name_of(key: str) -> str:
    """Return the last part of a key."""
    return key.rsplit("/", 1)[-1]


def lasting_name_of(key: str) -> str | None:
    """Return the name of the file at `key`, None for one of a joined changelog: it was written under another."""
    return None if segment_of(key) is not None else file_name_of(key)


def check_file_name(stored: bytes | None, key: str) -> None:
    """Raise CorruptTable where the file at `key` was written under another name than it has."""
    name = lasting_name_of(key)
    if stored is None or name is None or stored == name.encode():
        return
    raise CorruptTable(
        f"{key}: it was written as {stored.decode('utf-8', 'replace')!r:.200}: files were exchanged or renamed. "
        "Restore it from a copy of the table; if it was renamed on purpose, set lakehouse.read.verify to false."
    )
