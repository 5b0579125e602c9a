"""Statements in random histories: overwrites, removals, rescales and row changes, between their other operations.

Source: docs/semantics/row-changes.md, docs/semantics/commit.md#overwrites, docs/semantics/maintenance.md#rescaling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

from tests.differential.generate import NUMBERS, SIMPLE, TEXTS, random_value
from tests.oracle.engines import Schema
from tests.oracle.history import History, Json
from tests.oracle.statements import OURS_ALONE, ROW_CHANGES, STATEMENTS, columns_of, takes_deletes
from tests.oracle.table import WAITING

# The verbs that Java's core has too.
JAVAS = tuple(verb for verb in STATEMENTS if verb not in OURS_ALONE)
# Columns of these types are compared in conditions.
_COMPARED = (*NUMBERS, *TEXTS, "DATE", "TIMESTAMP(3)")
# As great as any value that rows get.
_GREATEST = {
    "STRING": "ä",
    "VARCHAR(10)": "ä",
    "TIMESTAMP(3)": "2024-01-09T00:00:00.900",
    "DATE": "2024-01-09",
    "DECIMAL(6, 2)": "99.50",
    "DECIMAL(20, 3)": "99.125",
}


def with_changes(seed: int, history: History, *, verbs: Sequence[str] = STATEMENTS) -> History:
    """Return the history with statements of these verbs between its operations; half of the tables without partitions
    get some.
    """
    random = Random(f"changes {seed}")
    if not history.partition_keys and random.random() < 0.5:
        history = _with_partitions(random, history)
    if random.random() < 0.2:
        history = replace(history, options={**history.options, "delete.force-produce-changelog": "true"})
    if random.random() < 0.6:
        history = _with_an_order(random, history)
    drawing = _Drawing(random, history)
    operations: list[Json] = []
    for number, operation in enumerate(history.operations):
        operations.append(operation)
        drawing.see(operation)
        is_last = number == len(history.operations) - 1
        if random.random() < 0.45 or is_last:
            operations += drawing.statement(verbs)
    # Last, for what is refused ends the history.
    operations += drawing.against_the_order(verbs)
    return replace(history, operations=operations)


def among_waiting_rows(seed: int, history: History) -> History:
    """Return the history of a table with postponed buckets, whose reads merge the rows that wait, without most of its
    compactions, so that statements are made while rows wait. Those that rewrite buckets need one before.
    """
    random = Random(f"waiting {seed}")
    options = {**history.options, "postpone.merge-on-read": "true"}
    operations = []
    for operation, following in pairwise([*history.operations, {"verb": "end"}]):
        is_needed = operation["verb"] != "compact" or _rewrites_buckets(history, following)
        if is_needed or random.random() < 0.3:
            operations.append(_without_late_updates(history, operation))
    return replace(history, options=options, operations=operations)


def _without_late_updates(history: History, operation: Json) -> Json:
    """Return a write in which no `-U` can be newer than the row that a statement deletes: it would end the removal
    (docs/semantics/row-changes.md#rows-without-effect).
    """
    if history.options.get("merge-engine") != "partial-update" or "sequence.field" not in history.options:
        return operation
    rows = [row | {"_kind": {"-U": "-D"}.get(row["_kind"], row["_kind"])} for row in operation.get("rows", [])]
    return operation | {"rows": rows} if rows else operation


def _rewrites_buckets(history: History, operation: Json) -> bool:
    if operation["verb"] not in ("delete", "replace") or columns_of(operation["where"]) <= {*history.partition_keys}:
        return False
    schema = Schema((), tuple(history.primary_keys), tuple(history.partition_keys), dict(history.options))
    if operation["verb"] == "delete":
        return not takes_deletes(schema)
    is_plain = schema.options.get("merge-engine", "deduplicate") == "deduplicate"
    return not (is_plain and takes_deletes(schema) and "sequence.field" not in schema.options)


def _with_partitions(random: Random, history: History) -> History:
    type_ = random.choice(["INT", "STRING"])
    # No slash: with one, every lookup of Java fails.
    of_type: dict[str, list[list[Any]]] = {"INT": [[1, 2], [1, 2, 3]], "STRING": [["x", "y"], ["x", "y y", "ä"]]}
    values = random.choice(of_type[type_])
    operations = [
        operation | {"rows": [{"_kind": row["_kind"], "z": random.choice(values), **row} for row in operation["rows"]]}
        if "rows" in operation
        else operation
        for operation in history.operations
    ]
    return replace(
        history,
        fields=[{"name": "z", "type": f"{type_} NOT NULL"}, *history.fields],
        primary_keys=["z", *history.primary_keys],
        partition_keys=["z"],
        operations=operations,
    )


def _with_an_order(random: Random, history: History) -> History:
    """Let a column of the table order the versions of a key, where the table has none and keeps its columns."""
    options = history.options
    engine = options.get("merge-engine", "deduplicate")
    is_free = not any(name.startswith("fields.") for name in options) and "sequence.field" not in options
    if engine not in ("deduplicate", "partial-update") or not is_free:
        return history
    if any(operation["verb"] == "alter" for operation in history.operations):
        return history
    taken = {*history.primary_keys, options.get("rowkind.field")}
    columns = [each["name"] for each in history.fields if each["name"] not in taken and each["type"] in _COMPARED]
    return replace(history, options={**options, "sequence.field": random.choice(columns)}) if columns else history


class _Drawing:
    """What is drawn at one point of a history; `see` brings it behind an operation."""

    def __init__(self, random: Random, history: History) -> None:
        self._random = random
        self._history = history
        self._types = {each["name"]: each["type"].removesuffix(" NOT NULL") for each in history.fields}
        self._rows = [row for operation in history.operations for row in operation.get("rows", [])]
        self._options = dict(history.options)
        self._waits = int(history.options.get("bucket", "1")) == WAITING

    def see(self, operation: Json) -> None:
        for change in operation.get("changes", []):
            name = change.get("column")
            match change["op"]:
                case "add-column" | "update-type":
                    self._types[name] = change["type"]
                case "drop-column":
                    del self._types[name]
                case "rename-column":
                    self._types = {change["to"] if each == name else each: t for each, t in self._types.items()}

    def statement(self, verbs: Sequence[str]) -> list[Json]:
        """Return a statement, and what the table needs before and after it."""
        legal = [verb for verb in verbs if self._is_legal(verb)]
        if not legal or not self._rows:
            return []
        return self._beside_compactions(self._made(self._random.choice(legal)))

    def against_the_order(self, verbs: Sequence[str]) -> list[Json]:
        """Return a change that may give rows lower values in the columns that order versions, if there are such."""
        names = sorted(self._ordering() & self._types.keys())
        if "update" not in verbs or not self._takes_updates or not names or not self._rows:
            return []
        random = self._random
        if random.random() < 0.4 and not self._waits:
            return [{"verb": "merge", "clauses": ["update"], "rows": [self._new_rows(1)[0]]}]
        where = (
            self._condition() if random.random() < 0.5 else {"field": self._history.primary_keys[0], "op": "isNotNull"}
        )
        values = {name: self._value(name, is_great=False) for name in names}
        return self._beside_compactions({"verb": "update", "set": values, "where": where})

    def _beside_compactions(self, made: Json | None) -> list[Json]:
        if made is None:
            return []
        if not self._waits:
            return [made]
        # Row changes see no rows that wait, and rows of different writers have no order for Java.
        count = int(self._history.options["postpone.default-bucket-num"])
        moved: Json = {"verb": "compact", "strategy": "full", "buckets": count}
        return [moved, made, moved] if made["verb"] in (*ROW_CHANGES, "overwrite") else [made]

    @property
    def _engine(self) -> str:
        return self._options.get("merge-engine", "deduplicate")

    def _is_on(self, option: str) -> bool:
        return self._options.get(option) == "true"

    @property
    def _takes_deletes(self) -> bool:
        removes = self._engine == "deduplicate" or self._is_on(f"{self._engine}.remove-record-on-delete")
        return removes and not self._is_on("ignore-delete")

    @property
    def _takes_updates(self) -> bool:
        functions = any(option.endswith("aggregate-function") for option in self._options)
        return self._engine == "deduplicate" or (self._engine == "partial-update" and not functions)

    def _is_legal(self, verb: str) -> bool:
        match verb:
            case "drop":
                return bool(self._history.partition_keys)
            case "rescale":
                return not self._waits
            case "update":
                return self._takes_updates and bool(self._assigned())
        return True

    def _made(self, verb: str) -> Json | None:
        """Return a statement, None where the table does not take what was drawn."""
        random = self._random
        match verb:
            case "overwrite":
                return self._overwrite()
            case "replace":
                return self._replacement()
            case "merge":
                return self._merge()
            case "drop":
                return {"verb": verb, "partitions": [self._partition() for _ in range(random.choice([1, 1, 2]))]}
            case "rescale":
                dynamic = self._options["bucket"] == "-1"
                return {"verb": verb, "buckets": None if dynamic else random.choice([1, 2, 3, 4])}
            case "delete":
                return {"verb": verb, "where": self._condition()}
            case "update":
                values, where = self._assigned(), self._condition()
                return {"verb": verb, "set": values, "where": where} if values else None
        return {"verb": verb}

    def _overwrite(self) -> Json:
        random = self._random
        rows = self._new_rows(random.choice([1, 2, 4]))
        how = random.choice(["all", "dynamic", "partition"]) if self._history.partition_keys else "all"
        made: Json = {"verb": "overwrite", "rows": rows, "partition": None, "dynamic": how == "dynamic"}
        if how == "partition":
            partition = self._partition()
            made |= {"partition": partition, "rows": [row | partition for row in rows]}
        return made | ({"commitUser": "writer", "writeId": 0} if self._waits else {})

    def _replacement(self) -> Json | None:
        random = self._random
        partitions, keys = self._history.partition_keys, self._history.primary_keys
        column = random.choice([*(partitions or keys)] if random.random() < 0.3 else [*keys])
        if not self._may_replace(column):
            return None
        values = [row[column] for row in random.choices(self._rows, k=random.choice([1, 2]))]
        rows = [row | {column: random.choice(values)} for row in self._new_rows(random.choice([1, 2, 3]))]
        return {"verb": "replace", "where": {"field": column, "op": "in", "value": values}, "rows": rows}

    def _merge(self) -> Json | None:
        random = self._random
        clauses = ["insert"] * (random.random() < 0.7)
        if self._takes_updates and random.random() < 0.6:
            clauses.insert(0, "update")
        elif self._takes_deletes and random.random() < 0.7:
            clauses.insert(0, "delete")
        if not clauses:
            return None
        rows = self._new_rows(random.choice([1, 2, 4]), is_great=random.random() < 0.8)
        return {"verb": "merge", "clauses": clauses, "rows": [*{repr(self._key(row)): row for row in rows}.values()]}

    def _may_replace(self, column: str) -> bool:
        if column in self._history.partition_keys:
            return True
        if self._types[column] not in _COMPARED:
            return False
        if self._engine == "deduplicate" and "sequence.field" not in self._options and self._takes_deletes:
            return True
        return self._engine != "first-row" and not self._is_on("deletion-vectors.enabled")

    def _key(self, row: Json) -> Json:
        return {name: row[name] for name in self._history.primary_keys}

    def _partition(self) -> Json:
        row = self._random.choice(self._rows)
        return {name: row[name] for name in self._history.partition_keys}

    def _new_rows(self, count: int, *, is_great: bool = False) -> list[Json]:
        """Return rows with keys of the history; `is_great`: with values that a merge takes in any order."""
        rows = []
        for _ in range(count):
            # Any partition with any key.
            row: Json = {"_kind": "+I", **self._key(self._random.choice(self._rows)), **self._partition()}
            for name in self._types:
                if name == self._options.get("rowkind.field"):
                    row[name] = "+I"
                elif name not in row:
                    is_null = not is_great and self._random.random() < 0.2
                    row[name] = None if is_null else self._value(name, is_great=is_great)
            rows.append(row)
        return rows

    def _value(self, name: str, *, is_great: bool) -> Any:
        type_ = self._types[name]
        if is_great and name in self._ordering():
            return _GREATEST.get(type_, 9)
        return random_value(self._random, type_)

    def _ordering(self) -> set[str]:
        """Return the columns that say which of two rows is the later one."""
        named = self._options.get("sequence.field", "").split(",")
        for option in self._options:
            if option.endswith(".sequence-group"):
                named += option.removeprefix("fields.").removesuffix(".sequence-group").split(",")
        return set(named)

    def _assigned(self) -> Json:
        """Return new values of some columns; mostly values that the merge engine takes."""
        random, ordering = self._random, self._ordering()
        simple = [
            name
            for name, type_ in self._types.items()
            if name not in self._history.primary_keys and type_ in SIMPLE and name != self._options.get("rowkind.field")
        ]
        plain = [name for name in simple if name not in ordering]
        names = random.sample(plain, min(len(plain), random.choice([1, 1, 2])))
        in_groups = any(option.endswith(".sequence-group") for option in self._options)
        if in_groups or random.random() < 0.3:
            names += [name for name in simple if name in ordering]
        is_rare = random.random() < 0.3
        nulls = self._engine == "deduplicate"
        return {
            name: None if nulls and name in plain and random.random() < 0.2 else self._value(name, is_great=not is_rare)
            for name in names
        }

    def _condition(self) -> Json:
        random = self._random
        if random.random() < 0.15:
            return {"or": [self._comparison(), self._comparison()]}
        return self._comparison()

    def _comparison(self) -> Json:
        random = self._random
        columns = [name for name, type_ in self._types.items() if type_ in _COMPARED]
        name = random.choice([*columns, *[key for key in self._history.primary_keys if key in columns] * 2])
        if name not in self._history.primary_keys and random.random() < 0.2:
            return {"field": name, "op": random.choice(["isNull", "isNotNull"])}
        known = [row[name] for row in self._rows if row.get(name) is not None]
        values = known if known and random.random() < 0.8 else [random_value(random, self._types[name])]
        op = random.choice(["=", "=", "=", "<>", "<", "<=", ">", ">=", "in"])
        drawn = random.choices(values, k=2)
        return {"field": name, "op": op, "value": drawn if op == "in" else drawn[0]}
