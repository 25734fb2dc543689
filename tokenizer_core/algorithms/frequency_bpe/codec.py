"""Frequency BPE as a value, and its encoder and decoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

from bpeline.tokenizer_core.algorithms.frequency_bpe.sentence_marks import SentenceMarks
from bpeline.tokenizer_core.errors import InvalidTokenizer
from bpeline.tokenizer_core.kernels.encoding.character_merges import OWN_SYMBOL
from bpeline.tokenizer_core.kernels.encoding.symbol_tables import END, UNKNOWN
from bpeline.tokenizer_core.splitting import PUNKT, PUNKT_TABLES, Punkt
from bpeline.tokenizer_core.vocabulary import Algorithm, Sentences, TokenizerSpec, shown
from bpeline.tokenizer_core.word_encoding import (
    LEFTMOST,
    RETRAIN,
    WordAlgorithm,
    WordDecoder,
    WordEncoder,
    alphabet_rows,
    characters_of,
    merged_rows,
    spelled_tokens,
    without_ends,
)

PADDING = "<pad>"


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
            ``punkt``: sentences as NLTK's Punkt tokenizer finds them.
        frequencies: (text, frequency) as in freqs.json. Whatever text neighbours join to is a merge
            if it stands here, be it a token of the vocab or, like the parts of longer ones in some
            files, none, which is unknown where it remains. The marks are never joined to.
        min_sentence_characters: shorter sentences are left out.
        punkt_tables: what a trained Punkt knows, see `Punkt`; empty: it is untrained.
    """

    name: ClassVar[str] = "frequency-bpe"
    default_pattern: ClassVar[str] = "wordpunct"
    end_of_word: str = "</w>"
    unknown: str = "<unk>"
    line_begin: str = "<line/>"
    line_end: str = "</line>"
    sentences: Sentences = "punkt"
    frequencies: tuple[tuple[str, int], ...] = ()
    min_sentence_characters: int = 1
    punkt_tables: tuple[str, ...] = ()

    @property
    def sentence_kind(self) -> Sentences:
        return self.sentences

    def with_sentences(self, asked: str) -> Self:
        """The same with sentences found by ``none``, ``lines`` or a name of `Punkt`.

        Raises:
            InvalidOption: another name, or a library or tables that are not installed.
        """
        punkt = Punkt.asked(asked)
        kind: Sentences = "punkt" if punkt else "lines" if asked == "lines" else "none"
        return replace(self, sentences=kind, punkt_tables=punkt.tables if punkt else ())

    def described(self) -> dict[str, Any]:
        listed = [list(entry) for entry in self.frequencies]
        said = {"name": self.name, **asdict(self), "frequencies": listed}
        if self.min_sentence_characters == 1:
            del said["min_sentence_characters"]  # files of before do not say it
        del said["punkt_tables"]
        if self.punkt_tables:
            said["punkt_tables"] = dict(zip(PUNKT_TABLES, self.punkt_tables, strict=True))
        return said

    @property
    def punkt(self) -> Punkt | None:
        """What finds sentences; None where no library does."""
        return Punkt.of_tables(self.punkt_tables) if self.sentences == "punkt" else None

    @property
    def merged_frequencies(self) -> dict[str, int]:
        """The frequencies of texts that neighbours may be joined to."""
        marks = self.unknown, self.line_begin, self.line_end, PADDING
        end = self.end_of_word
        return {
            text: frequency
            for text, frequency in self.frequencies
            if text not in marks and len(characters_of(text, end)) > 1
        }

    @classmethod
    def of_description(cls, given: Mapping[str, Any]) -> Self | None:
        listed = given.get("frequencies")
        sound = isinstance(listed, list) and all(
            isinstance(entry, list) and list(map(type, entry)) == [str, int] for entry in listed
        )
        tables = given.get("punkt_tables", {})
        sound &= isinstance(tables, dict) and all(isinstance(one, str) for one in tables.values())
        sound &= sound and tuple(tables) in ((), PUNKT_TABLES)
        if not sound or not isinstance(listed, list):
            return None
        # By its full name: a dataclass with slots is another class than the one `super` sees.
        return super(FrequencyBpe, cls).of_description(
            {
                "min_sentence_characters": 1,
                **given,
                "frequencies": tuple((token, frequency) for token, frequency in listed),
                "punkt_tables": tuple(tables.values()),
            }
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
        if algorithm.sentences == PUNKT:
            Punkt.named(PUNKT)  # refuses to go on without NLTK
        ids = marks["line_begin"], marks["line_end"]
        around = SentenceMarks(algorithm.punkt, *ids, algorithm.min_sentence_characters)
    return (
        WordEncoder(words, spec.pattern, around),
        WordDecoder(seen, spaced=spec.pattern.drops_gaps),
    )


def by_frequency(algorithm: FrequencyBpe, ids: Mapping[str, int], unknown: int) -> WordAlgorithm:
    """Whatever two symbols join to a text with a frequency is a merge, most frequent first.

    Raises:
        InvalidTokenizer: a frequency out of range.
    """
    for token, frequency in algorithm.frequencies:
        if not 0 < frequency < 1 << 63:
            raise InvalidTokenizer(
                f"the token {shown(token)} has the frequency {frequency}",
                "frequencies are from 1 to 2⁶³ − 1",
                RETRAIN,
            )
    end, merged = algorithm.end_of_word, algorithm.merged_frequencies
    distinct = sorted(set(merged.values()), reverse=True)
    rank_of = {frequency: rank for rank, frequency in enumerate(distinct)}
    unnamed: dict[str, int] = {}  # texts that neighbours are joined to, but no tokens

    def symbol_of(text: str) -> int | None:
        """The number of a symbol; None for a text that nothing is joined to."""
        if (id_ := ids.get(text)) is not None:
            return id_
        characters = characters_of(text, end)
        if len(characters) == 1:
            return UNKNOWN + characters[0]
        return (
            UNKNOWN + END + 1 + unnamed.setdefault(text, len(unnamed)) if text in merged else None
        )

    rows = []
    for token, frequency in merged.items():
        made = symbol_of(token)
        assert made is not None  # it has a frequency
        for cut in range(1, len(characters_of(token, end))):  # the mark of the end is one
            left, right = symbol_of(token[:cut]), symbol_of(token[cut:])
            if left is not None and right is not None:
                rows.append((left, right, rank_of[frequency], made))
    alphabet = alphabet_rows(ids, end, joined=False)
    return merged_rows(alphabet + rows, OWN_SYMBOL, LEFTMOST, unknown)
