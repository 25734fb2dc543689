"""Encoder of BPE over characters, built on the byte-level BPE encoder.

Extra merges, ranked before all others, assemble each multi-byte character from its bytes. In UTF-8
they cannot apply across characters: lead bytes and continuation bytes differ, and the lead byte
gives the length. A character without a token leaves symbols that stand for no token or for byte
tokens.

A pre-token may be a whole text. It is cut wherever no merge joins the two adjacent characters. This
keeps the ids and makes most parts words that are already cached.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.algorithms.kernels import sentencepiece_bpe as kernels
from bpeline.tokenizer_core.encoding import (
    BytePairEncoder,
    Encoder,
    spans_of_lengths,
    tokens_not_made_by_merges,
)
from bpeline.tokenizer_core.errors import InvalidTokenizer, UnknownToken
from bpeline.tokenizer_core.splitting import MarkShort, ShortText, SplitPattern, Splitter
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.tokenizer_spec import TokenizerSpec
from bpeline.tokenizer_core.vocabulary import MergeIds, SpecialTokenMatcher, shown

WHOLE_TEXT = r"[\s\S]+"  # split pattern that cuts nothing
BYTES = 256
_POINTS = 0x110000
_MAX_SYMBOL = (1 << 24) - 1
_BITS_PER_PAIR = 32  # size of the pair filter: false positives are about one in 32
_FIRST_BYTES = (*range(0x80), *range(0xC0, BYTES))  # lead bytes of UTF-8 characters

Encoded = tuple[NDArray[np.uint32], NDArray[np.int64]]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Symbols:
    """Inputs of the byte pair encoder, and the meaning of its symbols."""

    # int64 ``[256]``: the symbol of each byte. Symbols of tokens are their ids.
    byte_ids: NDArray[np.int64]
    merges: MergeIds  # of bytes to characters, then of characters to tokens
    first: int  # symbols from here on are not tokens
    written: list[tuple[int, ...]]  # the ids that each of these symbols becomes
    pairs: NDArray[np.int64]  # int64 ``[n, 2]``: code points of characters that some merge joins
    known: frozenset[str]  # the characters that are tokens
    rest: str  # what other characters become: ``bytes``, ``unknown``, ``nothing`` or ``error``
    ranks: NDArray[np.int64] | None = None  # int64, the rank of each merge; None: its index


def symbols_of(
    spec: TokenizerSpec, byte_fallback: bool, unknown: str | None, ties: Set[int] | None = None
) -> Symbols:
    """Derive the symbols of a vocab and its merges; see `SentencePieceBpe`."""
    texts = _texts(spec.spelled_vocab)
    ids = {text: id_ for id_, text in texts.items()}
    characters = {texts[id_]: id_ for id_ in spec.ids.values() if len(texts[id_]) == 1}
    bytes_ = [ids.get(f"<0x{byte:02X}>") for byte in range(BYTES)] if byte_fallback else []
    by_bytes = all(id_ is not None for id_ in bytes_) if bytes_ else False
    if bytes_ and not by_bytes and any(id_ is not None for id_ in bytes_):
        _refuse(
            f"the vocab lacks {bytes_.count(None)} of the 256 byte tokens",
            "expected all 256 from <0x00> to <0xFF>, or none of them",
        )
    unknown_id = None if unknown is None else ids.get(unknown)
    rest = "bytes" if by_bytes else "nothing" if unknown is None else "unknown"
    if rest == "unknown" and unknown_id is None:
        rest = "error"
    stand_ins = bytes_ if by_bytes else [unknown_id]
    _refuse_merged_stand_ins(texts, spec.merge_ids, set(stand_ins))
    merges = _that_can_happen(characters.values(), spec.merge_ids)
    first = max(spec.vocab, default=0) + 1
    # The symbol of each prefix of a character; the symbol of a whole character is its token.
    symbols: dict[bytes, int] = {text.encode(): id_ for text, id_ in characters.items()}
    written: list[tuple[int, ...]] = []

    def symbol_of(content: bytes) -> int:
        if content not in symbols:
            stands_for: tuple[int | None, ...] = ()
            if by_bytes:
                stands_for = tuple(bytes_[byte] for byte in content)
            elif rest == "unknown" and content[0] in _FIRST_BYTES:
                stands_for = (unknown_id,)
            plain = tuple(id_ for id_ in stands_for if id_ is not None)
            if by_bytes and len(content) == 1:
                symbols[content] = plain[0]
            else:
                symbols[content] = first + len(written)
                written.append(plain)
        return symbols[content]

    byte_ids = [symbol_of(bytes([byte])) for byte in range(BYTES)]
    assembling: dict[tuple[int, int], int] = {}
    for character in filter(None, (text.encode() for text in characters)):
        for size in range(2, len(character) + 1):
            pair = symbol_of(character[: size - 1]), byte_ids[character[size - 1]]
            assembling[pair] = symbol_of(character[:size])
    if first + len(written) > _MAX_SYMBOL:
        _refuse(
            f"the vocab holds the id {first - 1}",
            f"expected ids up to {_MAX_SYMBOL - len(written)}",
        )
    left, right = (np.array([pair[i] for pair in assembling], np.int64) for i in (0, 1))
    assembled = np.array(list(assembling.values()), np.int64)
    all_merges = tuple(map(np.concatenate, zip((left, right, assembled), merges, strict=True)))
    joined = {
        (ord(texts[left_id][-1]), ord(texts[right_id][0]))
        for left_id, right_id in zip(merges[0].tolist(), merges[1].tolist(), strict=True)
    }
    ranks = None
    if ties is not None:
        of_token = ranks_by_piece(spec.merge_ids[2].tolist(), ties)
        of_merges = np.array([of_token[id_] for id_ in merges[2].tolist()], np.int64)
        ranks = np.concatenate((np.arange(len(assembled)), of_merges + len(assembled)))
    return Symbols(
        np.array(byte_ids, np.int64),
        (all_merges[0], all_merges[1], all_merges[2]),
        first,
        written,
        np.array(sorted(joined), np.int64).reshape(-1, 2),
        frozenset(characters),
        rest,
        ranks,
    )


def ranks_by_piece(made: Iterable[T], ties: Set[int]) -> dict[T, int]:
    """Rank the tokens that merges make; tokens in `ties` share the rank before."""
    tokens = dict.fromkeys(made)
    return dict(zip(tokens, accumulate(i not in ties for i in range(len(tokens))), strict=True))


def _texts(vocab: Mapping[int, bytes]) -> dict[int, str]:
    texts = {}
    for id_, token in vocab.items():
        try:
            texts[id_] = token.decode()
        except UnicodeDecodeError:
            _refuse(
                f"the token {shown(token)} (id {id_}) is not UTF-8",
                "expected tokens made of characters for this algorithm",
            )
    return texts


def _that_can_happen(characters: Iterable[int], merges: MergeIds) -> MergeIds:
    """Drop merges that never apply and, as ``tokenizers``, earlier equal pairs."""
    single = np.fromiter(characters, np.int64)
    pairs = (merges[0] << 24 | merges[1])[::-1]
    last = np.sort(len(pairs) - 1 - np.unique(pairs, return_index=True)[1])
    merges = merges[0][last], merges[1][last], merges[2][last]
    while True:
        makeable = np.concatenate((single, merges[2]))
        fires = np.isin(merges[0], makeable) & np.isin(merges[1], makeable)
        if fires.all():
            return merges
        merges = merges[0][fires], merges[1][fires], merges[2][fires]


def _refuse_merged_stand_ins(
    texts: Mapping[int, str], merges: MergeIds, stand_ins: set[int | None]
) -> None:
    parts = set(merges[0].tolist()) | set(merges[1].tolist())
    for id_ in sorted(parts & {id_ for id_ in stand_ins if id_ is not None}):
        _refuse(
            f"a merge joins {shown(texts[id_])}, which stands for unknown characters or bytes",
            "expected merges without byte tokens and the unknown token",
        )


def _refuse(happened: str, accepted: str) -> NoReturn:
    raise InvalidTokenizer(
        happened, accepted, "load the files the vocab came from with Tokenizer.load(PATH)"
    )


class CharacterSplitter(Splitter):
    """Splits by a pattern, and between characters that no merge joins.

    ``pairs`` is int64 ``[n, 2]``: the code points of joined characters; None: pattern only.
    """

    def __init__(self, pattern: SplitPattern, pairs: NDArray[np.int64] | None) -> None:
        super().__init__(pattern)
        self._cuts_further = pairs is not None
        joined = np.empty((0, 2), np.int64) if pairs is None else pairs
        left, right = np.ascontiguousarray(joined.T)
        bits = max(10, (_BITS_PER_PAIR * len(left)).bit_length())
        self._shift = np.uint64(64 - bits)
        self._joined = np.zeros(1 << (bits - 6), np.uint64)
        kernels.fill_pair_filter(left, right, self._shift, self._joined)

    def mark_every_byte(self, text: Text, spans: NDArray[np.int64]) -> NDArray[np.uint64]:
        if self.pattern.regex == WHOLE_TEXT:
            marks = np.zeros(text.size // 64 + 2, np.uint64)
        else:
            marks = super().mark_every_byte(text, spans)
        self.mark_further(text, spans, marks)
        return marks

    def mark_further(self, text: Text, spans: NDArray[np.int64], marks: NDArray[np.uint64]) -> None:
        """Also mark the boundaries between characters that no merge joins."""
        if self._cuts_further and not kernels.mark_unjoined(
            text.data, text.size, spans, self._joined, self._shift, marks
        ):
            raise IndexError(f"a span lies outside of the text of {text.size} bytes")

    @property
    def masks(self) -> None:
        return None

    def marking_short_texts(self) -> MarkShort:
        mark = None if self.pattern.regex == WHOLE_TEXT else super().marking_short_texts()
        further, joined, shift = self._cuts_further, self._joined, self._shift

        def mark_short(buffers: ShortText, size: int) -> NDArray[np.uint64]:
            if mark is None:
                buffers.clear_marks(size)
                marks = buffers.marks
            else:
                marks = mark(buffers, size)
            if further:
                kernels.mark_unjoined(buffers.text, size, buffers.span, joined, shift, marks)
            return marks

        return mark_short


class SentencePieceEncoder(Encoder):
    """Encodes texts by merges over characters; see `SentencePieceBpe`."""

    def __init__(
        self,
        symbols: Symbols,
        spec: TokenizerSpec,
        fused: bool,
        user_defined: Sequence[str] = (),
    ) -> None:
        self.pattern = spec.pattern
        self._spec = spec
        self._symbols = symbols
        self._fused = fused and symbols.rest == "unknown"
        # `ignore_merges` looks up whole words, so words are not cut further.
        pairs = None if spec.ignore_merges else symbols.pairs
        self._by_pattern = Splitter(spec.pattern)
        self._splitter = CharacterSplitter(spec.pattern, pairs)
        self._within_words = CharacterSplitter(SplitPattern(WHOLE_TEXT), pairs)
        self._merging = BytePairEncoder(
            symbols.byte_ids,
            *symbols.merges,
            spec.pattern,
            splitter=self._splitter,
            ranks=symbols.ranks,
        )
        contents = [token.encode() for token in user_defined]
        self._matcher = SpecialTokenMatcher(contents) if contents else None
        ids = {token: id_ for id_, token in spec.vocab.items()}
        if missing := [token for token in user_defined if token.encode() not in ids]:
            raise InvalidTokenizer(
                f"the vocab lacks the user-defined token {shown(missing[0])}",
                "expected every user-defined token in the vocab",
                "add it to the vocab, or remove it from SentencePieceBpe(user_defined=...)",
            )
        self._matched = np.array([ids[content] for content in contents], np.int64)
        self._known = _bitmap_of(symbols.known) if symbols.rest == "nothing" else None
        self._edges = np.array([0, *accumulate(map(len, symbols.written))], np.int64)
        self._tokens = np.array([*chain.from_iterable(symbols.written), 0], np.uint32)
        self._most = max(map(len, symbols.written), default=1)
        self._user_defined = tuple(user_defined)
        self._pairs = pairs
        if spec.ignore_merges:
            self._take_whole(spec)

    def _take_whole(self, spec: TokenizerSpec) -> None:
        whole = tokens_not_made_by_merges(self._merging, spec.ids)
        if self._known is not None and whole:
            raise InvalidTokenizer(
                f"no merges make the token {shown(next(iter(whole)).decode())}, and unknown "
                "characters are dropped",
                "expected an unknown token or byte tokens together with ignore_merges",
                "name an unknown token: SentencePieceBpe(unknown=...)",
            )
        self._merging.add_whole_words(whole)

    def encode(self, text: Text, spans: NDArray[np.int64], behind: NDArray[np.int64]) -> Encoded:
        if self._matcher is not None:
            spans, behind, lasts = self._cut_at_matches(self._matcher, text, spans, behind)
            ids, ends = self._encode_between(text, spans, behind)
            return ids, ends[lasts]
        return self._encode_between(text, spans, behind)

    def _cut_at_matches(
        self,
        matcher: SpecialTokenMatcher,
        text: Text,
        spans: NDArray[np.int64],
        behind: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Split spans at user-defined tokens; return spans, ids after them, last parts."""
        parts, ids, lasts = [], [], []
        for (begin, end), id_ in zip(spans.tolist(), behind.tolist(), strict=True):
            matches = matcher.find(text, begin, end)
            edges = np.concatenate(([begin], matches[:, :2].reshape(-1), [end]))
            parts.append(edges.reshape(-1, 2))
            ids.append(np.append(self._matched[matches[:, 2]], id_))
            lasts.append(len(matches) + 1)
        if not parts:
            return spans, behind, np.empty(0, np.int64)
        return (
            np.ascontiguousarray(np.concatenate(parts)),
            np.concatenate(ids),
            np.cumsum(lasts) - 1,
        )

    def _encode_between(
        self, text: Text, spans: NDArray[np.int64], behind: NDArray[np.int64]
    ) -> Encoded:
        if self.pattern.drops_gaps:
            return self._encode_words_of(text, spans, behind)
        ids, ends = self._merged(text, spans, behind, self._splitter)
        if not self._has_others(ids):
            return ids, ends
        if self._fused and self.pattern.regex != WHOLE_TEXT:
            return self._encode_words_of(text, spans, behind)
        return self._written(ids, ends)

    def _encode_words_of(
        self, text: Text, spans: NDArray[np.int64], behind: NDArray[np.int64]
    ) -> Encoded:
        """Like `encode`, with one span per word, to drop gaps or to fuse in words."""
        starts, dropped = self._by_pattern.mark(text, spans)
        begins = np.flatnonzero(_bits_of(starts))
        of_span = np.searchsorted(spans[:, 0], begins, side="right") - 1
        stops = np.minimum(np.append(begins[1:], text.size), spans[of_span, 1])
        if dropped.size:
            is_kept = ~_bits_of(dropped)[begins]
            begins, stops, of_span = begins[is_kept], stops[is_kept], of_span[is_kept]
        # After the words of each span follows an empty one that carries the span's id.
        lasts = np.cumsum(np.bincount(of_span, minlength=len(spans)) + 1) - 1
        words = np.empty((len(begins) + len(spans), 2), np.int64)
        ids_behind = np.full(len(words), -1, np.int64)
        is_word = np.ones(len(words), np.bool_)
        is_word[lasts] = False
        words[is_word, 0], words[is_word, 1] = begins, stops
        words[lasts] = spans[:, 1:]
        ids_behind[lasts] = behind
        ids, ends = self._written(*self._merged(text, words, ids_behind, self._within_words))
        return ids, ends[lasts]

    def encode_words(self, words: Sequence[bytes]) -> Encoded:
        text = Text.of(b"".join(words))
        spans = spans_of_lengths(words)
        nothing = np.full(len(words), -1, np.int64)
        return self._written(*self._merged(text, spans, nothing, self._within_words))

    def encode_short(self, content: bytes) -> list[int]:
        if self._known is not None or self._matcher is not None or self.pattern.drops_gaps:
            return super().encode_short(content)
        ids = self._merging.encode_short(content)
        first, written = self._symbols.first, self._symbols.written
        if not ids or max(ids) < first:
            return ids
        if self._symbols.rest != "bytes":
            return super().encode_short(content)
        parts = ((id_,) if id_ < first else written[id_ - first] for id_ in ids)
        return list(chain.from_iterable(parts))

    def _merged(
        self,
        text: Text,
        spans: NDArray[np.int64],
        behind: NDArray[np.int64],
        splitter: CharacterSplitter,
    ) -> Encoded:
        if self._known is None:
            marks = splitter.mark_every_byte(text, spans)
        else:
            text, spans, marks = self._only_known(text, spans, splitter)
        return self._merging.encode_marked(text, marks, spans, behind)

    def _only_known(
        self, text: Text, spans: NDArray[np.int64], splitter: CharacterSplitter
    ) -> tuple[Text, NDArray[np.int64], NDArray[np.uint64]]:
        """Remove the characters without a token; return text, spans and marks of the rest."""
        assert self._known is not None
        marks = Splitter(splitter.pattern).mark_every_byte(text, spans)
        size = int((spans[:, 1] - spans[:, 0]).sum())
        shorter = Text.of(bytes(size))
        kept_spans, kept_marks = np.empty_like(spans), np.zeros(size // 64 + 2, np.uint64)
        spans = np.ascontiguousarray(spans)
        size_left = kernels.keep_known(
            text.data, spans, marks, self._known, shorter.data, kept_spans, kept_marks
        )
        shorter = Text(shorter.data, int(size_left))
        splitter.mark_further(shorter, kept_spans, kept_marks)
        return shorter, kept_spans, kept_marks

    def _has_others(self, ids: NDArray[np.uint32]) -> bool:
        return bool(ids.size) and int(ids.max()) >= self._symbols.first

    def _written(self, symbols: NDArray[np.uint32], ends: NDArray[np.int64]) -> Encoded:
        """Replace symbols that are not tokens by the ids that stand for them."""
        if not self._has_others(symbols):
            return symbols, ends
        if self._symbols.rest == "error":
            raise UnknownToken(
                "the text holds unknown characters, and the vocab lacks the unknown token",
                "expected texts of known characters",
                "load a tokenizer whose unknown token is in its vocab",
            )
        others = int((symbols >= self._symbols.first).sum())
        ids = np.empty(len(symbols) + others * (self._most - 1), np.uint32)
        ends_of_ids = np.empty(len(ends), np.int64)
        count = kernels.write_symbols(
            symbols, ends, self._symbols.first, self._edges, self._tokens, self._fused,
            ids, ends_of_ids,
        )  # fmt: skip
        return ids[:count], ends_of_ids


def _bitmap_of(characters: frozenset[str]) -> NDArray[np.uint64]:
    known = np.zeros(_POINTS, np.bool_)
    known[[ord(character) for character in characters]] = True
    return np.packbits(known, bitorder="little").view(np.uint64)


def _bits_of(bitmap: NDArray[np.uint64]) -> NDArray[np.bool_]:
    return np.unpackbits(bitmap.view(np.uint8), bitorder="little").view(np.bool_)
