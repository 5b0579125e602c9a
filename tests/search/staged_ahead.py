"""Random histories whose writers stage at one snapshot and commit in the history's order: the model shows the same.

Committed together, several writes at a time, they show the same as one after the other.
"""

from tests.differential.compare import against_model, compacted_apart, failure
from tests.differential.executors import OursInMemory, OvertakingInMemory, TogetherInMemory
from tests.differential.generate import histories

HISTORIES = 40


def search(seed: int) -> None:
    """Raise AssertionError with a history made small where rows or changes are not the same."""
    for number, history in histories(seed * HISTORIES, HISTORIES):
        checks = {
            "ours staged ahead": lambda history, number=number: against_model(OvertakingInMemory(number), history),
            "ours together": lambda history, number=number: compacted_apart(
                OursInMemory(), TogetherInMemory(number), history
            ),
        }
        for name, check in checks.items():
            found = failure(name, check, number, history)

            assert found is None, found
