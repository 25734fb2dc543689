"""Frequency BPE: encoder, decoder, sentence marks, trainer, explanation, files.

Files: freqs.json, vocab_to_idx.json, idx_to_vocab.json, and our bpeline.json with the split
pattern, the marks and the kind of sentences. Some programs write ids only for the tokens of their
last segmentation, so merges that are only parts of longer tokens have none. As in those programs,
text without an id becomes unknown after loading.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np

from bpeline.tokenizer_core import checks, formats, merging, splitting, word_encoding
from bpeline.tokenizer_core.bounded_files import json_of, read_bounded, refuse
from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.encoding import TokenizerParts
from bpeline.tokenizer_core.errors import InvalidOption, InvalidTokenizer
from bpeline.tokenizer_core.kernels.encoding.superword_merges import OWN_SYMBOL
from bpeline.tokenizer_core.kernels.encoding.token_tables import END, UNKNOWN
from bpeline.tokenizer_core.merging import Checkpoint, OnProgress
from bpeline.tokenizer_core.splitting import Punkt, SplitPattern
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.tokenizer_spec import Algorithm, Sentences, TokenizerSpec
from bpeline.tokenizer_core.vocabulary import shown
from bpeline.tokenizer_core.word_encoding import Decide, Decision, WordAlgorithm, WordCoders

PADDING = "<pad>"


@dataclass(frozen=True, slots=True)
class FrequencyBpe(Algorithm):
    """Character BPE that merges by the frequency of the joined text instead of a rank.

    In a word, the neighbours whose joined text is most frequent are joined first, leftmost of
    equals, one place at a time, until no joined text has a frequency. Each sentence is enclosed in
    ``line_begin`` and ``line_end``.

    Attributes:
        end_of_word: the symbol after the last character of a word.
        unknown, line_begin, line_end: tokens of the vocab.
        sentences: ``none``: no marks; ``lines``: each line with a word is a sentence; ``punkt``:
            sentences found by NLTK's Punkt tokenizer.
        frequencies: (text, frequency) as in freqs.json. Every text listed here is a merge, even if
            it is not a token (in some files, parts of longer tokens): if it remains, it is unknown.
            The marks are never merged.
        min_sentence_characters: shorter sentences are left out.
        punkt_tables: tables of a trained Punkt, see `Punkt`; empty for an untrained one.
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
        """A copy that finds sentences by ``none``, ``lines`` or a name of `Punkt`."""
        punkt = Punkt.asked(asked)
        kind: Sentences = "punkt" if punkt else "lines" if asked == "lines" else "none"
        return replace(self, sentences=kind, punkt_tables=punkt.tables if punkt else ())

    def described(self) -> dict[str, Any]:
        listed = [list(entry) for entry in self.frequencies]
        record = {"name": self.name, **asdict(self), "frequencies": listed}
        if self.min_sentence_characters == 1:
            del record["min_sentence_characters"]  # older files lack it
        del record["punkt_tables"]
        if self.punkt_tables:
            record["punkt_tables"] = dict(
                zip(splitting.PUNKT_TABLES, self.punkt_tables, strict=True)
            )
        return record

    @property
    def punkt(self) -> Punkt | None:
        """The sentence splitter; None for ``lines`` and ``none``."""
        return Punkt.of_tables(self.punkt_tables) if self.sentences == "punkt" else None

    @property
    def merged_frequencies(self) -> dict[str, int]:
        """The frequencies of texts that merges can make."""
        marks = self.unknown, self.line_begin, self.line_end, PADDING
        end = self.end_of_word
        return {
            text: frequency
            for text, frequency in self.frequencies
            if text not in marks and len(word_encoding.characters_of(text, end)) > 1
        }

    @classmethod
    def of_description(cls, given: Mapping[str, Any]) -> Self | None:
        listed = given.get("frequencies")
        sound = isinstance(listed, list) and all(
            isinstance(entry, list) and list(map(type, entry)) == [str, int] for entry in listed
        )
        tables = given.get("punkt_tables", {})
        sound &= isinstance(tables, dict) and all(
            isinstance(table, str) for table in tables.values()
        )
        sound &= sound and tuple(tables) in ((), splitting.PUNKT_TABLES)
        if not sound or not isinstance(listed, list):
            return None
        # No bare `super()`: a dataclass with slots is a copy of the class that it would refer to.
        return super(FrequencyBpe, cls).of_description(
            {
                "min_sentence_characters": 1,
                **given,
                "frequencies": tuple((token, frequency) for token, frequency in listed),
                "punkt_tables": tuple(tables.values()),
            }
        )


KIND = FrequencyBpe


def coders(spec: TokenizerSpec) -> WordCoders:
    algorithm = spec.algorithm
    assert isinstance(algorithm, FrequencyBpe)
    tokens = word_encoding.spelled_tokens(spec, ("unknown", "line_begin", "line_end"))
    marks = tokens.marks
    words = by_frequency(algorithm, tokens.ids, marks["unknown"])
    texts = word_encoding.without_ends(spec.vocab, algorithm.end_of_word, tokens)
    lines = {algorithm.line_begin.encode(), algorithm.line_end.encode()}
    texts |= {id_: b"\n" for id_, token in spec.vocab.items() if token in lines}
    around = None
    if algorithm.sentences != "none":
        if algorithm.sentences == splitting.PUNKT:
            Punkt.named(splitting.PUNKT)  # raises if NLTK is missing
        around = word_encoding.SentenceMarks(
            algorithm.punkt,
            marks["line_begin"],
            marks["line_end"],
            algorithm.min_sentence_characters,
        )
    return word_encoding.coders_of_words(words, texts, spec.pattern, around)


def by_frequency(algorithm: FrequencyBpe, ids: Mapping[str, int], unknown: int) -> WordAlgorithm:
    """Build the merges: all pairs of symbols that join to a text with a frequency."""
    for token, frequency in algorithm.frequencies:
        if not 0 < frequency < 1 << 63:
            raise InvalidTokenizer(
                f"the token {shown(token)} has the frequency {frequency}",
                "expected frequencies from 1 to 2⁶³ − 1",
                word_encoding.RETRAIN,
            )
    end, merged = algorithm.end_of_word, algorithm.merged_frequencies
    distinct = sorted(set(merged.values()), reverse=True)
    rank_of = {frequency: rank for rank, frequency in enumerate(distinct)}
    unnamed: dict[str, int] = {}  # merged texts that are not tokens

    def symbol_of(text: str) -> int | None:
        """The number of a symbol; None for a text that no merge makes."""
        if (id_ := ids.get(text)) is not None:
            return id_
        characters = word_encoding.characters_of(text, end)
        if len(characters) == 1:
            return UNKNOWN + characters[0]
        return (
            UNKNOWN + END + 1 + unnamed.setdefault(text, len(unnamed)) if text in merged else None
        )

    rows = []
    for token, frequency in merged.items():
        joined = symbol_of(token)
        assert joined is not None  # every text in `merged` has a symbol
        length = len(word_encoding.characters_of(token, end))  # the end mark counts as one
        for cut in range(1, length):
            left, right = symbol_of(token[:cut]), symbol_of(token[cut:])
            if left is not None and right is not None:
                rows.append((left, right, rank_of[frequency], joined))
    alphabet = word_encoding.alphabet_rows(ids, end, joined=False)
    return word_encoding.merged_rows(alphabet + rows, OWN_SYMBOL, word_encoding.LEFTMOST, unknown)


def train_frequency_bpe(
    counts: WordCounts,
    merges: int,
    *,
    end_of_word: str = merging.END_OF_WORD,
    min_count: int = 1,
    min_word_count: int = 1,
    sentences: str = "punkt",
    word_sentences: Literal["sentences", "text"] = "sentences",
    parts: Literal["all", "none"] = "all",
    min_sentence_characters: int = 1,
    resume_from: Path | str | Checkpoint | None = None,
    checkpoint: Path | str | None = None,
    on_progress: OnProgress | None = None,
) -> Tokenizer:
    """Train frequency BPE: character BPE whose merges are applied by frequency.

    Ids: the tokens of the fully merged distinct words by their count there (each word counts once,
    each of the four marks counts as one), ties in order of first occurrence; then merges that are
    only parts of longer tokens, the most frequent first. Frequencies: these counts, and for each
    merged text the sum of the counts of its merges.

    Args:
        counts: word counts, usually by ``wordpunct``. With Punkt they must be counted within
            sentences: ``count_words(…, "wordpunct", sentences="punkt")``.
        merges, end_of_word, min_count, min_word_count: see `train_char_bpe`.
        sentences: how the tokenizer finds sentences: ``none``, ``lines``, ``punkt``,
            ``punkt:LANGUAGE`` or ``punkt:DIRECTORY``; see `FrequencyBpe` and `Punkt`.
        word_sentences: ``text`` allows word counts of the whole text together with Punkt.
        parts: ``none`` gives no ids to parts of longer tokens, as the original program: they are
            encoded as unknown.
        min_sentence_characters: shorter sentences are left out when encoding.
        resume_from, checkpoint, on_progress: see `CheckpointPolicy`.

    Raises:
        InvalidOption: as `train_char_bpe`; a missing library for sentences, or words counted in
            other sentences.
        EmptyCorpus, CorpusError, CorruptFile, DiskFull: as `train_char_bpe`.
    """
    checks.instance("counts", counts, WordCounts)
    merges = checks.whole_number("merges", merges)
    checks.choice("word_sentences", word_sentences, ("sentences", "text"))
    checks.choice("parts", parts, ("all", "none"))
    min_sentence_characters = checks.whole_number(
        "min_sentence_characters", min_sentence_characters, 1
    )
    if min_sentence_characters > 1 and sentences == "none":
        raise InvalidOption(
            f"min_sentence_characters is {min_sentence_characters}, sentences are {sentences}",
            "expected 1 for sentences 'none'",
            "leave it out to encode all sentences",
        )
    punkt = Punkt.asked(checks.text("sentences", sentences, "punkt"))
    _require_counts_within(punkt if word_sentences == "sentences" else None, counts)
    settings = merging.CharacterSettings(
        end_of_word, False, "first-seen", min_count, min_word_count
    )
    frequent = merging.prune(counts, min_word_count)[0].in_order_of_sight()
    words = merging.words_with_ends(frequent, end_of_word)
    course = merging.CheckpointPolicy(resume_from, checkpoint, on_progress=on_progress)
    learned = merging.learn_characters(counts, words, merges, settings, course)
    pairs = merging.pairs_of_texts(words, learned)
    merged_texts = [left + right for left, right in pairs]
    frequencies: Counter[str] = Counter()
    for token, count in zip(merged_texts, learned.counts.tolist(), strict=True):
        frequencies[token] += count
    tokens = list(dict.fromkeys([*words.tokens, *merged_texts]))
    ids = {token: id_ for id_, token in enumerate(tokens)}
    merged = word_encoding.by_rank(ids, pairs, len(ids), end_of_word)
    text = Text.of(frequent.word_bytes.tobytes())
    pieces = merged.pieces_of(text, frequent.offsets[:-1].copy(), frequent.lengths)
    distinct, firsts, numbers = np.unique(pieces.ids, return_index=True, return_counts=True)
    seen = np.argsort(firsts)
    token_counts = zip(distinct[seen].tolist(), numbers[seen].tolist(), strict=True)
    standing = {tokens[id_]: number for id_, number in token_counts}
    standing |= dict.fromkeys(_marks_of_frequency_bpe(), 1)
    first = sorted(standing, key=lambda token: -standing[token])
    rest = [] if parts == "none" else sorted(tokens, key=lambda token: -frequencies[token])
    by_frequency = tuple({**standing, **frequencies}.items())
    return Tokenizer(
        merging.numbered(first, rest),
        [],
        pattern=counts.pattern.within(None),
        algorithm=FrequencyBpe(
            end_of_word,
            frequencies=by_frequency,
            min_sentence_characters=min_sentence_characters,
        ).with_sentences(sentences),
    )


def _require_counts_within(punkt: Punkt | None, counts: WordCounts) -> None:
    """Check that the words were counted in the sentences that the tokenizer will use."""
    within = counts.pattern.sentences
    if within != punkt:
        raise InvalidOption(
            f"the words were counted in {_of(within)}",
            f"expected words counted in {_of(punkt)}, as the tokenizer will find them",
            'use count_words(…, "wordpunct", sentences="punkt"), or word_sentences="text"',
        )


def _of(punkt: Punkt | None) -> str:
    return "the whole text" if punkt is None else f"sentences by {punkt.name[:14]}"


def frequency_base(
    counts: WordCounts, min_word_count: int = 1, *, end_of_word: str = merging.END_OF_WORD
) -> list[str]:
    """The initial tokens of `train_frequency_bpe`: its smallest vocabulary."""
    words = merging.words_with_ends(merging.prune(counts, min_word_count)[0], end_of_word)
    return list(dict.fromkeys([*_marks_of_frequency_bpe(), *words.tokens]))


def _marks_of_frequency_bpe() -> tuple[str, str, str, str]:
    marks = FrequencyBpe()
    return marks.line_begin, marks.line_end, PADDING, marks.unknown


def explained(spec: TokenizerSpec) -> Decide:
    algorithm = spec.algorithm
    assert isinstance(algorithm, FrequencyBpe)
    frequencies, end = algorithm.merged_frequencies, algorithm.end_of_word

    def decide(word: str) -> Iterator[Decision]:
        symbols = [*word, end]
        while True:
            present = [frequencies.get(left + right, 0) for left, right in pairwise(symbols)]
            if not any(present):
                return
            place = present.index(max(present))
            left, right = symbols[place : place + 2]
            symbols = [*symbols[:place], left + right, *symbols[place + 2 :]]
            why = f"{left + right} has the frequency {max(present):,}"
            yield Decision(why, (left, right), tuple(symbols))

    return decide


FREQUENCIES, IDS, TOKENS = "freqs.json", "vocab_to_idx.json", "idx_to_vocab.json"
SETTINGS = "bpeline.json"


def save(tokenizer: TokenizerParts, path: Path) -> None:
    formats.refuse_other_algorithms(tokenizer, "frequency BPE", FrequencyBpe)
    algorithm = tokenizer.spec.algorithm
    assert isinstance(algorithm, FrequencyBpe)
    tokens = {str(id_): tokenizer.spec.vocab[id_].decode() for id_ in sorted(tokenizer.spec.vocab)}
    DURABLE.write(path / FREQUENCIES, formats.json_text(dict(algorithm.frequencies), indent=0))
    DURABLE.write(path / TOKENS, formats.json_text(tokens, indent=0))
    DURABLE.write(path / IDS, formats.vocab_json_of_text(tokenizer))
    marks = replace(algorithm, frequencies=()).described()
    settings = {"pattern": tokenizer.spec.pattern.as_record(), "algorithm": marks}
    DURABLE.write(path / SETTINGS, formats.json_text(settings, indent=0))


left_out = formats.nothing_left_out


def load(
    path: Path,
    *,
    sentences: str | None = None,
    algorithm: FrequencyBpe | None = None,
    pattern: SplitPattern | str | None = None,
) -> TokenizerSpec:
    """Read the files of a directory; bpeline.json replaces missing arguments.

    Args:
        sentences: ``none``, ``lines``, or a name of `Punkt`.
        algorithm: the marks, unless they are the defaults; its frequencies are ignored.
    """
    pattern, marks = _settings(path, pattern, sentences, algorithm)
    vocab = formats.read_plain_vocab(json_of(read_bounded(path / IDS), path / IDS), path / IDS)
    listed = json_of(read_bounded(path / TOKENS), path / TOKENS)
    if listed != {str(id_): token.decode() for id_, token in vocab.items()}:
        refuse(path / TOKENS, f"contradicts {IDS}", "expected id → token, the inverse of that file")
    given = json_of(read_bounded(path / FREQUENCIES), path / FREQUENCIES)
    frequencies = _frequencies(given, path / FREQUENCIES)
    return TokenizerSpec.checked(
        vocab,
        [],
        pattern=pattern,
        algorithm=replace(marks, frequencies=tuple(frequencies.items())),
    )


def _settings(
    path: Path,
    pattern: SplitPattern | str | None,
    sentences: str | None,
    marks: FrequencyBpe | None,
) -> tuple[SplitPattern | str, FrequencyBpe]:
    """The split pattern and the marks: from the arguments, else from bpeline.json."""
    if (path / SETTINGS).exists() and (pattern is None or marks is None):
        record = json_of(read_bounded(path / SETTINGS), path / SETTINGS)
        if not isinstance(record, dict) or not isinstance(record.get("algorithm"), dict):
            refuse(path / SETTINGS, "does not say how text is split")
        described = {name: value for name, value in record["algorithm"].items() if name != "name"}
        if (own := FrequencyBpe.of_description(described)) is None:
            refuse(path / SETTINGS, "describes marks of another algorithm")
        for text in (own.end_of_word, own.unknown, own.line_begin, own.line_end, *own.punkt_tables):
            formats.plain_bytes(text, path / SETTINGS)
        pattern = SplitPattern.from_record(record.get("pattern")) if pattern is None else pattern
        marks = marks or own
    if marks is None and sentences is not None:
        marks = FrequencyBpe()
    if pattern is None or marks is None:
        refuse(
            path,
            f"does not say how text is split into sentences and words: there is no {SETTINGS}",
            "expected a split pattern, and sentences by punkt, by lines or none",
            f"name them where a command takes a tokenizer: {path},sentences=punkt,"
            'pattern=wordpunct; in Python Tokenizer.load(PATH, pattern="wordpunct", '
            'sentences="punkt")',
        )
    return pattern, marks if sentences is None else marks.with_sentences(sentences)


def _frequencies(given: Any, path: Path) -> dict[str, int]:
    if not isinstance(given, dict):
        refuse(path, "holds no frequencies", "expected an object of token → frequency")
    for token, frequency in given.items():
        if type(frequency) is not int or frequency < 1:
            refuse(path, f"gives {shown(token)} the frequency {shown(frequency)}")
    return given
