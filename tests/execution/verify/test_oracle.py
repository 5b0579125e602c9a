"""verify looks at a step by what it changes, and passes over merged manifests: a plain walk finds the same."""

import random
import re
from dataclasses import replace

import pytest

from lakehouse_core.execution.verify.verify import verify
from lakehouse_core.table.manifest import EntryKind, encode_manifest, encode_manifest_list
from lakehouse_core.table.snapshot import serialize_snapshot
from tests.execution.small_table import TOP_LEVEL, SmallTable
from tests.oracle.broken import first_broken
from tests.pairs import in_turn


def lived_table(chance):
    """A table whose manifests are merged every few commits, in one way or the other, and whose files are compacted."""
    merges = chance.choice([{"manifest.merge-min-count": "3"}, {"manifest.full-compaction-threshold-size": "1 b"}, {}])
    table = SmallTable(options=merges)
    for number in range(chance.randint(6, 14)):
        table.write({chance.randint(0, 9): f"v{number}"}, bucket=chance.randint(0, 1))
        if chance.random() < 0.25:
            table.compact()
    return table


def rewritten(table, id, base=lambda manifests: manifests, delta=lambda entries: entries, **changes):
    """Let a snapshot list other manifests, or have another delta."""
    snapshot = table.context.snapshots.snapshot(id)
    data = encode_manifest_list(base(table.context.manifests.base(snapshot)))
    table.store.write({f"manifest/manifest-list-odd-{id}": data})
    changes |= {"base_manifest_list": f"manifest-list-odd-{id}", "base_manifest_list_size": len(data)}
    (manifest,) = table.context.manifests.delta(snapshot)
    entries = delta(table.context.manifests.entries(manifest, with_stats=True))
    content = encode_manifest(entries)
    table.store.write({f"manifest/manifest-odd-{id}": content})
    listed = replace(
        manifest,
        file_name=f"manifest-odd-{id}",
        file_size=len(content),
        num_added_files=sum(entry.kind is EntryKind.ADD for entry in entries),
        num_deleted_files=sum(entry.kind is EntryKind.DELETE for entry in entries),
        checksum=None,
    )
    data = encode_manifest_list([listed])
    table.store.write({f"manifest/manifest-list-delta-{id}": data})
    changes |= {"delta_manifest_list": f"manifest-list-delta-{id}", "delta_manifest_list_size": len(data)}
    changed = snapshot.model_copy(update={**changes, "properties": {}})
    table.store.write({f"snapshot/snapshot-{id}": serialize_snapshot(changed)})


def ghost(entry):
    return replace(entry, kind=EntryKind.DELETE, file=replace(entry.file, file_name="data-ghost.json"))


def at_top(entry, **others):
    return replace(entry, file=replace(entry.file, level=TOP_LEVEL, **others))


def lose_a_file(table, id):
    (manifest,) = table.context.manifests.delta(table.context.snapshots.snapshot(id))
    entry = table.context.manifests.entries(manifest)[-1]
    table.store.delete([f"{table.folders.bucket(entry.partition, entry.bucket)}/{entry.file.file_name}"])


DAMAGE = {
    "none": lambda table, id: None,
    "none, written anew": rewritten,
    "a file added twice": lambda table, id: rewritten(table, id, delta=lambda found: [*found, found[-1]]),
    "a ghost deleted": lambda table, id: rewritten(table, id, delta=lambda found: [*found, ghost(found[-1])]),
    "a file at two levels": lambda table, id: rewritten(table, id, delta=lambda found: [*found, at_top(found[-1])]),
    "a file at the top": lambda table, id: rewritten(table, id, delta=lambda found: [at_top(one) for one in found]),
    "another bucket count": lambda table, id: rewritten(
        table, id, delta=lambda found: [replace(one, total_buckets=3) for one in found]
    ),
    "a delta that is empty": lambda table, id: rewritten(table, id, delta=lambda found: found[:0]),
    "a base that forgets": lambda table, id: rewritten(table, id, base=lambda manifests: manifests[1:]),
    "a base in another order": lambda table, id: rewritten(table, id, base=lambda manifests: manifests[::-1]),
    "a base that repeats": lambda table, id: rewritten(table, id, base=lambda manifests: [*manifests, *manifests[:1]]),
    "a wrong total": lambda table, id: rewritten(table, id, total_record_count=77),
    "a file is missing": lose_a_file,
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", in_turn(3, DAMAGE))
def test_a_plain_walk_finds_the_same_promises_broken_first(name):
    for seed in range(6):
        chance = random.Random(seed)
        table = lived_table(chance)
        DAMAGE[name](table, chance.randint(2, table.ids()[-1]))
        table.over(table.store)

        expected = first_broken(table.context, table.folders, [field.type for field in table.schema.key_fields])
        found = verify(table.context)

        assert first_of(found) == expected, (seed, [str(finding) for finding in found])


def first_of(findings):
    """Return by promise the first snapshot that a finding names."""
    first = {}
    for finding in findings:
        if finding.found.startswith("deltaRecordCount") or finding.object.startswith("manifest/"):
            # The plain walk does not count these.
            continue
        (id,) = {int(id) for id in re.findall(r"snapshot/snapshot-(\d+)", f"{finding.object} {finding.expected}")}
        first[str(finding.promise)] = min(id, first.get(str(finding.promise), id))
    return first
