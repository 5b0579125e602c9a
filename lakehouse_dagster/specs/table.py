"""Table specifications: the columns and keys of a table, its source, and its maintenance.

Rule: unknown names are refused, and a specification has everything that the table needs.
"""

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, PrivateAttr, field_validator, model_validator

from lakehouse_dagster.specs.lateness import BehindSpec, FreshnessSpec, IngestSpec
from lakehouse_dagster.specs.names import Identifier, nearest
from lakehouse_dagster.specs.partitions import PartitionsSpec
from lakehouse_dagster.specs.selection import check_path, check_query
from lakehouse_dagster.specs.sources import (
    SOURCES,
    ChangesSpec,
    FeedSpec,
    FilesSpec,
    FunctionSpec,
    SqlSpec,
    UpstreamSpec,
)
from lakehouse_dagster.specs.strict import Misfit, SeveralMisfits, StrictModel

# What `rowkind_column` of a specification may hold.
ROW_KINDS = ("+I", "-U", "+U", "-D")
# The sources that a run loads as a whole, or by partitions.
_OF_A_RUN = ("function", "asset", "sql")


class ColumnSpec(StrictModel):
    """A column: its type as SQL text (`DECIMAL(12, 2) NOT NULL`) and what it means."""

    type: str
    description: str = ""


def _column(value: object) -> object:
    return {"type": value} if isinstance(value, str) else value


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
    # More rows than this wait for their buckets, where no read has them: move them there.
    max_waiting_rows: int = Field(default=0, ge=0)
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


# Why a table with dynamic buckets is refused. The options of the lake's resource may give it buckets, or take them.
DYNAMIC_TOGETHER: Final = (
    "commit is 'together', but the table has dynamic buckets: batches that are staged at the same time may put a new "
    "key into two of them. Give it a number of buckets"
)


def _found(check: Callable[[], None]) -> list[Misfit]:
    try:
        check()
    except Misfit as fault:
        return [fault]
    return []


def _commit(value: object) -> object:
    return {"how": value} if isinstance(value, str) else value


class TableSpec(StrictModel):
    """One table. Its asset keys, checks and jobs are made from the specification alone.

    The attributes are the keys of its YAML file, which `load_specs` reads. docs/dagster.md has an example, and
    docs/sources.md one for each source.
    """

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
    def _fits_together(self) -> Self:
        faults = [*_found(self._columns_exist), *(without_source := _found(self._has_one_source))]
        if not without_source:
            for check in (
                self._can_be_written,
                self._can_be_partitioned,
                self._can_be_loaded_by_itself,
                self._can_be_committed_together,
            ):
                faults += _found(check)
        if faults:
            raise SeveralMisfits(self, faults)
        return self

    def _columns_exist(self) -> None:
        for what, names in (("primary_key", self.primary_key), ("partition_by", self.partition_by)):
            for name in names:
                if name not in self.columns:
                    raise Misfit((what,), f"{what} names {name!r}, which is not a column{nearest(name, self.columns)}")

    def _has_one_source(self) -> None:
        if len(given := [name for name in SOURCES if getattr(self, name) is not None]) != 1:
            raise Misfit(
                tuple(given[1:2]),
                f"rows come from one source: found {' and '.join(given) or 'none'}, expected one of "
                f"{', '.join(SOURCES)}. Give one of them",
            )

    def _can_be_written(self) -> None:
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

    def _can_be_partitioned(self) -> None:
        if self.partitions is None:
            self._check_selection()
            return
        if self._rising_source is not None or not any(
            getattr(self, name) is not None for name in (*_OF_A_RUN, "files")
        ):
            raise Misfit(
                ("partitions",),
                f"partitions are for files, and for {', '.join(_OF_A_RUN)} without cursor; other sources say "
                "themselves what is new. Leave partitions out",
            )
        self._check_selection()
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

    def _check_selection(self) -> None:
        if self.sql is not None:
            check_query(self.sql, self.partitions)
        if self.files is not None:
            check_path(self.files, self.partitions)

    def _can_be_loaded_by_itself(self) -> None:
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

    def _can_be_committed_together(self) -> None:
        if not self.commit.is_together:
            return
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
        if self.primary_key and self.options.get("bucket") == "-1":
            raise Misfit(("options", "bucket"), DYNAMIC_TOGETHER)

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
    def postpones_buckets(self) -> bool:
        """Whether its options say that rows wait for a compaction that brings them into buckets."""
        return self.options.get("bucket") == "-2"

    @property
    def digest(self) -> str:
        """Equal for equal specifications; part of the code version of the assets made from it."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:12]
