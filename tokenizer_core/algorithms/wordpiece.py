"""WordPiece: encoder, decoder, explanation, training by pair scores, files.

Reads and writes BERT's vocab.txt and HuggingFace's tokenizer.json. Libraries differ on characters
that are new in Unicode, so words with such characters may split differently elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, NoReturn, get_args

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core import checks, formats, merging, word_encoding
from bpeline.tokenizer_core.algorithms.kernels import wordpiece as kernels
from bpeline.tokenizer_core.algorithms.kernels.wordpiece_groups import Groups, Ordered
from bpeline.tokenizer_core.algorithms.kernels.words import match_from_the_left
from bpeline.tokenizer_core.bounded_files import json_of, read_bounded, refuse, text_of
from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.encoding import TokenizerParts
from bpeline.tokenizer_core.errors import InvalidOption, InvalidTokenizer
from bpeline.tokenizer_core.kernels.merging import merge_state, merge_step
from bpeline.tokenizer_core.kernels.merging.merge_state import Integer
from bpeline.tokenizer_core.kernels.tables.pair_tables import EMPTY
from bpeline.tokenizer_core.merging import Checkpoint, OnProgress
from bpeline.tokenizer_core.pipeline import Pipeline, models
from bpeline.tokenizer_core.splitting import SplitPattern
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.tokenizer_spec import Algorithm, TokenizerSpec
from bpeline.tokenizer_core.training import refuse_special_tokens_in_words
from bpeline.tokenizer_core.vocabulary import validate_special_tokens
from bpeline.tokenizer_core.word_encoding import Decide, Decision, WordAlgorithm, WordCoders

Score = Literal["ratio", "gain", "likelihood"]
SCORE_NAMES: tuple[str, ...] = get_args(Score)
_KINDS = {"ratio": kernels.RATIO, "gain": kernels.GAIN}
_MORE_GROUPS = 1 << 16  # spare room beyond the pairs and tokens
_WORDPIECE = "wordpiece 1"  # increase when the same settings learn other merges


@dataclass(frozen=True, slots=True)
class WordPiece(Algorithm):
    """The longest token that begins a word, then the longest that continues it, …

    Attributes:
        continuation: prefix of tokens that continue a word.
        unknown: the single token of a word with any part outside the vocab.
        max_word_characters: longer words become the unknown token.
    """

    name: ClassVar[str] = "wordpiece"
    default_pattern: ClassVar[str] = "wordpunct"
    continuation: str = "##"
    unknown: str = "[UNK]"
    max_word_characters: int = 100


KIND = WordPiece


def coders(spec: TokenizerSpec) -> WordCoders:
    algorithm = spec.algorithm
    assert isinstance(algorithm, WordPiece)
    tokens = word_encoding.spelled_tokens(spec)
    prefix, ids = algorithm.continuation, tokens.ids
    if spec.pipeline is not None and algorithm.unknown.encode() in spec.ids:
        ids = {**ids, algorithm.unknown: tokens.marks["unknown"]}  # as in HuggingFace's library
    spelled = [(list(map(ord, token)), False, id_) for token, id_ in ids.items()]
    # A token with the prefix also matches a word that itself begins with the prefix.
    spelled += [
        (list(map(ord, token.removeprefix(prefix))), True, id_)
        for token, id_ in ids.items()
        if token.startswith(prefix) and token != prefix
    ]
    known = (
        algorithm.max_word_characters,
        *word_encoding.symbol_table(word_encoding.trie_rows(spelled)),
        tokens.marks["unknown"],
    )
    mark = prefix.encode()
    texts = {
        id_: tokens.gap + token
        if id_ in tokens.whole or token == mark or not token.startswith(mark)
        else token[len(mark) :]
        for id_, token in spec.vocab.items()
    }
    words = WordAlgorithm(match_from_the_left, known)
    return word_encoding.coders_of_words(words, texts, spec.pattern)


def explained(spec: TokenizerSpec) -> Decide:
    algorithm = spec.algorithm
    assert isinstance(algorithm, WordPiece)
    known = {token.decode(errors="replace") for token in spec.vocab.values()}
    continuation, most = algorithm.continuation, algorithm.max_word_characters

    def decide(word: str) -> Iterator[Decision]:
        if len(word) > most:
            why = f"longer than {most} characters: unknown"
            yield Decision(why, (word,), (algorithm.unknown,))
            return
        pieces: list[str] = []
        begin = 0
        while begin < len(word):
            mark = continuation if begin else ""
            ends = range(len(word), begin, -1)
            end = next((end for end in ends if mark + word[begin:end] in known), None)
            if end is None:
                why = f"no token at character {begin}: the whole word is unknown"
                yield Decision(why, (word[begin:],), (algorithm.unknown,))
                return
            pieces.append(mark + word[begin:end])
            rest = [continuation + word[end:]] if end < len(word) else []
            yield Decision(f"the longest at character {begin}", (pieces[-1],), (*pieces, *rest))
            begin = end

    return decide


def validate_score(score: str) -> None:
    if score not in SCORE_NAMES:
        raise InvalidOption(
            f"there is no score {score!r}", f"expected {', '.join(SCORE_NAMES)}", "use 'gain'"
        )


class ScoringEngine(merging.MergeEngine):
    """Merges the pair with the best score until the goal is reached."""

    def __init__(self, words: merging.SymbolWords, *, score: Score, min_count: int) -> None:
        super().__init__(words, tie_break="smallest-ids", min_count=min_count)
        self.see_all()
        self._kind = _KINDS.get(score)  # None: the likelihood
        self._alone = _standing_alone(words)
        self._counts = np.zeros(0, np.int64)  # of all tokens, once merging by score begins
        self._groups: Groups | None = None

    def learn(self, goal: int) -> bool:
        """Learn merges until there are ``goal``; return False if no pair is left before."""
        if not len(self._counts):
            self._count_tokens()
        while True:
            status = self._merge(self.base + goal)
            if status in (merge_step.DONE, merge_step.EXHAUSTED):
                return bool(status == merge_step.DONE)
            if status == kernels.NEEDS_GROUPS:
                self._groups = None  # most groups are empty by now: rebuild them
            else:
                self._grow(status)

    def _merge(self, goal: int) -> Integer:
        """Merge until there are ``goal`` tokens or an array is full."""
        state, limits, counts, total = self._state, self._limits, self._counts, self._total
        status: Integer
        if self._kind is None:
            doubles = np.empty(len(counts), np.int64)
            status = kernels.learn_by_likelihood(state, limits, counts, doubles, total, goal)
            return status
        if self._groups is None:
            self._groups = self._empty_groups()
        scored = self._groups, self._kind, counts, total
        status = kernels.learn_by_score(state, limits, *scored, goal)
        return status

    def _count_tokens(self) -> None:
        """Count the tokens of the words as merged so far."""
        self._counts = np.zeros(len(self._state.token_lengths), np.int64)
        self._counts[: self.base] = self._alone
        kernels.count_tokens(self._state, self._counts)
        self._total = np.array([self._counts.sum()], np.int64)

    def _empty_groups(self) -> Groups:
        """Empty groups, sized for the current pairs."""
        state = self._state
        size, tokens = int(state.sizes[merge_state.PAIRS]), len(self._counts)
        # At most one group and one level per pair, doubled so that rebuilds are rare.
        pairs, capacity = len(state.pairs), 4 * size + 8 * tokens + _MORE_GROUPS
        return Groups(
            pairs=_unordered(pairs),
            group_of=np.empty(pairs, np.int32),
            alike=np.empty(pairs, np.int32),
            first_alike=np.full(tokens, EMPTY, np.int32),
            groups=_unordered(capacity),
            counts=np.empty(capacity, np.int64),
            parts=np.empty(capacity, np.int32),
            levels=np.empty(capacity, np.int32),
            firsts=np.empty(capacity, np.int32),
            sharing=np.empty(capacity, np.int32),
            first_sharing=np.full(tokens, EMPTY, np.int32),
            waiting=np.empty(capacity, np.int32),
            promises=np.empty(capacity, np.float64),
            floors=np.empty(capacity, np.float64),
            queue=np.empty(capacity, np.int32),
            places=np.empty(capacity, np.int32),
            slots=np.full(1 << (2 * capacity - 1).bit_length(), EMPTY, np.int32),
            hash_key=state.hash_key,
            sizes=np.zeros(3, np.int64),
        )

    def _grow(self, status: Integer) -> None:
        super()._grow(status)
        pairs, tokens = len(self._state.pairs), len(self._state.token_lengths)
        groups, known = self._groups, len(self._counts)
        if known and status == merge_step.NEEDS_TOKENS:
            self._counts = merging.grown(self._counts, known, tokens)
        if groups is None:
            return
        if status == merge_step.NEEDS_TOKENS:
            self._groups = groups._replace(
                first_alike=merging.grown(groups.first_alike, known, tokens),
                first_sharing=merging.grown(groups.first_sharing, known, tokens),
            )
        else:
            known = len(groups.group_of)
            links, weights, keys = groups.pairs
            self._groups = groups._replace(
                pairs=Ordered(
                    merging.grown(links, known, pairs),
                    merging.grown(weights, known, pairs),
                    merging.grown(keys, known, pairs),
                ),
                group_of=merging.grown(groups.group_of, known, pairs),
                alike=merging.grown(groups.alike, known, pairs),
            )


def _unordered(members: int) -> Ordered:
    return Ordered(
        np.empty((members, 3), np.int32),
        np.empty(members, np.float64),
        np.empty(members, np.int64),
    )


def _standing_alone(words: merging.SymbolWords) -> NDArray[np.int64]:
    """How often each base token is a word of its own, which the engine leaves out."""
    counts = np.zeros(len(words.base_tokens), np.int64)
    single = np.flatnonzero(np.diff(words.offsets) == 1)
    tokens = words.ids[words.content[words.offsets[single]]]
    np.add.at(counts, tokens, words.counts[single])
    return counts


@dataclass(frozen=True, slots=True)
class WordPieceSettings:
    """Settings of `train_wordpiece` that decide which merges it learns."""

    score: Score
    min_count: int
    min_word_count: int

    def __post_init__(self) -> None:
        checks.choice("score", self.score, Score)
        checks.set_whole_numbers(self, min_count=1, min_word_count=1)

    @property
    def digest(self) -> str:
        return digest_of({"algorithm": _WORDPIECE, **asdict(self)})


def train_wordpiece(
    counts: WordCounts,
    vocab_size: int,
    *,
    score: Score = "ratio",
    min_count: int = 2,
    min_word_count: int = 1,
    continuation: str = "##",
    unknown: str = "[UNK]",
    max_word_characters: int = 100,
    special_tokens: Sequence[str] = (),
    resume_from: Path | str | Checkpoint | None = None,
    checkpoint: Path | str | None = None,
    on_progress: OnProgress | None = None,
) -> Tokenizer:
    """Train WordPiece: repeatedly merge the pair with the best score into one token.

    Scores use the counts of the current segmentation, N tokens in all:

    * ``ratio``: n_ab / (n_a · n_b)
    * ``gain``: n_ab · log(n_ab · N / (n_a · n_b)), the gain in log-likelihood of a unigram model
      whose other counts stay as they are
    * ``likelihood``: the exact gain, with the unigram model estimated again after the merge

    Ties go to the more frequent pair, then to the one of the rarest parts, then of the smallest
    ids. Ids: the unknown token, the special tokens, the characters, the merges.

    Args:
        vocab_size: all tokens together; fewer if no pair occurs ``min_count`` times.
        score: ``ratio`` prefers rare pairs: set ``min_count`` above 2 on large corpora.
            ``likelihood`` scores every pair before every merge, which is slow on large corpora.
        min_count, min_word_count: rarer pairs and rarer words are left out.
        continuation, unknown, max_word_characters: see `WordPiece`. Training uses all words.
        special_tokens: further tokens.
        resume_from, checkpoint, on_progress: see `CheckpointPolicy`.

    Raises:
        InvalidOption: as `train_char_bpe`, or a vocabulary too small for the characters.
        InvalidSpecialToken, EmptyCorpus, CorpusError, CorruptFile, DiskFull: as `train_char_bpe`.
    """
    checks.instance("counts", counts, WordCounts)
    checks.text("unknown", unknown)
    checks.text("continuation", continuation)
    vocab_size = checks.whole_number("vocab_size", vocab_size)
    max_word_characters = checks.whole_number("max_word_characters", max_word_characters, 1)
    words = merging.words_that_go_on(merging.prune(counts, min_word_count)[0], continuation)
    specials = validate_special_tokens(checks.texts("special_tokens", special_tokens))
    refuse_special_tokens_in_words(specials, counts)
    first = list(dict.fromkeys([unknown, *specials, *words.tokens]))
    if vocab_size < len(first):
        raise InvalidOption(
            f"a vocabulary of {vocab_size!r} has no room for {len(words.tokens)} characters and "
            f"{len(first) - len(words.tokens)} marks and special tokens",
            f"expected a vocab_size of at least {len(first)}",
            "leave out rare words with min_word_count, or raise vocab_size",
        )
    merges = vocab_size - len(first)
    settings = WordPieceSettings(score, min_count, min_word_count)
    course = merging.CheckpointPolicy(resume_from, checkpoint, on_progress=on_progress)
    pairs = learn_wordpiece(counts, words, merges, settings, continuation, course)
    learned_tokens = [left + right.removeprefix(continuation) for left, right in pairs]
    return Tokenizer(
        merging.numbered(first, learned_tokens),
        [],
        specials,
        counts.pattern,
        algorithm=WordPiece(continuation, unknown, max_word_characters),
    )


def wordpiece_base(
    counts: WordCounts,
    min_word_count: int = 1,
    *,
    continuation: str = "##",
    unknown: str = "[UNK]",
    special_tokens: Sequence[str] = (),
) -> list[str]:
    """The initial tokens of `train_wordpiece`: its smallest vocabulary."""
    words = merging.words_that_go_on(merging.prune(counts, min_word_count)[0], continuation)
    return list(dict.fromkeys([unknown, *special_tokens, *words.tokens]))


def learn_wordpiece(
    counts: WordCounts,
    words: merging.CharacterWords,
    merges: int,
    settings: WordPieceSettings,
    continuation: str,
    course: merging.CheckpointPolicy,
) -> list[tuple[str, str]]:
    """Learn the pairs that WordPiece joins, in order, as texts; see `train_wordpiece`."""
    merging.validate_options(merges, "smallest-ids", settings.min_count, settings.min_word_count)
    validate_score(settings.score)
    least, score = settings.min_count, settings.score
    engine = partial(ScoringEngine, words.words, score=score, min_count=least)
    learned = merging.learn_with(engine, merges, counts, settings.digest, course)
    return merging.pairs_of_texts(words, learned, continuation)


_PRE_TOKENIZERS = {"whitespace": "WhitespaceSplit", "wordpunct": "Whitespace"}
_SUPPORTED = f"expected WordPiece after {' or '.join(_PRE_TOKENIZERS.values())}"
_BERTS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def save(tokenizer: TokenizerParts, path: Path) -> None:
    """Write vocab.txt: one token per line; its id is the line number, from 0."""
    formats.refuse_other_algorithms(tokenizer, "WordPiece", WordPiece)
    tokens = [tokenizer.spec.vocab.get(id_, b"\n") for id_ in range(tokenizer.spec.vocab_size)]
    if any(b"\n" in token or b"\r" in token for token in tokens):
        raise InvalidTokenizer(
            "the ids of this tokenizer have gaps, or a token holds a line break",
            "expected neither: in vocab.txt the id of a token is its line number",
            "save it as 'hf' or 'bpeline', which store ids",
        )
    DURABLE.write(path, b"\n".join([*tokens, b""]))


def left_out(tokenizer: TokenizerParts) -> dict[str, Any]:
    """The arguments of `load` that vocab.txt does not hold."""
    return {
        "pattern": formats.pattern_left_out(tokenizer),
        "special_tokens": list(tokenizer.spec.special_tokens),
        "algorithm": tokenizer.spec.algorithm,
        "without_normalizer": True,
    }


def load(
    path: Path,
    *,
    pattern: SplitPattern | str | None = None,
    special_tokens: Sequence[str] | None = None,
    algorithm: WordPiece | None = None,
    without_normalizer: bool = False,
    uncased: bool = False,
    cased: bool = False,
) -> TokenizerSpec:
    """Read a vocab.txt.

    BERT's tokenizers clean, lower-case (or not) and split texts by their own rules. vocab.txt does
    not say which: the tokenizer_config.json in the same directory does, or you pass it.

    Args:
        special_tokens: by default those of BERT that are in the file.
        without_normalizer: encode texts as they are; needs ``pattern``.
        uncased, cased: clean and split texts as BERT's tokenizers do, with lower-casing or without.
    """
    content = text_of(read_bounded(path), path).replace("\r\n", "\n").removesuffix("\n")
    tokens = content.split("\n")
    if len(set(tokens)) != len(tokens):
        refuse(path, "holds a token twice", "expected one distinct token per line")
    flags = {"do_lower_case": uncased} if uncased or cased else _flags_beside(path)
    if flags is not None and pattern is None:
        spec = _of_bert(tokens, flags, path)
        formats.refuse_tokens_beside(path.parent, spec)
        return spec
    if pattern is None or not without_normalizer:
        _refuse_unsaid(path)
    is_guessed = special_tokens is None
    if special_tokens is None:
        special_tokens = [token for token in _BERTS if token in set(tokens)]
    vocab = {id_: token.encode() for id_, token in enumerate(tokens)}
    spec = TokenizerSpec.checked(
        vocab, [], special_tokens, pattern, algorithm=algorithm or WordPiece()
    )
    if is_guessed:
        formats.refuse_tokens_beside(path.parent, spec)
    return spec


def _of_bert(tokens: Sequence[str], flags: Mapping[str, Any], path: Path) -> TokenizerSpec:
    """Build the tokenizer that HuggingFace's BERT classes make of these flags."""
    ids = {token: id_ for id_, token in enumerate(tokens)}
    if missing := [token for token in _BERTS if token not in ids]:
        refuse(path, f"lacks {missing[0]}, which BERT's tokenizers add or use for unknown words")
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    document = {
        "added_tokens": [
            {"id": ids[token], "content": token, "special": True, **plain} for token in _BERTS
        ],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": flags.get("tokenize_chinese_chars", True),
            "strip_accents": flags.get("strip_accents"),
            "lowercase": flags.get("do_lower_case", True),
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "BertProcessing",
            "sep": ["[SEP]", ids["[SEP]"]],
            "cls": ["[CLS]", ids["[CLS]"]],
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": ids,
        },
    }
    return formats.spec_of(document, path)


def _flags_beside(path: Path) -> Mapping[str, Any] | None:
    """The tokenizer_config.json of a BERT class next to the vocab.txt, if any."""
    beside = path.with_name("tokenizer_config.json")
    config = json_of(read_bounded(beside), beside) if beside.exists() else None
    if not isinstance(config, dict) or "do_lower_case" not in config:
        return None
    return config


def _refuse_unsaid(path: Path) -> NoReturn:
    refuse(
        path,
        "does not say how texts are cleaned, lower-cased and split before lookup",
        "expected BERT's rules with or without lower-casing, or texts that are only split",
        f"name it where a command takes a tokenizer: {path},uncased or {path},cased, or "
        f"{path},without_normalizer,pattern=whitespace; in Python Tokenizer.load(PATH, "
        "uncased=True)",
    )


def parts_for_huggingface(tokenizer: TokenizerParts) -> dict[str, Any]:
    algorithm = tokenizer.spec.algorithm
    assert isinstance(algorithm, WordPiece)
    name, pipeline = tokenizer.spec.pattern.name, tokenizer.spec.pipeline
    pre_tokenizer = None if pipeline is None else pipeline.pre_tokenizer
    if pre_tokenizer is None and name not in _PRE_TOKENIZERS:
        raise InvalidTokenizer(
            f"words are split by the pattern {name or tokenizer.spec.pattern.regex!r}",
            f"expected the pattern {' or '.join(_PRE_TOKENIZERS)} for WordPiece in this format",
            "save it as 'bpeline'",
        )
    vocab = sorted(tokenizer.spec.model_vocab.items())
    return {
        "pre_tokenizer": pre_tokenizer or {"type": _PRE_TOKENIZERS[name or ""]},
        "decoder": {"type": "WordPiece", "prefix": algorithm.continuation, "cleanup": False},
        "model": models.WordPiece(
            unk_token=algorithm.unknown,
            continuing_subword_prefix=algorithm.continuation,
            max_input_chars_per_word=algorithm.max_word_characters,
            vocab={token.decode(): id_ for id_, token in vocab},
        ),
    }


def from_huggingface(
    model: models.WordPiece, pattern: SplitPattern, pipeline: Pipeline, path: Path
) -> TokenizerSpec:
    algorithm = WordPiece(
        model.continuing_subword_prefix, model.unk_token, model.max_input_chars_per_word
    )
    named = model.vocab

    def is_met(content: str) -> bool:
        return not pattern.parts(content.removeprefix(algorithm.continuation))

    pipeline = pipeline.with_model_tokens({*named}, (), is_met)
    formats.add_names(named, {token.content: token.id for token in pipeline.added_tokens}, path)
    vocab = formats.read_plain_vocab(named, path)
    return TokenizerSpec.checked(
        vocab, [], pipeline.special_tokens, pattern, algorithm=algorithm, pipeline=pipeline
    )
