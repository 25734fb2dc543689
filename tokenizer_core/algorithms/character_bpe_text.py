"""Segmentation of text into subwords, printed as by ``subword-nmt apply-bpe``.

Each distinct word is segmented once; with dropout every occurrence is segmented anew.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.algorithms import CharacterBpe
from bpeline.tokenizer_core.algorithms.character_bpe import with_dropout
from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.kernels.counting.word_rows import copy_words
from bpeline.tokenizer_core.text import Text, utf8_of
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.word_encoding import NumberedWords, WordAlgorithm, number_marked

_SPACE, _LINE_FEED, _RETURN = 32, 10, 13

Cut = list[str]  # the subwords of a word


class SubwordText:
    """Splits text into subwords with a separator: ``lower`` becomes ``low@@ er``.

    Equals the output of ``subword-nmt`` 0.3.8 for the same codes: lines end at a line feed, words
    are split at U+0020 only, and runs of spaces become one. One difference: a carriage return at
    the end of a word that a glossary divides is kept.

    Args:
        tokenizer: a character BPE tokenizer, for example loaded from a codes file.
        vocabulary: allowed subwords, with the separator unless they end a word; others are split
            again by undoing their merges. See `read_vocabulary`.
        glossaries: regexes of text that is never split or joined to its neighbours in a word.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        separator: str = "@@",
        vocabulary: Collection[str] | None = None,
        glossaries: Sequence[str] = (),
    ) -> None:
        algorithm = tokenizer.algorithm
        if not isinstance(algorithm, CharacterBpe):
            raise InvalidOption(
                f"this tokenizer uses {algorithm.name}",
                "expected char-bpe for splitting text into subwords",
                "load a codes file: Tokenizer.load(PATH, 'subword-nmt', characters='')",
            )
        assert tokenizer.words is not None
        self._merged = tokenizer.words.algorithm
        self._end = algorithm.end_of_word
        self._separator = separator
        self._vocabulary = None if vocabulary is None else frozenset(vocabulary)
        # `reversed`: of several merges that make a token, the first is undone.
        self._parts = {
            (left + right).decode(): (left.decode(), right.decode())
            for left, right in reversed(tokenizer.merges)
        }
        try:
            self._glossaries = [
                (re.compile(f"^{glossary}$"), re.compile(f"({glossary})"))
                for glossary in glossaries
            ]
            self._whole = re.compile(f"^({'|'.join(glossaries)})$") if glossaries else None
        except re.error as error:
            raise InvalidOption(
                f"a glossary does not compile: {error}",
                "expected regexes in Python's syntax",
                "escape special characters: 'U\\.S\\.'",
            ) from error

    def apply(self, text: str, dropout: float = 0.0, seed: int | None = None) -> str:
        """Return ``text`` with its words segmented into subwords.

        Args:
            dropout: the probability of skipping a merge (Provilkov et al. 2020).
            seed: of the random numbers; equals ``subword-nmt`` with one worker and the same seed.
                None: differs on every call.
        """
        if not 0 <= dropout <= 1:
            raise InvalidOption(
                f"dropout is {dropout}", "expected a probability from 0 to 1", "0.1 is common"
            )
        whole = Text.of(utf8_of(text))
        starts, dropped = _marks(whole)
        words = number_marked(whole, np.array([[0, whole.size]], np.int64), starts, dropped)
        spelled = [
            whole.bytes(begin, begin + length).decode()
            for begin, length in zip(words.places.tolist(), words.lengths.tolist(), strict=True)
        ]
        if not dropout:
            return self._printed(whole, words, self._cut(spelled, self._merged))
        state = np.array(random.Random(seed).getstate()[1], np.uint32)
        occurrences = replace(
            words,
            numbers=np.arange(len(words.numbers), dtype=np.uint32),
            places=words.begins,
            lengths=words.lengths[words.numbers],
        )
        each = [spelled[number] for number in words.numbers.tolist()]
        return self._printed(
            whole, occurrences, self._cut(each, with_dropout(self._merged, dropout, state))
        )

    def vocabulary(self, words: WordCounts) -> list[tuple[str, int]]:
        """Count subwords, in order of first occurrence, as ``subword-nmt get-vocab``."""
        seen = words.in_order_of_sight()
        spelled = [word.decode() for word in seen.words()]
        counts: dict[str, int] = {}
        cuts = self._cut(spelled, self._merged)
        for cut, count in zip(cuts, seen.counts.tolist(), strict=True):
            for subword in [*(inner + self._separator for inner in cut[:-1]), *cut[-1:]]:
                counts[subword] = counts.get(subword, 0) + count
        return list(counts.items())

    def _printed(self, text: Text, words: NumberedWords, cuts: Sequence[Cut]) -> str:
        between = f"{self._separator} "
        contents = [between.join(cut).encode() for cut in cuts]
        sizes = np.fromiter(map(len, contents), np.int64, len(contents))
        edges = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
        content = np.frombuffer(bytearray(b"".join(contents) or b" "), np.uint8)
        target = np.empty(text.size + int(sizes[words.numbers].sum()), np.uint8)
        size = copy_words(
            text.data, text.size, words.numbers, words.begins, words.lengths, content, edges, target
        )
        return target[:size].tobytes().decode()

    def _cut(self, words: Sequence[str], algorithm: WordAlgorithm) -> list[Cut]:
        if self._whole is None:
            return self._checked(words, _subwords(words, algorithm))
        segments = [self._isolated(word) for word in words]
        flat = [
            segment for parts in segments for segment in parts if not self._whole.match(segment)
        ]
        cut = iter(self._checked(flat, _subwords(flat, algorithm)))
        return [
            [
                piece
                for segment in parts
                for piece in ([segment] if self._whole.match(segment) else next(cut))
            ]
            for parts in segments
        ]

    def _isolated(self, word: str) -> list[str]:
        parts = [word]
        for whole, within in self._glossaries:
            parts = [
                piece
                for part in parts
                for piece in ([part] if whole.match(part) else filter(None, within.split(part)))
            ]
        return parts

    def _checked(self, words: Sequence[str], cuts: list[Cut]) -> list[Cut]:
        if self._vocabulary is None:
            return cuts
        return [
            cut if len(word) == 1 else list(self._known(cut))
            for word, cut in zip(words, cuts, strict=True)
        ]

    def _known(self, cut: Cut) -> Iterator[str]:
        """Undo merges until each subword is in the vocabulary or cannot be split."""
        assert self._vocabulary is not None
        stack = [(cut[-1], True), *((piece, False) for piece in reversed(cut[:-1]))]
        while stack:
            piece, last = stack.pop()
            parts = self._parts.get(piece + self._end if last else piece)
            if (piece if last else piece + self._separator) in self._vocabulary or parts is None:
                yield piece
            else:
                left, right = parts
                stack += [(right.removesuffix(self._end) if last else right, last), (left, False)]


def _subwords(words: Sequence[str], algorithm: WordAlgorithm) -> list[Cut]:
    encoded = [word.encode() for word in words]
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    pieces = algorithm.pieces_of(Text.of(b"".join(encoded)), np.cumsum(lengths) - lengths, lengths)
    ends, edges = pieces.ends.tolist(), pieces.edges.tolist()
    cuts = []
    for word, (first, last) in zip(encoded, pairwise(edges), strict=True):
        begin = 0
        cut = []
        for end in ends[first:last]:
            if end > begin:  # a separate end-of-word mark is not printed
                cut.append(word[begin:end].decode())
            begin = end
        cuts.append(cut)
    return cuts


def _marks(text: Text) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Bitmaps of the starts of words and gaps, and of the starts of gaps."""
    data = text.data[: text.size]
    gap = (data == _SPACE) | (data == _LINE_FEED)
    returns = data == _RETURN
    if returns.any():
        # Returns are part of a gap at the begin or end of a line or of the text.
        run = gap | returns
        number = np.cumsum(np.diff(run, prepend=False) != 0)
        at_edge = np.zeros(int(number[-1]) + 1, np.bool_)
        at_edge[number[data == _LINE_FEED]] = True
        at_edge[number[[0, -1]]] = True
        gap |= run & at_edge[number]
    starts = np.ones(len(data), np.bool_)
    starts[1:] = gap[1:] != gap[:-1]
    return _bitmap(starts), _bitmap(starts & gap)


def _bitmap(flags: NDArray[np.bool_]) -> NDArray[np.uint64]:
    bitmap = np.zeros(len(flags) // 64 + 2, np.uint64)
    packed = np.packbits(flags, bitorder="little")
    bitmap.view(np.uint8)[: len(packed)] = packed
    return bitmap


def read_vocabulary(lines: str, threshold: int | None = None) -> frozenset[str]:
    """Parse lines of ``subword count``; keep counts from ``threshold`` on."""
    subwords = set()
    # Other line separators, such as U+2028, can be characters of subwords.
    listed = lines.removesuffix("\n").split("\n") if lines else []
    for number, line in enumerate(listed, 1):
        subword, _, count = line.strip("\r\n ").rpartition(" ")
        if not subword or not count.isdigit():
            raise InvalidOption(
                f"line {number} of the vocabulary is {line[:40]!r}",
                "expected a subword, a space and its count on each line",
                "write such a file with subword-nmt get-vocab",
            )
        if threshold is None or int(count) >= threshold:
            subwords.add(subword)
    return frozenset(subwords)
