"""Settings of `format("lakehouse")`: the options of Spark's readers and writers, parsed once.

Rule: an unknown option, one of another use, and two that contradict each other are refused. So are secrets, because
Spark keeps options in plans and event logs. Source: docs/spark.md#formatlakehouse.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lakehouse_core.api.table import Table
from lakehouse_core.catalog.connect import connect
from lakehouse_core.catalog.names import DATABASE_SUFFIX, near
from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.options import SCAN_KEYS, check_alters_nothing
from lakehouse_core.storage import has_secret


class Use(StrEnum):
    """What a reader or writer does. SCHEMA: a read of which Spark does not say yet whether it is a stream."""

    BATCH_READ = "batch reads"
    STREAM_READ = "stream reads"
    BATCH_WRITE = "batch writes"
    STREAM_WRITE = "stream writes"
    SCHEMA = "reads"


# Names of Java's options for streams.
CHANGELOG: Final = "read.changelog"
CONSUMER: Final = "consumer-id"
# Spark's own; Spark passes all names in lower case.
_OVERWRITE_MODE: Final = "partitionoverwritemode"
_CHECKPOINT: Final = "checkpointlocation"

_PLACE: Final = frozenset({"path", "table", "warehouse", "profile", "metastore"})
_ROWS: Final = frozenset({"columns", "where"})
_BATCH: Final = _PLACE | _ROWS | SCAN_KEYS
# Where a stream begins.
STREAM_START: Final = frozenset({"scan.mode", "scan.snapshot-id"})
_STREAM: Final = _PLACE | _ROWS | STREAM_START | {CHANGELOG, CONSUMER}
_ALLOWED: Final[Mapping[Use, frozenset[str]]] = {
    Use.BATCH_READ: _BATCH,
    Use.STREAM_READ: _STREAM,
    Use.SCHEMA: _BATCH | _STREAM,
    Use.BATCH_WRITE: _PLACE | {_OVERWRITE_MODE},
    Use.STREAM_WRITE: _PLACE | {_CHECKPOINT},
}
# Neither an absolute path, nor one of the home folder, nor an address with a scheme.
_RELATIVE: Final = re.compile(r"(?![/~]|[A-Za-z][A-Za-z0-9+.-]*:)")
_SECRETS: Final = ("secret", "password", "token", "access-key", "accesskey", "account-key", "credential")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The options of one read or write. `columns` None: all. `scan`: Paimon's options that choose state or changes.

    `is_dynamic`: whether an overwrite replaces the partitions that have rows, not the whole table; None: not given.
    """

    table: str
    warehouse: str | None
    profile: str | None
    metastore: str | None
    columns: tuple[str, ...] | None
    where: str | None
    scan: Mapping[str, str]
    with_row_kind: bool
    consumer: str | None
    is_dynamic: bool | None

    def open(self) -> Table:
        """Return the table. Its tasks run in this process. Raises NotFound naming near matches, InvalidRequest."""
        return connect(self.warehouse, profile=self.profile, metastore=self.metastore).table(self.table)


def settings_of(given: Mapping[str, str], use: Use) -> Settings:
    """Return the settings. Raises InvalidRequest naming the option."""
    _check_names(given, use)
    warehouse, table = _place(given)
    return Settings(
        table=table,
        warehouse=warehouse,
        profile=given.get("profile"),
        metastore=given.get("metastore"),
        columns=_columns(given),
        where=given.get("where"),
        scan={key: value for key, value in given.items() if key in SCAN_KEYS},
        with_row_kind=_word(given, CHANGELOG, {"true": True, "false": False}) or False,
        consumer=given.get(CONSUMER),
        is_dynamic=_word(given, _OVERWRITE_MODE, {"dynamic": True, "static": False}),
    )


def write_use(given: Mapping[str, str]) -> Use:
    """Return the use of a write, which only a stream's checkpoint tells."""
    return Use.STREAM_WRITE if _CHECKPOINT in given else Use.BATCH_WRITE


def _check_names(given: Mapping[str, str], use: Use) -> None:
    for name, value in given.items():
        if any(word in name for word in _SECRETS):
            raise InvalidRequest(
                f"Option {name}: options end in Spark's plans and event logs. Set secrets in the environment of driver "
                "and workers, and name the warehouse by a profile (docs/catalogs.md#profiles)."
            )
        if name in _PLACE and has_secret(value):
            raise InvalidRequest(
                f"Option {name}: found a password, a key or a signature in the address; options end in Spark's plans "
                "and event logs. Leave it out, and set the credentials in the environment, or name a profile that "
                "takes them from there (docs/catalogs.md#profiles)."
            )
        if name in _ALLOWED[use]:
            continue
        check_alters_nothing(name)
        uses = [other for other, allowed in _ALLOWED.items() if name in allowed and other is not Use.SCHEMA]
        if uses:
            raise InvalidRequest(f"Option {name} is for {_joined(uses)}, not for {use}. Leave it out.")
        raise InvalidRequest(f"Option {shown(name)}: there is no such option. {near(name, _ALLOWED[use])}")


def _place(given: Mapping[str, str]) -> tuple[str | None, str]:
    """Return warehouse and table."""
    path, table, warehouse = given.get("path"), given.get("table"), given.get("warehouse")
    if path is not None and table is not None:
        raise InvalidRequest(
            f"The path {shown(path)} and the option table={shown(table)} both name a table. Give one of them."
        )
    named = table if path is None else path
    if named is None:
        raise InvalidRequest('No table is named. Name it as in .load("sales.orders"), with the option warehouse.')
    for name, address in (("warehouse", warehouse), ("path", path if path is not None and "/" in path else None)):
        if address is not None and _RELATIVE.match(address):
            raise InvalidRequest(
                f"Option {name} is {shown(address)}: Spark's processes work in other folders. Give an absolute one."
            )
    if path is not None and "/" in path:
        if warehouse is not None:
            raise InvalidRequest(
                f"The path {shown(path)} and the option warehouse={shown(warehouse)} both name a place. Give the "
                'warehouse and .load("database.table"), or the path of the table alone.'
            )
        return _of_folder(path)
    if warehouse is None and given.get("profile") is None:
        raise InvalidRequest(
            f"{shown(named)}: the option warehouse is missing. Give the address of the warehouse, or a profile."
        )
    return warehouse, named


def _of_folder(path: str) -> tuple[str, str]:
    """Return the warehouse and the table of the path of a table's folder."""
    above, _, table = path.rstrip("/").rpartition("/")
    warehouse, _, database = above.rpartition("/")
    if not (warehouse and table and database.removesuffix(DATABASE_SUFFIX) and database.endswith(DATABASE_SUFFIX)):
        raise InvalidRequest(
            f"The path {shown(path)} is not the folder of a table: expected WAREHOUSE/DATABASE.db/TABLE. Or give the "
            'option warehouse and .load("database.table").'
        )
    return warehouse, f"{database.removesuffix(DATABASE_SUFFIX)}.{table}"


def _columns(given: Mapping[str, str]) -> tuple[str, ...] | None:
    if "columns" not in given:
        return None
    names = tuple(name.strip() for name in given["columns"].split(","))
    if not all(names):
        raise InvalidRequest(f"Option columns is {shown(given['columns'])}: expected names, as in id, amount.")
    return names


def _word(given: Mapping[str, str], name: str, words: Mapping[str, bool]) -> bool | None:
    """Return what the word of an option means; None without the option."""
    word = given.get(name)
    if word is None:
        return None
    if word.lower() not in words:
        raise InvalidRequest(f"Option {name} is {shown(word)}: expected {' or '.join(words)}.")
    return words[word.lower()]


def _joined(uses: Iterable[Use]) -> str:
    return " and ".join(uses)
