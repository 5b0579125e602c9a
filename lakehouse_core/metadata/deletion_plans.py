"""Deletion plans in the store: the unfinished deletions, each written before its roots are unlinked.

Source: docs/reliability/deletion.md#order.
"""

from lakehouse_core.errors import CorruptTable, NotFound, StorageUnavailable
from lakehouse_core.retry import LISTING
from lakehouse_core.storage.object_store import Children, ObjectStore, StoreReader, read_all
from lakehouse_core.storage.outcomes import created, replaced
from lakehouse_core.table.deletion_plan import DeletionPlan, DeletionStage, parse_plan, serialize_plan
from lakehouse_core.table.layout import OWN_FOLDER, is_deletion_plan
from lakehouse_core.table.read_back import readable_file


def load_plans(store: StoreReader) -> tuple[DeletionPlan, ...]:
    """Return the unfinished deletions. Raises CorruptTable, and NotFound if one ends meanwhile."""
    keys = plan_keys(store.children(OWN_FOLDER))
    return tuple(parse_plan(data, key) for key, data in zip(keys, read_all(store, keys), strict=True))


def plan_keys(own: Children) -> list[str]:
    """Return the keys of the deletion plans in the folder `OWN_FOLDER`."""
    return [f"{OWN_FOLDER}/{name}" for name in own.files if is_deletion_plan(name)]


def current_plans(store: StoreReader) -> tuple[DeletionPlan, ...]:
    """Return the unfinished deletions; read again if one ends meanwhile."""
    # Another run may end a deletion between listing and reading.
    return LISTING.call(
        lambda: load_plans(store),
        on=(NotFound,),
        exhausted=lambda _: StorageUnavailable(
            f"{store.uri(OWN_FOLDER)}: deletion plans changed in every attempt to read them. End other "
            "maintenance, then call again."
        ),
    )


def begin(store: ObjectStore, plan: DeletionPlan) -> DeletionPlan:
    """Write `plan`, durably, so that later runs find the roots that it unlinks. Return the plan as stored."""
    data = readable_file(plan, serialize_plan, lambda data: parse_plan(data, plan.key), what="The deletion plan")
    if not created(store, plan.key, data):
        raise CorruptTable(
            f"{store.uri(plan.key)}: a file of a fresh UUID exists already. Check the source of random numbers."
        )
    return plan


def advance(store: ObjectStore, plan: DeletionPlan, advanced: DeletionPlan) -> None:
    """Replace `plan` by `advanced`, unless another run has taken it further or ended it."""
    found = store.read_versioned(plan.key)
    if found is None or parse_plan(found[0], plan.key).stage is not plan.stage:
        return
    replaced(store, plan.key, serialize_plan(advanced), if_version=found[1])


def skip_wait(store: ObjectStore, plan: DeletionPlan) -> None:
    """Record that files of `plan` may be deleted now, so that the plan is no longer a root."""
    advance(store, plan, plan.model_copy(update={"stage": DeletionStage.DELETING}))
