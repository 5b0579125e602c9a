"""Values of a row change task: what it is given, and its result, which engines pass as text."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from lakehouse_core.format.deletion_vector import Positions
from lakehouse_core.planning.row_changes.expressions import Expression
from lakehouse_core.planning.row_changes.methods import Method
from lakehouse_core.storage.object_store import StoreSpec
from lakehouse_core.table.commit_json import messages_from_json, messages_to_json
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.predicate import Predicate
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.split import Split


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeTask:
    """The rows to change in one split, and in those `beside` it, whose waiting rows are the same. `store` is rooted at
    the table.

    `predicate`, bound to `schema`: the rows; None: all. `assignments`: the new values by column, None to delete.
    `hits`: by data file name, the positions of the rows; None: those that satisfy the predicate.
    `next_sequence_number`: the first one of new rows in the bucket of the split. `commit_user`: the writer of rows that
    wait behind others. `only_counts`: write nothing.
    """

    store: StoreSpec
    schema: TableSchema
    split: Split
    beside: tuple[Split, ...] = ()
    file_schemas: Mapping[int, TableSchema]
    method: Method
    predicate: Predicate | None
    assignments: Mapping[str, Expression] | None = None
    hits: Mapping[str, Positions] | None = None
    next_sequence_number: int = 0
    commit_user: str = ""
    only_counts: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """The result of a task. `marks`: by data file name, the positions of the rows to mark as deleted."""

    messages: tuple[CommitMessage, ...] = ()
    rows_read: int = 0
    rows_matched: int = 0
    files_touched: int = 0
    marks: Mapping[str, Positions] = field(default_factory=dict)


def writing_schema(task: ChangeTask) -> TableSchema:
    """Return the schema by which new rows of the split are written: nulls stay null, and rows stay in their bucket. If
    others wait for it, they wait behind those, as they are newer.
    """
    schema = task.schema
    fields = tuple(replace(each, default_value=None) for each in schema.fields)
    options = {} if task.split.waiting else {"bucket": str(task.split.total_buckets)}
    return replace(schema, fields=fields, options={**schema.options, **options})


def changed_to_text(changed: Changed) -> str:
    """Return the result as one line of text."""
    marks = {name: base64.b64encode(rows.astype("<i8").tobytes()).decode() for name, rows in changed.marks.items()}
    return json.dumps(
        {
            "messages": messages_to_json(changed.messages),
            "rows": [changed.rows_read, changed.rows_matched, changed.files_touched],
            "marks": marks,
        }
    )


def changed_from_text(text: str) -> Changed:
    """Return the result in the text of `changed_to_text`."""
    found = json.loads(text)
    rows_read, rows_matched, files_touched = found["rows"]
    return Changed(
        messages=messages_from_json(found["messages"]),
        rows_read=rows_read,
        rows_matched=rows_matched,
        files_touched=files_touched,
        marks={name: np.frombuffer(base64.b64decode(rows), "<i8") for name, rows in found["marks"].items()},
    )
