"""Known options: every table option of Paimon 1.x and 2.x, with its kind of value, default and treatment.

Rule: no option is accepted and then ignored. An option that is neither honoured nor harmless is refused when a table
with it is created or written. Source: docs/semantics/options.md#treatment; the option classes of Java 2.0.0.
"""

from lakehouse_core.options.known.option_key import OptionKey, Treatment
from lakehouse_core.options.known.registry import KNOWN

__all__ = ["KNOWN", "OptionKey", "Treatment"]
