"""snapshots, partitions, files, manifests, tags, schemas: what a table consists of."""

from typing import Final

import click

from lakehouse_core.cli.arguments import table_argument
from lakehouse_core.cli.help import Verb
from lakehouse_core.cli.options import json_option, point_options, read_point
from lakehouse_core.cli.output import print_records
from lakehouse_core.cli.session import is_json, open_table


@click.command("snapshots", cls=Verb, epilog="lakehouse snapshots sales.orders")
@table_argument
@json_option
@click.pass_context
def snapshots(context: click.Context, *, table: str) -> None:
    """List the snapshots of TABLE, oldest first."""
    columns = ["id", "commit_kind", "time_millis", "schema_id", "total_record_count", "delta_record_count"]
    print_records(open_table(context, table).snapshots(), [*columns, "commit_user"], as_json=is_json(context))


@click.command("partitions", cls=Verb, epilog="lakehouse partitions sales.orders --tag eod")
@table_argument
@point_options
@json_option
@click.pass_context
def partitions(context: click.Context, *, table: str, snapshot: int | None, tag: str | None, as_of: str | None) -> None:
    """List the partitions of TABLE with the rows and bytes of their files."""
    columns = ["partition", "row_count", "file_count", "file_size", "last_update_time_millis"]
    found = open_table(context, table).partitions(at=read_point(snapshot, tag, as_of))
    print_records(found, columns, as_json=is_json(context))


@click.command("files", cls=Verb, epilog="lakehouse files sales.orders --tag eod")
@table_argument
@point_options
@click.option("--stats", is_flag=True, help="With the bounds and null counts of columns (shown by --json).")
@json_option
@click.pass_context
def files(
    context: click.Context, *, table: str, snapshot: int | None, tag: str | None, as_of: str | None, stats: bool
) -> None:
    """List the live data files of TABLE."""
    columns = ["partition", "bucket", "level", "file_name", "row_count", "file_size", "min_key", "max_key"]
    found = open_table(context, table).files(at=read_point(snapshot, tag, as_of), stats=stats)
    print_records(found, columns, as_json=is_json(context))


@click.command("manifests", cls=Verb, epilog="lakehouse manifests sales.orders --snapshot 12")
@table_argument
@point_options
@json_option
@click.pass_context
def manifests(context: click.Context, *, table: str, snapshot: int | None, tag: str | None, as_of: str | None) -> None:
    """List the manifests of TABLE."""
    columns = ["file_name", "list", "file_size", "num_added_files", "num_deleted_files", "min_partition"]
    found = open_table(context, table).manifests(at=read_point(snapshot, tag, as_of))
    print_records(found, [*columns, "max_partition"], as_json=is_json(context))


@click.command("tags", cls=Verb, epilog="lakehouse tags sales.orders")
@table_argument
@json_option
@click.pass_context
def tags(context: click.Context, *, table: str) -> None:
    """List the tags of TABLE."""
    print_tags(context, table)


def print_tags(context: click.Context, table: str) -> None:
    """Print the tags of a table."""
    columns = ["name", "snapshot_id", "time_millis", "total_record_count", "time_retained_millis"]
    print_records(open_table(context, table).tags(), columns, as_json=is_json(context))


@click.command("schemas", cls=Verb, epilog="lakehouse schemas sales.orders --json")
@table_argument
@json_option
@click.pass_context
def schemas(context: click.Context, *, table: str) -> None:
    """List the versions of the schema of TABLE."""
    columns = ["id", "time_millis", "primary_keys", "partition_keys", "fields", "options"]
    print_records(open_table(context, table).schemas(), columns, as_json=is_json(context))


COMMANDS: Final = {
    "snapshots": snapshots,
    "partitions": partitions,
    "files": files,
    "manifests": manifests,
    "tags": tags,
    "schemas": schemas,
}
