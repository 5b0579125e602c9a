"""Settings of an S3-compatible store: where it is, how it is asked, and with which credentials.

Rule: a secret is in no specification, text or pickle. Keys stay in the process to which they were given.
Source: docs/decisions/0022-s3-stores.md.
"""

import difflib
import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import urlsplit

from lakehouse_core.errors import InvalidRequest, StorageUnavailable, shown
from lakehouse_core.storage.object_store import StoreSpec

_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_NAMES: Final = ("endpoint", "region", "path-style", "allow-http", "timeout", "connections")
_SECRET_NAMES: Final = ("access-key", "secret-key", "session-token")
# The names of Java Paimon's catalog options.
_ALIASES: Final = {f"s3.{name}": name for name in ("endpoint", "access-key", "secret-key", "session-token")} | {
    "s3.path.style.access": "path-style",
    "s3.path-style-access": "path-style",
    "s3.region": "region",
}
_VARIABLES: Final = {
    "endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
}
_MOST_CONNECTIONS: Final = 256


@dataclass(frozen=True, slots=True)
class S3Credentials:
    """Keys that the caller gave; a store without them takes those of the environment or of the machine's role."""

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Settings:
    """`endpoint` None: Amazon's. `timeout_seconds`: of one request. `connections`: the number of requests at once.
    `has_given_keys`: the credentials were given to `connect`, in this process or in another one.
    """

    bucket: str
    endpoint: str | None = None
    region: str | None = None
    path_style: bool = False
    allow_http: bool = False
    timeout_seconds: int = 20
    connections: int = 32
    has_given_keys: bool = False

    @property
    def named(self) -> tuple[tuple[str, str], ...]:
        """The settings by their names, as a store's specification holds them."""
        texts = {
            "endpoint": self.endpoint,
            "region": self.region,
            "path-style": _flag_text(self.path_style),
            "allow-http": _flag_text(self.allow_http),
            "timeout": f"{self.timeout_seconds}",
            "connections": f"{self.connections}",
            _GIVEN_KEYS: "true" if self.has_given_keys else None,
        }
        return tuple((name, text) for name, text in texts.items() if text is not None)


# In specifications only.
_GIVEN_KEYS: Final = "given-keys"
# By address. Another process has none of these, and takes its own.
_GIVEN: dict[tuple[str | None, str], S3Credentials] = {}


def parse_s3(spec: StoreSpec) -> S3Settings:
    """Return the settings of an S3 store's specification. Raises InvalidRequest naming the setting."""
    bucket = spec.root.partition("/")[0]
    if not _BUCKET.fullmatch(bucket):
        raise InvalidRequest(
            f"Warehouse s3://{spec.root}: {shown(bucket)} is not the name of a bucket. Expected 3 to 63 lower-case "
            "letters, digits, dots and hyphens, as in s3://lake/warehouse."
        )
    given = dict(spec.settings)
    endpoint = given.get("endpoint")
    allow_http = _flag(given, "allow-http", default=endpoint is not None and _is_loopback(endpoint))
    if endpoint is not None:
        _check_endpoint(endpoint, allow_http=allow_http)
    return S3Settings(
        bucket=bucket,
        endpoint=endpoint,
        region=given.get("region"),
        path_style=_flag(given, "path-style", default=endpoint is not None),
        allow_http=allow_http,
        timeout_seconds=_whole(given, "timeout", default=20, most=3_600),
        connections=_whole(given, "connections", default=32, most=_MOST_CONNECTIONS),
        has_given_keys=_GIVEN_KEYS in given,
    )


def split_storage(storage: Mapping[str, str]) -> tuple[tuple[tuple[str, str], ...], S3Credentials | None]:
    """Return the settings of `connect(storage=…)` that a specification may hold, and the credentials among them.

    Raises InvalidRequest for an unknown name, naming the nearest, and for a key without its secret.
    """
    found: dict[str, str] = {}
    for name, value in storage.items():
        known = _ALIASES.get(name, name)
        if known not in _NAMES and known not in _SECRET_NAMES:
            near = difflib.get_close_matches(name, [*_NAMES, *_SECRET_NAMES], n=1)
            hint = f"Did you mean {near[0]}?" if near else f"Expected {', '.join([*_NAMES, *_SECRET_NAMES])}."
            raise InvalidRequest(f"storage: there is no setting {shown(name)} of an S3 store. {hint}")
        if found.get(known, value) != value:
            raise InvalidRequest(f"storage: {known} is given twice, with two values. Give it once.")
        found[known] = value
    access, secret = found.get("access-key"), found.get("secret-key")
    if (access is None) != (secret is None) or ("session-token" in found and access is None):
        raise InvalidRequest(
            "storage: access-key and secret-key belong together. Give both, or none and set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY in the environment."
        )
    credentials = None
    if access is not None and secret is not None:
        credentials = S3Credentials(access, secret, found.get("session-token"))
    return tuple((name, found[name]) for name in _NAMES if name in found), credentials


def with_storage(location: StoreSpec, storage: Mapping[str, str]) -> StoreSpec:
    """Return the S3 location with the settings of `connect(storage=…)`; endpoint and region may come from the
    environment. Credentials among them are used by this process for the bucket from now on.

    Raises InvalidRequest.
    """
    named, credentials = split_storage(storage)
    found = replace(location, settings=tuple((_of_environment() | dict(named)).items()))
    settings = parse_s3(found)
    if credentials is not None:
        settings = replace(settings, has_given_keys=True)
        _GIVEN[settings.endpoint, settings.bucket] = credentials
    return replace(found, settings=settings.named)


def _of_environment() -> dict[str, str]:
    """Return the settings that the environment names as Amazon's own tools read them, which is where keys come from."""
    given = os.environ  # noqa: TID251
    found = {
        name: next((given[variable] for variable in variables if given.get(variable)), None)
        for name, variables in _VARIABLES.items()
    }
    return {name: value for name, value in found.items() if value is not None}


def given_keys(settings: S3Settings) -> S3Credentials | None:
    """Return the credentials that were given to `connect`, the last ones for this bucket; None: the environment's.

    Raises StorageUnavailable if they were given to another process.
    """
    keys = _GIVEN.get((settings.endpoint, settings.bucket)) if settings.has_given_keys else None
    if settings.has_given_keys and keys is None:
        raise StorageUnavailable(
            f"s3://{settings.bucket}: its keys were given to connect() in another process, and are not sent to this "
            "one. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment of all processes, such as Spark's "
            "workers, and leave the keys out of storage=."
        )
    return keys


def client_config(settings: S3Settings, keys: S3Credentials | None) -> dict[str, Any]:
    """Return the client's configuration. It holds the credentials that were given: do not show or send it."""
    config: dict[str, Any] = {"virtual_hosted_style_request": not settings.path_style}
    if settings.endpoint is not None:
        config["endpoint"] = settings.endpoint
    if settings.region is not None or settings.endpoint is not None:
        config["region"] = settings.region or "us-east-1"
    if keys is not None:
        config |= {"access_key_id": keys.access_key, "secret_access_key": keys.secret_key}
        if keys.session_token is not None:
            config["token"] = keys.session_token
    return config


def _check_endpoint(endpoint: str, *, allow_http: bool) -> None:
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise InvalidRequest(
            f"storage: endpoint {shown(endpoint)}: expected the address of an S3 service without user and password, "
            "as in https://s3.example.com."
        )
    if parts.scheme == "http" and not allow_http:
        raise InvalidRequest(
            f"storage: endpoint {shown(endpoint)} is not encrypted. Use https, or give allow-http=true if the network "
            "is trusted."
        )


def _is_loopback(endpoint: str) -> bool:
    host = urlsplit(endpoint).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _flag(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    if name not in given:
        return default
    text = given[name].strip().lower()
    if text not in ("true", "false"):
        raise InvalidRequest(f"storage: {name} is {shown(given[name])}. Expected true or false.")
    return text == "true"


def _flag_text(flag: bool) -> str:
    return "true" if flag else "false"


def _whole(given: Mapping[str, str], name: str, *, default: int, most: int) -> int:
    text = given.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= most):
        raise InvalidRequest(f"storage: {name} is {shown(text)}. Expected a whole number from 1 to {most}.")
    return int(text)
