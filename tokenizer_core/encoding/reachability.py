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
    tokens, numbers = list(texts), np.array([*texts.values()], np.int64)
    return {tokens[index]: int(numbers[index]) for index in _others(numbers, encoded, ends)}


def _is_utf8(token: bytes) -> bool:
    try:
        token.decode()
    except UnicodeDecodeError:
        return False
    return True


def tokens_not_made_by_merges(encoder: Encoder, ids: Mapping[bytes, int]) -> dict[bytes, int]:
    """Tokens that, taken as one pre-token, are not encoded as themselves, with their ids."""
    if isinstance(ids, TokenIds):
        table = ids.table
        numbers = table.ids
        others = _others(numbers, *encoder.encode_rows(table.words, np.append(0, table.ends)))
        tokens = dict(zip(others, table.tokens_of(numbers[others]), strict=True))
        others = [index for index in others if int(numbers[index]) not in ids.hidden]
    else:
        tokens, numbers = dict(enumerate(ids)), np.array([*ids.values()], np.int64)
        others = _others(numbers, *encoder.encode_words(list(ids)))
    return {tokens[index]: int(numbers[index]) for index in others}


def _others(
    ids: NDArray[np.int64], encoded: NDArray[np.uint32], ends: NDArray[np.int64]
) -> list[int]:
    """Indices of the texts that are not encoded as the one id."""
    themselves = np.diff(ends, prepend=0) == 1
    themselves[themselves] = encoded[ends[themselves] - 1] == ids[themselves]
    return np.flatnonzero(~themselves).tolist()
