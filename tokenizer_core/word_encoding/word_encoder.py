"""Encode text word by word, and explain the tokens of a word.

Distinct words are numbered and encoded once, then ids are copied. Encoders keep no state between
calls, so they are thread-safe. The module of each algorithm defines ``explained`` (see `Decide`),
and ``words_of`` if its words are not those of the pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core import checks, splitting
from bpeline.tokenizer_core.counting import FULL, empty_entries
from bpeline.tokenizer_core.encoding import (
    Encoder,
    MergeTree,
    PlacedIds,
    PreparedEncoder,
    TokenizerParts,
)
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.kernels.counting.word_rows import PROGRESS, copy_pieces, number_words
from bpeline.tokenizer_core.kernels.tables.hashing import HASH_KEY
from bpeline.tokenizer_core.kernels.tables.word_keys import move_words
from bpeline.tokenizer_core.plugins import PLUGINS
from bpeline.tokenizer_core.splitting import SplitPattern, Splitter, pre_tokens
from bpeline.tokenizer_core.text import Text, utf8_of
from bpeline.tokenizer_core.tokenizer_spec import TokenizerSpec
from bpeline.tokenizer_core.word_encoding.word_algorithm import Pieces, WordAlgorithm, WordDecoder

_BYTES_PER_WORD = 16  # of text per distinct word, first guess
_TABLE_BITS = 6, 19
_BYTE_ORDER_MARK = "\ufeff".encode()


@dataclass(frozen=True, slots=True, eq=False)
class MarkedSpans:
    """Spans of a text and the ids around each."""

    spans: NDArray[np.int64]  # int64 ``[n, 2]``
    before: NDArray[np.int64]  # int64 ``[n]``: id before each span, or −1
    behind: NDArray[np.int64]  # int64 ``[n]``: id after each span, or −1
    lasts: NDArray[np.int64]  # int64: index of the last of these for each requested span

    def where(self, ends: NDArray[np.int64]) -> MarkedSpans:
        """Remove marks around sentences without words; ``ends``: words up to each end."""
        wordless = (np.diff(ends, prepend=0) == 0) & (self.before >= 0)
        if not wordless.any():
            return self
        before, behind = (np.where(wordless, -1, ids) for ids in (self.before, self.behind))
        return MarkedSpans(self.spans, before, behind, self.lasts)


@dataclass(frozen=True, slots=True)
class SentenceMarks:
    """Ids around each sentence, which excludes an initial byte order mark."""

    punkt: splitting.Punkt | None  # splits sentences; None: each line is one
    line_begin: int
    line_end: int
    least: int = 1  # minimum length of a sentence in characters

    def mark(self, text: Text, spans: NDArray[np.int64], behind: NDArray[np.int64]) -> MarkedSpans:
        """Return sentences of each span, then an empty span with the id after it."""
        spans = spans.copy()
        for number, begin in enumerate(spans[:, 0].tolist()):
            if text.bytes(begin, begin + len(_BYTE_ORDER_MARK)) == _BYTE_ORDER_MARK:
                spans[number, 0] = min(begin + len(_BYTE_ORDER_MARK), spans[number, 1])
        if self.punkt is None:
            sentences = np.concatenate(
                [
                    np.empty((0, 2), np.int64),
                    *(splitting.line_spans(text, *span) for span in spans.tolist()),
                ]
            )
        else:
            sentences = splitting.sentence_spans(text, spans, self.punkt)
        if self.least > 1:
            is_lead = (text.data[: text.size] & 0xC0) != 0x80
            leads = np.concatenate(([0], np.cumsum(is_lead)))
            sentences = sentences[np.diff(leads[sentences], axis=1)[:, 0] >= self.least]
        places = np.searchsorted(sentences[:, 0], spans[:, 1])
        around = np.tile(np.array([self.line_begin, self.line_end]), (len(sentences), 1))
        parts = np.insert(sentences, places, np.stack((spans[:, 1],) * 2, axis=1), axis=0)
        no_ids = np.full(len(spans), -1, np.int64)
        marks = np.insert(around, places, np.stack((no_ids, behind), axis=1), axis=0)
        before, after = marks.T.copy()
        return MarkedSpans(parts, before, after, places + np.arange(len(spans)))

    @property
    def breaks(self) -> splitting.CutPairs | splitting.SentenceBreaks:
        """Where a text may be cut without changing its sentences."""
        return (
            splitting.behind_lines() if self.punkt is None else splitting.SentenceBreaks(self.punkt)
        )


def unmarked(text: Text, spans: NDArray[np.int64], behind: NDArray[np.int64]) -> MarkedSpans:
    no_ids = np.full(len(spans), -1, np.int64)
    return MarkedSpans(spans, no_ids, np.ascontiguousarray(behind), np.arange(len(spans)))


@dataclass(frozen=True, slots=True, eq=False)
class NumberedWords:
    """A text as indices of its distinct words."""

    numbers: NDArray[np.uint32]  # uint32: word of each pre-token
    begins: NDArray[np.int64]  # int64: begin of each pre-token in bytes
    # int64 ``[n_spans]``: number of pre-tokens before the end of each span
    ends: NDArray[np.int64]
    places: NDArray[np.int64]  # int64 ``[n_words]``: first occurrence of each word
    lengths: NDArray[np.int64]  # int64 ``[n_words]``: bytes of each word


def number_marked(
    text: Text,
    spans: NDArray[np.int64],
    starts: NDArray[np.uint64],
    dropped: NDArray[np.uint64],
) -> NumberedWords:
    """Number words by first occurrence; the bitmaps are those of `Splitter.mark`."""
    room = int(np.bitwise_count(starts).sum())
    numbers = np.empty(room, np.uint32)
    begins, places, lengths = (np.empty(room, np.int64) for _ in range(3))
    ends = np.empty(len(spans), np.int64)
    fewest, most = _TABLE_BITS
    bits = min(max((text.size // _BYTES_PER_WORD).bit_length(), fewest), most)
    table = empty_entries(bits)
    state = np.zeros(1, PROGRESS)
    state["position"] = -1
    spans = np.ascontiguousarray(spans, np.int64)
    marked = text.data, starts, dropped, spans
    while not number_words(
        *marked, table, HASH_KEY, int(FULL * (1 << bits)),
        state, numbers, begins, places, lengths, ends,
    ):  # fmt: skip
        bits += 1
        smaller, table = table, empty_entries(bits)
        move_words(smaller, table, HASH_KEY)
    seen, words = int(state["pre_tokens"][0]), int(state["words"][0])
    return NumberedWords(numbers[:seen], begins[:seen], ends, places[:words], lengths[:words])


class WordEncoder(Encoder):
    """Encodes text word by word; ``marks`` adds ids around sentences."""

    def __init__(
        self,
        algorithm: WordAlgorithm,
        pattern: SplitPattern,
        marks: SentenceMarks | None = None,
    ) -> None:
        self.algorithm = algorithm
        self.pattern = pattern
        self._splitter = Splitter(pattern)
        self.marks = marks

    def encode(
        self, text: Text, spans: NDArray[np.int64], behind: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        marked, words, pieces = self._encoded(text, spans, behind)
        copied = int(np.diff(pieces.edges)[words.numbers].sum())
        ids = np.empty(copied + 2 * len(marked.spans), np.uint32)
        ends = np.empty(len(marked.spans), np.int64)
        around = marked.before, marked.behind
        copy_pieces(words.numbers, words.ends, *around, pieces.ids, pieces.edges, ids, ends)
        return ids[: ends[-1] if len(ends) else 0], ends[marked.lasts]

    def encode_words(self, words: Sequence[bytes]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        lengths = np.fromiter(map(len, words), np.int64, len(words))
        pieces = self.algorithm.pieces_of(
            Text.of(b"".join(words)), np.cumsum(lengths) - lengths, lengths
        )
        return pieces.ids, pieces.edges[1:].copy()

    def placed(self, text: Text, spans: NDArray[np.int64], behind: NDArray[np.int64]) -> PlacedIds:
        """Return `PlacedIds`; an id after a span reaches up to the next span."""
        marked, words, pieces = self._encoded(text, spans, behind)
        firsts = np.zeros(len(pieces.ends), np.int64)
        firsts[1:] = pieces.ends[:-1]
        firsts[pieces.edges[:-1]] = 0
        counts = np.diff(pieces.edges)[words.numbers]
        edges = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
        chosen = np.repeat(pieces.edges[:-1][words.numbers] - edges[:-1], counts)
        chosen += np.arange(edges[-1])
        begins = np.repeat(words.begins, counts)
        places = np.stack((begins + firsts[chosen], begins + pieces.ends[chosen]), axis=1)
        closes = np.zeros(len(chosen), np.bool_)
        closes[edges[1:] - 1] = True
        # Insert the ids around spans.
        last = edges[words.ends]
        first = np.concatenate((np.zeros(1, np.int64), last[:-1]))
        around = np.stack((marked.before, marked.behind), axis=1)
        put = around >= 0
        at = np.stack((first, last), axis=1)[put]
        begin, end = marked.spans.T
        stops = end.copy()  # marks of sentences are not in the text
        stops[marked.lasts] = np.append(begin[1:], text.size)[marked.lasts]
        around_places = np.stack((begin, begin, end, stops), axis=1).reshape(len(end), 2, 2)
        return PlacedIds(
            np.insert(pieces.ids[chosen], at, around[put].astype(np.uint32)),
            np.insert(places, at, around_places[put], axis=0),
            np.insert(closes, at, True),
        )

    def _encoded(
        self, text: Text, spans: NDArray[np.int64], behind: NDArray[np.int64]
    ) -> tuple[MarkedSpans, NumberedWords, Pieces]:
        """Return spans with the ids around them, their words, and their pieces."""
        mark = unmarked if self.marks is None else self.marks.mark
        marked = mark(text, spans, behind)
        marks = self._splitter.mark(text, marked.spans)
        words = number_marked(text, marked.spans, *marks)
        pieces = self.algorithm.pieces_of(text, words.places, words.lengths)
        return marked.where(words.ends), words, pieces


WordCoders = tuple[WordEncoder, WordDecoder]


def coders_of_words(
    algorithm: WordAlgorithm,
    shown: Mapping[int, bytes],
    pattern: SplitPattern,
    marks: SentenceMarks | None = None,
) -> WordCoders:
    """Build the encoder and decoder; ``shown`` maps ids to their text."""
    decoder = WordDecoder(shown, spaced=pattern.drops_gaps)
    return WordEncoder(algorithm, pattern, marks), decoder


def longest_prefix_of_words(
    content: bytes, max_tokens: int, placed: PlacedIds, count: Callable[[bytes], int]
) -> str:
    """Return the longest prefix of whole words with at most ``max_tokens`` ids.

    ``placed`` are the tokens of ``content``. Marks around sentences may add tokens to a prefix, so
    ``count`` counts it again.
    """
    max_tokens = checks.whole_number("max_tokens", max_tokens, 0, "write max_tokens=512")
    if len(placed.ids) <= max_tokens:
        return content.decode()
    ends = placed.places[:max_tokens, 1][placed.closes[:max_tokens]]
    for end in np.unique(ends)[::-1].tolist():
        # A token of one byte may end inside a character.
        whole = end == len(content) or content[end] & 0xC0 != 0x80
        if whole and count(content[:end]) <= max_tokens:
            return content[:end].decode()
    return ""


@dataclass(frozen=True, slots=True)
class Decision:
    """One step of encoding a word."""

    why: str  # the rule that applied, such as ``rank 3``
    takes: tuple[str, ...]  # the joined parts, or the token that was found
    symbols: tuple[str, ...]  # the word after this step


# Yields the decisions for a word, in plain Python.
Decide = Callable[[str], Iterator[Decision]]


@dataclass(frozen=True, slots=True)
class ExplainedWord:
    """A word, its steps and its ids."""

    word: str
    steps: tuple[Decision, ...]
    ids: tuple[int, ...]
    tokens: tuple[str, ...]


def explain_words(tokenizer: TokenizerParts, text: str) -> list[ExplainedWord]:
    """Explain each word of a text; the joined ids equal those of `Tokenizer.encode`.

    Special tokens are ordinary text, except added tokens of an imported tokenizer.
    """
    spec = tokenizer.spec
    plugin = PLUGINS.get(spec.algorithm.name)
    if plugin is None:
        names = ", ".join(PLUGINS)
        raise InvalidOption(
            f"{spec.algorithm.name} joins bytes, not characters",
            f"expected one of {names}",
            "type `bpeline explain REF TEXT`, or call tokenizer.explain(text), to see its merges",
        )
    module = plugin.home
    decide: Decide = module.explained(spec)
    words_of = getattr(module, "words_of", partial(pre_tokens, pattern=spec.pattern))
    encoder, parts = tokenizer.encoder, [(utf8_of(text), -1, b"")]
    if isinstance(encoder, PreparedEncoder):
        parts = encoder.prepared(parts[0][0])
        encoder = encoder.inner
    explained: list[ExplainedWord] = []
    for content, behind, _ in parts:
        for word in words_of(content.decode()):
            ids = _ids_of(encoder, word)
            explained.append(ExplainedWord(word, tuple(decide(word)), ids, _named(spec, ids)))
        if behind >= 0:
            name = _named(spec, (behind,))
            step = Decision("an added token, found in the text", name, name)
            explained.append(ExplainedWord(name[0], (step,), (behind,), name))
    return explained


def merge_tree(merges: Sequence[tuple[bytes, bytes]], token: bytes) -> MergeTree:
    """Build the tree of merges that makes a token."""
    merge_of: dict[bytes, tuple[int, bytes, bytes]] = {}
    for rank, (left, right) in enumerate(merges):
        merge_of.setdefault(left + right, (rank, left, right))

    def tree(part: bytes) -> MergeTree:
        if part not in merge_of:
            return MergeTree(part)
        rank, left, right = merge_of[part]
        return MergeTree(part, rank, (tree(left), tree(right)))

    return tree(token)


def _ids_of(encoder: Encoder, word: str) -> tuple[int, ...]:
    """Return the ids of a word, without marks of sentences."""
    content = word.encode()
    if isinstance(encoder, WordEncoder):
        return tuple(encoder.encode_words([content])[0].tolist())
    whole = np.array([[0, len(content)]], np.int64), np.full(1, -1, np.int64)
    return tuple(encoder.encode(Text.of(content), *whole)[0].tolist())


def _named(spec: TokenizerSpec, ids: tuple[int, ...]) -> tuple[str, ...]:
    specials = {id_: token for token, id_ in spec.special_tokens.items()}
    return tuple(
        specials[id_] if id_ in specials else spec.vocab[id_].decode(errors="replace")
        for id_ in ids
    )
