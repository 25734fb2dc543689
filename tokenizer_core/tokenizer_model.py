"""What a tokenizer is: vocab, merges, special tokens, pattern, digest; and its ids as text again.

Knows nothing of how text becomes ids, nor of files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenizer_core.decoding import Decoder, DecodeStream, OnInvalid, decoded_text
from tokenizer_core.digests import canonical_json, digest_of_bytes
from tokenizer_core.encoding import DEFAULT_CACHE_WORDS, BytePairEncoder
from tokenizer_core.errors import UnknownToken
from tokenizer_core.reachability import tokens_not_made_by_merges
from tokenizer_core.split_patterns import SplitPattern
from tokenizer_core.text_input import utf8_of
from tokenizer_core.vocab_rules import check_vocab, shown


class TokenizerModel:
    """The part of `Tokenizer` that does not encode: see there."""

    def __init__(
        self,
        vocab: Mapping[int, bytes],
        merges: Sequence[tuple[bytes, bytes]],
        special_tokens: Mapping[str, int] | Sequence[str] = (),
        pattern: SplitPattern | str = "gpt2",
        *,
        ignore_merges: bool = False,
        cache_words: int = DEFAULT_CACHE_WORDS,
    ) -> None:
        checked = check_vocab(vocab, merges, special_tokens)
        self._vocab = dict(vocab)
        self._merges: list[tuple[bytes, bytes]] = list(map(tuple, merges))  # type: ignore[arg-type]
        self._special_tokens = checked.special_tokens
        self._ids = checked.ids
        self._pattern = SplitPattern.parse(pattern)
        self._ignore_merges = ignore_merges
        self._cache_words = cache_words
        self._merge_ids = (checked.left, checked.right, checked.results)
        self._special_ids = frozenset(self._special_tokens.values())
        self._decoder = Decoder(self._vocab)
        #: The engine underneath, for those who have spans of bytes rather than strings.
        self.encoder = BytePairEncoder(
            checked.byte_ids, *self._merge_ids, self._pattern, cache_words=cache_words
        )
        if ignore_merges:
            self.encoder.take_whole(dict(tokens_not_made_by_merges(self.encoder, self._ids)))

    @property
    def vocab(self) -> Mapping[int, bytes]:
        """id → bytes, special tokens included; a read-only view."""
        return MappingProxyType(self._vocab)

    @property
    def merges(self) -> list[tuple[bytes, bytes]]:
        """Pairs of bytes in order of rank; a copy."""
        return self._merges.copy()

    @property
    def special_tokens(self) -> dict[str, int]:
        """Special token → id; a copy."""
        return self._special_tokens.copy()

    @property
    def pattern(self) -> SplitPattern:
        """How text is cut into pre-tokens."""
        return self._pattern

    @property
    def ignore_merges(self) -> bool:
        """Whether a pre-token that is in the vocab is one token regardless of merges."""
        return self._ignore_merges

    @property
    def vocab_size(self) -> int:
        """Number of tokens: bytes, merges and special tokens."""
        return len(self._vocab)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the behaviour: pattern, special tokens, ids, merges. Equal digests, equal ids.

        How the merges were learned (tie-break, corpus) is no part of it.
        """
        ids = np.array(sorted(self._vocab), np.dtype("<i8"))
        tokens = [self._vocab[id_] for id_ in ids.tolist()]
        head = {
            "format": 1,
            "normalizer": None,
            "pattern": self._pattern.digest,
            "special_tokens": self._special_tokens,
            "ignore_merges": self._ignore_merges,
            "tokens": len(tokens),
            "merges": len(self._merges),
        }
        lengths = np.fromiter(map(len, tokens), np.dtype("<i8"), len(tokens))
        left, right, _ = (part.astype("<i8") for part in self._merge_ids)
        return digest_of_bytes(canonical_json(head), ids, lengths, b"".join(tokens), left, right)

    def __repr__(self) -> str:
        pattern = self._pattern.name or shown(self._pattern.regex)
        specials = len(self._special_tokens)
        return f"<Tokenizer: {self.vocab_size} tokens, {specials} special, pattern {pattern}>"

    def __reduce__(self) -> tuple[Any, ...]:
        # For multiprocessing: a process builds its own tables and caches.
        build = partial(
            type(self), ignore_merges=self._ignore_merges, cache_words=self._cache_words
        )
        return build, (self._vocab, self._merges, self._special_tokens, self._pattern)

    # Ids to text

    def decode_bytes(self, ids: Iterable[int] | NDArray[Any]) -> bytes:
        """The bytes of token ids, joined.

        Raises:
            UnknownToken: an id that the vocab does not hold.
        """
        return self._decoder.decode(ids)

    def decode(self, ids: Iterable[int] | NDArray[Any], errors: OnInvalid = "replace") -> str:
        """The text of token ids.

        Args:
            ids: token ids; special tokens become their text.
            errors: bytes that are not UTF-8 (a token may end inside a character) become U+FFFD
                with ``"replace"``, an error with ``"strict"``.

        Raises:
            UnknownToken: an id that the vocab does not hold.
            UnicodeDecodeError: not UTF-8, with ``"strict"``.
            InvalidOption: another way of handling errors.
        """
        return decoded_text(self._decoder.decode(ids), errors)

    def decode_batch(
        self, batch: Iterable[Iterable[int] | NDArray[Any]], errors: OnInvalid = "replace"
    ) -> list[str]:
        """The text of each of many sequences of ids, as `decode` gives it.

        Raises:
            UnknownToken, UnicodeDecodeError, InvalidOption: as `decode`.
        """
        return [self.decode(ids, errors) for ids in batch]

    def decode_stream(self, errors: OnInvalid = "replace") -> DecodeStream:
        """Text from ids that come one at a time, as from a model; see `DecodeStream`.

        Raises:
            InvalidOption: another way of handling errors.
        """
        return DecodeStream(self._decoder, errors)

    def token_to_id(self, token: str | bytes) -> int:
        """The id of a token: a special token by its text, any other by its bytes or text.

        Raises:
            UnknownToken: no such token.
        """
        if isinstance(token, str) and token in self._special_tokens:
            return self._special_tokens[token]
        content = token if isinstance(token, bytes) else utf8_of(token)
        try:
            return self._ids[content]
        except KeyError:
            raise UnknownToken(
                f"the vocab does not hold the token {shown(token)}",
                f"{self.vocab_size} tokens are known",
                "encode the text instead: it may take several tokens",
            ) from None

    def id_to_token(self, id_: int) -> bytes:
        """The bytes of a token.

        Raises:
            UnknownToken: no such id.
        """
        return self.decode_bytes([id_])

    def is_special(self, id_: int) -> bool:
        """Whether an id is that of a special token; False for ids that the vocab does not hold."""
        return id_ in self._special_ids
