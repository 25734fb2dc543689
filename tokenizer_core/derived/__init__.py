"""What is made of a trained tokenizer: smaller sizes, pruned vocabs, slots for
special tokens to come, encoding with fewer tokens or with dropout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .dropout_encoding import DropoutEncoding as DropoutEncoding
    from .pruning import PrunePlan as PrunePlan
    from .pruning import check_on as check_on
    from .pruning import plan_pruning as plan_pruning
    from .pruning import require_something as require_something
    from .reserved_slots import is_slot as is_slot
    from .reserved_slots import rename_special_tokens as rename_special_tokens
    from .reserved_slots import slots_of as slots_of
    from .reserved_slots import with_reserved_slots as with_reserved_slots
    from .restricted_encoding import RestrictedEncoding as RestrictedEncoding
    from .smaller_sizes import of_size as of_size
    from .token_occurrences import token_counts as token_counts
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
