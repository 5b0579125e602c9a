"""Profiles: named settings of `connect`, from one file.

Rule: the file holds no secret; it names the variables of the environment that do. Source:
docs/catalogs.md#profiles.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from lakehouse_core.errors import InvalidRequest, NotFound, near_hint, shown
from lakehouse_core.storage import has_secret, home_expanded

FILE_VARIABLE: Final = "LAKEHOUSE_PROFILES"
_DEFAULT_FILE: Final = "~/.lakehouse.yaml"
_TEXTS: Final = ("warehouse", "metastore")
_MAPPINGS: Final = ("storage", "metastore_options")
_SECRETS: Final = ("secret", "password", "token", "account-key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Settings of `connect`; what is not set there is None or empty. All but the warehouse may hold secrets."""

    warehouse: str | None = None
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    metastore: str | None = field(default=None, repr=False)
    metastore_options: Mapping[str, str] = field(default_factory=dict, repr=False)


def read_profile(name: str) -> Profile:
    """Return the profile of that name, of the file that LAKEHOUSE_PROFILES names, else of `~/.lakehouse.yaml`.

    Raises NotFound naming near matches, InvalidRequest for a wrong file and for a secret in it.
    """
    path = os.environ.get(FILE_VARIABLE) or home_expanded(_DEFAULT_FILE)  # noqa: TID251
    profiles = _read(path)
    if name not in profiles:
        if has_secret(name if isinstance(name, str) else shown(name)):
            raise InvalidRequest(
                "Profile: found an address with a password, a key or a signature, expected the name of a profile in "
                f"{path}. Give the address as the warehouse, and the credentials in the environment."
            )
        hint = near_hint(name, profiles, f"There are: {', '.join(map(str, profiles)) or 'none'}.", most=1)
        raise NotFound(f"Profile {shown(name)} does not exist in {path}. {hint}")
    return _parsed(profiles[name], f"{path}: profile {name}")


def _read(path: str) -> Mapping[str, Any]:
    import yaml  # noqa: PLC0415  # not needed without a profile

    try:
        with open(path, encoding="utf-8") as file:
            found = yaml.safe_load(file)
    except FileNotFoundError:
        raise NotFound(
            f"{path}: there is no such file of profiles. Write it, or set {FILE_VARIABLE} to the path of another one."
        ) from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        # The text of a YAML error repeats a part of the file.
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" at line {mark.line + 1}"
        raise InvalidRequest(f"{path}: cannot be read{where} ({type(error).__name__}). Expected YAML.") from None
    if not isinstance(found, Mapping):
        raise InvalidRequest(f"{path}: expected profiles by name, found {type(found).__name__}.")
    return found


def _parsed(given: Any, where: str) -> Profile:
    if not isinstance(given, Mapping):
        raise InvalidRequest(f"{where}: expected settings by name, such as warehouse, found {type(given).__name__}.")
    for name in given:
        if name not in (*_TEXTS, *_MAPPINGS):
            raise InvalidRequest(
                f"{where}: there is no setting {shown(name)}. Expected {', '.join(_TEXTS + _MAPPINGS)}."
            )
    texts = {name: _text(given[name], f"{where}: {name}", name) for name in _TEXTS if name in given}
    mappings = {name: _texts(given.get(name, {}), f"{where}: {name}") for name in _MAPPINGS}
    return Profile(
        warehouse=texts.get("warehouse"),
        metastore=texts.get("metastore"),
        storage=mappings["storage"],
        metastore_options=mappings["metastore_options"],
    )


def _texts(given: Any, where: str) -> dict[str, str]:
    if not isinstance(given, Mapping):
        raise InvalidRequest(f"{where}: expected options by name, found {type(given).__name__}.")
    return {str(name): _text(value, f"{where}.{name}", str(name)) for name, value in given.items()}


def _text(given: Any, where: str, name: str) -> str:
    """Return a setting as text. `{env: NAME}` stands for the value of a variable of the environment."""
    match given:
        case {"env": str(variable)} if len(given) == 1:
            value = os.environ.get(variable)  # noqa: TID251
            if value is None:
                raise InvalidRequest(f"{where}: the environment variable {variable} is not set. Set it.")
            return value
        case bool():
            return str(given).lower()
        case int():
            return str(given)
        case str():
            if any(word in name for word in _SECRETS) or (name == "metastore" and has_secret(given)):
                raise InvalidRequest(
                    f"{where}: found a secret in the file. Write {{env: NAME}}, and set the variable NAME to it."
                )
            if has_secret(given):
                raise InvalidRequest(
                    f"{where}: found a password, a key or a signature in the address. Leave it out, and give the "
                    "credentials in the environment, or as {env: NAME} under storage."
                )
            return given
    raise InvalidRequest(f"{where}: found {type(given).__name__}, expected a text or {{env: NAME}}.")
