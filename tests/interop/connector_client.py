"""Paimon's own released connector of Spark as a side of the comparison: PySpark 3.5 and its jar, below `build/`."""

import base64
import json
import pickle
import shutil
import subprocess
from pathlib import Path
from typing import Any, Self

from tests.environments import BUILD, python_of
from tests.interop.values import Row

HERE = Path(__file__).resolve().parent
ARTIFACT = "org.apache.paimon:paimon-spark-3.5:0.9.0"
_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:2.8"


class Connector:
    """A Spark session with the connector that carries out one statement after the other, as a context manager.

    The warehouse is its catalog `lake`.
    """

    def __init__(self, scratch: Path, warehouse: Path) -> None:
        self._errors = (scratch / "errors.txt").open("w+")
        # An inherited path would bring the other version of PySpark.
        command = ["env", "-u", "SPARK_HOME", "-u", "PYTHONPATH", "-u", "PYSPARK_PYTHON", "-u", "PYSPARK_DRIVER_PYTHON"]
        command += [str(python()), str(HERE / "connector_peer.py"), str(jar()), str(warehouse)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)
        self._errors.close()

    def sql(self, statement: str) -> list[Row]:
        """Return the rows of a statement of Spark. Raises RuntimeError if it fails."""
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        requests.write(json.dumps(statement) + "\n")
        requests.flush()
        line = answers.readline()
        if not line:
            self._errors.seek(0)
            raise RuntimeError(f"the connector ended: {self._errors.read()[-4000:]}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"{statement}: {answer['error']}")
        rows: list[Row] = pickle.loads(base64.b64decode(answer["rows"]))
        return rows


def python() -> Path:
    """Return the interpreter that has the connector's PySpark, fetched when it is not there yet."""
    return python_of(HERE / "connector.lock")


def jar() -> Path:
    """Return the jar of the connector, fetched when it is not there yet."""
    _, name, version = ARTIFACT.split(":")
    found = BUILD / "connector" / "jars" / f"{name}-{version}.jar"
    if not found.exists():
        if shutil.which("mvn") is None:
            raise SystemExit("Maven fetches the connector of Spark: install Maven (mvn) and try again.")
        for goal in (["get", "-Dtransitive=false"], ["copy", f"-DoutputDirectory={found.parent}"]):
            subprocess.run(["mvn", "-q", "-B", f"{_PLUGIN}:{goal[0]}", f"-Dartifact={ARTIFACT}", goal[1]], check=True)
    return found
