"""Known schemas: those that a handle has read or created, by which it tells schemas of another table from its own.

Rule: a schema never changes. Where an id has another content than before, or follows another schema, the table was
dropped, and created again or not.
Source: docs/reliability/invariants.md#i23-a-schema-id-has-one-content, docs/reliability/deletion.md#tables.
"""

from collections.abc import Collection

from lakehouse_core.errors import CorruptTable, InvalidRequest, NotFound
from lakehouse_core.metadata.foreign import ForeignObject
from lakehouse_core.metadata.look import Look
from lakehouse_core.storage.object_store import ObjectStore
from lakehouse_core.table.layout import TableLayout
from lakehouse_core.table.schema import TableSchema, parse_schema


class KnownSchemas:
    """The known schemas of one branch by id, each with the bytes of its file. `store` is rooted at the table."""

    def __init__(self, store: ObjectStore, layout: TableLayout) -> None:
        self._store = store
        self._layout = layout
        self._known: dict[int, tuple[TableSchema, bytes]] = {}

    def over(self, store: ObjectStore) -> "KnownSchemas":
        """Return the same schemas for another store of the same table; what one learns, both know."""
        known = KnownSchemas(store, self._layout)
        known._known = self._known
        return known

    @property
    def tells_foreign(self) -> bool:
        """Whether another table may have left schemas here: where folders move at once, none can."""
        return self._store.folders is None

    @property
    def newest(self) -> TableSchema | None:
        """The newest one, None before the first read; the table may have a newer one."""
        return self._known[max(self._known)][0] if self._known else None

    def newest_id(self, *, besides: Collection[str] = ()) -> int | None:
        """Return the id of the newest one whose key is not among `besides`; None if there is none."""
        return max((each for each in self._known if self._layout.schema(each) not in besides), default=None)

    def schema(self, schema_id: int) -> TableSchema | None:
        """Return the schema of an id, None if it is not known."""
        return self._known[schema_id][0] if schema_id in self._known else None

    def content(self, schema_id: int) -> bytes | None:
        """Return the bytes of a schema's file, None if it is not known."""
        return self._known[schema_id][1] if schema_id in self._known else None

    def add(self, schema: TableSchema, data: bytes) -> TableSchema:
        """Add what the file of a schema holds. Return the schema, or the one that another thread has added before."""
        return self._known.setdefault(schema.id, (schema, data))[0]

    def check_same(self, schema_id: int, look: Look) -> None:
        """Raise if this schema is another one now: NotFound if the table was dropped or renamed, InvalidRequest if it
        was created again, CorruptTable if the file is damaged.
        """
        key = self._layout.schema(schema_id)
        data = look.get(key)
        if data is None:
            raise NotFound(
                f"{self._store.uri(key)}: the schema is missing now: the table was dropped or renamed. Open it "
                "again under its present name."
            )
        known, bytes_before = self._known[schema_id]
        if data != bytes_before:
            # The checksum of our schemas shows damage. Java's schemas have none: there an equal time means damage,
            # because no table is dropped and created again within one millisecond.
            if parse_schema(data, key).time_millis == known.time_millis:
                raise CorruptTable(
                    f"{self._store.uri(key)}: the schema differs from the one that was read before, and both have the "
                    "same time, so the file is damaged. Restore it from a copy of the table."
                )
            raise InvalidRequest(
                f"{self._store.uri(key)}: the schema is not the one that was read before: the table was dropped "
                "and created again. Open it again, and stage the data again."
            )

    def check_follows(self, schema: TableSchema, look: Look, *, listed: Collection[int]) -> None:
        """Raise ForeignObject if `schema` was made to follow another schema than the one before it, as far as that is
        known, or was read by `look`. `listed`: ids of the last listing.
        """
        stated, key_before = schema.time_before_millis, self._layout.schema(schema.id - 1)
        if stated is None or not self.tells_foreign:
            return
        known, data = self.schema(schema.id - 1), look.known(key_before)
        if known is not None:
            found = known.time_millis
        elif data is not None:
            found = parse_schema(data, key_before).time_millis
        elif look.lacks(key_before) and min((*self._known, *listed), default=schema.id) < schema.id:
            # Branches that Java made may begin with a later schema, and lack all before.
            found = None
        else:
            return
        if found != stated:
            if known is not None:
                # The one that was read before may be that of the dropped table.
                self.check_same(known.id, Look(self._store))
            raise ForeignObject.at(
                self._store.uri(self._layout.schema(schema.id)),
                "an alteration of",
                schema.id - 1,
                stated_millis=str(stated),
                found_millis=found,
            )
