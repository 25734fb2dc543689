"""Training and extension of byte-level BPE: word counts in, a tokenizer out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from . import bpe as bpe
    from .bpe import given_for as given_for
    from .bpe import learn_merges as learn_merges
    from .bpe import merged as merged
    from .bpe import merges_for as merges_for
    from .bpe import refuse_special_tokens_in_words as refuse_special_tokens_in_words
    from .bpe import settings_digest as settings_digest
    from .bpe import train_bpe as train_bpe
    from .bpe import train_from_iterator as train_from_iterator
    from .extension import Cuts as Cuts
    from .extension import ExtensionCertificate as ExtensionCertificate
    from .extension import certify_extension as certify_extension
    from .extension import extended as extended
    from .extension import merges_to_continue as merges_to_continue
    from .extension import superword_lines as superword_lines
    from .extension import train_superbpe as train_superbpe
    from .parity import learn_parity_merges as learn_parity_merges
    from .parity import parity_digest as parity_digest
    from .parity import train_parity_bpe as train_parity_bpe
    from .token_rules import CHARACTERS as CHARACTERS
    from .token_rules import FORBIDDEN_LOOKS as FORBIDDEN_LOOKS
    from .token_rules import NO_RULES as NO_RULES
    from .token_rules import Characters as Characters
    from .token_rules import TokenRules as TokenRules
    from .token_rules import read_token_list as read_token_list
    from .token_rules import spelling_of as spelling_of
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
