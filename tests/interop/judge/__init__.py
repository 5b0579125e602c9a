"""Real, released Apache Paimon (Java) as a program that tests ask: see README.md."""

from tests.interop.judge.client import OLDEST, VERSIONS, Judge, JudgeError, prepare

__all__ = ["OLDEST", "VERSIONS", "Judge", "JudgeError", "prepare"]
