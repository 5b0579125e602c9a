"""Removal of orphans in the tables of Java: what Java itself finds, and nothing that is needed."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import lakehouse_core as lc
from lakehouse_core.execution.expiry.orphans import remove_orphans

# Java's rollback unlinked a snapshot and left its files. Java's own removal finds the same ones.
LEFT_BY_JAVA = {"db.tags": {"bucket": 1, "manifest": 3}}


@pytest.mark.parametrize("name", ["java-2.0.0", pytest.param("java-1.4.2", marks=pytest.mark.long)])
def test_the_orphans_of_the_tables_of_java_are_those_that_java_finds(
    unpacked: Callable[[str], Path], name: str
) -> None:
    catalog = lc.connect(unpacked(name))
    found = {}
    for table in (f"{database}.{table}" for database in catalog.databases() for table in catalog.tables(database)):
        result = remove_orphans(catalog.table(table)._context, min_age_millis=0, dry_run=True)
        found[table] = Counter(one.kind for one in result.deleted)

    assert len(found) > 100
    assert {table: kinds for table, kinds in found.items() if kinds} == LEFT_BY_JAVA
