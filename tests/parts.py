"""Parts of a list of cases: CI takes one for each commit (`.ci/run`); `--part 2/3` takes the second of three."""

import argparse
import re
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

Part = tuple[int, int]
WHOLE: Part = (1, 1)


def parse_part(text: str) -> Part:
    """Return K and N of `K/N`, where 1 <= K <= N; argparse and pytest report the error."""
    matched = re.fullmatch(r"([1-9][0-9]*)/([1-9][0-9]*)", text)
    if matched is None or int(matched[1]) > int(matched[2]):
        raise argparse.ArgumentTypeError(f"{text!r}: expected K/N with K from 1 to N, such as 2/3")
    return int(matched[1]), int(matched[2])


def of_part(cases: Sequence[T], part: Part) -> list[T]:
    """Return every N-th of `cases` from the K-th on: neighbours take about as long, so parts do too."""
    first, step = part
    return list(cases[first - 1 :: step])
