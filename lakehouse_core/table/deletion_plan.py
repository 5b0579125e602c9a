"""A deletion on its way: the roots that were unlinked, and how far it has come. Stored as `lakehouse/plan-<uuid>.json`.

Order: the plan is written → its roots are unlinked → readers are waited for → nothing else needs the files: they go.
Source: docs/reliability/deletion.md#order.
"""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, ValidationError

from lakehouse_core.errors import CorruptTable, UnsupportedFeature
from lakehouse_core.format.strict_json import json_with_checksum, strict_json
from lakehouse_core.table.layout import TableLayout
from lakehouse_core.table.root import Root, RootKind

PLAN_VERSION = 1


class DeletionStage(StrEnum):
    """How far a deletion has come. Stored in plans. Never rename."""

    UNLINKING = "unlinking"
    WAITING = "waiting"
    DELETING = "deleting"


class DeletionPlan(BaseModel):
    """The files that `roots` name may go as soon as readers of them have ended and no other root needs them.

    `roots` have rising ids. `successor` is the first snapshot kept: its delta names the last of the files that died.
    `made_changelog_ids`: these snapshots live on as changelogs, which must exist before their snapshots go.
    `waiting_since_millis` is the storage's clock; `file_count` and `size_bytes` are what was found to go then.
    """

    # A plan of a newer version is refused by its number, so unknown fields mean damage.
    model_config = ConfigDict(frozen=True, extra="forbid")

    version: int = PLAN_VERSION
    uuid: str
    kind: RootKind
    stage: DeletionStage = DeletionStage.UNLINKING
    roots: tuple[Root, ...]
    successor: Root | None = None
    made_changelog_ids: tuple[int, ...] = ()
    waiting_since_millis: int | None = None
    file_count: int = 0
    size_bytes: int = 0

    @property
    def key(self) -> str:
        return TableLayout.deletion_plan(self.uuid)

    @property
    def first_kept_id(self) -> int:
        """The id below which a plan for snapshots unlinks."""
        return self.roots[-1].snapshot_id + 1


def serialize_plan(plan: DeletionPlan) -> bytes:
    return json_with_checksum(plan.model_dump(mode="json", exclude_none=True))


def parse_plan(data: bytes, key: str) -> DeletionPlan:
    """Return the plan in `data`. Raises CorruptTable, or UnsupportedFeature for a plan of a newer version."""
    document = strict_json(data, key)
    version = document.get("version")
    if isinstance(version, int) and version > PLAN_VERSION:
        raise UnsupportedFeature(
            f"{key}: plan version is {version}, expected {PLAN_VERSION}. Upgrade, then call again."
        )
    try:
        plan = DeletionPlan.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise CorruptTable(
            f"{key}: field {field} is {first['input']!r:.100}: {first['msg']}. Nothing is deleted while it is there. "
            "Keep a copy as evidence, remove it, then remove orphan files."
        ) from error
    if key != plan.key or not plan.roots:
        raise CorruptTable(f"{key}: the plan is {plan.uuid} with {len(plan.roots)} roots: it was put there by hand.")
    return plan
