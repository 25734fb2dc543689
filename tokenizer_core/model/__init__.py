"""What a tokenizer is: its vocab, its merges, the rules both keep to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .merge_list import MergeIds as MergeIds
    from .merge_list import MergeList as MergeList
    from .merge_list import find_merges as find_merges
    from .pruning import PrunePlan as PrunePlan
    from .pruning import check_on as check_on
    from .pruning import plan_pruning as plan_pruning
    from .pruning import require_something as require_something
    from .reachability import tokens_not_made_by_merges as tokens_not_made_by_merges
    from .reachability import unreachable_tokens as unreachable_tokens
    from .smaller_sizes import of_size as of_size
    from .special_tokens import SpecialTokenMatcher as SpecialTokenMatcher
    from .special_tokens import find_special_tokens as find_special_tokens
    from .special_tokens import validate_special_tokens as validate_special_tokens
    from .tokenizer_model import TokenizerModel as TokenizerModel
    from .vocab_rules import MAX_ID as MAX_ID
    from .vocab_rules import MAX_TOKEN_BYTES as MAX_TOKEN_BYTES
    from .vocab_rules import check_tokens as check_tokens
    from .vocab_rules import merge_ids as merge_ids
    from .vocab_rules import refuse_wrong_ids as refuse_wrong_ids
    from .vocab_rules import shown as shown
    from .vocabulary import SpecialIds as SpecialIds
    from .vocabulary import byte_order as byte_order
    from .vocabulary import from_printable as from_printable
    from .vocabulary import printable_bytes as printable_bytes
    from .vocabulary import to_printable as to_printable
    from .vocabulary import token_bytes as token_bytes
    from .vocabulary import validate_tie_break as validate_tie_break
    from .vocabulary import vocab_from_merges as vocab_from_merges
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
