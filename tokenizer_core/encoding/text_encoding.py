"""What is known of one text beyond its ids: where they stand, what fits, how they came about.

The step between `TokenizerModel`, which encodes nothing, and `Tokenizer`.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.algorithms import PlacedIds, WordEncoder, longest_prefix_of_words
from bpeline.tokenizer_core.corpus import Cuts
from bpeline.tokenizer_core.encoding.explanation import ExplainedPreToken, Explainer
from bpeline.tokenizer_core.encoding.long_texts import encode_long
from bpeline.tokenizer_core.encoding.offsets import (
    EncodingWithOffsets,
    beginning_of,
    encoding_with_offsets,
)
from bpeline.tokenizer_core.encoding.special_policy import (
    SpecialPolicies,
    SpecialPolicy,
    spans_between,
)
from bpeline.tokenizer_core.encoding.text_input import refuse_invalid_utf8, utf8_of
from bpeline.tokenizer_core.encoding.truncation import longest_prefix
from bpeline.tokenizer_core.model import TokenizerModel
from bpeline.tokenizer_core.splitting import SplitPattern
from bpeline.tokenizer_core.text import Text

AllowedSpecial = Literal["none", "all"] | Collection[str]
OnSpecial = Literal["text", "error"]


class TextEncoding(TokenizerModel):
    """The part of `Tokenizer` that looks at one text: see there."""

    def encode_with_offsets(
        self,
        text: str,
        allowed_special: AllowedSpecial = "none",
        on_special: OnSpecial = "text",
    ) -> EncodingWithOffsets:
        """Token ids of ``text``, and where in the text each of them stands.

        Byte offsets lie end to end and cover the text. A token may hold a part of a character
        only: its character offsets are those of all the characters it touches, so neighbours
        overlap then.

        Raises:
            TypeError, InvalidSpecialToken, InvalidOption: as `encode`.
        """
        if self.words is not None:
            content = utf8_of(text)
            policy = self._policies.of(allowed_special, on_special)
            policy.refuse_forbidden(content.decode())
            placed = _placed(self.words, content, policy)
            return encoding_with_offsets(text, placed.ids, placed.places)
        ids = self._ids_of(text, allowed_special, on_special)
        lengths = self._decoder.lengths(ids)
        ends = np.cumsum(lengths)
        return encoding_with_offsets(text, ids, np.stack((ends - lengths, ends), axis=1))

    def truncate(
        self,
        text: str,
        max_tokens: int,
        allowed_special: AllowedSpecial = "none",
        on_special: OnSpecial = "text",
    ) -> str:
        """The longest prefix of ``text`` that `encode` turns into at most ``max_tokens`` ids.

        It never splits a character. Its ids are not always the first ids of the whole text: a
        prefix may end inside a token, or join what the whole text keeps apart. In a stretch of
        more than 4 KiB in which nothing surely parts two pre-tokens (anywhere, with a pattern that
        no automaton runs) the prefix fits, but a slightly longer one may fit as well. Where text
        is encoded word by word (`tokenizer_core.algorithms`) it is the longest one that ends with
        a word.

        Raises:
            InvalidOption: ``max_tokens`` is negative.
            TypeError, InvalidSpecialToken, InvalidOption: as `encode`.
        """
        policy = self._policies.of(allowed_special, on_special)
        content = utf8_of(text)
        policy.refuse_forbidden(text)
        recognized = tuple(policy.allowed)
        if self.words is not None:

            def count(prefix: bytes) -> int:
                return len(self._ids_of(prefix, recognized, "text"))

            placed = _placed(self.words, content, policy)
            prefix = longest_prefix_of_words(content, max_tokens, placed, count)
            return beginning_of(text, len(prefix))

        def ends_of(part: bytes) -> NDArray[np.int64]:
            return np.cumsum(self._decoder.lengths(self._ids_of(part, recognized, "text")))

        allowed = tuple(token.encode() for token in recognized)
        cuts = Cuts(pairs=self._pattern.cut_pairs, special_tokens=allowed)
        prefix = longest_prefix(content, max_tokens, ends_of, self._decoder.longest, cuts)
        return beginning_of(text, len(prefix))

    def explain(self, text: str) -> list[ExplainedPreToken]:
        """For each pre-token of ``text`` the merges that fired, in their order, and its ids.

        Special tokens are ordinary text. For people: slow, and made for texts they can read.

        Raises:
            TypeError: ``text`` is not a string.
        """
        return self.explainer.explain(utf8_of(text))

    def _ids_of(
        self,
        text: str | bytes,
        allowed_special: AllowedSpecial,
        on_special: OnSpecial,
        threads: int | None = 1,
    ) -> NDArray[np.uint32]:
        """Token ids of a string, or of bytes, which are checked to be UTF-8."""
        unchecked = isinstance(text, bytes)
        content = text if isinstance(text, bytes) else utf8_of(text)
        if allowed_special == "none" and on_special == "text":
            return encode_long(self.encoder, content, self._cutting, threads, unchecked)
        whole = Text.of(content)
        if unchecked:
            refuse_invalid_utf8(whole)
        policy = self._policies.of(allowed_special, on_special)
        policy.refuse_forbidden(content.decode() if policy.forbidden else "")
        ids, _ = self.encoder.encode(whole, *spans_between(whole, 0, whole.size, policy))
        return ids.copy()  # the array it is cut from is much larger

    @cached_property
    def _policies(self) -> SpecialPolicies:
        return SpecialPolicies(self._special_tokens)

    @property
    def _cutting(self) -> SplitPattern | None:
        """Says where ids on both sides of a cut are independent; None where they never are."""
        in_sentences = self.words is not None and self.words.sentences is not None
        return None if in_sentences else self._pattern

    @cached_property
    def explainer(self) -> Explainer:
        """Shows how texts and single tokens came about, by merges of bytes.

        Raises:
            InvalidOption: this tokenizer follows another algorithm.
        """
        return Explainer(
            self.byte_pairs.byte_ids,
            self.byte_pairs.merge_ids,
            self._ids,
            self._pattern,
            self._ignore_merges,
        )


def _placed(words: WordEncoder, content: bytes, policy: SpecialPolicy) -> PlacedIds:
    whole = Text.of(content)
    return words.placed(whole, *spans_between(whole, 0, whole.size, policy))
