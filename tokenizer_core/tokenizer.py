"""The public `Tokenizer`: encode text to ids, decode ids to text, save and load."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bpeline.tokenizer_core import checks, encoding
from bpeline.tokenizer_core.corpus import AnyPath, find_source_files, sources_of
from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.encoding import (
    DecodeStream,
    EncodingWithOffsets,
    ExplainedPreToken,
    OnInvalid,
    Side,
)
from bpeline.tokenizer_core.errors import InvalidOption, UnknownToken, WrongKind
from bpeline.tokenizer_core.kernels.memory.python_objects import listed
from bpeline.tokenizer_core.machine import thread_count
from bpeline.tokenizer_core.plugins import coders_of
from bpeline.tokenizer_core.shards import (
    SHARD_BYTES,
    DocumentIds,
    ShardFormat,
    ShardJob,
    ShardRecord,
    TokenShards,
    file_encoding_of,
    gather_files,
    shard_format,
    shard_place,
)
from bpeline.tokenizer_core.splitting import CutPairs, Cuts, SentenceBreaks, SplitPattern
from bpeline.tokenizer_core.text import Text, refuse_invalid_utf8, utf8_of
from bpeline.tokenizer_core.tokenizer_spec import (
    BYTE_BPE,
    Algorithm,
    ByteBpe,
    TokenizerSpec,
    token_names,
)
from bpeline.tokenizer_core.vocabulary import (
    MergeIds,
    SpecialPolicies,
    SpecialPolicy,
    TokenTable,
    shown,
    spans_between,
)
from bpeline.tokenizer_core.word_encoding import (
    WordEncoder,
    longest_prefix_of_words,
)

AllowedSpecial = Literal["none", "all"] | Collection[str]
OnSpecial = Literal["text", "error"]
if TYPE_CHECKING:
    from bpeline.tokenizer_core.display import ShownTokens

_TEXT = "text"
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/(?!\d+$)[A-Za-z0-9][\w.-]*")  # news/3 is a version
_SOONER_LISTED = 1_000  # characters; below this, an array from a list of ids is faster
_SAMPLE = "The quick brown fox doesn’t jump over 1,234 lazy dogs: naïve café, 中文, 🎉."

SavedFormat = Literal[
    "bpeline", "hf", "transformers", "gpt2", "tiktoken", "subword-nmt", "wordpiece",
    "frequency-bpe", "sentencepiece", "gguf",
]  # fmt: skip
Format = Literal[SavedFormat, "tekken", "greedy"]  # tekken and greedy are read-only


class Tokenizer:
    """A tokenizer: byte-level BPE or another algorithm. Immutable and thread-safe.

    With byte-level BPE, ``encode`` splits the text into pre-tokens and merges, in each, the
    adjacent pair of lowest rank (leftmost first) until none is left. The ids equal those of
    HuggingFace ``tokenizers`` and tiktoken. For other algorithms, see `tokenizer_core.algorithms`.
    Special tokens in a text are ordinary text unless allowed.

    As in tiktoken, lone surrogates become U+FFFD, and surrogate pairs become their character. With
    byte-level BPE, ``decode`` restores all other text.

    Args:
        vocab: id → bytes, with all 256 bytes and all special tokens; ids may have gaps.
        merges: pairs of bytes, by rank.
        special_tokens: token → id, or tokens whose ids are looked up in the vocab.
        pattern: split pattern: a name, a regex or a `SplitPattern`; default: the algorithm's,
            ``gpt2`` for byte-level BPE.
        algorithm: see `tokenizer_core.algorithms`; the other arguments are described for
            byte-level BPE.
        ignore_merges: encode a pre-token that is in the vocab as that token, whatever its merges
            (a flag of HuggingFace's format, set by Llama 3). Does not apply to special tokens.
        cache_words: size of the word cache shared by all threads (up to 144 bytes per word); 0
            disables it.

    Raises:
        InvalidTokenizer: vocab, merges and special tokens are inconsistent.
        InvalidSpecialToken: an empty or duplicate special token.
        InvalidPattern, InvalidOption: the pattern or the cache size is invalid.

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
        pattern: SplitPattern | str | None = None,
        *,
        algorithm: Algorithm = BYTE_BPE,
        ignore_merges: bool = False,
        cache_words: int = encoding.DEFAULT_CACHE_WORDS,
    ) -> None:
        checks.instance("algorithm", algorithm, Algorithm)
        ignore_merges = checks.flag("ignore_merges", ignore_merges)
        spec = TokenizerSpec.checked(
            vocab, merges, special_tokens, pattern, algorithm=algorithm, ignore_merges=ignore_merges
        )
        self._build(spec, cache_words)

    @classmethod
    def of_spec(
        cls, spec: TokenizerSpec, cache_words: int = encoding.DEFAULT_CACHE_WORDS
    ) -> Tokenizer:
        """Build a tokenizer from a spec; raises `InvalidTokenizer` or `InvalidOption`."""
        checks.instance("spec", spec, TokenizerSpec)
        tokenizer = cls.__new__(cls)
        tokenizer._build(spec, cache_words)
        return tokenizer

    def _build(self, spec: TokenizerSpec, cache_words: int) -> None:
        if checks.whole_number("cache_words", cache_words, 0) > encoding.MAX_CACHE_WORDS:
            raise InvalidOption(
                f"cache_words {cache_words} is out of range",
                f"expected: 0 (no cache) to {encoding.MAX_CACHE_WORDS}",
                f"leave cache_words out for {encoding.DEFAULT_CACHE_WORDS}",
            )
        #: Everything that decides what the tokenizer does.
        self.spec = spec
        self._cache_words = cache_words
        #: The encoder of algorithms that encode word by word; else None.
        self.words: WordEncoder | None = None
        self._finds_special = spec.finds_special
        # Values of `allowed_special`: the default, and the one that the encoder follows by itself.
        self._default = "all" if spec.allowed_special == "all" else "none"
        self._plain = "all" if self._finds_special else "none"
        # Plain attributes: a `cached_property` would slow down all attribute access.
        self._made_encoder: encoding.Encoder | None = None
        self._made_decoder: encoding.Decoder | None = None
        if not isinstance(spec.algorithm, ByteBpe):
            encoder, self._made_decoder = coders_of(spec)
            self._made_encoder = self._prepared(encoder)
            if isinstance(encoder, WordEncoder) and self._made_encoder is encoder:
                self.words = encoder
            if spec.pipeline is not None and spec.pipeline.decoder is not None:
                self._made_decoder = encoding.StepDecoder(token_names(spec), spec.pipeline.decoder)
        self._special_ids = frozenset(spec.special_tokens.values())

    # Byte-level encoders and decoders are built at first use: training, comparing and exporting
    # need neither.

    @property
    def encoder(self) -> encoding.Encoder:
        """The low-level encoder, for spans of bytes."""
        if self._made_encoder is None:
            merging = encoding.byte_pair_encoder(self.spec, self._cache_words)
            absent = self.spec.byte_ids < 0
            whole = encoding.AbsentBytesEncoder(merging, absent) if absent.any() else merging
            self._made_encoder = self._prepared(whole)
        return self._made_encoder

    def _prepared(self, encoder: encoding.Encoder) -> encoding.Encoder:
        pipeline = self.spec.pipeline
        preparation = None if pipeline is None else pipeline.preparation
        if preparation is None:
            return encoder
        return encoding.PreparedEncoder(self.spec, encoder, preparation)

    @property
    def _decoder(self) -> encoding.Decoder:
        if self._made_decoder is None:
            steps = None if self.spec.pipeline is None else self.spec.pipeline.decoder
            self._made_decoder = (
                encoding.Decoder(self.spec.vocab)
                if steps is None
                else encoding.StepDecoder(token_names(self.spec), steps)
            )
        return self._made_decoder

    @property
    def _pieces(self) -> encoding.Decoder:
        if not self.merges_words or isinstance(self._decoder, encoding.StepDecoder):
            encoding.refuse_places()
        return self._decoder

    @property
    def byte_pairs(self) -> encoding.BytePairEncoder:
        """The encoder of byte-level BPE; raises `InvalidOption` for other algorithms."""
        encoder = self.encoder
        if isinstance(encoder, encoding.PreparedEncoder):
            encoder = encoder.inner
        if isinstance(encoder, encoding.AbsentBytesEncoder):
            encoder = encoder.merging
        if not isinstance(encoder, encoding.BytePairEncoder):
            raise InvalidOption(
                f"this tokenizer uses {self.spec.algorithm.name}",
                "expected byte-level BPE",
                "use a tokenizer that `train_bpe` made",
            )
        return encoder

    @property
    def merges_words(self) -> bool:
        """Whether words are encoded by byte merges alone, without changes to the text."""
        pipeline = self.spec.pipeline
        changed = pipeline is not None and (
            pipeline.normalizer or pipeline.prefix or (self.spec.byte_ids < 0).any()
        )
        return isinstance(self.spec.algorithm, ByteBpe) and not changed

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm that turns pre-tokens into ids; see `tokenizer_core.algorithms`."""
        return self.spec.algorithm

    @property
    def vocab(self) -> Mapping[int, bytes]:
        """id → bytes, including special tokens; read-only."""
        return self.spec.vocab.view if isinstance(self.spec.vocab, TokenTable) else self.spec.vocab

    @property
    def merges(self) -> list[tuple[bytes, bytes]]:
        """Pairs of bytes by rank; a new list at each call."""
        return list(self.spec.merges)

    @property
    def merge_ids(self) -> MergeIds:
        """Ids of left part, right part and result of each merge, by rank; copies."""
        left, right, results = (part.astype(np.int64) for part in self.spec.merge_ids)
        return left, right, results

    @property
    def special_tokens(self) -> dict[str, int]:
        """Special token → id; a copy."""
        return dict(self.spec.special_tokens)

    @property
    def pattern(self) -> SplitPattern:
        """The split pattern."""
        return self.spec.pattern

    @property
    def ignore_merges(self) -> bool:
        """Whether a pre-token in the vocab is always one token."""
        return self.spec.ignore_merges

    @property
    def vocab_size(self) -> int:
        """Number of tokens, including special tokens."""
        return len(self.spec.vocab)

    @property
    def n_vocab(self) -> int:
        """The largest id plus one, as in tiktoken; more than `vocab_size` if ids have gaps."""
        return self.spec.largest_id + 1

    @property
    def eos_token_id(self) -> int | None:
        """Id of the end-of-sequence token: as declared, else recognised by name, else None."""
        from bpeline.tokenizer_core.formats import roles_of

        specials = self.spec.special_tokens
        return specials.get(roles_of(specials, self.spec.roles).get("eos", ""))

    def get_vocab(self) -> dict[str, int]:
        """Token → id, as in ``tokenizers``: bytes are printable characters; a copy."""
        return {token: id_ for id_, token in token_names(self.spec).items()}

    @property
    def digest(self) -> str:
        """SHA-256 of pattern, special tokens, ids and merges; equal means equal ids."""
        return self.spec.digest

    def __repr__(self) -> str:
        pattern = self.spec.pattern.name or shown(self.spec.pattern.title)
        specials = len(self.spec.special_tokens)
        name = "" if self.spec.algorithm == BYTE_BPE else f", {self.spec.algorithm.name}"
        default = f" ({self.spec.allowed_special} found by default)" if specials else ""
        return (
            f"<Tokenizer: {self.vocab_size} tokens, {specials} special{default}, "
            f"pattern {pattern}{name}>"
        )

    def __len__(self) -> int:
        return self.vocab_size

    def _repr_html_(self) -> str:
        from bpeline.tokenizer_core.display import card

        specials = list(self.spec.special_tokens)
        facts = {
            "ids": f"{self.vocab_size:,}",
            "algorithm": self.spec.algorithm.name,
            "split pattern": self.spec.pattern.name or self.spec.pattern.title,
            "special tokens": ", ".join(specials[:8]) + (" …" if len(specials) > 8 else "")
            or "none",
            "digest": self.digest[:16],
        }
        return card(facts, self.show(_SAMPLE))

    def show(
        self,
        text: str,
        allowed_special: AllowedSpecial | None = None,
        on_special: OnSpecial = "text",
    ) -> ShownTokens:
        """Show the tokens of a text: coloured in a notebook, else separated by ``|``.

        Example:
            >>> print(load_tokenizer("news@champion").show("the lowest"))  # doctest: +SKIP
            the| low|est
        """
        from bpeline.tokenizer_core.display import ShownTokens, shown_token

        ids = self.encode(text, allowed_special, on_special)
        return ShownTokens(
            tuple(shown_token(id_, self.id_to_token(id_), self.is_special(id_)) for id_ in ids)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # For multiprocessing: each process builds its own tables and caches.
        return type(self).of_spec, (self.spec, self._cache_words)

    @overload
    def __call__(self, text: str, **how: Any) -> list[int]: ...

    @overload
    def __call__(self, text: Iterable[str], **how: Any) -> list[list[int]]: ...

    def __call__(self, text: str | Iterable[str], **how: Any) -> list[int] | list[list[int]]:
        """Call `encode` for a string, or `encode_batch` for several."""
        if isinstance(text, str):
            return self.encode(text, **how)
        return self.encode_batch(text, **how)

    def encode(
        self,
        text: str,
        allowed_special: AllowedSpecial | None = None,
        on_special: OnSpecial = "text",
        *,
        add_special_tokens: bool = False,
    ) -> list[int]:
        """Encode a text.

        Args:
            allowed_special: special tokens to recognise in the text: ``"none"``, ``"all"`` or a
                set; the longest match wins. Default: ``spec.allowed_special``, which is ``"none"``
                for trained tokenizers, ``"all"`` for imported ones whose own library finds them.
            on_special: for special tokens that are not allowed: ``"text"`` encodes them as
                ordinary text, ``"error"`` raises.
            add_special_tokens: add what an imported tokenizer's post-processor adds, such as
                ``[CLS]`` and ``[SEP]``.

        Raises:
            WrongKind: ``text`` is not a string.
            InvalidSpecialToken: the text contains a token that is not allowed, or
                ``allowed_special`` names an unknown token.
            InvalidOption: an unknown policy.
        """
        if add_special_tokens is not False and checks.flag(
            "add_special_tokens", add_special_tokens
        ):
            return self._templated(self.encode(text, allowed_special, on_special))
        if allowed_special is None:
            allowed_special = self._default
        # Compare by identity: `==` with an array would compare item by item.
        if on_special is _TEXT and allowed_special is self._plain:
            content = utf8_of(text)
            if len(content) <= encoding.SHORT_TEXT:
                return (self._made_encoder or self.encoder).encode_short(content)
        else:
            content = utf8_of(text)
        return listed(self._ids_of(content, allowed_special, on_special))

    def encode_ordinary(self, text: str) -> list[int]:
        """Encode a text with every special token in it as ordinary text."""
        return self.encode(text, "none")

    def encode_to_numpy(
        self,
        text: str | bytes,
        allowed_special: AllowedSpecial | None = None,
        on_special: OnSpecial = "text",
        threads: int | None = None,
        *,
        dtype: DTypeLike = np.uint32,
    ) -> NDArray[Any]:
        """Encode a text into an array ``[n]``, without a Python object per id.

        Args:
            text: a string, or UTF-8 bytes.
            threads: default: one per available processor. Texts below 2 MB, or with special tokens
                to find, use one.
            dtype: of the array, large enough for every id; for torch, use ``np.int64``.

        Raises:
            InvalidUtf8: bytes that are not UTF-8.
            InvalidOption: ``dtype`` is too small for an id of the vocab.
        """
        if threads is not None:
            thread_count(threads)
        return self._as_dtype(self._ids_of(text, allowed_special, on_special, threads), dtype)

    def count(
        self,
        text: str | bytes,
        allowed_special: AllowedSpecial | None = None,
        on_special: OnSpecial = "text",
    ) -> int:
        """Return the number of ids that `encode` would return."""
        return len(self._ids_of(text, allowed_special, on_special))

    def encode_batch(
        self,
        texts: Iterable[str],
        threads: int | None = None,
        allowed_special: AllowedSpecial | None = None,
        on_special: OnSpecial = "text",
        *,
        add_special_tokens: bool = False,
    ) -> list[list[int]]:
        """Encode many texts, each as in `encode`.

        Args:
            threads: default: one per available processor. Batches below 1 MB use one.
        """
        encoder, policy = self._asked(allowed_special, on_special)
        around = checks.flag("add_special_tokens", add_special_tokens)
        encoded = encoding.encode_batch(encoder, texts, policy, threads)
        return list(map(self._templated, encoded)) if around else encoded

    def encode_padded(
        self,
        texts: Iterable[str],
        max_length: int | None = None,
        *,
        pad_id: int,
        pad_to: int | None = None,
        pad_side: Side = "right",
        cut_side: Side = "right",
        threads: int | None = None,
        allowed_special: AllowedSpecial | None = None,
        on_special: OnSpecial = "text",
        dtype: DTypeLike = np.uint32,
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Encode texts into one array, truncated and padded to one length; see `pad`.

        Returns:
            ids ``[n, length]`` of ``dtype``, and a mask, bool ``[n, length]``: True for tokens of
            the text, False for padding.

        Raises:
            InvalidOption: an invalid length or side, or ``dtype`` is too small for an id.
        """
        batch = self.encode_batch(texts, threads, allowed_special, on_special)
        ids, mask = encoding.pad(batch, max_length, pad_id, pad_to, pad_side, cut_side)
        return self._as_dtype(ids, dtype, pad_id), mask

    def _as_dtype(
        self, ids: NDArray[np.uint32], dtype: DTypeLike, another: int = 0
    ) -> NDArray[Any]:
        """Convert ids (and perhaps a padding id ``another``) to ``dtype``, if all ids fit."""
        if dtype is np.uint32:
            return ids
        target = _dtype_of(dtype)
        if max(self.spec.largest_id, another) > _largest_whole(target):
            raise InvalidOption(
                f"ids up to {max(self.spec.largest_id, another):,} do not fit the dtype {target}",
                "expected a dtype that holds every id of the vocab, such as np.uint32 or np.int64",
                "leave dtype out, or use dtype=np.int64",
            )
        return ids.astype(target, copy=False)

    def encode_iterable(
        self,
        chunks_of_text: Iterable[str],
        allowed_special: AllowedSpecial | None = None,
        on_special: OnSpecial = "text",
    ) -> Iterator[int]:
        """Encode a long text that comes in pieces; same ids as the whole text.

        Pieces may end anywhere, even inside a word or special token. Text is buffered up to a place
        where both sides are encoded independently: between two characters that the pattern always
        separates, at the end of a line or sentence where these are encoded separately, or before an
        allowed special token. For imported tokenizers that normalize, it is between ASCII words.
        Without such a place, the whole text is buffered: with some custom regexes, with tokenizers
        that merge over whole texts or add a prefix (Llama 2, T5), and with SentencePiece models.

        Raises the errors of `encode`, possibly after ids of earlier text were yielded.
        """
        encoding.refuse_one_text(chunks_of_text)
        encoder, policy = self._asked(allowed_special, on_special)
        cuts = self._independent_cuts(encoder, allowed_special)
        return (
            id_
            for content in encoding.cut_stream(chunks_of_text, policy, cuts)
            for id_ in self._ids_of(content, allowed_special, "text").tolist()
        )

    def encode_files(
        self,
        paths: AnyPath | Iterable[AnyPath],
        out: str | Path,
        *,
        threads: int | None = None,
        separator: str | Sequence[str] | None = None,
        end_of_text: str | None = None,
        invalid_utf8: Literal["strict", "replace", "ignore"] = "strict",
        text_field: str = "text",
        id_field: str = "id",
        allowed_special: AllowedSpecial | None = None,
        format: str | ShardFormat = "bin",
        shard_bytes: int = SHARD_BYTES,
        dropout: float = 0.0,
        seed: int = 0,
        on_shard: Callable[[ShardRecord], None] | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> TokenShards:
        """Encode files into a directory of token shards, in parallel.

        After a crash or interruption, the same call verifies the finished shards and continues;
        with more files, it encodes those. Each document has the ids that `encode` returns.

        Args:
            paths: files, directories or globs, as in `count_words`.
            out: a directory or the URL of a store; see `token_shards` for its contents.
            threads: default: one per available processor. Does not change the shards.
            separator: one or several texts between the documents of a text file, such as
                ``<|endoftext|>``; without it, a text file is one document. (Commands use the
                special tokens that `encode` does not find by default.) Each line of a .jsonl file
                is a document. Empty documents are skipped; separators get no ids.
            end_of_text: special token whose id is appended to each document.
            invalid_utf8: ``strict`` raises for bytes that are not UTF-8, ``replace`` decodes them
                as U+FFFD, ``ignore`` skips them.
            text_field: JSON member or column that holds the documents.
            id_field: JSON member or column that names documents, for `TokenShards.place`; optional.
            allowed_special: see `encode`; use ``"none"`` for untrusted text.
            format: ``bin``, ``npy``, ``megatron`` (as Megatron-LM writes), ``parquet``, or your
                own format; see `shard_formats`.
            shard_bytes: approximate text size of a shard; documents are not split.
            dropout: probability of skipping a merge, see `derived.DropoutEncoding`; recorded in the
                manifest. Depends on ``seed``, file name and position, not on threads.
            seed: of ``dropout``; use another one for each epoch.
            on_shard: called for each finished shard.
            on_progress: called with the number of new bytes read from files.

        Raises:
            MissingSource, UnreadableSource, InvalidUtf8, CorpusChanged: files cannot be read.
            InvalidOption: a value is out of range, ``out`` has tokens of another tokenizer, or
                this tokenizer does not support dropout.
            InvalidSpecialToken: ``end_of_text`` is not a special token of this tokenizer.
            WorkspaceLocked: another process writes to ``out``.
            StorageError: a store does not answer.
            DiskFull: no space left; finished shards stay.
        """
        checks.location("out", out)
        shard_bytes = checks.whole_number("shard_bytes", shard_bytes)
        checks.function("on_shard", on_shard)
        checks.function("on_progress", on_progress)
        file_encoding = file_encoding_of(
            self,
            separator,
            end_of_text,
            invalid_utf8,
            text_field,
            id_field,
            dropout,
            seed,
            allowed_special,
        )
        layout, files = shard_format(format), find_source_files(sources_of(paths))
        job = ShardJob(
            file_encoding, files, shard_place(out), layout, shard_bytes, on_shard, on_progress
        )
        return job.run(threads)

    def encode_files_to_numpy(
        self,
        paths: AnyPath | Iterable[AnyPath],
        *,
        threads: int | None = None,
        separator: str | Sequence[str] | None = None,
        end_of_text: str | None = None,
        invalid_utf8: Literal["strict", "replace", "ignore"] = "strict",
        text_field: str = "text",
        allowed_special: AllowedSpecial | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> DocumentIds:
        """Encode files that fit in memory, in parallel; see `encode_files`.

        Returns the ids of each document. Its ``ids`` has all of them, as uint16 for a vocab of at
        most 65,536 ids, else uint32.
        """
        checks.function("on_progress", on_progress)
        file_encoding = file_encoding_of(
            self,
            separator,
            end_of_text,
            invalid_utf8,
            text_field,
            id_field="",
            allowed_special=allowed_special,
        )
        return gather_files(
            file_encoding, find_source_files(sources_of(paths)), threads, on_progress
        )

    def merge_gains(self, words: WordCounts) -> NDArray[np.int64]:
        """Count the applications of each merge on counted words: int64 ``[n_merges]``.

        Only for byte-level BPE; the words must be split by the tokenizer's pattern. Merges of a
        word are applied by rising rank, so with the first k merges the words take
        ``total_bytes - gains[:k].sum()`` tokens: one pass gives the token count at every vocab
        size. Ignores ``ignore_merges``; invalid if two merges have the same result, which training
        never produces.
        """
        checks.instance("words", words, WordCounts)
        return self.byte_pairs.gains(words.word_bytes, words.offsets, words.counts)

    def encode_with_offsets(
        self,
        text: str,
        allowed_special: AllowedSpecial | None = None,
        on_special: OnSpecial = "text",
    ) -> EncodingWithOffsets:
        """Encode a text and locate each token in it.

        Byte offsets are contiguous and cover the text. Character offsets include all characters
        that a token touches, so they overlap where tokens share a character.
        """
        encoder, policy = self._asked(allowed_special, on_special)
        if isinstance(encoder, encoding.PlacingEncoder):
            content = utf8_of(text)
            policy.refuse_forbidden(content.decode())
            placed = _placed(encoder, content, policy)
            return encoding.encoding_with_offsets(text, placed.ids, placed.places)
        ids = self._ids_of(text, allowed_special, on_special)
        lengths = self._pieces.lengths(ids)
        ends = np.cumsum(lengths)
        return encoding.encoding_with_offsets(text, ids, np.stack((ends - lengths, ends), axis=1))

    def truncate(
        self,
        text: str,
        max_tokens: int,
        allowed_special: AllowedSpecial | None = None,
        on_special: OnSpecial = "text",
    ) -> str:
        """Return the longest prefix of ``text`` with at most ``max_tokens`` ids.

        Never splits a character. The ids of the prefix may differ from the first ids of the whole
        text, because it may end inside a token. If more than 4 KiB have no certain boundary of
        pre-tokens, or the pattern has no automaton, a slightly longer prefix may fit, too.
        Algorithms that encode word by word return the longest prefix that ends with a word.
        """
        encoder, policy = self._asked(allowed_special, on_special)
        content = utf8_of(text)
        policy.refuse_forbidden(text)
        if isinstance(encoder, encoding.PlacingEncoder) and not isinstance(
            encoder, encoding.PreparedEncoder
        ):

            def count(prefix: bytes) -> int:
                return len(self._ids_of(prefix, allowed_special, "text"))

            placed = _placed(encoder, content, policy)
            prefix = longest_prefix_of_words(content, max_tokens, placed, count)
            return encoding.beginning_of(text, len(prefix))

        def ends_of(part: bytes) -> NDArray[np.int64]:
            if isinstance(encoder, encoding.PreparedEncoder):
                return _placed(encoder, part, policy).places[:, 1]
            return np.cumsum(self._pieces.lengths(self._ids_of(part, allowed_special, "text")))

        longest = self._pieces.longest
        if isinstance(encoder, encoding.PreparedEncoder) and encoder.takes_white_space:
            longest = len(content)
        cuts = self._independent_cuts(encoder, allowed_special)
        prefix = encoding.longest_prefix(content, max_tokens, ends_of, longest, cuts)
        return encoding.beginning_of(text, len(prefix))

    def explain(self, text: str) -> list[ExplainedPreToken]:
        """Return, for each pre-token of ``text``, the applied merges in order and its ids.

        Slow; for short texts. The joined ids equal those of `encode`.
        """
        content, explainer, encoder = utf8_of(text), self.explainer, self.encoder
        if not isinstance(encoder, encoding.PreparedEncoder):
            return explainer.explain(content)
        explained, begin = list[ExplainedPreToken](), 0
        for piece, id_, added in encoder.prepared(content):
            explained += explainer.explain(piece, begin)
            begin += len(piece)
            if id_ >= 0:
                tokens = (self.spec.vocab[id_],)
                explained.append(ExplainedPreToken(added, begin, (), (id_,), tokens, whole=True))
                begin += len(added)
        return explained

    def decode_bytes(self, ids: Iterable[int] | NDArray[Any]) -> bytes:
        """Decode token ids to bytes; raises `UnknownToken` for unknown ids."""
        return self._decoder.decode(ids)

    def decode(self, ids: Iterable[int] | NDArray[Any], errors: OnInvalid = "replace") -> str:
        """Decode token ids to text, including special tokens.

        Args:
            errors: for bytes that are not UTF-8 (a token may end inside a character):
                ``"replace"`` gives U+FFFD, ``"strict"`` raises, ``"ignore"`` skips them.

        Raises:
            UnknownToken: an id is not in the vocab.
            UnicodeDecodeError: not UTF-8, with ``"strict"``.
        """
        return (self._made_decoder or self._decoder).text(ids, errors)

    def decode_batch(
        self, batch: Iterable[Iterable[int] | NDArray[Any]], errors: OnInvalid = "replace"
    ) -> list[str]:
        """Decode many sequences of ids, each as in `decode`."""
        if isinstance(batch, str | bytes | Mapping) or not isinstance(batch, Iterable):
            raise WrongKind(
                f"expected many sequences of ids, not one value of type {type(batch).__name__}",
                "expected: an iterable of lists or arrays of ids",
                "write decode(ids) for one sequence, or [ids]",
            )
        return [self.decode(ids, errors) for ids in batch]

    def decode_stream(self, errors: OnInvalid = "replace") -> DecodeStream:
        """Return a decoder for ids that arrive one at a time, as from a model."""
        return self._decoder.stream(errors)

    def token_to_id(self, token: str | bytes) -> int:
        """Return the id of a token, given as bytes or text, or raise `UnknownToken`."""
        if isinstance(token, str) and token in self.spec.special_tokens:
            return self.spec.special_tokens[token]
        content = token if isinstance(token, bytes) else utf8_of(token)
        try:
            return self.spec.ids[content]
        except KeyError:
            added = self.spec.found_whole
            if isinstance(token, str) and token in added:
                return added[token]
            raise UnknownToken(
                f"the token {shown(token)} is not in the vocab of {self.vocab_size} tokens",
                "expected a token of the vocab",
                "encode the text instead: it may take several tokens",
            ) from None

    def id_to_token(self, id_: int) -> bytes:
        """Return the bytes of a token, or raise `UnknownToken`."""
        content = self.decode_bytes([id_])
        # Control tokens of SentencePiece models have a name but decode to no text.
        return self.spec.vocab[id_] if self.is_special(id_) else content

    def is_special(self, id_: int) -> bool:
        """Return whether an id is a special token; False for unknown ids."""
        if type(id_) is not int and not isinstance(id_, np.integer):
            raise WrongKind(
                f"an id must be a whole number, not of type {type(id_).__name__}",
                "expected: an int or a NumPy integer",
                "write is_special(token_to_id(token)) for a token",
            )
        return id_ in self._special_ids

    def save(self, path: str | Path, format: SavedFormat = "bpeline") -> None:
        """Write the tokenizer to a file or directory, atomically and durably.

        Args:
            path: a directory for ``bpeline``, ``transformers``, ``gpt2`` and ``frequency-bpe``;
                otherwise a file.
            format: ``bpeline``; ``hf``: HuggingFace's tokenizer.json; ``transformers``: the same
                with the files that ``AutoTokenizer`` needs; ``gpt2``: vocab.json and merges.txt;
                ``tiktoken``: ranks, without pattern and special tokens; ``subword-nmt``: a codes
                file; ``wordpiece``: vocab.txt; ``frequency-bpe``: freqs.json, vocab_to_idx.json
                and idx_to_vocab.json; ``sentencepiece``: a .model; ``gguf``: metadata for
                llama.cpp. A tokenizer.json is read back and compared before it is written;
                `bpeline export` also compares it with its library.

        Raises:
            InvalidOption: an unknown format.
            InvalidTokenizer: the format cannot represent this tokenizer.
            DiskFull: no space left.

        Warns:
            UserWarning: a codes file does not hold some characters of the vocab.
        """
        from bpeline.tokenizer_core.formats import forgotten_by, save_with_roles

        checks.choice("format", format, SavedFormat)
        save_with_roles(format, self, checks.path("path", path), self.spec.roles)
        if forgotten := forgotten_by(format, self):
            warnings.warn(forgotten, stacklevel=2)

    @classmethod
    def from_pretrained(cls, name: str | Path, revision: str | None = None) -> Tokenizer:
        """Load a tokenizer by path, registered name or Hugging Face repository.

        Args:
            name: a folder or file, see `load`; ``news@champion`` or ``news/3``, see
                `bpeline.load_tokenizer`; or ``ORG/REPO``.
            revision: branch, tag or commit of the repository; ``main`` by default.

        Raises:
            BpelineError: nothing of that name can be loaded; see `load` and `load_tokenizer`.
        """
        if not isinstance(name, Path):
            checks.text("name", name, "news@champion")
        if revision is not None:
            checks.text("revision", revision, "main")
        if isinstance(name, Path) or (revision is None and Path(name).exists()):
            return cls.load(name)
        if revision is not None or _REPOSITORY.fullmatch(name):
            name = f"hf://{name.removeprefix('hf://')}@{revision or 'main'}"
        # Names are the registry's; the core imports it here only, when a name is loaded.
        tokenizer: Tokenizer = import_module("bpeline.registry").load_tokenizer(name)
        return tokenizer

    def save_pretrained(self, path: str | Path) -> None:
        """Write a folder for ``AutoTokenizer.from_pretrained``: `save` as ``transformers``."""
        self.save(path, "transformers")

    @classmethod
    def load(cls, path: str | Path, format: Format | None = None, **details: Any) -> Tokenizer:
        """Read a tokenizer. Files are parsed as data; no code in them is executed.

        Args:
            path: a file or directory of `save` or of another tool.
            format: see `save`; by default recognised by file names.
            details: parameters of the format's ``load`` in `tokenizer_core.formats`: what the files
                lack (``pattern=``, ``special_tokens=``) or should be ignored
                (``without_normalizer=True``). No defaults are assumed for what the files lack.

        Raises:
            MissingSource: the path does not exist.
            CorruptFile: the file was altered.
            InvalidTokenizer: the file is invalid or needs an unsupported feature.
            InvalidOption: an unknown or unrecognised format, or an unknown or missing detail.
        """
        from bpeline.tokenizer_core.formats import details_of, format_named, format_of

        path = checks.path("path", path)
        name = format or format_of(path)
        file_format = format_named(name)
        loaded = cls.of_spec(file_format.load(path, **details_of(name, details)))
        if hasattr(file_format, "verify"):
            file_format.verify(loaded, path)
        _ = loaded.encoder  # loaded tokenizers are usually used at once
        return loaded

    def _ids_of(
        self,
        text: str | bytes,
        allowed_special: AllowedSpecial | None,
        on_special: OnSpecial,
        threads: int | None = 1,
    ) -> NDArray[np.uint32]:
        unchecked = isinstance(text, bytes)
        if allowed_special is None:
            allowed_special = self._default
        is_default = on_special is _TEXT and allowed_special is self._plain
        if is_default and type(text) is str and len(text) <= _SOONER_LISTED:
            return np.array(self.encode(text, allowed_special), np.uint32)
        content = text if isinstance(text, bytes) else utf8_of(text)
        if is_default:
            return encoding.encode_long(self.encoder, content, self._cutting, threads, unchecked)
        encoder, policy = self._asked(allowed_special, on_special)
        if not policy.allowed and not policy.forbidden:
            return encoding.encode_long(encoder, content, self._cutting, threads, unchecked)
        whole = Text.of(content)
        if unchecked:
            refuse_invalid_utf8(whole)
        policy.refuse_forbidden(content.decode() if policy.forbidden else "")
        ids, _ = encoder.encode(whole, *spans_between(whole, 0, whole.size, policy))
        return ids.copy()  # a slice would keep a much larger array alive

    def _templated(self, ids: list[int]) -> list[int]:
        pipeline = self.spec.pipeline
        return ids if pipeline is None or not pipeline.template else pipeline.template.around(ids)

    def _asked(
        self, allowed_special: AllowedSpecial | None, on_special: OnSpecial
    ) -> tuple[encoding.Encoder, SpecialPolicy]:
        """Return the encoder for a call, and the special tokens to split at first."""
        allowed = self._default if allowed_special is None else allowed_special
        policy = self._policies.of(allowed, on_special)
        if not self._finds_special:
            return self.encoder, policy
        finding = encoding.encoder_finding(self.spec, self.encoder, policy.allowed)
        return finding, replace(policy, allowed={})

    @cached_property
    def _policies(self) -> SpecialPolicies:
        return SpecialPolicies(self.spec.special_tokens)

    def _independent_cuts(
        self, encoder: encoding.Encoder, allowed_special: AllowedSpecial | None
    ) -> Cuts:
        allowed = self._default if allowed_special is None else allowed_special
        tokens = self._policies.of(allowed, "text").allowed
        pairs: CutPairs | SentenceBreaks | None = self.spec.pattern.cut_pairs
        if self.words is not None and self.words.marks is not None:
            pairs = self.words.marks.breaks
        every = tuple(token.encode() for token in self.spec.special_tokens)
        special = tuple(token.encode() for token in tokens)
        return encoder.independent_cuts(Cuts(pairs=pairs, special_tokens=special, unbroken=every))

    @property
    def _cutting(self) -> SplitPattern | None:
        """The pattern that defines independent cuts; None if there are none."""
        marked = self.words is not None and self.words.marks is not None
        prepared = self._finds_special or isinstance(self.encoder, encoding.PreparedEncoder)
        return None if marked or prepared else self.spec.pattern

    @cached_property
    def explainer(self) -> encoding.Explainer:
        """Explains the tokens of byte-level BPE, else raises `InvalidOption`."""
        return encoding.Explainer(
            self.spec.byte_ids,
            self.byte_pairs.merge_ids,
            self.spec.ids,
            self.spec.pattern,
            self.spec.ignore_merges,
        )


def _placed(
    words: encoding.PlacingEncoder, content: bytes, policy: SpecialPolicy
) -> encoding.PlacedIds:
    whole = Text.of(content)
    return words.placed(whole, *spans_between(whole, 0, whole.size, policy))


def _dtype_of(asked: DTypeLike) -> np.dtype[Any]:
    """Return a NumPy dtype; unlike NumPy, None is an error and not float64."""
    try:
        if asked is None:
            raise TypeError
        return np.dtype(asked)
    except (TypeError, ValueError, SyntaxError):
        raise WrongKind(
            f"dtype is {asked!r}", "expected: a NumPy number type", "write dtype=np.int64"
        ) from None


def _largest_whole(dtype: np.dtype[Any]) -> int:
    """The largest n with all whole numbers up to n in a dtype; −1 if none."""
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).max)
    return 1 << int(np.finfo(dtype).nmant) + 1 if dtype.kind == "f" else -1
