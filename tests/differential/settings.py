"""Options in random histories that change when and what is compacted, what reads show, and what statements leave.

The model follows the picks of an engine, so that an option which only moves them needs nothing of it.
Source: docs/options.md, docs/semantics/tables.md#postponed-buckets.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from string import ascii_letters, digits
from typing import Any, Final

from tests.oracle.history import History, Json
from tests.oracle.table import WAITING

# By name: values that a table may have whatever else it has, mostly those that are not the default.
_OF_COMPACTIONS: Final = {
    "compaction.force-rewrite-all-files": ("true",),
    "compaction.force-up-level-0": ("true",),
    "compaction.incremental-size-threshold": ("1 b", "3 kb"),
    "compaction.max-size-amplification-percent": ("0", "60", "100000"),
    "compaction.optimization-interval": ("1 ms", "1 h"),
    "compaction.size-ratio": ("0", "50", "1000"),
    "compaction.total-size-threshold": ("3 kb", "1 mb"),
    "force-lookup": ("true",),
    "lookup-compact": ("gentle",),
    "lookup-compact.max-interval": ("1", "2", "4"),
    "num-sorted-run.stop-trigger": ("1", "4"),
}
# Java's core leaves these to its engines.
_OF_WRITES: Final = {
    "commit.force-compact": ("true",),
    "lookup-wait": ("false",),
    "full-compaction.delta-commits": ("1", "2"),
}
_OF_HASHES: Final = {"INT": ("mod", "hive"), "BIGINT": ("mod", "hive"), "STRING": ("hive",), "DATE": ("hive",)}
_LATER: Final = {
    "INT": 2_147_000_000,
    "BIGINT": 4_102_444_800_000,
    "TIMESTAMP(3)": "2100-01-01T00:00:00.000",
}
_PLACES: Final = "postpone.batch-write-fixed-bucket"

# Keys that no other row has.
_OTHER_KEYS: Final = {
    "INT": (96, 97, 98, 99),
    "BIGINT": (96, 97, 98, 99),
    "STRING": ("w", "x", "y", "z"),
    "DATE": ("2024-02-01", "2024-02-02", "2024-02-03", "2024-02-04"),
    "DECIMAL(6, 2)": ("96.50", "97.50", "98.50", "99.50"),
    "BOOLEAN": (True, True, True, True),
}


def with_settings(seed: int, history: History) -> History:
    """Return the history in a table with further options."""
    random = Random(f"settings {seed}")
    if random.random() < 0.5:
        history = _with_a_large_run(random, history)
    options = dict(history.options)
    for name, values in {**_OF_COMPACTIONS, **_OF_WRITES}.items():
        if random.random() < 0.15:
            options[name] = random.choice(values)
    for name, value, chance in (
        ("overwrite-upgrade", "false", 0.4),
        ("snapshot.ignore-empty-commit", random.choice(["true", "false"]), 0.3),
        ("deletion-vectors.merge-on-read", "true", 0.5),
        ("deletion-vectors.bitmap64", "true", 0.3),
    ):
        if random.random() < chance:
            options[name] = value
    if random.random() < 0.35:
        # The oldest run stays where it is, and others come to the levels below it.
        options |= {"compaction.max-size-amplification-percent": "100000", "compaction.size-ratio": "0"}
        options |= {"num-sorted-run.compaction-trigger": random.choice(["2", "3"]), "num-levels": random.choice("57")}
    if options.get("changelog-producer") == "lookup":
        options.pop("full-compaction.delta-commits", None)
    if options.get("bucket") == "-1":
        _dynamic(random, options)
    elif options.get("bucket") == str(WAITING):
        _postponed(random, options)
    _hashed(random, history, options)
    return replace(history, options=options)


def with_placed_rows(seed: int, history: History) -> History:
    """Return the history of a table with postponed buckets, whose partitions get as many of them as their first rows
    ask for, and whose writes bring rows into them, mostly, or from one operation to another. Java's core does not.
    """
    random = Random(f"placed {seed}")
    options = {**history.options, _PLACES: random.choice(["true", "true", "false"])}
    if random.random() < 0.8:
        del options["postpone.default-bucket-num"]
        name = random.choice(["target-row-num-per-bucket", "target-size-per-bucket"])
        options[f"postpone.{name}"] = random.choice(["1", "2", "3"]) + " kb" * name.startswith("target-size")
    operations: list[Json] = []
    for operation in history.operations:
        if random.random() < 0.15:
            value = random.choice(["true", "false"])
            operations.append({"verb": "alter", "changes": [{"op": "set-option", "key": _PLACES, "value": value}]})
        operations.append(operation)
    return replace(history, options=options, operations=operations)


def with_small_files(seed: int, history: History) -> History:
    """Return the history in a table whose runs are in several files, each of few rows or bytes."""
    random = Random(f"small {seed}")
    options = dict(history.options)
    if random.random() < 0.7:
        options["target-file-row-num"] = random.choice(["1", "2", "3"])
    if len(options) == len(history.options) or random.random() < 0.3:
        options["target-file-size"] = random.choice(["1 b", "1 kb", "2 kb"])
    return replace(history, options=options)


def with_old_rows(seed: int, history: History) -> History:
    """Return the history in a table some of whose rows are so old that compactions drop them, if a column has a time.

    Times are those of 1970 and 2024, or of 2038 and later: the clock says nothing else.
    """
    random = Random(f"old {seed}")
    types = {each["name"]: each["type"].removesuffix(" NOT NULL") for each in history.fields}
    changed = {change.get("column") for each in history.operations for change in each.get("changes", [])}
    names = [
        name
        for name, type_ in types.items()
        if type_ in _LATER
        and name not in {*history.primary_keys, *changed}
        and history.options.get(f"fields.{name}.aggregate-function") not in ("sum", "product")
    ]
    if not names:
        return history
    name = random.choice(names)
    operations = [
        operation | {"rows": [_aged(random, row, name, _LATER[types[name]]) for row in operation["rows"]]}
        if "rows" in operation
        else operation
        for operation in history.operations
    ]
    history = _with_marks(random, history)
    expiry = {"record-level.expire-time": "1 d", "record-level.time-field": name}
    if random.random() < 0.4:
        return replace(history, options={**history.options, **expiry}, operations=operations)
    # Until then compactions keep old rows, above level 0 too.
    changes = [{"op": "set-option", "key": key, "value": value} for key, value in expiry.items()]
    operations.insert(random.randrange(len(operations) + 1), {"verb": "alter", "changes": changes})
    return replace(history, operations=operations)


def _with_marks(random: Random, history: History) -> History:
    """Let half of the tables mark rows that are not read any more, where their statements allow it."""
    options = history.options
    producer, engine = (options.get(name) for name in ("changelog-producer", "merge-engine"))
    is_legal = engine != "first-row" and producer != "full-compaction"
    if not is_legal or any(each["verb"] == "replace" for each in history.operations) or random.random() < 0.5:
        return history
    return replace(history, options={**options, "deletion-vectors.enabled": "true"})


def _aged(random: Random, row: Json, name: str, later: Any) -> Json:
    return row | {name: later} if row[name] is not None and random.random() < 0.6 else row


def _with_a_large_run(random: Random, history: History) -> History:
    """Return the history with a first write that makes the oldest run much larger than the others, so that they are
    compacted without it, and with writes of single keys of it behind.
    """
    types = {each["name"]: each["type"].removesuffix(" NOT NULL") for each in history.fields}
    first = next((number for number, each in enumerate(history.operations) if each.get("rows")), None)
    names = [name for name in history.primary_keys if name not in history.partition_keys]
    if first is None:
        return history

    def row(number: int) -> Json:
        made = random.choice(operation["rows"]) | {name: _OTHER_KEYS[types[name]][number] for name in names}
        kinds = {"_kind": "+I"}
        if "rowkind.field" in history.options:
            kinds[history.options["rowkind.field"]] = "+I"
        return made | {name: operation["rows"][0][name] for name in history.partition_keys} | kinds

    operation = history.operations[first]
    text = "".join(random.choices(ascii_letters + digits, k=9000))
    rows = [*operation["rows"], *(row(number) for number in range(3)), row(3) | {"large": text}]
    behind = [operation | {"rows": [row(random.randrange(3))]} for _ in range(random.choice([1, 3, 4]))]
    operations = [*history.operations[:first], operation | {"rows": rows}, *behind, *history.operations[first + 1 :]]
    return replace(history, fields=[*history.fields, {"name": "large", "type": "STRING"}], operations=operations)


def _dynamic(random: Random, options: dict[str, str]) -> None:
    for name in ("dynamic-bucket.initial-buckets", "dynamic-bucket.assigner-parallelism"):
        if random.random() < 0.3:
            options[name] = random.choice(["1", "2", "3"])


def _postponed(random: Random, options: dict[str, str]) -> None:
    if random.random() < 0.6:
        options["postpone.merge-on-read"] = "true"


def _hashed(random: Random, history: History, options: dict[str, str]) -> None:
    """Let another function choose the bucket of a key, where there is one for its type."""
    types = {each["name"]: each["type"].removesuffix(" NOT NULL") for each in history.fields}
    keys = [types[name] for name in history.primary_keys if name not in history.partition_keys]
    legal = _OF_HASHES.get(keys[0], ()) if len(keys) == 1 else ()
    if legal and options.get("bucket") != "-1" and random.random() < 0.3:
        options["bucket-function.type"] = random.choice(legal)
