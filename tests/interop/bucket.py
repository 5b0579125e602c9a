"""A warehouse in a bucket of an S3 server, for both sides: names in a SQL database, commits under its lock."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import lakehouse_core as lc
from tests.interop.dying_writer import with_lock
from tests.interop.judge import Judge
from tests.storage.s3_stub import REGION

NUMBERS = count()


class Bucket:
    """`names`: the file of the SQL database; None: folders are the names. The judge needs Java's file system for S3."""

    def __init__(self, storage: Mapping[str, str], names: Path | None) -> None:
        self.warehouse = f"s3://lake/run-{next(NUMBERS)}"
        self.storage, self.names = storage, names
        self._opened: list[Judge] = []

    @property
    def ours(self) -> lc.Catalog:
        if self.names is None:
            return lc.connect(self.warehouse, storage=self.storage)
        return with_lock(self.warehouse, self.storage, self.names)

    def of_java(self, judge: Judge) -> dict[str, Any]:
        """Return where a request of the judge finds the warehouse."""
        catalog = catalog_of_java(self.storage)
        if self.names is not None:
            # In the default mode of SQLite, reads that Java leaves open would keep all others from writing.
            uri = f"jdbc:sqlite:{self.names}?journal_mode=WAL"
            catalog |= {"metastore": "jdbc", "uri": uri, "lock.enabled": "true", "lock.type": "jdbc"}
            catalog["lock-check-max-sleep"] = "50 ms"
            if judge not in self._opened:
                # Where Java finds the table of locks when it opens a catalog, it leaves a read open for good.
                self._opened.append(judge)
                self.sql("DROP TABLE IF EXISTS paimon_distributed_locks")
        return {"warehouse": self.warehouse, "catalog": catalog}

    def sql(self, query: str) -> list[tuple[Any, ...]]:
        assert self.names is not None
        with closing(sqlite3.connect(self.names)) as connection, connection:
            return connection.execute(query).fetchall()


def catalog_of_java(storage: Mapping[str, str]) -> dict[str, str]:
    named = {f"s3.{name}": value for name, value in storage.items()}
    # Without a region Java signs for another one than the strict server has.
    return {**named, "s3.path.style.access": "true", "s3.endpoint.region": REGION}
