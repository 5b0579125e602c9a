"""Where the Dagster instance of a warehouse lives, and the environment that its processes get."""

import argparse
import os
import re
from pathlib import Path
from urllib.parse import quote

from lakehouse_dagster import write_instance_settings

PROJECT = Path(__file__).parent.parent
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


def given_warehouse(text: str) -> str:
    """Return the warehouse that a command line names: an absolute path, where `~` is the home folder, or an address."""
    if _ADDRESS.match(text):
        return text.removeprefix("file://").rstrip("/")
    try:
        return str(Path(text).expanduser().absolute())
    except RuntimeError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from error


def folder_of(warehouse: str) -> Path | None:
    """Return the folder of a warehouse; None for one in an object store."""
    return None if _ADDRESS.match(warehouse) else Path(warehouse)


def prepare_home(warehouse: str) -> Path:
    """Point this process and its children to the instance and the warehouse; return the instance's folder.

    The folder is DAGSTER_HOME where that is set, else `.dagster` in the warehouse, which no catalog takes for a
    database: its pages show what happened to these tables and no others, and go with them. For a warehouse in an object
    store it is a folder of the checkout, named after the address. It is made when missing.
    """
    folder = folder_of(warehouse)
    own = PROJECT / ".dagster" / quote(warehouse, safe="") if folder is None else folder / ".dagster"
    home = Path(os.environ.get("DAGSTER_HOME") or own).absolute()
    write_instance_settings(home)
    os.environ["DAGSTER_HOME"] = str(home)
    os.environ["DAGSTER_DISABLE_TELEMETRY"] = "1"
    os.environ["LAKEHOUSE_WAREHOUSE"] = warehouse
    return home
