"""Encoding with dropout: merges are left out at random, so that a text has many encodings.

BPE-dropout of Provilkov, Emelianenko and Voita (ACL 2020), algorithm 1: a model that is trained on
such ids learns what tokens are made of. For training only; texts that a model is asked are encoded
without.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.encoding import merge_table
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.kernels.encoding.encode_word import (
    DROPOUT_SCRATCH,
    MOST_DROPPED,
    merge_with_dropout,
)
from bpeline.tokenizer_core.kernels.tables.hashing import HASH_KEY
from bpeline.tokenizer_core.kernels.tables.random_numbers import STEP, scramble
from bpeline.tokenizer_core.splitting import Splitter
from bpeline.tokenizer_core.text import Text, utf8_of
from bpeline.tokenizer_core.tokenizer import Tokenizer

_MOST = 1 << 64


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

    def __init__(self, tokenizer: Tokenizer, dropout: float, seed: int = 0) -> None:
        if not 0 <= dropout <= 1:
            raise InvalidOption(
                f"the probability of dropout is {dropout}",
                "a number from 0, which drops no merge, to 1, which drops all",
                "choose 0.1",
            )
        _require_natural("seed", seed)
        merging = tokenizer.byte_pairs
        spec = tokenizer.spec
        if spec.pipeline is not None or (spec.byte_ids < 0).any():
            raise InvalidOption(
                "this tokenizer changes texts before it merges, or has no ids for some bytes",
                "dropout works on byte-level BPE that takes texts as they are",
                "encode without dropout",
            )
        self.tokenizer, self.dropout, self.seed = tokenizer, dropout, seed
        self._byte_ids = merging.byte_ids.astype(np.uint32)
        self._merges = merge_table(merging.merge_ids)
        self._splitter = Splitter(tokenizer.pattern)

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
        _require_natural("sample", sample)
        if self.dropout == 0:
            return self.tokenizer.encode_ordinary(text)
        whole = Text.of(utf8_of(text))
        edges = self._splitter.edges(whole)
        stream = _below(_below(np.zeros(1, np.uint64), self.seed), sample)
        ids: list[int] = self._merge(whole, edges, _below(stream, edges[:-1])).tolist()
        return ids

    def _merge(
        self, text: Text, edges: NDArray[np.int64], streams: NDArray[np.uint64]
    ) -> NDArray[np.uint32]:
        longest = int(np.diff(edges).max(initial=0))
        ids = np.empty(text.size, np.uint32)
        ends = np.zeros(len(streams), np.int64)
        merge_with_dropout(
            text.data,
            edges,
            streams,
            np.uint64(self.dropout * MOST_DROPPED),
            self._byte_ids,
            self._merges,
            HASH_KEY,
            np.empty(DROPOUT_SCRATCH * longest // 8 + 1, np.uint64),
            ids,
            ends,
        )
        return ids[: ends[-1] if len(ends) else 0]


def _below(streams: NDArray[np.uint64], numbers: int | NDArray[np.int64]) -> NDArray[np.uint64]:
    """Where the random numbers of a part begin, from where those of the whole do."""
    parts: NDArray[np.uint64] = scramble((streams ^ np.uint64(numbers)) + STEP)
    return parts


def _require_natural(name: str, number: int) -> None:
    if not 0 <= number < _MOST:
        raise InvalidOption(
            f"the {name} is {number}", "a whole number from 0 to 2⁶⁴ − 1", f"choose {name}=0"
        )
