"""Index files of deletion vectors are written anew whole, and what they still say is what they said."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.clock import VirtualClock
from lakehouse_core.data_files.deletion_vector_writer import IndexChange, IndexFolder, change_vectors, marked_rows
from lakehouse_core.errors import CorruptTable
from lakehouse_core.options import DeletionVectorOptions
from lakehouse_core.storage import MemoryStore
from lakehouse_core.table.index_file import IndexFile

NAMES = st.sampled_from("abcdef")
MARKS = st.dictionaries(NAMES, st.sets(st.integers(0, 300), max_size=20), max_size=4)


def index_folder(*, buckets: bool = True, bits64: bool = False, target_bytes: int = 2 << 20) -> IndexFolder:
    options = DeletionVectorOptions(enabled=True, bits64=bits64, index_file_target_bytes=target_bytes)
    return IndexFolder(store=MemoryStore(), options=options, has_buckets=buckets)


def change(
    folder: IndexFolder, present: tuple[IndexFile, ...], marks: dict[str, set[int]], removed: set[str] = frozenset()
) -> IndexChange:
    rows = {name: np.array(sorted(found), np.int64) for name, found in marks.items()}
    return change_vectors(
        folder, present, VirtualClock(seed=len(folder.store.children("index").files)), marks=rows, removed=removed
    )


def told(folder: IndexFolder, present: tuple[IndexFile, ...]) -> dict[str, set[int]]:
    return {name: set(rows.tolist()) for name, rows in marked_rows(folder, present).items()}


@given(st.lists(st.tuples(MARKS, st.sets(NAMES, max_size=2)), max_size=5), st.booleans(), st.booleans())
def test_any_changes_leave_the_rows_that_were_marked_of_files_that_stay(steps, buckets, bits64):
    folder = index_folder(buckets=buckets, bits64=bits64, target_bytes=60)
    present: tuple[IndexFile, ...] = ()
    model: dict[str, set[int]] = {}
    for marks, removed in steps:
        done = change(folder, present, marks, removed)
        present = (*(one for one in present if one not in done.deleted), *done.new)
        for name, rows in marks.items():
            model[name] = model.get(name, set()) | rows
        model = {name: rows for name, rows in model.items() if rows and name not in removed}

        assert told(folder, present) == model
        assert all(one.row_count == len(one.deletion_vectors or ()) > 0 for one in present)
        infos = folder.store.infos(f"index/{one.file_name}" for one in present)
        assert [info.size for info in infos.values()] == [one.file_size for one in present]
        cardinalities = {v.data_file_name: v.cardinality for one in present for v in one.deletion_vectors or ()}
        assert cardinalities == {name: len(rows) for name, rows in model.items()}
        if buckets:
            assert len(present) <= 1


def test_index_files_of_which_nothing_changes_stay_where_there_are_no_buckets():
    folder = index_folder(buckets=False, target_bytes=20)
    first = change(folder, (), {"a": {1}, "b": {2}, "c": {3}})
    assert [[v.data_file_name for v in one.deletion_vectors or ()] for one in first.new] == [["a"], ["b"], ["c"]]

    second = change(folder, first.new, {"b": {9}}, removed={"c", "gone"})

    assert second.deleted == first.new[1:]
    assert told(folder, second.new) == {"b": {2, 9}}


def test_a_bucket_has_one_index_file_of_whatever_size():
    folder = index_folder(target_bytes=20)

    done = change(folder, (), {"a": {1}, "b": {2}})

    assert len(done.new) == 1
    assert told(folder, done.new) == {"a": {1}, "b": {2}}


@pytest.mark.parametrize("marks", [{}, {"a": set()}])
def test_where_nothing_changes_nothing_is_written(marks):
    folder = index_folder()
    first = change(folder, (), {"a": {1}})

    assert change(folder, first.new, marks, removed={"other"}) == IndexChange()
    assert len(folder.store.children("index").files) == 1


def test_the_last_vector_takes_its_index_file_along():
    folder = index_folder()
    first = change(folder, (), {"a": {1}})

    assert change(folder, first.new, {}, removed={"a"}) == IndexChange(deleted=first.new)


def test_vectors_that_do_not_change_keep_their_form_when_the_tables_form_does():
    narrow = index_folder()
    first = change(narrow, (), {"a": {1}, "b": {2}})
    wide = IndexFolder(store=narrow.store, options=DeletionVectorOptions(enabled=True, bits64=True), has_buckets=True)

    second = change(wide, first.new, {"b": {3}})

    assert told(wide, second.new) == {"a": {1}, "b": {2, 3}}
    assert [v.length for v in second.new[0].deletion_vectors or ()] == [22, 44]


def test_a_damaged_vector_is_not_carried_on():
    folder = index_folder()
    first = change(folder, (), {"a": {1}, "b": {2}})
    key = f"index/{first.new[0].file_name}"
    data = bytearray(folder.store.read(key))
    data[20] ^= 1
    folder.store.write({key: bytes(data)})

    with pytest.raises(CorruptTable, match=f"{key}, at 1 for a: the deletion vector cannot be trusted"):
        change(folder, first.new, {"b": {3}})


def test_an_index_file_that_is_gone_is_corruption():
    folder = index_folder()
    first = change(folder, (), {"a": {1}})
    folder.store.delete([f"index/{first.new[0].file_name}"])

    with pytest.raises(CorruptTable, match="it is missing"):
        marked_rows(folder, first.new)
