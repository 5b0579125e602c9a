"""Instance: the parts of a Dagster instance that notice dead runs, and the settings that switch them on."""

from lakehouse_dagster.instance.coordinator import TableRunCoordinator
from lakehouse_dagster.instance.launcher import ProcessRunLauncher, executed_here
from lakehouse_dagster.instance.settings import instance_settings, write_instance_settings

__all__ = ["ProcessRunLauncher", "TableRunCoordinator", "executed_here", "instance_settings", "write_instance_settings"]
