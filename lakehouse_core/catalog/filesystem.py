"""The file-system metastore: a database is a folder `<name>.db` of the warehouse, a table is a folder with a schema.

Rule: the files are the names. Source: docs/format/catalogs.md#filesystem-catalog.
"""

from collections.abc import Mapping

from lakehouse_core.catalog.metastore import TableName, TablePlace
from lakehouse_core.catalog.warehouse_files import WarehouseFiles
from lakehouse_core.errors import InvalidRequest, UnsupportedFeature, shown
from lakehouse_core.metadata.arbiter import CREATE_IF_ABSENT
from lakehouse_core.metadata.schema_log import SchemaLog
from lakehouse_core.table.layout import MAIN
from lakehouse_core.table.schema import TableSchema


class FileSystemMetastore:
    """Names as folders of the warehouse; the store alone decides which writer wins."""

    def __init__(self, files: WarehouseFiles) -> None:
        self._files = files

    def describe(self) -> Mapping[str, str]:
        return {}

    def databases(self) -> list[str]:
        return self._files.databases()

    def create_database(self, name: str, properties: Mapping[str, str]) -> None:
        _refuse_properties(name, properties)
        self._files.create_database(name)

    def alter_database(self, name: str, properties: Mapping[str, str | None]) -> None:
        _refuse_properties(name, properties)

    def database_properties(self, name: str) -> Mapping[str, str]:
        return {}

    def check(self, database: str) -> list[str]:
        return []

    def drop_database(self, name: str) -> None:
        if others := self._files.drop_database(name):
            raise InvalidRequest(
                f"Database {shown(name)}: found {others}, so its folder stays. Check the files, then remove the folder."
            )

    def tables(self, database: str, *, like: str | None = None) -> list[str]:
        return self._files.tables(database, like=like)

    def place(self, name: TableName) -> TablePlace:
        return TablePlace(self._files.at(name), CREATE_IF_ABSENT)

    def find(self, name: TableName, schemas: SchemaLog) -> str | None:
        ids = schemas.ids()
        if not ids or (ids[0] and self._files.is_part(name)):
            return None
        return MAIN.schema(ids[0])

    def check_free(self, name: TableName) -> None:
        self._files.check_free(name, for_copy=True)

    def hint(self, name: TableName) -> str | None:
        return None

    def create_table(self, name: TableName, schemas: SchemaLog, first: TableSchema, *, adopt: bool) -> bool:
        return self._files.create_table(name, schemas, first)

    def adopt(self, name: TableName, schemas: SchemaLog) -> None:
        """The files are the name."""

    def drop_table(self, name: TableName, schemas: SchemaLog) -> bool:
        witness = self.find(name, schemas)
        if witness is None:
            return self._files.drop_part(name)
        self._files.drop_table(name, witness)
        return True

    def rename_table(self, source: TableName, target: TableName, witness: str) -> bool:
        return self._files.move_table(source, target, witness)


def _refuse_properties(database: str, properties: Mapping[str, str | None]) -> None:
    if properties:
        raise UnsupportedFeature(
            f"Database {shown(database)}: a catalog of folders keeps no properties, found {shown(list(properties))}. "
            "Leave them out, or connect with a SQL catalog (metastore='sqlite:///…')."
        )
