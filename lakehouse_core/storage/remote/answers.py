"""Answers of a service: which error of the core each of them means, and what its text says.

Rule: an answer that does not say what became of a writing request is an unknown outcome. NotFound is raised only if
the service reported a missing key; a missing bucket is none.
Source: docs/reliability/store.md#object-stores.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn
from xml.sax.saxutils import unescape

from obstore import exceptions

from lakehouse_core.errors import CredentialsMissing, NotFound, StorageUnavailable, WriteOutcomeUnknown
from lakehouse_core.storage.keys import joined
from lakehouse_core.storage.remote.service import Service
from lakehouse_core.storage.remote.settings import RemoteSettings

# Where a machine or a container with a role asks for its credentials, after all other places.
_ROLE_ADDRESS: Final = re.compile(r"http://169\.254\.\d+\.\d+[:/]|http://[^/\s]+/latest/(api/token|meta-data/)")
# That of a deletion of several objects may stand beside the name of one of them.
_CODE: Final = re.compile(r"(?:<Code>|\(code: )([A-Z][\w.]{1,60})(?:</Code>|\))")
_SAID: Final = re.compile(r"<Message>([^<]{1,300})")
# What follows may hold what was sent, a session token too.
_BODY: Final = re.compile(r"<(?:\?xml|Error|!|html)", re.IGNORECASE)
_REGION: Final = re.compile(r"<Region>([a-z0-9-]{1,40})</Region>")
_HALF_OF_KEYS: Final = re.compile(r"Missing (AccessKeyId|SecretAccessKey)\b")
# What was asked, by a part of what the client says; else it was to read.
_ACTS: Final = {
    "list request": "list",
    "DeleteObjects": "delete",
    "?delete ": "delete",
    "performing DELETE": "delete",
    "performing PUT": "write",
    "performing POST": "write",
}
_SEE_SAID: Final = "it does not do that. Check the endpoint and the settings of the bucket, then try again."
_MISSING: Final = " Who may not list is told this of a missing object too."
_FEW_WORDS: Final = 4
_NO_ANSWER: Final = "error sending request"
# Why there is none, by a part of what the client says of its connection.
_CONNECTION_ADVICE: Final = {
    "TimedOut": "the store did not answer in time. Check the endpoint and the network, then try again.",
    "ConnectionRefused": "nothing listens there, the connection was refused. Check the endpoint, and whether the store "
    "runs.",
    "dns error": "the host of that name was not found. Check the endpoint and the network, then try again.",
    "InvalidCertificate": "its certificate is not one that this machine trusts. Check the endpoint, and the "
    "certificates of this machine.",
    "InvalidContentType": "it speaks without encryption there. Check the endpoint: https:// or http://.",
    "IncompleteMessage": "the connection was closed before the store answered. Check the endpoint and the network, "
    "then try again.",
    "ConnectionReset": "the connection was closed before the store answered. Check the endpoint and the network, "
    "then try again.",
}
# Of a request that was sent again: the answer to the last one does not tell what became of those before.
_SENT_AGAIN: Final = re.compile(r" after [1-9]\d* retries,")
# Of an error in the body of a success: of several deletions others may be done.
_IN_SUCCESS: Final = ("(code: ", "error response: ")
# Of an upload in parts that was given up: the client does not tell why.
_GIVEN_UP: Final = re.compile(r"performing DELETE \S+[?&]uploadId=")
_WRONG_LENGTH: Final = "the object has not the length that its table says, or a proxy has cut it. Run verify."
# What the client says where the store gave no code, and what to do; "": no such store answers like this.
_CLIENT_ADVICE: Final = {
    _NO_ANSWER: "the store did not answer. Check the endpoint and the network, then try again.",
    "response body error": "the answer was cut off. Check the network, then try again.",
    "Requested ": _WRONG_LENGTH,
    "status code: 416": _WRONG_LENGTH,
    "Content-Range header not present": "",
    "Invalid content length": "",
    "status code: 403": "the store refuses these credentials. Check keys, permissions and the clock of this machine.",
    "status code: 404": "",
    "non-2xx status code": "the store, or a proxy before it, has failed. Check the endpoint, or try again later.",
    "Unable to extract metadata": "",
    "Header missing from response": "",
    "invalid list response": "",
    "Got invalid": "",
    "non-partial response": "",
}
# The buckets of which an answer has told that they exist.
_FOUND_BUCKETS: Final[set[RemoteSettings]] = set()


class ConditionRefused(Exception):
    """A conditional request was refused: the key is taken, or has another version."""


class ServiceAnswers:
    """The meaning of a service's answers about the objects below a prefix of one bucket."""

    def __init__(self, service: Service, settings: RemoteSettings, prefix: str) -> None:
        self._service = service
        self._settings = settings
        self._prefix = prefix

    @contextmanager
    def reading(self, key: str) -> Iterator[None]:
        """Raise the core's errors for those of a reading request."""
        try:
            yield
        except (FileNotFoundError, exceptions.NotFoundError) as error:
            self._missing(key, error)
        except (exceptions.BaseError, OSError, ValueError) as error:
            self._check_bucket(error)
            raise self.failure(StorageUnavailable, key, error) from None
        except BaseException as error:
            self._check_panic(StorageUnavailable, key, error)
            raise

    @contextmanager
    def writing(self, key: str, *, is_conditional: bool = False) -> Iterator[None]:
        """Raise the core's errors for those of a writing request, and ConditionRefused for a refused condition."""
        try:
            yield
        except (exceptions.AlreadyExistsError, exceptions.PreconditionError) as error:
            # The client takes each 409 and 412 for one of these, and 404 too where a version was given.
            if is_conditional and _code(error) in self._service.refusals:
                raise ConditionRefused from None
            self._check_bucket(error)
            raise self.failure(WriteOutcomeUnknown, key, error) from None
        except (FileNotFoundError, exceptions.NotFoundError) as error:
            if self._service.missing_upload == _code(error):
                # It was completed by a request whose answer was lost, or it was given up.
                raise self.failure(WriteOutcomeUnknown, key, error) from None
            self._missing(key, error)
        except (exceptions.BaseError, OSError) as error:
            raise self.failure(self._outcome(error), key, error) from None
        except BaseException as error:
            self._check_panic(WriteOutcomeUnknown, key, error)
            raise

    @property
    def has_found_bucket(self) -> bool:
        """Whether an answer has told that the bucket exists."""
        return self._settings in _FOUND_BUCKETS

    def check_length(self, key: str, found: int, expected: int) -> None:
        """Raise StorageUnavailable if an answer has not the bytes that it, or the request, says."""
        if found != expected:
            raise StorageUnavailable(
                f"{self._uri(key)}: the answer has {found} bytes instead of {expected}: {self._not_such}"
            )

    def version(self, key: str, meta: Any) -> str:
        """Return the object's version. An answer without one comes from a proxy, not from the store."""
        version: str = meta["e_tag"] or ""
        if not version.strip('"'):
            raise StorageUnavailable(f"{self._uri(key)}: the answer has no ETag: {self._not_such}")
        return version if self._service.quotes_versions else version.strip('"')

    def failure(self, kind: type[StorageUnavailable], key: str, error: Exception) -> StorageUnavailable:
        """Return the error of that kind; CredentialsMissing where no request could be signed, so that none was sent."""
        if _HALF_OF_KEYS.search(str(error)):
            return CredentialsMissing(
                f"{self._uri(key)}: only one of {self._settings.key_variables} is set. {self._service.how_to_give_keys}"
            )
        if _ROLE_ADDRESS.search(str(error)):
            return CredentialsMissing(f"{self._uri(key)}: no credentials were found. {self._service.how_to_give_keys}")
        return kind(self.text(key, error))

    def text(self, key: str, error: Exception) -> str:
        """Return what the store answered, and what to do."""
        text = str(error)
        code = _code(error)
        if code and code != self._service.missing_object:
            act = next((act for part, act in _ACTS.items() if part in text), "read")
            region = _REGION.search(text)
            advice = self._service.advice.get(code) or self._service.advice.get(_family(code), _SEE_SAID)
            advice = advice.replace("{act}", act).replace("{missing}", _MISSING if act == "read" else "")
            advice = advice.replace("{region}", f"the region {region[1]}" if region else "another region")
            return f"{self._uri(key)}: the store answers {code}: {advice}{_said(text)}"
        known = self._service.client_advice | _CLIENT_ADVICE
        if _NO_ANSWER in text:
            known = _CONNECTION_ADVICE | known
        advice = next((advice for part, advice in known.items() if part in text), "Try again later.")
        advice = advice or self._not_such
        # The further lines show the whole request.
        return f"{self._uri(key)}: {advice} ({_BODY.split(text.splitlines()[0])[0][:300].rstrip(': ')})"

    def _outcome(self, error: Exception) -> type[StorageUnavailable]:
        """Return the class of a writing request's failure: whether it certainly did not happen."""
        text = str(error)
        if _SENT_AGAIN.search(text) or _GIVEN_UP.search(text) or any(part in text for part in _IN_SUCCESS):
            return WriteOutcomeUnknown
        is_refused = isinstance(
            error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError | exceptions.NotSupportedError
        )
        code = _code(error)
        told = code if code in self._service.advice else _family(code)
        is_refused = is_refused or told in self._service.not_done
        return StorageUnavailable if is_refused else WriteOutcomeUnknown

    def _missing(self, key: str, error: Exception) -> NoReturn:
        self._check_bucket(error)
        text = str(error)
        if self._service.missing_object in text:
            _FOUND_BUCKETS.add(self._settings)
        elif _code(error) or "performing HEAD" not in text:
            # An answer to HEAD has no code. Any other without one is a proxy's; other codes tell other faults.
            raise self.failure(StorageUnavailable, key, error) from None
        raise NotFound(f"{self._uri(key)}: the object does not exist. Check the name.") from None

    def _check_panic(self, kind: type[StorageUnavailable], key: str, error: BaseException) -> None:
        """Raise an error of that kind where the client did not understand an answer. It names no class for that."""
        if type(error).__name__ == "PanicException":
            raise kind(f"{self._uri(key)}: {self._not_such}") from None

    def _check_bucket(self, error: Exception) -> None:
        if self._service.missing_bucket in str(error):
            settings = self._settings
            raise StorageUnavailable(
                f"{settings.address}: there is no such {settings.place} at {settings.endpoint or settings.service}. "
                "Check its name and the endpoint, or create it."
            ) from None

    def _uri(self, key: str) -> str:
        return f"{self._settings.address}/{joined(self._prefix, key)}"

    @property
    def _not_such(self) -> str:
        return f"{self._settings.store} does not answer like this. Check the endpoint, and proxies before it."


def _code(error: Exception) -> str:
    """Return the code of an error answer, empty if it has none."""
    found = _CODE.search(str(error))
    return "" if found is None else found[1]


def _family(code: str) -> str:
    """Return the service that a code is of, as KMS in KMS.DisabledException."""
    return code.partition(".")[0]


def _said(text: str) -> str:
    """Return what the store says beside the code, where that is more than a few words."""
    said = _SAID.search(text)
    return "" if said is None or len(said[1].split()) < _FEW_WORDS else f" (It says: {unescape(said[1])})"


def has_no_answer(error: Exception) -> bool:
    """Return whether the connection broke before the service answered."""
    return _NO_ANSWER in str(error)
