"""Choice: the candidates on which a budget is spent, and the reason for each that is left out.

Rule: the sum of the chosen costs is within the budget. The least that helps each urgent partition is chosen first; then
the seconds that readers save for each part of the budget decide. Of the compactions of a partition one is chosen.
Source: docs/decisions/0019-value-of-maintenance.md.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final, TypeAlias

from lakehouse_core.planning.fleet.candidates import Candidate, total
from lakehouse_core.planning.fleet.cost import NOTHING, Budget, Cost
from lakehouse_core.planning.fleet.operations import COMPACTIONS, OPERATIONS

# An operation that readers repay later than this is not worth its wear: the table will be another by then.
DAYS_TO_PAY: Final = 30.0

# The candidates of which one can be chosen, and what is chosen by the place of its group. A fleet has a million groups,
# so a group is no more than its candidates.
_Groups: TypeAlias = Sequence[Sequence[Candidate]]
_Taken: TypeAlias = dict[int, Candidate]
_Group: TypeAlias = tuple[str, str, str, tuple[str, ...], int]


@dataclass(frozen=True, slots=True)
class _Waits:
    def __call__(self, _: Candidate) -> str:
        return "it is not urgent"


@dataclass(frozen=True, slots=True)
class _NotWorth:
    def __call__(self, each: Candidate) -> str:
        pays = "never pays" if each.saved_seconds <= 0 else f"pays after {each.days_to_pay:,.0f} days"
        return (
            f"it would take {each.cost.seconds:.3g} s and save {each.saved_seconds:.2g} s a day"
            f"{each.in_reads}, so it {pays}, and the limit is {DAYS_TO_PAY:g}"
        )


@dataclass(frozen=True, slots=True)
class _TooLarge:
    budget: Budget

    def __call__(self, each: Candidate) -> str:
        exceeded = " and ".join(self.budget.exceeded_by(each.cost))
        return f"alone it needs {each.cost}, more {exceeded} than the budget of {self.budget}"


@dataclass(frozen=True, slots=True)
class _LeftOut:
    """The candidate of the same group that is chosen, and what all choices took."""

    chosen: Candidate | None
    budget: Budget
    spent: Cost

    def __call__(self, each: Candidate) -> str:
        saves = f"it would save {each.saved_seconds:.2g} s a day{each.in_reads} for {each.cost}"
        if self.chosen is not None:
            return f"{saves}; {self.chosen.name}, which takes {self.chosen.cost}, is chosen instead"
        return f"{saves}, and of the budget of {self.budget} the choices of more worth took {self.spent}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A candidate that is not chosen. `reason` says why, in figures."""

    candidate: Candidate
    why: _Waits | _NotWorth | _TooLarge | _LeftOut

    @property
    def reason(self) -> str:
        return self.why(self.candidate)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The chosen candidates in the order of their execution, and the refused ones, the most valuable first.

    `reserve`: of the refused ones, those that would be chosen if the budget were there once more.
    """

    chosen: tuple[Candidate, ...]
    refused: tuple[Refused, ...]
    reserve: tuple[Candidate, ...] = ()

    @property
    def cost(self) -> Cost:
        return total(self.chosen)


def choose(candidates: Iterable[Candidate], budget: Budget, *, only_urgent: bool = False) -> Choice:
    """Return the candidates to spend the budget on. `only_urgent`: leave the rest of the budget.

    The value of the chosen ones is at least half of the highest possible, if one figure is limited and nothing is
    urgent. Raises nothing: a candidate that does not fit is refused.
    """
    worth, refused = parted(_in_places(candidates), only_urgent=only_urgent)
    too_large = _TooLarge(budget)
    refused += [Refused(candidate=each, why=too_large) for each in worth if not budget.holds(each.cost)]
    fitting = [tuple(found) for _, found in groupby((one for one in worth if budget.holds(one.cost)), key=_group)]
    taken = _chosen(fitting, budget)
    spare = _chosen([found for place, found in enumerate(fitting) if place not in taken], budget)
    left_out = _LeftOut(None, budget, total(taken.values()))
    for place, found in enumerate(fitting):
        chosen = taken.get(place)
        why = left_out if chosen is None else replace(left_out, chosen=chosen)
        refused += [
            Refused(candidate=each, why=why) for each in found if each is not chosen and not _is_surpassed(each, chosen)
        ]
    refused.sort(key=lambda one: -one.candidate.saved_seconds)
    return Choice(
        chosen=_in_order(taken.values(), budget), refused=tuple(refused), reserve=_in_order(spare.values(), budget)
    )


def _chosen(groups: _Groups, budget: Budget) -> _Taken:
    """Return what is chosen of `groups`: the least that helps each urgent one, then what saves most with the rest."""
    taken: _Taken = {}
    spent = NOTHING
    urgent = [(place, each) for place, found in enumerate(groups) for each in found if each.urgent is not None]
    for place, each in sorted(urgent, key=lambda one: (budget.share(one[1].cost), -_value(one[1]))):
        if place not in taken and budget.holds(spent + each.cost):
            taken[place], spent = each, spent + each.cost
    return _best(groups, budget, taken)


def _best(groups: _Groups, budget: Budget, before: _Taken) -> _Taken:
    """Return `before` and the choice of `groups`: the greedy one, or the single most valuable candidate and then the
    greedy one. Either may be poor, the better of both is at least half of the highest value.
    """
    spent = total(before.values())
    greedy = _greedy(groups, budget, before)
    single = max(
        (
            (place, each)
            for place, found in enumerate(groups)
            if place not in before
            for each in found
            if budget.holds(spent + each.cost)
        ),
        key=lambda one: _value(one[1]),
        default=None,
    )
    if single is None:
        return greedy
    other = _greedy(groups, budget, {**before, single[0]: single[1]})
    return max(greedy, other, key=lambda taken: sum(map(_value, taken.values())))


def _greedy(groups: _Groups, budget: Budget, before: _Taken) -> _Taken:
    """Return `before` and what is chosen of `groups` step by step, the step of the highest value for its share of the
    budget first. A step takes a group's first candidate, or a more costly one in place of it.
    """
    taken = dict(before)
    spent = total(taken.values())
    steps = sorted(
        (
            (-_worth(now, then, budget), place, now, then)
            for place, found in enumerate(groups)
            for now, then in _steps(found, budget, before.get(place))
        ),
        # Of steps of one worth the first group's comes first.
        key=lambda step: step[0],
    )
    for _, place, now, then in steps:
        if taken.get(place) is not now:
            # An earlier step of the group did not fit.
            continue
        after = spent - (NOTHING if now is None else now.cost) + then.cost
        if budget.holds(after):
            taken[place], spent = then, after
    # Of groups whose best value for the share does not fit any more, another candidate may.
    for place, found in enumerate(groups):
        if place in taken:
            continue
        for each in sorted(found, key=_value, reverse=True):
            if budget.holds(spent + each.cost):
                taken[place], spent = each, spent + each.cost
                break
    return taken


def _steps(
    found: Sequence[Candidate], budget: Budget, first: Candidate | None
) -> list[tuple[Candidate | None, Candidate]]:
    """Return the steps from `first` to a group's most valuable candidate, each of less worth than the one before."""
    by_share = sorted(found, key=lambda each: (budget.share(each.cost), -_value(each)))
    hull: list[Candidate] = []
    for each in by_share:
        last = hull[-1] if hull else first
        if last is not None and _value(each) <= _value(last):
            continue
        while hull and _worth(hull[-2] if len(hull) > 1 else first, hull[-1], budget) <= _worth(hull[-1], each, budget):
            hull.pop()
        hull.append(each)
    return [(now, then) for now, then in zip([first, *hull], hull, strict=False)]


def _worth(now: Candidate | None, then: Candidate, budget: Budget) -> float:
    """Return the value that a step adds for each share of the budget that it adds."""
    share = budget.share(then.cost) - (0.0 if now is None else budget.share(now.cost))
    value = _value(then) - (0.0 if now is None else _value(now))
    return value / share if share > 0 else float("inf")


def _value(candidate: Candidate) -> float:
    return candidate.saved_seconds


def parted(candidates: Iterable[Candidate], *, only_urgent: bool) -> tuple[list[Candidate], list[Refused]]:
    """Return the candidates that are worth their cost, and those that are refused whatever the budget is."""
    worth, refused = [], []
    for each in candidates:
        if only_urgent and each.urgent is None:
            refused.append(Refused(candidate=each, why=_Waits()))
        elif each.urgent is None and each.days_to_pay > DAYS_TO_PAY:
            refused.append(Refused(candidate=each, why=_NotWorth()))
        else:
            worth.append(each)
    return worth, refused


def _is_surpassed(each: Candidate, chosen: Candidate | None) -> bool:
    """Return whether the chosen candidate of the same group does more: then nothing is missed."""
    return chosen is not None and _value(chosen) >= _value(each)


def _in_order(taken: Iterable[Candidate], budget: Budget) -> tuple[Candidate, ...]:
    """Return the choices, what is urgent and of most worth first; the manifests and snapshots of a table come after its
    compactions.
    """
    ranked = sorted(taken, key=lambda each: (each.urgent is None, -_worth(None, each, budget), _name(each)))
    places: dict[tuple[str, str], int] = {}
    positions = []
    for operation in OPERATIONS:
        for rank, each in enumerate(ranked):
            if each.operation != operation:
                continue
            table = each.warehouse, each.table
            last = places.get(table, 0)
            place = max(rank, last) if operation in ("compact_manifests", "expire") else rank
            places[table] = max(last, place)
            positions.append((place, OPERATIONS.index(operation), rank, each))
    return tuple(each for _, _, _, each in sorted(positions, key=lambda found: found[:3]))


def _in_places(candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    """Yield the candidates in an order of their own, those of a group one after the other."""

    def table(each: Candidate) -> tuple[str, str]:
        return each.warehouse, each.table

    # Table by table: the keys of all candidates at once would take as much room as they do.
    for _, found in groupby(sorted(candidates, key=table), key=table):
        yield from sorted(found, key=lambda each: (_group(each), each.operation))


def _group(each: Candidate) -> _Group:
    kind = "files" if each.operation in COMPACTIONS else each.operation
    values = tuple("" if value is None else f"={value}" for value in (each.partition or {}).values())
    return each.warehouse, each.table, kind, values, -1 if each.bucket is None else each.bucket


def _name(each: Candidate) -> tuple[str, str, str]:
    return each.warehouse, each.table, each.name
