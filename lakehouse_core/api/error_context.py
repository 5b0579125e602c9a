"""Error context: name the table in errors of its verbs, for what lies below the catalog knows folders only."""

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
    """Name the table in errors that do not: what lies below the catalog knows folders only."""
    try:
        yield
    except LakehouseError as error:
        if table not in str(error):
            error.args = (f"{table}: {error}",)
        raise


def names_table(verb: Callable[Concatenate[N, P], R]) -> Callable[Concatenate[N, P], R]:
    """Let a verb's errors name the table, which is `name` of its object."""

    @wraps(verb)
    def call(self: N, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with named(self.name):
            return verb(self, *args, **kwargs)

    return call
