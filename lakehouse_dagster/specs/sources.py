"""Sources in a specification: where the rows of a table come from. A table has one of them."""

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import Field, PlainSerializer

from lakehouse_dagster.specs.names import Identifier
from lakehouse_dagster.specs.strict import StrictModel

# The attributes of a specification that are a source of rows.
SOURCES = ("feed", "changes_of", "files", "sql", "function", "asset")
# The name of an environment variable, that of a function in a module, and that of a table with its database.
VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"
DOTTED_NAME = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)+$"
TABLE_NAME = r"^[A-Za-z][A-Za-z0-9_]*\.[A-Za-z][A-Za-z0-9_]*$"
# In a path of files, a partition: its key, or of a window of time its start by a pattern of strftime.
FILES_PARAMETER = re.compile(r"\{([A-Za-z][A-Za-z0-9_]*)(?::([^{}]*))?\}")
# In a query of SQL, the text of a partition. Two colons are a cast of PostgreSQL.
SQL_PARAMETER = re.compile(r"(?<![:\w]):(partition_key|partition_start|partition_end)\b")


class FeedSpec(StrictModel):
    """The source of the rows: a source that the code location knows, and one of its feeds."""

    source: Identifier
    name: Identifier
    # Off: the feed is loaded whole, in one batch.
    batches: bool = True


class ChangesSpec(StrictModel):
    """The table whose changelog a table follows: a row stays in it while these columns are null. Without such columns
    all rows stay.
    """

    table: Annotated[str, Field(pattern=TABLE_NAME)]
    while_null: tuple[Identifier, ...] = ()


class FilesSpec(StrictModel):
    """Files of rows, each loaded once: those that match `path`, where `*` stands for any characters of a name and `**`
    for any folders. A relative path begins at the folder of the specification.

    With `partitions` a run loads all files of its keys: `{partition_key}` in the path stands for the key, for one of
    two dimensions its name does, and `{partition_key:%Y/%m/%d}` for the start of a window of time.
    """

    path: str = Field(min_length=1)
    # By the ending of each file name, unless it is given here.
    format: Literal["parquet", "csv", "tsv", "jsonl", "json", "arrow"] | None = None
    # For CSV: one character, or `tab`; and the unquoted text that means null.
    delimiter: str | None = None
    null: str = ""

    @property
    def parameters(self) -> list[tuple[str, str]]:
        """What in the path stands for a partition: the dimension, and the pattern of its time or an empty text."""
        return FILES_PARAMETER.findall(self.path)


class SqlSpec(StrictModel):
    """A query of a database, by SQLAlchemy. With `cursor`, each run takes the rows from its last value on, each once.

    Without, a run takes all rows, or with `partitions` those that the query selects by its parameters: the key as
    `:partition_key`, and the ends of a window of time as `:partition_start` and `:partition_end`.
    """

    # The name of the environment variable with the address of the database, never the address.
    connection: Annotated[str, Field(pattern=VARIABLE)]
    query: str = Field(min_length=1)
    # A column of the query whose values only rise: later rows have at least the value of earlier ones.
    cursor: str | None = None

    @property
    def parameters(self) -> list[str]:
        """The parameters of the query that stand for a partition."""
        return SQL_PARAMETER.findall(self.query)


def _dotted(call: object) -> str:
    return call if isinstance(call, str) else f"{getattr(call, '__module__', '')}.{getattr(call, '__qualname__', call)}"


class FunctionSpec(StrictModel):
    """A Python function that yields rows: objects with an Arrow stream, pandas or polars frames.

    `cursor` is a column of its rows. With a cursor, the function is called with the last value that was taken, None at
    first. It yields the rows from that value on, in the order of the cursor; each is taken once. Without a cursor, it
    is called with the key of a partition, or with nothing for a table without partitions.
    """

    # Its dotted name, as in `shop.rows.orders`; in Python also the function itself.
    call: Annotated[
        Annotated[str, Field(pattern=DOTTED_NAME)] | Callable[..., Any],
        PlainSerializer(_dotted, return_type=str),
    ]
    cursor: str | None = None

    @property
    def name(self) -> str:
        """The dotted name of the function."""
        return _dotted(self.call)


class UpstreamSpec(StrictModel):
    """An asset upstream whose value is the rows: an object with an Arrow stream, or a pandas, polars or Spark frame."""

    # As in `raw/orders`.
    key: str = Field(min_length=1)
    # The resource that loads the value; None: that of the asset.
    io_manager: str | None = None
