"""What the tests of the Dagster building blocks share."""

import pytest

from lakehouse_dagster.pipeline.table_state import TableState
from tests.lakehouse_dagster.table_states import STATE


@pytest.fixture
def state() -> TableState:
    return STATE
