"""Instance settings: the `dagster.yaml` with which dead runs are noticed and carried on."""

from pathlib import Path

_TEMPLATE = Path(__file__).parent / "dagster.yaml"


def instance_settings() -> str:
    """Return a `dagster.yaml` for one machine, as text.

    It has the launcher, the run coordinator and run monitoring that notice a dead run within half a minute, one retry
    for it, and pools of one run a table. Storage is SQLite in DAGSTER_HOME; add `storage` for another one.
    """
    return _TEMPLATE.read_text()


def write_instance_settings(home: Path | str) -> Path:
    """Write `dagster.yaml` into the folder that DAGSTER_HOME will name, and return its path.

    The folder is made when it is missing. A `dagster.yaml` that is there is left as it is.
    """
    path = Path(home) / "dagster.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.write_text(instance_settings())
    return path
