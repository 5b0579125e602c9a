"""Names in statements: those of a catalog, of the default database and of data that the call names.

Rule: a name fits without case where exactly one does, as in Spark.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from lakehouse_core.api.system.tables import SystemTable
from lakehouse_core.api.table import Table
from lakehouse_core.errors import InvalidRequest, NotFound, UnsupportedFeature, retell, shown
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.engine import Engine
from lakehouse_core.planning.sql.tokens import Name, SqlText
from lakehouse_core.table.schema import ColumnDeclarations

_WORD: Final = re.compile(r"[\w.-]*\w")
# Of `table: what is wrong: advice. More advice.` what is wrong.
_FIRST_PART: Final = re.compile(r"^(?:[\w.$]+: )?(.*?)(?:: |\. |$).*", re.DOTALL)

# Of an error that names its place, or gets one by what it says (`error_places`).
_HAS_PLACE: Final = re.compile(r"(?:[^:\s]+: )?SQL[,:]")


class Verbs(Protocol):
    """The verbs of the catalog that statements call."""

    @property
    def uri(self) -> str: ...
    def databases(self) -> list[str]: ...
    def create_database(self, name: str, *, properties: Mapping[str, str] | None, exist_ok: bool) -> None: ...
    def alter_database(self, name: str, properties: Mapping[str, str | None]) -> None: ...
    def database_properties(self, name: str) -> dict[str, str]: ...
    def drop_database(self, name: str, *, cascade: bool, missing_ok: bool) -> None: ...
    def tables(self, database: str) -> list[str]: ...
    def create_table(
        self,
        name: str,
        schema: ColumnDeclarations,
        *,
        partition_keys: Sequence[str],
        primary_keys: Sequence[str],
        options: Mapping[str, str] | None,
        comment: str | None,
        nullable: bool,
    ) -> Table: ...
    def table(self, name: str) -> Table: ...
    def system_table(self, name: str, *, options: Mapping[str, str] | None = None) -> SystemTable: ...
    def drop_table(self, name: str, *, missing_ok: bool) -> None: ...
    def rename_table(self, source: str, target: str) -> Table: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementCall:
    """One call of `sql`: the catalog, and the arguments beside the text. `context` opens a table of the catalog,
    `opened` one to read it only.
    """

    catalog: Verbs
    context: Callable[[str], TableContext]
    opened: Callable[[str], TableContext]
    engine: Callable[[], Engine]
    sql: SqlText
    parameters: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, Any] = field(default_factory=dict)
    database: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)

    def inside(self, sql: SqlText) -> "StatementCall":
        """Return the call for a part of its text, in whose messages places are those of `sql`."""
        return replace(self, sql=sql)

    def foreign(self, name: Name) -> str | None:
        """Return the key in `tables` that a name of one part means; None if it means none."""
        return _fitting(name.parts[0], self.tables) if len(name.parts) == 1 else None

    def new_table(self, name: Name) -> str:
        """Return `database.table` for a new table."""
        database, table = self._parts(name)
        return f"{_fitting(database, self.catalog.databases()) or database}.{table}"

    def table(self, name: Name) -> str:
        """Return `database.table` of an existing table; a system table keeps its `$name`. Raises NotFound."""
        database, table = self._parts(name)
        base, dollar, system = table.partition("$")
        found = _fitting(database, self.catalog.databases())
        if found is not None:
            base = _fitting(base, self.catalog.tables(found)) or base
        return f"{found or database}.{base}{dollar}{system}"

    def existing(self, name: Name) -> Table:
        """Return the handle of an existing table. Raises NotFound and InvalidRequest with the place of the name."""
        with self.placed(name):
            return self.catalog.table(self.table(name))

    def database_name(self, name: Name | None) -> str:
        """Return the name of a database, the default one for None."""
        if name is None:
            if self.database is None:
                raise self.sql.invalid(
                    self.sql.tokens[0].start,
                    "no database is named. Name one, as in SHOW TABLES IN sales, or USE a database before (in Python "
                    "pass database= to sql())",
                )
            return _fitting(self.database, self.catalog.databases()) or self.database
        if len(name.parts) > 1:
            raise self.sql.invalid(name.start, f"{name} has {len(name.parts)} parts, expected the name of a database")
        return _fitting(name.parts[0], self.catalog.databases()) or name.parts[0]

    def is_database(self, name: str) -> bool:
        """Return whether a database has this name."""
        return _fitting(name, self.catalog.databases()) is not None

    @contextmanager
    def placed(self, name: Name, words: Collection[str] = (), *, until: int | None = None) -> Iterator[None]:
        """Give an error about what a name means the place of the name, or of the first of the words behind it, and
        before the place `until`, that the error says is wrong. An error of several faults names their places.
        """
        try:
            yield
        except (NotFound, InvalidRequest, UnsupportedFeature) as error:
            if _HAS_PLACE.match(str(error)) is None and len(error.args) == 1:
                end = len(self.sql.text) if until is None else until
                said = set(_WORD.findall(_FIRST_PART.sub(r"\1", str(error)))).intersection(words)
                behind = (one.start for one in self.sql.tokens if name.end < one.start < end and one.text in said)
                place = self.sql.place(next(behind, name.start))
                retell(error, lambda told: f"SQL, {place}: {told}")
            raise

    def _parts(self, name: Name) -> tuple[str, str]:
        if len(name.parts) == 1:
            if self.database is None:
                known = f" Named in tables=: {', '.join(self.tables)}." if self.tables else ""
                raise self.sql.invalid(
                    name.start,
                    f"{shown(str(name))} names no database. Write database.table, or USE a database before (in "
                    f"Python pass database= to sql(), or data by this name in tables=).{known}",
                )
            return self.database, name.parts[0]
        if len(name.parts) > 2:
            raise self.sql.invalid(name.start, f"{name} has {len(name.parts)} parts, expected database.table")
        return name.parts[0], name.parts[1]


def _fitting(name: str, known: Iterable[str]) -> str | None:
    known = list(known)
    if name in known:
        return name
    matches = [one for one in known if one.casefold() == name.casefold()]
    return matches[0] if len(matches) == 1 else None
