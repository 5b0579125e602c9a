"""Two committed weeks of flights, read once."""

from pathlib import Path

import pytest

from assets.flights.events import FlightHistory, history
from assets.flights.source import FlightsSource, load_source

EXTRACT = Path(__file__).parent.parent.parent / "data" / "flights"


@pytest.fixture(scope="session")
def extract() -> Path:
    return EXTRACT


@pytest.fixture(scope="session")
def two_weeks() -> FlightsSource:
    return load_source(EXTRACT)


@pytest.fixture(scope="session")
def past(two_weeks: FlightsSource) -> FlightHistory:
    return history(two_weeks)
