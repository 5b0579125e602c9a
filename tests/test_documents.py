"""The code on the pages under docs/ runs as it stands there, block after block."""

import logging
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("page", ["interchange.md"])
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # Pages set up logging, for good; a test puts it back.
    monkeypatch.setattr(logging, "basicConfig", lambda: None)
    before = logging.getLogger("lakehouse_core").level
    names: dict[str, object] = {"__name__": "page"}
    blocks = BLOCK.findall((DOCS / page).read_text())

    try:
        for block in blocks:
            exec(block, names)
    finally:
        logging.getLogger("lakehouse_core").setLevel(before)

    assert len(blocks) > 3
