"""compact, compact-manifests, rescale, rewrite-file-index, expire, tag, rollback, orphans, verify."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, TypeVar

import click

from lakehouse_core.api.reports import Report
from lakehouse_core.api.table import Table
from lakehouse_core.cli.arguments import TAG, table_argument, tables_argument
from lakehouse_core.cli.help import Verb, VerbGroup
from lakehouse_core.cli.many import on_each
from lakehouse_core.cli.options import AGE, json_option, rollback_point
from lakehouse_core.cli.output import print_report
from lakehouse_core.cli.records import print_tags
from lakehouse_core.cli.session import is_json, open_table, parse_assignments, progress_bar

F = TypeVar("F", bound=Callable[..., Any])

_DRY_RUN: Final = click.option("--dry-run", is_flag=True, help="Print the plan and change nothing.")


@click.command(
    "compact",
    cls=Verb,
    epilog="lakehouse compact sales.orders --full --partition dt=2013-01-01\n"
    "lakehouse compact 'sales.*' --partition-idle 1h",
)
@tables_argument
@click.option(
    "--full", is_flag=True, help="Rewrite every bucket into its top level, not only the files that the strategy picks."
)
@click.option(
    "--partition", multiple=True, metavar="K=V", help="Only this partition. Repeat for each partition column."
)
@click.option(
    "--bucket", "buckets", type=int, multiple=True, metavar="N", help="Only this bucket. Repeat for more of them."
)
@click.option("--partition-idle", type=AGE, help="Only partitions without a new file for this time, as in 1h.")
@_DRY_RUN
@json_option
@click.pass_context
def compact(
    context: click.Context,
    *,
    table: str,
    full: bool,
    partition: tuple[str, ...],
    buckets: tuple[int, ...],
    partition_idle: timedelta | None,
    dry_run: bool,
) -> int:
    """Rewrite the files of TABLE, or of all tables that match a pattern such as 'sales.*', into fewer."""
    assignments = parse_assignments(partition)

    def verb(opened: Table) -> None:
        with progress_bar(context) as progress:
            report = opened.compact(
                full=full,
                partition=assignments,
                partition_idle=partition_idle,
                buckets=buckets or None,
                dry_run=dry_run,
                progress=progress,
            )
        _told(context, report)

    return on_each(context, table, verb)


@click.command("compact-manifests", cls=Verb, epilog="lakehouse compact-manifests sales.orders")
@tables_argument
@_DRY_RUN
@json_option
@click.pass_context
def compact_manifests(context: click.Context, *, table: str, dry_run: bool) -> int:
    """Rewrite the manifests of TABLE, or of all tables that match a pattern, into few. Changes no data file."""
    return on_each(context, table, lambda opened: _told(context, opened.compact_manifests(dry_run=dry_run)))


@click.command("rescale", cls=Verb, epilog="lakehouse rescale sales.orders --buckets 8 --dry-run")
@table_argument
@click.option("--buckets", type=int, metavar="N", help="The new number of buckets; the table's option if left out.")
@click.option(
    "--partition", multiple=True, metavar="K=V", help="Only this partition. Repeat for each partition column."
)
@_DRY_RUN
@json_option
@click.pass_context
def rescale(
    context: click.Context, *, table: str, buckets: int | None, partition: tuple[str, ...], dry_run: bool
) -> None:
    """Bring TABLE to N buckets: set its option, and rewrite the partitions that have another number of them. If the
    buckets of TABLE are dynamic, rewrite them without N.
    """
    opened = open_table(context, table)
    with progress_bar(context) as progress:
        report = opened.rescale(buckets, partition=parse_assignments(partition), dry_run=dry_run, progress=progress)
    _told(context, report)


@click.command(
    "rewrite-file-index", cls=Verb, epilog="lakehouse rewrite-file-index sales.orders --partition dt=2013-01-05"
)
@tables_argument
@click.option(
    "--partition", multiple=True, metavar="K=V", help="Only this partition. Repeat for each partition column."
)
@_DRY_RUN
@json_option
@click.pass_context
def rewrite_file_index(context: click.Context, *, table: str, partition: tuple[str, ...], dry_run: bool) -> int:
    """Give the files of TABLE, or of all tables that match a pattern, the indexes that the options file-index.… ask
    for. Rewrites no data file.
    """
    assignments = parse_assignments(partition)

    def verb(opened: Table) -> None:
        with progress_bar(context) as progress:
            report = opened.rewrite_file_index(partition=assignments, dry_run=dry_run, progress=progress)
        _told(context, report)

    return on_each(context, table, verb)


@click.command("expire", cls=Verb, epilog="lakehouse expire sales.orders --retain-max 20 --older-than 7d --dry-run")
@tables_argument
@click.option(
    "--retain-max",
    type=int,
    metavar="N",
    help="Keep at most this many snapshots. Without --retain-min it also lowers the table's minimum.",
)
@click.option(
    "--retain-min",
    type=int,
    metavar="N",
    help="Keep at least this many snapshots. Default: the table's option.",
)
@click.option("--older-than", type=AGE, help="Keep snapshots younger than this, as in 1h or 7d.")
@_DRY_RUN
@json_option
@click.pass_context
def expire(
    context: click.Context,
    *,
    table: str,
    retain_max: int | None,
    retain_min: int | None,
    older_than: timedelta | None,
    dry_run: bool,
) -> int:
    """Expire old snapshots of TABLE, or of all tables that match a pattern, and delete files that only they need."""

    def verb(opened: Table) -> None:
        with progress_bar(context) as progress:
            report = opened.expire_snapshots(
                retain_max=retain_max, retain_min=retain_min, older_than=older_than, dry_run=dry_run, progress=progress
            )
        _told(context, report)

    return on_each(context, table, verb)


@click.group("tag", cls=VerbGroup, epilog="lakehouse tag create sales.orders eod")
def tag() -> None:
    """Create, replace, rename, delete, expire and list tags."""


def _tag_options(command: F) -> F:
    """Take --snapshot and --retention."""
    command = click.option(
        "--retention", type=AGE, help="How long the tag stays, as in 30d. Default: until it is deleted."
    )(command)
    return click.option(
        "--snapshot", type=int, metavar="N", help="The snapshot that the tag names. Default: the latest."
    )(command)


@tag.command("create", epilog="lakehouse tag create sales.orders eod --snapshot 12 --retention 30d")
@tables_argument
@click.argument("name")
@_tag_options
@_DRY_RUN
@json_option
@click.pass_context
def create_tag(
    context: click.Context, *, table: str, name: str, snapshot: int | None, retention: timedelta | None, dry_run: bool
) -> int:
    """Name a snapshot of TABLE, or of all tables that match a pattern, and keep its files."""
    return on_each(
        context,
        table,
        lambda opened: _told(context, opened.create_tag(name, at=snapshot, retention=retention, dry_run=dry_run)),
    )


@tag.command("delete", epilog="lakehouse tag delete sales.orders eod")
@tables_argument
@click.argument("name", type=TAG)
@_DRY_RUN
@json_option
@click.pass_context
def delete_tag(context: click.Context, *, table: str, name: str, dry_run: bool) -> int:
    """Delete a tag of TABLE, or of all tables that match a pattern, and the files that only the tag keeps."""
    return on_each(context, table, lambda opened: _told(context, opened.delete_tag(name, dry_run=dry_run)))


@tag.command("replace", epilog="lakehouse tag replace sales.orders eod --snapshot 12")
@tables_argument
@click.argument("name", type=TAG)
@_tag_options
@_DRY_RUN
@json_option
@click.pass_context
def replace_tag(
    context: click.Context, *, table: str, name: str, snapshot: int | None, retention: timedelta | None, dry_run: bool
) -> int:
    """Let a tag of TABLE, or of all tables that match a pattern, name another snapshot."""
    return on_each(
        context,
        table,
        lambda opened: _told(context, opened.replace_tag(name, at=snapshot, retention=retention, dry_run=dry_run)),
    )


@tag.command("rename", epilog="lakehouse tag rename sales.orders eod eod-2013")
@tables_argument
@click.argument("name", type=TAG)
@click.argument("new_name", metavar="NEW")
@_DRY_RUN
@json_option
@click.pass_context
def rename_tag(context: click.Context, *, table: str, name: str, new_name: str, dry_run: bool) -> int:
    """Give a tag of TABLE, or of all tables that match a pattern, the name NEW."""
    return on_each(context, table, lambda opened: _told(context, opened.rename_tag(name, new_name, dry_run=dry_run)))


@tag.command("expire", epilog="lakehouse tag expire sales.orders --older-than 30d")
@tables_argument
@click.option("--older-than", type=AGE, help="Also delete tags that are older than this, as in 30d.")
@_DRY_RUN
@json_option
@click.pass_context
def expire_tags(context: click.Context, *, table: str, older_than: timedelta | None, dry_run: bool) -> int:
    """Delete the tags of TABLE, or of all tables that match a pattern, whose retention is over."""
    return on_each(
        context, table, lambda opened: _told(context, opened.expire_tags(older_than=older_than, dry_run=dry_run))
    )


@tag.command("list", epilog="lakehouse tag list sales.orders")
@table_argument
@json_option
@click.pass_context
def list_tags(context: click.Context, *, table: str) -> None:
    """List the tags of TABLE, as the verb tags does."""
    print_tags(context, table)


@click.command("rollback", cls=Verb, epilog="lakehouse rollback sales.orders --to 12 --dry-run")
@table_argument
@click.option(
    "--to",
    required=True,
    metavar="N|TAG|TIME",
    help="The id of a snapshot, the name of a tag, or a time, as in 2013-01-31T12:00:00Z.",
)
@_DRY_RUN
@json_option
@click.pass_context
def rollback(context: click.Context, *, table: str, to: str, dry_run: bool) -> None:
    """Make a snapshot of TABLE with the rows of an earlier one. The snapshots in between stay."""
    opened = open_table(context, table)
    _told(context, opened.rollback_to(rollback_point(to, {tag.name for tag in opened.tags()}), dry_run=dry_run))


@click.command("orphans", cls=Verb, epilog="lakehouse orphans sales.orders --older-than 3d --apply")
@tables_argument
@click.option(
    "--older-than", type=AGE, default="1d", show_default=True, help="Only files that are older than this, at least 1h."
)
@click.option("--apply", is_flag=True, help="Delete them. Default: print the plan and change nothing.")
@json_option
@click.pass_context
def orphans(context: click.Context, *, table: str, older_than: timedelta, apply: bool) -> int:
    """Find the files that nothing names in TABLE, or in all tables that match a pattern, and delete them if told to."""

    def verb(opened: Table) -> None:
        with progress_bar(context) as progress:
            report = opened.remove_orphans(older_than=older_than, dry_run=not apply, progress=progress)
        _told(context, report)

    return on_each(context, table, verb)


@click.command("verify", cls=Verb, epilog="lakehouse verify sales.orders")
@tables_argument
@click.option("--data", is_flag=True, help="Also decode every data file, page by page.")
@json_option
@click.pass_context
def verify(context: click.Context, *, table: str, data: bool) -> int:
    """Check the metadata and files of TABLE, or of all tables that match a pattern.

    The exit code is 1 for a finding.
    """

    def verb(opened: Table) -> int:
        with progress_bar(context) as progress:
            report = opened.verify(data=data, progress=progress)
        _told(context, report)
        return 1 if report.findings else 0

    return on_each(context, table, verb)


def _told(context: click.Context, report: Report) -> None:
    print_report(report, as_json=is_json(context))


COMMANDS: Final = {
    "compact": compact,
    "compact-manifests": compact_manifests,
    "rescale": rescale,
    "rewrite-file-index": rewrite_file_index,
    "expire": expire,
    "tag": tag,
    "rollback": rollback,
    "orphans": orphans,
    "verify": verify,
}
