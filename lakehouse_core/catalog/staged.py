"""Staged commits as users hold them: the value, and the text that a pipeline keeps between its steps."""

from dataclasses import dataclass, fields

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.table.changes import StagedCommit as StagedChanges
from lakehouse_core.table.changes_json import staged_from_json, staged_to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedCommit(StagedChanges):
    """Files that are written and visible to nobody yet. The same user and identifier commit once."""

    def to_json(self) -> str:
        """Return the staged commit as one line of JSON, versioned."""
        return staged_to_json(self)

    @classmethod
    def from_json(cls, text: str) -> "StagedCommit":
        """Return the staged commit in `text`. Raises InvalidRequest naming the field, or UnsupportedFeature."""
        if not isinstance(text, str):
            raise InvalidRequest(f"staged commit: expected the text that to_json gave, found {type(text).__name__}.")
        return cls.of(staged_from_json(text))

    @classmethod
    def of(cls, staged: StagedChanges) -> "StagedCommit":
        """Return the same commit with the methods that users call."""
        return cls(**{each.name: getattr(staged, each.name) for each in fields(staged)})
