"""What `make ui` starts: the Dagster UI and its daemon, on loopback, on the warehouse that `make run` filled."""

import argparse
import errno
import os
import signal
import socket
import sys
from pathlib import Path

import lakehouse_core as lc
from assets.flights.feed import begun_with
from orchestration.home import PROJECT, folder_of, given_warehouse, prepare_home

HOST = "127.0.0.1"
_PORTS = range(1, 1 << 16)


def main() -> None:
    """Become `dagster dev`; it ends with Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m orchestration.ui", description=__doc__)
    parser.add_argument("--warehouse", type=given_warehouse, default=os.environ.get("WAREHOUSE", "warehouse"))
    parser.add_argument("--port", type=int, default=os.environ.get("PORT", "3000"))
    arguments = parser.parse_args()
    problem = no_warehouse(arguments.warehouse) or no_port(arguments.port)
    if problem:
        raise SystemExit(problem)
    prepare_home(arguments.warehouse)
    begun = begun_with(lc.connect(arguments.warehouse))
    if begun is not None:
        os.environ["LAKEHOUSE_FLIGHTS_START"] = begun.isoformat()
    print(f"Dagster on {arguments.warehouse}: http://{HOST}:{arguments.port} (Ctrl-C ends it)", flush=True)
    # Dagster gives SIGTERM the handler that it finds on SIGINT, which a shell sets to "ignore" for background jobs.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    command = ["dagster", "dev", *location(), "-h", HOST, "-p", str(arguments.port)]
    os.execv(sys.executable, [sys.executable, "-W", "ignore", "-m", *command])


def no_warehouse(warehouse: str) -> str | None:
    """Return what is wrong with a warehouse to look at, and what to do; None: it is there."""
    folder = folder_of(warehouse)
    return _nothing_stored(warehouse) if folder is None else _no_folder(folder)


def _nothing_stored(address: str) -> str | None:
    try:
        if lc.connect(address).databases():
            return None
    except lc.LakehouseError as error:
        return str(error)
    return f"Warehouse {address} has no tables. Fill it with `make run WAREHOUSE={address}`, or name another."


def _no_folder(folder: Path) -> str | None:
    if folder.is_dir():
        return None
    if folder.exists():
        return f"Warehouse {folder} is a file: name a folder, as in `make ui WAREHOUSE=./warehouse`."
    nearby = sorted({path.parent for path in folder.absolute().parent.glob("*/*.db") if path.is_dir()})
    there = f"There is {', '.join(map(str, nearby))}" if nearby else f"There is none in {folder.absolute().parent}"
    return f"Warehouse {folder} does not exist. {there}. Fill it with `make run WAREHOUSE={folder}`, or name another."


def no_port(port: int) -> str | None:
    """Return what is wrong with the port, and what to do; None: it is free."""
    if port not in _PORTS:
        return f"Port {port}: expected a number from {_PORTS[0]} to {_PORTS[-1]}."
    with socket.socket() as tried:
        # As the web server does: what a server left behind that has just ended is not a hindrance.
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((HOST, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return (
                    f"Port {port} is taken, perhaps by another `make ui`: end that one, or choose another port, as in "
                    f"`make ui PORT={port % _PORTS[-1] + 1}`."
                )
            return f"Port {port} cannot be used ({error.strerror}): choose another, as in `make ui PORT=3000`."
    return None


def location() -> list[str]:
    """The workspace of the checkout, which names the location; else the module alone."""
    workspace = PROJECT / "workspace.yaml"
    return ["-w", str(workspace)] if workspace.exists() else ["-m", "orchestration.definitions", "-d", str(PROJECT)]


if __name__ == "__main__":
    main()
