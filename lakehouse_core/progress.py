"""Progress: how far a verb is, for a listener of the caller; phases are also logged under `lakehouse_core.<verb>`.

Rule: the calling thread reports between two steps, never within one, so a listener cannot damage a table.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from lakehouse_core.errors import InvalidRequest, shown

LOGGER: Final = "lakehouse_core"


def log_outcome(verb: str, name: str, outcome: str) -> None:
    """Log the outcome of a verb in one line."""
    logging.getLogger(f"{LOGGER}.{verb}").info("%s: %s", name, outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a verb is in one of its phases: `done` of `total` `unit`, as in 3 of 12 tasks.

    `total` None: not known yet. Phases follow each other, and `done` never falls within one. When another commit was
    faster, the repeated work begins its phases anew.
    """

    table: str
    phase: str
    done: int = 0
    total: int | None = None
    unit: str = ""


Listener: TypeAlias = Callable[[Progress], object]


class Watch:
    """The reporter of a verb: it logs each phase and passes every step to `listener`, which `unfailing` has wrapped."""

    def __init__(self, verb: str, table: str, listener: Listener | None) -> None:
        self._log = logging.getLogger(f"{LOGGER}.{verb}")
        self._table = table
        self._listener = None if listener is None else unfailing(listener)
        self._phase = ""

    def at(self, phase: str, done: int = 0, total: int | None = None, unit: str = "") -> None:
        """Report how far the verb is."""
        if phase != self._phase:
            self._phase = phase
            self._log.debug("%s: %s", self._table, phase if total is None else f"{phase}: {total} {unit}")
        if self._listener is not None:
            self._listener(Progress(table=self._table, phase=phase, done=done, total=total, unit=unit))

    def counting(self, phase: str, total: int, unit: str) -> Callable[[int], None]:
        """Begin a phase. Return a function that reports that a number of `total` is done."""
        done = 0

        def more(count: int) -> None:
            nonlocal done
            done += count
            self.at(phase, done, total, unit)

        more(0)
        return more

    def rows(self, batches: Iterable[Any], phase: str, total: int | None = None) -> Iterator[Any]:
        """Yield batches and report how many rows have passed."""
        done = 0
        self.at(phase, done, total, "rows")
        for batch in batches:
            yield batch
            done += batch.num_rows
            self.at(phase, done, total, "rows")


def unfailing(listener: Listener) -> Listener:
    """Return a listener that is not called again after it has raised: a listener watches a verb and does not control
    it.

    An error that is not an Exception, such as KeyboardInterrupt, ends the verb. Raises InvalidRequest.
    """
    if not callable(listener):
        raise InvalidRequest(f"progress={shown(listener)}: expected a function of one argument, a Progress.")
    listens = True

    def listen(progress: Progress) -> None:
        nonlocal listens
        if not listens:
            return
        try:
            listener(progress)
        except Exception as error:
            # A failing listener must not stop the verb.
            listens = False
            logging.getLogger(LOGGER).warning(
                "%s: progress= raised %s. The verb continues without calling it again.", progress.table, shown(error)
            )

    return listen


class _NoWatch(Watch):
    """The watch of steps that run outside a user's verb: it reports nothing."""

    def __init__(self) -> None:
        super().__init__("", "", None)

    def at(self, phase: str, done: int = 0, total: int | None = None, unit: str = "") -> None:
        pass


NO_WATCH: Final[Watch] = _NoWatch()
