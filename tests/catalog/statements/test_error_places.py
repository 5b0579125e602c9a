"""The place of what an engine refuses: told where one part of the text can be meant, and never guessed."""

import re

import pytest

import lakehouse_core as lc

# The mark ¦ stands where the error says that it is; a text without one has several parts that may be meant.
CASES = [
    "SELECT ¦id / 0 FROM s.orders",
    "SELECT id / 1, ¦id / 0 FROM s.orders",
    "SELECT id / (id - id), id % (id - id) FROM s.orders",
    "SELECT CASE WHEN id = 7 THEN 1 / 0 END, 5 / (id - id) FROM s.orders",
    "SELECT 1 / (id - 2), 3 % - -5 FROM s.orders",
    "SELECT CAST(status AS INT) FROM s.orders WHERE customer = 5 OR status > 1",
    "INSERT INTO ¦s.numbers SELECT 99999999999, a, c, d, f, t FROM s.numbers",
    "MERGE INTO ¦s.orders t USING s.customers s ON t.id = s.id WHEN MATCHED AND t.id = 1 THEN UPDATE SET customer = 1 "
    "WHEN MATCHED THEN UPDATE SET customer = 99999999999",
    "SELECT id,\n  CAST(¦'x' AS INT) FROM s.orders",
    "SELECT CAST('x' AS INT), CAST('x' AS DATE)",
    "SELECT 'new', ¦sum(status) FROM s.orders WHERE status <> 'b'",
    "SELECT sum(status) FROM s.orders WHERE status <> 'new' OR id > 0",
    "SELECT id FROM s.orders WHERE ¦status > 1",
    "SELECT id FROM s.orders WHERE id > 1 AND ¦sum(id) > 1",
    "SELECT id FROM s.orders WHERE id IN (SELECT max(id) FROM s.orders WHERE ¦count(*) > 1)",
    "SELECT sum(id) OVER (), sum(¦max(id)) FROM s.orders",
    "SELECT ¦*, count(*) FROM s.orders",
    "SELECT id FROM s.orders UNION SELECT id FROM s.orders UNION SELECT ¦id, status FROM s.orders",
    "SELECT tags[0], tags[99] FROM s.orders",
    "SELECT ¦tags[99] FROM s.orders",
    "INSERT INTO s.orders (id, customer) SELECT id + 100, ¦id / 0 FROM s.orders",
    "EXPLAIN SELECT id FROM s.orders WHERE ¦sum(id) > 1",
    "UPDATE s.orders SET customer = ¦1 / (id - id) WHERE id > 0",
    "UPDATE s.orders SET customer = 1 / (id - id), score = 1 / (id - id) WHERE id > 0",
    "DELETE FROM s.orders WHERE id = 1 AND ¦id / 0 > 1",
]


@pytest.mark.parametrize("marked", CASES)
def test_an_error_names_the_place_of_the_only_part_that_it_can_mean(catalog, marked):
    with pytest.raises(lc.LakehouseError) as error:
        catalog.sql(marked.replace("¦", "")).to_arrow()

    before, mark, _ = marked.partition("¦")
    place = f"line {before.count(chr(10)) + 1}, column {len(before.rpartition(chr(10))[2]) + 1}"
    assert re.findall(r"line \d+, column \d+", str(error.value)) == ([place] if mark else [])
