"""The disk fails at a system call of a verb.

All of it: `python -m tests.search --only disk --seed 0` with as many `--turns` as there are `CASES`.
"""

import errno
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import lakehouse_core as lc
from lakehouse_core.storage import LocalStore
from tests.model.fault_verbs import VERBS, catalog_of, check, check_nothing_left, make, seen
from tests.storage.failing_disk import FailingDisk, installed, quick_folder

ERRORS = (
    errno.EIO,
    errno.ETIMEDOUT,
    errno.ESTALE,
    errno.EINTR,
    errno.EAGAIN,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EACCES,
    errno.EROFS,
    errno.ENOENT,
    errno.EEXIST,
)
CASES = [(verb, code, takes_effect) for verb in VERBS for code in ERRORS for takes_effect in (False, True)]


def search(seed: int) -> None:
    """One verb, one error, before or after each of its calls; the seeds 0 to len(CASES) - 1 are all there is."""
    name, code, takes_effect = CASES[seed % len(CASES)]
    sweep(name, code, takes_effect=takes_effect)


def sweep(name: str, code: int, *, takes_effect: bool, is_wanted: Callable[[str], bool] = lambda call: True) -> int:
    """Let each wanted system call of a verb fail in its turn; return how many did."""
    verb = VERBS[name]
    failed = 0
    checked = set()
    with quick_folder() as folder:
        made = folder / "made"
        make(LocalStore(str(made)), verb)
        before = seen(catalog_of(LocalStore(str(made)), 1))
        done = _copy(made, folder / "done")
        with installed(FailingDisk()) as whole:
            verb.run(catalog_of(done, 2))
        after = seen(catalog_of(done, 3))
        for number, call in enumerate(whole.calls, 1):
            if not is_wanted(call):
                continue
            store = _copy(made, folder / "failing")
            told: lc.LakehouseError | None = None
            with installed(FailingDisk(code, number, takes_effect=takes_effect)) as disk:
                try:
                    verb.run(catalog_of(store, 2))
                except lc.LakehouseError as error:
                    told = error
            if not disk.has_failed:
                continue
            failed += 1
            state = _state_of(folder / "failing", told)
            if state in checked:
                continue
            checked.add(state)
            try:
                check(verb, store, before, after, told)
                check_nothing_left(store)
            except (AssertionError, lc.LakehouseError) as error:
                when = "after" if takes_effect else "before"
                error.add_note(f"{name}: {errno.errorcode[code]} {when} call {number}, {call}; it told {told!r}")
                raise
    return failed


def _state_of(folder: Path, told: BaseException | None) -> tuple[type | None, str]:
    """Return what the checks depend on: what the verb told, and each file and folder, also the hidden ones."""
    digest = sha256()
    for path in sorted(folder.rglob("*")):
        data = path.read_bytes() if path.is_file() else b""
        digest.update(f"{path.relative_to(folder)}\0{path.is_file()}{len(data)}\0".encode() + data)
    return None if told is None else type(told), digest.hexdigest()


def _copy(source: Path, target: Path) -> LocalStore:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    return LocalStore(str(target))
