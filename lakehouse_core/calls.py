"""Calls: refuse a call of a public name whose arguments do not fit its signature, and name the argument that was meant.

Rule: the signature is the only place that says what a verb takes, and it stays as it is typed.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import Parameter, Signature
from typing import Any, Final, TypeVar

from lakehouse_core.display import count_text
from lakehouse_core.errors import InvalidRequest, near_hint, shown

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])

# The names of arguments, and what other libraries and SQL call them.
_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    here: tuple(others.split())
    for here, others in {
        "where": "filter filters condition predicate row_filter",
        "columns": "select projection fields usecols",
        "limit": "nrows head",
        "after": "since start from_snapshot starting_version",
        "until": "to end to_snapshot ending_version",
        "data": "df frame rows table",
        "assignments": "set values updates",
        "keys": "key ids",
        "schema": "columns fields",
        "primary_keys": "pk",
        "partition_keys": "partitioned_by",
        "options": "table_options tblproperties",
        "exist_ok": "if_not_exists ignore_if_exists",
        "missing_ok": "if_exists ignore_if_not_exists",
        "full": "type strategy compact_strategy",
        "retain_max": "keep max_snapshots",
        "older_than": "age max_age days",
        "spark": "session spark_session",
        "session": "spark",
        "storage": "storage_options",
        "warehouse": "path uri root",
        # Of values that verbs take.
        "delimiter": "sep separator",
        "null": "na_values null_value",
        "type": "typ data_type dtype",
        "update": "set values",
        "insert": "set values",
        "time": "timestamp",
        "id": "snapshot snapshot_id",
        "seconds": "minutes hours time",
    }.items()
}
# Other names of a state of the table, and how it is given.
_STATES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("snapshot", "snapshot_id", "version"), "at=lc.AtSnapshot(1)"),
    **dict.fromkeys(("tag", "tag_name"), "at=lc.AtTag('eod')"),
    **dict.fromkeys(("timestamp", "as_of", "time", "date"), "at=lc.AsOf('2013-01-31')"),
}
# What another verb does.
_VERBS: Final[Mapping[tuple[str, str], str]] = {
    ("write", "mode"): "write adds rows, and replaces those of the same primary key; for other rows call overwrite.",
    ("write", "partition"): "Rows name their partition by themselves; to replace a partition call overwrite.",
}


def checks_calls(cls: C) -> C:
    """Make each verb of the class raise InvalidRequest for arguments that it does not take."""
    for name, verb in list(vars(cls).items()):
        if not name.startswith("_") and inspect.isfunction(verb):
            setattr(cls, name, checks_call(verb))
    return cls


def checks_arguments(cls: C) -> C:
    """Make a call of the class raise InvalidRequest for arguments that it does not take."""
    made: Any = cls
    made.__init__ = checks_call(made.__init__, cls.__name__)
    return cls


def checks_call(verb: F, name: str | None = None) -> F:
    """Make a verb raise InvalidRequest for arguments that it does not take, and for a flag that is neither True nor
    False: the text "no" would count as true. `name`: that of a class, of which `verb` is the constructor.
    """
    signature = inspect.signature(verb)
    kinds = {} if name else {each.name: each.annotation for each in signature.parameters.values()}
    flags = {flag: kind for flag, kind in kinds.items() if kind in (bool, bool | None)}

    @wraps(verb)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            signature.bind(*args, **kwargs)
        except TypeError:
            if "self" in signature.parameters and not args:
                # A verb of the class itself, without an object: what it lacks is none of its arguments.
                raise
            where = "" if name else _where(signature, args)
            raise InvalidRequest(where + _refusal(name or verb.__name__, signature, args, kwargs)) from None
        for flag, kind in flags.items():
            if not isinstance(value := kwargs.get(flag, False), kind):
                where = _where(signature, args)
                raise InvalidRequest(f"{where}{verb.__name__}({flag}={shown(value)}): expected True or False.")
        return verb(*args, **kwargs)

    return call  # type: ignore[return-value]  # `wraps` gives it the signature of the verb.


def _refusal(verb: str, signature: Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Return the message for arguments that do not fit."""
    parameters = [each for each in signature.parameters.values() if each.name != "self"]
    places = [each.name for each in parameters if each.kind is Parameter.POSITIONAL_OR_KEYWORD]
    names = [each.name for each in parameters if each.kind is not Parameter.VAR_POSITIONAL]
    given = args[len(signature.parameters) - len(parameters) :]
    for name in kwargs:
        if name not in names:
            return f"{verb}: there is no argument {shown(name)}. {_advice(verb, name, names)}"
    if len(given) > len(places) and len(parameters) == len(names):
        # Of values nothing is told: they may be passwords, or many rows.
        free = [name for name in names if name not in places and name not in kwargs]
        found = count_text(len(given), "argument")
        told = f"{verb}: found {found} without a name, expected {len(places)} at most."
        if len(free) < 2:
            return f"{told} {f'Write {verb}({free[0]}=…)' if free else 'Leave it out'}."
        return f"{told} Write their names: {'=…, '.join(free[:-1])}=… or {free[-1]}=…."
    if twice := [name for name in places[: len(given)] if name in kwargs]:
        return f"{verb}: the argument {twice[0]} is given twice, by its place and by its name. Leave one of them out."
    needed = [each.name for each in parameters if each.default is Parameter.empty and each.name in names]
    missing = [name for name in needed if name not in kwargs and name not in places[: len(given)]]
    are = "is" if len(missing) == 1 else "are"
    return f"{verb}: {' and '.join(missing)} {are} missing. Write {verb}({'=…, '.join(missing)}=…)."


def _where(signature: Signature, args: Sequence[Any]) -> str:
    """Return the beginning of a message about a call: the table of the verb, or the class that has it."""
    if "self" not in signature.parameters or not args:
        return ""
    return f"{getattr(args[0], 'name', type(args[0]).__name__)}: "


def _advice(verb: str, name: str, names: Sequence[str]) -> str:
    """Return what to write instead of an argument that the verb lacks."""
    if (verb, name) in _VERBS:
        return _VERBS[verb, name]
    if name in _STATES and "at" in names:
        return f"Write {_STATES[name]}."
    if (meant := next((each for each in names if name in _NAMES.get(each, ())), None)) is not None:
        return f"Did you mean {meant}?"
    return near_hint(name, names, f"It has {', '.join(names)}." if names else "It has none: leave it out.", cutoff=0.6)
