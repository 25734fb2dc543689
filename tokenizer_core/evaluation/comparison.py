"""Comparison of tokenizers: vocabs, merges, words, passages, languages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial, reduce
from itertools import islice, pairwise, zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.derived import token_counts
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.evaluation.measuring import Interval, Measured, resampled_change
from bpeline.tokenizer_core.tables import Table
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.word_encoding import WordEncoder

LONGEST = 400  # bytes of a passage
_MOST_KEPT = 1024  # passages to choose from
_WORDS_AT_A_TIME = 1 << 16


@dataclass(frozen=True, slots=True)
class VocabDifference:
    """Shared and different tokens of two vocabs, in the order of their ids."""

    added: tuple[bytes, ...]  # tokens that only the second has
    removed: tuple[bytes, ...]  # tokens that only the first has
    moved: tuple[tuple[bytes, int, int], ...]  # tokens of both whose ids differ, with both ids
    shared: int  # number of tokens of both, including moved ones
    changed_ids: int  # see `changed_ids`


@dataclass(frozen=True, slots=True)
class DivergingMerge:
    """The first difference of two lists of merges; None where a list has ended."""

    rank: int  # from 0: the number of equal merges before it
    first: tuple[bytes, bytes] | None
    second: tuple[bytes, bytes] | None


@dataclass(frozen=True, slots=True)
class WordChange:
    """A word that two tokenizers split differently, with its tokens."""

    word: bytes
    count: int  # occurrences in the documents
    first: tuple[bytes, ...]
    second: tuple[bytes, ...]

    @property
    def cost(self) -> int:
        """Tokens that the second uses more than the first, over all occurrences."""
        return self.count * (len(self.second) - len(self.first))


@dataclass(frozen=True, slots=True)
class Segmentation:
    """Differences in how two tokenizers split the words of the first one's pattern.

    If the patterns differ, the second tokenizer encodes each word alone. If a tokenizer normalizes
    text, its boundaries inside words are scaled to the original length.

    Attributes:
        stability: of the boundaries inside words of either, the share of both, over all
            occurrences; 1 without any.
    """

    words: int  # distinct words
    occurrences: int
    changed_words: int  # words that the second splits differently
    changed_occurrences: int
    stability: float
    worse: tuple[WordChange, ...]  # words that cost most tokens more, the most expensive first
    better: tuple[WordChange, ...]  # words that save most tokens, the best first
    same_cost: tuple[WordChange, ...]  # as many but other tokens, the most frequent first


@dataclass(frozen=True, slots=True)
class DocumentComparison:
    """Two tokenizers on the same documents."""

    documents: int
    bytes: int
    first_tokens: int
    second_tokens: int
    change: Interval  # second / first − 1 of tokens; negative if the second compresses better
    segmentation: Segmentation


def compare_vocabs(first: Tokenizer, second: Tokenizer) -> VocabDifference:
    ids = [{token: id_ for id_, token in one.vocab.items()} for one in (first, second)]
    both = [token for token in ids[0] if token in ids[1]]
    moved = ((token, ids[0][token], ids[1][token]) for token in both)
    return VocabDifference(
        added=tuple(sorted(ids[1].keys() - ids[0].keys(), key=ids[1].__getitem__)),
        removed=tuple(sorted(ids[0].keys() - ids[1].keys(), key=ids[0].__getitem__)),
        moved=tuple(sorted((one for one in moved if one[1] != one[2]), key=lambda one: one[1])),
        shared=len(both),
        changed_ids=changed_ids(first, second),
    )


def changed_ids(first: Tokenizer, second: Tokenizer) -> int:
    """Count the ids of the first that have another token, or none, in the second."""
    after = second.vocab
    return sum(after.get(id_) != token for id_, token in first.vocab.items())


def first_diverging_merge(first: Tokenizer, second: Tokenizer) -> DivergingMerge | None:
    """Find the first difference of the merges; None if they are equal."""
    for rank, (mine, theirs) in enumerate(zip_longest(first.merges, second.merges)):
        if mine != theirs:
            return DivergingMerge(rank, mine, theirs)
    return None


def compare_measured(
    first: Tokenizer, second: Tokenizer, before: Measured, after: Measured, shown: int = 20
) -> DocumentComparison:
    """Compare two tokenizers on documents that both were measured on.

    ``shown`` limits the lists of `Segmentation`.
    """
    return DocumentComparison(
        documents=before.text.documents,
        bytes=before.text.bytes,
        first_tokens=before.tokens,
        second_tokens=after.tokens,
        change=resampled_change(before.document_tokens, after.document_tokens).interval(),
        segmentation=_compare_words(first, second, before.words, shown),
    )


def _compare_words(
    first: Tokenizer, second: Tokenizer, words: WordCounts, shown: int
) -> Segmentation:
    """Compare how both tokenizers split the words of the first one's pattern."""
    changed = np.zeros(len(words), bool)
    costs = np.zeros(len(words), np.int64)
    either = both = 0
    for begin in range(0, len(words), _WORDS_AT_A_TIME):
        rows = slice(begin, begin + _WORDS_AT_A_TIME)
        part = words.between(rows.start, rows.stop)
        mine, my_tokens = _boundaries(first, part, first)
        theirs, their_tokens = _boundaries(second, part, first)
        ends, is_shared = part.offsets[1:], np.isin(mine, theirs)
        first_cuts, second_cuts, shared = (
            _cuts_inside(cut_places, part) for cut_places in (mine, theirs, mine[is_shared])
        )
        either += first_cuts + second_cuts - shared
        both += shared
        only_one = np.concatenate((mine[~is_shared], theirs[~np.isin(theirs, mine)]))
        changed[rows][np.searchsorted(ends, only_one)] = True
        costs[rows] = part.counts * (their_tokens - my_tokens)
    rows_changed = np.flatnonzero(changed)
    by_cost = rows_changed[np.argsort(costs[rows_changed], kind="stable")]
    cheaper, dearer = by_cost[costs[by_cost] < 0], by_cost[costs[by_cost] > 0][::-1]
    alike = by_cost[costs[by_cost] == 0]
    alike = alike[np.argsort(-words.counts[alike], kind="stable")]
    return Segmentation(
        words=len(words),
        occurrences=words.total,
        changed_words=len(rows_changed),
        changed_occurrences=int(words.counts[rows_changed].sum()),
        stability=both / either if either else 1.0,
        worse=_changes(first, second, words, dearer[:shown]),
        better=_changes(first, second, words, cheaper[:shown]),
        same_cost=_changes(first, second, words, alike[:shown]),
    )


def _boundaries(
    tokenizer: Tokenizer, words: WordCounts, first: Tokenizer
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Token ends in the joined words, ascending, and the tokens of each word."""
    ids, ends = _encoded(tokenizer, words, first)
    if tokenizer.words is not None:  # tokens of these algorithms need not be pieces of the text
        places = _without_sentences(tokenizer.words).placed(*_spans_of(words)).places
        return np.unique(places[:, 1]), np.diff(ends, prepend=0)
    lengths = np.zeros(tokenizer.spec.largest_id + 1, np.int64)
    lengths[list(tokenizer.vocab)] = list(map(len, tokenizer.vocab.values()))
    places = np.cumsum(lengths[ids])
    if not tokenizer.merges_words:
        places = _scaled(places, ends, words.offsets)
    return places, np.diff(ends, prepend=0)


def _scaled(
    places: NDArray[np.int64], ends: NDArray[np.int64], offsets: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Scale token ends in normalized words to the original words, in order."""
    tokens = np.diff(ends, prepend=0)
    filled = tokens > 0
    stops = np.zeros(len(ends) + 1, np.int64)
    stops[1:] = np.concatenate((np.zeros(1, np.int64), places))[ends]
    word = np.repeat(np.arange(len(ends)), tokens)
    normalized_sizes, sizes = np.maximum(np.diff(stops), 1), np.diff(offsets)
    scaled = (
        offsets[:-1][word] + (places - stops[:-1][word]) * sizes[word] // normalized_sizes[word]
    )
    words_ends: NDArray[np.int64] = offsets[1:][~filled]  # words that were normalized to nothing
    return np.unique(np.concatenate((scaled, words_ends)))


def _cuts_inside(places: NDArray[np.int64], words: WordCounts) -> int:
    """Count the positions inside words, over all occurrences of the words."""
    ends = words.offsets[1:]
    inside = places[~np.isin(places, ends)]
    return int(words.counts[np.searchsorted(ends, inside)].sum())


def _encoded(
    tokenizer: Tokenizer, words: WordCounts, first: Tokenizer
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    if tokenizer.words is not None:
        return _without_sentences(tokenizer.words).encode(*_spans_of(words))
    if tokenizer.pattern == first.pattern:
        return tokenizer.encoder.encode_words(words.words())
    return tokenizer.encoder.encode(*_spans_of(words))


def _spans_of(words: WordCounts) -> tuple[Text, NDArray[np.int64], NDArray[np.int64]]:
    """Words as spans of one text, without ids after them."""
    spans = np.stack((words.offsets[:-1], words.offsets[1:]), axis=1)
    return Text.of(words.word_bytes.tobytes()), spans, np.full(len(words), -1, np.int64)


def _without_sentences(encoder: WordEncoder) -> WordEncoder:
    """The encoder without sentence marks, for single words."""
    return WordEncoder(encoder.algorithm, encoder.pattern)


def _changes(
    first: Tokenizer, second: Tokenizer, words: WordCounts, rows: NDArray[np.int64]
) -> tuple[WordChange, ...]:
    if not len(rows):
        return ()
    chosen = words.take(rows)
    tokens = []
    for tokenizer in (first, second):
        ids, ends = _encoded(tokenizer, chosen, first)
        vocab, id_list = tokenizer.vocab, ids.tolist()
        bounds = pairwise([0, *ends.tolist()])
        tokens.append([tuple(vocab[id_] for id_ in id_list[a:b]) for a, b in bounds])
    return tuple(
        WordChange(word, count, mine, theirs)
        for (word, count), mine, theirs in zip(chosen.items(), *tokens, strict=True)
    )


@dataclass(frozen=True, slots=True)
class PassageToken:
    token: bytes
    changed: bool  # the other tokenizer has no token with exactly this span


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a document, encoded by both."""

    text: str
    first: tuple[PassageToken, ...]
    second: tuple[PassageToken, ...]

    @property
    def cost(self) -> int:
        """Tokens that the second uses more than the first."""
        return len(self.second) - len(self.first)


@dataclass(slots=True)
class PassageSample:
    """Sample of passages from a stream of documents, determined by their order."""

    _kept: list[bytes] = field(default_factory=list)
    _every: int = 1
    _seen: int = 0

    def watching(self, documents: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the documents and sample them; can be called for several texts in turn."""
        for document in documents:
            if self._seen % self._every == 0:
                self._keep(document)
            self._seen += 1
            yield document

    def _keep(self, document: bytes) -> None:
        self._kept.append(middle_of(document))
        if len(self._kept) == _MOST_KEPT:
            self._kept = self._kept[::2]
            self._every *= 2

    def compared(self, first: Tokenizer, second: Tokenizer, shown: int = 3) -> list[Passage]:
        """Select the passages with the largest increase and decrease of tokens.

        Passages that one of the two normalizes are left out: its tokens have no positions in them.
        Tokenizers trained here treat special tokens in passages as ordinary text; imported ones
        match them, as their libraries do.
        """
        texts = [
            passage_bytes.decode(errors="replace")
            for passage_bytes in dict.fromkeys(self._kept)
            if passage_bytes
        ]
        costs = [
            len(theirs) - len(mine)
            for mine, theirs in zip(
                first.encode_batch(texts), second.encode_batch(texts), strict=True
            )
        ]
        order = sorted(range(len(texts)), key=lambda place: (-costs[place], texts[place]))
        dearer = (texts[place] for place in order if costs[place] > 0)
        cheaper = (texts[place] for place in reversed(order) if costs[place] < 0)
        return [
            passage
            for kind in (dearer, cheaper)
            for passage in islice(_passages(first, second, kind), shown)
        ]


def middle_of(document: bytes) -> bytes:
    """About `LONGEST` bytes from the middle of a document, if possible whole words.

    The middle is used because documents of one source often begin alike.
    """
    if len(document) <= LONGEST:
        return document
    begin = (len(document) - LONGEST) // 2
    piece = document[begin : begin + LONGEST]
    space, last = piece.find(b" "), piece.rfind(b" ")
    if 0 <= space < last and last - space > LONGEST // 2:
        return piece[space:last]
    return piece.decode(errors="ignore").encode()  # drops incomplete characters at the ends


def _passages(first: Tokenizer, second: Tokenizer, texts: Iterable[str]) -> Iterator[Passage]:
    for text in texts:
        try:
            placed = [one.encode_with_offsets(text) for one in (first, second)]
        except InvalidOption:  # a tokenizer normalizes this text
            continue
        places = [list(map(tuple, one.byte_offsets.tolist())) for one in placed]
        sides = [
            tuple(
                PassageToken(tokenizer.vocab[id_], place not in other)
                for id_, place in zip(encoding.ids, mine, strict=True)
            )
            for tokenizer, encoding, mine, other in (
                (first, placed[0], places[0], set(places[1])),
                (second, placed[1], places[1], set(places[0])),
            )
        ]
        yield Passage(text, *sides)


@dataclass(frozen=True, slots=True)
class LanguageFigures:
    """Figures of one language under one choice."""

    tokens: int  # of the tokenizer, without special tokens and the unknown one
    used: int  # tokens that occur in the words of this language
    unseen: int  # tokens that do not
    tokens_per_word: float  # mean over all occurrences of words


@dataclass(frozen=True, slots=True)
class Choice:
    """Figures of all languages under one choice."""

    languages: Mapping[str, LanguageFigures]
    ids: int  # of the tokenizer, or of all tokenizers together
    overlap: int  # tokens that occur in the words of every language
    split_alike: int  # shared words that have the same tokens in every language


@dataclass(frozen=True, slots=True)
class LanguageChoices:
    """One tokenizer for several languages, or one for each, on the same words.

    Joint: equal words have equal tokens. Separate: each language has its own smaller vocabulary,
    which it uses fully (Sennrich et al. 2016, section 3.2).
    """

    joint: Choice
    separate: Choice
    shared_words: int  # distinct words that all languages have

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def as_text(self) -> str:
        joint, separate = self.joint, self.separate
        figures: list[tuple[str, float, float]] = [("ids in all", joint.ids, separate.ids)]
        for name, mine in joint.languages.items():
            theirs = separate.languages[name]
            figures += [
                (f"{name}: tokens", mine.tokens, theirs.tokens),
                (f"{name}: used in its words", mine.used, theirs.used),
                (f"{name}: unseen in its words", mine.unseen, theirs.unseen),
                (f"{name}: tokens per word", mine.tokens_per_word, theirs.tokens_per_word),
            ]
        alike_title = f"of {self.shared_words:,} shared words, cut alike"
        figures += [
            ("used in every language", joint.overlap, separate.overlap),
            (alike_title, joint.split_alike, separate.split_alike),
        ]
        rows = [(title, _shown(first), _shown(second)) for title, first, second in figures]
        return "\n".join(Table(("", "joint", "separate"), rows).lines())


def compare_choices(
    words: Mapping[str, WordCounts], joint: Tokenizer, separate: Mapping[str, Tokenizer]
) -> LanguageChoices:
    """Compare a joint tokenizer with one per language, on their training words."""
    checks.mapping("words", words, partial(checks.instance, kind=WordCounts), "word counts")
    checks.instance("joint", joint, Tokenizer)
    checks.mapping("separate", separate, partial(checks.instance, kind=Tokenizer), "tokenizers")
    if not words or words.keys() != separate.keys():
        raise InvalidOption(
            f"words are given for {', '.join(words) or 'no language'}, tokenizers for "
            f"{', '.join(separate) or 'none'}",
            "expected words and a tokenizer for each language",
            "use the same names for both",
        )
    shared = reduce(set.intersection, (set(counts.words()) for counts in words.values()))
    shared_words = sorted(shared)
    together = dict.fromkeys(words, joint)
    return LanguageChoices(
        _choice(words, together, shared_words, joint.vocab_size),
        _choice(words, separate, shared_words, sum(one.vocab_size for one in separate.values())),
        len(shared_words),
    )


def _choice(
    words: Mapping[str, WordCounts],
    tokenizers: Mapping[str, Tokenizer],
    shared: list[bytes],
    ids: int,
) -> Choice:
    figures, used = {}, []
    for name, counts in words.items():
        tokenizer = tokenizers[name]
        occurrences = token_counts(tokenizer, counts)
        tokens = _tokens_of_text(tokenizer)
        used_ids = tokens[occurrences[tokens] > 0]
        used.append({tokenizer.vocab[id_] for id_ in used_ids.tolist()})
        figures[name] = LanguageFigures(
            len(tokens),
            len(used_ids),
            len(tokens) - len(used_ids),
            int(occurrences.sum()) / counts.total,
        )
    cuts = [_cuts(tokenizers[name], shared) for name in words]
    alike = sum(all(cut == others[0] for cut in others) for others in zip(*cuts, strict=True))
    return Choice(figures, ids, len(reduce(set.intersection, used)), alike)


def _tokens_of_text(tokenizer: Tokenizer) -> NDArray[np.int64]:
    unknown = getattr(tokenizer.algorithm, "unknown", None)
    return np.array(
        [
            id_
            for id_, token in tokenizer.vocab.items()
            if not tokenizer.is_special(id_) and (unknown is None or token != unknown.encode())
        ],
        np.int64,
    )


def _cuts(tokenizer: Tokenizer, words: list[bytes]) -> list[list[bytes]]:
    ids, ends = tokenizer.encoder.encode_words(words)
    tokens = [tokenizer.vocab[id_] for id_ in ids.tolist()]
    return [tokens[begin:end] for begin, end in pairwise([0, *ends.tolist()])]


def _shown(figure: float) -> str:
    return f"{figure:,}" if isinstance(figure, int) else f"{figure:.4f}"
