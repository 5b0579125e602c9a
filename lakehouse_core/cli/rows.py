"""write, read, count, lookup, changes, diff."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import click
import pyarrow as pa

from lakehouse_core.cli.arguments import (
    COLUMNS,
    countable_argument,
    is_pattern,
    is_system,
    readable_argument,
    table_argument,
)
from lakehouse_core.cli.help import Verb
from lakehouse_core.cli.lookup_keys import lookup_key
from lakehouse_core.cli.many import on_each
from lakehouse_core.cli.options import ROW_COUNT, given_point, json_option, point_options, read_point
from lakehouse_core.cli.output import json_rows, print_json, print_report, print_rows, text_rows
from lakehouse_core.cli.row_options import Output, csv_options, output_options, row_format
from lakehouse_core.cli.row_output import open_sink
from lakehouse_core.cli.session import is_json, open_catalog, open_table, parse_assignments, progress_bar
from lakehouse_core.errors import InvalidRequest
from lakehouse_core.row_files.row_format import FORMATS, PIPE
from lakehouse_core.row_files.row_input import known_row_count, read_files
from lakehouse_core.table.commit_message import Missing

# The rows shown on a terminal, one or two screens; programs use --json or a file.
_SHOWN_ROWS: Final = 100


@click.command(
    "write",
    cls=Verb,
    epilog="lakehouse write sales.orders monday.parquet tuesday.csv\n"
    "zcat days.csv.gz | lakehouse write sales.orders - --format csv --delimiter ';' --null NA",
)
@table_argument
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--format", "name", type=click.Choice(FORMATS), help="The format of the files, whatever their names.")
@csv_options
@click.option("--rowkind-column", metavar="NAME", help="The column with +I, -U, +U or -D.")
@click.option("--overwrite", is_flag=True, help="Replace the rows of each partition that the files contain.")
@click.option(
    "--partition",
    multiple=True,
    metavar="K=V",
    help="With --overwrite: replace this partition. Repeat for each partition column.",
)
@click.option(
    "--where",
    metavar="SQL",
    help='With --overwrite: replace the rows for which this is true, as in "id > 7", by rows for which it is true.',
)
@click.option("--dry-run", is_flag=True, help="With --where: check and count the rows and change nothing.")
@click.option(
    "--missing",
    type=click.Choice(["null", "error"]),
    default="null",
    help="Columns that a file lacks: null (in key tables the new value is null), or error to refuse the file.",
)
@json_option
@click.pass_context
def write(
    context: click.Context,
    *,
    table: str,
    files: tuple[Path, ...],
    name: str | None,
    delimiter: str | None,
    null: str,
    rowkind_column: str | None,
    overwrite: bool,
    partition: tuple[str, ...],
    where: str | None,
    dry_run: bool,
    missing: Missing,
) -> None:
    """Write FILES to TABLE in one commit; - is standard input.

    The file name gives the format: .parquet, .csv or .tsv (with a header line), .jsonl or .ndjson, .json (an array), or
    .arrow; text formats also with .gz. Columns are matched by name. In CSV an empty field is null and "" is an empty
    text. In text formats binaries are base64.
    """
    for option, is_given in (("--partition", bool(partition)), ("--where", where is not None)):
        if is_given and not overwrite:
            raise InvalidRequest(f"{option} is given without --overwrite. Add --overwrite, or leave {option} out.")
    if dry_run and where is None:
        raise InvalidRequest("--dry-run is given without --where. Add --where, or leave --dry-run out.")
    if overwrite and rowkind_column is not None:
        raise InvalidRequest("--overwrite and --rowkind-column are both given, expected one of them. Leave one out.")
    opened = open_table(context, table)
    form = row_format(name, delimiter, null)
    data = read_files(files, opened.schema.fields, form, rowkind_column=rowkind_column, missing=missing)
    with progress_bar(context, row_count=known_row_count(files, form)) as progress:
        if overwrite:
            report = opened.overwrite(
                data, where=where, partition=parse_assignments(partition), dry_run=dry_run, progress=progress
            )
        else:
            report = opened.write(data, rowkind_column=rowkind_column, progress=progress)
    print_report(report, as_json=is_json(context))


@click.command(
    "read",
    cls=Verb,
    epilog="lakehouse read sales.orders --columns id,amount --where \"dt >= DATE '2013-01-05'\"",
)
@readable_argument
@point_options
@click.option("--columns", type=COLUMNS, metavar="A,B", help="Only these columns.")
@click.option("--where", metavar="SQL", help='Only rows that satisfy this condition, as in "id > 10".')
@click.option("--limit", type=ROW_COUNT, metavar="N", help="At most this many rows.")
@click.option(
    "--option",
    "settings",
    multiple=True,
    metavar="K=V",
    help="A scan option, as in scan.watermark=12. May be repeated.",
)
@click.option(
    "--read-optimized",
    is_flag=True,
    help="In a key table, read the top level only: fast, without the rows since the last full compaction.",
)
@output_options
@json_option
@click.pass_context
def read(
    context: click.Context,
    *,
    table: str,
    snapshot: int | None,
    tag: str | None,
    as_of: str | None,
    columns: str | None,
    where: str | None,
    limit: int | None,
    settings: tuple[str, ...],
    read_optimized: bool,
    output: Output,
) -> None:
    """Read rows of TABLE: the latest state, or that of a snapshot, a tag or a time.

    TABLE may be a system table, such as 'sales.orders$files' or 'sales.orders$audit_log'. A system table takes
    --option, --limit and -o.
    """
    point = given_point(snapshot, tag, as_of)
    options = _settings(settings)
    if is_system(table):
        if point is not None or columns is not None or where is not None or read_optimized:
            raise InvalidRequest(
                f"{table}: a system table takes only --option, --limit and -o. Leave the other options out."
            )
        system = open_catalog(context).system_table(table, options=options)
        put_rows(system.to_batches(), system.schema(), limit=limit, output=output, context=context)
        return
    scan = open_table(context, table).scan(
        columns=None if columns is None else [name.strip() for name in columns.split(",")],
        where=where,
        at=point,
        # One more than is shown tells that there are more.
        limit=_SHOWN_ROWS + 1 if limit is None and is_shown(context, output) else limit,
        read_optimized=read_optimized,
        options=options,
    )
    put_rows(scan.to_batches(), scan.schema(), limit=limit, output=output, context=context)


@click.command("count", cls=Verb, epilog="lakehouse count sales.orders --where 'amount > 10'")
@countable_argument
@point_options
@click.option("--where", metavar="SQL", help='Only rows that satisfy this condition, as in "id > 10".')
@json_option
@click.pass_context
def count(
    context: click.Context,
    *,
    table: str,
    snapshot: int | None,
    tag: str | None,
    as_of: str | None,
    where: str | None,
) -> int:
    """Count the rows of TABLE, or of each table that matches a pattern such as 'sales.*'.

    TABLE may be a system table, as in 'sales.orders$files', without options.
    """
    point = given_point(snapshot, tag, as_of)

    def tell(name: str, rows: int) -> None:
        if is_json(context):
            print_json({"table": name, "rows": rows})
        else:
            click.echo(f"{name}: {rows}" if is_pattern(table) else str(rows))

    if is_system(table) and not is_pattern(table):
        if point is not None or where is not None:
            raise InvalidRequest(f"{table}: count takes no options for a system table. Leave them out.")
        system = open_catalog(context).system_table(table)
        tell(table, sum(batch.num_rows for batch in system.to_batches()))
        return 0
    return on_each(context, table, lambda opened: tell(opened.name, opened.scan(where=where, at=point).count()))


@click.command(
    "lookup", cls=Verb, epilog='lakehouse lookup sales.orders dt=2013-01-05,id=7 \'{"dt":"2013-01-06","id":8}\''
)
@table_argument
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@point_options
@click.option("--columns", type=COLUMNS, metavar="A,B", help="Only these columns.")
@click.option(
    "--cache",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Keep local copies of data files in this directory for later lookups.",
)
@output_options
@json_option
@click.pass_context
def lookup(
    context: click.Context,
    *,
    table: str,
    keys: tuple[str, ...],
    snapshot: int | None,
    tag: str | None,
    as_of: str | None,
    columns: str | None,
    cache: Path | None,
    output: Output,
) -> None:
    """Look up rows of TABLE by their primary keys, in the order of the keys.

    KEY is column=value[,column=value], a JSON object, or for a key of one column the value alone. An absent key has no
    row.
    """
    opened = open_table(context, table)
    schema = opened.schema
    columns_of = [field.name for field in schema.fields]
    found = opened.lookup(
        # A table without a key is refused by the verb.
        [lookup_key(text, schema.primary_keys, columns_of) if schema.primary_keys else {} for text in keys],
        columns=None if columns is None else [name.strip() for name in columns.split(",")],
        at=read_point(snapshot, tag, as_of),
        cache=cache,
    )
    put_rows(found.to_batches(), found.schema, limit=found.num_rows, output=output, context=context)


@click.command("changes", cls=Verb, epilog="lakehouse changes sales.orders --after 12 --until 15")
@table_argument
@click.option(
    "--after", type=int, required=True, metavar="N", help="Changes of the snapshots after this one; 0 for all."
)
@click.option("--until", type=int, metavar="M", help="The last snapshot of the range. Default: the latest.")
@click.option("--limit", type=ROW_COUNT, metavar="N", help="At most this many rows.")
@output_options
@json_option
@click.pass_context
def changes(
    context: click.Context, *, table: str, after: int, until: int | None, limit: int | None, output: Output
) -> None:
    """Read the changes of TABLE in the snapshots after N. The first column is the row kind."""
    found = open_table(context, table).changes(after, until)
    put_rows(found.to_batches(), found.schema(), limit=limit, output=output, context=context)


@click.command("diff", cls=Verb, epilog="lakehouse diff sales.orders --after 12 --until 15")
@table_argument
@click.option("--after", required=True, metavar="N", help="The earlier snapshot, or the earlier tag.")
@click.option("--until", required=True, metavar="M", help="The later snapshot, or the later tag.")
@click.option("--limit", type=ROW_COUNT, metavar="N", help="At most this many rows.")
@output_options
@json_option
@click.pass_context
def diff(context: click.Context, *, table: str, after: str, until: str, limit: int | None, output: Output) -> None:
    """Read the difference between two states of TABLE. The first column is the row kind; -D marks a removed row."""
    opened = open_table(context, table)
    ids = after.isdecimal() and until.isdecimal() and not {after, until} <= {tag.name for tag in opened.tags()}
    found = opened.diff(int(after), int(until)) if ids else opened.diff(after, until)
    put_rows(found.to_batches(), found.schema(), limit=limit, output=output, context=context)


def _settings(texts: Iterable[str]) -> dict[str, str]:
    settings: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (equals and key):
            raise InvalidRequest(f"--option {text!r}: expected key=value, as in scan.watermark=12.")
        if key in settings:
            raise InvalidRequest(f"--option {text!r}: {key} is given twice. Give it once.")
        settings[key] = value
    return settings


def put_rows(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    *,
    limit: int | None,
    output: Output,
    context: click.Context,
) -> None:
    if output.file is not None:
        count = 0
        with open_sink(output.file, schema, output.form) as write_batch:
            for batch in _limited(batches, limit):
                write_batch(batch)
                count += batch.num_rows
        if output.file != PIPE:
            click.echo(f"{output.file}: {count} rows", err=True)
    elif is_json(context):
        for batch in _limited(batches, limit):
            for row in json_rows(batch):
                print_json(row)
    elif is_shown(context, output):
        shown = _SHOWN_ROWS if limit is None else limit
        rows = [row for batch in _limited(batches, shown + (limit is None)) for row in text_rows(batch)]
        print_rows(schema.names, rows[:shown])
        if len(rows) > shown:
            click.echo(
                f"These are the first {shown} rows; --limit N shows more, -o FILE and a pipe take all.", err=True
            )
    else:
        print_rows(schema.names, (row for batch in _limited(batches, limit) for row in text_rows(batch)))


def is_shown(context: click.Context, output: Output) -> bool:
    """Return whether rows go to a screen, where only the first ones are shown."""
    return output.file is None and not is_json(context) and sys.stdout.isatty()


def _limited(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    left = limit
    for batch in batches:
        if left is None:
            yield batch
            continue
        if left <= 0:
            return
        yield batch.slice(0, min(left, batch.num_rows))
        left -= batch.num_rows


COMMANDS: Final = {"write": write, "read": read, "count": count, "lookup": lookup, "changes": changes, "diff": diff}
