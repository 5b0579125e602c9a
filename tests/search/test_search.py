"""A search shares its time among the campaigns, tells what failed, and prints the command that replays just that."""

from collections.abc import Iterator
from importlib import import_module

import pytest

from tests.search import CAMPAIGNS
from tests.search.__main__ import run
from tests.search.laws import files


class Watch:
    """Seconds that go by as turns take them."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_campaigns_share_the_time_evenly_whatever_a_turn_takes() -> None:
    watch = Watch()

    def takes(seconds: float) -> Iterator[None]:
        watch.now += seconds

    accounts = run({"long": lambda seed: takes(10), "short": lambda seed: takes(1)}, seed=0, minutes=1, seconds=watch)

    assert {name: account.seconds for name, account in accounts.items()} == {"long": 30, "short": 30}


def test_each_campaign_has_a_turn_even_where_there_is_no_time() -> None:
    seen: list[int] = []

    accounts = run({"a": seen.append, "b": seen.append}, seed=7, minutes=0)

    assert seen == [7, 7]
    assert [account.turns for account in accounts.values()] == [1, 1]


def test_a_campaign_that_fails_stops_with_the_command_that_replays_its_turn_and_others_go_on() -> None:
    def fails_at_5(seed: int) -> None:
        assert seed != 5, "five is not a seed"

    accounts = run({"bad": fails_at_5, "good": lambda seed: None}, seed=3, minutes=1, turns=4)

    assert accounts["bad"].replay == "python -m tests.search --only bad --seed 5 --turns 1"
    assert "five is not a seed" in accounts["bad"].failure
    assert (accounts["bad"].turns, accounts["good"].turns, accounts["good"].failure) == (3, 4, "")


@pytest.mark.parametrize("name", sorted(CAMPAIGNS))
def test_what_is_registered_can_be_searched(name: str) -> None:
    assert callable(import_module(CAMPAIGNS[name]).search)


def test_laws_are_found_by_the_files_that_have_them() -> None:
    assert "tests/format/test_cast.py" in files()
    assert "tests/search/test_search.py" not in files()
