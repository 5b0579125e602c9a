"""Settings of a container in Azure Blob Storage.

Source: docs/object-stores.md#settings, docs/decisions/0022-s3-stores.md.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.storage.object_store import StoreSpec
from lakehouse_core.storage.remote.settings import SHARED_NAMES, Credentials, RemoteSettings, shared_settings

_CONTAINER: Final = re.compile(r"(?=.{3,63}$)[a-z0-9]+(-[a-z0-9]+)*")
_ACCOUNT: Final = re.compile(r"[a-z0-9]{3,24}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureSettings(RemoteSettings):
    """Where a container is, and how it is asked."""

    scheme: ClassVar[Literal["az"]] = "az"
    store: ClassVar[str] = "an Azure store"
    place: ClassVar[str] = "container"
    service: ClassVar[str] = "Azure"
    names: ClassVar[tuple[str, ...]] = (*SHARED_NAMES, "account")
    secret_names: ClassVar[tuple[str, ...]] = ("account-key", "sas-token")
    aliases: ClassVar[Mapping[str, str]] = {}
    variables: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "endpoint": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
        "account": ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT"),
    }
    key_variables: ClassVar[str] = "AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN"

    account: str

    @classmethod
    def parsed(cls, spec: StoreSpec) -> "AzureSettings":
        container = spec.root.partition("/")[0]
        if not _CONTAINER.fullmatch(container):
            raise InvalidRequest(
                f"Warehouse az://{spec.root}: {shown(container)} is not the name of a container. Expected 3 to 63 "
                "lower-case letters, digits and single hyphens, as in az://lake/warehouse."
            )
        given = dict(spec.settings)
        account = given.get("account")
        if account is None:
            raise InvalidRequest(
                f"Warehouse az://{spec.root}: no storage account is given. Give storage={{'account': …}}, or set "
                "AZURE_STORAGE_ACCOUNT_NAME in the environment."
            )
        if not _ACCOUNT.fullmatch(account):
            raise InvalidRequest(
                f"storage: account is {shown(account)}. Expected the name of a storage account: 3 to 24 lower-case "
                "letters and digits."
            )
        return AzureSettings(bucket=container, account=account, **shared_settings(given))

    @classmethod
    def credentials(cls, given: Mapping[str, str]) -> Credentials | None:
        key, token = (given.get(name) for name in cls.secret_names)
        if key is not None and token is not None:
            raise InvalidRequest("storage: account-key and sas-token are two kinds of credentials. Give one of them.")
        if key is not None:
            if not _is_base64(key):
                raise InvalidRequest(
                    "storage: account-key is not base64, as the keys of an account are. Copy it whole."
                )
            return Credentials((("account_key", key), ("credential_type", "access_key")))
        return None if token is None else Credentials((("sas_key", token), ("credential_type", "sas_token")))

    def own(self) -> Mapping[str, str | None]:
        return {"account": self.account}

    def client_config(self) -> dict[str, Any]:
        config: dict[str, Any] = {"account_name": self.account}
        return config if self.endpoint is None else config | {"endpoint": self.endpoint}


def _is_base64(key: str) -> bool:
    try:
        return bool(base64.b64decode(key, validate=True))
    except (binascii.Error, ValueError):
        return False
