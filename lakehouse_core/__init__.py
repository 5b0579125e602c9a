"""A lakehouse in the Apache Paimon format: `connect` opens a warehouse, everything else follows from there.

The names of `lakehouse_core.front_door` are public and stay; they are loaded when the first of them is used.
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING

# The one place: the distribution takes its version from here.
__version__ = "0.1.0"

# Silent unless the program that imports it says where to log.
logging.getLogger(__name__).addHandler(logging.NullHandler())

if TYPE_CHECKING:
    from lakehouse_core import front_door
    from lakehouse_core.front_door import *  # noqa: F403

    __all__ = front_door.__all__
else:

    def __getattr__(name: str) -> object:
        front_door = import_module(f"{__name__}.front_door")
        if name != "__all__" and name not in front_door.__all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(front_door, name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *import_module(f"{__name__}.front_door").__all__})
