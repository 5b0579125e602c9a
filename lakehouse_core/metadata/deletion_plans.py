"""Deletion plans in the store: the deletions on their way."""

from lakehouse_core.storage.object_store import ObjectStore
from lakehouse_core.table.deletion_plan import DeletionPlan, parse_plan
from lakehouse_core.table.layout import OWN_FOLDER, is_deletion_plan


def load_plans(store: ObjectStore) -> tuple[DeletionPlan, ...]:
    """Return the deletions on their way. Raises CorruptTable; NotFound when one ends meanwhile."""
    names = store.children(OWN_FOLDER).files
    keys = [f"{OWN_FOLDER}/{name}" for name in names if is_deletion_plan(name)]
    return tuple(parse_plan(store.read(key), key) for key in keys)
