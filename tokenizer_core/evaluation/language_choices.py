"""One tokenizer for several languages, or one for each: what either choice costs, in figures.

Joint: their words are counted together, and equal words are cut alike. Separate: each language
has a smaller vocabulary of its own, all of which it uses. (Sennrich et al. 2016, section 3.2.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.arguments import checked
from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.derived import token_counts
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.tables import Table
from bpeline.tokenizer_core.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class LanguageFigures:
    """One language under one choice.

    Attributes:
        tokens: of the tokenizer, special tokens and the unknown one left out.
        used: how many of them stand in the words of this language.
        unseen: how many do not, although the tokenizer has them.
        tokens_per_word: mean over all occurrences of words.
    """

    tokens: int
    used: int
    unseen: int
    tokens_per_word: float


@dataclass(frozen=True, slots=True)
class Choice:
    """All languages under one choice.

    Attributes:
        languages: by name.
        ids: of the tokenizer, or of all of them together.
        overlap: tokens that stand in the words of every language.
        split_alike: how many of the shared words are cut into the same tokens in every language.
    """

    languages: Mapping[str, LanguageFigures]
    ids: int
    overlap: int
    split_alike: int


@dataclass(frozen=True, slots=True)
class LanguageChoices:
    """Both choices for the same words.

    Attributes:
        joint, separate: the choices.
        shared_words: distinct words that every language has.
    """

    joint: Choice
    separate: Choice
    shared_words: int

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)

    def rows(self) -> list[tuple[str, str, str]]:
        """What the table shows: title, joint, separate."""
        joint, apart = self.joint, self.separate
        figures: list[tuple[str, float, float]] = [("ids in all", joint.ids, apart.ids)]
        for name, mine in joint.languages.items():
            theirs = apart.languages[name]
            figures += [
                (f"{name}: tokens", mine.tokens, theirs.tokens),
                (f"{name}: used in its words", mine.used, theirs.used),
                (f"{name}: unseen in its words", mine.unseen, theirs.unseen),
                (f"{name}: tokens per word", mine.tokens_per_word, theirs.tokens_per_word),
            ]
        alike = f"of {self.shared_words:,} shared words, cut alike"
        figures += [
            ("used in every language", joint.overlap, apart.overlap),
            (alike, joint.split_alike, apart.split_alike),
        ]
        return [(title, _shown(first), _shown(second)) for title, first, second in figures]

    def as_text(self) -> str:
        """The table for a terminal."""
        return "\n".join(Table(("", "joint", "separate"), self.rows()).lines())


@checked
def compare_choices(
    words: Mapping[str, WordCounts], joint: Tokenizer, separate: Mapping[str, Tokenizer]
) -> LanguageChoices:
    """Compare both choices on the words they were trained on.

    Args:
        words: of each language.
        joint: trained on the words of all.
        separate: of each language, trained on its words.

    Raises:
        InvalidOption: no language, or other ones.
    """
    if not words or words.keys() != separate.keys():
        raise InvalidOption(
            f"there are words of {', '.join(words) or 'no language'}, and tokenizers of "
            f"{', '.join(separate) or 'none'}",
            "words and a tokenizer of each language",
            "give both the same names",
        )
    shared = reduce(set.intersection, (set(counts.words()) for counts in words.values()))
    listed = sorted(shared)
    together = dict.fromkeys(words, joint)
    return LanguageChoices(
        _choice(words, together, listed, joint.vocab_size),
        _choice(words, separate, listed, sum(one.vocab_size for one in separate.values())),
        len(listed),
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
        found = tokens[occurrences[tokens] > 0]
        used.append({tokenizer.vocab[id_] for id_ in found.tolist()})
        figures[name] = LanguageFigures(
            len(tokens),
            len(found),
            len(tokens) - len(found),
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
    """The tokens of each word."""
    ids, ends = tokenizer.encoder.encode_words(words)
    tokens = [tokenizer.vocab[id_] for id_ in ids.tolist()]
    return [tokens[begin:end] for begin, end in pairwise([0, *ends.tolist()])]


def _shown(figure: float) -> str:
    return f"{figure:,}" if isinstance(figure, int) else f"{figure:.4f}"
