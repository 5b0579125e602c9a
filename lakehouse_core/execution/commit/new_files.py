"""New files: verify that the files which a snapshot will name are in the store."""

from lakehouse_core.errors import CommitConflict, CorruptTable
from lakehouse_core.planning.commit.file_changes import FileChanges, new_files
from lakehouse_core.storage import StoreReader
from lakehouse_core.table.data_layout import DataLayout


def check_new_files(store: StoreReader, changes: FileChanges, folders: DataLayout) -> None:
    """Raise CommitConflict when a file is missing that the changes add, CorruptTable at a wrong size."""
    files = list(new_files(changes, folders))
    infos = store.infos(file.key for file in files)
    for file in files:
        if (info := infos.get(file.key)) is None:
            raise CommitConflict(
                f"{file.key}: the commit adds it, but it is missing: it was removed as an orphan, or never "
                "written. Nothing was applied: write the data again."
            )
        if (recorded := file.size_fault(info.size)) is not None:
            raise CorruptTable(
                f"{file.key}: it has {info.size} bytes, its writer recorded {recorded}. Nothing was applied: "
                "write the data again."
            )
