"""A store in memory with the address of one on a server: what resumes knows its source by that."""

from lakehouse_core.storage import MemoryStore
from lakehouse_core.storage.keys import joined


class HeldStore(MemoryStore):
    """All of these have one address, so that what is known of one of them holds for its copies."""

    def at(self, prefix: str, *, is_table: bool = False) -> MemoryStore:
        return HeldStore(self._name, prefix=joined(self._prefix, prefix), is_table=is_table)

    def uri(self, key: str) -> str:
        return f"s3://lake/wh/{'/'.join(part for part in (self._prefix, key) if part)}"
