"""The health page of a table against the number of its files. Manifests are real, data files are not there."""

import shutil
import tempfile

import lakehouse_core as lc
from benchmarks import _measure as measure
from benchmarks.planning import FILES, decompress, make_table


def main() -> None:
    parsed = measure.arguments(__doc__)
    files = measure.scaled(FILES, parsed)
    measure.print_header(
        "Health page",
        data=f"{files} files",
        notes=["floor: the same manifests read and decompressed, no entry decoded"],
    )
    root = tempfile.mkdtemp(prefix="health-")
    measure.fresh(make_table, root, files, 0)
    series = measure.interleave({"page": lambda: page(root), "floor": lambda: decompress(root)}, rounds=parsed.rounds)
    measure.print_table(f"{files} files", series, against="floor")
    shutil.rmtree(root)
    measure.print_bars([measure.Bar(f"{files} files, page", series["page"].best_wall_seconds, 2, 1, "s")])


def page(root: str) -> int:
    """Return the length of the page, of a table that is opened anew."""
    return len(lc.health_page([lc.connect(root).table("db.t").health()]))


if __name__ == "__main__":
    main()
