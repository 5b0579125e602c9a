"""The address of a SQL catalog: which database, under which catalog key, and whether its lock is taken.

Rule: a password is in no address, text or pickle. It stays in the process to which it was given.
Source: docs/decisions/0023-sql-catalogs.md.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from lakehouse_core.errors import InvalidRequest, UnsupportedFeature, near_hint, shown
from lakehouse_core.options import parse_duration
from lakehouse_core.storage import has_secret, home_expanded, is_secret_setting

SQLITE: Final = "sqlite"
POSTGRESQL: Final = "postgresql"
# MariaDB, too: it speaks the same language by the same driver.
MYSQL: Final = "mysql"

# The first one of each is that of its extra.
_DRIVERS: Final = {SQLITE: ("pysqlite",), POSTGRESQL: ("psycopg", "psycopg2"), MYSQL: ("pymysql",)}
# Other spellings of a kind of database, as users know them.
_ALIASES: Final = {"postgres": POSTGRESQL, "mariadb": MYSQL}
_SETTINGS: Final = ("catalog-key", "lock.enabled", "lock-acquire-timeout", "jdbc.user", "jdbc.password")
_EXAMPLES: Final = (
    "metastore='sqlite:////data/catalog.db', 'postgresql://user@host/database' or 'mysql://user@host/database'"
)
# As in the layout of the SQL tables.
_LONGEST_KEY: Final = 255
# By address without password. Another process has none of these, and takes its own.
_GIVEN: Final[dict[str, str]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlAddress:
    """Where a SQL catalog is. `url` has no password; `has_given_password`: one was given, here or elsewhere.

    `takes_lock`: writers take the lock row of the table around each publish.
    """

    dialect: str
    url: str
    catalog_key: str = "jdbc"
    takes_lock: bool = False
    lock_timeout_millis: int = 480_000
    has_given_password: bool = False

    @property
    def text(self) -> str:
        """The address as it is shown."""
        return f"{self.dialect}:{self.url.partition(':')[2]}"

    @property
    def names_other_driver(self) -> bool:
        """Whether its driver is another one than that of the extra."""
        return make_url(self.url).drivername != f"{self.dialect}+{_DRIVERS[self.dialect][0]}"

    @property
    def file(self) -> str | None:
        """The path of the database's file, None for a server."""
        return make_url(self.url).database if self.dialect == SQLITE else None


def sql_address(metastore: str, settings: Mapping[str, str]) -> SqlAddress:
    """Return the address that `connect(metastore=…, metastore_options=…)` gives. A password among them is used by this
    process for the address from now on.

    Raises InvalidRequest; UnsupportedFeature for other catalogs, naming the next step.
    """
    given = _checked(settings)
    url = _parsed(metastore)
    if url.drivername.partition("+")[0] == SQLITE:
        dialect, url = SQLITE, _file_url(url)
        if unused := [name for name in given if name.startswith("jdbc.")]:
            raise InvalidRequest(f"metastore_options: {unused[0]}: a file of SQLite has no users. Leave it out.")
    else:
        dialect, url = url.drivername.partition("+")[0], _server_url(url, given)
    password = given.get("jdbc.password", url.password)
    text = _without_password(url)
    if password is not None:
        _GIVEN[text] = str(password)
    key = given.get("catalog-key", "jdbc")
    if not key or len(key) > _LONGEST_KEY:
        raise InvalidRequest(f"metastore_options: catalog-key is {shown(key)}. Expected 1 to {_LONGEST_KEY} letters.")
    return SqlAddress(
        dialect=dialect,
        url=text,
        catalog_key=key,
        takes_lock=_flag(given, "lock.enabled"),
        lock_timeout_millis=parse_duration("lock-acquire-timeout", given.get("lock-acquire-timeout", "8 min")),
        has_given_password=password is not None,
    )


def with_password(address: SqlAddress) -> URL:
    """Return the URL with the password that was given to this process. Do not show or send it."""
    url = make_url(address.url)
    return url if (password := _GIVEN.get(address.url)) is None else url.set(password=password)


def without_secrets(address: SqlAddress, text: str) -> str:
    """Return a message of the database or its driver without the password."""
    password = _GIVEN.get(address.url)
    return text.replace(password, "***") if password else text


def _parsed(metastore: str) -> URL:
    if not isinstance(metastore, str) or not metastore.strip():
        raise InvalidRequest(f"metastore={shown(metastore)}: expected the address of a database: {_EXAMPLES}.")
    scheme = metastore.partition(":")[0].strip().lower()
    base, plus, driver = scheme.partition("+")
    match base:
        case "thrift" | "hive":
            raise UnsupportedFeature(
                f"metastore={shown(scheme)}: a Hive metastore is not supported. Use a SQL catalog, which Java Paimon "
                f"shares as its metastore 'jdbc': {_EXAMPLES}."
            )
        case "rest" | "http" | "https":
            raise UnsupportedFeature(
                f"metastore={shown(scheme)}: Paimon's REST catalog is not supported yet. Use a SQL catalog, which Java "
                f"Paimon shares as its metastore 'jdbc': {_EXAMPLES}."
            )
        case "filesystem":
            raise InvalidRequest(
                "metastore='filesystem': that is Java's word for a catalog without a database. Leave metastore out, "
                "and the folders of the warehouse are the names."
            )
        case "jdbc":
            raise InvalidRequest(
                "metastore: found an address as Java writes it (jdbc:…). Leave out 'jdbc:', give user and password as "
                f"metastore_options jdbc.user and jdbc.password, and write {_EXAMPLES}."
            )
        case "postgres" | "mariadb":
            metastore = f"{_ALIASES[base]}{plus}{driver}{metastore.strip()[len(scheme) :]}"
        case _:
            pass
    try:
        url = make_url(metastore)
    except (ArgumentError, ValueError):
        # The text may hold a password, so it is not repeated.
        raise InvalidRequest(
            f"metastore: expected the address of a database, found another text: {_EXAMPLES}."
        ) from None
    kind, plus, driver = url.drivername.partition("+")
    if kind not in _DRIVERS:
        raise UnsupportedFeature(f"metastore={shown(kind)}: there is no catalog of that kind. Use {_EXAMPLES}.")
    if plus and driver not in _DRIVERS[kind]:
        raise UnsupportedFeature(
            f"metastore={shown(url.drivername)}: the driver {shown(driver)} is not supported. Use "
            f"{' or '.join(f'{kind}+{each}' for each in _DRIVERS[kind])}, or leave the driver out."
        )
    return url if plus else url.set(drivername=f"{kind}+{_DRIVERS[kind][0]}")


def _file_url(url: URL) -> URL:
    if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
        raise InvalidRequest(
            "metastore: a catalog in SQLite needs a file, found none. Write sqlite:////data/catalog.db, with four "
            "slashes for an absolute path."
        )
    if url.host or url.query:
        raise InvalidRequest(
            "metastore: found a host or settings in the address of SQLite, expected a path only, as in "
            "sqlite:////data/catalog.db, with four slashes for an absolute path."
        )
    return url.set(database=os.path.abspath(home_expanded(url.database)))


def _server_url(url: URL, given: Mapping[str, str]) -> URL:
    # Of a password with a bare @, what follows the @ would be taken for a part of the host.
    if url.host is not None and "@" in url.host:
        raise InvalidRequest(
            "metastore: found a second @ in the address. Write an @ in a user or a password as %40, or give them as "
            "the metastore options jdbc.user and jdbc.password."
        )
    if any(map(is_secret_setting, url.query)) or has_secret(_without_password(url)):
        raise InvalidRequest(
            "metastore: found a password or a key among the settings of the address. Give a password as the metastore "
            "option jdbc.password, or for PostgreSQL in the environment variable PGPASSWORD."
        )
    if not url.database:
        kind = url.drivername.partition("+")[0]
        raise InvalidRequest(f"metastore: found no database, expected {kind}://user@host/database.")
    return url.set(username=given["jdbc.user"]) if "jdbc.user" in given else url


def _without_password(url: URL) -> str:
    # `set` would keep the password.
    bare = URL.create(url.drivername, url.username, None, url.host, url.port, url.database, url.query)
    return bare.render_as_string(hide_password=False)


def _checked(settings: Mapping[str, Any]) -> Mapping[str, str]:
    for name, value in settings.items():
        if name not in _SETTINGS:
            hint = near_hint(name, _SETTINGS, f"Expected {', '.join(_SETTINGS)}.", most=1)
            raise InvalidRequest(f"metastore_options: there is no option {shown(name)} of a SQL catalog. {hint}")
        if not isinstance(value, str):
            found = "a value that is not text" if "password" in name else shown(value)
            raise InvalidRequest(f"metastore_options: {name} is {found}. Expected text.")
    return settings


def _flag(given: Mapping[str, str], name: str) -> bool:
    text = given.get(name, "false").strip().lower()
    if text not in ("true", "false"):
        raise InvalidRequest(f"metastore_options: {name} is {shown(given[name])}. Expected true or false.")
    return text == "true"
