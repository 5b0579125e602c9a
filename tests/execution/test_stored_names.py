"""Names of files as they are stored are hostile: none is read or deleted that could leave the table's folders."""

from dataclasses import replace
from datetime import timedelta

import pytest

import lakehouse_core as lc
from lakehouse_core.clock import SystemClock
from lakehouse_core.table.layout import MAIN, manifest_key
from lakehouse_core.table.manifest import encode_manifest, encode_manifest_list
from lakehouse_core.table.snapshot import serialize_snapshot
from tests.contexts import context_of

NAMES = ["../../secret", "/etc/passwd", "a/b", "a\\b", "..", ".", "", "a\0b", "x" * 300, "ä" * 200]
COUNTS = [1, 60]  # Few entries are decoded one by one, many as columns.


class Hostile:
    """db.t with three snapshots; the newest is another writer's, without sizes and checksums."""

    def __init__(self, root):
        (root / "secret").write_text("keep")
        self.root = root
        catalog = lc.connect(root)
        catalog.create_database("db")
        options = {"bucket": "1", "lakehouse.read.grace": "0 s", "snapshot.num-retained.min": "1"}
        self.table = catalog.create_table("db.t", {"id": "INT NOT NULL"}, primary_keys=["id"], options=options)
        for number in range(3):
            self.table.write([{"id": number}])
        self.store = self.table._context.store
        self.context = context_of(self.store, SystemClock())
        self.latest = self.context.snapshots.snapshot(3)

    def publish(self, **fields):
        """Put another third snapshot in the place of the real one."""
        plain = {
            "base_manifest_list_size": None,
            "delta_manifest_list_size": None,
            "properties": {},
            "index_manifest": None,
        }
        key = MAIN.snapshot(3)
        self.store.delete([key])
        assert self.store.create_new(key, serialize_snapshot(self.latest.model_copy(update=plain | fields)))

    def with_file_named(self, name, count):
        """Let the newest manifest name a file so, behind `count` others."""
        (manifest, *_) = self.context.manifests.delta(self.latest)
        ((entry, *_),) = self.context.manifests.entries_of_each([manifest], with_stats=True)
        others = [replace(entry, file=replace(entry.file, file_name=f"data-{i}.parquet")) for i in range(count)]
        data = encode_manifest([*others, replace(entry, file=replace(entry.file, file_name=name))])
        self.store.write({manifest_key("manifest-hostile"): data})
        self.with_manifest_named("manifest-hostile", size=len(data))

    def with_manifest_named(self, name, size=100):
        (manifest, *_) = self.context.manifests.delta(self.latest)
        base = self.context.manifests.of(self.context.snapshots.snapshot(2))
        listed = encode_manifest_list([replace(manifest, file_name=name, file_size=size, checksum=None)])
        self.store.write({manifest_key("manifest-list-hostile"): listed})
        self.store.write({manifest_key("manifest-list-base"): encode_manifest_list(base)})
        self.publish(base_manifest_list="manifest-list-base", delta_manifest_list="manifest-list-hostile")

    def verbs(self):
        table = lc.connect(self.root).table("db.t")
        return {
            "scan": lambda: table.scan().to_arrow(),
            "count": lambda: table.scan().count(),
            "files": table.files,
            "buckets": table.buckets,
            "lookup": lambda: table.lookup([1]),
            "changes": lambda: table.changes(2).to_arrow(),
            "write": lambda: table.write([{"id": 9}]),
            "overwrite": lambda: table.overwrite([{"id": 9}]),
            "compact": lambda: table.compact(full=True),
            "expire": lambda: table.expire_snapshots(retain_max=1, retain_min=1, older_than=timedelta(0)),
        }

    def check(self, *says):
        for verb, call in self.verbs().items():
            with pytest.raises(lc.CorruptTable) as told:
                call()
            assert all(one in str(told.value) for one in says), f"{verb}: {told.value}"
        findings = lc.connect(self.root).table("db.t").verify().findings
        assert any(all(one in str(finding) for one in says) for finding in findings)
        assert (self.root / "secret").read_text() == "keep"


@pytest.fixture
def hostile(tmp_path):
    return Hostile(tmp_path)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
@pytest.mark.damage
def test_a_data_file_with_a_hostile_name_is_told_by_every_verb(hostile, name, count):
    hostile.with_file_named(name, count)

    hostile.check("manifest-hostile", "_FILE_NAME")


@pytest.mark.parametrize("name", NAMES[:3], ids=ascii)
@pytest.mark.damage
def test_a_manifest_with_a_hostile_name_is_told_by_every_verb(hostile, name):
    hostile.with_manifest_named(name)

    hostile.check("manifest-list-hostile", "_FILE_NAME")


@pytest.mark.parametrize("field", ["base_manifest_list", "delta_manifest_list", "index_manifest", "statistics"])
@pytest.mark.parametrize("name", [NAMES[0], "x" * 300])
@pytest.mark.damage
def test_a_snapshot_that_names_a_hostile_file_is_told_by_every_verb(hostile, field, name):
    hostile.publish(**{field: name})

    hostile.check("snapshot-3")
