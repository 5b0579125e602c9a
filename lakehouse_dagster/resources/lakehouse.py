"""Lakehouse resource: a warehouse as a Dagster resource.

Rule: the resource is configuration only. The verbs are the catalog's.
"""

import json
from collections.abc import Hashable
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import dagster as dg
from pydantic import ConfigDict

import lakehouse_core as lc
from lakehouse_dagster.resources.spark import SessionSource


class LakehouseResource(dg.ConfigurableResource):
    """The warehouse and its Spark session: `LakehouseResource(warehouse="s3://lake/wh", spark=SparkRuntime())`.

    Its arguments but `name`, `table_defaults`, `health_pages` and `lineage` are those of `lc.connect`. Give what is
    secret, and what differs between machines, as a `dg.EnvVar`: Dagster shows the values of all others.
    """

    # Dagster would leave out a misspelled argument silently.
    model_config = ConfigDict(extra="forbid")

    name: str = "lake"
    """The first part of the asset keys of its tables."""
    warehouse: str
    """A path or URI. `dg.EnvVar("LAKEHOUSE_WAREHOUSE")` keeps it out of the code location."""
    metastore: str | None = None
    """The SQL database with the names, such as sqlite:////data/catalog.db. None: names are folders of the warehouse.
    `dg.EnvVar("LAKEHOUSE_METASTORE")` keeps its password out of the code location.
    """
    metastore_options: dict[str, str] = {}  # noqa: RUF012  # pydantic copies the default
    """The settings of a SQL catalog, such as `lock.enabled`."""
    profile: str = ""
    """The profile, in the file of profiles, that gives the storage and the metastore that are not set here. Empty:
    none.
    """
    storage: dict[str, str] = {}  # noqa: RUF012  # pydantic copies the default
    """Settings of the store's client; never options of a table."""
    table_defaults: dict[str, str] = {}  # noqa: RUF012  # pydantic copies the default
    """Options that a table gets when it is created here and its specification does not name them."""
    health_pages: str = ""
    """Folder of the health pages of tables, which maintenance writes. Empty: none are written."""
    lineage: str = ""
    """Receiver of OpenLineage events about the steps of its tables: a file, or an http(s) address. Empty: none are
    sent.
    """
    lineage_api_key: str = ""
    """The API key for the receiver. `dg.EnvVar("LINEAGE_API_KEY")` keeps it out of the code location."""
    spark: dg.ResourceDependency[SessionSource]
    """What gives the Spark session of its tasks: a `SparkRuntime`, or the PySparkResource of dagster-pyspark."""

    def catalog(self) -> lc.Catalog:
        """Open the catalog. The Spark session is made at the first task: sensors and checks never start a JVM."""
        return lc.connect(self.warehouse, spark=lambda: self.spark.spark_session, **self._settings())

    def local_catalog(self) -> lc.Catalog:
        """Open the catalog for metadata and small reads in this process, without Spark."""
        return lc.connect(self.warehouse, **self._settings())

    def _settings(self) -> dict[str, Any]:
        return {
            "profile": self.profile or None,
            "metastore": self.metastore,
            "metastore_options": self.metastore_options or None,
            "storage": self.storage or None,
        }

    @property
    def place(self) -> Hashable:
        """What tells the warehouse from others in a process: another service may have one of the same URI."""
        return self.uri, json.dumps(self._settings(), sort_keys=True)

    @property
    def uri(self) -> str:
        """The warehouse as a URI."""
        return (
            self.warehouse if urlparse(self.warehouse).scheme else Path(self.warehouse).expanduser().absolute().as_uri()
        )
