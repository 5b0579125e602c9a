"""Azure store: blobs of a container in Azure Blob Storage.

Source: docs/reliability/store.md#object-stores, docs/decisions/0022-s3-stores.md.
"""

from typing import Final

from obstore.store import AzureStore as Client

from lakehouse_core.clock import Clock
from lakehouse_core.storage.object_store import StoreSpec
from lakehouse_core.storage.remote.azure_settings import AzureSettings
from lakehouse_core.storage.remote.service import Service
from lakehouse_core.storage.remote.store import RemoteStore

_MAY_NOT: Final = (
    "Grant them reading, writing, listing and deleting here, as the role Storage Blob Data Contributor does"
)


def azure_store(spec: StoreSpec, *, clock: Clock | None = None) -> RemoteStore:
    """Return the Azure store that `spec` describes."""
    return RemoteStore(SERVICE, spec, clock=clock)


SERVICE: Final = Service(
    settings=AzureSettings,
    client=Client,
    opened=azure_store,
    missing_object="BlobNotFound",
    missing_bucket="ContainerNotFound",
    missing_upload="",
    refusals=frozenset({"BlobAlreadyExists", "ConditionNotMet", "BlobNotFound"}),
    not_done=frozenset(),
    advice={
        "AuthenticationFailed": "these credentials are wrong or have expired, or the clock of this machine differs "
        "from the store's. Check them, or get others.",
        "AuthorizationFailure": f"these credentials are wrong, have expired, or may not do that. {_MAY_NOT}, or get "
        "others; check that the account lets this network in.",
        "AuthorizationPermissionMismatch": f"these credentials may not {{act}} here. {_MAY_NOT}.",
        "InsufficientAccountPermissions": f"these credentials may not {{act}} here. {_MAY_NOT}.",
        "AuthorizationResourceTypeMismatch": "the token is for other kinds of resources. Get one for containers and "
        "objects.",
        "AccountIsDisabled": "the account is disabled. Ask its owner.",
        "ResourceNotFound": "there is no such account. Check account and endpoint.",
        "InvalidUri": "there is no such account. Check account and endpoint.",
        "ContainerBeingDeleted": "the container is being deleted. Use another one, or wait until it is gone.",
        "ServerBusy": "it is asked too often. Try again later, or give fewer connections.",
        "OperationTimedOut": "it took too long. Try again later.",
        "InternalError": "it has failed. Try again later.",
    },
    client_advice={
        "(code: 403)": f"these credentials may not delete. {_MAY_NOT}.",
        "Invalid Access Key": "the account key is not base64, as the keys of an account are. Copy it whole.",
        "status code: 400": "the store refuses the request. Check account, endpoint and credentials.",
    },
    quotes_versions=True,
    stale_version='"0x8000000000000"',
    page_keys=5_000,
    how_to_give_keys="Set AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN in the environment, or give account-key "
    "or sas-token in storage=.",
)
