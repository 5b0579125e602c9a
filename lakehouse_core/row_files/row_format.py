"""Row formats of files and pipes: Parquet, CSV, JSON, Arrow, and the format that a file name means."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.row_files.csv_records import CsvStyle

FORMATS: Final = ("parquet", "csv", "tsv", "jsonl", "json", "arrow")
# The file name that means standard input or standard output.
PIPE: Final = Path("-")
_ENDINGS: Final = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".arrow": "arrow",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFormat:
    """The format of rows in files.

    `name` None: by the suffix of each file name; `delimiter` None: the format's default.
    """

    name: str | None = None
    delimiter: str | None = None
    null: str = ""

    def of(self, file: Path) -> str:
        """Return the format of a file. Raises InvalidRequest when neither the name nor an option gives it."""
        if self.name is not None:
            return self.name
        if file == PIPE:
            raise InvalidRequest(f"-: a pipe has no file name that gives the format. Pass --format {_listed(FORMATS)}.")
        ending = suffixes(file)[0]
        if ending not in _ENDINGS:
            raise InvalidRequest(
                f"{file}: expected a name that ends with one of {', '.join(_ENDINGS)}. Rename the file, or give "
                "its format (--format, in Python format=)."
            )
        return _ENDINGS[ending]

    def csv(self, form: str) -> CsvStyle:
        return CsvStyle(delimiter=self.delimiter or ("\t" if form == "tsv" else ","), null=self.null)


def suffixes(file: Path) -> tuple[str, str]:
    """Return the format's suffix, and ".gz" or ""."""
    name = file.name.lower()
    packed = ".gz" if name.endswith(".gz") else ""
    return Path(name.removesuffix(".gz")).suffix, packed


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"
