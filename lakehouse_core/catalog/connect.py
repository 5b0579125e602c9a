"""Connect: the front door, from the address of a warehouse to its catalog.

Rule: connecting reads and creates nothing; the first verb does.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import PurePath
from typing import Any, TypeAlias

from lakehouse_core.api.arguments import mapping_of
from lakehouse_core.api.spark_engine import spark_engine
from lakehouse_core.calls import checks_call
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.catalog.metastore import Metastore
from lakehouse_core.catalog.profiles import Profile, read_profile
from lakehouse_core.catalog.warehouse_files import WarehouseFiles
from lakehouse_core.clock import Clock, SystemClock
from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.execution.engine import Engine
from lakehouse_core.format.stored import is_broken
from lakehouse_core.storage import (
    EXPECTED_ADDRESS,
    ObjectStore,
    StoreSpec,
    has_conditions,
    has_secret,
    open_warehouse,
    parse_location,
    with_storage,
)

# Named for the reader: this module must not know Spark.
SparkSession: TypeAlias = Any


@checks_call
def connect(
    warehouse: str | PurePath | None = None,
    *,
    profile: str | None = None,
    spark: SparkSession | Callable[[], SparkSession] | None = None,
    storage: Mapping[str, str] | None = None,
    metastore: str | None = None,
    metastore_options: Mapping[str, str] | None = None,
) -> Catalog:
    """Open the catalog of a warehouse: a file path (`~` is the home folder), a file:// URI, s3://bucket/prefix,
    or az://container/prefix. It need not exist yet.

    `storage`: how an object store is reached (endpoint, allow-http, timeout in seconds, connections; S3: region,
    path-style; Azure: account), and its keys where they are not in the environment (access-key, secret-key and
    session-token; account-key or sas-token); conditional-writes is false for a store that has none, where the database
    of `metastore` decides. `spark`: a session, or a function that makes one at the first task; tasks then run on Spark,
    otherwise in this process.
    `metastore`: the SQL database that keeps the names, as Java's JDBC catalog does (sqlite:////path,
    postgresql://user@host/database or mysql://user@host/database); without it the folders of the warehouse are the
    names. `metastore_options`: catalog-key (jdbc), lock.enabled, lock-acquire-timeout, jdbc.user, jdbc.password.
    `profile`: a name in the file ~/.lakehouse.yaml, or the one that LAKEHOUSE_PROFILES names; it gives what is not
    given here.
    Raises InvalidRequest, UnsupportedFeature, NotFound for the profile.
    """
    address = address_of(
        str(warehouse) if isinstance(warehouse, PurePath) else warehouse,
        profile=profile,
        storage=mapping_of("connect: storage", storage),
        metastore=metastore,
        metastore_options=mapping_of("connect: metastore_options", metastore_options),
    )
    if spark is not None and not _is_session_or_function(spark):
        raise InvalidRequest(
            f"connect: spark={shown(spark)} is not a Spark session. Pass a SparkSession, or a function that "
            "returns one, as in spark=SparkSession.builder.getOrCreate."
        )
    engine = None if spark is None else cache(lambda: spark_engine(spark))
    return catalog_at(address, engine=engine)


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogAddress:
    """Where a catalog is. `metastore` None: the folders of the warehouse are the names."""

    location: StoreSpec
    metastore: str | None = field(repr=False)
    metastore_options: Mapping[str, str] = field(repr=False)


def address_of(
    warehouse: str | None,
    *,
    profile: str | None = None,
    storage: Mapping[str, str],
    metastore: str | None,
    metastore_options: Mapping[str, str],
) -> CatalogAddress:
    """Return the address of a catalog; the profile gives what is not given. Raises as `connect` does."""
    named = Profile() if profile is None else read_profile(profile)
    found = named.warehouse if warehouse is None else warehouse
    if found is None and profile is not None:
        raise InvalidRequest(
            f"Profile {shown(profile)} has no warehouse. Add it there, or give one beside the profile."
        )
    # A value of another kind would be shown below.
    if has_secret(found if isinstance(found, str) else shown(found)):
        raise InvalidRequest(
            "Warehouse: found a password, a key or a signature in the address, which ends in messages and logs. "
            "Leave it out, and set the credentials in the environment, or as {env: NAME} in a profile "
            "(docs/catalogs.md#profiles). A folder on a disk that only looks like it is written with ./ before it."
        )
    if not isinstance(found, str) or is_broken(found):
        raise InvalidRequest(f"Warehouse {shown(found)}: expected {EXPECTED_ADDRESS}.")
    # Options belong to the metastore beside which they stand.
    options = metastore_options if metastore is not None else {**named.metastore_options, **metastore_options}
    return CatalogAddress(
        location=with_storage(parse_location(found), {**named.storage, **storage}),
        metastore=named.metastore if metastore is None else metastore,
        metastore_options=options,
    )


def catalog_at(address: CatalogAddress, *, engine: Callable[[], Engine] | None = None) -> Catalog:
    """Open the catalog at an address, on the system's clock; tasks run in this process by default.

    Raises as `connect` does for its metastore.
    """
    store, clock = open_warehouse(address.location), SystemClock()
    if address.metastore is None:
        if address.metastore_options:
            raise InvalidRequest(
                f"connect: metastore_options has {shown(list(address.metastore_options))}, but no metastore is given. "
                "Give metastore='sqlite:////data/catalog.db', or leave the options out."
            )
        return Catalog(store, engine=engine, clock=clock)
    decides = not has_conditions(address.location)
    store, names = _sql_metastore(address.metastore, address.metastore_options, store, clock, decides=decides)
    return Catalog(store, engine=engine, clock=clock, metastore=names)


def _sql_metastore(
    metastore: str, options: Mapping[str, str], store: ObjectStore, clock: Clock, *, decides: bool
) -> tuple[ObjectStore, Metastore]:
    """Return the metastore, and the store by which tables are written. `decides`: the database decides who wins."""
    try:
        from lakehouse_core.catalog.sql.decided_store import decided_store  # noqa: PLC0415
        from lakehouse_core.catalog.sql.metastore import sql_metastore  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "sqlalchemy":
            raise
        # The extra of a server brings its driver, too.
        kind = str(metastore).strip().partition(":")[0].partition("+")[0].lower()
        extra = {"postgres": "postgresql", "postgresql": "postgresql", "mysql": "mysql", "mariadb": "mysql"}
        raise InvalidRequest(
            "metastore: the package sqlalchemy is not installed. Run pip install "
            f"'paimon-lakehouse[{extra.get(kind, 'sql')}]'."
        ) from error
    if decides:
        store = decided_store(metastore, options, store, clock)
    return store, sql_metastore(metastore, options, WarehouseFiles(store, clock), clock)


def _is_session_or_function(spark: object) -> bool:
    return not isinstance(spark, type) and (callable(spark) or hasattr(spark, "createDataFrame"))
