"""Encoding with dropout: merges are left out at random, so that a text has many encodings.

BPE-dropout of Provilkov, Emelianenko and Voita (ACL 2020), algorithm 1: a model that is trained on
such ids learns what tokens are made of. For training only; texts that a model is asked are encoded
without.
"""

from __future__ import annotations

from itertools import pairwise
from random import Random

from bpeline.tokenizer_core.encoding import fired_merges
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.splitting import pre_token_edges
from bpeline.tokenizer_core.text import Text, utf8_of
from bpeline.tokenizer_core.tokenizer import Tokenizer

_MOST = 1 << 64


class DropoutEncoding:
    """Encodes with merges left out at random, in the same way for the same seed and sample.

    At each step every place in a word where a merge is possible is left out with the probability
    ``dropout``, independently of what was left out before. Of the others the one of lowest rank is
    merged, the leftmost of several; where all are left out, the word is done.

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
        self._byte_ids: list[int] = merging.byte_ids.tolist()
        left, right, results = (part.tolist() for part in merging.merge_ids)
        self._ranks = {pair: rank for rank, pair in enumerate(zip(left, right, strict=True))}
        self._results: list[int] = results

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
        content = utf8_of(text)
        if not content:
            return []
        random = Random((self.seed << 64) | sample).random
        dropout = self.dropout

        def dropped() -> bool:
            return random() < dropout

        edges = pre_token_edges(Text.of(content), self.tokenizer.pattern)
        ids: list[int] = []
        for begin, end in pairwise(edges):
            symbols: list[int | None] = [self._byte_ids[byte] for byte in content[begin:end]]
            for _ in fired_merges(symbols, self._ranks, self._results, dropped):
                pass
            ids += [symbol for symbol in symbols if symbol is not None]
        return ids


def _require_natural(name: str, number: int) -> None:
    if not 0 <= number < _MOST:
        raise InvalidOption(
            f"the {name} is {number}", "a whole number from 0 to 2⁶⁴ − 1", f"choose {name}=0"
        )
