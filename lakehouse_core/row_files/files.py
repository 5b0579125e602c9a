"""Row files as input of the writing verbs.

Rule: nothing is opened before the rows are written.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

import pyarrow as pa

from lakehouse_core.calls import checks_arguments
from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.format.data_types import DataField
from lakehouse_core.row_files.csv_records import parse_delimiter
from lakehouse_core.row_files.row_format import FORMATS, PIPE, RowFormat
from lakehouse_core.row_files.row_input import read_files
from lakehouse_core.table.commit_message import Missing


@checks_arguments
@dataclass(frozen=True, slots=True)
class RowFiles:
    """Rows in local files: `table.write(RowFiles("orders.csv"))`. Pass one path, or a list of paths in their order.

    `format` is parquet, csv, tsv, jsonl, json or arrow; None: by the suffix of each file name. Text files may be
    compressed (.csv.gz). `delimiter` (one character, or tab) and `null` (the unquoted text that means null) are for
    CSV. Columns are matched by name, and texts are parsed by the types of the table. Raises InvalidRequest.
    """

    paths: str | Path | Sequence[str | Path]
    _: KW_ONLY
    format: str | None = None
    delimiter: str | None = None
    null: str = ""

    def __post_init__(self) -> None:
        given = [self.paths] if isinstance(self.paths, str | Path) else self.paths
        if not isinstance(given, Sequence) or not all(isinstance(path, str | Path) and str(path) for path in given):
            raise InvalidRequest(f"RowFiles({shown(self.paths)}): expected a path, or a list of paths.")
        paths = tuple(Path(path) for path in given)
        if PIPE in paths:
            raise InvalidRequest("RowFiles('-'): expected files. Only the shell reads standard input.")
        if self.format is not None and self.format not in FORMATS:
            raise InvalidRequest(f"RowFiles(format={shown(self.format)}): expected one of {', '.join(FORMATS)}.")
        if not isinstance(self.null, str):
            raise InvalidRequest(f"RowFiles(null={shown(self.null)}): expected a text.")
        if self.delimiter is not None:
            object.__setattr__(self, "delimiter", parse_delimiter(self.delimiter, "RowFiles(delimiter=…)"))
        object.__setattr__(self, "paths", paths)

    def rows(
        self, fields: Sequence[DataField], *, rowkind_column: str | None, missing: Missing
    ) -> pa.RecordBatchReader:
        """Return the rows of all files, one file after the other, as columns of a table with these `fields`.

        Raises InvalidRequest naming the file.
        """
        assert isinstance(self.paths, tuple)
        form = RowFormat(name=self.format, delimiter=self.delimiter, null=self.null)
        return read_files(self.paths, fields, form, rowkind_column=rowkind_column, missing=missing)
