"""Strict models, which refuse unknown names, and the error of attributes that do not fit each other."""

from pydantic import BaseModel, ConfigDict


class Misfit(ValueError):
    """Attributes that do not fit each other. `place` leads to the one to correct."""

    def __init__(self, place: tuple[str, ...], message: str) -> None:
        super().__init__(message)
        self.place = place


class StrictModel(BaseModel):
    """A part of a specification: it is not changed, and refuses names that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")
