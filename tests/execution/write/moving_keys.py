"""Random histories of tables whose keys move between partitions, against the rows of `tests/oracle/moving_keys.py`."""

from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

import lakehouse_core as lc
from lakehouse_core.errors import CommitConflict, InvalidRequest, UnsupportedFeature
from tests.oracle.moving_keys import MovingKeys

COLUMNS: Final = {"k": "INT NOT NULL", "p": "STRING", "a": "BIGINT", "b": "STRING"}
ENGINES: Final = {
    "deduplicate": {},
    "partial-update": {"partial-update.remove-record-on-delete": "true"},
    "aggregation": {
        "fields.a.aggregate-function": "sum",
        "fields.b.aggregate-function": "last_non_null_value",
        "aggregation.remove-record-on-delete": "true",
    },
    "first-row": {},
}
PARTITIONS: Final = ("x", "y", "z", None)


def table_of(catalog: Any, engine: str, **options: str) -> lc.Table:
    """Return a new table; names of options are written with _ for - and __ for a dot."""
    catalog.create_database("db", exist_ok=True)
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    merging = {"merge-engine": engine, "dynamic-bucket.target-row-num": "3", **ENGINES[engine], **named}
    return catalog.create_table("db.t", COLUMNS, primary_keys=["k"], partition_keys=["p"], options=merging)


def rows_of(table: lc.Table, **more: Any) -> list[tuple[Any, ...]]:
    found = [(row["k"], row["p"], row["a"], row["b"]) for row in table.scan(**more).to_arrow().to_pylist()]
    return sorted(found, key=lambda row: (row[0], str(row[1])))


def bare(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows without their kinds."""
    return [{name: row[name] for name in COLUMNS} for row in rows]


class History:
    """A table and what its rows should be, changed by the same random verbs."""

    def __init__(self, table: lc.Table, engine: str, random: Random, *, to_frame: Callable[[Any], Any] = list) -> None:
        self.table, self.engine, self.random = table, engine, random
        self.model = MovingKeys(engine)
        self.done: list[str] = []
        self._to_frame = to_frame
        self._kept: dict[int, dict[int, dict[str, Any]]] = {}
        self._users = 0
        # Keys that were deleted once. After a compaction of some runs Paimon knows no more that a row began anew, so
        # that a null in it may let an older value through.
        self._deleted: set[int] = set()

    def rows(self, most: int = 8, *, deletes: bool = True) -> list[dict[str, Any]]:
        random = self.random
        is_whole = self.engine == "deduplicate"
        rows = [
            {
                "k": random.randrange(12),
                "p": random.choice(PARTITIONS),
                "a": random.choice([None, random.randrange(9)]),
                "b": random.choice([None, "s", "t"]),
                "kind": random.choice(["+I", "+U", "-D" if deletes and is_whole else "+I"]),
            }
            for _ in range(random.randint(1, most))
        ]
        if deletes and most == 8 and self.engine in ("partial-update", "aggregation"):
            # The values of a delete would be those that later rows of the key are combined with.
            gone = {"a": None, "b": None, "kind": "-D"}
            counts = Counter(row["k"] for row in rows)
            rows = [{**row, **gone} if counts[row["k"]] == 1 and random.random() < 0.3 else row for row in rows]
        if not is_whole:
            full = [{**row, "a": row["a"] or 0, "b": row["b"] or "m"} for row in rows]
            rows = [
                whole if row["k"] in self._deleted and row["kind"] != "-D" else row
                for row, whole in zip(rows, full, strict=True)
            ]
            self._deleted |= {row["k"] for row in rows if row["kind"] == "-D"}
        return rows

    def step(self) -> str:
        verbs = [self.write] * 4 + [self.overlapping, self.behind, self.together, self.compact, self.drop, self.roll]
        verbs += [self.overwrite, self.overwrite_partition, self.expire, self.delete, self.lookups, self.rescale]
        verbs += [self.replace_partition, self.replace]
        if self.engine in ("deduplicate", "partial-update"):
            verbs += [self.update, self.merge]
        verb, before = self.random.choice(verbs), set(self.model.rows)
        told = verb()
        self._deleted |= before - set(self.model.rows)
        self.done.append(f"{verb.__name__} {told or ''}")
        return self.done[-1]

    def check(self) -> None:
        table = self.table
        if table.schema.table_options.skips_level_0:
            table.compact()
        found, wanted = rows_of(table), self.model.sorted()
        assert found == wanted, f"found {found}, expected {wanted}"
        latest = table.snapshot()
        if latest is not None:
            self._kept[latest.id] = deepcopy(self.model.rows)

    def write(self) -> str:
        given = self.rows()
        self.table.write(self._to_frame(given), rowkind_column="kind")
        self.model.write(given)
        return str(given)

    def _staged(self, rows: list[dict[str, Any]], **more: Any) -> lc.StagedCommit:
        self._users += 1
        return self.table.stage(
            self._to_frame(rows), commit_user=f"u{self._users}", commit_identifier=1, rowkind_column="kind", **more
        )

    def overlapping(self) -> str:
        """Two writers at once: the later one is applied after the other, or staged again."""
        first, second = self.rows(3), self.rows(3)
        one, other = self._staged(first), self._staged(second)
        self.table.commit(one)
        self.model.write(first)
        try:
            self.table.commit(other)
        except CommitConflict:
            self.table.commit(self._staged(second))
        self.model.write(second)
        return f"{first} {second}"

    def behind(self) -> str:
        """A write that counts on another one, which is then made, or never."""
        first, second = self.rows(3), self.rows(3)
        one = self._staged(first)
        other = self._staged(second, behind=[one])
        is_made = self.random.random() < 0.6 or self.engine == "first-row"
        if is_made:
            self.table.commit(one)
            self.model.write(first)
        before = deepcopy(self.model)
        self.table.commit(other)
        self.model.write(second)
        if not is_made and self.engine != "deduplicate":
            # New keys are where the other commit would have had them.
            homes = {row["k"]: row["p"] for row in self.table.scan().to_arrow().to_pylist()}
            for key, row in self.model.rows.items():
                if key not in before.rows and key in homes:
                    assert homes[key] in {given["p"] for given in first + second if given["k"] == key}
                    row["p"] = homes[key]
        return f"{first} {second} {is_made}"

    def together(self) -> str:
        first, second = self.rows(3), self.rows(3)
        is_known = self.random.random() < 0.5
        one = self._staged(first)
        other = self._staged(second, behind=[one] if is_known else [])
        self._users += 1
        try:
            self.table.commit_together([one, other], commit_user=f"u{self._users}", commit_identifier=1)
        except CommitConflict:
            assert not is_known
            return "refused"
        self.model.write(first)
        self.model.write(second)
        return f"{first} {second}"

    def compact(self) -> None:
        self.table.compact(full=self.random.random() < 0.5)

    def drop(self) -> str:
        dropped = self.random.choice(PARTITIONS)
        self.table.drop_partitions([{"p": dropped}])
        self.model.drop({dropped})
        return str(dropped)

    def roll(self) -> str:
        ids = [one.id for one in self.table.snapshots() if one.id in self._kept]
        if not ids:
            return ""
        wanted = self.random.choice(ids)
        self.table.rollback_to(wanted)
        self.model.rows = deepcopy(self._kept[wanted])
        return str(wanted)

    def overwrite(self) -> str:
        given = self.rows(5, deletes=False)
        self.table.overwrite(self._to_frame(bare(given)), dynamic=False)
        self.model.rows.clear()
        self.model.write(given)
        return str(given)

    def overwrite_partition(self) -> str:
        given = self.rows(4, deletes=False)
        try:
            self.table.overwrite(self._to_frame(bare(given)), dynamic=True)
        except InvalidRequest as error:
            if "which this overwrite does not replace" not in str(error):
                raise
            return f"{given} refused"
        fresh = MovingKeys(self.engine)
        fresh.write(given)
        # Where a later row of the key names another partition, the one that was named first is replaced too.
        named = given if self.engine == "deduplicate" else fresh.rows.values()
        self.model.drop({row["p"] for row in named})
        self.model.rows |= fresh.rows
        return str(given)

    def replace_partition(self) -> str:
        """A key of a partition that stays is treated as by a write."""
        place = self.random.choice(PARTITIONS)
        given = [{**row, "p": place} for row in self.rows(4, deletes=False)]
        where = "p IS NULL" if place is None else f"p = '{place}'"
        self.table.overwrite(self._to_frame(bare(given)), where=where)
        self.model.drop({place})
        self.model.write(given)
        return f"{place} {given}"

    def replace(self) -> str:
        number = self.random.randrange(4)
        given = [{**row, "a": number} for row in self.rows(4, deletes=False)]
        options = self.table.schema.table_options
        is_refused = options.skips_level_0 and self.engine != "deduplicate"
        try:
            self.table.overwrite(self._to_frame(bare(given)), where=f"a = {number}")
        except UnsupportedFeature:
            assert is_refused
            return "refused"
        assert not is_refused
        self.model.rows = {key: row for key, row in self.model.rows.items() if row["a"] != number}
        self.model.write(given)
        return f"{number} {given}"

    def rescale(self) -> None:
        self.table.rescale()

    def expire(self) -> None:
        self.table.expire_snapshots(retain_max=3, retain_min=1)

    def delete(self) -> str:
        key = self.random.randrange(12)
        self.table.delete(f"k = {key}")
        if self.engine == "aggregation":
            # Until then later sums start from the values of the deleted row (docs/semantics/merge-engines.md).
            self.table.compact(full=True)
        self.model.rows.pop(key, None)
        return str(key)

    def update(self) -> str:
        key = self.random.randrange(12)
        self.table.update({"b": "'u'"}, where=f"k <= {key}")
        for row in self.model.rows.values():
            if row["k"] <= key:
                row["b"] = "u"
        return str(key)

    def merge(self) -> str:
        given = [{**row, "kind": "+I"} for row in {row["k"]: row for row in self.rows(4, deletes=False)}.values()]
        if self.engine == "partial-update":
            # An update to null would have no effect, and is refused.
            given = [{**row, "a": row["a"] or 0, "b": row["b"] or "m"} for row in given]
        moves = self.engine == "deduplicate"
        update = {name: f"s.{name}" for name in (("p", "a", "b") if moves else ("a", "b"))}
        insert = {name: f"s.{name}" for name in ("k", "p", "a", "b")}
        self.table.merge(
            self._to_frame(bare(given)),
            "t.k = s.k",
            lc.WhenMatched(update=update),
            lc.WhenNotMatched(insert=insert),
        )
        self.model.write(given)
        return str(given)

    def lookups(self) -> None:
        self.table.compact()
        keys = list(range(12))
        found = {row["k"]: row for row in self.table.lookup([{"k": key} for key in keys]).to_pylist()}
        assert found == {key: dict(row) for key, row in self.model.rows.items()}


def run(folder: Path, seed: int, engine: str, *, steps: int, spark: Any = None, **options: str) -> None:
    """Run a history and check its rows after each step, and all its files at the end."""
    random = Random(f"{seed} {engine} {options}")
    catalog = lc.connect(str(folder)) if spark is None else lc.connect(str(folder), spark=spark)
    history = History(table_of(catalog, engine, **options), engine, random)
    for _ in range(steps):
        try:
            history.step()
            history.check()
        except BaseException as error:
            error.add_note("\n".join([*history.done, f"seed {seed}, {engine}, {options}"]))
            raise
    assert history.table.verify(data=True).findings == ()


def search(seed: int) -> None:
    """Run a longer history of a random kind."""
    random = Random(seed)
    engine = random.choice(list(ENGINES))
    choices = [{}, {"changelog_producer": "lookup"}]
    if engine == "deduplicate":
        choices.append({"deletion_vectors__enabled": "true"})
    with TemporaryDirectory(prefix="moving-") as folder:
        run(Path(folder), seed, engine, steps=25, **random.choice(choices))
