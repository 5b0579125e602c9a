"""Client of the judge: a released Java Paimon that answers one JSON request per line.

    with Judge("2.0.0", warehouse=folder) as java:
        java.create("db.t", [("k", "INT NOT NULL"), ("v", "STRING")], ["k"], options={"bucket": "1"})
        java.write("db.t", [{"k": 1, "v": "a"}])
        java.rows("db.t")

The jars come by their Maven coordinates into `build/judge/VERSION`, once.
"""

import json
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

HERE = Path(__file__).resolve().parent
BUILD = HERE.parents[2] / "build" / "judge"
# The releases that every kind of table is exchanged with.
VERSIONS = ("1.4.2", "2.0.0")
# The newest release of its file system for S3: that of 2.0.0 is not published.
S3_VERSION = "1.4.2"
# The oldest release, with which a few of them are.
OLDEST = "1.0.1"
Row = dict[str, Any]


class JudgeError(Exception):
    """Java refused a request; `exception` and `trace` say where."""

    def __init__(self, verb: str, reply: Mapping[str, Any]) -> None:
        super().__init__(f"{verb}: {reply['exception']}: {reply['error']}")
        self.exception: str = reply["exception"]
        self.root_exception: str = reply["rootException"]
        self.root_error: str = reply["rootError"]
        self.trace: str = reply["trace"]


class Judge:
    """One JVM that runs one Paimon version until closed.

    `for_speed`: it compiles what it runs as well as it can; tests end before that pays (half the CPU without).
    `has_s3`: with Paimon's own file system for S3.
    """

    def __init__(
        self,
        version: str,
        warehouse: str | Path | None = None,
        *,
        memory: str = "2g",
        for_speed: bool = False,
        has_s3: bool = False,
    ) -> None:
        self.version, self.has_s3 = version, has_s3
        build = prepare(version)
        tuning = [] if for_speed else ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        command = ["java", f"-Xmx{memory}", *tuning, "-Duser.timezone=UTC", "-cp"]
        beside = f":{s3_jar()}" if has_s3 else ""
        command += [f"{build}/classes:{build}/jars/*{beside}", "PaimonJudge", "serve"]
        if warehouse is not None:
            command += ["--warehouse", str(warehouse)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )

    @property
    def pid(self) -> int:
        """The process id of the JVM, for benchmarks that count its CPU seconds."""
        return self._process.pid

    def call(self, verb: str, **request: Any) -> Any:
        """Send one request and return its result. Raises JudgeError when Java refuses it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"verb": verb, **request}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the judge ended with code {self._process.wait()} during '{verb}'")
        reply = json.loads(line)
        if not reply["ok"]:
            raise JudgeError(verb, reply)
        return reply["result"]

    def create(
        self,
        table: str,
        fields: Iterable[tuple[str, str]],
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> Any:
        return self.call(
            "create",
            table=table,
            fields=[{"name": name, "type": type_} for name, type_ in fields],
            primaryKeys=list(primary_keys),
            partitionKeys=list(partition_keys),
            options=dict(options or {}),
        )

    def write(self, table: str, rows: Iterable[Row], **request: Any) -> Any:
        return self.call("write", table=table, rows=list(rows), **request)

    def rows(self, table: str, **request: Any) -> list[Row]:
        rows: list[Row] = self.call("read", table=table, **request)["rows"]
        return rows

    def changelog(self, table: str, *, start: int, **request: Any) -> dict[int, list[Row]]:
        """Return the rows that a streaming reader starting at snapshot `start` sees, by snapshot id."""
        steps = self.call("stream-read", table=table, **{"from": start}, **request)["snapshots"]
        return {step["snapshot"]: step["rows"] for step in steps}

    def close(self) -> None:
        if self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def __enter__(self) -> "Judge":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def prepare(version: str) -> Path:
    """Return the folder with the jars and classes of `version`, fetched and compiled when missing or out of date."""
    build = BUILD / version
    compiled = build / "classes" / "PaimonJudge.class"
    sources = [HERE / name for name in ("PaimonJudge.java", "fetch.sh", "pom.xml")]
    if not compiled.exists() or compiled.stat().st_mtime < max(source.stat().st_mtime for source in sources):
        for tool, what in (("mvn", "Maven"), ("javac", "a JDK 17 or 21")):
            if shutil.which(tool) is None:
                raise RuntimeError(f"interop needs {what} ({tool} is not on the PATH): install it, then run it again")
        subprocess.run([str(HERE / "fetch.sh"), version, str(build)], check=True)
    return build


def s3_jar() -> Path:
    """Return Paimon's file system for S3, fetched when it is missing (94 MB)."""
    folder = BUILD / f"s3-{S3_VERSION}"
    jar = folder / f"paimon-s3-{S3_VERSION}.jar"
    if not jar.exists():
        artifact = f"org.apache.paimon:paimon-s3:{S3_VERSION}"
        words = ["mvn", "-q", "-B", "org.apache.maven.plugins:maven-dependency-plugin:2.8:copy"]
        subprocess.run([*words, f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"], check=True)
    return jar
