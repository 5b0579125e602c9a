"""Foreign objects: a call for a table that was dropped created a snapshot or schema in the table that has the name now.

Rule: until that call has removed the object, no verb builds on it. A snapshot names the time of its schema, a schema
that of the one before it, which tells them from those of the table. Source: docs/reliability/deletion.md#tables.
"""

from lakehouse_core.errors import CorruptTable


class ForeignObject(CorruptTable):
    """The next snapshot or schema is one of another table, which was dropped."""

    @classmethod
    def at(
        cls, uri: str, made_by: str, schema_id: int, *, stated_millis: str, found_millis: int | None
    ) -> "ForeignObject":
        """Return the error for an object at `uri`. `made_by`: what the call did. The object names the time
        `stated_millis` for the schema, which has the time `found_millis`; None: there is no such schema.
        """
        if found_millis is None:
            here, lost = "there is no such schema here", f" If schema {schema_id} was lost, restore it instead."
        else:
            here, lost = f"here that schema is of the time {found_millis}", ""
        return cls(
            f"{uri}: {made_by} another table of this name, which was dropped, created it: it names schema {schema_id} "
            f"of the time {stated_millis}, and {here}. The call that created it removes it within moments: try again. "
            f"If it stays, the process of that call has ended: delete the object.{lost} If it was copied from another "
            "table, copy all schemas of that table too."
        )
