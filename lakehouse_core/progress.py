"""How far a verb is, for whoever asked to be told; its phases are logged, too, under `lakehouse_core.<verb>`.

Told by the thread that called the verb, between two steps, never from within one: what listens cannot damage a table.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from lakehouse_core.errors import InvalidRequest, shown

LOGGER: Final = "lakehouse_core"


def log_outcome(verb: str, name: str, outcome: str) -> None:
    """Log in one line what came of a verb."""
    logging.getLogger(f"{LOGGER}.{verb}").info("%s: %s", name, outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a verb is in one of its phases: `done` of `total` so many of `unit`, as in 3 of 12 tasks.

    `total` None: nobody knows yet. Phases come one after the other, and within one `done` never falls; work that is
    done again, because another commit was faster, begins its phases anew.
    """

    table: str
    phase: str
    done: int = 0
    total: int | None = None
    unit: str = ""


Listener: TypeAlias = Callable[[Progress], object]


class Watch:
    """What a verb tells as it goes: to the log each phase, to `listener` every step, made `unfailing`."""

    def __init__(self, verb: str, table: str, listener: Listener | None) -> None:
        self._log = logging.getLogger(f"{LOGGER}.{verb}")
        self._table = table
        self._listener = None if listener is None else unfailing(listener)
        self._phase = ""

    def at(self, phase: str, done: int = 0, total: int | None = None, unit: str = "") -> None:
        """Tell how far the verb is."""
        if phase != self._phase:
            self._phase = phase
            self._log.debug("%s: %s", self._table, phase if total is None else f"{phase}: {total} {unit}")
        if self._listener is not None:
            self._listener(Progress(table=self._table, phase=phase, done=done, total=total, unit=unit))

    def counting(self, phase: str, total: int, unit: str) -> Callable[[int], None]:
        """Begin a phase; return what tells that so many more of `total` are done."""
        done = 0

        def more(count: int) -> None:
            nonlocal done
            done += count
            self.at(phase, done, total, unit)

        more(0)
        return more

    def rows(self, batches: Iterable[Any], phase: str, total: int | None = None) -> Iterator[Any]:
        """Yield batches, telling how many rows have passed."""
        done = 0
        self.at(phase, done, total, "rows")
        for batch in batches:
            yield batch
            done += batch.num_rows
            self.at(phase, done, total, "rows")


def unfailing(listener: Listener) -> Listener:
    """Return a listener that is not called again once it has raised: it watches a verb and does not decide over it.

    What is no Exception, as KeyboardInterrupt, ends the verb as it would anywhere else. Raises InvalidRequest.
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
            # The rows matter more than whoever is told of them.
            listens = False
            logging.getLogger(LOGGER).warning(
                "%s: progress= raised %s; it is not called again, and the verb goes on", progress.table, shown(error)
            )

    return listen


class _Nobody(Watch):
    """For steps of the core that no verb of a user's asked for."""

    def __init__(self) -> None:
        super().__init__("", "", None)

    def at(self, phase: str, done: int = 0, total: int | None = None, unit: str = "") -> None:
        pass


NOBODY: Final[Watch] = _Nobody()
