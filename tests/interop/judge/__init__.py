"""Real, released Apache Paimon (Java) as a program that tests ask: see README.md."""

from tests.interop.judge.client import OLDEST, VERSIONS, Judge, JudgeError, prepare, s3_jar

__all__ = ["OLDEST", "VERSIONS", "Judge", "JudgeError", "prepare", "s3_jar"]
