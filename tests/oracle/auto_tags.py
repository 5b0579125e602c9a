"""Automatic tags as Java makes them: one snapshot after the other, tags made and deleted at once."""

from collections.abc import Sequence
from datetime import datetime, timedelta

EPOCH = datetime(1970, 1, 1)


def make_all(
    tags: dict[str, int],
    snapshots: Sequence[tuple[int, datetime | None]],
    *,
    period: timedelta,
    form: str,
    delay: timedelta = timedelta(0),
    completes: bool = False,
    most: int | None = None,
) -> dict[str, int]:
    """Return the tags, snapshot ids by name, after a commit that looks at `snapshots`: ids, and their times."""

    def time_of(name: str) -> datetime | None:
        try:
            return datetime.strptime(name, form)
        except ValueError:
            return None

    def automatic() -> list[str]:
        return [name for name in tags if time_of(name) is not None]

    tags = dict(tags)
    following, first = None, 0
    if automatic():
        newest = max(automatic(), key=lambda name: time_of(name) or EPOCH)
        following, first = (time_of(newest) or EPOCH) + period, tags[newest] + 1
    for id, time in snapshots:
        if id < first or time is None or (following is not None and time - delay < following + period):
            continue
        begun = EPOCH + (time - EPOCH) // period * period - period
        if completes and following is not None:
            begun = following
        tags.setdefault(begun.strftime(form), id)
        following = begun + period
        if most is not None:
            for name in sorted(automatic(), key=tags.__getitem__)[: max(0, len(automatic()) - most)]:
                del tags[name]
    return tags
