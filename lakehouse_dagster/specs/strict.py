"""Strict models, which refuse unknown names, and the error of attributes that do not fit each other."""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict


class Misfit(ValueError):
    """Attributes that do not fit each other. `place` leads to the one to correct."""

    def __init__(self, place: tuple[str, ...], message: str) -> None:
        super().__init__(message)
        self.place = place


class SeveralMisfits(ValueError):
    """Several faults of a model whose attributes are right by themselves."""

    def __init__(self, model: BaseModel, faults: Sequence[Misfit]) -> None:
        super().__init__(". ".join(map(str, faults)))
        self.model, self.faults = model, faults


class StrictModel(BaseModel):
    """A part of a specification: it is not changed, and refuses names that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")
