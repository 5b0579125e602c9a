"""Files of Spark tasks lie on the disks that Spark has for them."""

import os
from pathlib import Path

import pyarrow as pa
import pytest

import lakehouse_core as lc
from lakehouse_core.execution.engines.spark import runtime as spark_runtime
from lakehouse_core.execution.engines.spark.local_disk import local_folder
from lakehouse_core.execution.engines.spark.write import frame as spark_write
from lakehouse_core.storage import MemoryStore
from lakehouse_core.table.schema import new_schema
from lakehouse_core.tasks.write.task import WriteTask

pytestmark = pytest.mark.spark


def test_tasks_have_a_folder_below_sparks_own(spark):
    def tell(batches):
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"folder": [local_folder()] * batch.num_rows})

    told = {row.folder for row in spark.range(0, 4, 1, 4).mapInArrow(tell, "folder string").collect()}

    (folder,) = told
    assert Path(folder).is_dir()
    assert Path(folder).name.startswith("blockmgr-")


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        (None, None),
        ("", None),
        ("{0}/gone", None),
        ("{0}/a", "{0}/a"),
        ("{0}/gone,{0}/b,{0}/a", "{0}/b"),
    ],
)
def test_the_first_folder_that_is_there_is_taken_outside_of_tasks(tmp_path, monkeypatch, named, expected):
    for name in "ab":
        (tmp_path / name).mkdir()
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    if named is not None:
        monkeypatch.setenv("SPARK_LOCAL_DIRS", named.format(tmp_path))

    assert local_folder() == (None if expected is None else expected.format(tmp_path))


def test_rows_of_a_task_that_wait_on_disk_lie_there(tmp_path, monkeypatch):
    options = {"bucket": "1", "write-buffer-size": "1 b"}
    schema = new_schema({"k": "INT NOT NULL"}, primary_keys=["k"], options=options, now_millis=0)
    monkeypatch.setattr(spark_runtime, "local_folder", lambda: os.fspath(tmp_path / "no folder"))
    batches = iter([pa.RecordBatch.from_pydict({"k": pa.array([number], pa.int32())}) for number in range(3)])

    with pytest.raises(lc.StorageUnavailable, match=r"no folder: the disk refused rows that wait to be merged"):
        spark_write.written_messages(WriteTask(store=MemoryStore().spec, schema=schema), batches)
