"""A table and a dict go through the same random verbs, and always say the same: now, at each snapshot, at each tag."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import MemoryStore
from lakehouse_core.table.predicate import And, Compare, Comparison, In, IsNull, Not, Or, Predicate, StartsWith
from tests.oracle.conditions import truth

Row = dict[str, Any]

PARTITIONS = st.integers(0, 2)
KEYS = st.integers(0, 7)
TEXTS = st.none() | st.sampled_from(["", "a", "ab", "b"])
NUMBERS = st.none() | st.integers(-2, 2)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "p": PARTITIONS,
            "k": KEYS,
            "v": TEXTS,
            "n": NUMBERS,
            "op": st.sampled_from(["+I", "+I", "+I", "+U", "-U", "-D"]),
        }
    ),
    max_size=12,
)
LEAVES = st.one_of(
    st.builds(Compare, st.just("p"), st.sampled_from(Comparison), PARTITIONS),
    st.builds(Compare, st.just("k"), st.sampled_from(Comparison), KEYS),
    st.builds(lambda values: In("k", tuple(sorted(set(values)))), st.lists(KEYS, min_size=1, max_size=3)),
    st.builds(StartsWith, st.just("v"), st.sampled_from(["", "a"])),
    st.sampled_from([IsNull("v"), IsNull("n")]),
    st.builds(Compare, st.just("n"), st.sampled_from(Comparison), st.integers(-2, 2)),
)
CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(lambda left, right: And((left, right)), inner, inner),
        st.builds(lambda left, right: Or((left, right)), inner, inner),
    ),
    max_leaves=4,
)


@dataclass(frozen=True)
class Version:
    """The newest version of a key: what orders it, whether it is a delete, and its row."""

    order: tuple[Any, ...]
    deleted: bool
    row: Row


@dataclass
class Model:
    """What a table should hold. Key tables: versions by key; append tables: rows."""

    keyed: bool
    by_sequence: bool
    ignores_deletes: bool
    versions: dict[tuple[int, int], Version] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    arrivals: int = 0

    def write(self, rows: Sequence[Row]) -> None:
        for row in rows:
            deleted = row["op"] in ("-U", "-D")
            values = {name: value for name, value in row.items() if name != "op"}
            if deleted and self.ignores_deletes:
                continue
            if not self.keyed:
                self.rows.append(values)
                continue
            self.arrivals += 1
            order = (*self._sequence(row), self.arrivals)
            known = self.versions.get((row["p"], row["k"]))
            if known is None or order > known.order:
                self.versions[row["p"], row["k"]] = Version(order, deleted, values)

    def drop(self, partitions: set[int]) -> None:
        self.versions = {key: version for key, version in self.versions.items() if key[0] not in partitions}
        self.rows = [row for row in self.rows if row["p"] not in partitions]

    def forget_deletes(self) -> None:
        """A full compaction: a key whose newest version is a delete leaves no trace."""
        self.versions = {key: version for key, version in self.versions.items() if not version.deleted}

    def visible(self) -> list[Row]:
        return self.rows if not self.keyed else [one.row for one in self.versions.values() if not one.deleted]

    def _sequence(self, row: Row) -> tuple[Any, ...]:
        # NULL is the oldest.
        return (row["n"] is not None, row["n"] or 0) if self.by_sequence else ()


class TableMachine(RuleBasedStateMachine):
    @initialize(
        keyed=st.booleans(),
        partitioned=st.booleans(),
        # 0: dynamic buckets of two keys each.
        bucket=st.integers(0, 3),
        by_sequence=st.booleans(),
        ignores_deletes=st.booleans(),
        options=st.fixed_dictionaries(
            {
                "data-file.thin-mode": st.sampled_from(["true", "false"]),
                "changelog-producer": st.sampled_from(["none", "input"]),
                "metadata.stats-mode": st.sampled_from(["none", "counts", "truncate(1)", "full"]),
                "target-file-row-num": st.sampled_from(["3", "1000"]),
                "precommit-compact": st.sampled_from(["true", "false"]),
                "manifest.merge-min-count": st.sampled_from(["2", "30"]),
                "source.split.target-size": st.sampled_from(["1 b", "128 mb"]),
                "write-buffer-size": st.sampled_from(["1 b", "1 mb"]),
                "write-buffer-spillable": st.sampled_from(["true", "false"]),
                "local-sort.max-num-file-handles": st.sampled_from(["3", "128"]),
            }
        ),
    )
    def create(self, *, keyed, partitioned, bucket, by_sequence, ignores_deletes, options):
        self.clock = VirtualClock()
        self.catalog = self.new_catalog()
        self.catalog.create_database("db")
        self.keyed, self.partitioned = keyed, partitioned
        # The machine compacts by its own rule, so that the model knows when deletes are forgotten.
        quiet = {"write-only": "true", "snapshot.num-retained.min": "1", "lakehouse.read.grace": "0 s"}
        options = {**options, **quiet}
        options["ignore-delete"] = "true" if ignores_deletes or not keyed else "false"
        if keyed:
            options["bucket"] = str(bucket or -1)
            options["dynamic-bucket.target-row-num"] = "2"
            if by_sequence:
                options["sequence.field"] = "n"
        else:
            options["changelog-producer"] = "none"
            options["bucket"] = str(bucket) if bucket > 1 else "-1"
            if bucket > 1:
                options["bucket-key"] = "k"
        self.catalog.create_table(
            "db.t",
            {"p": "INT NOT NULL", "k": "INT NOT NULL", "v": "STRING", "n": "INT"},
            primary_keys=(["p", "k"] if partitioned else ["k", "p"]) if keyed else [],
            partition_keys=["p"] if partitioned else [],
            options=options,
        )
        self.producer = options["changelog-producer"]
        self.model = Model(keyed, keyed and by_sequence, ignores_deletes or not keyed)
        self.columns = ["p", "k", "v", "n"]
        self.states: dict[int, tuple[list[str], list[Row]]] = {}
        self.tagged: dict[str, int] = {}
        self.tags_made = 0

    def new_catalog(self) -> Catalog:
        return Catalog(MemoryStore(clock=self.clock), clock=self.clock)

    @property
    def table(self) -> lc.Table:
        return self.catalog.table("db.t")

    @rule(rows=ROWS, as_arrow=st.booleans())
    def write(self, rows, as_arrow):
        data: Any = rows
        if as_arrow:
            names = ["p", "k", "v", "n", "op"]
            kinds = [pa.int32(), pa.int32(), pa.string(), pa.int64(), pa.string()]
            data = pa.table(
                {name: pa.array([row[name] for row in rows], kind) for name, kind in zip(names, kinds, strict=True)}
            )
        report = self.table.write(data, rowkind_column="op" if rows or as_arrow else None)
        self.model.write([self._widened(row) for row in rows])
        self._remember(report)
        if report.snapshot_id is not None:
            self._changes_are(report.snapshot_id, rows)

    @rule(rows=ROWS, dynamic=st.booleans())
    def overwrite(self, rows, dynamic):
        rows = [{**row, "op": "+I"} for row in rows]
        data = [{name: value for name, value in row.items() if name != "op"} for row in rows]
        report = self.table.overwrite(data, dynamic=dynamic)
        partitions = {row["p"] for row in rows}
        # Without partitions the whole table is the one partition that the data has.
        if rows or not (dynamic and self.partitioned):
            self.model.drop(partitions if dynamic and self.partitioned else {0, 1, 2})
        self.model.write([self._widened(row) for row in rows])
        self._remember(report)

    @precondition(lambda self: self.partitioned)
    @rule(rows=ROWS, partition=PARTITIONS)
    def overwrite_one_partition(self, rows, partition):
        rows = [{**row, "p": partition, "op": "+I"} for row in rows]
        data = [{name: value for name, value in row.items() if name != "op"} for row in rows]
        report = self.table.overwrite(data, partition={"p": partition})
        self.model.drop({partition})
        self.model.write([self._widened(row) for row in rows])
        self._remember(report)

    @rule()
    def compact(self):
        self._remember(self.table.compact(full=True))
        self.model.forget_deletes()

    @rule(dry=st.booleans())
    def compact_manifests(self, dry):
        self._remember(self.table.compact_manifests(dry_run=dry))

    @rule(columns=st.sets(st.sampled_from(["k", "v", "n"])), limit=st.sampled_from(["1 b", "500 b", "1 mb"]))
    def index_other_columns(self, columns, limit):
        key = "file-index.bitmap.columns"
        self.table.alter(
            lc.SetOption("file-index.in-manifest-threshold", limit),
            lc.SetOption(key, ",".join(sorted(columns))) if columns else lc.RemoveOption(key),
        )
        self._remember(self.table.rewrite_file_index())

    @rule(retain=st.integers(1, 4))
    def expire(self, retain):
        self.clock.advance(7200)
        self.table.expire_snapshots(retain_max=retain, older_than=timedelta(hours=1))
        kept = {snapshot.id for snapshot in self.table.snapshots()} | set(self.tagged.values())
        self.states = {snapshot_id: state for snapshot_id, state in self.states.items() if snapshot_id in kept}

    @precondition(lambda self: self.states)
    @rule()
    def tag(self):
        name = f"tag-{self.tags_made}"
        self.tags_made += 1
        self.tagged[name] = self.table.create_tag(name).tagged_snapshot_id

    @precondition(lambda self: self.tagged)
    @rule(data=st.data())
    def untag(self, data):
        name = data.draw(st.sampled_from(sorted(self.tagged)))
        self.table.delete_tag(name)
        del self.tagged[name]

    @precondition(lambda self: len(self.columns) < 6)
    @rule(first=st.booleans())
    def add_a_column(self, first):
        name = f"c{len(self.columns)}"
        self.table.alter(lc.AddColumn(name, "STRING", first=first))
        self.columns = [name, *self.columns] if first else [*self.columns, name]

    @rule(condition=CONDITIONS, columns=st.sets(st.sampled_from(["p", "k", "v", "n"]), min_size=1))
    def look_with_a_condition(self, condition: Predicate, columns):
        chosen = sorted(columns)
        scan = self.table.scan(columns=chosen, where=condition)
        expected = [row for row in self._visible() if truth(condition, row)]

        assert _bag(scan.to_arrow().to_pylist()) == _bag([{name: row[name] for name in chosen} for row in expected])
        assert scan.count() == len(expected)

    @precondition(lambda self: self.states)
    @rule(data=st.data())
    def travel(self, data):
        snapshot_id = data.draw(st.sampled_from(sorted(self.states)))
        columns, rows = self.states[snapshot_id]
        names = [name for name, tagged in self.tagged.items() if tagged == snapshot_id]
        point = lc.AtTag(names[0]) if names else lc.AtSnapshot(snapshot_id)
        if not names and snapshot_id not in {snapshot.id for snapshot in self.table.snapshots()}:
            return
        found = self.table.scan(at=point).to_arrow()

        assert found.column_names == columns
        assert _bag(found.to_pylist()) == _bag(rows)

    @invariant()
    def the_table_says_what_the_model_says(self):
        if not hasattr(self, "model"):
            return
        scan = self.table.scan()

        assert _bag(scan.to_arrow().to_pylist()) == _bag(self._visible())
        assert scan.count() == len(self._visible())

    def teardown(self):
        if hasattr(self, "model"):
            assert self.table.verify().findings == ()

    def _visible(self) -> list[Row]:
        return [self._widened(row) for row in self.model.visible()]

    def _widened(self, row: Mapping[str, Any]) -> Row:
        return {**dict.fromkeys(self.columns), **row}

    def _remember(self, report: lc.Report) -> None:
        if report.snapshot_id is not None:
            self.states[report.snapshot_id] = (list(self.columns), self._visible())

    def _changes_are(self, snapshot_id: int, rows: Sequence[Row]) -> None:
        """What a write changed is what was written: all of it with a changelog, else the winners of the flush."""
        written = [row for row in rows if not (row["op"] in ("-U", "-D") and self.model.ignores_deletes)]
        if self.keyed and self.producer == "none":
            newest: dict[tuple[int, int], tuple[Any, Row]] = {}
            for number, row in enumerate(written):
                order = (*self.model._sequence(row), number)
                known = newest.get((row["p"], row["k"]))
                if known is None or order > known[0]:
                    newest[row["p"], row["k"]] = (order, row)
            written = [row for _, row in newest.values()]
        found = self.table.changes(after=snapshot_id - 1, until=snapshot_id).to_arrow().to_pylist()
        expected = [
            {"rowkind": row["op"] if self.keyed else "+I", **self._widened(_without_op(row))} for row in written
        ]

        if self.keyed and self.producer == "none" and self.flushes_often:
            return
        assert _bag(found) == _bag(expected)

    @property
    def flushes_often(self) -> bool:
        options = self.table.schema.options
        return options["write-buffer-size"] == "1 b" and options["write-buffer-spillable"] == "false"


def _without_op(row: Row) -> Row:
    return {name: value for name, value in row.items() if name != "op"}


def _bag(rows: Sequence[Mapping[str, Any]]) -> Counter[tuple[tuple[str, Any], ...]]:
    return Counter(tuple(sorted(row.items())) for row in rows)


TestTable = TableMachine.TestCase
TestTable.settings = settings(max_examples=settings.default.max_examples, stateful_step_count=15)
