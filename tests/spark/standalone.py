"""A standalone Spark cluster on loopback addresses: a master and workers in processes of their own, as on machines."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import threading
import venv
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from lakehouse_dagster.resources.java_home import ensure_java

HOME = Path(pyspark.__file__).parent
ROOT = Path(__file__).parent.parent.parent
# A session of a driver on this machine.
DRIVER = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


@contextmanager
def cluster(
    folder: Path, *, workers: int = 2, cores: int = 1, memory: str = "1g", environ: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Start a cluster whose workers have different addresses; yield the address of its master. `environ`: what its
    machines have in their environment.
    """
    ensure_java()
    no_page = ("--webui-port", "0")
    worker = ("--cores", str(cores), "--memory", memory, "--work-dir", str(folder / "work"), *no_page)
    with ExitStack() as stack:
        master = stack.enter_context(
            _daemon("master.Master", "--host", "127.0.0.1", "--port", "0", *no_page, environ={})
        )
        for number in range(workers):
            address = f"127.0.0.{number + 1}"
            stack.enter_context(_daemon("worker.Worker", "--host", address, *worker, master, environ=environ or {}))
        yield master


@contextmanager
def _daemon(name: str, *arguments: str, environ: Mapping[str, str]) -> Iterator[str]:
    """Run a process of a cluster; yield what it says about its address once it can be used."""
    process = subprocess.Popen(
        [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments],
        env={**os.environ, "SPARK_HOME": str(HOME), "SPARK_DAEMON_MEMORY": "256m", **environ},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    told = []
    # A full pipe would stop the process.
    rest = threading.Thread(target=process.stderr.read, daemon=True)
    try:
        for line in process.stderr:
            told.append(line)
            if found := re.search(r"Starting Spark master at (spark://\S+)|Successfully registered with master", line):
                rest.start()
                yield found[1]
                return
        raise AssertionError(f"{name} ended: {''.join(told)}")
    finally:
        process.terminate()
        process.wait()
        if rest.ident is not None:
            rest.join()
        process.stderr.close()


def python_without_our_package(folder: Path) -> str:
    """Make an environment with every installed package but ours, as a cluster has it; return its Python."""
    venv.create(folder, with_pip=False)
    here, there = (Path(sysconfig.get_path("purelib", vars={"base": str(base)})) for base in (sys.prefix, folder))
    for path in here.iterdir():
        if path.suffix != ".pth" and "lakehouse" not in path.name:
            (there / path.name).symlink_to(path)
    return str(folder / "bin" / "python")


def shipped_package(folder: Path) -> str:
    """Make the archive of our package that `spark.submit.pyFiles` takes; return its path."""
    return shutil.make_archive(str(folder / "lakehouse_core"), "zip", root_dir=ROOT, base_dir="lakehouse_core")
