"""Registry: all options by name, with their treatment."""

from collections.abc import Mapping
from typing import Final

from lakehouse_core.options.known.harmless import HARMLESS
from lakehouse_core.options.known.honoured import HONOURED
from lakehouse_core.options.known.left_to_others import LEFT_TO_OTHERS
from lakehouse_core.options.known.maintenance_only import MAINTENANCE_ONLY
from lakehouse_core.options.known.option_key import OptionKey, Treatment, option_keys
from lakehouse_core.options.known.refused import REFUSED

KNOWN: Final[Mapping[str, OptionKey]] = {
    **option_keys(Treatment.HONOURED, HONOURED),
    **option_keys(Treatment.LEFT_TO_OTHERS, LEFT_TO_OTHERS),
    **option_keys(Treatment.MAINTENANCE_ONLY, MAINTENANCE_ONLY),
    **option_keys(Treatment.REFUSED, REFUSED),
    **option_keys(Treatment.HARMLESS, HARMLESS),
}
