"""Makes sure that the files which a snapshot is to name are there, before it names them."""

from lakehouse_core.errors import CommitConflict, CorruptTable, NotFound
from lakehouse_core.planning.commit.file_changes import Changes, new_files
from lakehouse_core.storage import ObjectStore
from lakehouse_core.table.data_layout import DataLayout


def check_new_files(store: ObjectStore, changes: Changes, folders: DataLayout) -> None:
    """Raise CommitConflict when a file is missing that the changes add, CorruptTable at a wrong size."""
    for file in new_files(changes, folders):
        try:
            size = store.size(file.key)
        except NotFound as error:
            raise CommitConflict(
                f"{file.key}: the commit adds it, but it is missing: it was removed as an orphan, or never "
                "written. Nothing was applied: write the data again."
            ) from error
        if (recorded := file.size_fault(size)) is not None:
            raise CorruptTable(
                f"{file.key}: it has {size} bytes, its writer recorded {recorded}. Nothing was applied: "
                "write the data again."
            )
