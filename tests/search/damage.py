"""Files of small tables damaged at random or exchanged: what they answer is right or CorruptTable, nothing is lost."""

import random

from tests.api.damaged_tables import SHAPES, exchanges, faults_of_actions, faults_of_answers, random_damage

DAMAGES_OF_A_TURN = 12


def search(seed: int) -> None:
    """Raise AssertionError with what a damaged table answered wrongly, or lost."""
    chance = random.Random(seed)
    pairs = list(exchanges(chance.choice(sorted(SHAPES))))
    found = []
    for number in range(DAMAGES_OF_A_TURN):
        damage = chance.choice(pairs) if number % 2 else random_damage(chance.randrange(2**31))
        found += faults_of_answers(damage) + faults_of_actions(damage)
    assert found == []
