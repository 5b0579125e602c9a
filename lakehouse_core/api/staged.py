"""Staged commits as users hold them: the value, and the text that a pipeline keeps between its steps."""

from dataclasses import dataclass, fields

from lakehouse_core.display import line, page
from lakehouse_core.errors import InvalidRequest
from lakehouse_core.table.commit_json import staged_from_json, staged_to_json
from lakehouse_core.table.commit_message import StagedCommit as StagedChanges


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StagedCommit(StagedChanges):
    """Files that are written and visible to nobody yet. The same user and identifier commit once."""

    def __repr__(self) -> str:
        return line("StagedCommit", self.table, self._facts())

    def _repr_html_(self) -> str:
        return page("StagedCommit", self.table, self._facts())

    def _facts(self) -> dict[str, object]:
        files = [file for message in self.messages for file in message.new_files]
        return {
            "commit_user": self.commit_user,
            "commit_identifier": self.commit_identifier,
            "mode": self.mode,
            "files": len(files),
            "rows": sum(file.row_count for file in files),
        }

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
