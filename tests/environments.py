"""Environments below `build/` for programs whose packages differ from ours."""

import subprocess
import sys
from pathlib import Path

BUILD = Path(__file__).resolve().parents[1] / "build"


def python_of(lock: Path) -> Path:
    """Return the interpreter of the environment of a lock file, made when it is not there yet."""
    environment = BUILD / lock.stem
    found = environment / "bin" / "python"
    done = environment / ".complete"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(environment)], check=True)
        pip = [str(found), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
        subprocess.run([*pip, "-r", str(lock)], check=True)
        done.touch()
    return found
