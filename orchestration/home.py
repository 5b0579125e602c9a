"""Where the Dagster instance of a warehouse lives, and the environment that its processes get."""

import argparse
import os
from pathlib import Path

from lakehouse_dagster import write_instance_settings

PROJECT = Path(__file__).parent.parent


def given_folder(text: str) -> Path:
    """Return the folder that a command line names; `~` is the home folder."""
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from error


def prepare_home(warehouse: Path) -> Path:
    """Point this process and its children to the instance and the warehouse; return the instance's folder.

    The folder is DAGSTER_HOME where that is set, else `.dagster` in the warehouse, which no catalog takes for a
    database: its pages show what happened to these tables and no others, and go with them. It is made when missing.
    """
    home = Path(os.environ.get("DAGSTER_HOME") or warehouse / ".dagster").absolute()
    write_instance_settings(home)
    os.environ["DAGSTER_HOME"] = str(home)
    os.environ["DAGSTER_DISABLE_TELEMETRY"] = "1"
    os.environ["LAKEHOUSE_WAREHOUSE"] = str(warehouse.absolute())
    return home
