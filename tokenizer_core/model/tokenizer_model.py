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

from bpeline.tokenizer_core.algorithms import (
    BYTE_BPE,
    Algorithm,
    ByteBpe,
    WordDecoder,
    WordEncoder,
    WordStream,
    assembled,
    described,
)
from bpeline.tokenizer_core.digests import canonical_json, digest_of_bytes
from bpeline.tokenizer_core.encoding import (
    DEFAULT_CACHE_WORDS,
    BytePairEncoder,
    Decoder,
    DecodeStream,
    Encoder,
    OnInvalid,
    utf8_of,
)
from bpeline.tokenizer_core.errors import InvalidOption, UnknownToken
from bpeline.tokenizer_core.model.merge_list import MergeIds, MergeList
from bpeline.tokenizer_core.model.reachability import tokens_not_made_by_merges
from bpeline.tokenizer_core.model.vocab_rules import check_vocab, shown
from bpeline.tokenizer_core.splitting import SplitPattern


class TokenizerModel:
    """The part of `Tokenizer` that does not encode: see there."""

    def __init__(
        self,
        vocab: Mapping[int, bytes],
        merges: Sequence[tuple[bytes, bytes]],
        special_tokens: Mapping[str, int] | Sequence[str] = (),
        pattern: SplitPattern | str | None = None,
        *,
        algorithm: Algorithm = BYTE_BPE,
        ignore_merges: bool = False,
        cache_words: int = DEFAULT_CACHE_WORDS,
    ) -> None:
        self._algorithm = algorithm
        self._pattern = SplitPattern.parse(pattern or algorithm.default_pattern)
        self._ignore_merges = ignore_merges
        self._cache_words = cache_words
        #: The same engine where text is encoded word by word; None with byte-level BPE.
        self.words: WordEncoder | None = None
        self._byte_pairs: BytePairEncoder | None = None
        #: The engine underneath, for those who have spans of bytes rather than strings.
        self.encoder: Encoder
        self._merges: Sequence[tuple[bytes, bytes]]
        if isinstance(algorithm, ByteBpe):
            checked = check_vocab(vocab, merges, special_tokens)
            self._special_tokens, self._ids, byte_ids, self._merge_ids = checked
            self._vocab = dict(vocab)
            self._merges = MergeList(self._vocab, *self._merge_ids)
            self._decoder: Decoder = Decoder(self._vocab)
            encoder = BytePairEncoder(
                byte_ids, *self._merge_ids, self._pattern, cache_words=cache_words
            )
            if ignore_merges:
                encoder.take_whole(dict(tokens_not_made_by_merges(encoder, self._ids)))
            self.encoder = self._byte_pairs = encoder
        elif ignore_merges:
            raise InvalidOption(
                f"ignore_merges was asked for with {algorithm.name}",
                "it is a flag of byte-level BPE",
                "leave it out",
            )
        else:
            made = assembled(algorithm, vocab, merges, special_tokens, self._pattern)
            self._special_tokens, self._ids, self._merge_ids, self.words, self._decoder = made
            self._vocab = dict(vocab)
            self._merges = list(map(tuple, merges))  # type: ignore[arg-type]
            self.encoder = self.words
        self._special_ids = frozenset(self._special_tokens.values())

    @property
    def byte_pairs(self) -> BytePairEncoder:
        """The encoder of byte-level BPE.

        Raises:
            InvalidOption: this tokenizer follows another algorithm.
        """
        if self._byte_pairs is None:
            raise InvalidOption(
                f"this tokenizer follows {self._algorithm.name}",
                "what was asked for is known of byte-level BPE alone",
                "use a tokenizer that `train_bpe` made",
            )
        return self._byte_pairs

    @property
    def algorithm(self) -> Algorithm:
        """What turns text into ids: see `tokenizer_core.algorithms`."""
        return self._algorithm

    @property
    def vocab(self) -> Mapping[int, bytes]:
        """id → bytes, special tokens included; a read-only view."""
        return MappingProxyType(self._vocab)

    @property
    def merges(self) -> list[tuple[bytes, bytes]]:
        """Pairs of bytes in order of rank; made anew at each call."""
        return list(self._merges)

    @property
    def merge_ids(self) -> MergeIds:
        """Ids of the left and right part and of the result of each merge, by rank; copies."""
        left, right, results = (part.astype(np.int64) for part in self._merge_ids)
        return left, right, results

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
        head: dict[str, Any] = {
            "format": 1,
            "normalizer": None,
            "pattern": self._pattern.digest,
            "special_tokens": self._special_tokens,
            "ignore_merges": self._ignore_merges,
            "tokens": len(tokens),
            "merges": len(self._merges),
        }
        if self._algorithm != BYTE_BPE:
            head["algorithm"] = described(self._algorithm)
        lengths = np.fromiter(map(len, tokens), np.dtype("<i8"), len(tokens))
        left, right, _ = (part.astype("<i8") for part in self._merge_ids)
        return digest_of_bytes(canonical_json(head), ids, lengths, b"".join(tokens), left, right)

    def __repr__(self) -> str:
        pattern = self._pattern.name or shown(self._pattern.regex)
        specials = len(self._special_tokens)
        name = "" if self._algorithm == BYTE_BPE else f", {self._algorithm.name}"
        return f"<Tokenizer: {self.vocab_size} tokens, {specials} special, pattern {pattern}{name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        # For multiprocessing: a process builds its own tables and caches.
        build = partial(
            type(self),
            algorithm=self._algorithm,
            ignore_merges=self._ignore_merges,
            cache_words=self._cache_words,
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
        return self._decoder.text(ids, errors)

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
        if isinstance(self._decoder, WordDecoder) and self._decoder.spaced:
            return WordStream(self._decoder, errors)
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
