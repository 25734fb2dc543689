"""Unigram: the pieces of greatest total score, as in T5, XLM-R and ALBERT.

``tokenizers`` and ``sentencepiece`` differ on texts with several paths of nearly equal score, so
the file format decides which one is followed. ``tokenizers``: every vocab entry can be a piece,
also special tokens, and sums are double precision. ``sentencepiece``: control, byte and unused
pieces never match, and sums are rounded to single precision.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core import encoding, formats
from bpeline.tokenizer_core.algorithms import sentencepiece_model as proto
from bpeline.tokenizer_core.algorithms.kernels import unigram as kernels
from bpeline.tokenizer_core.algorithms.sentencepiece_bpe import ModelDecoder
from bpeline.tokenizer_core.algorithms.sentencepiece_bpe_encoder import WHOLE_TEXT
from bpeline.tokenizer_core.bounded_files import refuse
from bpeline.tokenizer_core.encoding import Decoder, TokenizerParts
from bpeline.tokenizer_core.errors import InvalidTokenizer, UnknownToken
from bpeline.tokenizer_core.kernels.encoding import token_tables
from bpeline.tokenizer_core.pipeline import (
    PRE_TOKENIZERS,
    Normalizer,
    Pipeline,
    SentencePieceText,
    mark_of_words,
    models,
)
from bpeline.tokenizer_core.splitting import SplitPattern
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.tokenizer_spec import Algorithm, TokenizerSpec
from bpeline.tokenizer_core.vocabulary import shown
from bpeline.tokenizer_core.word_encoding import Decide, Decision, WordAlgorithm, WordEncoder

TOKENIZERS, SENTENCEPIECE = "tokenizers", "sentencepiece"
_PENALTY = 10.0  # the score of unknown text is the lowest score minus this
_PER_BYTE = 0.1  # score of user-defined pieces per byte after the first
_BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
_SUPPORTED = "expected the vocab as a list of [token, score], unk_id and byte_fallback"


@dataclass(frozen=True, slots=True)
class Unigram(Algorithm):
    """The path of greatest total score through the pieces of each pre-token.

    Of paths with equal scores the one whose last piece begins further left wins, and so on
    backwards. A character that is not a piece by itself can be unknown; a run of unknown characters
    becomes byte tokens if the vocab has all of them, else one unknown token.

    Attributes:
        scores: base64 of little-endian float64 per token, in ascending order of id; NaN for tokens
            that never match in text.
        unknown_score: the score of each unknown character.
        unknown: the token for unknown characters; empty: encoding them raises.
        byte_fallback: encode unknown characters as byte tokens, ``<0xE2>`` ….
        mark: put before each pre-token that does not begin with it; empty for none.
        rule: the library to follow: ``tokenizers`` or ``sentencepiece``.
    """

    name: ClassVar[str] = "unigram"
    default_pattern: ClassVar[str] = WHOLE_TEXT
    scores: str = ""
    unknown_score: float = 0.0
    unknown: str = ""
    byte_fallback: bool = False
    mark: str = ""
    rule: str = TOKENIZERS

    @classmethod
    def of_description(cls, given: Mapping[str, Any]) -> Self | None:
        algorithm = super(Unigram, cls).of_description(given)
        if algorithm is None or algorithm.rule not in (TOKENIZERS, SENTENCEPIECE):
            return None
        try:
            is_whole = len(base64.b64decode(algorithm.scores, validate=True)) % 8 == 0
        except ValueError:
            return None
        return algorithm if is_whole and math.isfinite(algorithm.unknown_score) else None

    def scores_of(self, vocab: Mapping[int, bytes]) -> dict[int, float]:
        """The scores by id of the tokens that can match in text."""
        scores = np.frombuffer(base64.b64decode(self.scores), "<f8")
        if len(scores) != len(vocab):
            raise InvalidTokenizer(
                f"there are {len(scores)} scores for {len(vocab)} tokens",
                "expected one score per token of the vocab",
                "load the file that the tokenizer came from with Tokenizer.load(PATH)",
            )
        named = zip(sorted(vocab), scores.tolist(), strict=True)
        return {id_: score for id_, score in named if not math.isnan(score)}


KIND = Unigram


def _kept(vocab: Mapping[int, bytes], scores: Mapping[int, float]) -> str:
    return base64.b64encode(
        np.array([scores.get(id_, math.nan) for id_ in sorted(vocab)], "<f8").tobytes()
    ).decode()


@dataclass(frozen=True, slots=True, eq=False)
class _Pieces:
    """The vocab as arrays for the kernel."""

    trie: NDArray[np.uint64]
    tokens: NDArray[np.uint64]
    scores: NDArray[np.float64]
    byte_ids: NDArray[np.int32]
    rules: NDArray[np.int64]
    unknown_score: float
    mark: NDArray[np.uint8]

    def find(
        self,
        text: NDArray[np.uint8],
        places: NDArray[np.int64],
        lengths: NDArray[np.int64],
        *pieces: NDArray[Any],
    ) -> None:
        """Encode words; a kernel of `WordAlgorithm`, see `find_best_paths`."""
        longest = int(lengths.max(initial=0)) + len(self.mark)
        tables = self.trie, self.tokens, self.scores, self.byte_ids, self.rules
        room = np.empty(longest + 8, np.uint8), np.empty(longest + 1), np.empty(longest + 1, "i8")
        if not kernels.find_best_paths(
            text, places, lengths, *tables, self.unknown_score, self.mark, *room, *pieces
        ):
            raise UnknownToken(
                "the text holds unknown characters, and the tokenizer has no unknown token",
                "expected texts of known characters",
                "load a tokenizer with an unk_id",
            )


def _pieces_of(spec: TokenizerSpec, algorithm: Unigram) -> _Pieces:
    vocab = spec.spelled_vocab
    scores = algorithm.scores_of(vocab)
    contents = {id_: vocab[id_] for id_ in scores}
    for id_, content in vocab.items():
        try:
            content.decode()
        except UnicodeDecodeError:
            _refuse(
                f"the token {shown(content)} (id {id_}) is not UTF-8",
                "expected tokens made of characters",
            )
    single = {content[0]: id_ for id_, content in contents.items() if len(content) == 1}
    longer = [id_ for id_, content in contents.items() if len(content) > 1]
    if 256 + len(longer) > token_tables.MAX_TOKENS:
        _refuse(
            f"the vocab holds {len(scores)} pieces",
            f"expected up to {token_tables.MAX_TOKENS - 256}",
        )
    text = Text.of(bytes(range(256)) + b"".join(contents[id_] for id_ in longer)).data
    lengths = np.array([1] * 256 + [len(contents[id_]) for id_ in longer], np.int64)
    ids = np.array([single.get(byte, 0) for byte in range(256)] + longer, np.uint64)
    of_bytes = [scores[single[byte]] if byte in single else math.nan for byte in range(256)]
    ends = np.cumsum(lengths)
    heads = text[(ends - lengths)[256:]].astype(np.int64)
    built = encoding.trie_of_tokens(text, ends, heads)
    if built is None:
        _refuse(
            "the vocab holds too many distinct beginnings of pieces",
            "expected a smaller vocabulary",
        )
    trie, shorter = built
    tokens = np.zeros((len(ids), token_tables.TOKEN // 8), np.uint64)
    tokens[:, 0] = ids | lengths.astype(np.uint64) << token_tables.LENGTH_SHIFT
    tokens[:, 0] |= shorter.astype(np.uint64) << token_tables.SHORTER_SHIFT
    named = {content: id_ for id_, content in vocab.items()}
    byte_ids = [named.get(name.encode(), -1) if algorithm.byte_fallback else -1 for name in _BYTES]
    unknown = named.get(algorithm.unknown.encode(), -1) if algorithm.unknown else -1
    by_model = algorithm.rule == SENTENCEPIECE
    return _Pieces(
        trie,
        tokens.reshape(-1),
        np.array(of_bytes + [scores[id_] for id_ in longer]),
        np.array(byte_ids, np.int32),
        np.array([unknown, by_model, not by_model], np.int64),
        algorithm.unknown_score,
        np.array([*algorithm.mark.encode()], np.uint8),
    )


def coders(spec: TokenizerSpec) -> tuple[WordEncoder, Decoder]:
    algorithm = spec.algorithm
    assert isinstance(algorithm, Unigram)
    mark = len(algorithm.mark.encode())
    words = WordAlgorithm(_pieces_of(spec, algorithm).find, (), more=mark)
    encoder = WordEncoder(words, spec.pattern)
    steps = spec.pipeline.normalizer.steps if spec.pipeline and spec.pipeline.normalizer else ()
    if len(steps) == 1 and isinstance(steps[0], SentencePieceText):
        if algorithm.unknown not in spec.special_tokens:
            _refuse(
                "the model has no unknown piece", "expected a special token for unknown characters"
            )
        return encoder, ModelDecoder(spec, steps[0], algorithm.unknown, algorithm.byte_fallback)
    return encoder, Decoder(spec.vocab)


def explained(spec: TokenizerSpec) -> Decide:
    """Explain pre-tokens (possibly whole texts) after normalization."""
    algorithm = spec.algorithm
    assert isinstance(algorithm, Unigram)
    vocab = spec.spelled_vocab
    scores = {vocab[id_].decode(): value for id_, value in algorithm.scores_of(vocab).items()}
    longest = max(map(len, scores), default=0)
    rounded = np.float32 if algorithm.rule == SENTENCEPIECE else np.float64

    def best_path(word: str) -> list[str]:
        best: list[tuple[Any, int] | None] = [(rounded(0), 0), *[None] * len(word)]
        for begin in range(len(word)):
            here = best[begin]
            assert here is not None
            ends = range(begin + 1, min(begin + longest, len(word)) + 1)
            score_of_end = {end: scores.get(word[begin:end]) for end in ends}
            if score_of_end.get(begin + 1) is None:
                score_of_end[begin + 1] = algorithm.unknown_score
            for end, score in score_of_end.items():
                candidate = None if score is None else rounded(float(here[0]) + score)
                there = best[end]
                if candidate is not None and (there is None or candidate > there[0]):
                    best[end] = candidate, begin
        path, end = list[str](), len(word)
        while end:
            link = best[end]
            assert link is not None
            path.insert(0, word[link[1] : end])
            end = link[1]
        return path

    def decide(word: str) -> Iterator[Decision]:
        if algorithm.mark and not word.startswith(algorithm.mark):
            word = algorithm.mark + word
        pieces = best_path(word)
        for number, piece in enumerate(pieces):
            why = f"score {scores[piece]:.4f}" if piece in scores else "unknown"
            rest = "".join(pieces[number + 1 :])
            symbols = (*pieces[: number + 1], rest) if rest else tuple(pieces)
            yield Decision(why, (piece,), symbols)

    return decide


def spec_of_model(
    model: proto.SentencePieceModel, text: SentencePieceText, path: Path
) -> TokenizerSpec:
    normal = {id_: piece.score for id_, piece in model.of_kinds(proto.NORMAL).items()}
    if not normal:
        refuse(path, "has no normal pieces", "expected a model written by spm_train")
    scores = normal | {
        id_: float(np.float32((len(piece.text.encode()) - 1) * _PER_BYTE))
        for id_, piece in model.of_kinds(proto.USER_DEFINED).items()
    }
    vocab = {id_: piece.text.encode() for id_, piece in enumerate(model.pieces)}
    return TokenizerSpec.checked(
        vocab,
        [],
        {piece.text: id_ for id_, piece in model.of_kinds(proto.CONTROL, proto.UNKNOWN).items()},
        algorithm=Unigram(
            _kept(vocab, scores),
            float(np.float32(min(normal.values())) - np.float32(_PENALTY)),
            model.pieces[model.unknown].text,
            model.byte_fallback,
            rule=SENTENCEPIECE,
        ),
        pipeline=Pipeline(normalizer=Normalizer((text,))),
    )


def names_of(vocab: Any, path: Path) -> dict[str, int]:
    """Token → id of the vocab of a tokenizer.json, a list of [token, score]."""
    pairs = vocab if isinstance(vocab, list) else [None]
    for id_, pair in enumerate(pairs):
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
            refuse(path, f"has no [token, score] as number {id_} of its vocab", _SUPPORTED)
        score = pair[1]
        if not isinstance(score, int | float) or isinstance(score, bool) or not _is_finite(score):
            refuse(
                path, f"gives {shown(pair[0])} the score {shown(score)}", "expected finite scores"
            )
    named = {token: id_ for id_, (token, _) in enumerate(pairs)}
    if "" in named:
        refuse(path, "has a token without text", "expected tokens of at least one character")
    if len(named) < len(pairs):
        twice = next(token for id_, (token, _) in enumerate(pairs) if named[token] != id_)
        refuse(path, f"has the token {shown(twice)} twice", "expected distinct tokens")
    return named


def _is_finite(score: float) -> bool:
    try:
        return math.isfinite(score)
    except OverflowError:  # an integer too large for a float
        return False


def from_huggingface(
    model: models.Unigram, pattern: SplitPattern, pipeline: Pipeline, path: Path
) -> TokenizerSpec:
    named, unk_id = names_of(model.vocab, path), model.unk_id
    if not named:
        refuse(path, "has an empty vocab", "expected at least one token")
    if unk_id is not None and unk_id not in range(len(named)):
        refuse(path, f"has the unk_id {shown(unk_id)}", "expected the id of a token, or null")
    scores = {id_: float(score) for id_, (_, score) in enumerate(model.vocab)}
    unknown_token = "" if unk_id is None else model.vocab[unk_id][0]
    pipeline = pipeline.with_model_tokens({*named}, (), lambda _: True)
    formats.add_names(named, {token.content: token.id for token in pipeline.added_tokens}, path)
    vocab = formats.read_plain_vocab(named, path)
    return TokenizerSpec.checked(
        vocab,
        [],
        pipeline.special_tokens,
        pattern,
        algorithm=Unigram(
            _kept(vocab, scores),
            min(scores.values()) - _PENALTY,
            unknown_token,
            model.byte_fallback,
            mark_of_words(PRE_TOKENIZERS.steps(pipeline.pre_tokenizer)),
        ),
        pipeline=pipeline,
    )


def parts_for_huggingface(tokenizer: TokenizerParts) -> dict[str, Any]:
    spec, algorithm = tokenizer.spec, tokenizer.spec.algorithm
    assert isinstance(algorithm, Unigram)
    if algorithm.rule == SENTENCEPIECE or spec.pipeline is None:
        raise InvalidTokenizer(
            "this tokenizer is a SentencePiece model",
            "expected another format: tokenizers sums scores differently, so some ids would differ",
            "save it as 'bpeline'",
        )
    vocab = spec.spelled_vocab
    scores = algorithm.scores_of(vocab)
    named = {vocab[id_].decode(): id_ for id_ in sorted(scores)}
    return {
        "pre_tokenizer": spec.pipeline.pre_tokenizer,
        "decoder": None,
        "model": models.Unigram(
            unk_id=named.get(algorithm.unknown),
            vocab=[[token, _written(scores[id_])] for token, id_ in named.items()],
            byte_fallback=algorithm.byte_fallback,
        ),
    }


def _written(score: float) -> float:
    """The float whose digits ``tokenizers`` parses as this score."""
    candidates = (score, *(math.nextafter(score, limit) for limit in (-math.inf, math.inf)))
    read = (number for number in candidates if formats.number_as_serde(repr(number)) == score)
    return next(read, score)


def _refuse(happened: str, accepted: str) -> NoReturn:
    raise InvalidTokenizer(happened, accepted, "use the library that it was made for")
