"""Encoding of text to ids and decoding, for texts of any length, in many threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .batch_encoding import EncodingWithOffsets as EncodingWithOffsets
    from .batch_encoding import Side as Side
    from .batch_encoding import beginning_of as beginning_of
    from .batch_encoding import cut_stream as cut_stream
    from .batch_encoding import encode_batch as encode_batch
    from .batch_encoding import encode_contents as encode_contents
    from .batch_encoding import encode_long as encode_long
    from .batch_encoding import encoding_with_offsets as encoding_with_offsets
    from .batch_encoding import in_batches as in_batches
    from .batch_encoding import longest_prefix as longest_prefix
    from .batch_encoding import pad as pad
    from .batch_encoding import refuse_one_text as refuse_one_text
    from .chosen_encoder import AbsentBytesEncoder as AbsentBytesEncoder
    from .chosen_encoder import DropoutEncoder as DropoutEncoder
    from .chosen_encoder import Places as Places
    from .chosen_encoder import SuperwordEncoder as SuperwordEncoder
    from .chosen_encoder import byte_pair_encoder as byte_pair_encoder
    from .chosen_encoder import require_dropout as require_dropout
    from .chosen_encoder import require_natural as require_natural
    from .decoding import Decoder as Decoder
    from .decoding import DecodeStream as DecodeStream
    from .decoding import OnInvalid as OnInvalid
    from .decoding import StepDecoder as StepDecoder
    from .decoding import check_errors as check_errors
    from .decoding import list_of as list_of
    from .decoding import refuse_other_arrays as refuse_other_arrays
    from .encoder import Encoder as Encoder
    from .encoder import PlacedIds as PlacedIds
    from .encoder import PlacingEncoder as PlacingEncoder
    from .encoder import TokenizerParts as TokenizerParts
    from .encoding_memory import SHORT_TEXT as SHORT_TEXT
    from .encoding_memory import WordCache as WordCache
    from .explanation import ExplainedPreToken as ExplainedPreToken
    from .explanation import Explainer as Explainer
    from .explanation import MergeTree as MergeTree
    from .explanation import tokens_not_made_by_merges as tokens_not_made_by_merges
    from .explanation import unreachable_tokens as unreachable_tokens
    from .merge_encoding import DEFAULT_CACHE_WORDS as DEFAULT_CACHE_WORDS
    from .merge_encoding import MAX_CACHE_WORDS as MAX_CACHE_WORDS
    from .merge_encoding import BytePairEncoder as BytePairEncoder
    from .merge_encoding import derive_merges as derive_merges
    from .merge_encoding import spans_of_lengths as spans_of_lengths
    from .merge_encoding import trie_of_tokens as trie_of_tokens
    from .prepared_encoding import PreparedEncoder as PreparedEncoder
    from .prepared_encoding import encoder_finding as encoder_finding
    from .prepared_encoding import refuse_places as refuse_places
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
