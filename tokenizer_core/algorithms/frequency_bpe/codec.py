"""Frequency BPE as a value, and its encoder and decoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

from bpeline.tokenizer_core.algorithms.frequency_bpe.sentence_marks import SentenceMarks
from bpeline.tokenizer_core.corpus import refuse_missing_library
from bpeline.tokenizer_core.errors import InvalidTokenizer
from bpeline.tokenizer_core.kernels.encoding.character_merges import OWN_SYMBOL
from bpeline.tokenizer_core.vocabulary import Algorithm, Sentences, TokenizerSpec, shown
from bpeline.tokenizer_core.word_encoding import (
    LEFTMOST,
    RETRAIN,
    WordAlgorithm,
    WordDecoder,
    WordEncoder,
    alphabet_rows,
    merged_rows,
    spelled_tokens,
    without_ends,
)


@dataclass(frozen=True, slots=True)
class FrequencyBpe(Algorithm):
    """Character BPE in which not the rank of a merge but the frequency of its result decides.

    In a word, the leftmost of the neighbours whose joined text is most frequent are joined, one
    place at a time, until no neighbours join to a text with a frequency. Each sentence is put
    between ``line_begin`` and ``line_end``.

    Attributes:
        end_of_word: the symbol behind the last character of a word.
        unknown, line_begin, line_end: tokens of the vocab.
        sentences: ``none``: no marks; ``lines``: each line that has a word is a sentence;
            ``punkt``: sentences as NLTK's untrained Punkt tokenizer finds them.
        frequencies: (token, frequency) of every token that can be joined, most frequent first.
    """

    name: ClassVar[str] = "frequency-bpe"
    default_pattern: ClassVar[str] = "wordpunct"
    end_of_word: str = "</w>"
    unknown: str = "<unk>"
    line_begin: str = "<line/>"
    line_end: str = "</line>"
    sentences: Sentences = "punkt"
    frequencies: tuple[tuple[str, int], ...] = ()

    @property
    def sentence_kind(self) -> Sentences:
        return self.sentences

    def described(self) -> dict[str, Any]:
        listed = [list(entry) for entry in self.frequencies]
        return {"name": self.name, **asdict(self), "frequencies": listed}

    @classmethod
    def of_description(cls, given: Mapping[str, Any]) -> Self | None:
        listed = given.get("frequencies")
        sound = isinstance(listed, list) and all(
            isinstance(entry, list) and list(map(type, entry)) == [str, int] for entry in listed
        )
        if not sound or not isinstance(listed, list):
            return None
        # By its full name: a dataclass with slots is another class than the one `super` sees.
        return super(FrequencyBpe, cls).of_description(
            {**given, "frequencies": tuple((token, frequency) for token, frequency in listed)}
        )


KIND = FrequencyBpe


def coders(spec: TokenizerSpec) -> tuple[WordEncoder, WordDecoder]:
    """The encoder and the decoder.

    Raises:
        InvalidTokenizer: tokens that are not UTF-8, or marks or frequencies that the vocab lacks.
        InvalidOption: sentences are to be found by a library that is not installed.
    """
    algorithm = spec.algorithm
    assert isinstance(algorithm, FrequencyBpe)
    tokens = spelled_tokens(spec, ("unknown", "line_begin", "line_end"))
    marks = tokens.marks
    words = by_frequency(algorithm, tokens.ids, marks["unknown"])
    seen = without_ends(spec.vocab, algorithm.end_of_word, tokens.whole, tokens.gap)
    lines = {algorithm.line_begin.encode(), algorithm.line_end.encode()}
    seen |= {id_: b"\n" for id_, token in spec.vocab.items() if token in lines}
    around = None
    if algorithm.sentences != "none":
        refuse_missing_library(algorithm.sentences)
        around = SentenceMarks(algorithm.sentences, marks["line_begin"], marks["line_end"])
    return (
        WordEncoder(words, spec.pattern, around),
        WordDecoder(seen, spaced=spec.pattern.drops_gaps),
    )


def by_frequency(algorithm: FrequencyBpe, ids: Mapping[str, int], unknown: int) -> WordAlgorithm:
    """Whatever two tokens join to a token with a frequency is a merge, most frequent first.

    Raises:
        InvalidTokenizer: a frequency of what is no token, or out of range.
    """
    for token, frequency in algorithm.frequencies:
        if token not in ids or not 0 < frequency < 1 << 63:
            raise InvalidTokenizer(
                f"the token {shown(token)} has the frequency {frequency}",
                "tokens of the vocab have frequencies from 1 to 2⁶³ − 1",
                RETRAIN,
            )
    distinct = sorted({frequency for _, frequency in algorithm.frequencies}, reverse=True)
    rank_of = {frequency: rank for rank, frequency in enumerate(distinct)}
    end = algorithm.end_of_word
    rows = []
    for token, frequency in algorithm.frequencies:
        inner = token.removesuffix(end)
        symbols = len(inner) + (inner != token)  # the mark of the end is one
        for cut in range(1, symbols):
            left, right = ids.get(token[:cut]), ids.get(token[cut:])
            if left is not None and right is not None:
                rows.append((left, right, rank_of[frequency], ids[token]))
    alphabet = alphabet_rows(ids, end, joined=False)
    return merged_rows(alphabet + rows, OWN_SYMBOL, LEFTMOST, unknown)
