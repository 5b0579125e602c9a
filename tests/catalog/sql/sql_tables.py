"""The table that tests of SQL catalogs make under many names, and a process that writes it."""

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


def write_many(address: str, warehouse: str, first: int) -> list[str]:
    """Write ten rows, each in a commit of its own, and each again until the commit is made; return the errors."""
    told: list[str] = []
    for number in range(first, first + 10):
        while True:
            try:
                options = {"lock.enabled": "true"}
                table = lc.connect(warehouse, metastore=address, metastore_options=options).table("sales.orders")
                staged = table.stage([{"k": number, "v": "b"}], commit_user=f"job-{first}", commit_identifier=number)
                table.commit(staged)
                break
            except lc.StorageUnavailable as error:
                told.append(str(error))
    return told
