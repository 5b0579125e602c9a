"""Run tags: which table a run is about, from the tags of its assets, and which group of re-executions it is of."""

from collections.abc import Iterable, Mapping

TABLE, OPERATION = "lakehouse/table", "lakehouse/operation"
# Dagster takes a requested run for the first of a new group; its re-executions keep this tag.
ROOT_RUN = "lakehouse/root_run_id"
# On a dead run, with its own identifier: the sensor `carry_on` executes it again, and Dagster was told to leave it
# alone. A re-execution from the page of the run copies the tag, which then has the identifier of another run.
CARRY_ON = "lakehouse/carry_on"


def table_tags(assets: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the run tags `lakehouse/table` and `lakehouse/operation` for the tags of its assets.

    A run about several tables, or about none, has neither; an operation on a whole lake has no table. Several
    operations are joined by `+`, in the order of their names; assets without an operation do not count.
    """
    about = [tags for tags in assets if OPERATION in tags]
    tables = {tags.get(TABLE) for tags in about}
    if len(tables) != 1:
        return {}
    table = tables.pop()
    operation = {OPERATION: "+".join(sorted({tags[OPERATION] for tags in about}))}
    return operation if table is None else {TABLE: table, **operation}


def range_tags(first: str, last: str) -> dict[str, str]:
    """Return the tags of a run of the partitions from `first` to `last`, in the order of Dagster."""
    return {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}


def root_run_id(run_id: str, tags: Mapping[str, str]) -> str:
    """Return the first run of the group of a run, also when the sensor `carry_on` requested one in between.

    It identifies what the run commits, so a run that is carried on commits the same once.
    """
    return tags.get(ROOT_RUN) or tags.get("dagster/root_run_id") or run_id
