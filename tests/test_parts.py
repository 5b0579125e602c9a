"""Parts of the cases: together they are all cases, each once."""

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from tests.parts import WHOLE, of_part, parse_part

ROOT = Path(__file__).parents[1]


def test_the_parts_are_all_cases_and_have_none_in_common():
    cases = list(range(10))

    parts = [of_part(cases, parse_part(f"{k}/3")) for k in (1, 2, 3)]

    assert parts == [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]]
    assert of_part(cases, WHOLE) == cases


def test_pytest_takes_the_tests_of_a_part_alone():
    # One process for both: most of a run so short is its start.
    script = """
import pytest
words = ["--collect-only", "-q", "-m", "not spark", "tests/test_retry.py"]
for part in ("1/1", "2/2"):
    assert pytest.main([*words, "--part", part]) == 0
    print("end of a run")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    runs = done.stdout.split("end of a run")
    every, second = ([line for line in run.splitlines() if "::" in line] for run in runs[:2])

    assert len(every) > 2
    assert second == every[1::2]


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "1/0", "a/b", "1/2/3", "", "-1/2"])
def test_another_text_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match="expected K/N with K from 1 to N"):
        parse_part(text)
