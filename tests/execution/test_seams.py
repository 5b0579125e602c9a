"""Time, chance and stores reach the core through its seams only: where each is made is written down here."""

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

import lakehouse_core

CORE = Path(lakehouse_core.__file__).parent

# Each of these makes a clock or a store from nothing, in whose place a test can put no other.
MAKERS = {
    "SystemClock": [
        "catalog/connect",
        "execution/engines/spark/runtime",
        "storage/local",
        "storage/memory",
        "storage/remote/store",
    ],
    "open_store": ["execution/engines/spark/runtime", "storage/__init__"],
    "open_warehouse": ["catalog/connect", "storage/__init__"],
    "LocalStore": ["storage/__init__", "storage/opening"],
    # A dry run writes what nobody keeps.
    "MemoryStore": ["execution/commit/compact_manifests", "storage/__init__", "storage/opening"],
}


# Modules of Python that reach around the seams: time and chance, threads, and files that no store has.
AROUND = {
    "time": ["clock"],
    "random": ["clock"],
    "concurrent.futures": [
        "execution/engines/local",
        "storage/overlap",
        "storage/remote/files",
        "storage/remote/requests",
        "tasks/small_files",
        "threads",
    ],
    # One thread asks Hadoop's connector; the others have locks.
    "threading": [
        "execution/engines/duckdb/box",
        "execution/engines/spark/scan/connector",
        "metadata/added_files",
        "metadata/lru",
        "storage/memory",
        "storage/overlap",
        "storage/remote/conditions",
        "storage/remote/room",
        "tasks/keys/compared",
        "threads",
    ],
    # Spills of tasks; lookups and DuckDB, which are of one process; rows from an address, which a parser wants as file.
    "tempfile": [
        "execution/engines/duckdb/box",
        "execution/lookup/process_directory",
        "row_files/row_input",
        "tasks/write/scratch",
    ],
    "mmap": ["tasks/waiting/scratch_files", "tasks/write/keys/map"],
    "shutil": ["execution/lookup/process_directory", "row_files/row_input", "tasks/copy"],
}


# What reads names no store that can write.
READERS = [
    "data_files/avro/reader",
    "data_files/deletion_vectors",
    "data_files/file_index",
    "data_files/opening",
    "data_files/orc/reader",
    "data_files/parquet/reader",
    "data_files/reader",
    "execution/expiry/history",
    "execution/expiry/reachability",
    "execution/verify/branch",
    "execution/verify/inspection",
    "execution/verify/verify",
    "metadata/manifest_reader",
    "metadata/roots",
]


@cache
def imported_modules() -> Mapping[str, set[str]]:
    """Return the modules that each module of the core imports, by the name of the module."""
    found: dict[str, set[str]] = {}
    for path in CORE.rglob("*.py"):
        names = found.setdefault(str(path.relative_to(CORE).with_suffix("")), set())
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                names.add(node.module)
    return found


@cache
def imported_names() -> Mapping[str, set[str]]:
    """Return what each module of the core imports from others, by the name of the module."""
    return {
        str(path.relative_to(CORE).with_suffix("")): {
            alias.name
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for path in CORE.rglob("*.py")
    }


def importers(name: str) -> list[str]:
    """Return the modules of the core that import it, sorted."""
    return sorted(module for module, names in imported_names().items() if name in names)


@pytest.mark.parametrize("name", MAKERS)
def test_clocks_and_stores_are_made_in_few_places(name):
    assert importers(name) == MAKERS[name]


@pytest.mark.parametrize("name", AROUND)
def test_what_reaches_around_the_seams_is_imported_in_few_places(name):
    assert sorted(module for module, names in imported_modules().items() if name in names) == AROUND[name]


@pytest.mark.parametrize("module", READERS)
def test_what_reads_cannot_write(module):
    assert (CORE / f"{module}.py").exists()
    assert module not in importers("ObjectStore")
