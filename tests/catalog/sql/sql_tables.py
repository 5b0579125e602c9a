"""The table that tests of SQL catalogs make under many names."""

from typing import Any

import lakehouse_core as lc

COLUMNS = {"k": "INT NOT NULL", "v": "STRING"}
KEYED: dict[str, Any] = {"primary_keys": ["k"], "options": {"bucket": "1"}}
ROW = [{"k": 1, "v": "a"}]


def made(catalog: lc.Catalog, name: str = "sales.orders") -> lc.Table:
    catalog.create_database(name.partition(".")[0], exist_ok=True)
    table = catalog.create_table(name, COLUMNS, **KEYED)
    table.write(ROW)
    return table
