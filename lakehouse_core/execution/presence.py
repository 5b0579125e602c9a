"""Presence: whether a handle's table, or branch, is still the one that was opened. No other module answers that.

Rule: a verb writes first and asks then, and who drops a table deletes its first schema before it lists the rest: so one
of both sees the other. Where folders move at once, the store itself raises TableDropped for each call after that.
Source: docs/reliability/deletion.md#tables.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lakehouse_core.errors import CorruptTable, InvalidRequest, NotFound, TableDropped, WriteOutcomeUnknown
from lakehouse_core.execution.context import TableContext
from lakehouse_core.metadata.drop_mark import LEFT, is_held
from lakehouse_core.metadata.look import Look
from lakehouse_core.storage.outcomes import begun
from lakehouse_core.table.layout import DROP_MARK, MAIN


@dataclass(frozen=True, slots=True)
class Gone:
    """A table that is not there any more. `is_branch`: only the branch is not. `has_moved`: its folder has moved, with
    all that was written. `is_other`: a table is there, but not with its schema.
    """

    is_branch: bool = False
    has_moved: bool = False
    is_other: bool = False

    def error(self, table: TableContext) -> TableDropped | InvalidRequest:
        """Return the error of a verb that has changed nothing after that; InvalidRequest for another table."""
        if self.is_other:
            return InvalidRequest(
                f"{table.name}: the table was dropped and created again before this call ended. Open it again, and "
                "stage the data again."
            )
        what = "branch was deleted" if self.is_branch else "table was dropped"
        return TableDropped(
            f"{table.name}: the {what} or renamed before this call ended. Open it again under its present name."
        )


def asked(table: TableContext, schema_id: int) -> tuple[str, ...]:
    """Return the keys of a look for `gone`. Those of a branch are asked for after its boundary, which goes last."""
    schema = table.layout.schema(schema_id)
    if table.store.folders is not None:
        return (schema,)
    # The schemas of branches go with the rest, so they do not tell that a drop has begun.
    return (schema, DROP_MARK) if table.layout.branch is None else (schema, MAIN.schema(0))


def gone(table: TableContext, schema_id: int | None, look: Look | None = None) -> Gone | None:
    """Return what became of the table or branch if it is not the one in which the schema `schema_id` was read before,
    else None. `schema_id` None: the handle has read no schema. A damaged schema is not a drop. Raises
    StorageUnavailable.
    """
    try:
        look = look or Look(table.store)
        if schema_id is None:
            is_here = bool(table.store.children(table.layout.folders.schemas).files) and _has_table(table)
        else:
            look.ask(asked(table, schema_id))
            table.schemas.known.check_same(schema_id, look)
            is_here = not (look.lacks(MAIN.schema(0)) or look.known(DROP_MARK) is not None) or _has_table(table)
    except CorruptTable:
        return None
    except TableDropped:
        return Gone(has_moved=True)
    except NotFound:
        is_here = False
    except InvalidRequest:
        return Gone(is_other=True)
    if is_here:
        return None
    if table.layout.branch is None:
        # A table was created there, or another engine removed the newer schemas.
        return Gone(is_other=_has_first_schema(table))
    if not _has_table(table):
        return Gone()
    # A branch has the first schema of its table.
    first = table.store.read_found([MAIN.schema(0)]).get(MAIN.schema(0))
    is_other = first is not None and table.schemas.known.content(0) not in (None, first)
    return Gone(is_branch=not is_other, is_other=is_other)


def check_kept(table: TableContext, written: Sequence[str] = (), *, content: bytes | None = None) -> None:
    """Raise unless what was written or deleted before this call is part of the table and branch.

    Raises WriteOutcomeUnknown if a verb had closed the branch, which may have taken the change along or not;
    TableDropped if the table or branch is gone, after the objects `written` were deleted; InvalidRequest if another
    table is there, to which objects of these names may belong: those that do not have the `content` stay.
    """
    with begun("Whether the change is part of the table is unknown: look, then call again."):
        if table.layout.branch is not None:
            try:
                mark = table.snapshots.boundary.mark()
            except TableDropped:
                # The folder has moved with the change.
                return
            if mark.is_closed:
                raise WriteOutcomeUnknown(
                    f"{table.store.uri(table.layout.folder)}: a verb is {mark.work} the branch, and may have taken "
                    "this change along or not. Wait until the verb has ended, look, then call again."
                )
        # What was written does not tell whether the table was there.
        found = gone(table, table.schemas.known.newest_id(besides=written))
        if found is not None and not found.has_moved:
            if found.is_other:
                written = [key for key, there in table.store.read_found(written).items() if there == content]
            table.store.delete(written)
    if found is not None and not found.has_moved:
        raise found.error(table)


def check_table(table: TableContext) -> None:
    """Raise unless the table is the one whose branches a verb changes. If its folder has moved, so have they."""
    _check_branches(table, gone(table, table.schemas.known.newest_id()))


def check_changed(table: TableContext) -> None:
    """As `check_table`, for a verb that has changed a branch: WriteOutcomeUnknown if the store does not answer."""
    with begun("The branch was changed: look, then call again."):
        found = gone(table, table.schemas.known.newest_id())
    _check_branches(table, found)


def _check_branches(table: TableContext, found: Gone | None) -> None:
    if found is not None and not (found.has_moved or found.is_branch):
        raise found.error(table)


def is_another(table: TableContext) -> bool:
    """Return whether another table is there now."""
    found = gone(table, table.schemas.known.newest_id())
    return found is not None and found.is_other


def check_before(table: TableContext) -> None:
    """Raise if the table or branch that the handle has read is gone, for a verb that writes or deletes by a key that
    another table may use too. It does not save the verb from looking again after that.
    """
    if table.schemas.known.newest_id() is not None:
        check_here(table)


def check_here(table: TableContext, cause: Exception | None = None) -> None:
    """Raise TableDropped if the table or branch is gone, for a verb that found nothing to do, or failed."""
    if (found := gone(table, table.schemas.known.newest_id())) is not None:
        raise found.error(table) from cause


def check_dropped(table: TableContext) -> None:
    """Raise as `check_here` does, for a verb that reports what is missing: a table without one of its schemas may be
    damaged.
    """
    known = table.schemas.known.newest_id()
    found = gone(table, known)
    if found is None:
        return
    is_damaged = found.is_other and known is not None and not table.store.infos([table.layout.schema(known)])
    if not is_damaged:
        raise found.error(table)


def _has_table(table: TableContext) -> bool:
    """Return whether the folder holds a table, as the catalog tells it."""
    if _has_first_schema(table):
        return True
    return not table.store.infos([DROP_MARK]) and bool(table.store.children(MAIN.folders.schemas).files)


def _has_first_schema(table: TableContext) -> bool:
    """Return whether schema 0 is there and no call holds the mark of a drop. A call that holds it may have listed what
    it deletes before schema 0 was created.
    """
    found = table.store.read_found([MAIN.schema(0), DROP_MARK])
    return MAIN.schema(0) in found and not is_held(table.store, found.get(DROP_MARK, LEFT))
