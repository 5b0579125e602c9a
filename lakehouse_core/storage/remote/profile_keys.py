"""Keys of a profile: what the files of Amazon's tools name, be it keys, a role, a single sign-on or a process.

Rule: the name of a profile travels, its keys never do. Each process reads the files itself, by the package boto3.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from lakehouse_core.errors import CredentialsMissing, InvalidRequest, shown

# Keys are asked for anew five minutes before that. Those of boto3 hold for ten minutes at least.
_ASKED_AGAIN_AFTER: Final = timedelta(minutes=10)


def profile_keys(name: str) -> Callable[[], Any]:
    """Return what gives a client of obstore the keys of the profile, and new ones when they end.

    Raises InvalidRequest where boto3 is not installed, CredentialsMissing for a profile that does not exist or has no
    keys.
    """
    try:
        import boto3.session  # noqa: PLC0415
        from botocore.exceptions import BotoCoreError  # noqa: PLC0415
        from obstore.auth.boto3 import Boto3CredentialProvider  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("boto3", "botocore"):
            raise
        raise InvalidRequest(
            f"Profile {shown(name)}: the package boto3, which reads profiles, is not installed. Run pip install "
            "'paimon-lakehouse[aws-profiles]', or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
        ) from error
    try:
        session = boto3.session.Session(profile_name=name)
        if session.get_credentials() is not None:
            return Boto3CredentialProvider(session, ttl=_ASKED_AGAIN_AFTER)
    except BotoCoreError as error:
        raise CredentialsMissing(f"Profile {shown(name)}: {error}. {_WHERE}") from error
    raise CredentialsMissing(f"Profile {shown(name)}: it has no keys. {_WHERE}")


_WHERE: Final = (
    "Its files are ~/.aws/credentials and ~/.aws/config, or those that AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE "
    "name, on each machine that reads or writes."
)
