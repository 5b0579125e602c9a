"""Real, released Apache Paimon (Java) as a program that tests ask: see README.md."""

from tests.interop.judge.client import Judge, JudgeError

__all__ = ["Judge", "JudgeError"]
