"""The front door: the first public name loads what most programs need, and the rest is loaded when it is asked for."""

import subprocess
import sys

import pytest

import lakehouse_core as lc

# What takes long to load, and only few programs need.
LATER = (
    "lakehouse_core.execution.copying",
    "lakehouse_core.execution.verify.verify",
    "sqlglot",
    "yaml",
    "pandas",
    "polars",
    "duckdb",
    "sqlalchemy",
    "pyspark",
)


def test_the_import_alone_loads_no_other_module_and_no_library():
    # A worker of Spark imports the package for its tasks, and never uses a public name.
    program = "import logging, importlib, typing, sys; had = {*sys.modules}; import lakehouse_core; "
    program += "print({*sys.modules} - had)"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "{'lakehouse_core'}\n"


def test_what_few_programs_need_is_not_loaded_by_a_connection():
    program = (
        f"import sys; from lakehouse_core import connect; print([name for name in {LATER} if name in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


def test_a_list_of_the_verbs_needs_no_parser_of_sql():
    program = "import sys; from lakehouse_core.cli import main; sys.argv[1:] = ['--help']; main()"
    found = "import atexit, sys; atexit.register(lambda: print('sqlglot' in sys.modules)); "

    done = subprocess.run([sys.executable, "-c", found + program], capture_output=True, text=True, check=True)

    assert "Commands:" in done.stdout
    assert done.stdout.endswith("False\n")


def test_every_public_name_is_there():
    assert {*lc.__all__} < {*dir(lc)}
    assert [name for name in lc.__all__ if getattr(lc, name, None) is None] == []


def test_another_name_is_no_attribute():
    with pytest.raises(AttributeError, match="module 'lakehouse_core' has no attribute 'Tabel'"):
        _ = lc.Tabel
