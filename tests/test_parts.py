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
    def taken(*words: str) -> list[str]:
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "not spark", "tests/test_retry.py"]
        done = subprocess.run([*command, *words], capture_output=True, text=True, check=True, cwd=ROOT)
        return [line for line in done.stdout.splitlines() if "::" in line]

    every = taken()

    assert len(every) > 2
    assert taken("--part", "2/2") == every[1::2]


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "1/0", "a/b", "1/2/3", "", "-1/2"])
def test_another_text_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match="expected K/N with K from 1 to N"):
        parse_part(text)
