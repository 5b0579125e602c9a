"""Copy mark: what an unfinished copy of a table is a copy of, as `lakehouse/copying` in the folder of the copy."""

from pydantic import BaseModel, ConfigDict, ValidationError

from lakehouse_core.errors import CorruptTable, UnsupportedFeature
from lakehouse_core.format.strict_json import json_with_checksum, strict_json

_VERSION = 1


class CopyMark(BaseModel):
    """`source`: the address of the copied table; `uuid`: of the call that copies."""

    # A mark of a newer version is refused by its version number, so an unknown field means damage.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    version: int = _VERSION
    source: str
    uuid: str


def serialize_mark(mark: CopyMark) -> bytes:
    return json_with_checksum(mark.model_dump(mode="json"))


def parse_mark(data: bytes, where: str) -> CopyMark:
    """Return the mark in `data`; `where` names the object in errors. Raises CorruptTable, UnsupportedFeature."""
    document = strict_json(data, where)
    version = document.get("version")
    if isinstance(version, int) and version > _VERSION:
        raise UnsupportedFeature(f"{where}: mark version is {version}, expected {_VERSION}. Upgrade, then copy again.")
    try:
        return CopyMark.model_validate(document)
    except ValidationError as error:
        raise CorruptTable(
            f"{where}: found {data[:100]!r}, expected the mark of a copy. Drop the table of that name, then copy again."
        ) from error
