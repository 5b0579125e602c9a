"""Tagging: after their commit, verbs make the automatic tags that are due, and name them in their reports.

Rule: a tag that fails is told in the report; what the verb committed stays.
Source: docs/semantics/maintenance.md#automatic-tags.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from lakehouse_core.api.reports import TaggingReport
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.write.auto_tags import make_due_tags

P = ParamSpec("P")
R = TypeVar("R", bound=TaggingReport)


def tagging(verb: Callable[Concatenate[TableContext, P], R]) -> Callable[Concatenate[TableContext, P], R]:
    """Make tags after a verb, unless writers leave the upkeep of the table to others."""
    return _tagging(verb, by_upkeep=False)


def tagging_upkeep(verb: Callable[Concatenate[TableContext, P], R]) -> Callable[Concatenate[TableContext, P], R]:
    """Make tags after a verb that is upkeep."""
    return _tagging(verb, by_upkeep=True)


def _tagging(
    verb: Callable[Concatenate[TableContext, P], R], *, by_upkeep: bool
) -> Callable[Concatenate[TableContext, P], R]:
    @wraps(verb)
    def call(table: TableContext, /, *args: P.args, **kwargs: P.kwargs) -> R:
        report = verb(table, *args, **kwargs)
        if report.dry_run:
            return report
        schema = table.schemas.known.newest
        assert schema is not None, "the verb has read it"
        if not schema.table_options.tags.is_automatic:
            return report
        tags = make_due_tags(table, by_upkeep=by_upkeep)
        return replace(report, tags_created=tags.made, tags_deleted=tags.deleted, tag_failure=tags.failure)

    return call
