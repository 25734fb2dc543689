"""Arguments of public functions, checked against the types that these declare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .checking import Check as Check
    from .checking import check_fields as check_fields
    from .checking import checked as checked
    from .checking import flag as flag
    from .checking import require_options_of as require_options_of
    from .checking import row_number as row_number
    from .checking import whole_number as whole_number
    from .kinds import MeasuredNumber as MeasuredNumber
    from .kinds import TextWithNames as TextWithNames
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
