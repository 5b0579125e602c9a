"""Pushing: which columns of each table a query needs, and which of its conditions a scan of the table may test.

Rule: pushing only leaves out rows and columns that cannot matter; the query still tests each condition. A condition is
pushed only where a scan gives it the meaning that both engines give it. Source: docs/sql.md#queries.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import traverse_scope
from sqlglot.schema import MappingSchema

from lakehouse_core.errors import InvalidRequest, LakehouseError
from lakehouse_core.format.data_types import INTEGER_BITS, AtomicType, DataField, RowType
from lakehouse_core.planning.sql.conditions import holds_for_nulls, translated_condition
from lakehouse_core.planning.sql.query import Query
from lakehouse_core.planning.sql.tokens import DIALECT
from lakehouse_core.planning.sql.types import spark_text
from lakehouse_core.table.predicate import Predicate, all_of


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryTable:
    """A table of a query. `view`: its unique name in the query that the engine gets. `prunes`: a scan of it takes
    columns and a condition.
    """

    view: str
    fields: tuple[DataField, ...]
    prunes: bool = True


@dataclass(frozen=True, slots=True)
class Pushed:
    """What a scan of a table reads."""

    columns: tuple[str, ...]
    condition: Predicate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysedQuery:
    """A query whose columns are resolved. `tree` names the tables by their views; `names`: of the columns of its
    answer; `pushed` by the place of the reference.
    """

    tree: Any
    schema: Any
    names: tuple[str, ...]
    pushed: Mapping[int, Pushed]


def analyse(query: Query, tables: Mapping[int, QueryTable], *, in_utc: bool) -> AnalysedQuery:
    """Resolve the columns of a query. `in_utc`: the engine takes times without a zone for UTC.

    Raises InvalidRequest for a column that no table has, or that several have.
    """
    tree = _with_views(query, tables)
    # Names are given as they are: a text such as $1 is a name, too.
    schema = MappingSchema(
        {table.view: _columns_of(table) for table in tables.values()}, dialect=DIALECT, normalize=False
    )
    try:
        tree = qualify(tree, dialect=DIALECT, schema=schema)
    except SqlglotError as error:
        raise _unresolved(query, tables, str(error)) from error
    except RecursionError as error:
        raise InvalidRequest("SQL: the statement is nested too deeply. Use WITH, or IN for long lists.") from error
    conditions = _conditions(tree, tables, in_utc=in_utc)
    named = _named_columns(tree)
    pushed = {
        start: Pushed(_needed(named, table), all_of(conditions.get(table.view, ())))
        for start, table in tables.items()
        if table.prunes
    }
    return AnalysedQuery(tree=tree, schema=schema, names=_output_names(query.tree, tree, tables), pushed=pushed)


def with_excepted(query: Query, tables: Mapping[int, QueryTable], pushed: Mapping[int, Pushed]) -> dict[int, Pushed]:
    """Return what scans read for Spark, which looks for the columns that `* EXCEPT (…)` leaves out."""
    stars = query.tree.find_all(exp.Star)
    left_out = {str(one.name).lower() for star in stars for one in star.args.get("except_") or ()}
    return {
        start: replace(
            one,
            columns=tuple(
                field.name
                for field in tables[start].fields
                if field.name in one.columns or field.name.lower() in left_out
            ),
        )
        for start, one in pushed.items()
    }


def stops_early(tree: Any) -> bool:
    """Return whether some first rows of one table answer a query, so that a reader need not see all of it."""
    if not isinstance(tree, exp.Select) or tree.args.get("limit") is None:
        return False
    whole = ("joins", "laterals", "group", "having", "distinct", "order", "windows", "qualify")
    return not any(tree.args.get(clause) for clause in whole) and tree.find(exp.AggFunc, exp.Window) is None


def _with_views(query: Query, tables: Mapping[int, QueryTable]) -> Any:
    tree = query.tree.copy()
    for node in list(tree.find_all(exp.Table)):
        first = next(part for part in (node.args.get("catalog"), node.args.get("db"), node.this) if part is not None)
        table = tables.get(first.meta.get("start"))
        if table is None:
            continue
        name = node.this
        if not node.alias:
            node.set("alias", exp.TableAlias(this=exp.to_identifier(name.this, quoted=True)))
        for part in ("catalog", "db"):
            node.set(part, None)
        node.set("this", exp.to_identifier(table.view))
    _expand_structs(tree, tables)
    for column in list(tree.find_all(exp.Column)):
        # `db.table.column` names the table by the alias that it has now.
        column.set("db", None)
        column.set("catalog", None)
    for node in list(tree.find_all(exp.Exists)):
        # Which columns such a query gives does not matter.
        if isinstance(node.this, exp.Select) and node.this.is_star:
            node.this.set("expressions", [exp.Literal.number(1)])
    return tree


def _expand_structs(tree: Any, tables: Mapping[int, QueryTable]) -> None:
    """Write the fields of a struct instead of `struct.*`, where nothing else has that name."""
    stars = [column for column in tree.find_all(exp.Column) if isinstance(column.this, exp.Star)]
    if not stars:
        return
    sources = {one.alias_or_name.lower() for kind in (exp.Table, exp.Subquery) for one in tree.find_all(kind)}
    for star in stars:
        name = str(star.table).lower()
        found = [one.type for table in tables.values() for one in table.fields if one.name.lower() == name]
        if name not in sources and len(found) == 1 and isinstance(found[0], RowType):
            star.replace([exp.alias_(exp.column(one.name, table=star.table), one.name) for one in found[0].fields])


def _columns_of(table: QueryTable) -> dict[str, str]:
    return {field.name.lower(): spark_text(field.type) for field in table.fields}


def _unresolved(query: Query, tables: Mapping[int, QueryTable], message: str) -> LakehouseError:
    found = re.search(r"[Cc]olumn:? '?(\w+)", message)
    if found is None:
        return InvalidRequest(f"SQL: {message.splitlines()[0].rstrip('.')}.")
    name = found[1]
    nodes = [node for node in query.tree.find_all(exp.Column) if node.name.lower() == name.lower()]
    node = next((one for one in nodes if "start" in one.this.meta), None)
    if node is None:
        return InvalidRequest(f"SQL: there is no column {name}.")
    sources = {one.alias_or_name.lower() for kind in (exp.Table, exp.Subquery) for one in query.tree.find_all(kind)}
    first = node.args.get("table") or node.this
    place = int(first.meta.get("start", node.this.meta["start"]))
    if node.table and node.table.lower() not in sources:
        return query.sql.invalid(
            place, f"{node.table} is not a table of the query. Tables: {', '.join(sorted(sources - {''}))}"
        )
    names = [field.name for table in tables.values() for field in table.fields]
    names += [str(column) for lateral in query.tree.find_all(exp.Lateral) for column in lateral.alias_column_names]
    if not node.table and sum(one.lower() == name.lower() for one in names) > 1:
        return query.sql.invalid(
            place, f"column {name} is in several tables. Write the table before it, as in t.{name}"
        )
    return query.sql.no_column(place, name, [one for one in names if one.lower() != name.lower()])


def _named_columns(tree: Any) -> dict[str, set[str]]:
    """Return the columns that the query names, in lower case, by what gives them: a view or, for columns without a
    table, an empty text.

    Another table of the same alias only adds columns.
    """
    by_alias: dict[str, set[str]] = {}
    for column in tree.find_all(exp.Column):
        by_alias.setdefault(str(column.table), set()).add(str(column.name).lower())
    found = {"": by_alias.get("", set())}
    for node in tree.find_all(exp.Table):
        found.setdefault(str(node.name), set()).update(by_alias.get(str(node.alias_or_name), ()))
    return found


def _needed(named: Mapping[str, set[str]], table: QueryTable) -> tuple[str, ...]:
    """Return the columns of the table that the query names, in their order; one column where it names none."""
    names = named[""] | named.get(table.view, set())
    found = tuple(field.name for field in table.fields if field.name.lower() in names)
    return found or (min(table.fields, key=_width).name,)


def _width(field: DataField) -> int:
    return INTEGER_BITS.get(field.type.root, 100) if isinstance(field.type, AtomicType) else 1000


# What a join does with the rows of a table: it keeps them, adds rows of nulls instead of them, or forbids pushing.
_KEPT: Final = "kept"
_NULLED: Final = "nulled"
_FULL: Final = "full"


def _conditions(tree: Any, tables: Mapping[int, QueryTable], *, in_utc: bool) -> dict[str, list[Predicate]]:
    """Return the conditions that the scans may test, by view."""
    by_view = {table.view: table for table in tables.values() if table.prunes}
    found: dict[str, list[Predicate]] = {}
    for scope in traverse_scope(tree):
        select = scope.expression
        if not isinstance(select, exp.Select):
            continue
        views = {
            alias: source.name
            for alias, (_, source) in scope.selected_sources.items()
            if isinstance(source, exp.Table) and source.name in by_view
        }
        for alias, node, fate in _pushable(select):
            view = views.get(alias)
            if view is None:
                continue
            condition = translated_condition(node, by_view[view].fields, in_utc=in_utc)
            if condition is not None and (fate == _KEPT or not holds_for_nulls(condition)):
                found.setdefault(view, []).append(condition)
    return found


def _pushable(select: Any) -> Iterator[tuple[str, Any, str]]:
    """Yield the conjuncts on one alias, with the fate of its rows up to where the conjunct is tested."""
    origin = select.args.get("from_") or select.args.get("from")
    if origin is None or origin.this.args.get("joins"):
        return
    fates = {origin.this.alias_or_name: _KEPT}
    for join in select.args.get("joins") or ():
        right, side, kind = join.this.alias_or_name, str(join.side).upper(), str(join.kind).upper()
        if join.this.args.get("joins"):
            return
        inner = not side and kind in ("", "INNER", "CROSS")
        for node in conjuncts(join.args.get("on")):
            alias = _only_alias(node)
            if alias is None:
                continue
            if alias == right and (inner or side == "LEFT" or kind in ("SEMI", "ANTI")):
                yield alias, node, _KEPT
            elif alias in fates and fates[alias] != _FULL and (inner or side == "RIGHT"):
                yield alias, node, fates[alias]
        if kind in ("SEMI", "ANTI"):
            continue
        if side in ("RIGHT", "FULL"):
            fates = {alias: _NULLED if side == "RIGHT" and fate != _FULL else _FULL for alias, fate in fates.items()}
        fates[right] = {"LEFT": _NULLED, "FULL": _FULL}.get(side, _KEPT)
    where = select.args.get("where")
    for node in conjuncts(None if where is None else where.this):
        alias = _only_alias(node)
        if alias is not None and fates.get(alias, _FULL) != _FULL:
            yield alias, node, fates[alias]


def conjuncts(node: Any) -> Iterator[Any]:
    """Yield the conditions that an expression joins by AND. None: there is none."""
    if node is None:
        return
    if isinstance(node, exp.Paren):
        yield from conjuncts(node.this)
    elif isinstance(node, exp.And):
        yield from conjuncts(node.this)
        yield from conjuncts(node.expression)
    else:
        yield node


def _only_alias(node: Any) -> str | None:
    if node.find(exp.Query) is not None:
        return None
    aliases = {str(column.table) for column in node.find_all(exp.Column)}
    return aliases.pop() if len(aliases) == 1 else None


def _output_names(original: Any, tree: Any, tables: Mapping[int, QueryTable]) -> tuple[str, ...]:
    """Return the names of the answer's columns: as the query writes them, else as Spark would name them."""
    first, qualified = _first_select(original), _first_select(tree)
    if not isinstance(qualified, exp.Select) or not isinstance(first, exp.Select):
        count = len(qualified.expressions[0].expressions) if isinstance(qualified, exp.Values) else 0
        return tuple(f"col{number + 1}" for number in range(count))
    stored = {field.name.lower(): field.name for table in tables.values() for field in table.fields}
    written, found = list(first.expressions), list(qualified.selects)
    stars = [index for index, node in enumerate(written) if node.is_star]
    names = []
    for index, node in enumerate(found):
        source = None
        if not stars:
            source = written[index] if index < len(written) else None
        elif index < stars[0]:
            source = written[index]
        elif len(stars) == 1 and len(found) - index < len(written) - stars[0]:
            source = written[len(written) - (len(found) - index)]
        name = str(node.alias_or_name)
        names.append(stored.get(name.lower(), name) if source is None else _name(source))
    return tuple(names)


def _first_select(tree: Any) -> Any:
    while True:
        if isinstance(tree, exp.Subquery | exp.SetOperation | exp.Paren):
            tree = tree.this
        else:
            return tree


def _name(node: Any) -> str:
    if isinstance(node, exp.Alias):
        return str(node.alias)
    if isinstance(node, exp.Column | exp.Dot):
        return str(node.name)
    text = str(node.sql(dialect=DIALECT, normalize_functions="lower", comments=False))
    return "count(1)" if text == "count(*)" else f"({text})" if isinstance(node, exp.Binary) else text
