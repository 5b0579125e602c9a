"""Random histories: legal tables, few keys, values that meet, compactions at random points.

Source: docs/semantics/tables.md#constraints.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from tests.oracle.history import History, Json

NUMBERS = ("INT", "BIGINT", "SMALLINT", "TINYINT", "DOUBLE", "FLOAT", "DECIMAL(6, 2)", "DECIMAL(20, 3)")
TEXTS = ("STRING", "VARCHAR(10)")
SIMPLE = (*NUMBERS, *TEXTS, "BOOLEAN", "DATE", "TIMESTAMP(3)", "BYTES")
ROWS = "ARRAY<ROW<id INT, v STRING>>"
NESTED = ("ARRAY<INT>", "ARRAY<STRING>", "MAP<STRING, INT>", ROWS)
WIDER = {"INT": "BIGINT", "SMALLINT": "INT", "TINYINT": "INT", "FLOAT": "DOUBLE", "VARCHAR(10)": "STRING"}
ANY = ("last_value", "last_non_null_value", "first_value", "first_non_null_value")
RETRACTABLE = {"last_value", "last_non_null_value", "sum", "product", "collect", "merge_map", "nested_update"}
# What has more rules comes more often.
ENGINES = ("deduplicate", "partial-update", "partial-update", "aggregation", "aggregation", "first-row")
_STRINGS = ("", " ", "a", "b", "ab", "a,b", "ä", "b;a", "a;b;a")


@dataclass
class _Draft:
    """A table in the making; `columns` are those of the moment, key columns first."""

    columns: dict[str, str]
    keys: list[str]
    partitions: list[str]
    options: dict[str, str] = field(default_factory=dict)
    sequence: set[str] = field(default_factory=set)
    kinds: tuple[str, ...] = ("+I",)


def histories(first_seed: int, count: int) -> Iterator[tuple[int, History]]:
    """Yield `count` histories with their seeds."""
    return ((seed, generate(seed)) for seed in range(first_seed, first_seed + count))


def stored_otherwise(seed: int, history: History) -> History:
    """Return the history with options that say how rows are stored and buffered, which changes no answer."""
    random = Random(f"stored {seed}")
    types = {each["name"]: each["type"].removesuffix(" NOT NULL") for each in history.fields}
    # Keys are never dropped, which an index would forbid.
    columns = [name for name in history.primary_keys if types[name] in ("INT", "BIGINT", "DATE", *TEXTS)]
    formats = random.choice(["parquet", "orc", "avro", "per level"])
    options = {"file.format.per.level": "0:avro,5:orc"} if formats == "per level" else {"file.format": formats}
    options["metadata.stats-mode"] = random.choice(["none", "counts", "truncate(1)", "full"])
    options["data-file.thin-mode"] = random.choice(["true", "false"])
    if random.random() < 0.5:
        options |= {"write-buffer-size": "1 b", "local-sort.max-num-file-handles": "3"}
    if columns and random.random() < 0.5:
        options["file-index.bloom-filter.columns"] = random.choice(columns)
    if random.random() < 0.3:
        options |= {"parquet.page.row.count.limit": "1", "parquet.enable.dictionary": "false"}
    if random.random() < 0.3:
        options |= {"tag.automatic-creation": "process-time", "tag.creation-period-duration": "1 min"}
        options["tag.num-retained-max"] = random.choice(["1", "3"])
    return replace(history, options={**options, **history.options})


def with_expiry(seed: int, history: History, *, expires_changelogs: bool = True) -> History:
    """Return the history with tags, consumers and expiry between its steps, some of it by the other engine.

    `behind` counts snapshots from the latest back. Where Java takes part, which lets changelogs expire with each commit
    and not when it is asked, none may be old enough.
    """
    random = Random(f"expiry {seed}")
    options = {"lakehouse.read.grace": "0 s"}
    if random.random() < 0.6:
        # Longer than snapshots, so changelogs outlive them.
        count = random.choice(["4", "5", "7", "100"])
        options |= {"changelog.time-retained": "2 h", "changelog.num-retained.min": "1"}
        options["changelog.num-retained.max"] = count if expires_changelogs else "100"
    tags: list[str] = []
    operations: list[Json] = []
    for number, operation in enumerate(history.operations):
        operations.append(operation)
        for verb, chance in (("create-tag", 0.25), ("delete-tag", 0.1), ("consumer", 0.25), ("expire", 0.45)):
            if random.random() >= chance:
                continue
            made: Json = {"verb": verb, "by": random.choice(["writer", "other"])}
            match verb:
                case "create-tag":
                    tags.append(f"t{number}")
                    made |= {"tag": tags[-1], "behind": random.choice([0, 0, 1, 2])}
                case "delete-tag" if tags:
                    made["tag"] = tags.pop(random.randrange(len(tags)))
                case "consumer":
                    # One that has read all waits for the next snapshot; None: it is given up.
                    made |= {"consumer": random.choice("xy"), "behind": random.choice([-1, 0, 1, 2, None])}
                case "expire":
                    made["retainMax"] = random.choice([1, 1, 2, 3])
                case _:
                    continue
            operations.append(made)
    return replace(history, operations=operations, options={**history.options, **options})


def with_dynamic_buckets(seed: int, history: History) -> History:
    """Return the history in a table with dynamic buckets of few keys."""
    random = Random(f"dynamic {seed}")
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": random.choice(["1", "1", "2", "3"])}
    if random.random() < 0.2:
        options["dynamic-bucket.max-buckets"] = random.choice(["1", "2"])
    return replace(history, options={**history.options, **options})


def with_postponed_buckets(seed: int, history: History) -> History:
    """Return the history in a table with postponed buckets: a write does not compact, and compactions follow it.

    All writes are those of one writer, so that Java moves their rows in the order of the writes too.
    """
    random = Random(f"postponed {seed}")
    count = random.choice(["1", "2", "3"])
    options = {name: value for name, value in history.options.items() if name != "write-only"}
    options |= {"bucket": "-2", "postpone.default-bucket-num": count}
    operations: list[Json] = []
    for operation in history.operations:
        how = operation.get("strategy", "none")
        if operation["verb"] == "write":
            rows = {name: value for name, value in operation.items() if name != "compact"}
            operations.append({**rows, "commitUser": "writer", "writeId": 0})
            # Rows are seen after a compaction only.
            how = operation.get("compact", random.choice(["none", "minor", "full"]))
        elif operation["verb"] != "compact":
            operations.append(operation)
        if how != "none":
            operations.append({"verb": "compact", "strategy": how, "buckets": int(count)})
    operations.append({"verb": "compact", "strategy": "full", "buckets": int(count)})
    return replace(history, options=options, operations=operations)


def with_odd_floats(seed: int, history: History) -> History:
    """Return the history with NaN, infinities and zeros of both signs among its FLOAT and DOUBLE values."""
    random = Random(f"floats {seed}")

    def odd(value: Any) -> Any:
        if not isinstance(value, float) or random.random() < 0.4:
            return value
        return random.choice(["NaN", "NaN", "NaN", "Infinity", "-Infinity", 0.0, -0.0])

    operations = [
        operation | {"rows": [{name: odd(value) for name, value in row.items()} for row in operation["rows"]]}
        if "rows" in operation
        else operation
        for operation in history.operations
    ]
    return replace(history, operations=operations)


def generate(seed: int) -> History:
    """Return the history of a seed, always the same one."""
    random = Random(seed)
    draft = _table(random)
    _ordered(random, draft)
    engine = random.choice(ENGINES)
    match engine:
        case "deduplicate":
            _deduplicate(random, draft)
        case "first-row":
            _first_row(random, draft)
        case "aggregation":
            _aggregation(random, draft)
        case "partial-update":
            _partial_update(random, draft)
    _produced(random, draft, engine)
    fields = [{"name": name, "type": type_} for name, type_ in draft.columns.items()]
    options = dict(draft.options)
    operations = _operations(random, draft)
    return History(fields, draft.keys, draft.partitions, options, operations)


def _table(random: Random) -> _Draft:
    keys = {"k": random.choice(["INT", "INT", "BIGINT", "STRING", "DATE", "DECIMAL(6, 2)"]) + " NOT NULL"}
    if random.random() < 0.2:
        keys["j"] = random.choice(["INT", "STRING", "BOOLEAN"]) + " NOT NULL"
    partitions = {}
    if random.random() < 0.2:
        partitions["p"] = random.choice(["INT", "STRING"]) + " NOT NULL"
    types = [random.choice(SIMPLE) for _ in range(random.randint(1, 4))]
    draft = _Draft({**partitions, **keys}, [*partitions, *keys], list(partitions))
    for name, type_ in zip("abcdef", types, strict=False):
        draft.columns[name] = type_
    draft.options["bucket"] = random.choice(["1", "1", "2"])
    draft.options["num-sorted-run.compaction-trigger"] = random.choice(["2", "3", "3", "5"])
    if random.random() < 0.2:
        draft.options["num-levels"] = random.choice(["3", "4", "7"])
    if random.random() < 0.1:
        draft.options["write-only"] = "true"
    return draft


def _ordered(random: Random, draft: _Draft) -> None:
    """Add sequence fields to a third of the tables."""
    if random.random() < 0.65:
        return
    names = ["q", "r"][: random.choice([1, 1, 2])]
    for name in names:
        draft.columns[name] = random.choice(["INT", "BIGINT", "STRING", "TIMESTAMP(3)", "DOUBLE"])
        draft.sequence.add(name)
    draft.options["sequence.field"] = ",".join(names)
    if random.random() < 0.25:
        draft.options["sequence.field.sort-order"] = "descending"


def _values(draft: _Draft) -> list[str]:
    return [name for name in draft.columns if name not in draft.keys and name not in draft.sequence]


def _unordered_table(draft: _Draft) -> None:
    for name in draft.sequence:
        del draft.columns[name]
    draft.sequence.clear()
    for option in ("sequence.field", "sequence.field.sort-order"):
        draft.options.pop(option, None)


def _deduplicate(random: Random, draft: _Draft) -> None:
    draft.kinds = ("+I", "+I", "+U", "-U", "-D")
    for option, chance in (("ignore-delete", 0.15), ("ignore-update-before", 0.1)):
        if random.random() < chance:
            draft.options[option] = "true"
    if random.random() < 0.1:
        draft.columns["op"] = "STRING"
        draft.options["rowkind.field"] = "op"


def _first_row(random: Random, draft: _Draft) -> None:
    _unordered_table(draft)
    draft.options["merge-engine"] = "first-row"
    if random.random() < 0.4:
        draft.options["ignore-delete"] = "true"
        draft.kinds = ("+I", "+U", "-U", "-D")


def _functions(random: Random, type_: str) -> tuple[str, ...]:
    if type_ in NUMBERS:
        return (*ANY, "sum", "sum", "sum", "product", "min", "max")
    if type_ in TEXTS:
        return (*ANY, "min", "max", *(["listagg"] * 3 if type_ == "STRING" else []))
    if type_ == "BOOLEAN":
        return (*ANY, "bool_and", "bool_or")
    if type_ in ("DATE", "TIMESTAMP(3)"):
        return (*ANY, "min", "max")
    return {
        "ARRAY<INT>": ("collect",),
        "ARRAY<STRING>": ("collect",),
        "MAP<STRING, INT>": ("merge_map",),
        ROWS: ("nested_update", "nested_partial_update", "nested_update"),
    }.get(type_, ANY)


def _aggregated(random: Random, draft: _Draft, column: str, *, ignores: float) -> None:
    """Give a column a function with its options."""
    name = random.choice(_functions(random, draft.columns[column]))
    prefix = f"fields.{column}."
    draft.options[prefix + "aggregate-function"] = name
    if name in ("collect", "listagg") and random.random() < 0.4:
        draft.options[prefix + "distinct"] = "true"
    if name == "listagg" and random.random() < 0.4:
        draft.options[prefix + "list-agg-delimiter"] = ";"
    if name == "nested_partial_update" or (name == "nested_update" and random.random() < 0.6):
        draft.options[prefix + "nested-key"] = "id"
    if name == "nested_update" and random.random() < 0.3:
        limit = random.choice(["1", "2"])
        # Where late rows meet what was kept by key, Java's hash order says which of several stay.
        is_open = prefix + "nested-key" in draft.options and draft.options["merge-engine"] == "partial-update"
        draft.options[prefix + "count-limit"] = "1" if is_open else limit
    if random.random() < (ignores if name in RETRACTABLE else 2 * ignores):
        draft.options[prefix + "ignore-retract"] = "true"


def _aggregation(random: Random, draft: _Draft) -> None:
    draft.options["merge-engine"] = "aggregation"
    removes = random.random() < 0.2
    retracts = random.random() < 0.5
    for name in "mn":
        if random.random() < 0.5:
            draft.columns[name] = random.choice([ROWS, *NESTED])
    for column in _values(draft):
        if random.random() < 0.9:
            _aggregated(random, draft, column, ignores=0 if removes else 0.5 if retracts else 0.05)
    if random.random() < 0.1:
        draft.options["fields.default-aggregate-function"] = random.choice(ANY)
    if removes:
        draft.options["aggregation.remove-record-on-delete"] = "true"
        draft.kinds = ("+I", "+I", "+U", "-D")
    elif random.random() < 0.1:
        draft.options["ignore-delete"] = "true"
        draft.kinds = ("+I", "-U", "-D")
    elif retracts and all(_retracts(draft, column) for column in _values(draft)):
        draft.kinds = ("+I", "+I", "+U", "-U", "-D")


def _retracts(draft: _Draft, column: str) -> bool:
    prefix = f"fields.{column}."
    name = draft.options.get(prefix + "aggregate-function") or draft.options.get(
        "fields.default-aggregate-function", "last_non_null_value"
    )
    return name in RETRACTABLE or prefix + "ignore-retract" in draft.options


def _partial_update(random: Random, draft: _Draft) -> None:
    draft.options["merge-engine"] = "partial-update"
    choice = random.random()
    if choice < 0.45:
        _groups(random, draft)
    elif choice < 0.6:
        draft.options["ignore-delete"] = "true"
        draft.kinds = ("+I", "+I", "-U", "-D")
    elif choice < 0.8:
        draft.options["partial-update.remove-record-on-delete"] = "true"
        draft.kinds = ("+I", "+I", "-U", "-D")


def _groups(random: Random, draft: _Draft) -> None:
    """Split the values over one or two sequence groups; some stay outside."""
    values = _values(draft)
    if random.random() < 0.4:
        draft.columns["m"] = random.choice(NESTED)
        values.append("m")
    groups = []
    for number in range(random.choice([1, 1, 2])):
        names = [f"g{number}", f"h{number}"][: random.choice([1, 1, 2])]
        protected = [name for name in values if random.random() < 0.7] or values[:1]
        values = [name for name in values if name not in protected]
        if not protected:
            break
        for name in names:
            draft.columns[name] = random.choice(["INT", "INT", "BIGINT", "STRING", "TIMESTAMP(3)"])
        draft.options[f"fields.{','.join(names)}.sequence-group"] = ",".join(protected)
        groups.append((names, protected))
        for name in protected:
            if random.random() < 0.5:
                _aggregated(random, draft, name, ignores=0.5)
    # Anywhere in the row: columns are treated in the order of the schema.
    columns = [item for item in draft.columns.items() if item[0] not in draft.keys]
    random.shuffle(columns)
    draft.columns = {name: draft.columns[name] for name in draft.keys} | dict(columns)
    if random.random() < 0.3:
        draft.options["partial-update.remove-record-on-sequence-group"] = ",".join(groups[0][0])
    if random.random() < 0.6 and all(
        _retracts(draft, name) or f"fields.{name}.aggregate-function" not in draft.options for name in draft.columns
    ):
        draft.kinds = ("+I", "+I", "+U", "-U", "-D")


def _produced(random: Random, draft: _Draft, engine: str) -> None:
    """Choose a changelog producer and deletion vectors among what the engine may have."""
    vectors = engine != "first-row" and random.random() < 0.25
    producers = ["none", "input", "lookup", "lookup", "full-compaction"]
    if engine == "first-row":
        producers = ["none", "lookup"]
    elif vectors:
        producers = ["none", "input", "lookup"]
    producer = random.choice(producers)
    if vectors:
        draft.options["deletion-vectors.enabled"] = "true"
    if producer != "none":
        draft.options["changelog-producer"] = producer
    loose = any(name in str(draft.options) for name in ("nested_", "collect"))
    if producer in ("lookup", "full-compaction") and not loose and random.random() < 0.4:
        draft.options["changelog-producer.row-deduplicate"] = "true"
        if random.random() < 0.5 and _values(draft):
            draft.options["changelog-producer.row-deduplicate-ignore-fields"] = random.choice(_values(draft))


def _operations(random: Random, draft: _Draft) -> list[Json]:
    keys = [
        {name: _key(random, draft.columns[name]) for name in draft.keys} for _ in range(random.choice([1, 2, 4, 6]))
    ]
    alters = random.random() < 0.25
    operations: list[Json] = []
    for number in range(random.randint(2, 8)):
        choice = random.random()
        if choice < 0.12 and number:
            operations.append({"verb": "compact", "strategy": random.choice(["full", "full", "minor"])})
        elif choice < 0.3 and alters and (changes := _alteration(random, draft, keys)):
            operations.append({"verb": "alter", "changes": changes})
        else:
            rows = [_row(random, draft, keys) for _ in range(random.choice([1, 2, 3, 5, 8]))]
            compact = random.choice(["none", "none", "none", "none", "minor", "full"])
            more = {} if compact == "none" or "write-only" in draft.options else {"compact": compact}
            operations.append({"verb": "write", "rows": rows, **more})
    return operations


def _row(random: Random, draft: _Draft, keys: list[Json]) -> Json:
    row: Json = {"_kind": random.choice(draft.kinds)}
    row |= random.choice(keys)
    rare = random.random() < 0.02
    for name, type_ in draft.columns.items():
        if name == draft.options.get("rowkind.field"):
            row[name] = row["_kind"]
        elif name not in draft.keys:
            row[name] = None if random.random() < 0.25 else _value(random, type_, rare)
    if "rowkind.field" in draft.options:
        row["_kind"] = "+I"
    return row


def _key(random: Random, type_: str) -> Any:
    bare = type_.removesuffix(" NOT NULL")
    if bare == "STRING":
        return random.choice(["a", "b", "aa", "ä", "key longer than seven"])
    return _value(random, bare, False)


def random_value(random: Random, type_: str) -> Any:
    """Return a value of a type, mostly one that others have too."""
    return _value(random, type_, False)


def _value(random: Random, type_: str, rare: bool) -> Any:
    small = random.choice([-2, -1, 1, 1, 2, 2, 3, 4, 7])
    match type_:
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            return (
                2 ** {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}[type_] - 3 + small % 3 if rare else small
            )
        case "DOUBLE" | "FLOAT":
            return small / 2
        case "DECIMAL(6, 2)":
            return f"{small * (999 if rare else 1)}.50" if small > 0 or not rare else "-9999.99"
        case "DECIMAL(20, 3)":
            return f"{small}.125"
        case "STRING" | "VARCHAR(10)":
            return random.choice(_STRINGS)
        case "BOOLEAN":
            return small > 0
        case "DATE":
            return f"2024-01-0{abs(small)}"
        case "TIMESTAMP(3)":
            return f"2024-01-0{abs(small)}T00:00:00.{abs(small)}00"
        case "BYTES":
            return random.choice(["", "00", "ff", "0a0b"])
        case "ARRAY<INT>":
            return [random.choice([1, 2, 3, None]) for _ in range(random.randint(0, 3))]
        case "ARRAY<STRING>":
            return [random.choice(["x", "y", "z"]) for _ in range(random.randint(0, 3))]
        case "MAP<STRING, INT>":
            return [[key, random.choice([1, 2, None])] for key in random.sample(["x", "y", "z"], random.randint(0, 3))]
    assert type_ == ROWS, type_
    return [
        {"id": random.choice([1, 1, 2, 2, 3, None]), "v": random.choice(["x", "y", None])}
        if random.random() < 0.9
        else None
        for _ in range(random.randint(0, 3))
    ]


def _alteration(random: Random, draft: _Draft, keys: list[Json]) -> list[Json] | None:
    """Return one change of the schema that is legal now, and make it."""
    name = random.choice(list(draft.columns))
    type_ = draft.columns[name]
    named = any(
        name in value.split(",") or name in key.removeprefix("fields.").rpartition(".")[0].split(",")
        for key, value in draft.options.items()
        if key.startswith("fields.") or "field" in key
    )
    match random.choice(["add", "add", "drop", "rename", "widen"]):
        case "add":
            new = f"n{len(draft.columns)}"
            if new in draft.columns:
                return None
            draft.columns[new] = random.choice(["INT", "STRING", "DOUBLE"])
            return [{"op": "add-column", "column": new, "type": draft.columns[new]}]
        case "drop" if name not in draft.keys and not named and len(draft.columns) > len(draft.keys) + 1:
            del draft.columns[name]
            return [{"op": "drop-column", "column": name}]
        case "rename" if name not in draft.keys and not named:
            new = name + "x"
            draft.columns = {new if each == name else each: kept for each, kept in draft.columns.items()}
            return [{"op": "rename-column", "column": name, "to": new}]
        case "widen" if name not in draft.keys and type_ in WIDER and name not in draft.sequence:
            draft.columns[name] = WIDER[type_]
            return [{"op": "update-type", "column": name, "type": WIDER[type_]}]
    return None
