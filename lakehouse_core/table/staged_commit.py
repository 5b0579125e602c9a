"""A staged commit: files that are written and not yet in a snapshot, and the JSON text that a pipeline stores.

Rule: the text is versioned, and parsed completely or refused, because a partly parsed commit would lose files.
Source: docs/semantics/commit.md#commit-message.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakehouse_core.display import line, page
from lakehouse_core.errors import InvalidRequest
from lakehouse_core.table.commit_codecs import (
    COUNT,
    INT,
    MODE,
    TEXT,
    WITHOUT_READ_INDEXES,
    RecordCodec,
    decode_strings,
    dump,
    list_of,
    load,
    or_none,
)
from lakehouse_core.table.commit_json import MESSAGE, version_of
from lakehouse_core.table.commit_message import CommitMessage, WriteMode


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StagedCommit:
    """Files that are written and not yet in a snapshot. The same user and identifier commit once."""

    table: str
    commit_user: str
    commit_identifier: int
    mode: WriteMode
    messages: tuple[CommitMessage, ...]
    schema_id: int
    # The snapshot that the writer saw (None: an empty table); an overwrite never removes files added after it. Another
    # engine may roll the table back and give the id to another snapshot, which has another time.
    base_snapshot_id: int | None = None
    base_time_millis: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    watermark: int | None = None

    def __repr__(self) -> str:
        return line("StagedCommit", self.table, self._facts())

    def _repr_html_(self) -> str:
        return page("StagedCommit", self.table, self._facts())

    def to_json(self) -> str:
        """Return the staged commit as one line of JSON, versioned."""
        version = version_of(self.messages)
        if self.base_time_millis is not None:
            version = max(version, WITHOUT_READ_INDEXES)
        return dump({"version": version, **_STAGED.encode(self)})

    @staticmethod
    def from_json(text: str) -> "StagedCommit":
        """Return the staged commit in `text`. Raises InvalidRequest naming the field, or UnsupportedFeature."""
        if not isinstance(text, str):
            raise InvalidRequest(f"staged commit: expected the text of to_json, found {type(text).__name__}.")
        return _STAGED.decode(load(text, "staged commit"), "staged commit")

    def _facts(self) -> dict[str, object]:
        files = [file for message in self.messages for file in message.new_files]
        return {
            "commit_user": self.commit_user,
            "commit_identifier": self.commit_identifier,
            "mode": self.mode,
            "files": len(files),
            "rows": sum(file.row_count for file in files),
        }


@dataclass(frozen=True, slots=True)
class Seen:
    """A snapshot that was the latest once. `time_millis` None: not recorded; `id` 0: there was no snapshot."""

    id: int
    time_millis: int | None


def base_of(staged: StagedCommit) -> Seen:
    """Return the snapshot that the writer of a staged commit saw."""
    return Seen(staged.base_snapshot_id or 0, staged.base_time_millis)


_STAGED = RecordCodec(
    StagedCommit,
    {
        "table": TEXT,
        "commit_user": TEXT,
        "commit_identifier": INT,
        "mode": MODE,
        "messages": list_of(MESSAGE),
        "schema_id": COUNT,
        "base_snapshot_id": or_none(COUNT),
        "base_time_millis": or_none(INT),
        "properties": (dict, decode_strings),
        "watermark": or_none(INT),
    },
)
