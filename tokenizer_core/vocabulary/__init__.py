"""Vocabs, merges, special tokens, and their validation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .numbering import SpecialIds as SpecialIds
    from .numbering import byte_order as byte_order
    from .numbering import from_printable as from_printable
    from .numbering import printable_bytes as printable_bytes
    from .numbering import to_printable as to_printable
    from .numbering import token_bytes as token_bytes
    from .numbering import validate_tie_break as validate_tie_break
    from .numbering import vocab_from_merges as vocab_from_merges
    from .personal_data import KINDS as KINDS
    from .personal_data import MEANINGS as MEANINGS
    from .personal_data import Kind as Kind
    from .personal_data import Suspicion as Suspicion
    from .personal_data import looks_like as looks_like
    from .personal_data import suspicious_tokens as suspicious_tokens
    from .special_tokens import SpecialPolicies as SpecialPolicies
    from .special_tokens import SpecialPolicy as SpecialPolicy
    from .special_tokens import SpecialTokenMatcher as SpecialTokenMatcher
    from .special_tokens import find_special_tokens as find_special_tokens
    from .special_tokens import refuse_clashes as refuse_clashes
    from .special_tokens import spans_between as spans_between
    from .special_tokens import validate_special_tokens as validate_special_tokens
    from .token_table import MAX_ID as MAX_ID
    from .token_table import MAX_TOKEN_BYTES as MAX_TOKEN_BYTES
    from .token_table import Merge as Merge
    from .token_table import MergeIds as MergeIds
    from .token_table import MergeList as MergeList
    from .token_table import TokenIds as TokenIds
    from .token_table import TokenTable as TokenTable
    from .token_table import find_merges as find_merges
    from .vocab_rules import CheckedVocab as CheckedVocab
    from .vocab_rules import check_table as check_table
    from .vocab_rules import check_tokens as check_tokens
    from .vocab_rules import check_vocab as check_vocab
    from .vocab_rules import merge_ids as merge_ids
    from .vocab_rules import refuse_wrong_ids as refuse_wrong_ids
    from .vocab_rules import shown as shown
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
