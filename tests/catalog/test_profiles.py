"""Profiles: the settings of a catalog by a name, from one file without secrets."""

from pathlib import Path

import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.profiles import read_profile
from lakehouse_core.cli.program import run

FILE = """
team:
  warehouse: {folder}/lake
  metastore: sqlite:///{folder}/names.db
  metastore_options: {{lock.enabled: true, lock-acquire-timeout: 5 s}}
folders: {{warehouse: {folder}/lake}}
names: {{metastore: "sqlite:///{folder}/names.db"}}
bucket:
  warehouse: s3://lake/wh
  storage:
    {{endpoint: "http://127.0.0.1:1", access-key: {{env: S3_ACCESS}}, secret-key: {{env: S3_SECRET}}, timeout: 7}}
  metastore: {{env: NAMES_URL}}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "profiles.yaml").write_text(FILE.format(folder=tmp_path))
    monkeypatch.setenv("LAKEHOUSE_PROFILES", str(tmp_path / "profiles.yaml"))
    monkeypatch.delenv("LAKEHOUSE_WAREHOUSE", raising=False)
    return tmp_path


def test_a_profile_gives_what_is_not_given_beside_it(folder: Path) -> None:
    catalog = lc.connect(profile="team")
    catalog.create_database("sales")

    assert repr(catalog) == f"Catalog(file://{folder}/lake, metastore=sqlite:///{folder}/names.db)"
    assert lc.connect(profile="folders").databases() == []
    assert lc.connect(folder / "lake", profile="names").databases() == ["sales"]
    other = lc.connect(profile="team", metastore=f"sqlite:///{folder}/other.db")
    assert other.databases() == []
    assert read_profile("team").metastore_options == {"lock.enabled": "true", "lock-acquire-timeout": "5 s"}


def test_the_shell_takes_a_profile(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "t.yaml").write_text("columns: {k: INT}")
    assert run(["--profile", "team", "create", "sales.t", "--schema", str(folder / "t.yaml")]) == 0
    capsys.readouterr()

    assert run(["--profile", "team", "tables"]) == 0
    assert capsys.readouterr().out == "sales.t\n"
    assert lc.connect(profile="team").tables("sales") == ["t"]
    assert run(["--profile", "tame", "tables"]) == 2
    assert capsys.readouterr().err.endswith("profiles.yaml. Did you mean team?\n")


def test_secrets_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(lc.InvalidRequest, match="metastore: the environment variable NAMES_URL is not set"):
        lc.connect(profile="bucket")
    for name in ("S3_ACCESS", "S3_SECRET"):
        monkeypatch.setenv(name, f"canary-{name}")
    monkeypatch.setenv("NAMES_URL", "postgresql://ann:canary-pw@127.0.0.1:1/names")

    catalog = lc.connect(profile="bucket")
    with pytest.raises(lc.StorageUnavailable) as told:
        catalog.databases()

    assert "canary" not in repr(catalog) + str(told.value) + repr(read_profile("bucket"))
    assert "postgresql://ann@127.0.0.1:1/names" in repr(catalog)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("p: {storage: {secret-key: hidden}}", "profile p: storage.secret-key: found a secret in the file. Write {env"),
        (
            "p: {storage: {account-key: hidden}}",
            "profile p: storage.account-key: found a secret in the file. Write {env",
        ),
        ("p: {metastore: 'postgresql://h/d?api_key=hidden'}", "profile p: metastore: found a secret in the file"),
        ("p: {metastore: 'postgresql://a:hidden@h/d'}", "profile p: metastore: found a secret in the file"),
        ("p: {metastore_options: {jdbc.password: hidden}}", "metastore_options.jdbc.password: found a secret"),
        ("p: {warehouse: 's3://a:hidden@h/d'}", "profile p: warehouse: found a password, a key or a signature"),
        ("p: {warehouse: 'az://lake/wh?sv=1&sig=hidden'}", "Leave it out, and give the credentials in the environment"),
        ("p: {warehouse: 's3://l/w', storage: {endpoint: 'https://a:hidden@h'}}", "storage.endpoint: found a password"),
        ("p: {metastore: 'mysql://h/d?passwd=hidden'}", "profile p: metastore: found a secret in the file"),
        (
            "p: {bucket: x}",
            "profile p: there is no setting 'bucket'. Expected warehouse, metastore, storage, metastore_",
        ),
        ("p: {storage: 7}", "profile p: storage: expected options by name, found int"),
        ("p: {warehouse: [hidden]}", "profile p: warehouse: found list, expected a text or {env: NAME}"),
        ("p: 7", "profile p: expected settings by name, such as warehouse, found int"),
        ("p: {storage: {}}", "Profile 'p' has no warehouse. Add it there, or give one beside the profile"),
        ("[hidden", "cannot be read at line 1 (ParserError). Expected YAML"),
        ("hidden", "expected profiles by name, found str"),
    ],
)
def test_a_wrong_file_is_told_without_what_it_holds(folder: Path, text: str, says: str) -> None:
    (folder / "profiles.yaml").write_text(text)

    with pytest.raises(lc.InvalidRequest) as told:
        lc.connect(profile="p")

    assert says in str(told.value)
    assert "hidden" not in str(told.value)


def test_a_missing_file_and_a_missing_name_are_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(lc.InvalidRequest, match="Profile: found an address with a password") as refused:
        lc.connect(profile="s3://key:hidden@lake")
    assert "hidden" not in str(refused.value)
    with pytest.raises(lc.NotFound, match=r"Profile 'x' does not exist in .*There are: team, folders, names, bucket\."):
        lc.connect(profile="x")
    monkeypatch.delenv("LAKEHOUSE_PROFILES")
    monkeypatch.setenv("HOME", str(folder))
    with pytest.raises(lc.NotFound, match=r"\.lakehouse\.yaml: there is no such file of profiles"):
        lc.connect(profile="team")
    with pytest.raises(lc.InvalidRequest, match="Warehouse None: expected a path"):
        lc.connect()
