"""Statements on a key table, row by row: overwrites, removals, row changes and rescales, as operations of a history.

Operations: `overwrite` (`rows`; `partition`, `dynamic`), `truncate`, `drop` (`partitions`), `rescale` (`buckets`),
`delete` (`where`), `update` (`set`, `where`), `replace` (`rows`, `where`), `merge` (`rows`; `clauses`, of `update`,
`delete` and `insert`; rows with the same primary key belong together). A condition is `field`, `op`, `value`, or `or`
with a list of conditions.
Source: docs/semantics/row-changes.md#methods, docs/semantics/commit.md#overwrites,
docs/semantics/maintenance.md#rescaling.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lakehouse_core.format.data_types import STRING_ROOTS, AtomicType
from tests.interop.values import python_value
from tests.oracle.engines import Schema
from tests.oracle.functions import Refused
from tests.oracle.merge import compare_values
from tests.oracle.table import Place, Row, Table

Json = dict[str, Any]
ROW_CHANGES = ("delete", "update", "replace", "merge")
STATEMENTS = ("overwrite", "truncate", "drop", "rescale", *ROW_CHANGES)
# Java's core has no verb for them.
OURS_ALONE = ("rescale", *ROW_CHANGES)
_HOLDS: dict[str, Callable[[int], bool]] = {
    "=": lambda order: order == 0,
    "<>": lambda order: order != 0,
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}


@dataclass(frozen=True)
class Made:
    """What a statement leaves: by bucket the runs of deletes, of new rows after them, and of rewritten rows, which are
    at the top level. Deletes and new rows of the bucket WAITING wait.

    `rises`: new rows of a bucket come to the top level at once. `waits`: partitions whose new rows wait for their
    buckets. `unwaits`: partitions whose waiting rows are removed. `kind` None: there was nothing to do.
    """

    kind: str | None
    deletes: Mapping[Place, int] = field(default_factory=dict)
    flushed: Mapping[Place, int] = field(default_factory=dict)
    rewritten: Mapping[Place, int] = field(default_factory=dict)
    rises: bool = False
    waits: Collection[Any] = ()
    unwaits: Collection[Any] = ()


def carried_out(table: Table, operation: Json, rows: Sequence[Row], *, waits: bool) -> Made:
    """Carry out a statement, as one snapshot of the table; `rows` are those that it gives. `waits`: rows of whole
    partitions wait for their buckets.
    """
    match operation["verb"]:
        case "overwrite":
            if operation["dynamic"]:
                partitions = {table.place(row)[0] for row in rows}
                return _replaced(table, partitions.__contains__, rows, waits=waits)
            return _replaced(table, _within(table.schema, [operation["partition"] or {}]), rows, waits=waits)
        case "truncate":
            return _replaced(table, lambda partition: True, [], waits=waits)
        case "drop":
            return _replaced(table, _within(table.schema, operation["partitions"]), [], waits=waits)
        case "rescale":
            return _rescaled(table, operation["buckets"])
        case "delete" | "replace":
            return _deleted(table, operation["where"], rows, waits=waits)
        case "update":
            return _updated(table, operation)
        case "merge":
            return _merged(table, operation["clauses"], rows)
    raise AssertionError(operation["verb"])


def _replaced(table: Table, covers: Callable[[Any], bool], rows: Sequence[Row], *, waits: bool) -> Made:
    kind = "OVERWRITE" if rows or _has_files(table, covers) else None
    unwaits = {partition for partition in table.waiting_partitions if covers(partition)}
    made = table.overwrite(covers, [("+I", row) for row in rows], waits=waits)
    if waits:
        return Made(kind, waits={place[0] for place in made}, unwaits=unwaits)
    rises = table.schema.options.get("overwrite-upgrade") != "false"
    return Made(kind, flushed=made, rises=rises, unwaits=unwaits)


def _has_files(table: Table, covers: Callable[[Any], bool]) -> bool:
    """Return whether there are files in partitions that are covered, of rows that wait too."""
    there = {place[0] for place, runs in table.buckets.items() if runs}
    return any(covers(partition) for partition in there | table.waiting_partitions)


def _within(schema: Schema, partitions: Sequence[Json]) -> Callable[[Any], bool]:
    def covers(partition: Any) -> bool:
        texts = dict(zip(schema.partition_keys, partition, strict=True))
        return any(all(texts[name] == str(value) for name, value in one.items()) for one in partitions)

    return covers


def _rescaled(table: Table, count: int | None) -> Made:
    schema = table.schema
    if count is not None:
        if str(count) == schema.options["bucket"]:
            table.rewrite([], {})
            return Made(None)
        table.alter(replace(schema, options={**schema.options, "bucket": str(count)}))
    there = [place for place, runs in table.buckets.items() if runs]
    # What is below was told by no compaction yet, and would not be any more.
    told_from = {"lookup": 1, "full-compaction": table.max_level}.get(schema.options.get("changelog-producer", ""), 0)
    assert all(run.level >= told_from for place in there for run in table.buckets[place]), "a rescale hides changes"
    made = table.rewrite(there, _by_place(table, [row for _, row in table.current()]))
    return Made("OVERWRITE" if there else None, rewritten=made)


def _by_place(table: Table, rows: Sequence[Any]) -> dict[Place, list[Any]]:
    found: dict[Place, list[Any]] = {}
    for record in rows:
        found.setdefault(table.place(table.row(record)), []).append(record)
    return found


def _deleted(table: Table, where: Json, new: Sequence[Row], *, waits: bool) -> Made:
    """Delete rows, and write the given ones in the same snapshot."""
    schema = table.schema
    given = [("+I", row) for row in new]
    tells = schema.is_on("delete.force-produce-changelog") and takes_deletes(schema) and not new
    if columns_of(where) <= set(schema.partition_keys) and not tells:

        def covers(partition: Any) -> bool:
            return holds(where, _partition(schema, partition), schema)

        if _has_files(table, covers) or not new:
            return _replaced(table, covers, new, waits=waits)
        # What replaces nothing is a write.
        if waits:
            return Made("APPEND", waits=table.wait(given))
        return Made("APPEND", flushed=table.append(given))
    hits = [(place, record) for place, record in table.current() if holds(where, table.row(record), schema)]
    left = _rows_but(table, {record.number for _, record in hits})
    records = takes_deletes(schema)
    if new:
        # A delete may not win over the new row of its key, nor hand it values.
        records = records and _engine(schema) == "deduplicate" and not schema.sequence_fields
    if records:
        deletes = table.append([("-D", table.row(record)) for _, record in hits], states_kinds=True)
        flushed = table.append(given, beside=True)
        made = Made("APPEND" if hits or new else None, flushed=flushed, deletes=deletes)
    else:
        places = {place for place, _ in hits}
        numbers = {record.number for _, record in hits}
        kept: dict[Place, list[Any]] = {}
        for place, record in table.current():
            if place in places and record.number not in numbers:
                kept.setdefault(place, []).append(record)
        rewritten = table.rewrite(places, kept)
        flushed = table.append(given, beside=True, tells=not hits)
        kind = "OVERWRITE" if hits else "APPEND" if new else None
        made = Made(kind, flushed=flushed, rewritten=rewritten)
    if not new:
        _check(table, left)
    return made


def _updated(table: Table, operation: Json) -> Made:
    schema = table.schema
    types = {each.name: each.type for each in schema.fields}
    values = {name: python_value(value, types[name]) for name, value in operation["set"].items()}
    hits = [(table.row(r), r.number) for _, r in table.current() if holds(operation["where"], table.row(r), schema)]
    new = [{**row, **values} for row, _ in hits]
    for (old, _), row in zip(hits, new, strict=True):
        check_effect(old, row, values, schema)
    left = _rows_but(table, {number for _, number in hits}) + new
    made = table.append([("+U", row) for row in new], states_kinds=True)
    _check(table, left)
    return Made("APPEND" if hits else None, flushed=made)


def _merged(table: Table, clauses: Sequence[str], source: Sequence[Row]) -> Made:
    schema = table.schema
    others = {_key(row, schema): row for row in source}
    present, changes, changed, new = set(), [], set(), []
    for _, record in table.current():
        row = table.row(record)
        key = _key(row, schema)
        present.add(key)
        if key not in others or not {"update", "delete"} & set(clauses):
            continue
        changed.add(record.number)
        if "update" in clauses:
            assigned = [name for name in row if name not in schema.primary_keys]
            check_effect(row, others[key], assigned, schema)
            changes.append(("+U", others[key]))
            new.append(others[key])
        else:
            changes.append(("-D", row))
    inserted = [row for key, row in others.items() if key not in present] if "insert" in clauses else []
    left = _rows_but(table, changed) + new + inserted
    made = table.append([*changes, *(("+I", row) for row in inserted)], states_kinds=True)
    # A new row may be older than the delete of its key, or take values from what was there.
    if not inserted or (_engine(schema) == "deduplicate" and not schema.sequence_fields):
        _check(table, left)
    return Made("APPEND" if changes or inserted else None, flushed=made)


def holds(condition: Json, row: Row, schema: Schema) -> bool:
    """Only TRUE counts: a comparison with NULL is not true."""
    if "or" in condition:
        return any(holds(each, row, schema) for each in condition["or"])
    value, op = row[condition["field"]], condition["op"]
    if op in ("isNull", "isNotNull"):
        return (value is None) == (op == "isNull")
    type_ = next(each.type for each in schema.fields if each.name == condition["field"])
    others = condition["value"] if op == "in" else [condition["value"]]
    compared = _HOLDS["=" if op == "in" else op]
    if value is None:
        return False
    return any(compared(compare_values(value, python_value(other, type_))) for other in others)


def takes_deletes(schema: Schema) -> bool:
    """Whether rows are deleted by records: else buckets are rewritten."""
    if schema.is_on("ignore-delete"):
        return False
    return _engine(schema) == "deduplicate" or schema.is_on(f"{_engine(schema)}.remove-record-on-delete")


def check_effect(old: Row, new: Row, assigned: Collection[str], schema: Schema) -> None:
    """Refuse new values that a merge with the old row would not take."""
    order = [schema.names[i] for i in schema.sequence_fields]
    if set(order) & set(assigned):
        descends = schema.options.get("sequence.field.sort-order") == "descending"
        _check_order(old, new, order, descends=descends)
    if _engine(schema) != "partial-update":
        return
    for name in assigned:
        fields = _group(schema, name)
        if not fields:
            if new[name] is None:
                raise Refused(f"a null in {name} leaves the old value")
        elif all(new[each] is None for each in fields):
            raise Refused(f"{name} has no order")
        else:
            _check_order(old, new, fields, descends=False)


def _check_order(old: Row, new: Row, fields: Sequence[str], *, descends: bool) -> None:
    for name in fields:
        order = compare_values(new[name], old[name])
        if descends and new[name] is not None and old[name] is not None:
            order = -order
        if order < 0:
            raise Refused(f"the new {name} is older")
        if order > 0:
            return


def _group(schema: Schema, name: str) -> list[str]:
    """Return the columns that order the sequence group of a column, none where it is in none."""
    for key, protected in schema.options.items():
        if key.startswith("fields.") and key.endswith(".sequence-group"):
            fields = key.removeprefix("fields.").removesuffix(".sequence-group").split(",")
            if name in (*fields, *protected.split(",")):
                return fields
    return []


def _engine(schema: Schema) -> str:
    return schema.options.get("merge-engine", "deduplicate")


def columns_of(condition: Json) -> set[str]:
    parts = condition.get("or", [condition])
    return set().union(*({part["field"]} for part in parts))


def _partition(schema: Schema, partition: Sequence[str]) -> Row:
    """Return the values of a partition, whose columns are integers or texts."""
    texts = {
        each.name for each in schema.fields if isinstance(each.type, AtomicType) and each.type.root in STRING_ROOTS
    }
    return {
        name: text if name in texts else int(text) for name, text in zip(schema.partition_keys, partition, strict=True)
    }


def _key(row: Row, schema: Schema) -> tuple[Any, ...]:
    return tuple(row[name] for name in schema.primary_keys)


def _rows_but(table: Table, numbers: Collection[int]) -> list[Row]:
    return [table.row(record) for _, record in table.current() if record.number not in numbers]


def _check(table: Table, wanted: Sequence[Row]) -> None:
    """Raise AssertionError where the records of a statement do not leave what it says of rows."""
    left = sorted(_texts([table.row(record) for _, record in table.current()]))
    assert left == sorted(_texts(wanted)), f"a statement leaves {left}, and not {wanted}"


def _texts(rows: Sequence[Row]) -> Iterator[str]:
    return (repr(sorted(row.items())) for row in rows)
