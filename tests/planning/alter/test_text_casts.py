"""What is told of texts that a change of types lets be read as something else."""

import pytest

from lakehouse_core.planning.alter.text_casts import cast_note
from lakehouse_core.table.schema import new_schema


def schema(**columns):
    return new_schema(columns, now_millis=0)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("STRING", "INT", "reads cast the texts that are in column c to INT, and fail"),
        ("VARCHAR(9)", "DATE", "to DATE, and fail at one that does not fit; with the type VARCHAR(9) again"),
        ("CHAR(4)", "BOOLEAN", "to BOOLEAN"),
        # What always fits, or is cut.
        ("STRING", "VARCHAR(3)", None),
        ("STRING", "BYTES", None),
        ("INT", "BIGINT", None),
        ("DOUBLE", "INT", None),
        ("INT", "STRING", None),
    ],
)
def test_only_texts_that_become_no_text_are_told(old, new, told):
    note = cast_note(schema(c=old), schema(c=new))

    assert note is None if told is None else told in str(note)


def test_each_column_is_told_by_the_name_that_it_has_now():
    first, second = str(cast_note(schema(a="STRING", b="STRING"), schema(x="INT", b="DOUBLE"))).split("; reads ")

    assert first.startswith("reads cast the texts that are in column x to INT")
    assert second.startswith("cast the texts that are in column b to DOUBLE")
