"""The tokenizer as people use it: text to ids and back."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bpeline.tokenizer_core import checks, encoding
from bpeline.tokenizer_core.companions import coders_of
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
_SOONER_LISTED = 1_000  # characters: an array is made sooner from a list of their ids
_SAMPLE = "The quick brown fox doesn’t jump over 1,234 lazy dogs: naïve café, 中文, 🎉."

SavedFormat = Literal[
    "bpeline", "hf", "transformers", "gpt2", "tiktoken", "subword-nmt", "wordpiece",
    "frequency-bpe", "sentencepiece", "gguf",
]  # fmt: skip
Format = Literal[SavedFormat, "tekken", "greedy"]  # these two are read and not written


class Tokenizer:
    """Byte-level BPE, or another algorithm: immutable, safe to use from many threads.

    With byte-level BPE ``encode`` cuts the text into pre-tokens and joins, in each, the adjacent
    pair of lowest rank (the leftmost of equals) until no merge is left: the ids of HuggingFace
    ``tokenizers`` and of tiktoken. For other algorithms see `tokenizer_core.algorithms`. Text that
    spells a special token is ordinary text unless it is allowed.

    Lone surrogates in a ``str`` have no UTF-8 form; they are encoded as U+FFFD, pairs of them as
    the character they stand for (tiktoken's rule). All other text survives the round trip.

    Args:
        vocab: id → bytes; ids may have gaps. Holds all 256 bytes and the special tokens.
        merges: pairs of bytes in order of rank.
        special_tokens: token → id, or tokens whose ids are looked up in the vocab.
        pattern: the split pattern: a name, a regex or a `SplitPattern`; by default that of the
            algorithm, ``gpt2`` for byte-level BPE.
        algorithm: see `tokenizer_core.algorithms`; what is said of bytes and of merges is said of
            byte-level BPE.
        ignore_merges: a pre-token that is itself in the vocab becomes that one token, whatever
            its merges say (a flag of HuggingFace's format, which Llama 3 sets). Special tokens
            are not among these: they are found where they are allowed, and nowhere else.
        cache_words: how many words all threads together remember (up to 144 bytes each); 0: none.

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
        """The tokenizer that a value describes.

        Raises:
            InvalidTokenizer: marks of the algorithm that the vocab lacks, or tokens of characters
                that are not UTF-8.
            InvalidOption: the cache size cannot be used, or a library is missing.
        """
        checks.instance("spec", spec, TokenizerSpec)
        made = cls.__new__(cls)
        made._build(spec, cache_words)
        return made

    def _build(self, spec: TokenizerSpec, cache_words: int) -> None:
        if checks.whole_number("cache_words", cache_words, 0) > encoding.MAX_CACHE_WORDS:
            raise InvalidOption(
                f"a cache of {cache_words} words was asked for",
                f"accepted: 0 (none) to {encoding.MAX_CACHE_WORDS}",
                f"leave cache_words out for {encoding.DEFAULT_CACHE_WORDS}",
            )
        #: What it does, as a value.
        self.spec = spec
        self._cache_words = cache_words
        #: The encoder where text is encoded word by word; None with others.
        self.words: WordEncoder | None = None
        self._finds_special = spec.finds_special
        # Values of `allowed_special`: the default, and the one that the encoder itself follows.
        self._default = "all" if spec.allowed_special == "all" else "none"
        self._plain = "all" if self._finds_special else "none"
        # Plain attributes: a property that keeps its value makes all others slower to find.
        self._made_encoder: encoding.Encoder | None = None
        self._made_decoder: encoding.Decoder | None = None
        if not isinstance(spec.algorithm, ByteBpe):
            made, self._made_decoder = coders_of(spec)
            self._made_encoder = self._prepared(made)
            if isinstance(made, WordEncoder) and self._made_encoder is made:
                self.words = made
            if spec.pipeline is not None and spec.pipeline.decoder is not None:
                self._made_decoder = encoding.StepDecoder(token_names(spec), spec.pipeline.decoder)
        self._special_ids = frozenset(spec.special_tokens.values())

    # What byte-level BPE reads while it encodes and decodes is made when it is first needed: a
    # tokenizer that is trained, compared or exported only needs neither.

    @property
    def encoder(self) -> encoding.Encoder:
        """The engine underneath, for those who have spans of bytes rather than strings."""
        if self._made_encoder is None:
            merging = encoding.byte_pair_encoder(self.spec, self._cache_words)
            absent = self.spec.byte_ids < 0
            whole = encoding.AbsentBytesEncoder(merging, absent) if absent.any() else merging
            self._made_encoder = self._prepared(whole)
        return self._made_encoder

    def _prepared(self, encoder: encoding.Encoder) -> encoding.Encoder:
        """An encoder of texts as an imported tokenizer prepares them."""
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
        """Knows how much of a text each token is.

        Raises:
            InvalidOption: tokens are no pieces of the text.
        """
        if not self.merges_words or isinstance(self._decoder, encoding.StepDecoder):
            encoding.refuse_places()
        return self._decoder

    @property
    def byte_pairs(self) -> encoding.BytePairEncoder:
        """The encoder of byte-level BPE.

        Raises:
            InvalidOption: this tokenizer follows another algorithm.
        """
        encoder = self.encoder
        if isinstance(encoder, encoding.PreparedEncoder):
            encoder = encoder.inner
        if isinstance(encoder, encoding.AbsentBytesEncoder):
            encoder = encoder.merging
        if not isinstance(encoder, encoding.BytePairEncoder):
            raise InvalidOption(
                f"this tokenizer follows {self.spec.algorithm.name}",
                "what was asked for is known of byte-level BPE alone",
                "use a tokenizer that `train_bpe` made",
            )
        return encoder

    @property
    def merges_words(self) -> bool:
        """Whether the words of its pattern are encoded by merges of bytes, just as they are."""
        pipeline = self.spec.pipeline
        changed = pipeline is not None and (
            pipeline.normalizer or pipeline.prefix or (self.spec.byte_ids < 0).any()
        )
        return isinstance(self.spec.algorithm, ByteBpe) and not changed

    @property
    def algorithm(self) -> Algorithm:
        """What turns text into ids: see `tokenizer_core.algorithms`."""
        return self.spec.algorithm

    @property
    def vocab(self) -> Mapping[int, bytes]:
        """id → bytes, special tokens included; a read-only view."""
        return self.spec.vocab.view if isinstance(self.spec.vocab, TokenTable) else self.spec.vocab

    @property
    def merges(self) -> list[tuple[bytes, bytes]]:
        """Pairs of bytes in order of rank; made anew at each call."""
        return list(self.spec.merges)

    @property
    def merge_ids(self) -> MergeIds:
        """Ids of the left and right part and of the result of each merge, by rank; copies."""
        left, right, results = (part.astype(np.int64) for part in self.spec.merge_ids)
        return left, right, results

    @property
    def special_tokens(self) -> dict[str, int]:
        """Special token → id; a copy."""
        return dict(self.spec.special_tokens)

    @property
    def pattern(self) -> SplitPattern:
        """How text is cut into pre-tokens."""
        return self.spec.pattern

    @property
    def ignore_merges(self) -> bool:
        """Whether a pre-token that is in the vocab is one token regardless of merges."""
        return self.spec.ignore_merges

    @property
    def vocab_size(self) -> int:
        """Number of tokens: bytes, merges and special tokens."""
        return len(self.spec.vocab)

    @property
    def digest(self) -> str:
        """SHA-256 of the behaviour: pattern, special tokens, ids, merges. Equal digests, equal ids.

        How the merges were learned (tie-break, corpus) is no part of it.
        """
        return self.spec.digest

    def __repr__(self) -> str:
        pattern = self.spec.pattern.name or shown(self.spec.pattern.title)
        specials = len(self.spec.special_tokens)
        name = "" if self.spec.algorithm == BYTE_BPE else f", {self.spec.algorithm.name}"
        found = f" ({self.spec.allowed_special} found by default)" if specials else ""
        return (
            f"<Tokenizer: {self.vocab_size} tokens, {specials} special{found}, "
            f"pattern {pattern}{name}>"
        )

    def __len__(self) -> int:
        return self.vocab_size

    def _repr_html_(self) -> str:
        """What a notebook shows of it."""
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
        """The tokens of ``text`` for people: coloured in a notebook, else with ``|`` between them.

        Raises:
            WrongKind, InvalidSpecialToken, InvalidOption: as `encode`.

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
        # For multiprocessing: a process builds its own tables and caches.
        return type(self).of_spec, (self.spec, self._cache_words)

    # Text to ids

    @overload
    def __call__(self, text: str, **how: Any) -> list[int]: ...

    @overload
    def __call__(self, text: Iterable[str], **how: Any) -> list[list[int]]: ...

    def __call__(self, text: str | Iterable[str], **how: Any) -> list[int] | list[list[int]]:
        """`encode` of a text, `encode_batch` of several."""
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
        """Token ids of ``text``.

        Args:
            text: any string.
            allowed_special: special tokens recognized in the text: ``"none"``, ``"all"`` or a set.
                At one place the longest wins. By default ``spec.allowed_special``: ``"none"`` of
                tokenizers trained here, ``"all"`` of imported ones whose own library finds them.
            on_special: what happens to special tokens that are not allowed: ``"text"`` encodes
                them as ordinary text, ``"error"`` refuses the text.
            add_special_tokens: put around the ids what an imported tokenizer's post-processor
                does, such as ``[CLS]`` and ``[SEP]``; nothing where there is none.

        Raises:
            WrongKind: ``text`` is not a string.
            InvalidSpecialToken: the policy forbids what the text holds, or allows the unknown.
            InvalidOption: a policy of another name.
        """
        if add_special_tokens is not False and checks.flag(
            "add_special_tokens", add_special_tokens
        ):
            return self._templated(self.encode(text, allowed_special, on_special))
        if allowed_special is None:
            allowed_special = self._default
        # The same objects, which these words are: an array would be compared item by item.
        if on_special is _TEXT and allowed_special is self._plain:
            content = utf8_of(text)
            if len(content) <= encoding.SHORT_TEXT:
                return (self._made_encoder or self.encoder).encode_short(content)
        else:
            content = utf8_of(text)
        return listed(self._ids_of(content, allowed_special, on_special))

    def encode_ordinary(self, text: str) -> list[int]:
        """Token ids of ``text`` with every special token in it as ordinary text.

        Raises:
            WrongKind: ``text`` is not a string.
        """
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
        """Token ids as ``[n]``, without a Python object for each.

        Args:
            text: a string, or bytes in UTF-8.
            dtype: of the array, with room for every id; uint32 as they come, ``np.int64`` for
                torch.
            allowed_special, on_special: as for `encode`.
            threads: how many encode at once; by default one per available processor. Texts below
                two megabytes, or with special tokens to look for, take one.

        Raises:
            InvalidUtf8: bytes that are not UTF-8.
            InvalidOption: not every id of the vocab fits the dtype; and as `encode`.
            WrongKind, InvalidSpecialToken: as `encode`.
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
        """How many ids `encode` would give."""
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
        """Token ids of many texts, in their order, each as `encode` gives them.

        Args:
            texts: strings.
            threads: how many threads encode at once; by default one per available processor.
                Batches of less than a megabyte are not worth a second one.
            allowed_special, on_special, add_special_tokens: as for `encode`.

        Raises:
            InvalidOption: less than one thread.
            WrongKind, InvalidSpecialToken: as `encode`; nothing is returned then.
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
        """Token ids of many texts as one array, cut and padded to the same length; see `pad`.

        Returns:
            ids ``[n, length]``, of ``dtype``; and a mask, bool ``[n, length]``: True where a token
            of the text stands.

        Raises:
            InvalidOption: a length or a side that makes no sense, or ids that do not fit the dtype.
            WrongKind, InvalidSpecialToken, InvalidOption: as `encode_batch`.
        """
        batch = self.encode_batch(texts, threads, allowed_special, on_special)
        ids, mask = encoding.pad(batch, max_length, pad_id, pad_to, pad_side, cut_side)
        return self._as_dtype(ids, dtype, pad_id), mask

    def _as_dtype(
        self, ids: NDArray[np.uint32], dtype: DTypeLike, another: int = 0
    ) -> NDArray[Any]:
        """Ids, perhaps with one of no token, as other numbers; none of them becomes another."""
        if dtype is np.uint32:
            return ids
        wanted = _dtype_of(dtype)
        if max(self.spec.largest_id, another) > _largest_whole(wanted):
            raise InvalidOption(
                f"ids up to {max(self.spec.largest_id, another):,} do not fit the dtype {wanted}",
                "a dtype that holds every id of the vocab, as np.uint32 and np.int64 do",
                "leave dtype out, or give dtype=np.int64",
            )
        return ids.astype(wanted, copy=False)

    def encode_iterable(
        self,
        chunks_of_text: Iterable[str],
        allowed_special: AllowedSpecial | None = None,
        on_special: OnSpecial = "text",
    ) -> Iterator[int]:
        """Token ids of a long text that comes in pieces: the ids of the whole, in bounded memory.

        Pieces may end anywhere, even inside a word or a special token. Text is held back until a
        place where the ids of both sides are independent: two characters that the pattern always
        parts, the end of a line or of a sentence where these are encoded by themselves, or the
        start of an allowed special token. An imported tokenizer that normalizes texts is given
        parts between ASCII words, where its normalizer looks at no more than a few characters.
        Where there is no such place the whole text is held: with some regexes of your own, with
        tokenizers that merge over whole texts or put something before them (Llama 2, T5's kind
        with a mark before the text), and with SentencePiece models.

        Raises:
            WrongKind, InvalidSpecialToken, InvalidOption: as `encode`, when the text is reached;
                ids of the text before may have been given out by then.
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
        """Encode files into a directory of token shards, on all processors, in bounded memory.

        Killed or interrupted, the same call verifies the shards it finished and goes on behind
        them; with files added, it encodes these. Each document has the ids that `encode` gives.

        Args:
            paths: files, directories or globs, as for `count_words`, or one of them.
            out: the directory: see `token_shards` for what is in it; or the URL of a store.
            threads: how many; by default one per available processor. Shards are the same.
            separator: what stands between the documents of a text file, such as
                ``<|endoftext|>``, or several; without it each text file is one document (commands
                take the special tokens that `encode` does not find by default). Each line of a
                .jsonl file is one anyway. Empty documents are left out; separators have no ids.
            end_of_text: the special token whose id is put behind each document.
            invalid_utf8: ``strict`` refuses bytes that are not UTF-8, ``replace`` reads U+FFFD,
                ``ignore`` leaves them out.
            text_field: the member of a JSON line, or the column, that holds documents.
            id_field: the one that names them, for `TokenShards.place`; rows need not have it.
            allowed_special: special tokens found in documents, as for `encode`; ``"none"`` for text
                of strangers.
            format: ``bin``, ``npy``, ``megatron`` (what Megatron-LM's own writer leaves),
                ``parquet``, or a format of your own: see `shard_formats`.
            shard_bytes: bytes of text that make a shard, about; no document is divided.
            dropout: the probability with which a merge is left out at each step, see
                `derived.DropoutEncoding`; the manifest tells it. Which ones, ``seed``, the name of
                the file and the place in it decide, whatever the number of threads.
            seed: for ``dropout``: another one gives another encoding, such as the epoch.
            on_shard: told of each shard when it is there.
            on_progress: told how many more bytes of the files (on disk) are done.

        Returns:
            The documents; `TokenShards(out)` gives them again.

        Raises:
            MissingSource, UnreadableSource, InvalidUtf8, CorpusChanged: files cannot be read.
            InvalidOption: numbers below 1, ``out`` holds tokens of another tokenizer, or dropout
                that this tokenizer cannot have.
            InvalidSpecialToken: ``end_of_text`` is no special token of this tokenizer.
            WorkspaceLocked: another process writes to ``out``.
            StorageError: a store does not answer; likewise.
            DiskFull: no space left; shards that were finished stay.
        """
        checks.location("out", out)
        shard_bytes = checks.whole_number("shard_bytes", shard_bytes)
        checks.function("on_shard", on_shard)
        checks.function("on_progress", on_progress)
        made = file_encoding_of(
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
        job = ShardJob(made, files, shard_place(out), layout, shard_bytes, on_shard, on_progress)
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
        """Encode files that fit in memory as ids, on all processors; writes nothing.

        Arguments and errors are those of `encode_files`, and so are the ids.

        Returns:
            A sequence with the ids of each document; all of them are ``ids`` of it, uint16 for a
            vocab of at most 65,536 ids, else uint32.
        """
        checks.function("on_progress", on_progress)
        made = file_encoding_of(
            self,
            separator,
            end_of_text,
            invalid_utf8,
            text_field,
            id_field="",
            allowed_special=allowed_special,
        )
        return gather_files(made, find_source_files(sources_of(paths)), threads, on_progress)

    def merge_gains(self, words: WordCounts) -> NDArray[np.int64]:
        """How often each merge fires on counted words: int64 ``[n_merges]``.

        Ranks do not fall while a word is encoded, so with the first k merges alone the words take
        ``total_bytes - gains[:k].sum()`` tokens: one pass gives the counts at every vocab size.
        (Two merges with the same result, which training never makes, would break this; and words
        that are one token by ``ignore_merges`` are counted here as if they were not.)

        Args:
            words: cut by the pattern of the tokenizer.

        Raises:
            InvalidOption: an algorithm whose merges have no such order.
        """
        checks.instance("words", words, WordCounts)
        return self.byte_pairs.gains(words.word_bytes, words.offsets, words.counts)

    def encode_with_offsets(
        self,
        text: str,
        allowed_special: AllowedSpecial | None = None,
        on_special: OnSpecial = "text",
    ) -> EncodingWithOffsets:
        """Token ids of ``text``, and where in the text each of them stands.

        Byte offsets lie end to end and cover the text. A token may hold a part of a character
        only: its character offsets are those of all the characters it touches, so neighbours
        overlap then.

        Raises:
            WrongKind, InvalidSpecialToken, InvalidOption: as `encode`.
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
        """The longest prefix of ``text`` that `encode` turns into at most ``max_tokens`` ids.

        It never splits a character. Its ids are not always the first ids of the whole text: a
        prefix may end inside a token, or join what the whole text keeps apart. In a stretch of
        more than 4 KiB in which nothing surely parts two pre-tokens (anywhere, with a pattern that
        no automaton runs) the prefix fits, but a slightly longer one may fit as well. Where text
        is encoded word by word (`tokenizer_core.algorithms`) it is the longest one that ends with
        a word.

        Raises:
            InvalidOption: ``max_tokens`` is negative.
            WrongKind, InvalidSpecialToken, InvalidOption: as `encode`.
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
        """For each pre-token of ``text`` the merges that fired, in their order, and its ids.

        The ids joined are those of `encode`. For people: slow, and made for texts they can read.

        Raises:
            WrongKind: ``text`` is not a string.
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
                with ``"replace"``, an error with ``"strict"``, nothing with ``"ignore"``.

        Raises:
            UnknownToken: an id that the vocab does not hold.
            UnicodeDecodeError: not UTF-8, with ``"strict"``.
            InvalidOption: another way of handling errors.
        """
        return (self._made_decoder or self._decoder).text(ids, errors)

    def decode_batch(
        self, batch: Iterable[Iterable[int] | NDArray[Any]], errors: OnInvalid = "replace"
    ) -> list[str]:
        """The text of each of many sequences of ids, as `decode` gives it.

        Raises:
            UnknownToken, UnicodeDecodeError, InvalidOption: as `decode`.
        """
        if isinstance(batch, str | bytes | Mapping) or not isinstance(batch, Iterable):
            raise WrongKind(
                f"one value of type {type(batch).__name__} is given where many are decoded",
                "accepted: an iterable of lists or arrays of ids",
                "write decode(ids) for one of them, or [ids]",
            )
        return [self.decode(ids, errors) for ids in batch]

    def decode_stream(self, errors: OnInvalid = "replace") -> DecodeStream:
        """Text from ids that come one at a time, as from a model; see `DecodeStream`.

        Raises:
            InvalidOption: another way of handling errors.
        """
        return self._decoder.stream(errors)

    def token_to_id(self, token: str | bytes) -> int:
        """The id of a token: a special token by its text, any other by its bytes or text.

        Raises:
            UnknownToken: no such token.
        """
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
                f"the vocab does not hold the token {shown(token)}",
                f"{self.vocab_size} tokens are known",
                "encode the text instead: it may take several tokens",
            ) from None

    def id_to_token(self, id_: int) -> bytes:
        """The bytes of a token.

        Raises:
            UnknownToken: no such id.
        """
        content = self.decode_bytes([id_])
        # Control tokens of a SentencePiece model have a name, and no text.
        return self.spec.vocab[id_] if self.is_special(id_) else content

    def is_special(self, id_: int) -> bool:
        """Whether an id is that of a special token; False for ids that the vocab does not hold."""
        if type(id_) is not int and not isinstance(id_, np.integer):
            raise WrongKind(
                f"an id is a whole number, and not of type {type(id_).__name__}",
                "accepted: an int, or an integer of NumPy",
                "write is_special(token_to_id(token)) for a token",
            )
        return id_ in self._special_ids

    # Files

    def save(self, path: str | Path, format: SavedFormat = "bpeline") -> None:
        """Write the tokenizer durably.

        Args:
            path: a directory for ``bpeline``, ``transformers``, ``gpt2`` and ``frequency-bpe``,
                else a file. A tokenizer.json is written only if it is read back here as the same
                tokenizer; what its library makes of it is what `bpeline export` compares.
            format: ``bpeline``; ``hf``: HuggingFace's tokenizer.json; ``transformers``: that and
                what ``AutoTokenizer`` wants beside it; ``gpt2``: vocab.json and merges.txt;
                ``tiktoken``: ranks, without pattern and special tokens; ``subword-nmt``: a codes
                file; ``wordpiece``: vocab.txt; ``frequency-bpe``: freqs.json, vocab_to_idx.json
                and idx_to_vocab.json; ``sentencepiece``: a .model; ``gguf``: metadata for
                llama.cpp.

        Raises:
            InvalidOption: a format of another name.
            InvalidTokenizer: the format cannot hold this tokenizer.
            DiskFull: no space left.

        Warns:
            UserWarning: characters of the vocab that a codes file does not hold.
        """
        from bpeline.tokenizer_core.formats import forgotten_by, format_named

        checks.choice("format", format, SavedFormat)
        format_named(format).save(self, checks.path("path", path))
        if forgotten := forgotten_by(format, self):
            warnings.warn(forgotten, stacklevel=2)

    @classmethod
    def load(cls, path: str | Path, format: Format | None = None, **details: Any) -> Tokenizer:
        """Read a tokenizer; executes nothing that the files hold.

        Args:
            path: what `save` wrote, or other tools did.
            format: as for `save`; by default told from the names of the files.
            details: what files do not say (``pattern=``, ``special_tokens=``), or what of them is
                to be left out (``without_normalizer=True``): the parameters of the ``load`` of the
                format in `tokenizer_core.formats`. Nothing is assumed where a file is silent.

        Raises:
            MissingSource: nothing is there.
            CorruptFile: not what was written.
            InvalidTokenizer: a file that makes no sense, or asks for what is not supported.
            InvalidOption: a format of another name, or one that cannot be told; a detail that the
                format does not have, or one that it must be told.
        """
        from bpeline.tokenizer_core.formats import details_of, format_named, format_of

        path = checks.path("path", path)
        name = format or format_of(path)
        named = format_named(name)
        loaded = cls.of_spec(named.load(path, **details_of(name, details)))
        if hasattr(named, "verify"):
            named.verify(loaded, path)
        _ = loaded.encoder  # who loads a tokenizer encodes with it, and soon
        return loaded

    # Underneath

    def _ids_of(
        self,
        text: str | bytes,
        allowed_special: AllowedSpecial | None,
        on_special: OnSpecial,
        threads: int | None = 1,
    ) -> NDArray[np.uint32]:
        """Token ids of a string, or of bytes, which are checked to be UTF-8."""
        unchecked = isinstance(text, bytes)
        if allowed_special is None:
            allowed_special = self._default
        usual = on_special is _TEXT and allowed_special is self._plain
        if usual and type(text) is str and len(text) <= _SOONER_LISTED:
            return np.array(self.encode(text, allowed_special), np.uint32)
        content = text if isinstance(text, bytes) else utf8_of(text)
        if usual:
            return encoding.encode_long(self.encoder, content, self._cutting, threads, unchecked)
        encoder, policy = self._asked(allowed_special, on_special)
        if not policy.allowed and not policy.forbidden:
            return encoding.encode_long(encoder, content, self._cutting, threads, unchecked)
        whole = Text.of(content)
        if unchecked:
            refuse_invalid_utf8(whole)
        policy.refuse_forbidden(content.decode() if policy.forbidden else "")
        ids, _ = encoder.encode(whole, *spans_between(whole, 0, whole.size, policy))
        return ids.copy()  # the array it is cut from is much larger

    def _templated(self, ids: list[int]) -> list[int]:
        pipeline = self.spec.pipeline
        return ids if pipeline is None or not pipeline.template else pipeline.template.around(ids)

    def _asked(
        self, allowed_special: AllowedSpecial | None, on_special: OnSpecial
    ) -> tuple[encoding.Encoder, SpecialPolicy]:
        """The encoder of a call, and the special tokens at which its text is cut first."""
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
        """Where the ids of both sides of a text are those of the whole."""
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
        """Says where ids on both sides of a cut are independent; None where they never are."""
        marked = self.words is not None and self.words.marks is not None
        prepared = self._finds_special or isinstance(self.encoder, encoding.PreparedEncoder)
        return None if marked or prepared else self.spec.pattern

    @cached_property
    def explainer(self) -> encoding.Explainer:
        """Shows how texts and single tokens came about, by merges of bytes.

        Raises:
            InvalidOption: this tokenizer follows another algorithm.
        """
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
    """The NumPy type that is meant; None means none, which to NumPy is float64."""
    try:
        if asked is None:
            raise TypeError
        return np.dtype(asked)
    except (TypeError, ValueError, SyntaxError):
        raise WrongKind(
            f"dtype is {asked!r}", "accepted: a type of NumPy's numbers", "write dtype=np.int64"
        ) from None


def _largest_whole(dtype: np.dtype[Any]) -> int:
    """Up to which whole number a NumPy type holds each exactly; −1 where it is none of numbers."""
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).max)
    return 1 << int(np.finfo(dtype).nmant) + 1 if dtype.kind == "f" else -1
