"""The laws of the tests (hypothesis), with other examples at each seed: a turn takes those of one file."""

import re
import subprocess
import sys
from pathlib import Path
from random import Random

ROOT = Path(__file__).parents[2]
LAW = re.compile(r"^from hypothesis[ .]", re.MULTILINE)


def files() -> list[str]:
    """Return the test files that have laws, ordered."""
    found = (path for path in ROOT.glob("tests/**/test_*.py") if LAW.search(path.read_text()))
    return sorted(str(path.relative_to(ROOT)) for path in found)


def search(seed: int) -> None:
    """Raise AssertionError with pytest's report where a law of one file, which the seed picks, does not hold."""
    file = Random(seed).choice(files())
    # Warnings and marks as in the tests; nothing is remembered between two turns.
    options = [
        "--hypothesis-profile=search",
        f"--hypothesis-seed={seed}",
        "-m",
        "hypothesis and not spark and not interop",
    ]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *options, file]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 5), f"{file}, with the examples of seed {seed}:\n{done.stdout}{done.stderr}"
