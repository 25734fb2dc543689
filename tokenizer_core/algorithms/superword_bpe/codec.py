"""Superwords over runs of words as a value, and their encoder."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
import regex
from numpy.typing import NDArray

from bpeline.tokenizer_core.algorithms.superword_bpe.kernels.merge_runs import (
    merge_numbered,
    merge_runs,
)
from bpeline.tokenizer_core.algorithms.superword_bpe.passage_rows import CutPassages, WordRows
from bpeline.tokenizer_core.algorithms.superword_bpe.passages import superword_passages, words_of
from bpeline.tokenizer_core.encoding import (
    BytePairEncoder,
    Decoder,
    Encoder,
    as_spans,
    merge_table,
    spans_of_lengths,
)
from bpeline.tokenizer_core.errors import InvalidTokenizer
from bpeline.tokenizer_core.kernels.tables.hashing import HASH_KEY
from bpeline.tokenizer_core.processors import available_processors
from bpeline.tokenizer_core.splitting import Splitter
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.vocabulary import Algorithm, TokenizerSpec

_LETTER = regex.compile(r"\p{L}")


def holds_letter(token: bytes) -> bool:
    """Whether a token may be part of a superword: one of its characters is a letter."""
    return _LETTER.search(token.decode("utf-8", "replace")) is not None


@dataclass(frozen=True, slots=True)
class SuperwordBpe(Algorithm):
    """Byte pair encoding of words, then of runs of whole words.

    A text is encoded as by byte-level BPE with the merges of words. Where adjacent words are one
    token each and hold a letter, the merges of whole words follow: in each run the pair of lowest
    rank, the leftmost one first.

    Attributes:
        whole: the ranks of the merges of whole words, ascending.
    """

    name: ClassVar[str] = "superword-bpe"
    default_pattern: ClassVar[str] = superword_passages("gpt2").regex
    over_bytes: ClassVar[bool] = True
    has_merges: ClassVar[bool] = True
    whole: tuple[int, ...] = ()

    @classmethod
    def pattern_of(cls, named: str) -> str:
        return superword_passages(named).regex

    def of_first_merges(self, number: int) -> SuperwordBpe:
        """Of the first merges alone, which are those that training with fewer ids makes.

        A word is merged together before a pair with it is: the pair is no more frequent than the
        last merge of the word was. So words that only more ids make one token lengthen runs by
        nothing that the first merges join.
        """
        return SuperwordBpe(tuple(rank for rank in self.whole if rank < number))

    @classmethod
    def of_description(cls, given: Mapping[str, Any]) -> Self | None:
        whole = given.get("whole")
        if given.keys() != {"whole"} or not isinstance(whole, list | tuple):
            return None
        if set(map(type, whole)) - {int} or any(rank < 0 for rank in whole[:1]):
            return None
        if any(one >= other for one, other in pairwise(whole)):
            return None
        return cls(tuple(whole))


KIND = SuperwordBpe


def coders(spec: TokenizerSpec) -> tuple[SuperwordEncoder, Decoder]:
    """The encoder and the decoder.

    Raises:
        InvalidTokenizer: a byte that is no token, or ranks that no merge has.
        InvalidPattern: the pattern cuts no passages.
    """
    return SuperwordEncoder(spec), Decoder(spec.vocab)


class SuperwordEncoder(Encoder):
    """Encodes words by a `BytePairEncoder`, then merges in runs; for any number of threads."""

    def __init__(self, spec: TokenizerSpec) -> None:
        algorithm = spec.algorithm
        assert isinstance(algorithm, SuperwordBpe)
        lacking = [byte for byte in range(256) if bytes([byte]) not in spec.ids]
        if lacking or (algorithm.whole and algorithm.whole[-1] >= len(spec.merges)):
            raise InvalidTokenizer(
                f"the vocab lacks the byte 0x{lacking[0]:02x}"
                if lacking
                else f"merge {algorithm.whole[-1]} is said to join whole words, and there are "
                f"{len(spec.merges)} merges",
                "superword-bpe has all 256 bytes, and ranks of its own merges",
                "fetch or make the file again",
            )
        above = np.zeros(len(spec.merges), np.bool_)
        above[list(algorithm.whole)] = True
        byte_ids = np.array([spec.ids[bytes([byte])] for byte in range(256)], np.int64)
        self._merge_ids = spec.merge_ids
        left, right, results = (part[~above] for part in self._merge_ids)
        pattern = words_of(spec.pattern)
        self.words = BytePairEncoder(byte_ids, left, right, results, pattern)
        self._splitter = Splitter(pattern)
        left, right, results = (part[above] for part in self._merge_ids)
        self._table = merge_table((left, right, results))
        self._sizes = np.zeros(spec.largest_id + 1, np.int64)
        self._joins = np.zeros(len(self._sizes), np.bool_)
        for token, id_ in spec.ids.items():
            self._sizes[id_] = len(token)
            self._joins[id_] = holds_letter(token)
        self._scratch: deque[NDArray[np.uint64]] = deque()  # append and pop are atomic

    def encode(
        self, text: Text, spans: NDArray[np.int64], behind: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        marks = self._splitter.mark_every_byte(text, spans)
        nothing = np.full(len(spans), -1, np.int64)
        ids, ends = self.words.encode_marked(text, marks, spans, nothing)
        target = np.empty(len(ids) + len(spans), np.uint32)
        longest = int(np.diff(ends, prepend=0).max(initial=0))
        try:
            scratch = self._scratch.pop()
        except IndexError:
            scratch = np.empty(0, np.uint64)
        if scratch.size < 4 * longest + 64:
            scratch = np.empty(4 * longest + 64, np.uint64)
        new_ends = np.empty(len(spans), np.int64)
        tables = self._sizes, self._joins, self._table, HASH_KEY
        merge_runs(marks, spans, behind, ids, ends, *tables, scratch, target, new_ends)
        if scratch.size < 1 << 16:
            self._scratch.append(scratch)
        return target[: new_ends[-1] if len(new_ends) else 0], new_ends

    def encode_words(self, words: Sequence[bytes]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        text = Text.of(b"".join(words))
        return self.encode(text, spans_of_lengths(words), np.full(len(words), -1, np.int64))

    def encode_rows(
        self, content: NDArray[np.uint8], offsets: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        text, spans = as_spans(content, offsets)
        return self.encode(text, spans, np.full(len(spans), -1, np.int64))

    def gains(
        self, words: NDArray[np.uint8], offsets: NDArray[np.int64], counts: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """How often each merge fires on counted passages, as `OrderedEncoder` has it.

        A token that is left was made by its merge, and its parts by theirs: so what each merge made
        is what is left of its token and what later merges took of that.
        """
        ids, ends = self.encode_rows(words, offsets)
        made = np.zeros(len(self._sizes), np.int64)
        np.add.at(made, ids, np.repeat(counts, np.diff(ends, prepend=0)))
        of_token = made.tolist()
        left, right, results = (part.tolist() for part in self._merge_ids)
        for first, second, token in zip(*map(reversed, (left, right, results)), strict=True):
            of_token[first] += of_token[token]
            of_token[second] += of_token[token]
        return np.array(of_token, np.int64)[self._merge_ids[2]]

    def encode_passages(
        self, passages: CutPassages
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """`encode_rows` of passages that are cut already: each word is encoded once, in threads."""
        words, number = passages.words, available_processors()
        parts = self.words.byte_ids, *self.words.merge_ids, self.words.pattern
        encoder = BytePairEncoder(*parts, cache_words=0)  # no word comes twice
        edges = [len(words) * part // number for part in range(number + 1)]

        def encoded(part: int) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
            offsets = words.offsets[edges[part] : edges[part + 1] + 1]
            ids, ends = encoder.encode_rows(words.word_bytes, offsets)
            return ids, np.diff(ends, prepend=0)

        with ThreadPoolExecutor(number, "encode passages") as threads:
            ids, lengths = map(
                np.concatenate, zip(*threads.map(encoded, range(number)), strict=True)
            )
            ends = np.cumsum(lengths)

            def merged(rows: WordRows) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
                most = int(lengths[rows.numbers].sum())
                longest = int(np.diff(rows.ends, prepend=0).max(initial=0))
                scratch = np.empty(4 * longest + 64, np.uint64)
                target, new_ends = np.empty(most, np.uint32), np.empty(len(rows.ends), np.int64)
                tables = self._joins, self._table, HASH_KEY
                place = rows.numbers, rows.ends, ids, ends
                merge_numbered(*place, *tables, scratch, target, new_ends)
                kept = int(new_ends[-1]) if len(new_ends) else 0
                return target[:kept].copy(), np.diff(new_ends, prepend=0)

            merged_rows = list(threads.map(merged, passages.rows))
        found, so_many = zip(*merged_rows, strict=True) if merged_rows else ((), ())
        return (
            np.concatenate([np.zeros(0, np.uint32), *found]),
            np.cumsum(np.concatenate([np.zeros(0, np.int64), *so_many])),
        )
