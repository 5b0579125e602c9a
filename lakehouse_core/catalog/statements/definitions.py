"""CREATE, ALTER, DROP: statements about databases and tables, by the verbs of the catalog."""

from collections.abc import Iterable
from typing import TypeAlias

import pyarrow as pa

from lakehouse_core.api.answer import Answer, answer_of
from lakehouse_core.catalog.statements.inserts import renamed_rows
from lakehouse_core.catalog.statements.names import StatementCall
from lakehouse_core.catalog.statements.queries import engine_query, plan_query
from lakehouse_core.catalog.statements.tags import change_tag
from lakehouse_core.errors import InvalidRequest, LakehouseError, shown
from lakehouse_core.format.data_types import field_from_arrow
from lakehouse_core.planning.alter.schema_change import RemoveOption, SchemaChange, UpdateColumnComment
from lakehouse_core.planning.sql.statement import (
    AlterDatabase,
    AlterTable,
    ChangeTag,
    CommentColumn,
    CreateDatabase,
    CreateTable,
    DropDatabase,
    DropTable,
    RenameTable,
)
from lakehouse_core.planning.sql.tokens import Name

Definition: TypeAlias = (
    CreateTable
    | CreateDatabase
    | AlterDatabase
    | DropTable
    | DropDatabase
    | AlterTable
    | RenameTable
    | CommentColumn
    | ChangeTag
)


def define(call: StatementCall, statement: Definition) -> Answer:
    """Carry out a statement about a database, a table, a column or a tag. Raises the errors of its verb."""
    match statement:
        case CreateTable():
            return create_table(call, statement)
        case CreateDatabase():
            return create_database(call, statement)
        case AlterDatabase():
            return alter_database(call, statement)
        case DropTable():
            return drop_table(call, statement)
        case DropDatabase():
            return drop_database(call, statement)
        case AlterTable():
            return alter_table(call, statement)
        case RenameTable():
            return rename_table(call, statement)
        case CommentColumn():
            return comment_column(call, statement)
        case ChangeTag():
            return change_tag(call, statement)


def create_database(call: StatementCall, statement: CreateDatabase) -> Answer:
    name = _one_part(call, statement.name)
    with call.placed(statement.name):
        call.catalog.create_database(name, properties=dict(statement.properties) or None, exist_ok=statement.exist_ok)
    return _done(call)


def alter_database(call: StatementCall, statement: AlterDatabase) -> Answer:
    with call.placed(statement.name):
        call.catalog.alter_database(call.database_name(statement.name), dict(statement.properties))
    return _done(call)


def drop_database(call: StatementCall, statement: DropDatabase) -> Answer:
    name = call.database_name(statement.name)
    with call.placed(statement.name):
        call.catalog.drop_database(name, cascade=statement.cascade, missing_ok=statement.missing_ok)
    return _done(call)


def create_table(call: StatementCall, statement: CreateTable) -> Answer:
    """Create a table; with a query write its rows. A table whose rows cannot be written is dropped again."""
    name = call.new_table(statement.name)
    database, _, table = name.partition(".")
    if statement.exist_ok and database in call.catalog.databases() and table in call.catalog.tables(database):
        return _done(call)
    found = None
    fields = list(statement.columns)
    if statement.query is not None:
        found = engine_query(plan_query(call, statement.query), call)
        fields = [field_from_arrow(each) for each in found.schema]
    names = [*(field.name for field in fields), *statement.partition_keys, *statement.primary_keys, *statement.options]
    with call.placed(statement.name, names):
        created = call.catalog.create_table(
            name,
            fields,
            partition_keys=statement.partition_keys,
            primary_keys=statement.primary_keys,
            options=statement.options,
            comment=statement.comment,
            nullable=found is not None,
        )
    if found is None:
        return _done(call)
    try:
        report = created.write(renamed_rows(call, found, created.schema.fields, {}))
    except LakehouseError:
        call.catalog.drop_table(name, missing_ok=True)
        raise
    return answer_of(call.sql.text, pa.table({}), [report])


def drop_table(call: StatementCall, statement: DropTable) -> Answer:
    with call.placed(statement.name):
        call.catalog.drop_table(call.table(statement.name), missing_ok=statement.missing_ok)
    return _done(call)


def alter_table(call: StatementCall, statement: AlterTable) -> Answer:
    with call.placed(statement.name, _words(statement.changes)):
        table = call.catalog.table(call.table(statement.name))
        options = table.schema.options
        for key in statement.known_options:
            if key not in options:
                raise InvalidRequest(
                    f"{table.name}: property {shown(key)} is not set. Write UNSET TBLPROPERTIES IF EXISTS."
                )
        unset = {one for one in statement.changes if isinstance(one, RemoveOption) and one.key not in options}
        changes = [one for one in statement.changes if one not in unset]
        return answer_of(call.sql.text, pa.table({}), [table.alter(*changes)] if changes else ())


def _words(changes: Iterable[SchemaChange]) -> set[str]:
    """Return the names of columns and options that changes are about."""
    found: set[str] = set()
    for change in changes:
        for value in (getattr(change, attribute, ()) for attribute in ("name", "new_name", "key", "after")):
            found.update([value] if isinstance(value, str) else value or ())
    return found


def comment_column(call: StatementCall, statement: CommentColumn) -> Answer:
    """Change the comment of a column, or of a field inside it. A first part that is a database is one."""
    name, parts = statement.name, statement.name.parts
    has_database = len(parts) > 1 and (call.database is None or (len(parts) > 2 and call.is_database(parts[0])))
    count = 2 if has_database else 1
    if len(parts) <= count:
        raise call.sql.invalid(name.start, f"found {name}, expected table.column, or database.table.column")
    path = parts[count:]
    change = UpdateColumnComment(path[0] if len(path) == 1 else path, statement.comment)
    return alter_table(call, AlterTable(name=Name(parts[:count], name.start, name.end), changes=(change,)))


def rename_table(call: StatementCall, statement: RenameTable) -> Answer:
    with call.placed(statement.name):
        source = call.table(statement.name)
        target = statement.target
        new = f"{source.partition('.')[0]}.{target.parts[0]}" if len(target.parts) == 1 else call.new_table(target)
        call.catalog.rename_table(source, new)
    return _done(call)


def _one_part(call: StatementCall, name: Name) -> str:
    if len(name.parts) > 1:
        raise call.sql.invalid(name.start, f"{name} has {len(name.parts)} parts, expected the name of a database")
    return name.parts[0]


def _done(call: StatementCall) -> Answer:
    return answer_of(call.sql.text, pa.table({}))
