"""Error context: add the table's name to errors of its verbs.

Rule: layers below the catalog know folders only, so names are added here.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from lakehouse_core.errors import LakehouseError


class _Named(Protocol):
    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=_Named)
P = ParamSpec("P")
R = TypeVar("R")


@contextmanager
def named(table: str) -> Iterator[None]:
    """Add the table's name to errors that lack it."""
    try:
        yield
    except LakehouseError as error:
        if table not in str(error):
            error.args = (f"{table}: {error}",)
        raise


def names_table(verb: Callable[Concatenate[N, P], R]) -> Callable[Concatenate[N, P], R]:
    """Add the table's name to the errors of a verb. The verb's object has it as `name`."""

    @wraps(verb)
    def call(self: N, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with named(self.name):
            return verb(self, *args, **kwargs)

    return call
