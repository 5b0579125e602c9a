"""What becomes of keys that move between partitions, row by row."""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

Row = Mapping[str, Any]


@dataclass
class MovingKeys:
    """The rows of a table with the columns k (the key), p (the partition), a and b, by key.

    `engine`: the merge engine. Of aggregation, `a` is a sum and `b` the last value that is not null; deletes remove a
    row where rows are combined.
    """

    engine: str
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)

    def write(self, rows: Iterable[Row]) -> None:
        """Apply rows, each with its kind as `kind`, in their order."""
        # Within a write, a key that was deleted keeps its partition where rows are combined.
        homes: dict[int, Any] = {key: row["p"] for key, row in self.rows.items()}
        for given in rows:
            row = {name: given.get(name) for name in ("k", "p", "a", "b")}
            key, is_add = row["k"], given.get("kind", "+I") in ("+I", "+U")
            old = self.rows.get(key)
            home = homes.setdefault(key, row["p"])
            if not is_add:
                self.rows.pop(key, None)
            elif self.engine == "deduplicate":
                self.rows[key] = row
            elif self.engine == "first-row":
                self.rows.setdefault(key, row)
            elif old is None:
                self.rows[key] = {**row, "p": home}
            elif self.engine == "partial-update":
                old.update({name: row[name] for name in ("a", "b") if row[name] is not None})
            else:
                sums = [value for value in (old["a"], row["a"]) if value is not None]
                old.update({"a": sum(sums) if sums else None, "b": old["b"] if row["b"] is None else row["b"]})

    def told(self, rows: Iterable[Row]) -> list[tuple[Any, ...]]:
        """Return what a changelog of the input of `deduplicate` tells of these rows before they are written: kind, k,
        p, a and b, in order.
        """
        homes: dict[int, Any] = {key: row["p"] for key, row in self.rows.items()}
        found = []
        for row in rows:
            key, kind = row["k"], row.get("kind", "+I")
            if kind in ("+I", "+U"):
                if homes.get(key, row["p"]) != row["p"]:
                    found.append(("-D", key, homes[key], row["a"], row["b"]))
                homes[key] = row["p"]
            # A retract stays where the key is.
            found.append((kind, key, homes.setdefault(key, row["p"]), row["a"], row["b"]))
        return found

    def drop(self, partitions: Set[Any]) -> None:
        self.rows = {key: row for key, row in self.rows.items() if row["p"] not in partitions}

    def sorted(self) -> list[tuple[Any, ...]]:
        return [(key, row["p"], row["a"], row["b"]) for key, row in sorted(self.rows.items())]
