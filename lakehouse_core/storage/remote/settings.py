"""Settings of a store over a network: where it is, how it is asked, and with which credentials.

Rule: a secret is in no specification, text or pickle. Keys stay in the process to which they were given.
Source: docs/decisions/0022-s3-stores.md.
"""

import ipaddress
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Literal
from urllib.parse import SplitResult, unquote, urlsplit

from lakehouse_core.errors import CredentialsMissing, InvalidRequest, near_hint, shown
from lakehouse_core.storage.object_store import StoreSpec
from lakehouse_core.storage.secrets import has_secret

# false: the service has none, and the database of a SQL catalog decides which writer wins.
CONDITIONAL_WRITES: Final = "conditional-writes"
SHARED_NAMES: Final = ("endpoint", "allow-http", "timeout", "connections", CONDITIONAL_WRITES)
_MOST_CONNECTIONS: Final = 256
# In specifications only.
_GIVEN_KEYS: Final = "given-keys"


@dataclass(frozen=True, slots=True)
class Credentials:
    """Keys that the caller gave, as the client takes them. A store without them takes those of the environment or of
    the machine's role.
    """

    config: tuple[tuple[str, str], ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSettings(ABC):
    """`bucket`: the first part of the address. `endpoint` None: the service's own. `timeout_seconds`: of one request.
    `connections`: the number of requests at once. `has_given_keys`: the credentials were given to `connect`, in this
    process or in another one. `has_conditions`: the service takes conditional writes.
    """

    scheme: ClassVar[Literal["s3", "az"]]
    # What a message calls such a store, a bucket of it, and the service where no endpoint is given.
    store: ClassVar[str]
    place: ClassVar[str]
    service: ClassVar[str]
    names: ClassVar[tuple[str, ...]]
    secret_names: ClassVar[tuple[str, ...]]
    # Other names by which settings are taken, and the environment's, of which the first that is set counts.
    aliases: ClassVar[Mapping[str, str]]
    variables: ClassVar[Mapping[str, tuple[str, ...]]]
    # Settings whose variables do not count where another one is set.
    overruled: ClassVar[Mapping[str, str]] = {}
    # Where the environment has keys.
    key_variables: ClassVar[str]

    bucket: str
    endpoint: str | None = None
    allow_http: bool = False
    timeout_seconds: int = 20
    connections: int = 32
    has_given_keys: bool = False
    has_conditions: bool = True

    @classmethod
    @abstractmethod
    def parsed(cls, spec: StoreSpec) -> "RemoteSettings":
        """Return the settings of a specification. Raises InvalidRequest naming the setting."""

    @classmethod
    @abstractmethod
    def credentials(cls, given: Mapping[str, str]) -> Credentials | None:
        """Return the credentials among the settings that were given. Raises InvalidRequest for a part of some."""

    @abstractmethod
    def own(self) -> Mapping[str, str | None]:
        """Return the texts of the settings that only this service has, by their names."""

    @abstractmethod
    def client_config(self) -> dict[str, Any]:
        """Return what the client takes beside the bucket and the credentials."""

    def keys_provider(self) -> Callable[[], Any] | None:
        """Return what gives the client its keys, None if it finds them itself. Raises CredentialsMissing."""
        return None

    @property
    def named(self) -> tuple[tuple[str, str], ...]:
        """The settings by their names, as a store's specification holds them."""
        texts = {
            "endpoint": self.endpoint,
            **self.own(),
            "allow-http": flag_text(self.allow_http),
            "timeout": f"{self.timeout_seconds}",
            "connections": f"{self.connections}",
            CONDITIONAL_WRITES: None if self.has_conditions else "false",
            _GIVEN_KEYS: "true" if self.has_given_keys else None,
        }
        return tuple((name, text) for name, text in texts.items() if text is not None)

    @property
    def address(self) -> str:
        return f"{self.scheme}://{self.bucket}"


# By scheme, endpoint and bucket. Another process has none of these, and takes its own.
_GIVEN: dict[tuple[str, str | None, str], Credentials] = {}


def shared_settings(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings that all services have, as their records take them. Raises InvalidRequest."""
    endpoint = given.get("endpoint")
    allow_http = flag(given, "allow-http", default=endpoint is not None and _is_loopback(endpoint))
    if endpoint is not None:
        _check_endpoint(endpoint, allow_http=allow_http)
    return {
        "endpoint": endpoint,
        "allow_http": allow_http,
        "timeout_seconds": _whole(given, "timeout", default=20, most=3_600),
        "connections": _whole(given, "connections", default=32, most=_MOST_CONNECTIONS),
        "has_given_keys": _GIVEN_KEYS in given,
        "has_conditions": flag(given, CONDITIONAL_WRITES, default=True),
    }


def with_settings(kind: type[RemoteSettings], location: StoreSpec, storage: Mapping[str, str]) -> StoreSpec:
    """Return the location with the settings of `connect(storage=…)`; some may come from the environment. Credentials
    among them are used by this process for the bucket from now on.

    Raises InvalidRequest for an unknown name, naming the nearest, and for a key without its secret.
    """
    given = _given(kind, storage)
    credentials = kind.credentials(given)
    named = {name: given[name] for name in kind.names if name in given}
    known = _of_environment(kind)
    if credentials is not None:
        known = {name: value for name, value in known.items() if name not in kind.overruled}
    found = replace(location, settings=tuple((known | named).items()))
    settings = kind.parsed(found)
    if credentials is not None:
        settings = replace(settings, has_given_keys=True)
        _GIVEN[settings.scheme, settings.endpoint, settings.bucket] = credentials
    return replace(found, settings=settings.named)


def given_keys(settings: RemoteSettings) -> Credentials | None:
    """Return the credentials that were given to `connect`, the last ones for this bucket; None: the environment's.

    Raises CredentialsMissing if they were given to another process.
    """
    if not settings.has_given_keys:
        return None
    keys = _GIVEN.get((settings.scheme, settings.endpoint, settings.bucket))
    if keys is None:
        raise CredentialsMissing(
            f"{settings.address}: its keys were given to connect() in another process, and are not sent to this one. "
            f"Set {settings.key_variables} in the environment of all processes, such as Spark's workers, and leave the "
            "keys out of storage=."
        )
    return keys


def _given(kind: type[RemoteSettings], storage: Mapping[str, str]) -> dict[str, str]:
    """Return settings and secrets by their own names."""
    expected = [*kind.names, *kind.secret_names]
    found: dict[str, str] = {}
    for name, value in storage.items():
        known = kind.aliases.get(name, name)
        if known not in expected:
            hint = near_hint(name, expected, f"Expected {', '.join(expected)}.", most=1)
            raise InvalidRequest(f"storage: there is no setting {shown(name)} of {kind.store}. {hint}")
        if found.get(known, value) != value:
            raise InvalidRequest(f"storage: {known} is given twice, with two values. Give it once.")
        found[known] = value
    return found


def _of_environment(kind: type[RemoteSettings]) -> dict[str, str]:
    """Return the settings that the environment names as the service's own tools read them, where keys come from too."""
    given = os.environ  # noqa: TID251
    found = {
        name: next((given[variable] for variable in variables if given.get(variable)), None)
        for name, variables in kind.variables.items()
        if not given.get(kind.overruled.get(name, ""))
    }
    return {name: value for name, value in found.items() if value is not None}


def _check_endpoint(endpoint: str, *, allow_http: bool) -> None:
    # A password that begins with digits and a slash reads as a port and a path.
    if has_secret(endpoint) or "@" in unquote(endpoint):
        raise InvalidRequest(
            "storage: endpoint: found a password, a key or a signature in the address. Expected that of a service "
            "without user and password, as in https://s3.example.com; give the credentials in the environment."
        )
    parts = _split(endpoint)
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidRequest(
            f"storage: endpoint {shown(endpoint)}: expected the address of a service without user and password, as in "
            "https://s3.example.com."
        )
    if parts.scheme == "http" and not allow_http:
        raise InvalidRequest(
            f"storage: endpoint {shown(endpoint)} is not encrypted. Use https, or give allow-http=true if the network "
            "is trusted."
        )


def _split(address: str) -> SplitResult | None:
    """Return the parts of an address, None if its host or port cannot be one."""
    try:
        parts = urlsplit(address)
        return parts if parts.port is None or parts.port > 0 else None
    except ValueError:
        return None


def _is_loopback(endpoint: str) -> bool:
    parts = _split(endpoint)
    host = "" if parts is None else parts.hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def flag(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    if name not in given:
        return default
    text = given[name].strip().lower()
    if text not in ("true", "false"):
        raise InvalidRequest(f"storage: {name} is {shown(given[name])}. Expected true or false.")
    return text == "true"


def flag_text(value: bool) -> str:
    return "true" if value else "false"


def _whole(given: Mapping[str, str], name: str, *, default: int, most: int) -> int:
    text = given.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= most):
        raise InvalidRequest(f"storage: {name} is {shown(text)}. Expected a whole number from 1 to {most}.")
    return int(text)
