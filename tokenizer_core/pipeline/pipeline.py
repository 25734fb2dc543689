"""The pipeline of an imported tokenizer: all stages around its model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from bpeline.tokenizer_core.errors import InvalidTokenizer
from bpeline.tokenizer_core.pipeline.added_tokens import AddedToken
from bpeline.tokenizer_core.pipeline.decoder import DecoderSteps
from bpeline.tokenizer_core.pipeline.normalizer import Normalizer
from bpeline.tokenizer_core.pipeline.post_processor import PostProcessor
from bpeline.tokenizer_core.pipeline.pre_tokenizer import Prefix
from bpeline.tokenizer_core.pipeline.preparation import TextPreparation
from bpeline.tokenizer_core.vocabulary import TokenTable


@dataclass(frozen=True)
class Pipeline:
    """The stages around a model. The pre-tokenizer is the split pattern of the spec.

    Attributes:
        prefix: added to each piece after normalization.
        template: the post-processor, used with ``add_special_tokens``.
        decoder: None joins the bytes of tokens.
        carried: parts of a tokenizer.json that are only kept for exports: its pre-tokenizer,
            truncation and padding.
        model_tokens: ids of added tokens that the model can also produce; None: those of single
            bytes and those that merges produce.
    """

    added_tokens: tuple[AddedToken, ...] = ()
    normalizer: Normalizer | None = None
    prefix: Prefix | None = None
    template: PostProcessor | None = None
    decoder: DecoderSteps | None = None
    carried: Mapping[str, Any] | None = None
    model_tokens: tuple[int, ...] | None = None

    def described(self) -> dict[str, Any]:
        parts = {
            "added_tokens": [token.described() for token in self.added_tokens],
            "normalizer": self.normalizer and self.normalizer.described(),
            "prefix": self.prefix and self.prefix.described(),
            "template": self.template and self.template.described(),
            "decoder": self.decoder and [self.decoder.described()],
            "carried": self.carried,
            "model_tokens": None if self.model_tokens is None else [[*self.model_tokens]],
        }
        return {name: part for name, part in parts.items() if part}

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickle the description: cached values may hold compiled code.
        return type(self).of_description, (self.described(),)

    @property
    def shown(self) -> dict[int, bytes]:
        """id → text of the added tokens that are matched after normalization."""
        if self.normalizer is None:
            return {}
        content = self.normalizer.content
        return {
            token.id: content(token.content.encode())
            for token in self.added_tokens
            if token.normalized
        }

    def without_twins(self, vocab: Mapping[int, bytes]) -> Mapping[int, bytes]:
        """A vocab without added tokens whose text is also an ordinary token."""
        if isinstance(vocab, TokenTable) or len(set(vocab.values())) == len(vocab):
            return vocab
        added = {token.id for token in self.added_tokens}
        others = {token for id_, token in vocab.items() if id_ not in added}
        return {id_: t for id_, t in vocab.items() if id_ not in added or t not in others}

    def with_model_tokens(
        self, vocab: Collection[str], merged: Collection[int], is_met: Callable[[str], bool]
    ) -> Pipeline:
        """Set `model_tokens` if the default is wrong.

        ``vocab`` are tokens of the model, ``merged`` ids that merges produce; ``is_met`` tells
        whether the model may see the whole text of a token.
        """
        usual = {token.id for token in self.added_tokens if _is_usual(token, merged)}
        exact = {token.id for token in self.added_tokens if token.content in vocab}
        differing = [token.content for token in self.added_tokens if token.id in usual ^ exact]
        if not any(map(is_met, differing)):
            return self
        return replace(self, model_tokens=tuple(sorted(exact)))

    def hidden(self, merged: Collection[int]) -> set[int]:
        """Ids of added tokens that the model never produces; ``merged`` are ids of merges."""
        model_tokens = self.model_tokens
        return {
            token.id
            for token in self.added_tokens
            if not (_is_usual(token, merged) if model_tokens is None else token.id in model_tokens)
        }

    @property
    def behaviour(self) -> dict[str, Any]:
        """Description of what decides ids or text besides special tokens."""
        described = self.described()
        described.pop("carried", None)
        if not self.normalizer and all(map(_is_plain, self.added_tokens)):
            described.pop("added_tokens", None)
        return described

    @property
    def special_tokens(self) -> dict[str, int]:
        return {token.content: token.id for token in self.added_tokens if token.special}

    @property
    def pre_tokenizer(self) -> Any:
        """HuggingFace's JSON of the pre-tokenizer, if the file had one."""
        return (self.carried or {}).get("pre_tokenizer")

    @property
    def lost_without(self) -> str:
        """Parts that a format with only special tokens would lose, as text; or ""."""
        parts = {
            "a normalizer": self.normalizer,
            "a prefix of texts": self.prefix,
            "a decoder of its own": self.decoder,
            "added tokens that are found in every text": not all(map(_is_plain, self.added_tokens)),
        }
        return ", ".join(name for name, part in parts.items() if part)

    @cached_property
    def preparation(self) -> TextPreparation | None:
        """The `TextPreparation`; None if texts are not changed."""
        if not (self.added_tokens or self.normalizer or self.prefix):
            return None
        normalizer = self.normalizer
        if normalizer is None:
            return TextPreparation(self.added_tokens, prefix=self.prefix)
        each, many = normalizer.content, normalizer.contents
        return TextPreparation(self.added_tokens, each, self.prefix, many)

    @classmethod
    def of_description(cls, given: Any) -> Pipeline:
        names = {"added_tokens", "normalizer", "prefix", "template", "decoder", "carried",
                 "model_tokens"}  # fmt: skip
        if not isinstance(given, Mapping) or given.keys() - names:
            raise InvalidTokenizer(
                f"the pipeline is invalid: {str(given)[:80]}",
                f"expected an object with {', '.join(sorted(names))}",
                "upgrade bpeline, or export the tokenizer again",
            )
        return cls(
            tuple(AddedToken.of_description(token) for token in given.get("added_tokens", ())),
            Normalizer.of_description(given["normalizer"]) if "normalizer" in given else None,
            Prefix.of_description(given["prefix"]) if "prefix" in given else None,
            PostProcessor.of_description(given["template"]) if "template" in given else None,
            DecoderSteps.of_description(given["decoder"][0]) if "decoder" in given else None,
            given.get("carried"),
            _ids_of_description(given["model_tokens"]) if "model_tokens" in given else None,
        )


def _is_usual(token: AddedToken, merged: Collection[int]) -> bool:
    """Default of whether the model can also produce an added token."""
    return len(token.content.encode()) == 1 or token.id in merged


def _ids_of_description(given: Any) -> tuple[int, ...]:
    ids = given[0] if isinstance(given, list) and len(given) == 1 else None
    if not isinstance(ids, list) or set(map(type, ids)) - {int}:
        raise InvalidTokenizer(
            f"the added tokens of a model are {str(given)[:80]}",
            "expected a list of ids in a list",
            "save the tokenizer again",
        )
    return tuple(ids)


def _is_plain(token: AddedToken) -> bool:
    """Whether it is matched like bpeline's own special tokens."""
    return token.special and not (token.single_word or token.lstrip or token.rstrip)
