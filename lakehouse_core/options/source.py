"""Option source: the string map of a table's options, read under their current names, by kind, with their defaults."""

from collections.abc import Mapping

from lakehouse_core.options.keys import under_current_names
from lakehouse_core.options.known import KNOWN
from lakehouse_core.options.units import (
    parse_bool,
    parse_duration,
    parse_float,
    parse_int,
    parse_levels,
    parse_names,
    parse_size,
    parse_word,
)


class Source:
    """Options under their current names, read by kind, defaults filled in."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.values = under_current_names(options)

    def text(self, key: str) -> str | None:
        return self.values.get(key, KNOWN[key].default)

    def required(self, key: str) -> str:
        text = self.text(key)
        assert text is not None, key
        return text

    def names(self, key: str) -> tuple[str, ...]:
        return parse_names(self.text(key) or "")

    def word(self, key: str) -> str:
        kind = KNOWN[key].kind
        assert isinstance(kind, tuple)
        return parse_word(key, self.required(key), kind)

    def flag(self, key: str) -> bool:
        return parse_bool(key, self.required(key))

    def whole(self, key: str) -> int:
        return parse_int(key, self.required(key))

    def levels(self, key: str) -> dict[int, str]:
        return parse_levels(key, self.required(key))

    def fraction(self, key: str) -> float:
        return parse_float(key, self.required(key))

    def size(self, key: str) -> int:
        return parse_size(key, self.required(key))

    def millis(self, key: str) -> int:
        return parse_duration(key, self.required(key))

    def size_if_set(self, key: str) -> int | None:
        return self.size(key) if self.has(key) else None

    def whole_if_set(self, key: str) -> int | None:
        return self.whole(key) if self.has(key) else None

    def millis_if_set(self, key: str) -> int | None:
        return self.millis(key) if self.has(key) else None

    def has(self, key: str) -> bool:
        return self.text(key) is not None

    def is_set(self, key: str) -> bool:
        """Return whether the table sets the option; a default does not count."""
        return key in self.values
