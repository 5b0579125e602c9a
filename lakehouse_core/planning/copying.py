"""Copying: choose the snapshots, tags and branches of a table that a copy has.

Rule: the snapshots of a branch are one run up to its latest, so that a copy reads as a table whose older snapshots have
expired. Source: docs/moving.md#copy-tables-to-another-warehouse.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lakehouse_core.errors import NotFound, shown
from lakehouse_core.table.layout import MAIN, TableLayout
from lakehouse_core.table.root import Root, RootKind


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyChoice:
    """What is copied; None is all there is. `snapshots`: so many of the main branch, the newest ones; fewer than all
    leave its changelogs out. `tags`: those of the main branch.
    """

    snapshots: int | None = None
    tags: Sequence[str] | None = None
    branches: Sequence[str] | None = None


def check_choice(choice: CopyChoice, *, tags: Sequence[str], branches: Sequence[str]) -> None:
    """Raise NotFound for a tag or branch that the table does not have. `tags`, `branches`: the names of all."""
    for what, asked, there in (("tag", choice.tags, tags), ("branch", choice.branches, branches)):
        for name in asked or ():
            if name not in there:
                known = ", ".join(sorted(there)[:5]) or "none"
                raise NotFound(f"There is no {what} {shown(name)} to copy. The table has {known}. Check the name.")


def chosen_roots(roots: Sequence[Root], choice: CopyChoice, branches: Sequence[str]) -> list[Root]:
    """Return the roots that a copy has. `branches`: the names of all. Raises NotFound for a tag that is gone."""
    of_main = {root.key: root for root in roots if root.history == MAIN.prefix}
    kinds = {kind: [root for root in of_main.values() if root.kind is kind] for kind in RootKind}
    tags = kinds[RootKind.TAG]
    if choice.tags is not None:
        keys = [MAIN.tag(name) for name in dict.fromkeys(choice.tags)]
        if gone := [key for key in keys if key not in of_main]:
            raise NotFound(f"{gone[0]}: the tag was deleted meanwhile. Copy again, without it.")
        tags = [of_main[key] for key in keys]
    snapshots = sorted(kinds[RootKind.SNAPSHOT], key=lambda root: root.snapshot_id)
    taken = snapshots if choice.snapshots is None else snapshots[-choice.snapshots :]
    changelogs = kinds[RootKind.CHANGELOG] if len(taken) == len(snapshots) else []
    prefixes = {TableLayout(name).prefix for name in (branches if choice.branches is None else choice.branches)}
    return [*changelogs, *tags, *taken, *(root for root in roots if root.history in prefixes)]
