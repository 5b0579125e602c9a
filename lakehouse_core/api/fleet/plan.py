"""Maintenance plan: the operations on which a budget is spent, and those that are refused, each with its sentence.

Rule: the plan is a value; its JSON holds all of it, so that one process may plan and another carry the plan out.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from typing import Annotated, Any, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from lakehouse_core.display import count_text, size_text
from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.planning.fleet.candidates import Candidate, verb_text
from lakehouse_core.planning.fleet.cost import NOTHING, RATES, Budget, Cost, Rates
from lakehouse_core.planning.fleet.operations import Operation

# In plans that users store. Raise it when a field is added or removed, or gets another meaning.
_VERSION: Final = 4
# A text with a value of another type, an unknown field or a missing one is no plan.
_STRICT: Final = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

_Count: TypeAlias = Annotated[int, Field(ge=0, lt=1 << 63)]
_Seconds: TypeAlias = Annotated[float, Field(ge=0)]


class _Versioned(BaseModel):
    """The part of a plan's text that every version has."""

    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceChoice:
    """An operation to carry out: on a table, or on the partition `partition` of it (None: the whole table), of which it
    takes one `bucket` (None: all).

    `bytes` are rewritten; `seconds` are estimated from bytes and requests. `saved_seconds` are those of reading that
    the operation saves each day, with what freed bytes are worth. The other figures are the difference that it makes to
    one read. `incarnation` is the creation time of the table, `snapshot_id` its latest snapshot when it was surveyed.
    """

    __pydantic_config__ = _STRICT

    warehouse: str
    table: str
    operation: Operation
    partition: Mapping[str, str | None] | None
    incarnation: int
    snapshot_id: int | None
    bytes: _Count
    requests: _Count
    seconds: _Seconds
    saved_seconds: _Seconds
    files_saved: int
    runs_saved: int
    bytes_freed: int
    reason: str
    urgent: str | None = None
    bucket: _Count | None = None

    @property
    def name(self) -> str:
        """The operation and its partition, as in `compact --full dt=2013-01-05`."""
        return verb_text(self.operation, self.partition, self.bucket)

    @property
    def cost(self) -> Cost:
        """What the operation takes."""
        return Cost(bytes=self.bytes, requests=self.requests, seconds=self.seconds)

    def __str__(self) -> str:
        return f"{self.table}: {self.name}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceRefusal:
    """An operation that is not carried out, and why; `operation` None: any operation on the table.

    `saved_seconds` are those of reading that it would save each day, 0 if it is not possible. `urgent` says why it
    should not wait. `partitions`: how many of the table, or how many single buckets, are refused with it, beyond those
    that are named; then `partition` and `bucket` are None.
    """

    __pydantic_config__ = _STRICT

    warehouse: str
    table: str
    operation: Operation | None
    partition: Mapping[str, str | None] | None
    saved_seconds: _Seconds
    reason: str
    urgent: str | None = None
    partitions: _Count = 0
    bucket: _Count | None = None

    @property
    def name(self) -> str:
        """The operation and its partition; `any operation` if none is possible."""
        return "any operation" if self.operation is None else verb_text(self.operation, self.partition, self.bucket)

    def __str__(self) -> str:
        return f"{self.table}: {self.reason}" if self.operation is None else f"{self.table}: {self.name}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenancePlan:
    """How a budget is spent on the tables of a warehouse, or of several.

    `choices` are in the order of their execution, `refusals` begin with the tables that cannot be read, then the
    most valuable. `reserve`: of the refused operations, those that a run carries out with what the choices leave of the
    budget. `tables`, `files` and `bytes` count what the pass found. `rates` are those of its estimates, `time_millis`
    is its time, `version` that of its JSON.
    """

    __pydantic_config__ = _STRICT

    warehouses: tuple[str, ...]
    budget: Budget
    time_millis: int
    tables: _Count
    files: _Count
    bytes: _Count
    duration_seconds: _Seconds
    choices: tuple[MaintenanceChoice, ...]
    refusals: tuple[MaintenanceRefusal, ...]
    reserve: tuple[MaintenanceChoice, ...] = ()
    rates: Rates = RATES
    version: int = _VERSION

    @property
    def cost(self) -> Cost:
        """What all choices take together; within the budget."""
        return sum((choice.cost for choice in self.choices), NOTHING)

    @property
    def unreadable(self) -> tuple[MaintenanceRefusal, ...]:
        """The tables of which nothing could be planned, because they cannot be read."""
        return tuple(refusal for refusal in self.refusals if refusal.operation is None)

    @property
    def urgent_refusals(self) -> tuple[MaintenanceRefusal, ...]:
        """What should not wait, and has no choice because the budget is too small."""
        helped = {(choice.warehouse, choice.table, str(choice.partition)) for choice in self.choices}
        return tuple(
            each
            for each in self.refusals
            if each.urgent is not None and (each.warehouse, each.table, str(each.partition)) not in helped
        )

    def after(self, warehouse: str, cost: Cost) -> "MaintenancePlan":
        """Return what is left of the plan, and of its budget, after a run in one of its warehouses that took `cost`."""
        choices = tuple(choice for choice in self.choices if choice.warehouse != warehouse)
        return replace(self, budget=self.budget.without(cost), choices=choices)

    @property
    def saved_seconds(self) -> float:
        """The seconds of reading that the choices save each day."""
        return sum(choice.saved_seconds for choice in self.choices)

    def __str__(self) -> str:
        unread = f"; {count_text(len(self.unreadable), 'table')} cannot be read" if self.unreadable else ""
        return (
            f"{count_text(len(self.choices), 'operation')} on {count_text(self.tables, 'table')} with "
            f"{count_text(self.files, 'file')}, {size_text(self.bytes)}: {self.cost} of the budget of {self.budget}; "
            f"saves {self.saved_seconds:.3g} s of reading a day; {len(self.refusals):,} refused{unread}"
        )

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return {
            **{each.name: getattr(self, each.name) for each in fields(self)},
            "warehouses": list(self.warehouses),
            "budget": asdict(self.budget),
            "rates": asdict(self.rates),
            "choices": [_plain(choice) for choice in self.choices],
            "refusals": [_plain(refusal) for refusal in self.refusals],
            "reserve": [_plain(choice) for choice in self.reserve],
        }

    def to_json(self) -> str:
        """Return the plan as one JSON object."""
        return json.dumps(self.to_dict(), ensure_ascii=False, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> "MaintenancePlan":
        """Return the plan that `to_json` gave.

        Raises InvalidRequest for a text of another version, with an unknown field, or with a value out of range.
        """
        try:
            version = _Versioned.model_validate_json(text).version
            if version != _VERSION:
                raise InvalidRequest(f"The plan has version {version}: expected {_VERSION}. Plan again.")
            return _plans().validate_json(text)
        except ValidationError as error:
            raise InvalidRequest(
                f"{shown(text)}: expected a plan as to_json returns it ({_first_problem(error)}). Plan again."
            ) from error


def choice_of(candidate: Candidate, incarnation: int, snapshot_id: int | None) -> MaintenanceChoice:
    """Return a chosen candidate as users see it. The figures of its table are those of the survey."""
    effect, cost = candidate.effect, candidate.cost
    urgent = "" if candidate.urgent is None else f"urgent: {candidate.urgent}; "
    return MaintenanceChoice(
        warehouse=candidate.warehouse,
        table=candidate.table,
        operation=candidate.operation,
        partition=candidate.partition,
        bucket=candidate.bucket,
        incarnation=incarnation,
        snapshot_id=snapshot_id,
        bytes=cost.bytes,
        requests=cost.requests,
        seconds=round(cost.seconds, 6),
        saved_seconds=round(candidate.saved_seconds, 6),
        files_saved=effect.files,
        runs_saved=effect.runs,
        bytes_freed=effect.freed_bytes,
        reason=(
            f"{urgent}{candidate.sentence}; {cost} for {candidate.saved_seconds:.3g} s saved a day"
            f"{candidate.in_reads}, which {_pays(candidate)}"
        ),
        urgent=candidate.urgent,
    )


def _pays(candidate: Candidate) -> str:
    days = candidate.days_to_pay
    return "never pays" if days == float("inf") else f"pays after {days:.2g} days"


def _plain(value: MaintenanceChoice | MaintenanceRefusal) -> dict[str, Any]:
    found = {each.name: getattr(value, each.name) for each in fields(value)}
    return {**found, "partition": None if value.partition is None else dict(value.partition)}


@cache
def _plans() -> TypeAdapter[MaintenancePlan]:
    # Made when a plan is read: it takes longer than the import of this module.
    return TypeAdapter(MaintenancePlan)


def _first_problem(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}: {first['msg']}" if place else first["msg"]
