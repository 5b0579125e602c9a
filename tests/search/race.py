"""Processes that write to the same keys at once: the last commit wins, and the changelog leads to the rows."""

import multiprocessing
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random

from tests.execution.commit.racing import TABLES, race

WRITERS, ROUNDS = 4, 20


def search(seed: int, *, rounds: int = ROUNDS, name: str | None = None) -> None:
    """Let writers race on one kind of table, by its name in TABLES; None: the seed picks one."""
    options = TABLES[name or Random(seed).choice(sorted(TABLES))]
    with (
        tempfile.TemporaryDirectory(prefix="race-") as folder,
        ProcessPoolExecutor(WRITERS + 1, mp_context=multiprocessing.get_context("spawn")) as pool,
    ):
        race(pool, Path(folder), options, writers=WRITERS, rounds=rounds, seed=seed)
