"""Secrets in addresses: passwords, keys and signatures that a user wrote into one.

Rule: an address ends in messages, logs and plans, so it holds no secret, and a refusal does not repeat it.
Source: docs/object-stores.md#settings.
"""

import re
from typing import Final

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
# In the names of settings whose values are secrets. Names of files with keys, and of public keys, are none.
_SECRET_NAME: Final = re.compile(
    r"signature|secret|passw|passphrase|passcode|token|credential|(?:access|account)[-_]?key"
    r"|(?:^|[_.-])(?:sig|pwd|jwt)$|(?:api|private|shared)[-_.]?key$",
    re.IGNORECASE,
)
_SECRET_SETTING: Final = re.compile(
    r"(?:^|[_.-])(?:pass|pw|sas|bearer)$|^(?:auth|authorization|code)$|auth(?:orization)?[-_.]?code$"
    r"|(?<!ssl)(?<!ssl[-_])(?<!public)(?<!public[-_])(?<!catalog)(?<!catalog[-_])key$",
    re.IGNORECASE,
)
# A setting of a query, or of a connection string. A relative path may begin with a partition such as key=1, and the
# name of a folder may hold a comma before it.
_SETTING: Final = re.compile(r"(?:^|([?&;#,]))\s*+([\w.-]++)\s*+=")
_SETTINGS_BEGIN: Final = re.compile(r"\s*+[\w.-]++\s*+=[^/,]*+,|[^?#]*+[?#]")
_NAME: Final = re.compile(r"[\w.-]+")
_HEX_DIGITS: Final = frozenset(b"0123456789abcdefABCDEF")


def has_secret(address: str) -> bool:
    """Return whether an address holds a password, a key, or a signature as signed addresses and SAS tokens have one.

    A path that begins with `/`, `./`, `../` or `~` holds none, whatever the names of its folders.
    """
    if _PATH.match(address):
        return False
    text = _decoded(address) if "%" in address else address
    # What follows the last @ is no password, and is not searched once for each place where one might begin.
    if _PASSWORD.search(text[: text.rfind("@") + 1]) is not None:
        return True
    begun = _SETTINGS_BEGIN.match(text)
    # The comma that ends the first setting of a connection string counts as one between settings.
    from_here = len(text) if begun is None else begun.end() - 1
    return any(
        is_secret_setting(found[2])
        if found[1] and (found[1] != "," or found.start() >= from_here)
        else _SECRET_NAME.search(found[2]) is not None
        for found in _SETTING.finditer(text)
    )


def is_secret_setting(name: str) -> bool:
    """Return whether the value of a setting with this name is a secret, as that of `password` and `api_key` is."""
    bare = name.strip()
    return _NAME.fullmatch(bare) is not None and any(
        found.search(bare) is not None for found in (_SECRET_NAME, _SECRET_SETTING)
    )


def _decoded(text: str) -> str:
    """Return the text without its percent-encoding, however often it was encoded."""
    data = bytearray()
    for byte in text.encode(errors="surrogatepass"):
        data.append(byte)
        # A decoded byte may end a further escape.
        while data[-3:-2] == b"%" and _HEX_DIGITS.issuperset(data[-2:]):
            data[-3:] = bytes.fromhex(data[-2:].decode())
    return data.decode(errors="replace")
