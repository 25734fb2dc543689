"""Which tokens no text or no word leads to; one native pass over the whole vocab."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.encoding.encoder import Encoder
from bpeline.tokenizer_core.encoding.merge_encoding import spans_of_lengths
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.vocabulary import TokenIds


def unreachable_tokens(encoder: Encoder, ids: Mapping[bytes, int]) -> dict[bytes, int]:
    """Tokens v with encode(decode(v)) ≠ [v], split pattern included, with their ids.

    Tokens that are not UTF-8 on their own (parts of characters) are no text and left out.
    """
    texts = {token: id_ for token, id_ in ids.items() if _is_utf8(token)}
    spans = spans_of_lengths(list(texts))
    behind = np.full(len(spans), -1, np.int64)
    encoded, ends = encoder.encode(Text.of(b"".join(texts)), spans, behind)
    return _not_themselves(list(texts), np.array([*texts.values()], np.int64), encoded, ends)


def _is_utf8(token: bytes) -> bool:
    try:
        token.decode()
    except UnicodeDecodeError:
        return False
    return True


def tokens_not_made_by_merges(encoder: Encoder, ids: Mapping[bytes, int]) -> dict[bytes, int]:
    """Tokens that, taken as one pre-token, are not encoded as themselves, with their ids."""
    if isinstance(ids, TokenIds):
        tokens, numbers = ids.listed()
    else:
        tokens, numbers = list(ids), np.array([*ids.values()], np.int64)
    return _not_themselves(tokens, numbers, *encoder.encode_words(tokens))


def _not_themselves(
    tokens: list[bytes],
    ids: NDArray[np.int64],
    encoded: NDArray[np.uint32],
    ends: NDArray[np.int64],
) -> dict[bytes, int]:
    lengths = np.diff(ends, prepend=0)
    themselves = lengths == 1
    themselves[themselves] = encoded[ends[themselves] - 1] == ids[themselves]
    others = np.flatnonzero(~themselves).tolist()
    return {tokens[index]: int(ids[index]) for index in others}
