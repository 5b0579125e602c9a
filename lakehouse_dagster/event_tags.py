"""Event tags: what Dagster notes on an event of an asset about the version of its data and of its inputs."""

import dagster as dg

DATA_VERSION, CODE_VERSION = "dagster/data_version", "dagster/code_version"
# Begins the tags of each input.
INPUT = "dagster/input_"


def input_version(asset: dg.AssetKey) -> str:
    """Return the tag with the version of the data of an input."""
    return f"{INPUT}data_version/{asset.to_user_string()}"


def input_pointer(asset: dg.AssetKey) -> str:
    """Return the tag with the place of the event of an input in the order of all events."""
    return f"{INPUT}event_pointer/{asset.to_user_string()}"
