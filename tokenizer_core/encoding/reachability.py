"""Which tokens no text or no word leads to; one native pass over the whole vocab."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bpeline.tokenizer_core.encoding.encoder import Encoder
from bpeline.tokenizer_core.encoding.merge_encoding import not_themselves, spans_of_lengths
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
