"""The steps around the model of an imported tokenizer, as one value.

HuggingFace calls the whole a pipeline: normalizer, pre-tokenizer, model, post-processor,
decoder. The pre-tokenizer's cuts are the split pattern and the model is the algorithm; added
tokens and the decoder have modules of their own.
"""

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
    """The steps before and behind a model.

    Attributes:
        added_tokens: found in every text; those that are special unless a call says otherwise.
        normalizer: of what lies between added tokens.
        prefix: of each piece that is left then.
        template: ids around one text, where they are asked for.
        decoder: how tokens become text; None where their bytes are joined.
        carried: parts of a tokenizer.json as they were found, for exports: its pre-tokenizer, which
            the split pattern follows, and truncation and padding, which are never applied.
        model_tokens: ids of the added tokens that the model makes of text, too; None: those of
            single bytes and those that merges make.
    """

    added_tokens: tuple[AddedToken, ...] = ()
    normalizer: Normalizer | None = None
    prefix: Prefix | None = None
    template: PostProcessor | None = None
    decoder: DecoderSteps | None = None
    carried: Mapping[str, Any] | None = None
    model_tokens: tuple[int, ...] | None = None

    def described(self) -> dict[str, Any]:
        """The value as JSON, which `of_description` reads, without parts that are not there."""
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
        # For other processes: what its parts keep may be compiled there only.
        return type(self).of_description, (self.described(),)

    @property
    def shown(self) -> dict[int, bytes]:
        """What added tokens that are normalized before they are sought look like in text: by id."""
        if self.normalizer is None:
            return {}
        content = self.normalizer.content
        return {
            one.id: content(one.content.encode()) for one in self.added_tokens if one.normalized
        }

    def without_twins(self, vocab: Mapping[int, bytes]) -> Mapping[int, bytes]:
        """A vocab without the added tokens whose text is also that of an ordinary token.

        Merges make the ordinary one.
        """
        if isinstance(vocab, TokenTable) or len(set(vocab.values())) == len(vocab):
            return vocab  # as nearly always
        added = {token.id for token in self.added_tokens}
        others = {token for id_, token in vocab.items() if id_ not in added}
        return {id_: t for id_, t in vocab.items() if id_ not in added or t not in others}

    def with_model_tokens(
        self, vocab: Collection[str], merged: Collection[int], is_met: Callable[[str], bool]
    ) -> Pipeline:
        """The value with `model_tokens`, where their default is wrong.

        Args:
            vocab: tokens of the model.
            merged: ids that its merges make.
            is_met: whether the model may be given a token's text as a whole.
        """
        usual = {token.id for token in self.added_tokens if _is_usual(token, merged)}
        exact = {token.id for token in self.added_tokens if token.content in vocab}
        differing = [token.content for token in self.added_tokens if token.id in usual ^ exact]
        if not any(map(is_met, differing)):
            return self
        return replace(self, model_tokens=tuple(sorted(exact)))

    def hidden(self, merged: Collection[int]) -> set[int]:
        """Ids of added tokens that are found in texts, and that the model never makes.

        Args:
            merged: ids that merges make.
        """
        known = self.model_tokens
        return {
            token.id
            for token in self.added_tokens
            if not (_is_usual(token, merged) if known is None else token.id in known)
        }

    @property
    def behaviour(self) -> dict[str, Any]:
        """What of it decides ids or text beyond special tokens that a call allows; {} for nothing.

        What is carried decides nothing.
        """
        described = self.described()
        described.pop("carried", None)
        if not self.normalizer and all(map(_is_plain, self.added_tokens)):
            described.pop("added_tokens", None)
        return described

    @property
    def special_tokens(self) -> dict[str, int]:
        """The added tokens that are special: token → id."""
        return {token.content: token.id for token in self.added_tokens if token.special}

    @property
    def pre_tokenizer(self) -> Any:
        """As HuggingFace's JSON; None where the file had none, or was another."""
        return (self.carried or {}).get("pre_tokenizer")

    @property
    def lost_without(self) -> str:
        """What of it changes ids or text, for a reader who knows special tokens alone; or ""."""
        parts = {
            "a normalizer": self.normalizer,
            "a prefix of texts": self.prefix,
            "a decoder of its own": self.decoder,
            "added tokens that are found in every text": not all(map(_is_plain, self.added_tokens)),
        }
        return ", ".join(name for name, part in parts.items() if part)

    @cached_property
    def preparation(self) -> TextPreparation | None:
        """What is done to texts before they are cut; None for nothing.

        Raises:
            InvalidTokenizer: added tokens that cannot be told apart once they are normalized.
        """
        if not (self.added_tokens or self.normalizer or self.prefix):
            return None
        normalizer = self.normalizer
        if normalizer is None:
            return TextPreparation(self.added_tokens, prefix=self.prefix)
        each, many = normalizer.content, normalizer.contents
        return TextPreparation(self.added_tokens, each, self.prefix, many)

    @classmethod
    def of_description(cls, given: Any) -> Pipeline:
        """The value of JSON that `described` gave.

        Raises:
            InvalidTokenizer: anything else.
        """
        known = {"added_tokens", "normalizer", "prefix", "template", "decoder", "carried",
                 "model_tokens"}  # fmt: skip
        if not isinstance(given, Mapping) or given.keys() - known:
            raise InvalidTokenizer(
                f"the pipeline is described as {str(given)[:80]}",
                f"its parts are {', '.join(sorted(known))}",
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
    """Whether a model that is not known any better makes an added token of text, too."""
    return len(token.content.encode()) == 1 or token.id in merged


def _ids_of_description(given: Any) -> tuple[int, ...]:
    ids = given[0] if isinstance(given, list) and len(given) == 1 else None
    if not isinstance(ids, list) or set(map(type, ids)) - {int}:
        raise InvalidTokenizer(
            f"the added tokens of a model are {str(given)[:80]}",
            "a list of ids in a list",
            "save the tokenizer again from where it came",
        )
    return tuple(ids)


def _is_plain(token: AddedToken) -> bool:
    """Whether it is what our own special tokens are; without a normalizer all are sought alike."""
    return token.special and not (token.single_word or token.lstrip or token.rstrip)
