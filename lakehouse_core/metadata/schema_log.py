"""Schema log: the schemas of a table, each written once, numbered from 0 without gaps; the highest id is the latest.

Rule: a schema of an id never changes, so schemas are cached. Only a table that is dropped and created again has other
schemas, so the latest is read again each time; else a handle could write to the wrong table.
Source: docs/reliability/invariants.md#i23-a-schema-id-has-one-content.
"""

import re
from dataclasses import replace
from typing import Any

from lakehouse_core.errors import NotFound
from lakehouse_core.metadata.arbiter import CREATE_IF_ABSENT, Arbiter
from lakehouse_core.metadata.foreign import ForeignObject
from lakehouse_core.metadata.known_schemas import KnownSchemas
from lakehouse_core.metadata.look import Look
from lakehouse_core.retry import LISTING
from lakehouse_core.storage.object_store import ObjectStore
from lakehouse_core.storage.outcomes import created
from lakehouse_core.table.layout import TableLayout
from lakehouse_core.table.read_back import readable_file
from lakehouse_core.table.schema import TableSchema, parse_schema, serialize_schema
from lakehouse_core.table.snapshot import SCHEMA_TIME, Snapshot

_NAME = re.compile(r"schema-(0|[1-9]\d{0,9})")


class SchemaLog:
    """Reads and adds the schemas of one branch. `store` is rooted at the table."""

    def __init__(self, store: ObjectStore, layout: TableLayout, arbiter: Arbiter = CREATE_IF_ABSENT) -> None:
        self._store = store
        self._arbiter = arbiter
        self._layout = layout
        self._known = KnownSchemas(store, layout)
        # The newest two ids of the last listing; none without one, or without a schema.
        self._listed: tuple[int, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the address without the cache; another process reads again."""
        return SchemaLog, (self._store, self._layout, self._arbiter)

    def over(self, store: ObjectStore) -> "SchemaLog":
        """Return the log over another store of the same table; it knows the schemas that this one knows."""
        log = SchemaLog(store, self._layout, self._arbiter)
        log._known, log._listed = self._known.over(store), self._listed
        return log

    @property
    def store(self) -> ObjectStore:
        return self._store

    @property
    def known(self) -> KnownSchemas:
        """The schemas that were read or created so far."""
        return self._known

    def asked(self) -> tuple[str, ...]:
        """Return the keys of a look for `latest`: the newest schema that is known, and the next."""
        if (known := self._known.newest_id()) is not None:
            return self._layout.schema(known), self._layout.schema(known + 1)
        if not (listed := self._listed):
            return ()
        newest = listed[-1]
        before = {*listed, newest - 1} if self._known.tells_foreign else {newest}
        return tuple(self._layout.schema(each) for each in (*sorted(before), newest + 1) if each >= 0)

    def latest(self, look: Look | None = None) -> TableSchema:
        """Return the schema that new data is written with. `look`: the look that answers; None reads now.

        Raises NotFound if the table has no schema, or was dropped, InvalidRequest if the table was created again,
        CorruptTable if the file is damaged, ForeignObject.
        """
        for attempt in LISTING.attempts():
            try:
                return self._latest(look)
            except ForeignObject:
                if attempt.is_last:
                    raise
                look = None
        raise AssertionError("the last attempt returns or raises")

    def _latest(self, look: Look | None) -> TableSchema:
        if self._known.newest is None and self._listed:
            # A table that was dropped since the listing is listed again.
            look = look or Look(self._store, self.asked())
            self._load_listed(look)
        if (latest := self._known.newest) is None:
            ids = self.ids()
            if not ids:
                raise NotFound(
                    f"{self._store.uri(self._layout.folders.schemas)}: there is no schema. Check the name of the table."
                )
            *listed, _ = self.asked()
            self._load_listed(Look(self._store, listed))
            return self.schema(ids[-1])
        if look is None or look.get(self._layout.schema(latest.id)) is None:
            # A schema may have become known after the look.
            look = Look(self._store, self.asked())
        self._known.check_same(latest.id, look)
        while (following := self._load(latest.id + 1, look)) is not None:
            latest = following
        return latest

    def found(self, schema_id: int) -> TableSchema | None:
        """Return one schema, None if there is none of that id. Raises CorruptTable, ForeignObject."""
        return self._load(schema_id)

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
        names = self._store.children(self._layout.folders.schemas).files
        found = sorted(int(match[1]) for match in map(_NAME.fullmatch, names) if match)
        self._listed = tuple(found[-2:])
        return found

    def first(self) -> TableSchema:
        """Return the schema that the table was created with; its time tells a table from one of the same name before
        it. Raises NotFound, or CorruptTable.
        """
        return self.schema(0)

    def all(self) -> list[TableSchema]:
        """Return every schema, oldest first."""
        return [self.schema(schema_id) for schema_id in self.ids()]

    def bucket_settings(self, latest: TableSchema) -> set[str]:
        """Return every value that the option `bucket` has had up to the schema `latest`, as text. With one value, all
        files have the same bucket count.
        """
        return {self.schema(schema_id).bucket_setting for schema_id in range(latest.id + 1)}

    def check_own(self, snapshot: Snapshot) -> None:
        """Raise ForeignObject if a commit to another table created `snapshot`. It reads nothing, unless the snapshot is
        foreign, or its schema was not read before; before a first schema was read it does not tell.

        Raises InvalidRequest if the table was created again since its schemas were read, NotFound if it was dropped,
        StorageUnavailable.
        """
        stated = snapshot.properties.get(SCHEMA_TIME)
        if stated is None or self._known.newest is None or not self._known.tells_foreign:
            return
        schema = self._load(snapshot.schema_id)
        if schema is not None:
            if stated == str(schema.time_millis):
                return
            # The schema that was read before may be that of the dropped table.
            self._known.check_same(schema.id, Look(self._store))
        raise ForeignObject.at(
            self._store.uri(self._layout.snapshot(snapshot.id)),
            "a commit to",
            snapshot.schema_id,
            stated_millis=stated,
            found_millis=None if schema is None else schema.time_millis,
        )

    def create(self, schema: TableSchema) -> bool:
        """Add `schema` under its id; return False if another schema has that id already.

        Raises InvalidRequest for a schema whose file readers would parse as another one, WriteOutcomeUnknown.
        """
        key, before = self._layout.schema(schema.id), self._known.schema(schema.id - 1)
        schema = replace(schema, time_before_millis=None if before is None else before.time_millis)
        data = readable_file(schema, serialize_schema, lambda data: parse_schema(data, key), what="The schema")
        is_ours = created(self._store, key, data, by=self._arbiter.create)
        if is_ours:
            self._known.add(schema, data)
        return is_ours

    def copy(self, schema_id: int, data: bytes) -> bool:
        """Add a schema of another branch, by the bytes of its file; return False if another one has the id. Raises
        WriteOutcomeUnknown.
        """
        return created(self._store, self._layout.schema(schema_id), data, by=self._arbiter.create)

    def _load(self, schema_id: int, look: Look | None = None) -> TableSchema | None:
        if (known := self._known.schema(schema_id)) is not None:
            return known
        key = self._layout.schema(schema_id)
        if look is None:
            has_before = self._known.tells_foreign and schema_id > 0 and self._known.schema(schema_id - 1) is None
            look = Look(self._store, [key, self._layout.schema(schema_id - 1)] if has_before else [key])
        data = look.get(key)
        if data is None:
            return None
        schema = parse_schema(data, key)
        self._known.check_follows(schema, look, listed=self._listed)
        return self._known.add(schema, data)

    def _load_listed(self, look: Look) -> None:
        """Load the newest schema of the last listing, and if it is there and none of another table, the one before."""
        # Threads may share a log.
        if not (listed := self._listed):
            return
        try:
            found = self._load(listed[-1], look)
        except ForeignObject:
            self._listed = ()
            raise
        if found is None:
            self._listed = ()
        elif self._known.tells_foreign:
            for schema_id in listed[:-1]:
                self._load(schema_id, look)
