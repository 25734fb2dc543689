"""File formats of tokenizers, one module each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from . import bpeline as bpeline
    from . import gguf as gguf
    from . import tiktoken as tiktoken
    from .bpeline import GOLDEN_TEXTS as GOLDEN_TEXTS
    from .bpeline import read_manifest as read_manifest
    from .gguf_file import GgufVocabulary as GgufVocabulary
    from .gguf_file import read_metadata as read_metadata
    from .huggingface import spec_of as spec_of
    from .json_tokens import add_names as add_names
    from .json_tokens import json_text as json_text
    from .json_tokens import nothing_left_out as nothing_left_out
    from .json_tokens import number_as_serde as number_as_serde
    from .json_tokens import pattern_left_out as pattern_left_out
    from .json_tokens import plain_bytes as plain_bytes
    from .json_tokens import printable_tokens as printable_tokens
    from .json_tokens import read_plain_merges as read_plain_merges
    from .json_tokens import read_plain_vocab as read_plain_vocab
    from .json_tokens import refuse_other_algorithms as refuse_other_algorithms
    from .json_tokens import refuse_tokens_beside as refuse_tokens_beside
    from .json_tokens import vocab_json_of_text as vocab_json_of_text
    from .known import DECLARED as DECLARED
    from .known import FORMATS_WITH_ROLES as FORMATS_WITH_ROLES
    from .known import declared_roles as declared_roles
    from .known import details_of as details_of
    from .known import differences_of as differences_of
    from .known import forgotten_by as forgotten_by
    from .known import format_named as format_named
    from .known import format_of as format_of
    from .known import roles_of as roles_of
    from .known import save_with_roles as save_with_roles
    from .known import undeclared_roles as undeclared_roles
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
