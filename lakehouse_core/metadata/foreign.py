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
        what = f"it names schema {schema_id} of the time {stated_millis}"
        created = f"{made_by} another table of this name, which was dropped, created it"
        stays = "If it stays, the process of that call has ended: delete the object."
        copied = "If it was copied from another table, copy all schemas of that table too."
        if found_millis is None:
            return cls(
                f"{uri}: {what}, and there is no such schema here. If that schema was lost, restore it from a copy of "
                f"the table. Else {created}, and that call removes it within moments: try again. {stays} {copied}"
            )
        return cls(
            f"{uri}: {created}: {what}, and here that schema is of the time {found_millis}. The call that created it "
            f"removes it within moments: try again. {stays} {copied}"
        )
