"""Random histories whose writers stage at one snapshot and commit in the history's order: the model shows the same."""

from tests.differential.compare import against_model, failure
from tests.differential.executors import OvertakingInMemory
from tests.differential.generate import histories

HISTORIES = 40


def search(seed: int) -> None:
    """Raise AssertionError with a history made small where rows or changes are not those of the model."""
    for number, history in histories(seed * HISTORIES, HISTORIES):
        found = failure(
            "ours staged ahead",
            lambda history, number=number: against_model(OvertakingInMemory(number), history),
            number,
            history,
        )

        assert found is None, found
