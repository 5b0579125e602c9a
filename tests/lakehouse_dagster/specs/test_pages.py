"""The YAML of pages is what a specification, a component, a run or a profile takes."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from lakehouse_core.catalog.profiles import read_profile
from lakehouse_dagster import LakehouseTableComponent, copy_job, orphans_job
from lakehouse_dagster.specs.loading import load_specs, parse_spec

DOCS = Path(__file__).parents[3] / "docs"
PAGES = ("catalogs.md", "dagster-running.md", "dagster.md", "sources.md")
BLOCKS = [
    (page, block) for page in PAGES for block in re.findall(r"```yaml\n(.*?)```", (DOCS / page).read_text(), re.S)
]
# What a part of a specification is part of.
REST = """\
database: sales
name: orders
comment: Orders of the shop.
columns: {id: BIGINT, dt: DATE NOT NULL}
write_mode: append
files: {path: "incoming/*.csv"}
"""
SOURCES = {"feed", "files", "sql", "function", "asset", "changes_of"}


def variants(block: str) -> Iterator[dict[str, Any]]:
    """Yield what a block says: a key that is there twice has two forms, each of which is a variant."""
    root = yaml.compose(block, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)
    pairs = [(key.value, yaml.safe_load(yaml.serialize(value))) for key, value in root.value]
    for chosen in range(len(pairs)):
        yield dict([*pairs, pairs[chosen]])


@pytest.mark.parametrize(("page", "block"), BLOCKS, ids=[f"{page} {block[:20]}" for page, block in BLOCKS])
def test_the_yaml_of_a_page_is_taken(page: str, block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for given in variants(block):
        if page == "catalogs.md":
            (tmp_path / "profiles.yaml").write_text(yaml.safe_dump(given))
            monkeypatch.setenv("LAKEHOUSE_PROFILES", str(tmp_path / "profiles.yaml"))
            monkeypatch.setenv("NAMES_PASSWORD", "secret")
            assert [read_profile(name).warehouse for name in given] == ["s3://lake/warehouse"]
        elif "ops" in given:
            (job,) = (job for job in (orphans_job(), copy_job("lakehouse", "archive")) if {*given["ops"]} == ops(job))
            assert dg.validate_run_config(job, given)
        elif "type" in given:
            assert given["type"] == f"lakehouse_dagster.{LakehouseTableComponent.__name__}"
            model = LakehouseTableComponent.get_model_cls()
            assert model is not None
            assert model.model_validate(given["attributes"])
        else:
            rest = yaml.safe_load(REST)
            if SOURCES & {*given}:
                del rest["files"]
            whole = yaml.safe_dump({**rest, **given})
            assert parse_spec(whole, f"{page}.yaml").database == "sales"


def ops(job: dg.JobDefinition) -> set[str]:
    return {node.name for node in job.nodes}


def test_all_specifications_of_the_pages_are_loaded_together(tmp_path: Path):
    whole = [block for page, block in BLOCKS if page != "catalogs.md" and block.startswith("database:")]
    for number, block in enumerate(whole):
        (tmp_path / f"{number}.yaml").write_text(block)

    assert len(load_specs(tmp_path)) == len(whole) == 5
    assert len(BLOCKS) > 12
