"""The specification of a table: what it is, what feeds it, when it is maintained. One YAML file a table.

Adding a table is adding a file. Unknown names are refused with the nearest known one, every fault with file and line.
"""

import difflib
import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

import lakehouse_core as lc

# Dagster makes op names of them, replacing all else by "_": two tables could fall on one name.
Identifier = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$")]


class _Spec(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ColumnSpec(_Spec):
    """A column: its type as SQL text (`DECIMAL(12, 2) NOT NULL`) and what it means."""

    type: str
    description: str = ""


def _column(value: object) -> object:
    return {"type": value} if isinstance(value, str) else value


class FeedSpec(_Spec):
    """Where the rows come from: a source known to the code location, and which of its feeds."""

    source: Identifier
    name: Identifier
    # Off: the feed is loaded whole, in one batch.
    batches: bool = True


class ChangesSpec(_Spec):
    """The table whose changelog a table is kept from: a row is in it as long as these columns of it are null."""

    table: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*\.[A-Za-z][A-Za-z0-9_]*$")]
    while_null: tuple[Identifier, ...] = Field(min_length=1)


class MaintenanceSpec(_Spec):
    """When the table is maintained. What is then done is decided by the core."""

    # More small files than this, all buckets together: compact fully.
    max_small_files: int = Field(default=16, ge=1)
    # More sorted runs than this in any bucket of a key table: compact fully.
    max_sorted_runs: int = Field(default=5, ge=1)
    max_manifests: int = Field(default=16, ge=1)
    max_snapshots: int = Field(default=30, ge=1)


class TableSpec(_Spec):
    """One table. The asset keys, checks and jobs that belong to it are made from this alone."""

    database: Identifier
    name: Identifier
    comment: str
    columns: Mapping[Identifier, Annotated[ColumnSpec, BeforeValidator(_column)]]
    primary_key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    options: Mapping[str, str] = {}
    # Said, never guessed: `merge` by the key, or `append`.
    write_mode: Literal["merge", "append"]
    # One of the two: where the rows come from.
    feed: FeedSpec | None = None
    changes_of: ChangesSpec | None = None
    # `process`: by the run itself, for batches of a few thousand rows, which are done before a Spark job has begun.
    runs_on: Literal["spark", "process"] = "spark"
    # A tag `batch-<day>` after each batch, for whoever asks what the table said that evening.
    tag_batches: bool = False
    maintenance: MaintenanceSpec = MaintenanceSpec()
    owners: tuple[str, ...] = ()
    tags: Mapping[str, str] = {}

    @field_validator("options", mode="before")
    @classmethod
    def _option_texts(cls, value: object) -> object:
        # YAML reads `bucket: 1` as a number and `true` as a truth value; options are texts.
        if not isinstance(value, Mapping):
            return value
        return {
            key: str(v).lower() if isinstance(v, bool) else str(v) if isinstance(v, int | float) else v
            for key, v in value.items()
        }

    @model_validator(mode="after")
    def _columns_exist(self) -> Self:
        for what, names in (("primary_key", self.primary_key), ("partition_by", self.partition_by)):
            for name in names:
                if name not in self.columns:
                    raise ValueError(f"{what} names {name!r}, which is no column{_nearest(name, self.columns)}")
        if (self.write_mode == "merge") != bool(self.primary_key):
            has = "has" if self.primary_key else "has no"
            raise ValueError(f"write_mode is {self.write_mode!r}, but the table {has} primary_key")
        if (self.feed is None) == (self.changes_of is None):
            raise ValueError("rows come from a feed or are changes_of a table: give one of the two")
        return self

    @property
    def identifier(self) -> str:
        """The table's name in its catalog: `database.name`."""
        return f"{self.database}.{self.name}"

    @property
    def is_batched(self) -> bool:
        """Whether its rows come in the batches of a feed."""
        return self.feed is not None and self.feed.batches

    @property
    def digest(self) -> str:
        """Equal for equal specifications; part of the code version of the assets made from it."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:12]


def load_specs(folder: Path, sources: Mapping[str, Collection[str]] | None = None) -> tuple[TableSpec, ...]:
    """Read every `*.yaml` in `folder`, ordered by table name; `sources` names the feeds of each source there is.

    Raises InvalidRequest that lists all faults of all files, each with file and line.
    """
    specs: dict[str, TableSpec] = {}
    files: dict[str, Path] = {}
    faults: list[str] = []
    for file in sorted(folder.glob("*.yaml")):
        try:
            spec = parse_spec(file.read_text(encoding="utf-8"), file.name, sources)
        except lc.InvalidRequest as error:
            faults.append(str(error))
            continue
        if spec.identifier in specs:
            faults.append(f"{file.name}: {spec.identifier} is specified in another file too; keep one of them.")
        specs[spec.identifier], files[spec.identifier] = spec, file
    faults += [fault for name, spec in specs.items() for fault in _unfollowable(files[name], spec, specs)]
    if faults:
        raise lc.InvalidRequest("\n".join(faults))
    return tuple(specs[name] for name in sorted(specs))


def parse_spec(text: str, file: str, sources: Mapping[str, Collection[str]] | None = None) -> TableSpec:
    """Return the specification in `text`; `file` is how messages call it. Without `sources` any feed will do.

    Raises InvalidRequest with one line a fault.
    """
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        content = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise lc.InvalidRequest(f"{file}:{line}: not YAML: {error.problem}.") from error
    if not isinstance(root, yaml.MappingNode):
        raise lc.InvalidRequest(f"{file}:1: a table specification is a mapping of {', '.join(TableSpec.model_fields)}.")
    faults = [f"{file}:{line}: {name} is given twice; keep one." for line, name in _duplicates(root)]
    try:
        spec = TableSpec.model_validate(content)
    except ValidationError as error:
        faults += [_fault(file, root, detail["loc"], detail["type"], detail["msg"]) for detail in error.errors()]
        raise lc.InvalidRequest("\n".join(faults)) from error
    if sources is not None and spec.feed is not None:
        faults += _unknown_feed(file, root, spec.feed, sources)
    if faults:
        raise lc.InvalidRequest("\n".join(faults))
    return spec


def _fault(file: str, root: yaml.Node, loc: Sequence[int | str], kind: str, message: str) -> str:
    place = ".".join(str(part) for part in loc if part != "[key]")
    where = f"{file}:{_line(root, loc)}: "
    if kind == "extra_forbidden":
        return f"{where}{place} is not known{_nearest(str(loc[-1]), _fields_at(loc[:-1]))}"
    if kind == "missing":
        return f"{where}{place} is missing."
    return f"{where}{place + ': ' if place else ''}{message.removeprefix('Value error, ')}"


def _unknown_feed(file: str, root: yaml.Node, feed: FeedSpec, sources: Mapping[str, Collection[str]]) -> Iterator[str]:
    for what, name, known in (("source", feed.source, sources), ("name", feed.name, sources.get(feed.source))):
        if known is not None and name not in known:
            line = _line(root, ("feed", what))
            yield f"{file}:{line}: feed.{what} {name!r} is not known{_nearest(name, known)}"


def _unfollowable(file: Path, spec: TableSpec, specs: Mapping[str, TableSpec]) -> Iterator[str]:
    if spec.changes_of is None:
        return
    root = yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    followed = specs.get(spec.changes_of.table)
    if followed is None:
        line = _line(root, ("changes_of", "table"))
        name = spec.changes_of.table
        yield f"{file.name}:{line}: changes_of.table {name!r} is not specified{_nearest(name, specs)}"
        return
    for column in spec.changes_of.while_null:
        if column not in followed.columns:
            line, hint = _line(root, ("changes_of", "while_null")), _nearest(column, followed.columns)
            what = f"changes_of.while_null names {column!r}, no column of {followed.identifier}"
            yield f"{file.name}:{line}: {what}{hint}"
    if followed.options.get("changelog-producer", "none") == "none":
        line = _line(root, ("changes_of", "table"))
        yield (
            f"{file.name}:{line}: changes_of.table {followed.identifier} keeps no changelog: "
            "set its option changelog-producer."
        )


def _fields_at(loc: Sequence[int | str]) -> Mapping[str, Any]:
    """Return the fields of the model that a fault lies in."""
    match loc:
        case ["feed", *_]:
            return FeedSpec.model_fields
        case ["changes_of", *_]:
            return ChangesSpec.model_fields
        case ["maintenance", *_]:
            return MaintenanceSpec.model_fields
        case ["columns", _, *_]:
            return ColumnSpec.model_fields
        case _:
            return TableSpec.model_fields


def _nearest(name: str, known: Collection[str]) -> str:
    matches = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {matches[0]!r}?" if matches else f"; there are {', '.join(known)}."


def _line(root: yaml.Node, loc: Sequence[int | str]) -> int:
    """Return the line (from 1) of the deepest part of `loc` that the text has."""
    node, line = root, root.start_mark.line
    for part in loc:
        found = None
        if isinstance(node, yaml.MappingNode):
            found = next(((key, value) for key, value in node.value if key.value == str(part)), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            found = (node.value[part], node.value[part])
        if found is None:
            break
        line, node = found[0].start_mark.line, found[1]
    return int(line) + 1


def _duplicates(node: yaml.Node) -> Iterator[tuple[int, str]]:
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen:
                yield key.start_mark.line + 1, key.value
            seen.add(key.value)
            yield from _duplicates(value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _duplicates(item)
