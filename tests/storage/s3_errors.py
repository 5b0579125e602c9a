"""Errors of Amazon S3, each with its status, as documented: what the stub answers by itself, or as a test tells it."""

from tests.storage.s3_protocol import Answer, tag

STATUSES = {
    "PermanentRedirect": 301,
    "TemporaryRedirect": 307,
    "AuthorizationHeaderMalformed": 400,
    "BadDigest": 400,
    "EntityTooLarge": 400,
    "EntityTooSmall": 400,
    "ExpiredToken": 400,
    "IncompleteBody": 400,
    "InvalidArgument": 400,
    "InvalidDigest": 400,
    "InvalidPart": 400,
    "InvalidPartOrder": 400,
    "InvalidRequest": 400,
    "InvalidToken": 400,
    "KMS.DisabledException": 400,
    "KMS.ThrottlingException": 400,
    "KeyTooLongError": 400,
    "MalformedXML": 400,
    "RequestTimeout": 400,
    "XAmzContentSHA256Mismatch": 400,
    "AccessDenied": 403,
    "AccountProblem": 403,
    "AllAccessDisabled": 403,
    "InvalidAccessKeyId": 403,
    "InvalidObjectState": 403,
    "RequestTimeTooSkewed": 403,
    "SignatureDoesNotMatch": 403,
    "NoSuchBucket": 404,
    "NoSuchKey": 404,
    "NoSuchUpload": 404,
    "MethodNotAllowed": 405,
    "ConditionalRequestConflict": 409,
    "OperationAborted": 409,
    "MissingContentLength": 411,
    "PreconditionFailed": 412,
    "InvalidRange": 416,
    "InternalError": 500,
    "NotImplemented": 501,
    "ServiceUnavailable": 503,
    "SlowDown": 503,
}


def error(code: str, message: str = "", **details: object) -> Answer:
    """Return the answer of that code. `details`: further elements of its document, by their names."""
    return Answer(
        STATUSES[code],
        code=code,
        message=message,
        detail="".join(tag(name, value) for name, value in details.items()),
    )


def in_body(code: str) -> Answer:
    """Return a success that is none: what a long request is answered, after some white space, when it fails late."""
    blanks = b"\n" * 3
    return Answer(200, blanks + error(code).document, headers={"Content-Type": "application/xml"})
