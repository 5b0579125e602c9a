"""Tags that are replaced, renamed, and expired by a verb of their own; what they keep at each moment."""

from contextlib import suppress

import pytest

from lakehouse_core.clock import VirtualClock
from lakehouse_core.errors import CommitConflict, InvalidRequest, NotFound, SnapshotExpired
from lakehouse_core.execution.expiry.expire import expire
from lakehouse_core.execution.expiry.tag_changes import expire_tags, rename_tag, replace_tag
from lakehouse_core.execution.expiry.tags import create_tag, delete_tag
from lakehouse_core.format.strict_json import strict_json
from lakehouse_core.storage import FaultyStore
from tests.contexts import context_of
from tests.execution.small_table import HOUR, SmallTable
from tests.oracle.reachable import reachable
from tests.pairs import each_with_one


def table_with(count, **options):
    table = SmallTable(options=options)
    for number in range(count):
        table.write({1: f"v{number}", number: "x"})
    return table


def tags(table):
    return {name: tag.snapshot.id for name, tag in table.context.tags.all().items()}


def needed_files(table):
    return reachable(table.context, table.folders, delta_is_changelog=True)


def alone_with_a_tag(**options):
    """A table whose tag `t` alone keeps the files of snapshot 2."""
    table = table_with(3, **options)
    table.tag("t", at=2)
    table.compact()
    table.expire(retain_max=1)
    return table


def test_a_replaced_tag_names_the_other_snapshot_and_gives_the_files_of_the_first_up():
    table = alone_with_a_tag()
    before = table.objects()

    _, plan = replace_tag(table.context, "t", dry_run=True)

    assert table.objects() == before

    tag, result = replace_tag(table.context, "t", retention_millis=HOUR * 1000)

    assert tags(table) == {"t": 4}
    assert tag.time_retained_millis == HOUR * 1000
    assert set(plan.deleted_keys) - {"tag/tag-t"} == before - table.objects()
    assert set(result.deleted_keys) == set(plan.deleted_keys)
    assert table.files() == needed_files(table)
    assert table.findings() == []


def test_a_tag_can_be_replaced_by_the_state_that_it_has():
    table = alone_with_a_tag()
    seen = table.visible(table.context.tags.tag("t").snapshot)

    replace_tag(table.context, "t", snapshot_id=2, retention_millis=HOUR * 1000)
    table.expire(retain_max=1)

    assert table.visible(table.context.tags.tag("t").snapshot) == seen
    assert table.findings() == []


def test_only_a_tag_that_is_there_is_replaced_and_only_by_a_snapshot_that_is_there():
    table = table_with(3)
    table.tag("t", at=2)
    table.expire(retain_max=1)

    with pytest.raises(NotFound, match=r"Tag 'u' does not exist\. The tags are: t"):
        replace_tag(table.context, "u")
    with pytest.raises(SnapshotExpired, match="Snapshot 1 is expired"):
        replace_tag(table.context, "t", snapshot_id=1)
    with pytest.raises(InvalidRequest, match="retention is 0 ms"):
        replace_tag(table.context, "t", retention_millis=0)

    assert tags(table) == {"t": 2}


def test_a_renamed_tag_keeps_its_times_and_what_other_engines_wrote_into_it():
    table = table_with(2)
    table.tag("t", at=1, retention_millis=HOUR * 1000)
    before = strict_json(table.store.read("tag/tag-t"), "tag/tag-t")

    rename_tag(table.context, "t", "u", dry_run=True)
    assert tags(table) == {"t": 1}
    rename_tag(table.context, "t", "u")

    assert tags(table) == {"u": 1}
    after = strict_json(table.store.read("tag/tag-u"), "tag/tag-u")
    assert {**after, "lakehouseTag": "t"} == {**before, "lakehouseTagBefore": "t"}
    assert table.findings() == []


def test_a_name_that_is_taken_or_bad_is_refused():
    table = table_with(2)
    table.tag("t", at=1)
    table.tag("u", at=1)

    with pytest.raises(InvalidRequest, match="Tag 'u' exists already"):
        rename_tag(table.context, "t", "u")
    with pytest.raises(InvalidRequest, match="Tag 't' exists already"):
        rename_tag(table.context, "t", "t", dry_run=True)
    with pytest.raises(InvalidRequest, match="Use letters"):
        rename_tag(table.context, "t", "a/b")
    with pytest.raises(NotFound, match="The tags are: t, u"):
        rename_tag(table.context, "nix", "v")

    assert tags(table) == {"t": 1, "u": 1}


def test_a_tag_that_was_renamed_is_replaced_renamed_again_and_copied_as_any_other():
    table = table_with(2)
    table.tag("t", at=1)
    rename_tag(table.context, "t", "u")
    table.expire(retain_max=1)

    rename_tag(table.context, "u", "v")
    table.tag("w", at=1)
    replace_tag(table.context, "v")

    assert tags(table) == {"v": 2, "w": 1}
    assert "lakehouseTagBefore" not in strict_json(table.store.read("tag/tag-w"), "tag/tag-w")
    assert table.findings() == []


def test_tags_whose_time_is_over_go_when_they_are_asked_to():
    table = table_with(3)
    table.tag("short", at=1, retention_millis=HOUR * 1000)
    table.tag("long", at=2, retention_millis=9 * HOUR * 1000)
    table.tag("ever", at=3)
    assert expire_tags(table.context).noop_reason == "no tag is out of time"
    table.clock.advance(2 * HOUR)
    before = table.objects()

    plan = expire_tags(table.context, dry_run=True)
    assert table.objects() == before
    result = expire_tags(table.context)

    assert plan.tags == result.tags == ("short",)
    assert plan.deleted_keys == result.deleted_keys
    assert tags(table) == {"ever": 3, "long": 2}


def test_tags_made_before_a_time_go_with_the_files_that_only_they_need():
    table = alone_with_a_tag()
    table.tag("timed", at=4, retention_millis=90 * HOUR * 1000)
    table.clock.advance(HOUR)
    then = table.clock.now_millis()
    table.clock.advance(1)
    table.tag("late", at=4)

    result = expire_tags(table.context, older_than_millis=then)

    assert result.tags == ("t", "timed")
    assert tags(table) == {"late": 4}
    assert table.files() == needed_files(table)


def interrupted_at_each_call(verb, others):
    """Do the verb with something else between any two of its calls; yield the table after it."""
    original = alone_with_a_tag()
    original.write({7: "new"})
    counting = FaultyStore(original.copy().store)
    verb(context_of(counting, VirtualClock(seed=3, now_millis=original.clock.now_millis())))
    for number in range(1, len(counting.calls) + 1):
        table = original.copy()

        def interrupt(call, number=number, table=table):
            if call.number == number:
                others(table)

        clock = VirtualClock(seed=9, now_millis=table.clock.now_millis())
        with suppress(CommitConflict, NotFound, SnapshotExpired):
            verb(context_of(FaultyStore(table.store, on_call=interrupt), clock))
        yield table


def _expire(table):
    table.write({8: "newer"})
    expire(table.context, retain_max=1)


def _replace(table):
    replace_tag(table.context, "t")


def _delete(table):
    if "t" in table.context.tags.all():
        delete_tag(table.context, "t")


VERBS = {
    "create of its state": lambda context: create_tag(context, "v", snapshot_id=2),
    "replace": lambda context: replace_tag(context, "t", snapshot_id=4),
    "rename": lambda context: rename_tag(context, "t", "u"),
    "expire": lambda context: expire_tags(context, older_than_millis=2**60),
}
OTHERS = {"expire": _expire, "delete": _delete, "replace": _replace}


@pytest.mark.parametrize(("verb", "other"), each_with_one(VERBS, OTHERS, step=2))
def test_whatever_happens_between_two_calls_every_tag_that_is_there_can_be_read(verb, other):
    for table in interrupted_at_each_call(VERBS[verb], OTHERS[other]):
        for tag in table.context.tags.all().values():
            table.visible(tag.snapshot)
        assert table.findings() == []
        table.expire(retain_max=1)
        assert table.findings() == []
        assert table.files() == needed_files(table)
        assert not [name for name in tags(table) if name.startswith("lakehouse-holds-")]
