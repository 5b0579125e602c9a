"""File name: the name under which a data file was written, stored inside it, so that an exchanged file is detected.

Rule: names are never reused, and files are never renamed, except changelog files that share one object later. Files of
other engines store no name.
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
    """Return the file name at `key`, None for a joined changelog, which was written under another name."""
    return None if segment_of(key) is not None else file_name_of(key)


def check_file_name(stored: bytes | None, key: str) -> None:
    """Raise CorruptTable when the file at `key` was written under another name."""
    name = lasting_name_of(key)
    if stored is None or name is None or stored == name.encode():
        return
    raise CorruptTable(
        f"{key}: found a file that was written as {stored.decode('utf-8', 'replace')!r:.200}. Restore the file "
        "from a copy of the table; if you renamed it on purpose, set lakehouse.read.verify to false."
    )
