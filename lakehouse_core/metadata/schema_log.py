"""The schemas of a table: written once each, numbered from 0 without gaps, so that the highest id is the latest.

A schema has one content for ever, so what was read once is kept. Only when the table itself goes can it change: the
latest is looked at again each time, lest a handle write into a table of another time.
Source: docs/reliability/invariants.md#i23-a-schema-id-has-one-content.
"""

import re
from typing import Any

from lakehouse_core.errors import CorruptTable, InvalidRequest, NotFound
from lakehouse_core.metadata.read_back import readable_file
from lakehouse_core.storage.object_store import ObjectStore
from lakehouse_core.storage.outcomes import created
from lakehouse_core.table.layout import TableLayout
from lakehouse_core.table.schema import TableSchema, parse_schema, serialize_schema

_NAME = re.compile(r"schema-(0|[1-9]\d{0,9})")


class SchemaLog:
    """Reads and adds the schemas of one branch. `store` is rooted at the table."""

    def __init__(self, store: ObjectStore, layout: TableLayout) -> None:
        self._store = store
        self._layout = layout
        self._known: dict[int, tuple[TableSchema, bytes]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """What was read stays here; another process reads it again."""
        return SchemaLog, (self._store, self._layout)

    @property
    def store(self) -> ObjectStore:
        return self._store

    @property
    def known(self) -> TableSchema | None:
        """The newest schema that was read so far, None before the first; the table may have moved on."""
        return self._known[max(self._known)][0] if self._known else None

    def latest(self) -> TableSchema:
        """Return the schema that new data is written with.

        Raises NotFound when the table has none, or none any more, InvalidRequest when it is another table by now,
        CorruptTable when its file is damaged.
        """
        if not self._known:
            ids = self.ids()
            if not ids:
                raise NotFound(
                    f"{self._store.uri(self._layout.schema_folder)}: there is no schema. Check the name of the table."
                )
            return self.schema(ids[-1])
        latest = max(self._known)
        self._check_same(latest)
        while self._load(latest + 1) is not None:
            latest += 1
        return self._known[latest][0]

    def schema(self, schema_id: int) -> TableSchema:
        """Return one schema. Raises NotFound, or CorruptTable."""
        found = self._load(schema_id)
        if found is None:
            raise NotFound(
                f"{self._store.uri(self._layout.schema(schema_id))}: there is no schema {schema_id}. "
                "Restore the file from a copy of the table if data files name it."
            )
        return found

    def ids(self) -> list[int]:
        """Return the ids of all schemas, rising; none when there is no table."""
        names = self._store.children(self._layout.schema_folder).files
        return sorted(int(match[1]) for match in map(_NAME.fullmatch, names) if match)

    def all(self) -> list[TableSchema]:
        """Return every schema, oldest first."""
        return [self.schema(schema_id) for schema_id in self.ids()]

    def bucket_settings(self) -> set[str]:
        """Return every value that the option `bucket` has had, as text: one means that no two files can disagree."""
        latest = self.latest().id
        return {self.schema(schema_id).bucket_setting for schema_id in range(latest + 1)}

    def create(self, schema: TableSchema) -> bool:
        """Add `schema` under its id; False when another one has that id already.

        Raises InvalidRequest for a schema that readers would not take for what it is, WriteOutcomeUnknown.
        """
        key = self._layout.schema(schema.id)
        data = readable_file(schema, serialize_schema, lambda data: parse_schema(data, key), what="The schema")
        is_ours = created(self._store, key, data)
        if is_ours:
            self._known[schema.id] = schema, data
        return is_ours

    def _load(self, schema_id: int) -> TableSchema | None:
        if schema_id not in self._known:
            key = self._layout.schema(schema_id)
            try:
                data = self._store.read(key)
            except NotFound:
                return None
            self._known.setdefault(schema_id, (parse_schema(data, key), data))
        return self._known[schema_id][0]

    def _check_same(self, schema_id: int) -> None:
        """Refuse to go on when the table was dropped or renamed since a schema was read, made again, or damaged."""
        key = self._layout.schema(schema_id)
        try:
            data = self._store.read(key)
        except NotFound:
            raise NotFound(
                f"{self._store.uri(key)}: the schema that was there is gone: the table was dropped or renamed. "
                "Open it again under its present name."
            ) from None
        known, bytes_before = self._known[schema_id]
        if data != bytes_before:
            # Parsing finds damage by the checksum of our schemas. Java's schemas have none: there an equal time means
            # damage, because no table is dropped and made again within one millisecond.
            if parse_schema(data, key).time_millis == known.time_millis:
                raise CorruptTable(
                    f"{self._store.uri(key)}: the schema differs from the one that was read before, and both have the "
                    "same time, so the file is damaged. Restore it from a copy of the table."
                )
            raise InvalidRequest(
                f"{self._store.uri(key)}: the schema is not the one that was read before: the table was dropped and "
                "made again. Open it again, and write what was staged anew."
            )
