"""Splits of a plan: at hand where they are few, made anew each time where they are many.

Source: docs/semantics/reading.md#splits.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, overload

from lakehouse_core.errors import PlanTooLarge
from lakehouse_core.table.split import Split

# As objects these take 12 MB.
MOST_KEPT_FILES: Final = 20_000


class LazySplits(Sequence[Split]):
    """Splits in manifest order of their buckets. Of many files they are made anew each time they are asked for.

    A million files as objects would take more memory than all else; whoever reads them needs one split at a time.
    """

    def __init__(self, make: Callable[[], Iterator[Split]], *, keeps: bool) -> None:
        self._make = make
        self._kept = tuple(make()) if keeps else None
        self._count: int | None = None

    def __iter__(self) -> Iterator[Split]:
        return iter(self._kept) if self._kept is not None else self._make()

    def __len__(self) -> int:
        if self._kept is not None:
            return len(self._kept)
        if self._count is None:
            self._count = sum(1 for _ in self._make())
        return self._count

    @overload
    def __getitem__(self, index: int) -> Split: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Split]: ...

    def __getitem__(self, index: int | slice) -> Split | Sequence[Split]:
        return (self._kept if self._kept is not None else tuple(self))[index]

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    @property
    def is_kept(self) -> bool:
        """Whether they are at hand, so that to count them costs nothing."""
        return self._kept is not None

    def __repr__(self) -> str:
        return f"Splits({'many' if self._kept is None else len(self._kept)})"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._kept is None:
            raise PlanTooLarge(
                f"A plan of more than {MOST_KEPT_FILES:,} files is not pickled: pickle the scan before it is first "
                "used, or read fewer partitions."
            )
        return kept_splits, (self._kept,)


def kept_splits(splits: tuple[Split, ...]) -> LazySplits:
    """Return splits that are at hand."""
    return LazySplits(lambda: iter(splits), keeps=True)
