"""Keys of a lookup, as they are written in a shell.

Rule: a key has each column of the primary key once, and no other, for others would not be compared.
"""

import json
from collections.abc import Collection, Sequence
from decimal import Decimal
from typing import Any

from lakehouse_core.errors import InvalidRequest, near_hint


def lookup_key(text: str, names: Sequence[str], columns: Sequence[str]) -> dict[str, Any]:
    """Return the values of a key by column. `names` are the columns of the primary key, `columns` those of the table.

    Raises InvalidRequest.
    """
    if text.startswith("{"):
        try:
            found = json.loads(text, parse_float=Decimal)
        except ValueError as error:
            raise InvalidRequest(f"Key {text!r}: expected a JSON object ({error}).") from error
        assert isinstance(found, dict)
        _check_key_columns(text, found, names, columns)
        return found
    if len(names) == 1 and not text.startswith(f"{names[0]}="):
        return {names[0]: text}
    key: dict[str, Any] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or name in key:
            raise InvalidRequest(
                f"Key {text!r}: expected each key column once, as in {_example(names)}. "
                "Pass a JSON object if a value contains a comma."
            )
        key[name] = value
    _check_key_columns(text, key, names, columns)
    return key


def _check_key_columns(text: str, key: Collection[str], names: Sequence[str], columns: Sequence[str]) -> None:
    """Raise InvalidRequest if the key has other columns than the primary key: they would not be compared."""
    for name in key:
        if name not in columns:
            hint = near_hint(name, names, f"The primary key is ({', '.join(names)}).", most=1)
            raise InvalidRequest(f"Key {text!r}: the table has no column {name!r}. {hint}")
        if name not in names:
            raise InvalidRequest(
                f"Key {text!r}: {name} is not in the primary key ({', '.join(names)}). Leave it out, or find the rows "
                "with lakehouse read --where."
            )
    if missing := [name for name in names if name not in key]:
        raise InvalidRequest(
            f"Key {text!r}: it has no {' and no '.join(missing)}. Give each row all columns of the primary key, in one "
            f"argument: {_example(names)}."
        )


def _example(names: Sequence[str]) -> str:
    return ",".join(f"{name}=…" for name in names)
