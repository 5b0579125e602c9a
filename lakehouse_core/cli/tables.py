"""tables, describe, create, rename, drop."""

import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click
import yaml

from lakehouse_core.api.table import Table
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.catalog.names import level_hint
from lakehouse_core.cli.arguments import table_argument
from lakehouse_core.cli.help import Verb
from lakehouse_core.cli.many import matching
from lakehouse_core.cli.options import json_option
from lakehouse_core.cli.output import print_json, print_rows
from lakehouse_core.cli.session import is_json, open_catalog, open_table
from lakehouse_core.errors import InvalidRequest, LakehouseError, NotFound, UnsupportedFeature, near_hint
from lakehouse_core.format.data_types import UNASSIGNED, DataField, parse_type, type_to_sql

# A table's specification in a pipeline says more than the table needs; the rest is for the pipeline.
_OF_THE_PIPELINE: Final = frozenset(
    {"database", "name", "write_mode", "feed", "tag_batches", "maintenance", "owners", "tags"}
)
_OF_THE_TABLE: Final = ("columns", "primary_key", "partition_by", "options", "comment")
# A pipeline's word for the comment is `description`.
_OF_A_COLUMN: Final = ("type", "comment", "description")


@click.command("tables", cls=Verb, epilog="lakehouse -w warehouse tables\nlakehouse -w warehouse tables 'sales.*'")
@click.argument("pattern", required=False)
@click.option(
    "--check", is_flag=True, help="List what is wrong instead: names without files, and files without a name."
)
@json_option
@click.pass_context
def tables(context: click.Context, *, pattern: str | None, check: bool) -> int:
    """List the tables of the warehouse, or those that match PATTERN.

    With --check the exit code is 1 if anything is wrong.
    """
    catalog = open_catalog(context)
    if check:
        if pattern is not None:
            raise InvalidRequest("--check looks at all tables. Leave the pattern out.")
        found = catalog.check()
        for sentence in found:
            if is_json(context):
                print_json({"finding": sentence})
            else:
                click.echo(sentence)
        return 1 if found else 0
    if pattern is None:
        names = [f"{database}.{name}" for database in catalog.databases() for name in catalog.tables(database)]
    else:
        names = matching(catalog, pattern)
    if is_json(context):
        for name in names:
            print_json({"table": name})
    elif names:
        click.echo("\n".join(names))
    else:
        click.echo(f"{catalog.uri} has no tables.{level_hint(catalog.uri)}", err=True)
    return 0


@click.command("describe", cls=Verb, epilog="lakehouse describe sales.orders")
@table_argument
@json_option
@click.pass_context
def describe(context: click.Context, *, table: str) -> None:
    """Show the columns, keys, options and latest snapshot of TABLE."""
    found = open_table(context, table)
    document = _description(found)
    if is_json(context):
        print_json(document)
        return
    columns = document.pop("columns")
    for name, value in document.items():
        if value not in (None, [], {}):
            click.echo(f"{name.replace('_', ' ')}:{_text(value)}")
    click.echo()
    print_rows(
        ["column", "type", "default", "comment"],
        ([each["name"], each["type"], each["default"] or "", each["comment"] or ""] for each in columns),
    )


@click.command("create", cls=Verb, epilog="lakehouse create sales.orders --schema orders.yaml")
@table_argument
@click.option(
    "--schema", "file", required=True, type=click.Path(path_type=Path), help="The YAML file that declares the table."
)
@click.option("--exist-ok", is_flag=True, help="Accept an existing table, unchanged.")
@json_option
@click.pass_context
def create(context: click.Context, *, table: str, file: Path, exist_ok: bool) -> None:
    """Create TABLE (database.table), and its database where there is none.

    The file holds `columns` (name: SQL type), and may hold `primary_key`, `partition_by`, `options` and `comment`:

    \b
      columns: {dt: DATE NOT NULL, id: BIGINT NOT NULL, amount: "DECIMAL(12, 2)"}
      primary_key: [dt, id]
      partition_by: [dt]
      options: {bucket: 4}
    """
    declared = _read_schema(file)
    catalog = open_catalog(context, may_be_new=True)
    made, is_new = _create(catalog, table, exist_ok=exist_ok, **declared)
    if is_json(context):
        print_json(_description(made))
    else:
        click.echo(f"{made.name}: {'created' if is_new else 'exists already'} at {made.uri}")


@click.command("rename", cls=Verb, epilog="lakehouse rename sales.orders sales.orders_2013")
@table_argument
@click.argument("new", metavar="NEW")
@json_option
@click.pass_context
def rename(context: click.Context, *, table: str, new: str) -> None:
    """Rename TABLE to NEW (database.table)."""
    renamed = open_catalog(context).rename_table(table, new)
    if is_json(context):
        print_json({"table": renamed.name, "renamed_from": table})
    else:
        click.echo(f"{table}: renamed to {renamed.name}, at {renamed.uri}")


@click.command("drop", cls=Verb, epilog="lakehouse drop sales.orders")
@table_argument
@click.option("--yes", is_flag=True, help="Do not ask for confirmation. Required without a terminal.")
@json_option
@click.pass_context
def drop(context: click.Context, *, table: str, yes: bool) -> None:
    """Drop TABLE with all its files, snapshots and tags, after a confirmation."""
    catalog = open_catalog(context)
    if not yes:
        _confirm_drop(catalog, table)
    catalog.drop_table(table)
    if is_json(context):
        print_json({"table": table, "dropped": True})
    else:
        click.echo(f"{table}: dropped")


def _confirm_drop(catalog: Catalog, table: str) -> None:
    try:
        catalog.table(table)
    except NotFound:
        raise
    except LakehouseError:
        # What cannot be opened may be dropped as well.
        pass
    if sys.stdin is None or not sys.stdin.isatty():
        raise InvalidRequest(f"{table}: drop deletes all its files, snapshots and tags. Pass --yes to confirm.")
    if not click.confirm(f"Drop {table} with all its files, snapshots and tags, for good?", err=True):
        raise InvalidRequest(f"{table}: not dropped")


def _create(catalog: Catalog, name: str, *, exist_ok: bool, **declared: Any) -> tuple[Table, bool]:
    """Return the table, and whether it is new."""
    with suppress(NotFound):
        if exist_ok:
            return catalog.table(name), False
    try:
        return catalog.create_table(name, **declared), True
    except NotFound:
        # All is well but for the database, so that a table that is refused leaves no database behind.
        catalog.create_database(name.partition(".")[0], exist_ok=True)
        return catalog.create_table(name, **declared), True


def _description(table: Table) -> dict[str, Any]:
    schema, latest = table.schema, table.snapshot()
    return {
        "table": table.name,
        "location": table.uri,
        "comment": schema.comment,
        "schema_id": schema.id,
        "primary_key": list(schema.primary_keys),
        "partition_by": list(schema.partition_keys),
        "options": dict(schema.options),
        "snapshot_id": None if latest is None else latest.id,
        "records": None if latest is None else latest.total_record_count,
        "columns": [
            {
                "name": field.name,
                "type": type_to_sql(field.type),
                "default": field.default_value,
                "comment": field.description,
            }
            for field in schema.fields
        ],
    }


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return "".join(f"\n  {key} = {item}" for key, item in value.items())
    return f" {', '.join(value) if isinstance(value, list) else value}"


def _read_schema(file: Path) -> dict[str, Any]:
    try:
        document = yaml.load(file.read_text(encoding="utf-8"), _Loader)
    except OSError as error:
        raise InvalidRequest(f"{file}: cannot be read ({error.strerror or error}).") from error
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{file}: cannot be read ({error}).") from error
    except InvalidRequest as error:
        raise InvalidRequest(f"{file}: {error}") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise InvalidRequest(f"{file}: line {line}: expected YAML ({error.problem}).") from error
    except (yaml.YAMLError, ValueError) as error:
        # A date that the calendar lacks is an error of Python's.
        raise InvalidRequest(f"{file}: expected YAML ({error}).") from error
    if not isinstance(document, Mapping) or not isinstance(document.get("columns"), Mapping):
        raise InvalidRequest(f"{file}: expected a mapping with columns, as in `columns: {{id: BIGINT NOT NULL}}`.")
    faults = []
    for unknown in sorted(set(map(str, document)) - _OF_THE_PIPELINE - set(_OF_THE_TABLE)):
        hint = near_hint(unknown, _OF_THE_TABLE, f"Use {', '.join(_OF_THE_TABLE)}.", most=1)
        faults.append(f"{file}: {unknown!r} is not a key of a table. {hint}")
    options = document.get("options") or {}
    if not isinstance(options, Mapping):
        faults.append(f"{file}: options is {options!r}, expected a mapping, as in `options: {{bucket: 4}}`.")
    columns: list[DataField] = []
    for name, column in document["columns"].items():
        try:
            columns.append(_column(file, str(name), column))
        except InvalidRequest as error:
            faults += error.args
    if faults:
        raise InvalidRequest(*faults)
    return {
        "schema": columns,
        "primary_keys": _names(file, document, "primary_key"),
        "partition_keys": _names(file, document, "partition_by"),
        "options": {str(key): _option(value) for key, value in options.items()},
        "comment": document.get("comment"),
    }


class _Loader(yaml.SafeLoader):
    """YAML of which no line is lost: the plain loader keeps the last of two equal names."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [key.value for key, _ in node.value]
        for name in names:
            if names.count(name) > 1:
                raise InvalidRequest(f"found {name!r} twice in one mapping. Remove one.")
        return super().construct_mapping(node, deep)


def _column(file: Path, name: str, column: object) -> DataField:
    declared: Mapping[str, Any] = column if isinstance(column, Mapping) else {"type": column}
    if not isinstance(declared.get("type"), str):
        raise InvalidRequest(f"{file}: column {name!r} is {column!r}, expected a SQL type.")
    unknown = sorted(set(map(str, declared)) - set(_OF_A_COLUMN))
    if unknown:
        raise InvalidRequest(
            f"{file}: column {name!r}: {unknown[0]!r} is not a key of a column. Use {', '.join(_OF_A_COLUMN)}."
        )
    description = declared.get("comment", declared.get("description"))
    try:
        data_type = parse_type(declared["type"])
    except (InvalidRequest, UnsupportedFeature) as error:
        raise type(error)(f"{file}: column {name!r}: {error}") from error
    return DataField(UNASSIGNED, name, data_type, None if description is None else str(description))


def _names(file: Path, document: Mapping[str, Any], key: str) -> list[str]:
    value = document.get(key) or []
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise InvalidRequest(f"{file}: {key} is {value!r}, expected a list of column names.")
    return value


def _option(value: object) -> str:
    # YAML reads `true` as a truth value; options are texts.
    return str(value).lower() if isinstance(value, bool) else str(value)


COMMANDS: Final = {"tables": tables, "describe": describe, "create": create, "rename": rename, "drop": drop}
