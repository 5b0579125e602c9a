"""Definitions: CREATE, ALTER and DROP of databases and tables.

Rule: a clause that no value holds is refused by name and place. Source: docs/sql.md#changing-tables.
"""

from dataclasses import replace
from typing import Any

from lakehouse_core.format.data_types import UNASSIGNED, DataField, type_to_sql, with_nullable
from lakehouse_core.planning.alter.schema_change import (
    AddColumn,
    DropColumn,
    MoveColumn,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateColumnComment,
    UpdateColumnDefault,
    UpdateColumnNullability,
    UpdateColumnType,
    UpdateComment,
)
from lakehouse_core.planning.sql.clauses import (
    is_query,
    option_text,
    read_keys,
    read_names,
    read_properties,
    read_query,
)
from lakehouse_core.planning.sql.literals import read_literal, read_text
from lakehouse_core.planning.sql.row_changes import read_drop_partitions
from lakehouse_core.planning.sql.statement import (
    AlterDatabase,
    AlterTable,
    CreateDatabase,
    CreateTable,
    DropDatabase,
    DropTable,
    RenameTable,
    Statement,
)
from lakehouse_core.planning.sql.tags import is_about_tags, read_tag
from lakehouse_core.planning.sql.tokens import TokenCursor
from lakehouse_core.planning.sql.types import read_type


def read_create(cursor: TokenCursor, start: int, parameters: dict[str, Any]) -> Statement:
    if cursor.is_at("OR", "REPLACE"):
        raise cursor.sql.unsupported(cursor.start, "CREATE OR REPLACE is not carried out. Drop the table first")
    if cursor.takes_one("DATABASE", "SCHEMA", "NAMESPACE"):
        return _create_database(cursor, parameters)
    if not cursor.takes("TABLE"):
        for word in ("VIEW", "TEMPORARY", "TEMP", "GLOBAL", "FUNCTION", "EXTERNAL", "INDEX", "BRANCH", "TAG"):
            if cursor.is_at(word):
                raise cursor.sql.unsupported(cursor.start, f"CREATE {word} is not carried out by sql()")
        raise cursor.expected("TABLE or DATABASE")
    exist_ok = cursor.takes("IF", "NOT", "EXISTS")
    name = cursor.name("the name of a table")
    if cursor.is_at("LIKE"):
        raise cursor.sql.unsupported(cursor.start, "CREATE TABLE … LIKE is not carried out. Name the columns")
    columns: list[DataField] = []
    primary: tuple[str, ...] = ()
    if cursor.is_at("(") and not is_query(cursor, 1, "SELECT") and not is_query(cursor, 1, "WITH"):
        columns, primary = _columns(cursor, parameters)
    clauses = _table_clauses(cursor, parameters)
    query = None
    if cursor.takes("AS") or any(cursor.is_at(word) for word in ("SELECT", "WITH", "(")):
        if columns:
            raise cursor.sql.invalid(cursor.start, "columns and a query are both given. Leave the columns out")
        query = read_query(cursor)
    elif not columns:
        raise cursor.expected("columns in parentheses, or AS and a query")
    columns += [field for field in clauses.pop("more") if field.name not in {each.name for each in columns}]
    return CreateTable(
        name=name, exist_ok=exist_ok, columns=tuple(columns), primary_keys=primary, query=query, **clauses
    )


def _columns(cursor: TokenCursor, parameters: dict[str, Any]) -> tuple[list[DataField], tuple[str, ...]]:
    cursor.expect("(")
    columns: list[DataField] = []
    primary: tuple[str, ...] = ()
    while True:
        start = cursor.start
        named = cursor.takes("CONSTRAINT")
        if named:
            cursor.part("the name of the constraint")
        if cursor.takes("PRIMARY", "KEY"):
            if primary:
                raise cursor.sql.invalid(start, "PRIMARY KEY is given twice. Give it once")
            primary = tuple(read_names(cursor, "a column"))
            cursor.takes("NOT", "ENFORCED")
        elif named or any(cursor.is_at(word, "(") for word in ("UNIQUE", "CHECK")) or cursor.is_at("FOREIGN", "KEY"):
            raise cursor.sql.unsupported(
                start, "constraints other than PRIMARY KEY are not carried out. Leave them out"
            )
        else:
            field, is_key = _column(cursor, parameters)
            columns.append(field)
            if is_key:
                if primary:
                    raise cursor.sql.invalid(start, "PRIMARY KEY is given twice. Write PRIMARY KEY (a, b)")
                primary = (field.name,)
        if not cursor.takes(","):
            break
    cursor.expect(")")
    return columns, primary


def _column(cursor: TokenCursor, parameters: dict[str, Any]) -> tuple[DataField, bool]:
    name = cursor.part("a column")
    cursor.takes(":")
    field, is_key = DataField(UNASSIGNED, name, read_type(cursor)), False
    while True:
        if cursor.takes("NOT", "NULL"):
            field = replace(field, type=with_nullable(field.type, False))
        elif cursor.takes("COMMENT"):
            field = replace(field, description=read_text(cursor))
        elif cursor.takes("DEFAULT"):
            default = option_text(read_literal(cursor, parameters, "a literal as the default"))
            field = replace(field, default_value=default)
        elif cursor.takes("PRIMARY", "KEY"):
            is_key = True
            cursor.takes("NOT", "ENFORCED")
        elif cursor.is_at("GENERATED"):
            raise cursor.sql.unsupported(cursor.start, "generated columns are not carried out. Leave GENERATED out")
        else:
            return field, is_key


def _table_clauses(cursor: TokenCursor, parameters: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"more": []}
    value: Any
    while True:
        start = cursor.start
        if cursor.takes("USING"):
            provider = cursor.part("paimon")
            if provider.lower() not in ("paimon", "lakehouse"):
                raise cursor.sql.unsupported(start, f"USING {provider} is not carried out. Write USING paimon")
            key, value = "using", provider
        elif cursor.takes("PARTITIONED", "BY"):
            key, (value, found["more"]) = "partition_keys", _partitioned(cursor, parameters)
        elif cursor.takes("COMMENT"):
            key, value = "comment", read_text(cursor)
        elif cursor.is_at("TBLPROPERTIES") or cursor.is_at("OPTIONS"):
            cursor.skip()
            key, value = "options", read_properties(cursor)
        else:
            if cursor.is_at("WITH"):
                # As Flink gives options.
                raise cursor.sql.unsupported(
                    start, "WITH of CREATE TABLE is not carried out. Give options as TBLPROPERTIES ('key' = 'value')"
                )
            for word in ("LOCATION", "CLUSTERED", "CLUSTER", "STORED", "ROW", "SORTED"):
                if cursor.is_at(word):
                    raise cursor.sql.unsupported(start, f"{word} of CREATE TABLE is not carried out. Leave it out")
            found.pop("using", None)
            return found
        if key in found:
            raise cursor.sql.invalid(start, "a clause is given twice. Give it once")
        found[key] = value


def _partitioned(cursor: TokenCursor, parameters: dict[str, Any]) -> tuple[tuple[str, ...], list[DataField]]:
    cursor.expect("(")
    names, more = [], []
    while True:
        after = cursor.token(1)
        if after is not None and after.text == "(":
            raise cursor.sql.unsupported(cursor.start, "PARTITIONED BY takes columns, not functions of them")
        if after is not None and after.text in (",", ")"):
            names.append(cursor.part("a column"))
        else:
            field, _ = _column(cursor, parameters)
            names.append(field.name)
            more.append(field)
        if not cursor.takes(","):
            break
    cursor.expect(")")
    return tuple(names), more


def _create_database(cursor: TokenCursor, parameters: dict[str, Any]) -> Statement:
    exist_ok = cursor.takes("IF", "NOT", "EXISTS")
    name = cursor.name("the name of a database")
    properties: dict[str, str] = {}
    while not cursor.is_done:
        if cursor.takes("COMMENT"):
            properties["comment"] = read_text(cursor)
        elif cursor.takes("WITH"):
            if not cursor.takes_one("DBPROPERTIES", "PROPERTIES"):
                raise cursor.expected("DBPROPERTIES")
            properties |= read_properties(cursor)
        elif cursor.is_at("LOCATION"):
            raise cursor.sql.unsupported(cursor.start, "LOCATION of a database is not carried out. Leave it out")
        else:
            break
    return CreateDatabase(name=name, exist_ok=exist_ok, properties=properties)


def read_drop(cursor: TokenCursor, start: int, parameters: dict[str, Any]) -> Statement:
    if cursor.takes_one("DATABASE", "SCHEMA", "NAMESPACE"):
        missing_ok = cursor.takes("IF", "EXISTS")
        name = cursor.name("the name of a database")
        return DropDatabase(
            name=name, missing_ok=missing_ok, cascade=cursor.takes_one("CASCADE", "RESTRICT") == "CASCADE"
        )
    if not cursor.takes("TABLE"):
        for word in ("VIEW", "FUNCTION", "TEMPORARY", "INDEX", "BRANCH", "TAG"):
            if cursor.is_at(word):
                raise cursor.sql.unsupported(cursor.start, f"DROP {word} is not carried out by sql()")
        raise cursor.expected("TABLE or DATABASE")
    missing_ok = cursor.takes("IF", "EXISTS")
    name = cursor.name("the name of a table")
    cursor.takes("PURGE")
    return DropTable(name=name, missing_ok=missing_ok)


def read_alter(cursor: TokenCursor, start: int, parameters: dict[str, Any]) -> Statement:
    if not cursor.takes("TABLE"):
        if (word := cursor.takes_one("DATABASE", "SCHEMA", "NAMESPACE")) is not None:
            return _altered_database(cursor, start, word)
        if cursor.takes("VIEW"):
            raise cursor.sql.unsupported(start, "ALTER VIEW is not carried out by sql()")
        raise cursor.expected("TABLE")
    name = cursor.name("the name of a table")
    if cursor.takes("RENAME", "TO"):
        return RenameTable(name=name, target=cursor.name("the new name"))
    if is_about_tags(cursor):
        return read_tag(cursor, name)
    if cursor.is_at("DROP", "PARTITION") or cursor.is_at("DROP", "IF", "EXISTS", "PARTITION"):
        return read_drop_partitions(cursor, name, parameters)
    known: tuple[str, ...] = ()
    if cursor.takes("SET", "TBLPROPERTIES"):
        changes: list[SchemaChange] = [SetOption(key, value) for key, value in read_properties(cursor).items()]
        changes = [
            UpdateComment(one.value) if one.key == "comment" else one for one in changes if isinstance(one, SetOption)
        ]
    elif cursor.takes("UNSET", "TBLPROPERTIES"):
        exists = cursor.takes("IF", "EXISTS")
        keys = read_keys(cursor)
        known = () if exists else tuple(key for key in keys if key != "comment")
        changes = [UpdateComment(None) if key == "comment" else RemoveOption(key) for key in keys]
    else:
        changes = _column_changes(cursor, start, parameters)
    return AlterTable(name=name, changes=tuple(changes), known_options=known)


def _altered_database(cursor: TokenCursor, start: int, word: str) -> AlterDatabase:
    name = cursor.name("the name of a database")
    verb = cursor.takes_one("SET", "UNSET")
    if verb is None:
        raise cursor.expected("SET or UNSET")
    if cursor.is_at("LOCATION"):
        raise cursor.sql.unsupported(
            start,
            f"ALTER {word} … {verb} LOCATION is not carried out, because a database is where its catalog puts it: copy "
            "its tables with Catalog.copy_table",
        )
    if not cursor.takes_one("DBPROPERTIES", "PROPERTIES"):
        raise cursor.expected("DBPROPERTIES")
    properties = read_properties(cursor) if verb == "SET" else dict.fromkeys(read_keys(cursor))
    return AlterDatabase(name=name, properties=properties)


def _column_changes(cursor: TokenCursor, start: int, parameters: dict[str, Any]) -> list[SchemaChange]:
    if cursor.takes("ADD"):
        if cursor.is_at("PARTITION") or cursor.is_at("IF"):
            raise cursor.sql.unsupported(cursor.start, "partitions are made by the rows that are written to them")
        if cursor.is_at("CONSTRAINT"):
            raise cursor.sql.unsupported(cursor.start, "constraints cannot be added")
        if not cursor.takes_one("COLUMN", "COLUMNS"):
            raise cursor.expected("COLUMN or COLUMNS")
        return _added(cursor)
    if cursor.takes("DROP"):
        return _dropped(cursor)
    if cursor.takes("RENAME", "COLUMN"):
        column = _path(cursor)
        cursor.expect("TO")
        return [RenameColumn(column, cursor.part("the new name"))]
    if cursor.takes_one("ALTER", "CHANGE"):
        cursor.takes("COLUMN")
        return _changed(cursor, _path(cursor), parameters)
    for word in ("REPLACE", "SET", "RECOVER", "PARTITION", "UNSET", "CLUSTER"):
        if cursor.is_at(word):
            raise cursor.sql.unsupported(cursor.start, f"ALTER TABLE … {word} is not carried out in this form")
    raise cursor.expected("ADD, DROP, RENAME, ALTER, SET TBLPROPERTIES or UNSET TBLPROPERTIES")


def _dropped(cursor: TokenCursor) -> list[SchemaChange]:
    if not cursor.takes_one("COLUMN", "COLUMNS"):
        raise cursor.expected("COLUMN or COLUMNS")
    if cursor.is_at("IF"):
        raise cursor.sql.unsupported(cursor.start, "DROP COLUMN IF EXISTS is not carried out. Leave IF EXISTS out")
    in_parentheses = cursor.takes("(")
    dropped: list[SchemaChange] = [DropColumn(_path(cursor))]
    while cursor.takes(","):
        dropped.append(DropColumn(_path(cursor)))
    if in_parentheses:
        cursor.expect(")")
    return dropped


def _path(cursor: TokenCursor) -> Any:
    parts = cursor.name("a column").parts
    return parts[0] if len(parts) == 1 else parts


def _added(cursor: TokenCursor) -> list[SchemaChange]:
    in_parentheses = cursor.takes("(")
    changes: list[SchemaChange] = []
    while True:
        column, start = _path(cursor), cursor.start
        kind = type_to_sql(read_type(cursor))
        comment, default = None, None
        place: dict[str, Any] = {}
        while True:
            if cursor.takes("COMMENT"):
                comment = read_text(cursor)
            elif cursor.takes("FIRST"):
                place = {"first": True}
            elif cursor.takes("AFTER"):
                place = {"after": cursor.part("a column")}
            elif cursor.takes("DEFAULT"):
                default = option_text(read_literal(cursor, what="a literal as the default"))
            elif cursor.is_at("NOT", "NULL"):
                raise cursor.sql.unsupported(
                    cursor.start, "a new column is null in the rows that are there: leave out NOT NULL"
                )
            else:
                break
        changes.append(AddColumn(column, kind, comment, **place))
        if default is not None:
            if not isinstance(column, str):
                raise cursor.sql.unsupported(start, "a nested field has no default. Leave DEFAULT out")
            changes.append(UpdateColumnDefault(column, default))
        if not cursor.takes(","):
            break
    if in_parentheses:
        cursor.expect(")")
    return changes


def _changed(cursor: TokenCursor, column: Any, parameters: dict[str, Any]) -> list[SchemaChange]:
    start = cursor.start
    changes: list[SchemaChange] = []
    while not cursor.is_done:
        if cursor.takes("TYPE"):
            changes.append(UpdateColumnType(column, type_to_sql(read_type(cursor))))
        elif cursor.takes("COMMENT"):
            changes.append(UpdateColumnComment(column, read_text(cursor)))
        elif cursor.takes("SET", "NOT", "NULL") or cursor.is_at("DROP", "NOT", "NULL"):
            changes.append(UpdateColumnNullability(column, cursor.takes("DROP", "NOT", "NULL")))
        elif not isinstance(column, str):
            raise cursor.sql.unsupported(start, "a nested field can only get a type, a comment or another nullability")
        elif cursor.takes("FIRST"):
            changes.append(MoveColumn(column, first=True))
        elif cursor.takes("AFTER"):
            changes.append(MoveColumn(column, after=cursor.part("a column")))
        elif cursor.takes("SET", "DEFAULT"):
            changes.append(UpdateColumnDefault(column, option_text(read_literal(cursor, parameters, "a literal"))))
        elif cursor.takes("DROP", "DEFAULT"):
            changes.append(UpdateColumnDefault(column, None))
        else:
            raise cursor.expected("TYPE, COMMENT, FIRST, AFTER, SET or DROP")
    if not changes:
        raise cursor.expected("TYPE, COMMENT, FIRST, AFTER, SET or DROP")
    return changes
