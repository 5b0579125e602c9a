"""Specifications from YAML, one file a table: adding a table is adding a file.

Rule: unknown names are refused with the nearest known one, every fault with file and line.
"""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import yaml

import lakehouse_core as lc
from lakehouse_dagster.specs.faults import checked
from lakehouse_dagster.specs.names import nearest
from lakehouse_dagster.specs.sources import FeedSpec
from lakehouse_dagster.specs.strict import Misfit
from lakehouse_dagster.specs.table import TableSpec


class _Loader(yaml.SafeLoader):
    """Reads YAML, and tells the line of a date that the calendar lacks."""

    def time(self, node: yaml.ScalarNode) -> Any:
        try:
            return self.construct_yaml_timestamp(node)
        except ValueError as error:
            told = f"found {node.value}, expected a date ({error})"
            raise yaml.MarkedYAMLError(problem=told, problem_mark=node.start_mark) from error


_Loader.add_constructor("tag:yaml.org,2002:timestamp", _Loader.time)


def load_specs(
    folder: Path | str, sources: Mapping[str, Collection[str]] | None = None, *, root: Path | None = None
) -> tuple[TableSpec, ...]:
    """Read every `*.yaml` in `folder`, ordered by table name: `load_specs(Path(__file__).parent / "tables")`.

    `sources` names the feeds of each source: `{"shop": ["orders"]}`; with it a specification with another feed is
    refused. The page of a table shows its file relative to `root`, by default the parent of `folder`.

    Raises NotFound when the folder does not exist, and InvalidRequest with all faults of all files, each with file and
    line.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise lc.NotFound(f"{folder}: the folder of table specifications does not exist. Make it, or name another.")
    specs: dict[str, TableSpec] = {}
    files: dict[str, Path] = {}
    faults: list[str] = []
    faults += [
        f"{file.name}: a specification is in a file whose name ends with .yaml. Rename the file, or move it elsewhere."
        for file in sorted(folder.glob("*.yml"))
    ]
    for file in sorted(folder.glob("*.yaml")):
        try:
            spec = parse_spec(file.read_text(encoding="utf-8"), file.name, sources)
        except lc.InvalidRequest as error:
            faults += error.args
            continue
        if spec.identifier in specs:
            node = yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
            assert node is not None
            where = f"{file.name}:{line_of(node, ('name',))}"
            faults.append(f"{where}: {spec.identifier} is specified in {files[spec.identifier].name} too. Keep one.")
        shown = PurePath(os.path.relpath(file.absolute(), root or folder.absolute().parent))
        specs[spec.identifier], files[spec.identifier] = spec.read_from(shown.as_posix(), folder.absolute()), file
    faults += [fault for name, spec in specs.items() for fault in _unfollowable(files[name], spec, specs)]
    if faults:
        raise lc.InvalidRequest(*faults)
    return tuple(specs[name] for name in sorted(specs))


def parse_spec(text: str, file: str, sources: Mapping[str, Collection[str]] | None = None) -> TableSpec:
    """Return the specification in `text`; `file` is its name in messages. Without `sources` every feed name is
    accepted.

    Raises InvalidRequest with one line for each fault.
    """
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        content = yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise lc.InvalidRequest(f"{file}:{line}: not YAML: {error.problem}.") from error
    if not isinstance(root, yaml.MappingNode):
        raise lc.InvalidRequest(f"{file}:1: expected a mapping of {', '.join(TableSpec.model_fields)}.")
    faults = [f"{file}:{line}: {name} is given twice. Keep one." for line, name in _duplicates(root)]
    try:
        spec = checked_spec(content, file, root)
    except lc.InvalidRequest as error:
        raise lc.InvalidRequest(*faults, *error.args) from error
    if sources is not None and spec.feed is not None:
        faults += _unknown_feed(file, root, spec.feed, sources)
    if faults:
        raise lc.InvalidRequest(*faults)
    return spec


def checked_spec(content: object, file: str, root: yaml.Node) -> TableSpec:
    """Return the specification of `content`, which `root` shows in the text of `file`.

    Raises InvalidRequest with one line for each fault.
    """
    spec, faults = checked(content)
    if spec is None:
        told = sorted((line_of(root, fault.place), _sentence(fault)) for fault in faults)
        raise lc.InvalidRequest(*(f"{file}:{line}: {text}" for line, text in told))
    return spec


def _sentence(fault: Misfit) -> str:
    told = str(fault)
    return told if told.endswith((".", "?")) else f"{told}."


def misfit_error(spec: TableSpec, fault: Misfit) -> lc.InvalidRequest:
    """Return a fault of a specification as an error that names the file and line, or the table without a file."""
    where = spec.identifier
    if spec.path is not None and spec.path.is_file():
        root = node_of(spec.path, spec.database, spec.name)
        where = f"{spec.file}:{line_of(root, fault.place)}"
    return lc.InvalidRequest(f"{where}: {_sentence(fault)}")


def node_of(file: Path, database: str, name: str, *, place: int | None = None) -> yaml.Node:
    """Return a specification as it stands in a file: a document of its own, or the attributes of a component, of which
    the file may have several. `place`: the number of its document, where that is known; else the first one of its name.
    """
    found: list[yaml.Node] = []
    for number, document in enumerate(yaml.compose_all(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)):
        node = _child(document, "attributes") or document
        values = [_child(node, each) for each in ("database", "name")]
        if [each.value for each in values if each is not None] == [database, name]:
            if number == place:
                return node
            found.append(node)
    return found[0] if found else yaml.MappingNode("tag:yaml.org,2002:map", [], yaml.Mark(str(file), 0, 0, 0, None, 0))


def _child(node: yaml.Node | None, name: str) -> yaml.Node | None:
    found = (value for key, value in node.value if key.value == name) if isinstance(node, yaml.MappingNode) else ()
    return next(iter(found), None)


def _unknown_feed(file: str, root: yaml.Node, feed: FeedSpec, sources: Mapping[str, Collection[str]]) -> Iterator[str]:
    for what, name, known in (("source", feed.source, sources), ("name", feed.name, sources.get(feed.source))):
        if known is not None and name not in known:
            line = line_of(root, ("feed", what))
            yield f"{file}:{line}: feed.{what} {name!r} is not known{nearest(name, known)}"


def _unfollowable(file: Path, spec: TableSpec, specs: Mapping[str, TableSpec]) -> Iterator[str]:
    if spec.changes_of is None:
        return
    root = yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    assert root is not None
    followed = specs.get(spec.changes_of.table)
    if followed is None:
        line = line_of(root, ("changes_of", "table"))
        name = spec.changes_of.table
        yield f"{file.name}:{line}: changes_of.table {name!r} is not specified{nearest(name, specs)}"
        return
    for column in spec.changes_of.while_null:
        if column not in followed.columns:
            line, hint = line_of(root, ("changes_of", "while_null")), nearest(column, followed.columns)
            what = f"changes_of.while_null names {column!r}, no column of {followed.identifier}"
            yield f"{file.name}:{line}: {what}{hint}"
    if followed.options.get("changelog-producer", "none") == "none":
        line = line_of(root, ("changes_of", "table"))
        yield (
            f"{file.name}:{line}: changes_of.table {followed.identifier} has no changelog. Set its option "
            "changelog-producer."
        )


def line_of(root: yaml.Node, loc: Sequence[int | str]) -> int:
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
