"""What the tests of the Dagster building blocks share."""

from collections.abc import Iterator

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from lakehouse_dagster.pipeline.table_state import TableState
from tests.lakehouse_dagster.table_states import STATE


@pytest.fixture
def state() -> TableState:
    return STATE


@pytest.fixture(scope="session", autouse=True)
def migrations_read_once() -> Iterator[None]:
    """Read the files of Dagster's migrations once: it reads all of them for each database that it makes.

    Nearly every test makes two, most of them in memory.
    """
    read = ScriptDirectory.from_config
    known: dict[str | None, ScriptDirectory] = {}

    def from_config(config: Config) -> ScriptDirectory:
        place = config.get_main_option("script_location")
        if place not in known:
            known[place] = read(config)
        return known[place]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScriptDirectory, "from_config", staticmethod(from_config))
        yield
