"""What attempts left behind that died, or that others overtook: files that nothing names."""

from collections.abc import Iterable

import lakehouse_core as lc
from lakehouse_core.execution.expiry.orphans import remove_orphans
from lakehouse_core.table.data_layout import DataLayout
from tests.oracle.reachable import reachable


def removed_orphans(table: lc.Table) -> tuple[set[str], set[str]]:
    """Remove the orphans of any age; return the keys of the data files among them, and of those that stay.

    What stays is what snapshots need, and `verify` finds nothing.
    """
    context = table._context
    removed = remove_orphans(context, min_age_millis=0).deleted
    # Nothing has expired, so no delta is a changelog.
    needed = reachable(context, DataLayout(table.schema), delta_is_changelog=False)
    left = _data_files(info.key for info in context.store.list(""))
    assert left == _data_files(needed)
    assert table.verify(data=True).findings == ()
    return _data_files(orphan.key for orphan in removed), left


def _data_files(keys: Iterable[str]) -> set[str]:
    return {key for key in keys if key.endswith(".parquet")}
