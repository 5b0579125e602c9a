"""What `make ui` starts: the Dagster UI and its daemon, on loopback, on the warehouse that `make run` filled."""

import argparse
import os
import signal
import sys
from pathlib import Path

import lakehouse_core as lc
from assets.flights.feed import begun_with
from orchestration.home import PROJECT, prepare_home


def main() -> None:
    """Become `dagster dev`; it ends with Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m orchestration.ui", description=__doc__)
    parser.add_argument("--warehouse", type=Path, default=Path(os.environ.get("WAREHOUSE", "warehouse")))
    parser.add_argument("--port", type=int, default=int(os.environ.get("PORT", "3000")))
    arguments = parser.parse_args()
    prepare_home(arguments.warehouse)
    begun = begun_with(lc.connect(arguments.warehouse.absolute()))
    if begun is not None:
        os.environ["LAKEHOUSE_FLIGHTS_START"] = begun.isoformat()
    print(
        f"Dagster on {arguments.warehouse.absolute()}: http://127.0.0.1:{arguments.port} (Ctrl-C ends it)", flush=True
    )
    # Dagster gives SIGTERM the handler that it finds on SIGINT, which a shell sets to "ignore" for background jobs.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    command = ["dagster", "dev", *location(), "-h", "127.0.0.1", "-p", str(arguments.port)]
    os.execv(sys.executable, [sys.executable, "-W", "ignore", "-m", *command])


def location() -> list[str]:
    """The workspace of the checkout, which names the location; else the module alone."""
    workspace = PROJECT / "workspace.yaml"
    return ["-w", str(workspace)] if workspace.exists() else ["-m", "orchestration.definitions"]


if __name__ == "__main__":
    main()
