"""Keys by a profile of Amazon's tools: found in its files, by its name alone, in each process."""

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import lakehouse_core as lc
from tests.limits import HANGS_AFTER_SECONDS
from tests.storage.s3_stub import ACCESS, REGION, SECRET, S3Stub

READ = """
import pickle, sys
print(pickle.load(sys.stdin.buffer).scan().to_arrow()["k"].to_pylist())
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """A machine whose environment has no keys; called with the texts of its two files."""
    for name in os.environ:
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    with S3Stub() as stub:
        monkeypatch.setenv("AWS_ENDPOINT_URL", stub.endpoint)
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")

        def written(credentials: str, config: str = "") -> None:
            for variable, text in (("AWS_SHARED_CREDENTIALS_FILE", credentials), ("AWS_CONFIG_FILE", config)):
                (tmp_path / variable).write_text(text)
                monkeypatch.setenv(variable, str(tmp_path / variable))

        yield written


def a_table(**storage: str) -> lc.Table:
    catalog = lc.connect("s3://lake/wh", storage=storage)
    catalog.create_database("db")
    table = catalog.create_table("db.t", {"k": "INT NOT NULL"}, primary_keys=["k"], options={"bucket": "1"})
    table.write([{"k": 1}])
    return table


KEYS = f"[lake]\naws_access_key_id = {ACCESS}\naws_secret_access_key = {SECRET}\n"


@pytest.mark.program
def test_another_process_finds_the_keys_by_the_name_of_the_profile(files: Callable[..., None]) -> None:
    files(KEYS, f"[profile lake]\nregion = {REGION}\n")
    table = a_table(profile="lake")
    sent = pickle.dumps(table)

    assert SECRET.encode() not in sent
    assert ACCESS.encode() not in sent
    read = subprocess.run(
        [sys.executable, "-c", READ], input=sent, capture_output=True, check=True, timeout=HANGS_AFTER_SECONDS
    )
    assert read.stdout.decode().strip() == "[1]"


def test_the_profile_of_the_environment_counts_and_a_process_may_give_its_keys(
    files: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {"Version": 1, "AccessKeyId": ACCESS, "SecretAccessKey": SECRET}
    (tmp_path / "keys.json").write_text(json.dumps(keys))
    files("", f"[profile lake]\nregion = {REGION}\ncredential_process = cat {tmp_path / 'keys.json'}\n")
    monkeypatch.setenv("AWS_PROFILE", "lake")

    assert a_table().scan().to_arrow()["k"].to_pylist() == [1]


@pytest.mark.parametrize("way", ["environment", "given"])
def test_keys_count_before_the_profile_of_the_environment(
    files: Callable[..., None], monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    files("[lake]\naws_access_key_id = other\naws_secret_access_key = other\n")
    monkeypatch.setenv("AWS_PROFILE", "lake")
    if way == "environment":
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        assert a_table().scan().count() == 1
    else:
        assert a_table(**{"access-key": ACCESS, "secret-key": SECRET}).scan().count() == 1


def test_a_profile_that_is_given_counts_before_keys_of_the_environment(
    files: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    files(KEYS)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "other")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "other")

    assert a_table(profile="lake").scan().count() == 1


@pytest.mark.parametrize(
    ("credentials", "profile", "message"),
    [
        (
            KEYS,
            "lak",
            "Profile 'lak': The config profile \\(lak\\) could not be found. Its files are ~/.aws/credentials",
        ),
        ("[lake]\n", "lake", "Profile 'lake': it has no keys. Its files are ~/.aws/credentials"),
        ("[lake]\naws_access_key_id = a\n", "lake", "Profile 'lake': Partial credentials found"),
    ],
)
def test_a_profile_without_keys_is_told_with_its_files(
    files: Callable[..., None], credentials: str, profile: str, message: str
) -> None:
    files(credentials)

    with pytest.raises(lc.CredentialsMissing, match=message):
        a_table(profile=profile)


def test_keys_beside_a_profile_are_refused() -> None:
    with pytest.raises(lc.InvalidRequest, match="found keys and a profile, which names other keys"):
        lc.connect("s3://lake/wh", storage={"profile": "lake", "access-key": "a", "secret-key": "b"})


def test_without_boto3_the_extra_is_named(files: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    files(KEYS)
    monkeypatch.setitem(sys.modules, "boto3.session", None)

    with pytest.raises(lc.InvalidRequest, match=r"pip install 'paimon-lakehouse\[aws-profiles\]'"):
        a_table(profile="lake")
