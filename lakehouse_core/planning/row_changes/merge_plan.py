"""Merge plan: a MERGE as one join of the table with the source, and what becomes of the joined rows.

The join is a query in Spark's SQL, which Spark or DuckDB carries out; each joined row says which clause it falls under.
Source: docs/semantics/row-changes.md#merge.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from lakehouse_core.errors import InvalidRequest, near_hint, shown
from lakehouse_core.format.data_types import DataField, in_backquotes
from lakehouse_core.planning.row_changes.expressions import Default
from lakehouse_core.planning.row_changes.merge_checks import (
    check_clauses,
    check_leaves_partition,
    check_source,
    check_takes_deletes,
    check_takes_updates,
    words,
)
from lakehouse_core.planning.row_changes.merge_clauses import (
    ALL,
    Clause,
    MergeRequest,
    WhenMatched,
    WhenNotMatched,
    WhenNotMatchedBySource,
)
from lakehouse_core.planning.row_changes.merge_join import (
    ACTION,
    ADDRESS,
    SOURCE,
    SOURCE_VIEW,
    TARGET_VIEW,
    MergePlan,
    PlainJoin,
    PlannedClause,
    Value,
)
from lakehouse_core.planning.row_changes.merge_on import equated_columns, target_condition
from lakehouse_core.planning.sql.expressions import (
    ArgumentText,
    columns_outside,
    parse_qualified,
    without_case,
)
from lakehouse_core.planning.sql.query import literal
from lakehouse_core.planning.sql.statement import Part
from lakehouse_core.planning.sql.tokens import DIALECT
from lakehouse_core.table.merge_spec import merge_spec
from lakehouse_core.table.schema import TableSchema


@dataclass(frozen=True, slots=True)
class _SourceColumn:
    """A value that `"*"` says: the column of the source."""

    name: str


def plan_merge(request: MergeRequest, schema: TableSchema, source: Sequence[DataField], *, in_utc: bool) -> MergePlan:
    """Plan a MERGE. Raises InvalidRequest and UnsupportedFeature with the place of what is wrong, and for what a table
    of this kind does not take.
    """
    check_source(request, [each.name for each in source])
    check_clauses(request.clauses)
    return _Planner(request, schema, source, in_utc=in_utc).plan()


class _Planner:
    def __init__(
        self, request: MergeRequest, schema: TableSchema, source: Sequence[DataField], *, in_utc: bool
    ) -> None:
        self._request = request
        self._schema = schema
        self._source = tuple(each.name for each in source)
        self._in_utc = in_utc
        # A DELETE or UPDATE has no source: each row that satisfies its condition falls under its clause.
        self._is_alone = request.operation != "MERGE"
        self._used: set[str] = set()
        self._expressions: list[str] = []
        # By alias of an expression, the column that it is; None for any other one.
        self._columns: dict[str, tuple[str, str] | None] = {}
        self._places: dict[str, str] = {}

    def plan(self) -> MergePlan:
        request, schema = self._request, self._schema
        target, source = in_backquotes(request.target), in_backquotes(request.source)
        on, on_text = self._parsed(_part("on", request.on), self._both())
        equated, rest = equated_columns(on, request.target, request.source)
        cases = {kind: self._case(kind) for kind in (WhenMatched, WhenNotMatched, WhenNotMatchedBySource)}
        action = (
            f"CASE WHEN {target}.`{ADDRESS}` IS NULL THEN {cases[WhenNotMatched]} "
            f"WHEN {source}.`{SOURCE}` IS NULL THEN {cases[WhenNotMatchedBySource]} ELSE {cases[WhenMatched]} END"
        )
        if self._is_alone:
            action = "0"
        clauses = tuple(self._planned(number, clause, action, equated) for number, clause in enumerate(request.clauses))
        kinds = {type(clause) for clause in request.clauses}
        needed = self._old_columns(clauses)
        kept = {name: f"t{number}" for number, name in enumerate(schema.column_names) if name in needed}
        join = {
            (False, False): "INNER",
            (True, False): "RIGHT",
            (False, True): "LEFT",
            (True, True): "FULL",
        }[WhenNotMatched in kinds, WhenNotMatchedBySource in kinds]
        selected = [
            f"{target}.`{ADDRESS}` AS `{ADDRESS}`",
            f"TRUE AS `{SOURCE}`" if self._is_alone else f"{source}.`{SOURCE}` AS `{SOURCE}`",
            f"{action} AS `{ACTION}`",
            *(f"{target}.{in_backquotes(name)} AS `{alias}`" for name, alias in kept.items()),
            *self._expressions,
        ]
        matches = WhenMatched in kinds
        where = f"({action}) IS NOT NULL"
        if matches:
            where += f" OR ({target}.`{ADDRESS}` IS NOT NULL AND {source}.`{SOURCE}` IS NOT NULL)"
        begin = f"SELECT {', '.join(selected)} FROM {in_backquotes(TARGET_VIEW)} AS {target}"
        if self._is_alone:
            text = f"{begin} WHERE ({on_text}\n)"
        else:
            text = (
                f"{begin} {join} JOIN (SELECT *, TRUE AS `{SOURCE}` FROM {in_backquotes(SOURCE_VIEW)}) AS {source} "
                f"ON ({on_text}\n) WHERE {where}"
            )
        is_pruned = WhenNotMatchedBySource not in kinds
        return MergePlan(
            text=text,
            clauses=clauses,
            columns=tuple(name for name in schema.column_names if name in self._used or name in kept),
            kept=kept,
            condition=target_condition(on, request.target, schema, in_utc=self._in_utc) if is_pruned else None,
            equated=tuple(equated.items()),
            is_pruned=is_pruned,
            checks_matches=matches,
            keys_are_new=not rest and self._inserts_keys_of(equated, request.clauses),
            plain=self._plain() if equated and not rest and is_pruned else None,
            in_sql=request.in_sql,
            places=self._places,
        )

    def _plain(self) -> PlainJoin | None:
        clauses, columns = self._request.clauses, self._columns
        if any(clause.where is not None for clause in clauses) or None in columns.values():
            return None
        numbers = {type(clause): number for number, clause in enumerate(clauses)}
        found = {alias: column for alias, column in columns.items() if column is not None}
        return PlainJoin(
            matched=numbers.get(WhenMatched),
            unmatched=numbers.get(WhenNotMatched),
            target_values={alias: name for alias, (table, name) in found.items() if table == self._request.target},
            source_values={alias: name for alias, (table, name) in found.items() if table == self._request.source},
        )

    def _both(self) -> dict[str, tuple[str, ...]]:
        found = {self._request.target: self._schema.column_names}
        return found if self._is_alone else {**found, self._request.source: self._source}

    def _reach(self, clause: Clause) -> dict[str, tuple[str, ...]]:
        match clause:
            case WhenMatched():
                return self._both()
            case WhenNotMatched():
                return {self._request.source: self._source}
            case WhenNotMatchedBySource():
                return {self._request.target: self._schema.column_names}

    def _parsed(self, part: Part, tables: Mapping[str, Sequence[str]], *, is_value: bool = False) -> tuple[Any, str]:
        # Spark refuses queries in the conditions of a MERGE.
        takes_queries = self._is_alone or (is_value and self._request.in_sql)
        words = self._request.operation if self._is_alone or is_value else "a condition of MERGE"
        tree, text = parse_qualified(part, tables, self._request.parameters, statement=words, queries=takes_queries)
        self._used |= {str(each.name) for each in columns_outside(tree) if each.table == self._request.target}
        # What a query inside names may be a column of the row outside.
        queries = tree.find_all(exp.Query)
        inside = {str(each.name).casefold() for query in queries for each in query.find_all(exp.Column)}
        self._used |= {name for name in self._schema.column_names if name.casefold() in inside}
        return tree, text

    def _old_columns(self, clauses: Sequence[PlannedClause]) -> set[str]:
        """Return the columns of the table whose old values the clauses write or compare."""
        schema = self._schema
        needed: set[str] = set()
        for clause in clauses:
            if clause.action == "delete" and not schema.is_append:
                return set(schema.column_names)
            if clause.action == "update":
                needed |= set(schema.column_names) - set(clause.values)
                if not schema.is_append:
                    spec = merge_spec(schema)
                    needed |= {*spec.sequence_fields, *(name for group in spec.groups for name in group.fields)}
        return needed

    def _case(self, kind: type) -> str:
        cases = []
        for number, clause in enumerate(self._request.clauses):
            if isinstance(clause, kind):
                what = f"where of {words(clause)}"
                condition = (
                    "TRUE"
                    if clause.where is None
                    else f"({self._parsed(_part(what, clause.where), self._reach(clause))[1]}\n)"
                )
                cases.append(f"WHEN {condition} THEN {number}")
        return f"CASE {' '.join(cases)} END" if cases else "CAST(NULL AS INT)"

    def _planned(self, number: int, clause: Clause, action: str, equated: Mapping[str, str]) -> PlannedClause:
        schema = self._schema
        if isinstance(clause, WhenNotMatched):
            given = self._stars("insert", schema.column_names) if clause.insert == ALL else dict(clause.insert)
            values: dict[str, Value] = {name: Default() for name in schema.column_names}
            values.update(self._values(number, clause, given, action))
            return PlannedClause(action="insert", values=values)
        if clause.delete:
            check_takes_deletes(schema, self._request.operation)
            return PlannedClause(action="delete")
        assert clause.update is not None
        check_takes_updates(schema)
        keys = () if schema.is_append else schema.primary_keys
        if clause.update == ALL:
            kept_columns = () if schema.is_append else {*keys, *schema.partition_keys}
            names = tuple(name for name in schema.column_names if equated.get(name) != name or name not in kept_columns)
            given = self._stars("update", names)
        else:
            given = dict(clause.update)
        self._check_key_values(clause, given, keys, equated)
        kept = {name: value for name, value in given.items() if self._spelled(name, clause) not in keys}
        check_leaves_partition(schema, [self._spelled(name, clause) for name in kept])
        return PlannedClause(action="update", values=self._values(number, clause, kept, action))

    def _stars(self, what: str, names: Sequence[str]) -> dict[str, Any]:
        found = {}
        for name in names:
            matches = without_case(name, self._source)
            if len(matches) != 1:
                raise InvalidRequest(
                    f"MERGE: {what} of all columns, and the source has {'no' if not matches else 'more than one'} "
                    f"column {shown(name)}. Name the columns with their values, or add it to the source."
                )
            found[name] = _SourceColumn(matches[0])
        return found

    def _spelled(self, name: Any, clause: Clause) -> str:
        if not isinstance(name, str):
            raise InvalidRequest(f"MERGE: {words(clause)}: {shown(name)} is not the name of a column.")
        known = self._schema.column_names
        if len(found := without_case(name, known)) == 1:
            return found[0]
        hint = near_hint(name, known, f"Columns: {', '.join(known)}.")
        raise InvalidRequest(f"MERGE: {words(clause)}: the table has no column {shown(name)}. {hint}")

    def _values(self, number: int, clause: Clause, given: Mapping[str, Any], action: str) -> dict[str, Value]:
        found: dict[str, Value] = {}
        for name, value in given.items():
            column = self._spelled(name, clause)
            if column in found:
                raise InvalidRequest(f"MERGE: {words(clause)} sets column {shown(column)} twice. Set it once.")
            if _is_default(value):
                found[column] = Default()
                continue
            column_of, is_plain = None, True
            if isinstance(value, _SourceColumn):
                column_of = self._request.source, value.name
                text = ".".join(map(in_backquotes, column_of))
            elif isinstance(value, Part | str):
                part = _part(f"value of {shown(column)} in {words(clause)}", value)
                tree, text = self._parsed(part, self._reach(clause), is_value=True)
                is_plain = isinstance(tree, exp.Column | exp.Literal)
                column_of = (str(tree.table), str(tree.name)) if isinstance(tree, exp.Column) else None
                text = f"({text}\n)"
            else:
                text = f"({literal(value).sql(dialect=DIALECT)})"
            alias = f"e{number}_{len(self._expressions)}"
            # A value is computed for the rows of its clause alone: for others it may be an error.
            computed = (
                text if is_plain or self._is_alone else f"CASE WHEN {self._is_of(number, action)} THEN {text} END"
            )
            self._expressions.append(f"{computed} AS `{alias}`")
            self._columns[alias] = column_of
            if isinstance(value, Part):
                self._places[alias] = value.sql.place(value.start)
            found[column] = alias
        return found

    def _is_of(self, number: int, action: str) -> str:
        """Return the condition for rows of a clause. `action`: what gives the number of each row's clause."""
        clause = self._request.clauses[number]
        if clause.where is not None or sum(type(each) is type(clause) for each in self._request.clauses) > 1:
            return f"({action}) = {number}"
        # All rows of its kind are its rows: the engine compares no numbers.
        sides = (
            (self._request.target, ADDRESS, WhenNotMatched),
            (self._request.source, SOURCE, WhenNotMatchedBySource),
        )
        return " AND ".join(
            f"{in_backquotes(side)}.`{column}` IS {'' if isinstance(clause, kind) else 'NOT '}NULL"
            for side, column, kind in sides
        )

    def _check_key_values(
        self, clause: Clause, given: Mapping[str, Any], keys: Sequence[str], equated: Mapping[str, str]
    ) -> None:
        """Refuse an update of a key, except to the value that ON says it has already."""
        for name, value in given.items():
            column = self._spelled(name, clause)
            if column in keys and not self._is_equated(column, value, clause, equated):
                raise InvalidRequest(
                    f"MERGE: column {shown(column)} is part of the primary key, and ON does not say that its new value "
                    "is the old one. Leave it out of the update."
                )

    def _is_equated(self, column: str, value: Any, clause: Clause, equated: Mapping[str, str]) -> bool:
        if isinstance(value, _SourceColumn):
            return equated.get(column) == value.name
        if not isinstance(clause, WhenMatched) or not isinstance(value, Part | str) or _is_default(value):
            return False
        tree, _ = self._parsed(_part(f"value of {shown(column)}", value), self._reach(clause), is_value=True)
        return isinstance(tree, exp.Column) and (str(tree.table), str(tree.name)) in (
            (self._request.target, column),
            (self._request.source, equated.get(column)),
        )

    def _inserts_keys_of(self, equated: Mapping[str, str], clauses: Sequence[Clause]) -> bool:
        """Return whether ON compares exactly the primary key, and rows are inserted with the keys of the source."""
        keys = self._schema.primary_keys
        if set(equated) != set(keys):
            return False
        for clause in clauses:
            if isinstance(clause, WhenNotMatched) and clause.insert != ALL:
                given = {self._spelled(name, clause): value for name, value in clause.insert.items()}
                for key in keys:
                    value = given.get(key)
                    if not isinstance(value, Part | str) or _is_default(value):
                        return False
                    tree, _ = self._parsed(_part("insert", value), self._reach(clause), is_value=True)
                    if not isinstance(tree, exp.Column) or tree.name != equated[key]:
                        return False
            elif isinstance(clause, WhenNotMatched) and any(equated[key].casefold() != key.casefold() for key in keys):
                return False
        return True


def _is_default(value: Any) -> bool:
    text = value.text if isinstance(value, Part) else value
    return isinstance(text, Default) or (isinstance(text, str) and text.strip().upper() == "DEFAULT")


def _part(what: str, given: Any) -> Part:
    if isinstance(given, Part):
        return given
    text = ArgumentText(what, given)
    return Part(text, 0, len(text.text))
