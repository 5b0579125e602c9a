"""What a process keeps of stores over a network, and the sizes at which it sends and reads in parts."""

import pytest

from lakehouse_core.storage.remote import answers, clients, conditions, store


def as_in_a_new_process(monkeypatch: pytest.MonkeyPatch, *, retries: int = clients.READ_RETRIES) -> None:
    """Forget which buckets were found, and which stores honour conditions."""
    monkeypatch.setattr(clients, "READ_RETRIES", retries)
    monkeypatch.setattr(conditions, "_PROBED", {})
    monkeypatch.setattr(answers, "_FOUND_BUCKETS", set())


def with_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send what is over one MiB in parts, of the least size that services take."""
    monkeypatch.setattr(store, "_ONE_PART_BYTES", 1 << 20)
    monkeypatch.setattr(store, "_PART_BYTES", 5 << 20)
