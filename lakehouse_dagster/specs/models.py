"""Table specifications: the columns and keys of a table, its source, and its maintenance.

Rule: unknown names are refused, and a specification has everything that the table needs.
"""

import difflib
import hashlib
import re
from collections.abc import Callable, Collection, Mapping
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    PrivateAttr,
    field_validator,
    model_validator,
)

from lakehouse_dagster.specs.cron import Timezone
from lakehouse_dagster.specs.lateness import BehindSpec, FreshnessSpec, IngestSpec
from lakehouse_dagster.specs.strict import Misfit, StrictModel

# What `rowkind_column` of a specification may hold.
ROW_KINDS = ("+I", "-U", "+U", "-D")
# The attributes of a specification that are a source of rows.
SOURCES = ("feed", "changes_of", "files", "sql", "function", "asset")
# Those that a run loads as a whole, or by partitions.
_OF_A_RUN = ("function", "asset", "sql")
# In a path of files, a partition: its key, or of a window of time its start by a pattern of strftime.
FILES_PARAMETER = re.compile(r"\{([A-Za-z][A-Za-z0-9_]*)(?::([^{}]*))?\}")
# In a query of SQL, the text of a partition. Two colons are a cast of PostgreSQL.
SQL_PARAMETER = re.compile(r"(?<![:\w]):(partition_key|partition_start|partition_end)\b")
# Dagster makes op names of them, replacing all else by "_": two tables could fall on one name.
Identifier = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$")]


class ColumnSpec(StrictModel):
    """A column: its type as SQL text (`DECIMAL(12, 2) NOT NULL`) and what it means."""

    type: str
    description: str = ""


def _column(value: object) -> object:
    return {"type": value} if isinstance(value, str) else value


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

    table: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*\.[A-Za-z][A-Za-z0-9_]*$")]
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
    connection: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
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

    With `cursor`, a column of its rows, it is called with the last value that was taken (None at first), and yields the
    rows from that value on in the order of the cursor; each is taken once. Without, it is called with the key of a
    partition, or with nothing for a table without partitions.
    """

    # Its dotted name, as in `shop.rows.orders`; in Python also the function itself.
    call: Annotated[
        Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)+$")] | Callable[..., Any],
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


def _text_of_date(value: object) -> object:
    # YAML reads `2013-01-01` as a date.
    return value.isoformat() if isinstance(value, date) else value


DateText: TypeAlias = Annotated[str, BeforeValidator(_text_of_date)]
_WINDOWS = ("hour", "day", "week", "month")


def _every(text: str) -> str:
    # Five fields are a cron schedule, which Dagster reads.
    if text not in _WINDOWS and len(text.split()) != 5:
        known = f"{', '.join(_WINDOWS)} or the five fields of a cron schedule"
        raise ValueError(f"found {text!r}, expected {known}, as in '0 6 * * 1'")
    return text


class TimePartitionsSpec(StrictModel):
    """Time windows from `start` on, up to `end` or the present. The start of a window makes the values of `columns`:
    column → pattern of `strftime`.
    """

    # `hour`, `day`, `week`, `month`, or a cron schedule.
    every: Annotated[str, AfterValidator(_every)]
    start: DateText
    end: DateText | None = None
    timezone: Timezone = "UTC"
    columns: Mapping[str, str] = {}

    @model_validator(mode="after")
    def _tells_windows_apart(self) -> Self:
        first = datetime(2013, 1, 1)
        # The next window, and those of a day, a month and a year later, which a pattern of the hour alone confuses.
        later = [datetime(2013, 2, 1), datetime(2014, 1, 1)]
        later += {
            "hour": [first + timedelta(hours=1), first + timedelta(days=1)],
            "day": [first + timedelta(days=1)],
        }.get(self.every, [])
        for other in later if self.columns else []:
            if all(first.strftime(pattern) == other.strftime(pattern) for pattern in self.columns.values()):
                raise ValueError(
                    f"columns {dict(self.columns)}: {first} and {other} have the same values, expected values of their "
                    "own for each window. Use patterns as fine as the windows, with all parts of the date"
                )
        return self


class KeyPartitionsSpec(StrictModel):
    """Partitions whose key is the value of `column`, or with `values` the name of a value: key → value."""

    column: str | None = None
    values: Mapping[str, str] | None = None


class StaticPartitionsSpec(KeyPartitionsSpec):
    """Partitions with these keys."""

    keys: tuple[str, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _maps_each_key(self) -> Self:
        if self.values is not None and (missing := [key for key in self.keys if key not in self.values]):
            raise ValueError(f"values have no value for the key {missing[0]!r}. Give each key a value of its own")
        if self.values is not None and len(set(self.values.values())) < len(self.values):
            raise ValueError("values have one value for two keys. Give each key a value of its own")
        return self


class DynamicPartitionsSpec(KeyPartitionsSpec):
    """Partitions whose keys are added to the instance under this name."""

    name: str = Field(min_length=1)


class DimensionSpec(StrictModel):
    """Partitions of one kind."""

    time: TimePartitionsSpec | None = None
    static: StaticPartitionsSpec | None = None
    dynamic: DynamicPartitionsSpec | None = None

    @model_validator(mode="after")
    def _is_of_one_kind(self) -> Self:
        kinds = list(type(self).model_fields)
        if len(given := [kind for kind in kinds if getattr(self, kind) is not None]) != 1:
            raise ValueError(
                f"found {' and '.join(given) or 'no kind'}, expected one of {', '.join(kinds)}. Give one of them"
            )
        return self

    @property
    def columns(self) -> list[str]:
        """The columns that a key gives a value to."""
        keyed = self.static or self.dynamic
        return [*(() if self.time is None else self.time.columns), *([keyed.column] if keyed and keyed.column else [])]


class PartitionsSpec(DimensionSpec):
    """The partitions of a table's assets: of one kind, or of two dimensions by name."""

    multi: Annotated[Mapping[Identifier, DimensionSpec], Field(min_length=2, max_length=2)] | None = None

    @property
    def all_columns(self) -> list[str]:
        """The columns that a key gives a value to, of all dimensions."""
        dimensions = [self] if self.multi is None else self.multi.values()
        return [column for each in dimensions for column in each.columns]


WriteMode: TypeAlias = Literal["append", "upsert", "overwrite", "cdc"]


def _write_mode(value: object) -> object:
    # The name of the mode in earlier releases.
    return "upsert" if value == "merge" else value


class MaintenanceSpec(StrictModel):
    """When the table is maintained. The core decides what is done."""

    # More small files than this, all buckets together: compact fully.
    max_small_files: int = Field(default=16, ge=1)
    # More sorted runs than this in any bucket of a key table: compact fully.
    max_sorted_runs: int = Field(default=5, ge=1)
    max_manifests: int = Field(default=16, ge=1)
    max_snapshots: int = Field(default=30, ge=1)


class CommitSpec(StrictModel):
    """How staged batches are committed: `each` in a snapshot of its own, or `together`, all that are staged."""

    how: Literal["each", "together"] = "each"
    # Of one snapshot; what is staged beyond them goes into the next ones.
    most_batches: int = Field(default=500, ge=1)
    # So long the sensor waits for runs that are still staging.
    wait_minutes: int = Field(default=60, ge=0)

    @property
    def is_together(self) -> bool:
        """Whether a committer takes all batches that are staged."""
        return self.how == "together"


def _commit(value: object) -> object:
    return {"how": value} if isinstance(value, str) else value


class TableSpec(StrictModel):
    """One table. Its asset keys, checks and jobs are made from the specification alone."""

    database: Identifier
    name: Identifier
    comment: str
    columns: Mapping[Identifier, Annotated[ColumnSpec, BeforeValidator(_column)]]
    primary_key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    options: Mapping[str, str] = {}
    # `append` adds rows, `upsert` merges them by the key, `overwrite` replaces partitions, and `cdc` merges rows that
    # say their kind in `rowkind_column`: +I, -U, +U or -D.
    write_mode: Annotated[WriteMode, BeforeValidator(_write_mode)]
    rowkind_column: str | None = None
    # The rows come from one of them.
    feed: FeedSpec | None = None
    changes_of: ChangesSpec | None = None
    files: FilesSpec | None = None
    sql: SqlSpec | None = None
    function: FunctionSpec | None = None
    asset: UpstreamSpec | None = None
    # Of a function, an asset, a query or files: a run loads each of its partitions by its key. None for tables without.
    partitions: PartitionsSpec | None = None
    # `process`: by the run itself, for batches of a few thousand rows, which are done before a Spark job has begun.
    runs_on: Literal["spark", "process"] = "spark"
    # `together`: batches are staged in parallel, and committed in one snapshot.
    commit: Annotated[CommitSpec, BeforeValidator(_commit)] = CommitSpec()
    # A tag `batch-<day>` after each batch, so that the table can be read as it was that evening.
    tag_batches: bool = False
    maintenance: MaintenanceSpec = MaintenanceSpec()
    ingest: IngestSpec = IngestSpec()
    behind: BehindSpec = BehindSpec()
    freshness: FreshnessSpec | None = None
    owners: tuple[str, ...] = ()
    tags: Mapping[str, str] = {}
    # Where it was read from, as pages show it. No part of what it says: equal texts have equal digests.
    _file: str = PrivateAttr(default="")
    # The folder that a relative path of its files begins at.
    _folder: Path = PrivateAttr(default=Path())

    @field_validator("options", mode="before")
    @classmethod
    def _option_texts(cls, value: object) -> object:
        # YAML reads `bucket: 1` as a number and `true` as a truth value; options are texts.
        if not isinstance(value, Mapping):
            return value
        return {
            key: str(v).lower() if isinstance(v, bool) else str(v) if isinstance(v, int | float) else v
            for key, v in value.items()
        }

    @model_validator(mode="after")
    def _columns_exist(self) -> Self:
        for what, names in (("primary_key", self.primary_key), ("partition_by", self.partition_by)):
            for name in names:
                if name not in self.columns:
                    raise Misfit((what,), f"{what} names {name!r}, which is not a column{nearest(name, self.columns)}")
        return self

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if len(given := [name for name in SOURCES if getattr(self, name) is not None]) != 1:
            raise ValueError(
                f"rows come from one source: found {' and '.join(given) or 'none'}, expected one of "
                f"{', '.join(SOURCES)}. Give one of them"
            )
        return self

    @model_validator(mode="after")
    def _can_be_written(self) -> Self:
        mode, has = self.write_mode, "has" if self.primary_key else "has no"
        if mode != "overwrite" and (mode == "append") == bool(self.primary_key):
            raise Misfit(("write_mode",), f"write_mode is {mode!r}, but the table {has} primary_key")
        # The rows of a changelog have their kinds already.
        if (self.rowkind_column is not None) != (mode == "cdc" and self.changes_of is None):
            raise Misfit(
                ("write_mode",),
                f"write_mode is {mode!r}: found rowkind_column {self.rowkind_column!r}, expected the column of +I, -U, "
                "+U and -D for 'cdc', and none for other modes and for changes_of",
            )
        if mode == "overwrite" and (rising := self._rising_source) is not None:
            raise Misfit(
                ("write_mode",),
                f"write_mode is 'overwrite', but {rising} gives new rows, not whole partitions. Write 'append' or "
                "'upsert'",
            )
        loaded = next((name for name in _OF_A_RUN if getattr(self, name) is not None), None)
        if mode == "append" and loaded is not None and self._rising_source is None:
            raise Misfit(
                ("write_mode",),
                f"write_mode is 'append', but each run would add all rows of the {loaded} again. Write 'overwrite' or "
                "'upsert', or give a cursor to a function or a query",
            )
        if mode == "append" and self._are_files_partitioned:
            raise Misfit(
                ("write_mode",),
                "write_mode is 'append', but each run of a partition would add all rows of its files again. Write "
                "'overwrite' or 'upsert', or leave partitions out: then each file is loaded once",
            )
        return self

    @model_validator(mode="after")
    def _can_be_partitioned(self) -> Self:
        if self.partitions is None:
            if self.sql is not None and self.sql.cursor is None and self.sql.parameters:
                raise Misfit(
                    ("sql", "query"),
                    f"sql.query uses :{self.sql.parameters[0]}, but the table has no partitions. Give it partitions",
                )
            if self.files is not None and "partition_key" in dict(self.files.parameters):
                raise Misfit(
                    ("files", "path"),
                    "files.path has {partition_key}, but the table has no partitions. Give it partitions",
                )
            return self
        if self._rising_source is not None or not any(
            getattr(self, name) is not None for name in (*_OF_A_RUN, "files")
        ):
            raise Misfit(
                ("partitions",),
                f"partitions are for files, and for {', '.join(_OF_A_RUN)} without cursor; other sources say "
                "themselves what is new. Leave partitions out",
            )
        self._query_selects_by(self.partitions)
        self._path_selects_by(self.partitions)
        for column in self.partitions.all_columns:
            if column not in self.partition_by:
                hint = nearest(column, self.partition_by) if self.partition_by else "; the table has none."
                raise Misfit(("partitions",), f"partitions map {column!r}, which is not in partition_by{hint}")
        if self.tag_batches and self.partitions.time is None:
            raise Misfit(
                ("tag_batches",), "tag_batches is for time windows; other keys may not be names of tags. Leave it out"
            )
        if self.write_mode == "overwrite" and not self.partitions.all_columns:
            raise Misfit(
                ("partitions",),
                "write_mode is 'overwrite', but partitions have no columns: each would replace the whole table. Map "
                "the keys to columns of partition_by",
            )
        return self

    def _query_selects_by(self, partitions: PartitionsSpec) -> None:
        if self.sql is None:
            return
        if partitions.multi is not None:
            raise Misfit(("partitions",), "partitions of a query have one dimension. Leave multi out")
        if not self.sql.parameters:
            raise Misfit(
                ("sql", "query"),
                "sql.query selects the same rows for each partition. Use :partition_key in it, or :partition_start "
                "and :partition_end",
            )
        if partitions.time is None and (ends := [each for each in self.sql.parameters if each != "partition_key"]):
            raise Misfit(("sql", "query"), f"sql.query uses :{ends[0]}, which is for time. Use :partition_key")

    def _path_selects_by(self, partitions: PartitionsSpec) -> None:
        if self.files is None:
            return
        dimensions = partitions.multi or {"partition_key": partitions}
        found = self.files.parameters
        if unknown := [name for name, _ in found if name not in dimensions]:
            raise Misfit(("files", "path"), f"files.path has {{{unknown[0]}}}{nearest(unknown[0], dimensions)}")
        if missing := [name for name in dimensions if name not in dict(found)]:
            raise Misfit(
                ("files", "path"),
                f"files.path selects the same files for each key. Use {{{missing[0]}}} in it",
            )
        if keyed := [name for name, pattern in found if pattern and dimensions[name].time is None]:
            raise Misfit(
                ("files", "path"),
                f"files.path has a pattern of time for {keyed[0]}, whose keys are no windows of time. Use "
                f"{{{keyed[0]}}}",
            )

    @model_validator(mode="after")
    def _can_be_loaded_by_itself(self) -> Self:
        silent = next((name for name in ("sql", "function") if getattr(self, name) is not None), None)
        if self._are_files_partitioned:
            silent = "a source of files with partitions"
        if self.feed is not None and not self.feed.batches:
            silent = "a feed that is loaded whole"
        if silent is not None and (fault := self.fault_of_news(silent)) is not None:
            raise fault
        if self.ingest.schedule is not None and self.partitions is not None and self.partitions.multi is not None:
            raise Misfit(
                ("ingest", "schedule"),
                "ingest.schedule is for partitions of one dimension. Leave it out, and request the keys in a schedule "
                "of your own",
            )
        return self

    @model_validator(mode="after")
    def _can_be_committed_together(self) -> Self:
        if not self.commit.is_together:
            return self
        if not self.is_batched:
            raise Misfit(
                ("commit",), "commit is 'together', which is for a feed in batches. Leave it out, or give the table one"
            )
        if self.ingest.schedule is not None:
            raise Misfit(
                ("ingest", "schedule"),
                "ingest.schedule is for tables whose batches are committed one by one. Leave it out: new batches are "
                "staged when they come",
            )
        if self.options.get("changelog-producer") == "input" and self.commit.most_batches > 1:
            raise Misfit(
                ("commit",),
                "commit is 'together', but changelog-producer is 'input': a key that several batches change would be "
                "in the changelog of one snapshot several times. Take 'lookup' or 'full-compaction'",
            )
        return self

    def fault_of_news(self, silent: str) -> Misfit | None:
        """Return what the specification asks of a source that does not tell what is new; None if it asks nothing.

        `silent` names the source.
        """
        if self.ingest.news:
            return Misfit(("ingest", "news"), f"ingest.news: {silent} does not tell what is new. Give a schedule")
        # A specification that was written as JSON names every field.
        if "behind" in self.model_fields_set and self.behind != BehindSpec():
            return Misfit(
                ("behind",),
                f"behind: {silent} does not tell what is new, so there is no check inputs_current. Leave it out, or "
                "give freshness",
            )
        return None

    @property
    def _are_files_partitioned(self) -> bool:
        return self.files is not None and self.partitions is not None

    @property
    def _rising_source(self) -> str | None:
        """The source that gives in each batch only what is new since the last one; None for another source."""
        if self.changes_of is not None:
            return "changes_of"
        if self.sql is not None and self.sql.cursor is not None:
            return "sql with a cursor"
        if self.function is not None and self.function.cursor is not None:
            return "a function with a cursor"
        return "a feed in batches" if self.is_batched else None

    @property
    def identifier(self) -> str:
        """The table's name in its catalog: `database.name`."""
        return f"{self.database}.{self.name}"

    @property
    def file(self) -> str:
        """The file that it was read from, relative to the folder that `load_specs` was told; empty without one."""
        return self._file

    @property
    def path(self) -> Path | None:
        """The path of the file that it was read from; None without one."""
        return self._folder / Path(self._file).name if self._file else None

    @property
    def files_pattern(self) -> str:
        """The pattern of its files, from the root of the disk or relative to the working directory; empty without."""
        return "" if self.files is None else str(self._folder / Path(self.files.path).expanduser())

    def read_from(self, file: str, folder: Path) -> Self:
        """Return the same specification, which says that it was read from `file`, and lies in `folder`."""
        copy = self.model_copy()
        copy._file, copy._folder = file, folder
        return copy

    @property
    def is_batched(self) -> bool:
        """Whether its rows come in the batches of a feed."""
        return self.feed is not None and self.feed.batches

    @property
    def digest(self) -> str:
        """Equal for equal specifications; part of the code version of the assets made from it."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:12]


def nearest(name: str, known: Collection[str]) -> str:
    """Return the end of a message about an unknown name: the nearest known one, else all of them."""
    matches = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {matches[0]!r}?" if matches else f"; there are {', '.join(known)}."
