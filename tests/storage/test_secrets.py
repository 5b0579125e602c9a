"""Addresses with a password, a key or a signature are known, and refused without what they hold."""

import time

import pytest

import lakehouse_core as lc
from lakehouse_core.storage import has_secret, is_secret_setting

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
s3://lake/wh?key=canary
s3://lake/wh?a=1&key=canary
s3://lake/wh?x&amp;key=canary
s3://lake/wh#key=canary
s3://lake/wh?api_key=canary
s3://lake/wh?ApiKey=canary
s3://lake/wh?x-api-key=canary
s3://lake/wh?pass=canary
s3://lake/wh?db.pass=canary
s3://lake/wh?passphrase=canary
s3://lake/wh?auth=canary
s3://lake/wh?jwt=canary
az://lake/wh?sas=canary
az://lake/wh?private-key=canary
az://lake/wh?sharedKey=canary
az://lake/wh?masterKey=canary
lake?key=canary
lake?token=canary
api_key=canary
s3://lake/wh%3Fkey%3Dcanary
s3://key%253Acanary%2540lake/wh
s3://canary@lake/wh
s3://:canary@lake
s3:/key:canary@lake
s3:///key:canary@lake
s3:key:canary@lake
//key:canary@lake
key:canary@lake
key:ca/nary@lake/wh
key:/canary@lake
AKIA_1:canary/+=@lake
s3:canary@lake
file://me:canary@host/lake
https://example.com/lake?code=canary
https://example.com/lake?auth_code=canary
s3://lake/wh?bearer=canary
s3://lake/wh?x-bearer=canary
a=1,password=canary
host=db,port=5432,pwd=canary
AccountName=lake,key=canary
s3://lake/wh?a=1,code=canary
lake,token=canary
s3://lake/wh%3Fa%3D1%2Cpass%3Dcanary
s3://lake/wh?pa%25%37%33s=canary
s3://lake/a,password=canary
s3://lake/wh,b#a=1,key=canary
"""

PLAIN = """
/data/lake
lake
a:b@c/d
./key:b@lake
~/lake
key=1/pass=2
lake/key=1
/data/sig=1/token=2
/data/R&key=1
./token=1/a;key=2
../lake#key=1
~/lake?key=1
/data/ann:1@home
/data/s3:old:1@home
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
hdfs:/data/a@b
hdfs://me@name:8020/a@b
abfss://lake@account.dfs.core.windows.net/a:b@c
C:/lake/a:b@c
hdfs://name/a@b
memory:a@b
me@host:wh
arn:aws:iam::1:role/lake
s3:/lake/a:b@c
s3:lake/wh@2
az://lake/key=1/pass=2
http://[::1]:9000/a:b@c
postgresql://ann@[::1]:5432/names
postgresql://ann@db/names?sslkey=/etc/key.pem&passfile=/etc/pass&require_auth=none
mysql://ann@db/names?ssl_key=/etc/key.pem&server_public_key=text
sqlite:///data/key:1@home/names.db
jdbc:mysql://ann@db/names
code=1/bearer=2
lake/bearer=1/code=2
s3://lake/a,b/key=1
s3://lake/wh?country_code=1,charset=utf8
s3://lake/wh?code-page=1
s3://lake/a,key=1/b
s3://lake/a,code=7,pass=1/b
s3://lake/a%2Ckey=1/b
lake/a,key=1/b
file:///data/code=7/a,bearer=1
code=7/a,key=1
lake/100%/a%zz
postgresql://ann@db1,db2/names
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


def test_a_secret_in_an_address_that_is_no_text_is_not_repeated() -> None:
    with pytest.raises(lc.InvalidRequest, match="Warehouse: found a password") as refused:
        lc.connect(b"s3://key:canary@lake")  # type: ignore[arg-type]

    assert "canary" not in str(refused.value)


@pytest.mark.parametrize("address", PLAIN.split())
def test_an_address_without_a_secret_is_known(address: str) -> None:
    assert not has_secret(address)


def test_a_setting_whose_value_is_a_secret_is_known_by_its_name() -> None:
    assert all(map(is_secret_setting, ("password", "pass", "pwd", "token", "key", "apikey", "sslpassword", "a-Key")))
    assert all(map(is_secret_setting, ("code", "authcode", "bearer", " SAS ")))
    assert not any(map(is_secret_setting, ("sslkey", "ssl_key", "server_public_key", "passfile", "require_auth")))
    assert not any(map(is_secret_setting, ("", "country_code", "a token", "catalog-key", "encoder")))


@pytest.mark.parametrize("begin", ["s3://lake/wh", "?", "%", ""])
@pytest.mark.parametrize(
    "part",
    ["token", "?token", "s3:/a:", "aa:/b:", "%25", "25", "%2%35", "key", "? ", " ", "?a.", "a,", "token=", "/", "a:"],
)
def test_an_address_of_eight_times_the_length_takes_about_eight_times_the_time(begin: str, part: str) -> None:
    """In time that only this thread uses. A search that begins anew at each place would take 64 times as much."""

    def seconds(length: int) -> float:
        address = begin + part * (length // len(part))
        runs = []
        for _ in range(5):
            began = time.thread_time()
            has_secret(address)
            runs.append(time.thread_time() - began)
        return min(runs)

    assert seconds(16_000) < 32 * max(seconds(2_000), 1e-4)
