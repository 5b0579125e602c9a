"""Every verb where a database decides, killed or failing at SQL statements and requests; and random histories there.

Here some commits of transactions, in SQLite; `make test-long` takes each, in PostgreSQL too, `make test-mariadb` some.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import settings

from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.catalog.sql.address import SqlAddress, sql_address
from lakehouse_core.storage import Call, FaultKind
from tests.catalog.sql.mariadb_server import mariadb_server
from tests.catalog.sql.postgresql_server import postgresql_server
from tests.model.decided_faults import KINDS, VERBS, is_sql, sweep
from tests.model.decided_lake import DecidedLake
from tests.model.test_table import TableMachine
from tests.pairs import in_turn

SOME = ("write", "commit, overtaken", "expire", "tag", "alter", "create table", "drop table", "drop database")


@pytest.fixture(scope="module")
def sqlite(tmp_path_factory: pytest.TempPathFactory) -> SqlAddress:
    return sql_address(f"sqlite:///{tmp_path_factory.mktemp('names')}/names.db", {})


@pytest.fixture(scope="module")
def postgresql() -> Iterator[SqlAddress]:
    with postgresql_server() as server:
        yield sql_address(server.new_database(), {})


@pytest.fixture(scope="module")
def mariadb() -> Iterator[SqlAddress]:
    with mariadb_server() as server:
        yield sql_address(server.new_database(), {})


def commits(calls: Sequence[Call]) -> Sequence[Call]:
    return [call for call in calls if call.method == "commit"]


@pytest.mark.one_in(2)
@pytest.mark.slow
@pytest.mark.parametrize("place", in_turn(3, range(len(SOME))))
def test_readers_see_before_or_after_whatever_transaction_dies_or_is_not_answered(
    sqlite: SqlAddress, place: int
) -> None:
    kind = (FaultKind.DIE_AFTER, FaultKind.FAIL_AFTER)[place % 2]

    assert sweep(sqlite, SOME[place], kind, chosen=lambda calls: [commits(calls)[place % len(commits(calls))]]) == 1


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", VERBS)
def test_readers_see_before_or_after_whatever_call_dies_or_fails(
    sqlite: SqlAddress, name: str, kind: FaultKind
) -> None:
    place = KINDS.index(kind)
    assert sweep(sqlite, name, kind, chosen=lambda calls: [*commits(calls), *calls[place::12]]) > 0


def some(calls: Sequence[Call]) -> Sequence[Call]:
    return [*commits(calls), *[call for call in calls if is_sql(call)][::9]]


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SOME)
def test_the_same_in_postgresql(postgresql: SqlAddress, name: str, kind: FaultKind) -> None:
    assert sweep(postgresql, name, kind, chosen=some) > 0


@pytest.mark.mariadb
@pytest.mark.parametrize("kind", [FaultKind.DIE_BEFORE, FaultKind.FAIL_AFTER])
@pytest.mark.parametrize("name", SOME)
def test_the_same_in_mariadb(mariadb: SqlAddress, name: str, kind: FaultKind) -> None:
    assert sweep(mariadb, name, kind, chosen=lambda calls: commits(calls)[::2]) > 0


class DecidedMachine(TableMachine):
    """The random verbs of a table, where a database decides."""

    names: Path

    def new_catalog(self) -> Catalog:
        store = DecidedLake.new(sql_address(f"sqlite:///{self.names}", {})).store()
        return Catalog(store, clock=self.clock, metastore=store.names(self.clock))


@pytest.mark.parametrize("examples", [1, pytest.param(25, marks=pytest.mark.long)])
def test_random_histories_say_what_the_model_says(tmp_path: Path, examples: int) -> None:
    DecidedMachine.names = tmp_path / "names.db"
    machine = DecidedMachine.TestCase("runTest")
    machine.settings = settings(max_examples=examples, stateful_step_count=15)
    machine.runTest()
