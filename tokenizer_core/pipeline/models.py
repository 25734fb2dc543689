"""Models of tokenizer.json: vocab, merges or scores, and flags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bpeline.tokenizer_core.pipeline.stages import InOrder, Part, Stage, Unfit


@dataclass(frozen=True, slots=True, kw_only=True)
class BPE(Stage):
    """Byte pair encoding over bytes or characters.

    Attributes:
        vocab: token → id.
        merges: pairs of tokens by rank, or strings with a space between.
    """

    kind = "BPE"
    dropout: float | None = None
    unk_token: str | None = None
    continuing_subword_prefix: str | None = None
    end_of_word_suffix: str | None = None
    fuse_unk: bool | None = False
    byte_fallback: bool | None = False
    ignore_merges: bool | None = False
    vocab: Any
    merges: Any

    def __post_init__(self) -> None:
        _require_names(self.vocab)
        for name in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"):
            if value := getattr(self, name):
                raise Unfit(f"sets {name} to {str(value)[:40]!r}", f"expected {name}: null")


@dataclass(frozen=True, slots=True, kw_only=True)
class WordPiece(Stage):
    """Longest match among beginnings and continuations of words."""

    kind = "WordPiece"
    unk_token: str = "[UNK]"
    continuing_subword_prefix: str = "##"
    max_input_chars_per_word: int = 100
    vocab: Any

    def __post_init__(self) -> None:
        _require_names(self.vocab)
        if self.unk_token not in self.vocab:
            raise Unfit(f"lacks its unknown token {self.unk_token[:40]!r} in the vocab")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unigram(Stage):
    """The segmentation with the highest sum of scores.

    Attributes:
        vocab: [token, score] by id.
    """

    kind = "Unigram"
    unk_id: int | None = None
    vocab: Any
    byte_fallback: bool = False


MODELS = Part[BPE | WordPiece | Unigram](
    "model", "", {one.kind: one for one in (BPE, WordPiece, Unigram)}
)


def kind_of_model(given: Any) -> str:
    """The type of a model; inferred for older files, which do not name it."""
    if not isinstance(given, dict) or "type" in given or "vocab" not in given:
        return str(given.get("type", "without type"))[:40] if isinstance(given, dict) else "none"
    if "merges" in given:
        return BPE.kind
    if isinstance(given["vocab"], list):
        return Unigram.kind
    return WordPiece.kind if "max_input_chars_per_word" in given else "WordLevel"


def read_model(given: Any) -> BPE | WordPiece | Unigram:
    model = MODELS.read({**given, "type": kind_of_model(given)})
    assert not isinstance(model, InOrder)
    return model


def _require_names(vocab: Any) -> None:
    if not isinstance(vocab, Mapping):
        raise Unfit("holds no vocab", "expected an object of token → id")
