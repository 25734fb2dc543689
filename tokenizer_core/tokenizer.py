"""The tokenizer as people use it: text to ids and back. Knows no training and no file format."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tokenizer_core.batch_encoding import encode_batch
from tokenizer_core.decoding import Decoder
from tokenizer_core.digests import canonical_json, digest_of_bytes
from tokenizer_core.encoding import DEFAULT_CACHE_WORDS, Encoder
from tokenizer_core.errors import InvalidOption, InvalidTokenizer, UnknownToken
from tokenizer_core.reachability import tokens_not_made_by_merges
from tokenizer_core.special_policy import SpecialPolicy, spans_between
from tokenizer_core.split_patterns import SplitPattern
from tokenizer_core.text import Text
from tokenizer_core.text_input import utf8_of, valid_utf8
from tokenizer_core.text_stream import cut_stream
from tokenizer_core.vocab_rules import check_vocab, shown
from tokenizer_core.word_counts import WordCounts

AllowedSpecial = Literal["none", "all"] | Collection[str]
OnSpecial = Literal["text", "error"]
Format = Literal["bpeline", "hf", "gpt2", "tiktoken"]


class Tokenizer:
    """Byte-level BPE: immutable, safe to use from many threads.

    ``encode`` cuts the text into pre-tokens and joins, in each, the adjacent pair of lowest rank
    (the leftmost of equals) until no merge is left: the ids of HuggingFace ``tokenizers`` and of
    tiktoken. Text that spells a special token is ordinary text unless it is allowed.

    Lone surrogates in a ``str`` have no UTF-8 form; they are encoded as U+FFFD, pairs of them as
    the character they stand for (tiktoken's rule). All other text survives the round trip.

    Args:
        vocab: id → bytes; ids may have gaps. Holds all 256 bytes and the special tokens.
        merges: pairs of bytes in order of rank.
        special_tokens: token → id, or tokens whose ids are looked up in the vocab.
        pattern: the split pattern: a name, a regex or a `SplitPattern`.
        ignore_merges: a pre-token that is itself in the vocab becomes that one token, whatever
            its merges say (a flag of HuggingFace's format). Accepted where it changes nothing.
        cache_words: how many words each thread remembers (64 bytes each); 0 turns caches off.

    Raises:
        InvalidTokenizer: vocab, merges and special tokens contradict each other.
        InvalidSpecialToken: an empty or duplicate special token.
        InvalidPattern, InvalidOption: the pattern or the cache size cannot be used.

    Examples:
        >>> vocab = {i: bytes([i]) for i in range(256)} | {256: b"ab"}
        >>> tokenizer = Tokenizer(vocab, [(b"a", b"b")])
        >>> tokenizer.encode("abc")
        [256, 99]
        >>> tokenizer.decode([256, 99])
        'abc'
    """

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
        self._decoder = Decoder(self._vocab)
        #: The engine underneath, for those who have spans of bytes rather than strings.
        self.encoder = Encoder(
            checked.byte_ids, *self._merge_ids, self._pattern, cache_words=cache_words
        )
        if ignore_merges:
            for token, id_ in tokens_not_made_by_merges(self.encoder, self._ids):
                raise InvalidTokenizer(
                    f"ignore_merges is set, and the merges do not make {shown(token)} (id {id_})",
                    "ignore_merges is supported where it changes nothing",
                    "unset it if whole words need not become such tokens",
                )

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
        build = partial(Tokenizer, ignore_merges=self._ignore_merges, cache_words=self._cache_words)
        return build, (self._vocab, self._merges, self._special_tokens, self._pattern)

    # Text to ids

    def encode(
        self,
        text: str,
        allowed_special: AllowedSpecial = "none",
        on_special: OnSpecial = "text",
    ) -> list[int]:
        """Token ids of ``text``.

        Args:
            text: any string.
            allowed_special: special tokens recognized in the text: ``"none"``, ``"all"`` or a set.
                At one place the longest wins.
            on_special: what happens to special tokens that are not allowed: ``"text"`` encodes
                them as ordinary text, ``"error"`` refuses the text.

        Raises:
            TypeError: ``text`` is not a string.
            InvalidSpecialToken: the policy forbids what the text holds, or allows the unknown.
            InvalidOption: a policy of another name.
        """
        ids: list[int] = self._ids_of(utf8_of(text), allowed_special, on_special).tolist()
        return ids

    def encode_to_numpy(
        self,
        text: str | bytes,
        allowed_special: AllowedSpecial = "none",
        on_special: OnSpecial = "text",
    ) -> NDArray[np.uint32]:
        """Token ids as uint32 ``[n]``, without a Python object for each.

        Args:
            text: a string, or bytes in UTF-8.
            allowed_special, on_special: as for `encode`.

        Raises:
            InvalidUtf8: bytes that are not UTF-8.
            TypeError, InvalidSpecialToken, InvalidOption: as `encode`.
        """
        return self._ids_of(valid_utf8(text), allowed_special, on_special).copy()

    def count(
        self,
        text: str | bytes,
        allowed_special: AllowedSpecial = "none",
        on_special: OnSpecial = "text",
    ) -> int:
        """How many ids `encode` would give."""
        return len(self._ids_of(valid_utf8(text), allowed_special, on_special))

    def encode_batch(
        self,
        texts: Iterable[str],
        threads: int | None = None,
        allowed_special: AllowedSpecial = "none",
        on_special: OnSpecial = "text",
    ) -> list[list[int]]:
        """Token ids of many texts, in their order, each as `encode` gives them.

        Args:
            texts: strings.
            threads: how many threads encode at once; by default one per available processor.
                Batches of less than a megabyte are not worth a second one.
            allowed_special, on_special: as for `encode`.

        Raises:
            InvalidOption: less than one thread.
            TypeError, InvalidSpecialToken: as `encode`; nothing is returned then.
        """
        policy = SpecialPolicy.of(self._special_tokens, allowed_special, on_special)
        return encode_batch(self.encoder, texts, policy, threads)

    def encode_iterable(
        self,
        chunks_of_text: Iterable[str],
        allowed_special: AllowedSpecial = "none",
        on_special: OnSpecial = "text",
    ) -> Iterator[int]:
        """Token ids of a long text that comes in pieces: the ids of the whole, in bounded memory.

        Pieces may end anywhere, even inside a word or a special token. Text is held back until a
        place where no pre-token crosses: a single space between two non-space characters
        (patterns ``gpt2`` and ``cl100k``) or the start of an allowed special token. With a regex
        of your own and no special token in sight the whole text is held.

        Raises:
            TypeError, InvalidSpecialToken, InvalidOption: as `encode`, when the text is reached;
                ids of the text before may have been given out by then.
        """
        if isinstance(chunks_of_text, str | bytes):
            raise TypeError("encode_iterable takes an iterable of str, not one string")
        policy = SpecialPolicy.of(self._special_tokens, allowed_special, on_special)
        return self._encode_pieces(chunks_of_text, policy)

    # Ids to text

    def decode_bytes(self, ids: Iterable[int] | NDArray[Any]) -> bytes:
        """The bytes of token ids, joined.

        Raises:
            UnknownToken: an id that the vocab does not hold.
        """
        return self._decoder.decode(ids)

    def decode(
        self, ids: Iterable[int] | NDArray[Any], errors: Literal["replace", "strict"] = "replace"
    ) -> str:
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
        if errors not in ("replace", "strict"):
            raise InvalidOption(
                f"errors is {errors!r}", "accepted: 'replace', 'strict'", "leave it out"
            )
        return self.decode_bytes(ids).decode(errors=errors)

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

    # What merges are worth

    def merge_gains(self, words: WordCounts) -> NDArray[np.int64]:
        """How often each merge fires on counted words: int64 ``[n_merges]``.

        Ranks do not fall while a word is encoded, so with the first k merges alone the words take
        ``total_bytes - gains[:k].sum()`` tokens: one pass gives the counts at every vocab size.
        (Two merges with the same result, which training never makes, would break this.)
        """
        return self.encoder.gains(words)

    # Files

    def save(self, path: str | Path, format: Format = "bpeline") -> None:
        """Write the tokenizer durably.

        Args:
            path: a directory for ``bpeline`` and ``gpt2``, a file for ``hf`` and ``tiktoken``.
            format: ``bpeline``; ``hf``: HuggingFace's tokenizer.json; ``gpt2``: vocab.json and
                merges.txt; ``tiktoken``: ranks, without pattern and special tokens.

        Raises:
            InvalidOption: a format of another name.
            InvalidTokenizer: the format cannot hold this tokenizer.
            DiskFull: no space left.
        """
        from tokenizer_core.formats import format_named

        format_named(format).save(self, Path(path))

    @classmethod
    def load(cls, path: str | Path, format: Format | None = None, **details: Any) -> Tokenizer:
        """Read a tokenizer; executes nothing that the files hold.

        Args:
            path: what `save` wrote, or other tools did.
            format: as for `save`; by default told from the names of the files.
            details: what the files of ``gpt2`` and ``tiktoken`` do not say: ``pattern=`` and
                ``special_tokens=``; see `tokenizer_core.formats`.

        Raises:
            MissingSource: nothing is there.
            CorruptFile: not what was written.
            InvalidTokenizer: a file that makes no sense, or asks for what is not supported.
            InvalidOption: a format of another name, or one that cannot be told.
        """
        from tokenizer_core.formats import format_named, format_of

        loaded: Tokenizer = format_named(format or format_of(Path(path))).load(
            Path(path), **details
        )
        return loaded

    # Inside

    def _ids_of(
        self, content: bytes, allowed_special: AllowedSpecial, on_special: OnSpecial
    ) -> NDArray[np.uint32]:
        whole = Text.of(content)
        if allowed_special == "none" and on_special == "text":
            return self.encoder.encode_whole(whole)
        policy = SpecialPolicy.of(self._special_tokens, allowed_special, on_special)
        if policy.forbidden:
            policy.refuse_forbidden(content.decode())
        if not policy.allowed:
            return self.encoder.encode_whole(whole)
        return self.encoder.encode(whole, *spans_between(whole, 0, whole.size, policy.allowed))[0]

    def _encode_pieces(self, pieces: Iterable[str], policy: SpecialPolicy) -> Iterator[int]:
        for text in cut_stream(pieces, policy, self._pattern.cuts_at_spaces):
            yield from self._ids_of(utf8_of(text), tuple(policy.allowed), "text").tolist()
