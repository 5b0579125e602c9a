"""Branch schemas: the schema by which a root or a deletion plan of a branch is treated, and what follows from it.

A run on one branch finishes what runs on all others began, and each branch has options of its own.
Source: docs/reliability/deletion.md#branches.
"""

from lakehouse_core.errors import NotFound
from lakehouse_core.execution.context import TableContext
from lakehouse_core.options import ChangelogProducer
from lakehouse_core.planning.expiry.deletion import is_due
from lakehouse_core.table.deletion_plan import DeletionPlan
from lakehouse_core.table.layout import MAIN, layout_at
from lakehouse_core.table.root import Root
from lakehouse_core.table.schema import TableSchema


class BranchSchemas:
    """The latest schemas of the branches of a table, each read once when it is needed; `schema` is that of `table`."""

    def __init__(self, table: TableContext, schema: TableSchema) -> None:
        self._table = table
        self._known = {table.layout.prefix: schema}

    def of(self, prefix: str) -> TableSchema:
        """Return the schema of the branch whose keys begin with `prefix`; of a deleted one that of the main branch.
        Raises CorruptTable.
        """
        if prefix not in self._known:
            try:
                self._known[prefix] = self._table.on_branch(layout_at(prefix).branch).schemas.latest()
            except NotFound:
                if prefix == MAIN.prefix:
                    raise
                self._known[prefix] = self.of(MAIN.prefix)
        return self._known[prefix]


class DeltasAreChangelogs:
    """Whether the changes of a long-lived changelog are the rows that its delta added, by the schema of its branch."""

    def __init__(self, table: TableContext, schema: TableSchema) -> None:
        self._schemas = BranchSchemas(table, schema)

    def of(self, root: Root) -> bool:
        """Return the answer for a root, which is a changelog. Raises CorruptTable."""
        # A plan stands for the roots that it unlinked.
        schema = self._schemas.of(root.history.removeprefix(f"{root.key}/"))
        return schema.table_options.changelog_producer is ChangelogProducer.NONE


class Graces:
    """How long the files of a plan wait for readers: as long as the branch says whose roots are unlinked."""

    def __init__(self, table: TableContext, schema: TableSchema) -> None:
        self._schemas = BranchSchemas(table, schema)

    def waits(self, plan: DeletionPlan) -> bool:
        """Return whether the files of the plan wait for readers at all."""
        return self._millis(plan) > 0

    def is_over(self, plan: DeletionPlan, *, now_millis: int) -> bool:
        """Return whether the files of the plan may be deleted, as `is_due` does."""
        return is_due(plan, grace_millis=self._millis(plan), now_millis=now_millis)

    def _millis(self, plan: DeletionPlan) -> int:
        return self._schemas.of(plan.branch_prefix).table_options.read_grace_millis
