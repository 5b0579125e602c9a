"""Which compaction a write brings along: the decision table of Paimon semantics C.1, C.4, E.1 and E.3."""

import pytest

from lakehouse_core.planning.write_trigger import Trigger, trigger_after
from lakehouse_core.table.changes import BATCH_IDENTIFIER
from tests.planning.change_vocabulary import append_schema, key_schema

BATCH = BATCH_IDENTIFIER

# Options of a key table, the number of the commit, and what is compacted after it.
CASES = """
# Whatever is due by the strategy.
-                                                                  batch   strategy
-                                                                  7       strategy
changelog-producer=input                                           7       strategy

# Writers that leave it to others.
write-only=true                                                    batch   nothing
write-only=true changelog-producer=lookup                          batch   nothing
write-only=true changelog-producer=full-compaction                 batch   nothing
write-only=true commit.force-compact=true                          7       nothing

# Full compactions with every so many-th commit; a batch commit has no number and always counts.
changelog-producer=full-compaction                                 1       full
changelog-producer=full-compaction                                 batch   full
changelog-producer=full-compaction full-compaction.delta-commits=3 6       full
changelog-producer=full-compaction full-compaction.delta-commits=3 7       strategy
changelog-producer=full-compaction full-compaction.delta-commits=3 batch   full
full-compaction.delta-commits=5                                    10      full
full-compaction.delta-commits=5                                    11      strategy

# Lookups are waited for, unless the table says that they may lag.
changelog-producer=lookup                                          7       strategy
changelog-producer=lookup lookup-wait=false                        7       nothing
changelog-producer=lookup lookup-wait=false                        batch   nothing
changelog-producer=lookup lookup-wait=false commit.force-compact=true 7    strategy
merge-engine=first-row lookup-wait=false                           7       nothing
deletion-vectors.enabled=true lookup-wait=false                    7       nothing
force-lookup=true lookup-wait=false                                7       nothing
lookup-wait=false                                                  7       strategy
changelog-producer=lookup lookup-wait=false full-compaction.delta-commits=2 4 full
changelog-producer=lookup lookup-wait=false full-compaction.delta-commits=2 5 nothing
"""
LINES = [line for line in CASES.splitlines() if line and not line.startswith("#")]


@pytest.mark.parametrize("line", LINES, ids=lambda line: " ".join(line.split()))
def test_a_write_brings_along_the_compaction_that_the_table_asks_for(line: str) -> None:
    *given, commit, expected = line.split()
    options = dict(pair.split("=") for pair in given if pair != "-")
    number = BATCH if commit == "batch" else int(commit)

    assert trigger_after(key_schema(**options), number) is Trigger(expected)


@pytest.mark.parametrize("number", [1, BATCH])
def test_a_write_to_a_table_without_a_key_compacts_nothing(number: int) -> None:
    assert trigger_after(append_schema(**{"full-compaction.delta-commits": "1"}), number) is Trigger.NOTHING
