"""Long steps say now and then how far they are; short ones say nothing."""

import lakehouse_core as lc
from lakehouse_dagster.pipeline.progress import logged_progress, progress_text


def test_a_line_is_logged_once_in_thirty_seconds_and_none_before():
    lines: list[str] = []
    seconds = iter([0, 29, 30, 30, 59, 61, 61]).__next__
    listen = logged_progress(lines.append, now=seconds)

    for done in range(4):
        listen(lc.Progress(table="db.t", phase="compacting", done=done, total=4, unit="tasks"))

    assert lines == ["db.t: compacting, 1 of 4 tasks", "db.t: compacting, 3 of 4 tasks"]


def test_a_line_says_what_is_known():
    assert progress_text(lc.Progress(table="db.t", phase="committing")) == "db.t: committing"
    assert (
        progress_text(lc.Progress(table="db.t", phase="writing", done=1_000_000, unit="rows"))
        == "db.t: writing, 1,000,000 rows"
    )
