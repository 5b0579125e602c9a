"""A store in memory with the address of one on a server: what resumes knows its source by that."""

from lakehouse_core.storage import MemoryStore


class HeldStore(MemoryStore):
    """All of these have one address, so that what is known of one of them holds for its copies."""

    def at(self, prefix: str) -> MemoryStore:
        return HeldStore(self._name, prefix="/".join(part for part in (self._prefix, prefix) if part))

    def uri(self, key: str) -> str:
        return f"s3://lake/wh/{'/'.join(part for part in (self._prefix, key) if part)}"
