"""Secrets in addresses: passwords, keys and signatures that a user wrote into one.

Rule: an address ends in messages, logs and plans, so it holds no secret, and a refusal does not repeat it.
Source: docs/object-stores.md#settings.
"""

import re
from typing import Final
from urllib.parse import unquote

# user:password@host, also with a slash in the password. A bucket has no port and no user; another host may have both,
# and a path after it may hold any sign. Where no scheme is known, what stands before the colon is the user.
_PASSWORD: Final = re.compile(
    r"""
    (?<![a-z0-9+.-])
    (?: (?:s3[an]?|gs|az|abfss?|oss):/+[^/?#@:\[]*:
      | (?:s3[an]?|gs|oss):/+(?=[^/?#@]*@)
      | (?!file:)[a-z][a-z0-9+.-]+:/{1,2}[^/?#@:\[]*:(?!\d+(?:[/?#]|$))
    )[^@]*@
    | file://[^/@]+@
    | ^\s*(?://)?
      (?!(?:file|memory|hdfs|viewfs):|(?:jdbc:)?[a-z][a-z0-9+.-]+://|(?:s3[an]?|gs|az|abfss?|oss):[^:@]*/)
      [\w+.-]{2,}:[^@]+@
    """,
    re.IGNORECASE | re.VERBOSE,
)
# Two slashes begin a host.
_PATH: Final = re.compile(r"\.{0,2}/(?!/)|~")
# The names of settings whose values are secrets. Names of files with keys, and of public keys, are none.
_SECRET_NAME: Final = (
    r"(?:[\w.-]*(?:signature|secret|passw|passphrase|passcode|token|credential|access[-_]?key|account[-_]?key)[\w.-]*"
    r"|(?:[\w.-]*[_.-])?(?:sig|pwd|jwt)|[\w.-]*(?:api|private|shared)[-_.]?key)"
)
_SECRET_SETTING: Final = (
    rf"(?:{_SECRET_NAME}|(?:[\w.-]*[_.-])?(?:pass|pw|sas)|auth|authorization"
    r"|(?![\w.-]*(?:ssl|public|catalog)[-_]?key\b)[\w.-]*key)"
)
# A setting of a query, or of a connection string. A relative path may begin with a partition such as key=1.
_SETTING: Final = re.compile(rf"(?:^\s*{_SECRET_NAME}|[?&;#]\s*{_SECRET_SETTING})\s*=", re.IGNORECASE)
_NAME: Final = re.compile(_SECRET_SETTING, re.IGNORECASE)


def has_secret(address: str) -> bool:
    """Return whether an address holds a password, a key, or a signature as signed addresses and SAS tokens have one.

    A path that begins with `/`, `./`, `../` or `~` holds none, whatever the names of its folders.
    """
    if _PATH.match(address):
        return False
    text = address
    # What was encoded twice is decoded twice.
    while (decoded := unquote(text)) != text:
        text = decoded
    return _PASSWORD.search(text) is not None or _SETTING.search(text) is not None


def is_secret_setting(name: str) -> bool:
    """Return whether the value of a setting with this name is a secret, as that of `password` and `api_key` is."""
    return _NAME.fullmatch(name.strip()) is not None
