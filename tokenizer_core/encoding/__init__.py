"""Text to ids and back, for texts of every length, in many threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .batch_encoding import encode_batch as encode_batch
    from .batch_encoding import encode_contents as encode_contents
    from .batch_encoding import in_batches as in_batches
    from .decoding import Decoder as Decoder
    from .decoding import DecodeStream as DecodeStream
    from .decoding import OnInvalid as OnInvalid
    from .decoding import check_errors as check_errors
    from .decoding import list_of as list_of
    from .decoding import refuse_other_arrays as refuse_other_arrays
    from .encoder import Encoder as Encoder
    from .encoding_memory import WordTable as WordTable
    from .explanation import ExplainedPreToken as ExplainedPreToken
    from .explanation import MergeTree as MergeTree
    from .merge_encoding import DEFAULT_CACHE_WORDS as DEFAULT_CACHE_WORDS
    from .merge_encoding import BytePairEncoder as BytePairEncoder
    from .merge_encoding import derive_merges as derive_merges
    from .merge_encoding import spans_of_lengths as spans_of_lengths
    from .padding import Side as Side
    from .padding import pad as pad
    from .restricted_encoding import RestrictedEncoding as RestrictedEncoding
    from .restricted_encoding import token_counts as token_counts
    from .short_texts import SHORT_TEXT as SHORT_TEXT
    from .special_policy import SpecialPolicy as SpecialPolicy
    from .text_encoding import AllowedSpecial as AllowedSpecial
    from .text_encoding import OnSpecial as OnSpecial
    from .text_encoding import TextEncoding as TextEncoding
    from .text_input import refuse_invalid_utf8 as refuse_invalid_utf8
    from .text_input import utf8_of as utf8_of
    from .text_stream import cut_stream as cut_stream
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
