"""All benchmarks, one after the other: `make bench`, or a tenth of each with `make bench-quick`.

Each runs in a process of its own, so that none inherits another's memory, caches or JVM. Ends with code 1 when one of
them failed to run; a bar that was missed is printed, not punished: a busy machine is no defect.
"""

import subprocess
import sys
import time
from pathlib import Path


def main() -> int:
    names = sorted(
        path.stem
        for path in Path(__file__).parent.glob("*.py")
        if not path.stem.startswith("_") and path.stem != "data"
    )
    failed = []
    for name in names:
        began = time.monotonic()
        print(f"== benchmarks.{name}", flush=True)
        code = subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *sys.argv[1:]], check=False).returncode
        print(
            f"== benchmarks.{name}: {'ok' if code == 0 else f'failed with code {code}'}, "
            f"{time.monotonic() - began:.0f} s\n",
            flush=True,
        )
        if code:
            failed.append(name)
    print(f"{len(names) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
