"""Texts encoded with dropout, so that each has many encodings, for models that are trained on them.

A model that has seen a word in several encodings learns what its tokens are made of. Texts that a
model is asked are encoded without. Knows no files: `Tokenizer.encode_files` has dropout, too.
"""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.arguments import checked
from bpeline.tokenizer_core.encoding import DropoutEncoder, Places, require_natural
from bpeline.tokenizer_core.text import Text, utf8_of
from bpeline.tokenizer_core.tokenizer import Tokenizer

_NOTHING_BEHIND = np.full(1, -1, np.int64)
_FIRST = Places(np.zeros(1, np.int64), np.zeros(1, np.int64))


class DropoutEncoding:
    """Encodes with merges left out at random, in the same way for the same seed and sample.

    At each step every place in a word where a merge is possible is left out with the probability
    ``dropout``, independently of what was left out before. Of the others the one of lowest rank is
    merged, the leftmost of several; where all are left out, the word is done.

    Any number of threads may encode at once.

    Args:
        tokenizer: of byte-level BPE.
        dropout: from 0, which encodes as the tokenizer does, to 1, which merges nothing; the paper
            uses 0.1.
        seed: decides what is left out, 0 to 2⁶⁴ − 1.

    Raises:
        InvalidOption: a probability or seed that is none, or a tokenizer of another algorithm,
            with a normalizer of its own, or without ids for some bytes.
    """

    @checked
    def __init__(self, tokenizer: Tokenizer, dropout: float, seed: int = 0) -> None:
        self._encoder = DropoutEncoder(tokenizer.spec, dropout, seed)
        self.tokenizer, self.dropout, self.seed = tokenizer, dropout, seed

    def encode(self, text: str, sample: int = 0) -> list[int]:
        """Token ids of a text; special tokens in it are text.

        They depend on tokenizer, dropout, seed, sample and text, and on nothing else: not on what
        was encoded before, nor on the process.

        Args:
            text: any string.
            sample: another number gives another encoding, such as the epoch; 0 to 2⁶⁴ − 1.

        Raises:
            TypeError: ``text`` is not a string.
            InvalidOption: ``sample`` is out of range.
        """
        require_natural("sample", sample)
        if self.dropout == 0:
            return self.tokenizer.encode_ordinary(text)
        whole = Text.of(utf8_of(text))
        span = np.array([[0, whole.size]], np.int64)
        encoded = self._encoder.encode(whole, span, _NOTHING_BEHIND, _FIRST, sample)
        ids: list[int] = encoded[0].tolist()
        return ids
