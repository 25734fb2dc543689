"""The value of a tokenizer of words becomes an encoder and a decoder."""

from __future__ import annotations

from collections.abc import Mapping

from bpeline.tokenizer_core.algorithms.sentence_marks import SentenceMarks
from bpeline.tokenizer_core.algorithms.word_algorithms import (
    by_frequency,
    by_rank,
    longest_anywhere,
    longest_from_the_left,
)
from bpeline.tokenizer_core.algorithms.word_decoder import WordDecoder, shown_tokens
from bpeline.tokenizer_core.algorithms.word_encoder import WordEncoder
from bpeline.tokenizer_core.corpus import refuse_missing_library
from bpeline.tokenizer_core.errors import InvalidTokenizer
from bpeline.tokenizer_core.vocabulary import (
    ByteBpe,
    CharacterBpe,
    FrequencyBpe,
    GreedyLongest,
    OfWords,
    TokenizerSpec,
    WordPiece,
    shown,
)

_MARKS = "unknown", "line_begin", "line_end"
_RETRAIN = "train again, or load the files the vocab came from with Tokenizer.load(PATH)"


def assembled(spec: TokenizerSpec) -> tuple[WordEncoder, WordDecoder]:
    """The encoder and the decoder of a tokenizer of words.

    Raises:
        InvalidTokenizer: tokens that are not UTF-8, or marks of the algorithm that the vocab lacks.
        InvalidOption: sentences are to be found by a library that is not installed.
    """
    algorithm, ids, specials = spec.algorithm, spec.ids, spec.special_tokens
    assert not isinstance(algorithm, ByteBpe)
    marks = {
        name: _id_of_mark(algorithm, name, ids, specials)
        for name in _MARKS
        if hasattr(algorithm, name)
    }
    spelled = _spelled({token: id_ for token, id_ in ids.items() if id_ not in marks.values()})
    merged = [_spelled_merge(rank, merge) for rank, merge in enumerate(spec.merges)]
    match algorithm:
        case CharacterBpe():
            words = by_rank(algorithm, spelled, merged, marks["unknown"])
        case FrequencyBpe():
            _check_frequencies(algorithm, spelled)
            words = by_frequency(algorithm, spelled, marks["unknown"])
        case WordPiece():
            words = longest_from_the_left(algorithm, spelled, marks["unknown"])
        case GreedyLongest():
            words = longest_anywhere(algorithm, spelled, marks["unknown"])
    gap = b" " if spec.pattern.drops_gaps else b""  # else words hold the spaces between them
    whole = frozenset([*specials.values(), *marks.values()])
    shown_as = shown_tokens(algorithm, spec.vocab, whole, gap)
    return (
        WordEncoder(words, spec.pattern, _sentence_marks(algorithm, marks)),
        WordDecoder(shown_as, spaced=spec.pattern.drops_gaps),
    )


def _sentence_marks(algorithm: OfWords, marks: dict[str, int]) -> SentenceMarks | None:
    if not isinstance(algorithm, FrequencyBpe) or algorithm.sentences == "none":
        return None
    refuse_missing_library(algorithm.sentences)
    return SentenceMarks(algorithm.sentences, marks["line_begin"], marks["line_end"])


def _id_of_mark(
    algorithm: OfWords, name: str, ids: Mapping[bytes, int], specials: Mapping[str, int]
) -> int:
    mark = getattr(algorithm, name)
    id_ = specials.get(mark, ids.get(mark.encode()))
    if id_ is None:
        raise InvalidTokenizer(
            f"the vocab lacks {shown(mark)}, the {name} token of {algorithm.name}",
            "each mark of an algorithm is a token of the vocab",
            f"add it to the vocab, or name another one: {name}=...",
        )
    return id_


def _spelled(ids: Mapping[bytes, int]) -> dict[str, int]:
    try:
        return {token.decode(): id_ for token, id_ in ids.items()}
    except UnicodeDecodeError as error:
        raise InvalidTokenizer(
            f"the token {shown(error.object)} is not UTF-8",
            "tokens of this algorithm are made of characters",
            _RETRAIN,
        ) from None


def _spelled_merge(rank: int, merge: tuple[bytes, bytes]) -> tuple[str, str]:
    left, right = merge
    try:
        return left.decode(), right.decode()
    except UnicodeDecodeError as error:
        raise InvalidTokenizer(
            f"merge {rank} joins {shown(error.object)}, which is not UTF-8",
            "tokens of this algorithm are made of characters",
            _RETRAIN,
        ) from None


def _check_frequencies(algorithm: FrequencyBpe, ids: Mapping[str, int]) -> None:
    for token, frequency in algorithm.frequencies:
        if token not in ids or not 0 < frequency < 1 << 63:
            raise InvalidTokenizer(
                f"the token {shown(token)} has the frequency {frequency}",
                "tokens of the vocab have frequencies from 1 to 2⁶³ − 1",
                _RETRAIN,
            )
