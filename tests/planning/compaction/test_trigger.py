"""Which compaction a write brings along: the decision table of docs/semantics/compaction.md#triggers-of-a-write."""

from dataclasses import replace

import pytest

from lakehouse_core.planning.compaction.trigger import Trigger, trigger_after
from lakehouse_core.table.commit_message import BATCH_IDENTIFIER
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

# Lookups are waited for, unless the table says that they may lag: then only where too many runs have piled up.
changelog-producer=lookup                                          7       strategy
changelog-producer=lookup lookup-wait=false                        7       back-pressure
changelog-producer=lookup lookup-wait=false                        batch   back-pressure
changelog-producer=lookup lookup-wait=false commit.force-compact=true 7    strategy
merge-engine=first-row lookup-wait=false                           7       back-pressure
deletion-vectors.enabled=true lookup-wait=false                    7       back-pressure
force-lookup=true lookup-wait=false                                7       back-pressure
lookup-wait=false                                                  7       strategy
"""


def lines(cases: str) -> list[str]:
    return [line for line in cases.splitlines() if line and not line.startswith("#")]


def case(line: str) -> tuple[dict[str, str], int, Trigger]:
    *given, commit, expected = line.split()
    options = dict(pair.split("=") for pair in given if pair != "-")
    return options, BATCH if commit == "batch" else int(commit), Trigger(expected)


@pytest.mark.parametrize("line", lines(CASES), ids=lambda line: " ".join(line.split()))
def test_a_write_brings_along_the_compaction_that_the_table_asks_for(line: str) -> None:
    options, number, expected = case(line)

    assert trigger_after(key_schema(**options), number) is expected


@pytest.mark.parametrize(("number", "expected"), [(4, Trigger.FULL), (5, Trigger.BACK_PRESSURE)])
def test_a_table_of_an_older_java_may_look_up_and_compact_in_full(number: int, expected: Trigger) -> None:
    schema = key_schema(**{"changelog-producer": "lookup", "lookup-wait": "false"})
    older = replace(schema, options={**schema.options, "full-compaction.delta-commits": "2"})

    assert trigger_after(older, number) is expected


# Options of an append table, and what is compacted after a commit.
APPEND_CASES = """
# Writers to buckets compact what they wrote to, whether lookups may lag or not: they need none.
bucket=2                                                           batch   strategy
bucket=2                                                           7       strategy
bucket=2 commit.force-compact=true                                 7       strategy
bucket=2 deletion-vectors.enabled=true lookup-wait=false           7       strategy
bucket=2 write-only=true                                           7       nothing
bucket=2 write-only=true commit.force-compact=true                 batch   nothing
bucket=2 full-compaction.delta-commits=3                           6       full
bucket=2 full-compaction.delta-commits=3                           7       strategy

# Without buckets they know only their own files.
-                                                                  batch   nothing
-                                                                  7       nothing
bucket=-1 commit.force-compact=true                                7       nothing
"""


@pytest.mark.parametrize("line", lines(APPEND_CASES), ids=lambda line: " ".join(line.split()))
def test_a_write_to_an_append_table_compacts_in_buckets_only(line: str) -> None:
    options, number, expected = case(line)
    key = {"bucket-key": "v"} if options.get("bucket") == "2" else {}

    assert trigger_after(append_schema(**options, **key), number) is expected
