"""What others do to a table of columns k, p, v and n between two calls of a verb."""

from datetime import timedelta

import lakehouse_core as lc


def wrote(table: lc.Table) -> None:
    table.write([{"k": 700, "p": 0, "v": "other", "n": 1}])


def deleted(table: lc.Table) -> None:
    table.delete("k = 8")


def rewrote(table: lc.Table) -> None:
    table.compact(full=True)


def expired(table: lc.Table) -> None:
    rewrote(table)
    table.expire_snapshots(retain_max=1, older_than=timedelta(0))
