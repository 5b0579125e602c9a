"""Secrets in addresses: passwords and signatures that a user wrote into one.

Rule: an address ends in messages, logs and plans, so it holds no secret, and a refusal does not repeat it.
Source: docs/object-stores.md#settings.
"""

import re
from typing import Final
from urllib.parse import unquote

# scheme://user:password@host, also with a slash in the password. A path has no user; an address with a port has none in
# it, and a bucket has no port.
_PASSWORD: Final = re.compile(
    r"(?<![a-z0-9+.-])(?!file:)(?:(?:s3[an]?|gs|az|abfss?|oss):/{1,2}[^/?#@:\[]*:"
    r"|[a-z][a-z0-9+.-]+:/{1,2}[^/?#@:\[]*:(?!\d+(?:[/?#]|$)))[^@]*@",
    re.IGNORECASE,
)
# A part of a query, or of a connection string, that signs a request.
_SIGNATURE: Final = re.compile(
    r"(?:^|[?&;#])\s*"
    r"(?:sig|pwd|[\w.-]*(?:signature|secret|passw|token|credential|access[-_]?key|account[-_]?key)[\w.-]*)\s*=",
    re.IGNORECASE,
)


def has_secret(address: str) -> bool:
    """Return whether an address holds a password, or a signature as signed addresses and SAS tokens have one."""
    text = unquote(address)
    return _PASSWORD.search(text) is not None or _SIGNATURE.search(text) is not None
