"""The number of tasks at the same time follows the processors and the memory that the process may use."""

from pathlib import Path

import pytest

from lakehouse_core.tasks import limits

GB = 1 << 30
GROUPS = {
    "no limits": ({}, (None, None)),
    "version 2": ({"cpu.max": "150000 100000\n", "memory.max": f"{2 * GB}\n"}, (2, 2 * GB)),
    "version 2, no limits": ({"cpu.max": "max 100000\n", "memory.max": "max\n"}, (None, None)),
    "version 1": (
        {
            "cpu/cpu.cfs_quota_us": "300000\n",
            "cpu/cpu.cfs_period_us": "100000\n",
            "memory/memory.limit_in_bytes": f"{GB}\n",
        },
        (3, GB),
    ),
    "version 1, no limits": (
        {
            "cpu/cpu.cfs_quota_us": "-1\n",
            "cpu/cpu.cfs_period_us": "100000\n",
            "memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
        (None, 9223372036854771712),
    ),
    "a part of a processor": ({"cpu.max": "50000 100000"}, (1, None)),
    "nothing that is understood": ({"cpu.max": "all of it", "memory.max": ""}, (None, None)),
}


def made(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize("name", GROUPS)
def test_the_limits_of_a_control_group_are_read(name: str, tmp_path: Path) -> None:
    files, expected = GROUPS[name]
    # What a folder says is read once; pytest may use one name again.
    assert limits.group_limits(made(tmp_path / name, files)) == expected


@pytest.mark.parametrize(
    ("processors", "group", "machine_bytes", "expected"),
    [
        (4, (None, None), 64 * GB, 4),
        (64, (None, None), 64 * GB, 8),
        (64, (2, None), 64 * GB, 2),
        (2, (4, None), 64 * GB, 2),
        (8, (None, GB), 64 * GB, 2),
        (8, (None, GB // 4), 64 * GB, 1),
        (8, (None, 1 << 62), GB, 2),
        (8, (None, None), GB, 2),
    ],
)
def test_the_least_limit_counts(
    processors: int,
    group: tuple[int | None, int | None],
    machine_bytes: int,
    expected: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(processors)))
    monkeypatch.setattr(limits, "group_limits", lambda root: group)
    monkeypatch.setattr(limits, "_machine_bytes", lambda: machine_bytes)
    assert limits.tasks_at_once() == expected
