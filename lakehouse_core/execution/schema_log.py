"""The schemas of a table: written once each, numbered from 0 without gaps, so that the highest id is the latest.

A schema has one content for ever (invariant I23), so what was read once is kept.
"""

import re

from lakehouse_core.errors import NotFound
from lakehouse_core.storage.object_store import ObjectStore
from lakehouse_core.table.layout import SCHEMA_FOLDER, schema_key
from lakehouse_core.table.schema import TableSchema, parse_schema, serialize_schema

_NAME = re.compile(r"schema-(0|[1-9]\d{0,9})")


class SchemaLog:
    """Reads and adds schemas. `store` is rooted at the table."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._known: dict[int, TableSchema] = {}

    @property
    def store(self) -> ObjectStore:
        return self._store

    def latest(self) -> TableSchema:
        """Return the schema that new data is written with. Raises NotFound when the table has none."""
        if not self._known:
            ids = self.ids()
            if not ids:
                raise NotFound(f"{self._store.uri(SCHEMA_FOLDER)}: there is no schema. Check the name of the table.")
            return self.schema(ids[-1])
        latest = max(self._known)
        while self._load(latest + 1) is not None:
            latest += 1
        return self._known[latest]

    def schema(self, schema_id: int) -> TableSchema:
        """Return one schema. Raises NotFound, or CorruptTable."""
        found = self._load(schema_id)
        if found is None:
            raise NotFound(
                f"{self._store.uri(schema_key(schema_id))}: there is no schema {schema_id}. "
                "Restore the file from a copy of the table if data files name it."
            )
        return found

    def ids(self) -> list[int]:
        """Return the ids of all schemas, rising; none when there is no table."""
        names = self._store.children(SCHEMA_FOLDER).files
        return sorted(int(match[1]) for match in map(_NAME.fullmatch, names) if match)

    def all(self) -> list[TableSchema]:
        """Return every schema, oldest first."""
        return [self.schema(schema_id) for schema_id in self.ids()]

    def bucket_settings(self) -> set[str]:
        """Return every value that the option `bucket` has had, as text: one means that no two files can disagree."""
        latest = self.latest().id
        return {self.schema(schema_id).options.get("bucket", "-1") for schema_id in range(latest + 1)}

    def create(self, schema: TableSchema) -> bool:
        """Add `schema` under its id; False when another one has that id already. Raises WriteOutcomeUnknown."""
        created = self._store.create_new(schema_key(schema.id), serialize_schema(schema))
        if created:
            self._known[schema.id] = schema
        return created

    def _load(self, schema_id: int) -> TableSchema | None:
        if schema_id in self._known:
            return self._known[schema_id]
        key = schema_key(schema_id)
        try:
            data = self._store.read(key)
        except NotFound:
            return None
        return self._known.setdefault(schema_id, parse_schema(data, key))
