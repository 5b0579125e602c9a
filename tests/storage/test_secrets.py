"""Addresses with a password or a signature are known, and refused without what they hold."""

import pytest

import lakehouse_core as lc
from lakehouse_core.storage import has_secret

SECRETS = """
s3://key:canary@lake/wh
s3://key:can/ar/canary@lake/wh
S3://key:canary+/=@lake
s3://key:1/23canary@lake/wh
s3://key:ca?na#canary@lake
https://me:canary@example.com:9000
az://lake/wh?sv=2022-11-02&ss=b&se=2030-01-01&sp=rl&sig=canary
az://lake/wh?SIG=canary
?sv=2022-11-02&sig=canary
s3://lake/wh?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=canary
s3://lake/wh?X-Amz-Security-Token=canary
s3://lake/wh?X-Amz-Credential=canary
s3://lake/wh?X%2DAmz%2DSignature=canary
gs://lake/wh?X-Goog-Signature=canary
s3://lake/wh?AWSAccessKeyId=a&Expires=1&Signature=canary
s3://lake/wh#sig=canary
file:///lake?sig=canary
lake?sig=canary
postgresql://ann:canary@db/names
mysql://db/names?user=ann&passwd=canary
DefaultEndpointsProtocol=https;AccountName=lake;AccountKey=canary;EndpointSuffix=core.windows.net
"""

PLAIN = """
/data/lake
lake
a:b@c/d
~/lake
/data/sig=1/token=2
/data/ann:1@home
file:///data/ann:1@home
s3://lake/wh
s3://lake/dt=2024-01-01/sig=1
s3://lake/tokens/a@b
s3://lake/a:b@c
az://container@account/wh
http://127.0.0.1:9000
http://127.0.0.1:9000/a@b
http://[::1]:9000/a@b
postgresql://ann@db:5432/names
sqlite:////data/ann:1@home/names.db
mysql://ann@db/names?charset=utf8mb4
"""


@pytest.mark.parametrize("address", SECRETS.split())
def test_an_address_with_a_secret_is_refused_without_it(address: str) -> None:
    assert has_secret(address)
    with pytest.raises(lc.InvalidRequest) as refused:
        lc.connect(address)

    assert "Leave it out, and set the credentials in the environment, or as {env: NAME} in a profile" in str(
        refused.value
    )
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize("address", PLAIN.split())
def test_an_address_without_a_secret_is_known(address: str) -> None:
    assert not has_secret(address)
