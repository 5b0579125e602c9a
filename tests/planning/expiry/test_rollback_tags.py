"""Which states a rollback keeps by tags, and until when."""

from collections.abc import Iterable, Mapping

import pytest

from lakehouse_core.planning.expiry.rollback_tags import KEPT_UNNEEDED_MILLIS, is_needed, returns, rollback_ids
from lakehouse_core.table.commit_message import CommitKind
from lakehouse_core.table.snapshot import ROLLED_BACK_TO, Snapshot

DAY = KEPT_UNNEEDED_MILLIS


def history(first: int, last: int, rollbacks: Iterable[int] = ()) -> list[Snapshot]:
    made = set(rollbacks)
    return [_snapshot(id, {ROLLED_BACK_TO: "1"} if id in made else {}) for id in range(first, last + 1)]


def _snapshot(id: int, properties: Mapping[str, str]) -> Snapshot:
    return Snapshot(
        id=id,
        schema_id=0,
        base_manifest_list="manifest-list-0",
        delta_manifest_list="manifest-list-1",
        commit_user="u",
        commit_identifier=1,
        commit_kind=CommitKind.OVERWRITE,
        time_millis=0,
        properties=dict(properties),
    )


@pytest.mark.parametrize(
    ("first", "rollbacks", "after", "expected"),
    [
        (1, [], 3, []),
        (1, [5, 7], 3, [5, 7]),
        (1, [3, 7], 3, [7]),
        (5, [7], 3, [5, 7]),
        (5, [5], 3, [5]),
    ],
)
def test_removed_files_may_have_come_back_in_rollbacks_and_in_the_first_snapshot_that_is_left(
    first: int, rollbacks: list[int], after: int, expected: list[int]
) -> None:
    assert [each.id for each in returns(history(first, 9, rollbacks), after_id=after)] == expected


def test_a_rollback_is_known_by_its_property() -> None:
    assert rollback_ids(history(1, 9, [4, 6])) == [4, 6]


@pytest.mark.parametrize(
    ("rollbacks", "first_kept", "age", "expected"),
    [
        ([7], 1, 9 * DAY, True),
        ([7], 6, 9 * DAY, True),
        ([7], 7, 0, False),
        ([5, 7], 5, 9 * DAY, True),
        ([7], 8, 0, False),
        # No rollback after the tag: it is expired, or will be made, or was not made.
        ([], 1, DAY, True),
        ([], 1, DAY + 1, False),
        ([2], 1, DAY, True),
        ([2], 1, DAY + 1, False),
        ([], 1, None, True),
    ],
)
def test_a_tag_of_snapshot_3_is_needed_while_snapshots_before_a_later_rollback_exist(
    rollbacks: list[int], first_kept: int, age: int | None, expected: bool
) -> None:
    assert is_needed(3, rollbacks, first_kept_id=first_kept, age_millis=age) is expected
