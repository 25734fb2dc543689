"""Which tokens no text or no word leads to; one native pass over the whole vocab."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np

from bpeline.tokenizer_core.encoding.encoder import Encoder
from bpeline.tokenizer_core.encoding.merge_encoding import spans_of_lengths
from bpeline.tokenizer_core.text import Text


def unreachable_tokens(encoder: Encoder, ids: Mapping[bytes, int]) -> dict[bytes, int]:
    """Tokens v with encode(decode(v)) ≠ [v], split pattern included, with their ids.

    Tokens that are not UTF-8 on their own (parts of characters) are no text and left out.
    """
    texts = {token: id_ for token, id_ in ids.items() if _is_utf8(token)}
    spans = spans_of_lengths(list(texts))
    behind = np.full(len(spans), -1, np.int64)
    encoded, ends = encoder.encode(Text.of(b"".join(texts)), spans, behind)
    return dict(not_themselves(texts, encoded.tolist(), ends.tolist()))


def _is_utf8(token: bytes) -> bool:
    try:
        token.decode()
    except UnicodeDecodeError:
        return False
    return True


def tokens_not_made_by_merges(
    encoder: Encoder, ids: Mapping[bytes, int]
) -> Iterator[tuple[bytes, int]]:
    """Tokens that, taken as one pre-token, are not encoded as themselves, with their ids."""
    encoded, ends = encoder.encode_words(list(ids))
    yield from not_themselves(ids, encoded.tolist(), ends.tolist())


def not_themselves(
    ids: Mapping[bytes, int], encoded: list[int], ends: list[int]
) -> Iterator[tuple[bytes, int]]:
    for (token, id_), (begin, end) in zip(ids.items(), pairwise([0, *ends]), strict=True):
        if end - begin != 1 or encoded[begin] != id_:
            yield token, id_
