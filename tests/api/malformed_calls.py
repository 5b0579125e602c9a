"""Random malformed calls of the front door: each ends in an answer or in a LakehouseError of one line.

`search(seed, calls, folder)` makes a small warehouse, then calls public methods with hostile arguments in the place of
one or two good ones. After each call: what failed has changed nothing, no temporary file lies about, every table opens,
verifies clean and, where the call answered, still takes a row.
"""

import inspect
import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

import lakehouse_core as lc

DAY: Final = date(2013, 1, 1)
LONG: Final = 17 << 20
_LONGEST_MESSAGE: Final = 2_500

ORDERS: Final = {"dt": "DATE NOT NULL", "id": "BIGINT NOT NULL", "status": "STRING", "amount": "DECIMAL(12, 2)"}
EVENTS: Final = {"id": "INT", "at": "TIMESTAMP(3)", "l": "ARRAY<INT>", "r": "ROW<a INT, b STRING>", "f": "DOUBLE"}


class Unspeakable:
    """Nothing can be asked of it."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")

    def __hash__(self) -> int:
        raise RuntimeError("no hash")

    def __bool__(self) -> bool:
        raise RuntimeError("no truth")

    def __len__(self) -> int:
        raise RuntimeError("no length")

    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError("no items")


def raising() -> Iterator[Any]:
    yield {"id": 1}
    raise RuntimeError("the source broke off")


def broken_reader() -> pa.RecordBatchReader:
    schema = pa.schema([("id", pa.int32())])

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"id": pa.array([1], pa.int32())})
        raise RuntimeError("the source broke off")

    return pa.RecordBatchReader.from_batches(schema, batches())


def self_containing() -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


# Name → how it is made, for some are used up by a look.
HOSTILE: Final[Mapping[str, Callable[[], Any]]] = {
    "None": lambda: None,
    "True": lambda: True,
    "0": lambda: 0,
    "-1": lambda: -1,
    "5": lambda: 5,
    "2**31": lambda: 2**31,
    "2**63": lambda: 2**63,
    "-2**63": lambda: -(2**63),
    "10**30": lambda: 10**30,
    "10**5000": lambda: 10**5000,
    "1.5": lambda: 1.5,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "Decimal(NaN)": lambda: Decimal("NaN"),
    "Decimal(sNaN)": lambda: Decimal("sNaN"),
    "complex": lambda: 3j,
    "bytes": lambda: b"dt",
    "bytes not UTF-8": lambda: b"\xff\xfe",
    "empty text": lambda: "",
    "blank": lambda: "  \t",
    "text": lambda: "x",
    "orders": lambda: "db.orders",
    "id": lambda: "id",
    "dots": lambda: "..",
    "way out": lambda: "../../outside",
    "absolute": lambda: "/etc/passwd",
    "NUL": lambda: "a\0b",
    "lines": lambda: "a\nb\r\x1b[31mc\u2028d",
    "half surrogate": lambda: "a\ud800b",
    "half surrogate only": lambda: "\udfff",
    "right to left": lambda: "\u202eabc",
    "300 letters": lambda: "x" * 300,
    "17 MB": lambda: "x" * LONG,
    "17 MB of quotes": lambda: "'\"\\" * (LONG // 3),
    "number text": lambda: "12",
    "huge number text": lambda: "9" * 5000,
    "format text": lambda: "{0.__class__} %s %n",
    "empty list": list,
    "list of None": lambda: [None],
    "list of numbers": lambda: [1, 2],
    "nested lists": lambda: [["id"], [["id"]]],
    "list of itself": self_containing,
    "list of dicts": lambda: [{"dt": DAY, "id": 1}],
    "list of odd dicts": lambda: [{1: 2}, {None: "\ud800"}],
    "list of mixed": lambda: [{"id": 1}, 5, None],
    "row of surrogates": lambda: [{"dt": DAY, "id": 4, "status": "\ud800"}],
    "row of odd values": lambda: [{"dt": Unspeakable(), "id": "\ud800", "status": 5}],
    "row of huge numbers": lambda: [{"dt": DAY, "id": 10**5000, "amount": Decimal("1e999999")}],
    "row of NaN": lambda: [{"dt": float("nan"), "id": float("nan"), "amount": Decimal("sNaN")}],
    "empty dict": dict,
    "dict of numbers": lambda: {1: 2},
    "dict of None": lambda: {None: None},
    "dict of texts": lambda: {"a": "b"},
    "dict of lists": lambda: {"dt": ["a"], "id": [[]]},
    "dict of surrogates": lambda: {"\ud800": "\ud800", "dt": "\ud800"},
    "dict of long texts": lambda: {"dt": "x" * LONG, "x" * LONG: "y"},
    "dict of odd values": lambda: {"dt": Unspeakable(), "a": Unspeakable()},
    "set": lambda: {"id", "dt"},
    "tuple": lambda: ("id", 5),
    "empty tuple": tuple,
    "object": object,
    # Where a function is taken it is one, and gives an answer: the errors of another would be its own.
    "class": lambda: type,
    "function": lambda: raising,
    "generator": lambda: iter([{"id": 1}]),
    "generator that raises": raising,
    "unspeakable": Unspeakable,
    "list of unspeakable": lambda: [Unspeakable()],
    "datetime": lambda: datetime(2013, 1, 1, tzinfo=UTC),
    "datetime without zone": lambda: datetime(1, 1, 1),
    "last datetime": lambda: datetime.max.replace(tzinfo=UTC),
    "date": lambda: DAY,
    "timedelta": lambda: timedelta(seconds=1),
    "negative timedelta": lambda: timedelta(days=-1),
    "longest timedelta": lambda: timedelta.max,
    "Arrow table": lambda: pa.table({"id": pa.array([1], pa.int32())}),
    "Arrow table without columns": lambda: pa.table({}),
    "Arrow table of odd names": lambda: pa.table([pa.array([1]), pa.array([2])], names=["id", "id"]),
    "Arrow schema": lambda: pa.schema([("a\0", pa.int32()), ("a\0", pa.float16())]),
    "Arrow type": pa.int32,
    "Arrow reader that breaks off": broken_reader,
    "condition": lambda: lc.col("id") > 5,
    "odd condition": lambda: lc.col("id") > Unspeakable(),
    "condition on nothing": lambda: lc.col("\ud800").isin([None, [], {}]),
    "point": lc.Latest,
    "odd point": lambda: lc.AtSnapshot(10**30),
    "last time": lambda: lc.AsOf(datetime.max),
    "error": lambda: RuntimeError("x"),
    "path": lambda: Path("x\ud800"),
    "change": lambda: lc.AddColumn("note", "STRING"),
    "odd change": lambda: lc.AddColumn("a\0b", "ROW<`a\nb` INT>"),
    "mode": lambda: lc.StaticOverwrite({"dt": "\ud800"}),
    "odd mode": lambda: lc.StaticOverwrite({5: None}),  # type: ignore[dict-item]
}


class World:
    """A small warehouse: db.orders has keys, partitions, snapshots 2 and 3 (1 expired) and a tag; db.events has none.

    Whatever a call changed is thrown away: the next one gets the warehouse as it was.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._template = folder / "template"
        self._copies = 0
        catalog = lc.connect(self._template)
        catalog.create_database("db")
        orders = catalog.create_table(
            "db.orders",
            ORDERS,
            primary_keys=["dt", "id"],
            partition_keys=["dt"],
            options={"bucket": "2", "snapshot.num-retained.min": "1", "lakehouse.read.grace": "0 s"},
        )
        for number in (1, 2, 3):
            orders.write([{"dt": DAY, "id": number, "amount": number}])
        orders.expire_snapshots(retain_max=2, retain_min=2, older_than=timedelta(0))
        orders.create_tag("eod")
        catalog.create_table("db.events", EVENTS).write([{"id": 1}])
        self.root = self._template
        self.renew()

    def renew(self) -> None:
        """Begin again with the warehouse as it was made."""
        self._copies += 1
        if self.root != self._template:
            shutil.rmtree(self.root)
        self.root = self._folder / f"copy-{self._copies}"
        shutil.copytree(self._template, self.root)
        self.catalog = lc.connect(self.root)
        self.orders, self.events = self.catalog.table("db.orders"), self.catalog.table("db.events")
        self.before = self.files()
        self.outside = self._beside()

    def files(self) -> dict[str, int]:
        """Every file of the warehouse, hidden ones too, with its size."""
        found = (path for path in self.root.rglob("*") if path.is_file())
        return {str(path.relative_to(self.root)): path.stat().st_size for path in found}

    def rows(self) -> dict[str, list[Any]]:
        return {table.name: table.scan().to_arrow().to_pylist() for table in (self.orders, self.events)}

    def look_outside(self) -> None:
        """Take what lies beside the warehouse now for what may lie there."""
        self.outside = self._beside()

    def left_outside(self) -> set[str]:
        return self._beside() - self.outside

    def _beside(self) -> set[str]:
        return {path.name for path in self._folder.iterdir()}


@dataclass(frozen=True, slots=True)
class Verb:
    """A public callable: `make` returns it with the good value of each of its arguments."""

    name: str
    make: Callable[[World], Callable[..., Any]]
    good: Mapping[str, Callable[[World], Any]]
    # Passed by position, all of them, and so is what stands before them.
    star: str | None = None
    before: tuple[str, ...] = ()


# Arguments that let a call go far, by their names.
GOOD: Final[Mapping[str, Callable[[World], Any]]] = {
    "warehouse": lambda w: str(w.root),
    "name": lambda w: "db.orders",
    "database": lambda w: "db",
    "source": lambda w: "db.orders",
    "target": lambda w: "db.sold",
    "tables": lambda w: "*",
    "schema": lambda w: {"a": "INT NOT NULL", "b": "STRING"},
    "primary_keys": lambda w: ["a"],
    "options": lambda w: None,
    "columns": lambda w: ["id"],
    "where": lambda w: "id > 1",
    "at": lambda w: None,
    "keys": lambda w: [{"dt": DAY, "id": 1}],
    "after": lambda w: 2,
    "until": lambda w: 3,
    "data": lambda w: [{"dt": DAY, "id": 9}],
    "commit_user": lambda w: "user",
    "commit_identifier": lambda w: 7,
    "staged": lambda w: w.orders.stage([{"dt": DAY, "id": 5}], commit_user="u", commit_identifier=1),
    "partition": lambda w: {"dt": DAY},
    "retain_max": lambda w: 2,
    "retain_min": lambda w: 1,
    "mode": lambda w: lc.Append(),
    "behind": lambda w: (),
    "changes": lambda w: lc.AddColumn("note", "STRING"),
    "snapshot_id": lambda w: 3,
    "new_name": lambda w: "other",
    "type": lambda w: "BIGINT",
    "key": lambda w: "target-file-size",
    "value": lambda w: "1 mb",
    "nullable": lambda w: True,
    "default": lambda w: "5",
    "comment": lambda w: "a note",
    "text": lambda w: w.orders.stage([{"dt": DAY, "id": 5}], commit_user="u", commit_identifier=1).to_json(),
    "time": lambda w: datetime.now(UTC),
    "id": lambda w: 3,
    "watermark": lambda w: 1,
    "version": lambda w: "3",
    "limit": lambda w: 1,
    "values": lambda w: [1, 2],
    "low": lambda w: 1,
    "high": lambda w: 2,
    "prefix": lambda w: "x",
}
# Where the same name means something else.
GOOD_OF: Final[Mapping[str, Mapping[str, Callable[[World], Any]]]] = {
    "Catalog.create_table": {"name": lambda w: "db.made"},
    "Catalog.create_database": {"name": lambda w: "made"},
    "Catalog.drop_database": {"name": lambda w: "db"},
    "Catalog.system_table": {"name": lambda w: "db.orders$files"},
    "Table.system": {"name": lambda w: "files"},
    "Table.create_tag": {"name": lambda w: "noon", "at": lambda w: 3},
    "Table.delete_tag": {"name": lambda w: "eod"},
    "Table.replace_tag": {"name": lambda w: "eod", "at": lambda w: 3},
    "Table.rename_tag": {"name": lambda w: "eod"},
    "Table.mark_partitions_done": {"partitions": lambda w: {"dt": DAY}},
    "Table.rollback_to": {"at": lambda w: 3},
    "Table.scan": {"at": lambda w: lc.Latest()},
    "Table.lookup": {"at": lambda w: lc.Latest(), "columns": lambda w: None},
    "Table.lookups": {"at": lambda w: lc.Latest(), "columns": lambda w: None},
    "Table.files": {"at": lambda w: lc.Latest()},
    "Table.buckets": {"at": lambda w: lc.Latest()},
    "Table.manifests": {"at": lambda w: lc.Latest()},
    "Table.diff": {"after": lambda w: "eod"},
    "TableSchema.field": {"name": lambda w: "id"},
    "TableSchema.has_field": {"name": lambda w: "id"},
}
# Asked for only here: a whole table of answers each.
_OBJECTS: Final[Mapping[str, Callable[[World], Any]]] = {
    "Catalog": lambda w: w.catalog,
    "Table": lambda w: w.orders,
    "Scan": lambda w: w.orders.scan(),
    "ChangesScan": lambda w: w.orders.changes(2),
    "Lookups": lambda w: w.orders.lookups(),
    "SystemTable": lambda w: w.orders.system("files"),
    "StagedCommit": lambda w: w.orders.stage([{"dt": DAY, "id": 5}], commit_user="u", commit_identifier=1),
    "TableSchema": lambda w: w.orders.schema,
    "Column": lambda w: lc.col("id"),
    "Records": lambda w: w.orders.files(),
}
_SCHEMA_CHANGES: Final = (
    lc.AddColumn,
    lc.DropColumn,
    lc.RenameColumn,
    lc.UpdateColumnType,
    lc.UpdateColumnNullability,
    lc.UpdateColumnComment,
    lc.UpdateColumnDefault,
    lc.MoveColumn,
    lc.SetOption,
    lc.RemoveOption,
    lc.UpdateComment,
)
_POINTS: Final = (
    lc.AtSnapshot,
    lc.AtTag,
    lc.AtVersion,
    lc.AsOf,
    lc.AtWatermark,
    lc.FromCreationTime,
    lc.FromFileCreationTime,
)


def verbs() -> list[Verb]:
    """Return every public callable: the methods of what users hold, and what they make values with."""
    found = [*_methods(), _verb("connect", lambda w: lc.connect), _verb("col", lambda w: lc.col)]
    for change in _SCHEMA_CHANGES:
        good: Mapping[str, Callable[[World], Any]] = {"name": lambda w: "status"}
        found.append(_verb(change.__name__, partial(_altering, change), change, good))
    for point in _POINTS:
        found.append(_verb(point.__name__, partial(_reading, point), point, {"name": lambda w: "eod"}))
    good = {"partition": lambda w: {"dt": "2013-01-01"}}
    return [*found, _verb("StaticOverwrite", _overwriting, lc.StaticOverwrite, good)]


def _altering(change: Callable[..., Any], world: World) -> Callable[..., Any]:
    return lambda **given: world.orders.alter(change(**given))


def _reading(point: Callable[..., Any], world: World) -> Callable[..., Any]:
    return lambda **given: world.orders.scan(at=point(**given)).to_arrow()


def _overwriting(world: World) -> Callable[..., Any]:
    rows = [{"dt": DAY, "id": 9}]
    return lambda partition: world.orders.stage(
        rows, commit_user="u", commit_identifier=2, mode=lc.StaticOverwrite(partition)
    )


def _methods() -> Iterator[Verb]:
    for kind, make in _OBJECTS.items():
        cls = type(lc.col("a")) if kind == "Column" else getattr(lc, kind)
        for name, member in inspect.getmembers(cls):
            if name.startswith("_") or not callable(member) or (name in ("of", "index", "count") and kind == "Records"):
                continue
            # What is public for the package's own use only.
            if kind == "StagedCommit" and name == "of":
                continue

            def bound(w: World, make: Callable[[World], Any] = make, name: str = name) -> Callable[..., Any]:
                return getattr(make(w), name)  # type: ignore[no-any-return]

            yield _verb(f"{kind}.{name}", bound, member)


def _verb(
    name: str,
    make: Callable[[World], Callable[..., Any]],
    signature_of: Any = None,
    good: Mapping[str, Callable[[World], Any]] | None = None,
) -> Verb:
    signature_of = signature_of or getattr(lc, name)
    known = {**GOOD, **(good or {}), **GOOD_OF.get(name, {})}
    arguments: dict[str, Callable[[World], Any]] = {}
    star, before = None, ()
    for parameter in inspect.signature(signature_of).parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            star, before = parameter.name, tuple(arguments)
        default = parameter.default
        if default is not parameter.empty:
            # Said only now and then, with what it would be.
            arguments[parameter.name] = known.get(parameter.name, lambda w, default=default: default)
        else:
            arguments[parameter.name] = known.get(parameter.name, lambda w: "x")
    return Verb(name=name, make=make, good=arguments, star=star, before=before)


@dataclass(frozen=True, slots=True)
class Fault:
    """A call that broke a promise."""

    call: str
    what: str

    def __str__(self) -> str:
        return f"{self.call}: {self.what}"


def search(seed: int, calls: int, folder: Path) -> list[Fault]:
    """Return the faults that `calls` random calls meet; the same for the same seed."""
    rng = random.Random(seed)
    world = World(folder)
    expected = world.rows()
    every = verbs()
    faults = []
    for number in range(calls):
        verb = rng.choice(every)
        arguments = list(verb.good)
        bad = dict.fromkeys(rng.sample(arguments, min(len(arguments), rng.choice((1, 1, 1, 2)))))
        for name in bad:
            bad[name] = rng.choice(list(HOSTILE))
        call = f"{seed}/{number} {verb.name}({', '.join(f'{name}=<{value}>' for name, value in bad.items())})"
        if (what := attempt(world, expected, verb, bad)) is not None:
            faults.append(Fault(call, what))
            world.renew()
    return faults


def attempt(world: World, expected: Mapping[str, list[Any]], verb: Verb, bad: Mapping[str, str | None]) -> str | None:
    """Make one call and say what promise it broke, None when it kept them all."""
    call = verb.make(world)
    given = {}
    try:
        for name, good in verb.good.items():
            hostile = bad.get(name)
            given[name] = good(world) if hostile is None else HOSTILE[hostile]()
    except lc.LakehouseError:
        # The value itself cannot be made, which is told.
        return None
    made = world.files()
    world.look_outside()
    # What stands before a star is given by its place, too.
    star = [given.pop(name) for name in (*verb.before, verb.star) if name in given] if verb.star else []
    try:
        answer = call(*star, **given)
        _take(answer)
    except lc.LakehouseError as error:
        try:
            said = str(error)
        except Exception as unsaid:
            return f"its message cannot be said: {unsaid!r}"
        if not said.isprintable() or len(said) > _LONGEST_MESSAGE:
            return f"a message of {len(said)} characters, more than a line: {said[:300]!a}"
        if isinstance(error, lc.CorruptTable):
            return f"nothing is corrupt: {said[:300]}"
        if world.files() != made:
            return f"it failed ({said[:200]}) and left or changed {sorted(made.keys() ^ world.files().keys())}"
        if world.left_outside() and "cache" not in given:
            return f"it made {world.left_outside()} outside of the warehouse"
        return None if world.rows() == expected else "the rows are others, though it failed"
    except Exception as error:
        return f"{type(error).__module__}.{type(error).__name__} {ascii(str(error))[:300]}"
    folders = {str(value) for name, value in given.items() if name == "cache"}
    return _after(world, expected, made, world.left_outside() if folders else set())


def _take(answer: Any) -> None:
    """Use an answer as its receiver would: what is lazy is read."""
    if isinstance(answer, lc.Scan | lc.ChangesScan | lc.SystemTable):
        answer.to_arrow()
    elif isinstance(answer, lc.Lookups):
        answer.get([{"dt": DAY, "id": 1}])
    elif isinstance(answer, lc.Report):
        answer.to_dict()
    elif isinstance(answer, lc.Records):
        answer.to_arrow()
        answer.to_dicts()
    elif hasattr(answer, "__next__"):
        list(answer)


def _after(
    world: World, expected: Mapping[str, list[Any]], made: Mapping[str, int], allowed: set[str] = frozenset()
) -> str | None:
    """Look at what an answered call left, with new handles; `allowed`: folders that it was asked to make."""
    files = world.files()
    if hidden := [name for name in files if Path(name).name.endswith(".tmp")]:
        return f"it left {hidden}"
    if outside := world.left_outside() - allowed:
        return f"it made {outside} outside of the warehouse"
    if files == made == world.before:
        return None if world.rows() == expected else "the rows are others, though no file is"
    try:
        catalog = lc.connect(world.root)
        for database in catalog.databases():
            for name in catalog.tables(database):
                table = catalog.table(f"{database}.{name}")
                if findings := table.verify().findings:
                    return f"verify finds {ascii(str(findings))[:300]}"
                table.scan().to_arrow()
                row = {field.name: 1 for field in table.schema.fields if not field.type.nullable} | {"dt": DAY}
                fitting = {key: value for key, value in row.items() if table.schema.has_field(key)}
                if (
                    table.write([fitting] if fitting else [dict.fromkeys(table.schema.column_names)]).snapshot_id
                    is None
                ):
                    return f"{name} took no row"
                table.alter(lc.UpdateComment("goes on"))
    except Exception as error:
        return f"afterwards: {type(error).__name__} {ascii(str(error))[:300]}"
    world.renew()
    return None


# Arguments of the shell that go far, each with the place where a hostile one is put.
COMMANDS: Final = (
    ("tables", "?"),
    ("tables", "db", "?"),
    ("describe", "?"),
    ("create", "?", "--schema", "?"),
    ("drop", "?"),
    ("write", "?", "?"),
    ("write", "db.orders", "rows.jsonl", "--rowkind-column", "?"),
    ("write", "db.orders", "rows.jsonl", "--overwrite", "--partition", "?"),
    ("write", "db.orders", "rows.jsonl", "--missing", "?"),
    ("read", "?"),
    ("read", "db.orders", "--columns", "?"),
    ("read", "db.orders", "--where", "?"),
    ("read", "db.orders", "--snapshot", "?"),
    ("read", "db.orders", "--tag", "?"),
    ("read", "db.orders", "--as-of", "?"),
    ("read", "db.orders", "--limit", "?"),
    ("read", "db.orders", "-o", "?"),
    ("lookup", "db.orders", "?"),
    ("changes", "db.orders", "--after", "?", "--until", "?"),
    ("diff", "db.orders", "?", "?"),
    ("snapshots", "?"),
    ("files", "db.orders", "--snapshot", "?"),
    ("manifests", "db.orders", "--tag", "?"),
    ("tags", "?"),
    ("schemas", "?"),
    ("compact", "?"),
    ("compact", "db.orders", "--partition", "?"),
    ("compact", "db.*", "--partition-idle", "?"),
    ("compact-manifests", "?"),
    ("expire", "db.orders", "--retain-max", "?", "--older-than", "?"),
    ("expire", "db.orders", "--retain-min", "?"),
    ("tag", "create", "db.orders", "?", "--snapshot", "?"),
    ("tag", "create", "db.orders", "noon", "--retention", "?"),
    ("tag", "delete", "db.orders", "?"),
    ("tag", "list", "?"),
    ("alter", "?", "set", "snapshot.num-retained.min=2"),
    ("alter", "db.orders", "?"),
    ("alter", "db.orders", "add-column", "?", "?"),
    ("alter", "db.orders", "add-column", "note", "STRING", "--after", "?"),
    ("alter", "db.orders", "drop-column", "?"),
    ("alter", "db.orders", "rename-column", "?", "?"),
    ("alter", "db.orders", "set", "?"),
    ("alter", "db.orders", "unset", "?"),
    ("rename", "db.orders", "?"),
    ("rename", "?", "db.other"),
    ("count", "?"),
    ("count", "db.orders", "--where", "?"),
    ("count", "db.orders", "--snapshot", "?"),
    ("count", "db.orders$files", "--tag", "?"),
    ("partitions", "?"),
    ("partitions", "db.orders", "--as-of", "?"),
    ("verify", "?"),
    ("?", "db.orders"),
    ("--json", "read", "db.orders", "?"),
)
# No shell hands over a NUL, or more than a megabyte.
WORDS: Final = (
    *("", " ", "?", "x", "x" * 300, "x" * 100_000, "a\nb\r\x1b[31mc\u2028", "\udcff", "\u202eabc", "..", "/etc/passwd"),
    *(
        "../../outside",
        "-1",
        "0",
        "5",
        "9" * 40,
        "9" * 5000,
        "1.5",
        "nan",
        "1h",
        "99999999999999d",
        "-5 min",
        "--",
        "-",
    ),
    *("--help", "dt", "dt=", "=", "dt=2013-01-01", "dt=2013-02-31", "dt=x,id=y", "dt=2013-01-01,id=1", "id=1=2", "eod"),
    *("2013-01-01", "2013-13-01T00:00:00Z", "0001-01-01", "9999-12-31T23:59:59+23:59", "id > 1", "id >", "((((", "["),
    *(
        "id = '\udcff'",
        "db.orders",
        "db.orders$files",
        "db.*",
        "*.*",
        "rows.jsonl",
        "odd.jsonl",
        "odd.csv",
        "none.arrow",
    ),
    *("odd.parquet", "odd.yaml", "none.arrow", "--", "-"),
)
_EXIT_CODES: Final = frozenset({0, 1, 2, 3, 4, 5, 6})


def search_shell(seed: int, calls: int, folder: Path, run: Callable[[list[str]], tuple[int, str]]) -> list[Fault]:
    """Return the faults of `calls` random commands; `run` gives exit code and standard error. Works in `folder`."""
    rng = random.Random(seed)
    (folder / "rows.jsonl").write_text('{"dt":"2013-01-01","id":9}\n')
    (folder / "odd.jsonl").write_text('{"dt":"2013-01-01","id":"\\ud800"}\n{')
    (folder / "odd.csv").write_bytes(b"dt,id\n\xff,\0\n")
    (folder / "odd.parquet").write_bytes(b"PAR1")
    (folder / "odd.yaml").write_text("columns: [&a [*a]]\noptions: 5")
    world = World(folder)
    expected = world.rows()
    faults = []
    for number in range(calls):
        words = [rng.choice(WORDS) if word == "?" else word for word in rng.choice(COMMANDS)]
        call = f"{seed}/{number} lakehouse {ascii(words)[:300]}"
        made = world.files()
        try:
            code, said = run(["-w", str(world.root), *words])
        except BaseException as error:
            what = f"{type(error).__name__} {ascii(str(error))[:300]}"
        else:
            what = _told(code, said) or _after(world, expected, made, world.left_outside())
        if what is not None:
            faults.append(Fault(call, what))
        if what is not None or world.files() != world.before or world.left_outside():
            world.renew()
    return faults


def _told(code: int, said: str) -> str | None:
    if code not in _EXIT_CODES:
        return f"the exit code is {code}"
    if code >= 2 and (said.count("\n") != 1 or not said.startswith("lakehouse: ") or len(said) > _LONGEST_MESSAGE):
        return f"code {code} and {said.count(chr(10))} lines: {said[:300]!a}"
    return f"nothing is corrupt: {said[:300]}" if code == 5 else None
