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
_REDIRECTED: Final = f"the bucket is in another region or at another address. {_GIVE_REGION}"
_AGAIN_SOON: Final = "Check the network, and proxies before it, then try again."
_LOST_PARTS: Final = "it has not the parts that were sent. Nothing was written. Try again."
_NO_KEY_NOW: Final = "the service of the keys that encrypt objects is busy, or has failed. Try again later."
# By the code of an answer that a write certainly did not happen: what to do.
_NOT_DONE: Final = {
    "AccessDenied": "these credentials may not {act} here, are wrong, or have expired. Grant them reading, writing, "
    "listing and deleting here, or get others.{missing}",
    "AllAccessDisabled": "all access to the bucket is disabled. Check its name, or ask its owner.",
    "AccountProblem": "the account has a problem. Ask its owner.",
    "ExpiredToken": "the session token has expired. Get a new one, then connect again.",
    "InvalidToken": "the session token does not belong to these keys, or was cut. Copy all three keys again.",
    "TokenRefreshRequired": "the session token must be renewed. Get a new one, then connect again.",
    "InvalidAccessKeyId": "the access key is unknown there. Check the key and the endpoint.",
    "SignatureDoesNotMatch": "the secret key does not belong to the access key. Check both.",
    "RequestTimeTooSkewed": "the clock of this machine differs from the store's. Set it, then try again.",
    "AuthorizationHeaderMalformed": _ANOTHER_REGION,
    "IllegalLocationConstraintException": _ANOTHER_REGION,
    "InvalidObjectState": "the object is archived. Restore it, and keep the warehouse out of rules that archive.",
    "KeyTooLongError": "the key is longer than the store takes. Use a shorter prefix, or shorter names.",
    "EntityTooLarge": "the object is larger than the store takes. Write smaller files.",
    "EntityTooSmall": _LOST_PARTS,
    "InvalidPart": _LOST_PARTS,
    "InvalidPartOrder": _LOST_PARTS,
    "BadDigest": f"the bytes were changed on their way. {_AGAIN_SOON}",
    "InvalidDigest": f"the bytes were changed on their way. {_AGAIN_SOON}",
    "XAmzContentSHA256Mismatch": f"the bytes were changed on their way. {_AGAIN_SOON}",
    "IncompleteBody": f"the request was cut off. {_AGAIN_SOON}",
    "MissingContentLength": f"the request was changed on its way. {_AGAIN_SOON}",
    "MethodNotAllowed": "it may not be asked that here. Check the endpoint, and the rules of the bucket.",
    "InvalidArgument": "it does not take the request. Check the endpoint and the settings of the bucket.",
    "InvalidRequest": "it does not take the request. Check the settings of the bucket: its encryption, and a retention "
    "by Object Lock, which asks for checksums that are not sent.",
    "KMS": "the key that encrypts the objects of the bucket cannot be used. Ask the owner of that key.",
}


def s3_store(spec: StoreSpec, *, clock: Clock | None = None) -> RemoteStore:
    """Return the S3 store that `spec` describes."""
    return RemoteStore(SERVICE, spec, clock=clock)


SERVICE: Final = Service(
    settings=S3Settings,
    client=Client,
    opened=s3_store,
    missing_object="NoSuchKey",
    missing_bucket="NoSuchBucket",
    missing_upload="NoSuchUpload",
    # NoSuchKey: the object that should have a version is not there.
    refusals=frozenset({"PreconditionFailed", "NoSuchKey"}),
    not_done=frozenset(_NOT_DONE),
    advice=_NOT_DONE
    | {
        "KMS.InternalException": _NO_KEY_NOW,
        "KMS.ThrottlingException": _NO_KEY_NOW,
        "PermanentRedirect": _ANOTHER_REGION,
        "TemporaryRedirect": _ANOTHER_REGION,
        "ConditionalRequestConflict": "another request for the object was running. Try again.",
        "OperationAborted": "another request for the object was running. Try again.",
        "PreconditionFailed": "a condition was not met that was not set. Check proxies before the store.",
        "NoSuchUpload": "the upload in parts is not there any more: it was completed, or given up by another request "
        "or by a rule of the bucket. Try again.",
        "RequestTimeout": f"it waited too long for the request. {_AGAIN_SOON}",
        "SlowDown": "it is asked too often. Try again later, or give fewer connections.",
        "ServiceUnavailable": "it is overloaded. Try again later.",
        "InternalError": "it has failed. Try again later.",
        "InvalidRange": "the object is shorter than its table says. Run verify.",
        "NotImplemented": "it does not know such a request. Check the endpoint, or use a store with conditional "
        "writes.",
    },
    client_advice={
        "Received redirect": _REDIRECTED,
        "following redirect": _REDIRECTED,
        "status code: 30": _REDIRECTED,
        "status code: 400": "the store refuses the request. Check region and session token.",
    },
    # Ceph refuses a version in quotes, others take both.
    quotes_versions=False,
    stale_version="0" * 32,
    page_keys=1_000,
    how_to_give_keys="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_PROFILE in the environment, or give "
    "access-key and secret-key or profile in storage=.",
)
