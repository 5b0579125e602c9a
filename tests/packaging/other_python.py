"""`make test-wheel PYTHON=python3.13`: the wheel with its extras under another Python, by packages from the index."""

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.packaging.test_wheel import CORE, ROOT

QUERY = """\
import lakehouse_core as lc
import lakehouse_dagster

print(lc.connect("lake").sql("SELECT sum(id) AS total FROM sales.orders").to_arrow().to_pylist())
"""
EXTRAS = "dagster,duckdb,pandas,polars,s3,sql"


def main() -> None:
    (python,) = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT, check=True)
        (wheel,) = root.glob("*.whl")
        subprocess.run([python, "-m", "venv", root / "environment"], check=True)
        own = root / "environment" / "bin" / "python"
        pip = [own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, f"{wheel}[{EXTRAS}]"], check=True)
        printed = [
            subprocess.run([own, "-c", code], cwd=root, check=True, capture_output=True, text=True).stdout.split()
            for code in (CORE, QUERY)
        ]
        counted = [own.with_name("lakehouse"), "-w", "lake", "count", "sales.orders"]
        printed.append(subprocess.run(counted, cwd=root, check=True, capture_output=True, text=True).stdout.split())
    (_, *rows), total, count = printed
    assert (rows, total, count) == (["2", "1"], ["[{'total':", "3}]"], ["2"]), printed
    print(f"The wheel with {EXTRAS} runs under {python}.")


if __name__ == "__main__":
    main()
