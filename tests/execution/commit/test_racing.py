"""Writers of the same keys at once: the last commit wins, the changelog leads to the rows, none is told wrong."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.execution.commit.racing import TABLES, race
from tests.pairs import in_turn

# Longer, in processes and on every kind of table: `make search`.
RACED = ["none", "lookup", "lookup, vectors", "full compaction", "lookup, vectors, compacted by another"]


@pytest.mark.slow
@pytest.mark.parametrize("name", in_turn(3, RACED))
def test_of_racing_writers_the_last_to_commit_wins_and_the_changelog_leads_to_the_rows(
    tmp_path: Path, name: str
) -> None:
    with ThreadPoolExecutor(5) as pool:
        race(pool, tmp_path, TABLES[name], writers=4, rounds=5, seed=1)
