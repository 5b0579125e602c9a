"""`make interop`: run every cell against real Java Paimon, its connector of Spark and pypaimon, then print the matrix.

A cell that cannot run fails: without Maven and a JDK nothing was proven.
"""

import re
import shutil
import sys

import pytest

from tests.environments import python_of
from tests.interop import connector_client, pypaimon_client
from tests.interop.judge import OLDEST, VERSIONS, prepare, s3_jar
from tests.interop.test_tpcds import LOCK

NAME = re.compile(r"::test_(?P<cell>\w+)\[(?P<parameters>.*)\]$")


class Matrix:
    """Collects the outcome of every cell."""

    def __init__(self) -> None:
        self.cells: dict[tuple[str, str], dict[str, str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        matched = NAME.search(report.nodeid)
        if matched is None or (report.when != "call" and report.passed):
            return
        version, _, kind = matched["parameters"].partition("-")
        self.cells.setdefault((matched["cell"], version), {})[kind] = "ok" if report.passed else "FAILED"

    def lines(self) -> list[str]:
        """Return one line per way of working together and version, with the kinds that failed."""
        lines = []
        for (cell, version), kinds in sorted(self.cells.items()):
            failed = [kind for kind, outcome in kinds.items() if outcome != "ok"]
            outcome = f"{len(kinds) - len(failed)} of {len(kinds)} kinds"
            lines.append(f"{cell.replace('_', ' '):<55} {version:<16} {outcome}{'  ' + str(failed) if failed else ''}")
        return lines


def fetch() -> None:
    """Fetch and compile what the cells need, where it is missing."""
    for version in (OLDEST, *VERSIONS):
        prepare(version)
    s3_jar()
    pypaimon_client.python()
    connector_client.python()
    connector_client.jar()
    python_of(LOCK)


def main() -> int:
    for tool, what in (("mvn", "Maven"), ("javac", "a JDK 17 or 21")):
        if shutil.which(tool) is None:
            print(f"make interop needs {what}: {tool} is not on the PATH. Install it, then run it again.")
            return 2
    # Once, before processes that share the work would all want to.
    fetch()
    matrix = Matrix()
    code = pytest.main(
        [
            "-q",
            "-n",
            "auto",
            "-m",
            "interop and not (mariadb or ceph)",
            "tests/interop",
            "tests/differential",
            *sys.argv[1:],
        ],
        plugins=[matrix],
    )
    print("\n".join(matrix.lines()))
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
