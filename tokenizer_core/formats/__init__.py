"""Foreign and own file formats of tokenizers: one file per format, no format knows another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from . import bpeline as bpeline
    from . import gguf as gguf
    from . import sentencepiece as sentencepiece
    from . import tiktoken as tiktoken
    from .bpeline import GOLDEN_TEXTS as GOLDEN_TEXTS
    from .bpeline import read_manifest as read_manifest
    from .known import differences_of as differences_of
    from .known import format_named as format_named
    from .known import format_of as format_of
    from .printable import printable_tokens as printable_tokens
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
