"""What is searched at random, by name: `make search MINUTES=…`, or one of them: `python -m tests.search --only laws`.

A campaign is a module with `search(seed: int) -> None`: one turn, of a minute at most, that does the same for the same
seed and raises AssertionError where a promise is broken. Registering it is a line below. What a turn finds becomes a
named case of the tests; the tests themselves take the same cases every time.
"""

from typing import Final

CAMPAIGNS: Final = {
    "calls": "tests.search.calls",
    "disk": "tests.model.disk_faults",
    "crossings": "tests.search.crossings",
    "damage": "tests.search.damage",
    "interchange": "tests.search.interchange",
    "laws": "tests.search.laws",
    "moving_keys": "tests.execution.write.moving_keys",
    "race": "tests.search.race",
    "s3": "tests.model.s3_faults",
    "staged_ahead": "tests.search.staged_ahead",
    "store": "tests.model.store_faults",
}
