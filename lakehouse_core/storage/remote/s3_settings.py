"""Settings of an S3-compatible store.

Source: docs/object-stores.md#settings, docs/decisions/0022-s3-stores.md.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.storage.object_store import StoreSpec
from lakehouse_core.storage.remote.profile_keys import profile_keys
from lakehouse_core.storage.remote.settings import (
    SHARED_NAMES,
    Credentials,
    RemoteSettings,
    flag,
    flag_text,
    shared_settings,
)

_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Settings(RemoteSettings):
    """Where a bucket is, and how it is asked."""

    scheme: ClassVar[Literal["s3"]] = "s3"
    store: ClassVar[str] = "an S3 store"
    place: ClassVar[str] = "bucket"
    service: ClassVar[str] = "AWS"
    names: ClassVar[tuple[str, ...]] = (*SHARED_NAMES, "region", "path-style", "profile")
    secret_names: ClassVar[tuple[str, ...]] = ("access-key", "secret-key", "session-token")
    # The names of Java Paimon's catalog options.
    aliases: ClassVar[Mapping[str, str]] = {
        f"s3.{name}": name for name in ("endpoint", "access-key", "secret-key", "session-token")
    } | {
        "s3.path.style.access": "path-style",
        "s3.path-style-access": "path-style",
        "s3.region": "region",
    }
    variables: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
        "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
        "profile": ("AWS_PROFILE",),
    }
    overruled: ClassVar[Mapping[str, str]] = {"profile": "AWS_ACCESS_KEY_ID"}
    key_variables: ClassVar[str] = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"

    region: str | None = None
    path_style: bool = False
    profile: str | None = None

    @classmethod
    def parsed(cls, spec: StoreSpec) -> "S3Settings":
        bucket = spec.root.partition("/")[0]
        if not _BUCKET.fullmatch(bucket):
            raise InvalidRequest(
                f"Warehouse s3://{spec.root}: {shown(bucket)} is not the name of a bucket. Expected 3 to 63 lower-case "
                "letters, digits, dots and hyphens, as in s3://lake/warehouse."
            )
        given = dict(spec.settings)
        return S3Settings(
            bucket=bucket,
            region=given.get("region"),
            path_style=flag(given, "path-style", default="endpoint" in given),
            profile=given.get("profile"),
            **shared_settings(given),
        )

    @classmethod
    def credentials(cls, given: Mapping[str, str]) -> Credentials | None:
        access, secret, token = (given.get(name) for name in cls.secret_names)
        if (access is None) != (secret is None) or (token is not None and access is None):
            raise InvalidRequest(
                "storage: access-key and secret-key belong together. Give both, or none and set AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY in the environment."
            )
        if access is None or secret is None:
            return None
        if "profile" in given:
            raise InvalidRequest("storage: found keys and a profile, which names other keys. Give one of them.")
        keys = {"access_key_id": access, "secret_access_key": secret}
        return Credentials(tuple((keys | ({} if token is None else {"token": token})).items()))

    def own(self) -> Mapping[str, str | None]:
        return {"region": self.region, "path-style": flag_text(self.path_style), "profile": self.profile}

    def keys_provider(self) -> Callable[[], Any] | None:
        return None if self.profile is None else profile_keys(self.profile)

    def client_config(self) -> dict[str, Any]:
        config: dict[str, Any] = {"virtual_hosted_style_request": not self.path_style}
        if self.endpoint is not None:
            config["endpoint"] = self.endpoint
        elif any(os.environ.get(variable) == "" for variable in self.variables["endpoint"]):  # noqa: TID251
            # The client takes an empty variable for an address, and panics.
            region = self.region or "us-east-1"
            own = f"https://{self.bucket}.s3.{region}.amazonaws.com"
            return {"endpoint": own, "region": region, "virtual_hosted_style_request": True}
        if self.region is not None or self.endpoint is not None:
            config["region"] = self.region or "us-east-1"
        return config
