"""S3 store: objects of an S3-compatible store.

Source: docs/reliability/store.md#object-stores, docs/decisions/0022-s3-stores.md.
"""

from typing import Final

from obstore.store import S3Store as Client

from lakehouse_core.clock import Clock
from lakehouse_core.storage.object_store import StoreSpec
from lakehouse_core.storage.remote.s3_settings import S3Settings
from lakehouse_core.storage.remote.service import Service
from lakehouse_core.storage.remote.store import RemoteStore

_GIVE_REGION: Final = "Give storage={'region': …}, or set AWS_REGION."
_ANOTHER_REGION: Final = f"the bucket is in {{region}}. {_GIVE_REGION}"


def s3_store(spec: StoreSpec, *, clock: Clock | None = None) -> RemoteStore:
    """Return the S3 store that `spec` describes."""
    return RemoteStore(SERVICE, spec, clock=clock)


SERVICE: Final = Service(
    settings=S3Settings,
    client=Client,
    opened=s3_store,
    missing_object="NoSuchKey",
    missing_bucket="NoSuchBucket",
    advice={
        "AccessDenied": "these credentials may not {act} here, are wrong, or have expired. Grant them reading, "
        "writing, listing and deleting here, or get others.",
        "AllAccessDisabled": "the account is disabled. Ask its owner.",
        "ExpiredToken": "the session token has expired. Get a new one, then connect again.",
        "InvalidAccessKeyId": "the access key is unknown there. Check the key and the endpoint.",
        "SignatureDoesNotMatch": "the secret key does not belong to the access key. Check both.",
        "RequestTimeTooSkewed": "the clock of this machine differs from the store's. Set it, then try again.",
        "PermanentRedirect": _ANOTHER_REGION,
        "AuthorizationHeaderMalformed": _ANOTHER_REGION,
        "SlowDown": "it is asked too often. Try again later, or give fewer connections.",
        "ServiceUnavailable": "it is overloaded. Try again later.",
        "InternalError": "it has failed. Try again later.",
    },
    client_advice={
        "Received redirect": f"the bucket is in another region or at another address. {_GIVE_REGION}",
        "status code: 400": "the store refuses the request. Check region and session token.",
    },
    # Ceph refuses a version in quotes, others take both.
    quotes_versions=False,
    stale_version="0" * 32,
    page_keys=1_000,
    how_to_give_keys="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_PROFILE in the environment, or give "
    "access-key and secret-key or profile in storage=.",
)
