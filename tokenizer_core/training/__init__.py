"""Byte-level BPE trained and extended: word counts in, a tokenizer out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from . import bpe as bpe
    from .bpe import given_for as given_for
    from .bpe import learn_merges as learn_merges
    from .bpe import merges_for as merges_for
    from .bpe import settings_digest as settings_digest
    from .bpe import train_bpe as train_bpe
    from .extension import ExtensionCertificate as ExtensionCertificate
    from .extension import certify_extension as certify_extension
    from .extension import extended as extended
    from .extension import merges_to_continue as merges_to_continue
    from .required_tokens import merged as merged
    from .required_tokens import required_merges as required_merges
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
