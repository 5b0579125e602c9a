"""Every table option that Paimon 1.x and 2.x know: its kind of value, its default, and what we do about it.

One rule: nothing is accepted and then ignored. An option that is neither carried out nor harmless is refused wherever a
table with it is created or written.
Source: docs/semantics/options.md#treatment; the option classes of Java 2.0.0.
"""

from lakehouse_core.options.known.option_key import OptionKey, Treatment
from lakehouse_core.options.known.registry import KNOWN

__all__ = ["KNOWN", "OptionKey", "Treatment"]
