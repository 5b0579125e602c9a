"""Names of databases, tables and tags: the check of new names and the advice for unknown ones.

Rule: names from other engines are opened if they are safe as one part of a path; only new names follow our rules.
"""

import unicodedata
from collections.abc import Iterable
from typing import Final

from lakehouse_core.errors import InvalidRequest, near_hint, shown
from lakehouse_core.table.layout import BRANCH_MARK, MAIN_BRANCH, branch_in, branch_table_name

SYSTEM_DATABASE: Final = "sys"
DATABASE_SUFFIX: Final = ".db"

_LONGEST_BYTES: Final = 200
_DEVICES: Final = frozenset(
    {"con", "prn", "aux", "nul", *(f"com{i}" for i in range(1, 10)), *(f"lpt{i}" for i in range(1, 10))}
)


def split_name(name: str) -> tuple[str, str]:
    """Return database and table of `database.table`. Raises InvalidRequest, also for a branch and a system table."""
    if not isinstance(name, str):
        raise InvalidRequest(f"Table name {shown(name)}: expected text as 'database.table'.")
    database, dot, table = name.partition(".")
    if not (dot and database and table):
        raise InvalidRequest(f"Table name {shown(name)}: expected 'database.table'.")
    base, dollar, rest = table.partition("$")
    if dollar and rest.startswith("branch_"):
        raise InvalidRequest(
            f"{name} is a branch, which has no name of its own here. Name its table, {database}.{base}."
        )
    if dollar:
        raise InvalidRequest(
            f"{name} is a system table: call system_table({shown(name)}), or open {database}.{base} and call "
            f"system({shown(rest)})."
        )
    check_part(database, "database")
    check_part(table, "table")
    return database, table


def split_branch_name(name: str) -> tuple[str, str | None]:
    """Return the table and the branch of `database.table$branch_name`; None for the main one."""
    if not isinstance(name, str) or branch_in(name) is None:
        return name, None
    branch = branch_in(name)
    if not branch or "$" in branch:
        raise InvalidRequest(
            f"Branch name {shown(name)}: expected 'database.table$branch_name', as in 'sales.orders$branch_trial'."
        )
    return branch_table_name(name, None), None if branch == MAIN_BRANCH else branch


def is_system_name(name: str) -> bool:
    """Return whether the name is that of a system table, of a table or of a branch."""
    table, _, branch = name.partition(BRANCH_MARK)
    return "$" in table or "$" in branch


def split_system_name(name: str) -> tuple[str, str]:
    """Return table and system table of `database.table$system` or `database.table$branch_name$system`.

    Raises InvalidRequest for a name without `$`.
    """
    is_of_branch = isinstance(name, str) and branch_in(name) is not None
    cut = name.rpartition if is_of_branch and name.count("$") > 1 else name.partition if isinstance(name, str) else None
    table, dollar, system = cut("$") if cut is not None else ("", "", "")
    if is_of_branch and system.startswith("branch_"):
        raise InvalidRequest(f"{name} is a branch, not a system table: call table({shown(name)}).")
    if not (dollar and table and system):
        raise InvalidRequest(
            f"System table name {shown(name)}: expected 'database.table$name', as in 'sales.orders$files'."
        )
    return table, system


def check_part(name: str, noun: str) -> None:
    """Raise InvalidRequest unless the name is a single, visible part of a path. Every name that another engine can make
    is accepted.
    """
    if not isinstance(name, str):
        raise InvalidRequest(f"Invalid {noun} name {shown(name)}: expected text.")
    if problem := _unsafe(name):
        raise InvalidRequest(f"Invalid {noun} name {shown(name)}: {problem}. Use letters, digits, '_' and '-'.")


def check_new_name(name: str, noun: str) -> None:
    """Raise InvalidRequest for a new database or table name that some file system or engine cannot handle."""
    check_part(name, noun)
    if problem := _unportable(name):
        raise InvalidRequest(f"Invalid {noun} name {shown(name)}: {problem}. Use letters, digits, '_' and '-'.")


def check_no_twin(name: str, existing: Iterable[str], noun: str) -> None:
    """Raise InvalidRequest for a name that differs from an existing one only by case: some file systems keep one folder
    for both.
    """
    for other in twins(existing, name):
        if other != name:
            raise InvalidRequest(
                f"Invalid {noun} name {shown(name)}: the {noun} {shown(other)} differs only by case. Choose "
                "another name."
            )


def twins(names: Iterable[str], name: str | None) -> list[str]:
    """Return those of `names` that are `name` or differ from it by case alone; None: all of them."""
    return [other for other in names if name is None or other.casefold() == name.casefold()]


def near(name: str, existing: Iterable[str]) -> str:
    """Return advice for a name that does not exist: the nearest existing names, or all of them when they are few."""
    known = sorted(existing)
    listed = ", ".join(known[:10]) + (" …" if len(known) > 10 else "")
    return near_hint(name, known, f"There are: {listed}." if known else "There is none.")


def level_hint(uri: str) -> str:
    """Return advice for an address without databases that looks like a folder inside a warehouse; empty for others."""
    above, _, last = uri.rstrip("/").rpartition("/")
    if last.endswith(".db"):
        return f" It looks like the folder of a database: the warehouse is {above}."
    warehouse, _, database = above.rpartition("/")
    return f" It looks like the folder of a table: the warehouse is {warehouse}." if database.endswith(".db") else ""


def _unsafe(name: str) -> str | None:
    if not name or not name.strip():
        return "it is empty"
    for character in name:
        if character in "/\\":
            return f"{shown(character)} is not allowed"
        if unicodedata.category(character) in ("Cc", "Cs"):
            return f"the control character {shown(character)} is not allowed"
    if name.startswith("."):
        return "it begins with '.'"
    if len(name.encode()) > _LONGEST_BYTES:
        return f"it has {len(name.encode())} bytes, at most {_LONGEST_BYTES} are allowed"
    return None


def _unportable(name: str) -> str | None:
    for character in name:
        if not (character.isalnum() or character in "_-"):
            return f"{shown(character)} is not allowed"
    if unicodedata.normalize("NFC", name) != name:
        return "it is not in Unicode's composed form (NFC), so that a twin would look the same"
    if name.casefold() in _DEVICES:
        return "it names a device on some systems"
    return None
