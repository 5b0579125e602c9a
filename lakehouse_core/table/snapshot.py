"""Snapshots, long-lived changelogs, tags and consumers as values, with their JSON.

A snapshot is written once and never changed; a changelog is the same document under another key, a tag the same
document with two more fields.
Source: docs/format/snapshot.md#snapshot-file.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Final, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from lakehouse_core.errors import CorruptTable, UnsupportedFeature
from lakehouse_core.format.stored import is_file_name
from lakehouse_core.format.strict_json import json_with_checksum, strict_json
from lakehouse_core.table.checksums import CHECKSUMS_PROPERTY, checksums_from_text
from lakehouse_core.table.commit_message import CommitKind

SNAPSHOT_VERSION = 3
# In files of tags, at their end. Other engines ignore it. Stored in tables. Never rename.
TAG_NAME_FIELD = "lakehouseTag"
# The name that a renamed tag had, by which a repeated call knows what an earlier one did.
TAG_FORMER_NAME_FIELD = "lakehouseTagBefore"
# How the names of tags begin that keep a state for a verb, and of those that a rollback leaves. Stored in tables. Never
# rename.
HOLDING_TAG = "lakehouse-holds-"
ROLLBACK_TAG = f"{HOLDING_TAG}for-rollback-"
NO_WATERMARK = -(2**63)
# Stored in snapshots. Never rename.
RUN_ID = "lakehouse.run-id"
"""The property with the run of an orchestrator that made a snapshot: `orders.write(rows, properties={RUN_ID: "…"})`."""
# The property with the id of the snapshot whose state a rollback brought back. Stored in snapshots. Never rename.
ROLLED_BACK_TO = "lakehouse.rolled-back-to"
# The property with the delta of that snapshot, which tells it from another with its id. Stored in snapshots. Never
# rename.
ROLLED_BACK_DELTA = "lakehouse.rolled-back-delta"
# The property with the snapshot of a branch whose state a fast-forward brought: its id, its delta, and the branch's
# name. Stored in snapshots. Never rename.
FORWARDED_FROM = "lakehouse.forwarded-from"
# The property of a fast-forward that brought files back which an earlier one had removed. Stored in snapshots. Never
# rename.
RETURNS_FILES = "lakehouse.returns-files"
# The property with the number of buckets that a rescale brought. Stored in snapshots. Never rename.
RESCALED_TO = "lakehouse.rescaled-to"
# The property with the time of the schema that the snapshot names, in milliseconds since 1970-01-01: a table that was
# dropped and created again has another one. Stored in snapshots. Never rename.
SCHEMA_TIME = "lakehouse.schema-time"

_Count: TypeAlias = Annotated[int, Field(ge=0)]


def _last_part_of_a_key(name: str) -> str:
    """Return the name. Raises ValueError for a name that could point outside its folder."""
    if not is_file_name(name):
        raise ValueError("expected a file name without a path")
    return name


_FileName: TypeAlias = Annotated[str, AfterValidator(_last_part_of_a_key)]
_KEYED_BY_ID = re.compile(r"(?:^|/)(?:snapshot/snapshot|changelog/changelog)-(\d+)$")


_LONGEST_SHOWN: Final = 60


class Snapshot(BaseModel):
    """One committed state of a table. Written once, never changed.

    Fields are in the order of the file. A field that is None (for `properties`: empty) is not written.
    """

    # Unknown fields come from newer writers; a snapshot is never rewritten, so ignoring them is safe.
    model_config = ConfigDict(
        frozen=True,
        strict=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        extra="ignore",
    )

    version: int = SNAPSHOT_VERSION
    uuid: str | None = None
    id: Annotated[int, Field(ge=1)]
    schema_id: _Count
    base_manifest_list: _FileName
    base_manifest_list_size: _Count | None = None
    delta_manifest_list: _FileName
    delta_manifest_list_size: _Count | None = None
    changelog_manifest_list: _FileName | None = None
    changelog_manifest_list_size: _Count | None = None
    index_manifest: _FileName | None = None
    commit_user: str
    writer_version: str | None = None
    commit_identifier: int
    commit_kind: Annotated[CommitKind, Field(strict=False)]
    time_millis: int
    # Rows in files before any merge. Null in files older than version 3.
    total_record_count: int | None = None
    delta_record_count: int | None = None
    changelog_record_count: int | None = None
    watermark: int | None = None
    statistics: _FileName | None = None
    properties: Mapping[str, str] = Field(default_factory=dict)
    next_row_id: int | None = None
    operation: str | None = None

    def __repr_args__(self) -> Iterator[tuple[str | None, object]]:
        # The ledger of a table with many writers fills a screen.
        for name, value in super().__repr_args__():
            if name == "properties":
                yield name, {key: text if len(text) <= _LONGEST_SHOWN else "…" for key, text in self.properties.items()}
            elif value is not None:
                yield name, value

    @property
    def run_id(self) -> str | None:
        """The run that made the snapshot, as its committer recorded it; None without a record."""
        return self.properties.get(RUN_ID)

    @property
    def rolled_back_to(self) -> str | None:
        """The id of the snapshot whose rows this one brought back; None without a record of it."""
        return self.properties.get(ROLLED_BACK_TO)

    @property
    def rolled_back_delta(self) -> str | None:
        """The delta of the snapshot whose rows this one brought back; None without a record of it."""
        return self.properties.get(ROLLED_BACK_DELTA)

    @property
    def forwarded_from(self) -> str | None:
        """The name that the branch had whose rows a fast-forward brought in this snapshot; None without a record."""
        text = self.properties.get(FORWARDED_FROM)
        return None if text is None else text.split(" ", 2)[-1]

    @property
    def brings_files(self) -> bool:
        """Whether the files that it adds were made by earlier snapshots: a rollback or a fast-forward made it."""
        return ROLLED_BACK_TO in self.properties or FORWARDED_FROM in self.properties

    @property
    def returns_files(self) -> bool:
        """Whether files that an earlier snapshot of its history removed may have come back in it."""
        return ROLLED_BACK_TO in self.properties or RETURNS_FILES in self.properties


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """A named snapshot with all its fields, independent of the file `snapshot-<id>`. Without retention both times are
    None.

    `tag_create_time` is (year, month, day, hour, minute, second, nanos) on the writer's local clock;
    `tag_time_retained` is in seconds with nine digits after the point. `name`: the name at creation, not part of
    equality, None if another engine wrote the tag.
    """

    snapshot: Snapshot
    tag_create_time: tuple[int, int, int, int, int, int, int] | None = None
    tag_time_retained: Decimal | None = None
    name: str | None = field(default=None, compare=False)

    @property
    def create_time_millis(self) -> int | None:
        """The creation time in local wall clock, counted as UTC."""
        if self.tag_create_time is None:
            return None
        *until_second, nanos = self.tag_create_time
        moment = datetime(*until_second, tzinfo=UTC)  # type: ignore[arg-type, misc]
        return (moment - _EPOCH) // timedelta(milliseconds=1) + nanos // 1_000_000

    @property
    def time_retained_millis(self) -> int | None:
        return None if self.tag_time_retained is None else int(self.tag_time_retained * 1000)


def new_tag(snapshot: Snapshot, *, name: str, local_now_millis: int, retained_millis: int | None) -> Tag:
    """Return a tag of `snapshot` created now; without retention it has no times, as in Java."""
    if retained_millis is None:
        return Tag(snapshot=snapshot, name=name)
    moment = _EPOCH + timedelta(milliseconds=local_now_millis)
    return Tag(
        snapshot=snapshot,
        tag_create_time=(
            moment.year,
            moment.month,
            moment.day,
            moment.hour,
            moment.minute,
            moment.second,
            moment.microsecond * 1000,
        ),
        tag_time_retained=(Decimal(retained_millis) / 1000).quantize(_NANO),
        name=name,
    )


def parse_snapshot(data: bytes, key: str) -> Snapshot:
    """Return the snapshot or changelog in `data`; `key` names the file in errors and must end with the snapshot's id.

    Raises CorruptTable, or UnsupportedFeature for a version newer than 3.
    """
    return _snapshot(strict_json(data, key), key)


def serialize_snapshot(snapshot: Snapshot) -> bytes:
    """Return the file of a snapshot or changelog. Java 1.x and 2.x read it: no field is ever an explicit null."""
    return json_with_checksum(_fields(snapshot))


def snapshot_checksums(snapshot: Snapshot, key: str) -> Mapping[str, str]:
    """Return the checksums that the snapshot's writer recorded, by file name; `key` names the snapshot in errors.

    Raises CorruptTable.
    """
    return checksums_from_text(snapshot.properties.get(CHECKSUMS_PROPERTY), key)


def parse_tag(data: bytes, key: str) -> Tag:
    """Return the tag in `data`. Raises CorruptTable, or UnsupportedFeature for a version newer than 3."""
    document = strict_json(data, key)
    return Tag(
        snapshot=_snapshot(document, key),
        tag_create_time=_create_time(document.get("tagCreateTime"), key),
        tag_time_retained=_retained(document.get("tagTimeRetained"), key),
        name=_tag_name(document.get(TAG_NAME_FIELD), key),
    )


def serialize_tag(tag: Tag) -> bytes:
    document = _fields(tag.snapshot)
    if tag.tag_create_time is not None:
        document["tagCreateTime"] = _without_trailing_zeros(tag.tag_create_time)
    if tag.tag_time_retained is not None:
        document["tagTimeRetained"] = tag.tag_time_retained.quantize(_NANO)
    if tag.name is not None:
        document[TAG_NAME_FIELD] = tag.name
    return json_with_checksum(document)


def parse_consumer(data: bytes, key: str) -> int:
    """Return the id of the snapshot that the consumer reads next."""
    found = strict_json(data, key).get("nextSnapshot")
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise CorruptTable(f"{key}: nextSnapshot is {found!r}, expected a snapshot id. Delete or reset the consumer.")
    return found


def serialize_consumer(next_snapshot_id: int) -> bytes:
    return json_with_checksum({"nextSnapshot": next_snapshot_id})


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NANO = Decimal("1.000000000")


def _snapshot(document: dict[str, Any], key: str) -> Snapshot:
    # Files of the first releases have no version.
    version = document.get("version") or 1
    if isinstance(version, int) and version > SNAPSHOT_VERSION:
        raise UnsupportedFeature(
            f"{key}: snapshot version is {version}, expected at most {SNAPSHOT_VERSION}. Upgrade before reading."
        )
    # An explicit null means the same as an absent field: Java up to 1.3 writes some.
    present = {name: value for name, value in document.items() if value is not None}
    try:
        snapshot = Snapshot.model_validate({**present, "version": version}, by_name=False)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise CorruptTable(
            f"{key}: field {field} is {first['input']!r:.100}: {first['msg']}. Keep the file as evidence; "
            "restore it from a copy of the table, or read another snapshot."
        ) from error
    named = _KEYED_BY_ID.search(key)
    if named and int(named[1]) != snapshot.id:
        raise CorruptTable(
            f"{key}: the file holds snapshot {snapshot.id}, expected {named[1]}. The file was renamed or copied: "
            "restore it from a copy of the table."
        )
    return snapshot


def _fields(snapshot: Snapshot) -> dict[str, Any]:
    fields = snapshot.model_dump(mode="json", by_alias=True, exclude_none=True)
    if not fields["properties"]:
        del fields["properties"]
    return fields


def _create_time(found: Any, key: str) -> tuple[int, int, int, int, int, int, int] | None:
    if found is None:
        return None
    if not (isinstance(found, list) and 5 <= len(found) <= 7 and all(type(part) is int for part in found)):
        raise _bad_tag_time(found, key)
    year, month, day, hour, minute, second, nanos = (*found, 0, 0)[:7]
    try:
        datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise _bad_tag_time(found, key) from error
    if not 0 <= nanos < 1_000_000_000:
        raise _bad_tag_time(found, key)
    return year, month, day, hour, minute, second, nanos


def _bad_tag_time(found: Any, key: str) -> CorruptTable:
    return CorruptTable(
        f"{key}: tagCreateTime is {found!r:.100}, expected [year, month, day, hour, minute, second, nanos]. "
        "Delete the tag, or make it again from its snapshot."
    )


def _retained(found: Any, key: str) -> Decimal | None:
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int | Decimal) or not 0 <= found < 2**63:
        raise CorruptTable(f"{key}: tagTimeRetained is {found!r:.100}, expected seconds. Make the tag again.")
    return Decimal(found).quantize(_NANO)


def _tag_name(found: Any, key: str) -> str | None:
    if found is not None and (not isinstance(found, str) or any(character in found for character in "/\\\0")):
        raise CorruptTable(
            f"{key}: {TAG_NAME_FIELD} is {found!r:.100}, expected the name of a tag. Make the tag again."
        )
    return found


def _without_trailing_zeros(parts: tuple[int, ...]) -> list[int]:
    """Return date and time with nanos left out when zero, and then seconds, as Java writes them."""
    kept = list(parts)
    while len(kept) > 5 and kept[-1] == 0:
        kept.pop()
    return kept
