"""How well a tokenizer compresses held-out documents, in figures with their denominators.

Knows nothing of how documents were held out or where the figures go.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenizer_core.batch_encoding import encode_contents
from tokenizer_core.chunk_counts import count_spans
from tokenizer_core.encoding import spans_of_lengths
from tokenizer_core.errors import EmptyCorpus
from tokenizer_core.reachability import undecodable_tokens, unreachable_tokens
from tokenizer_core.special_policy import SpecialPolicy
from tokenizer_core.text import Text
from tokenizer_core.text_input import refuse_invalid_utf8
from tokenizer_core.token_distribution import (
    RARE,
    RENYI_ORDER,
    TokenDistribution,
    token_distribution,
)
from tokenizer_core.tokenizer import Tokenizer
from tokenizer_core.word_counts import WordCounts
from tokenizer_core.word_sums import WordSum

WORD_DEFINITION = "a maximal run of characters that are not white space (str.split)"
_FIRST_SIZE = 512
_PART_BYTES = 1 << 22  # documents encoded at a time
_ORDINARY = SpecialPolicy({})


@dataclass(frozen=True, slots=True)
class CompressionReport:
    """What `evaluate` found. B, C, W, T: bytes, code points, words and tokens of all documents.

    Special tokens in the documents are ordinary text: they count in every figure.

    Attributes:
        bytes_per_token: B / T, the compression; higher is better.
        chars_per_token: C / T.
        fertility: T / W, with words as `WORD_DEFINITION` says.
        compression_ratio_vs_bytes: 1 − T / B.
        vocab_utilization: |V⁺| / |V|, V⁺ the tokens that occur, V the vocab with special tokens.
        unreachable_tokens: ordinary tokens v with encode(decode(v)) ≠ [v].
        undecodable_tokens: ordinary tokens that are not UTF-8 alone, so that nothing can be said.
            None with other algorithms than byte-level BPE, whose tokens are parts of words.
        roundtrip_failures: documents d with decode(encode(d)) ≠ d; of byte-level BPE anything but
            0 is a defect, other algorithms keep words and not what is between them.
        unknown_rate: share of T that is the unknown token; 0 for byte-level BPE, which has none.
        continued_words: share of pre-tokens that take several tokens (Rust et al. 2021, who
            speak of words).
        single_token_words: share of distinct pre-tokens that take one (Nayeem et al. 2025).
        distribution: how evenly the vocab is used; see there.
        unigram_bits_per_byte: code length of the tokens under their own distribution, per byte:
            comparable between vocabs of any size.
        mean_token_bytes, median_token_bytes, longest_token_bytes: of the ordinary tokens of V.
        encode_mb_per_second: 10⁶ bytes per second, one thread, caches warm, ids as NumPy arrays.
        curve: (vocab size, bytes per token) at 512, 1024, 2048, … and the size itself, as if
            training had stopped there (the size itself alone for one with ``ignore_merges``
            whose merges do not make every token, and for other algorithms).
        bytes, chars, words, tokens, documents: the denominators.
        pre_tokens, distinct_pre_tokens: further denominators.
        vocab_size: |V|.
    """

    bytes_per_token: float
    chars_per_token: float
    fertility: float
    compression_ratio_vs_bytes: float
    vocab_utilization: float
    unreachable_tokens: int | None
    undecodable_tokens: int
    roundtrip_failures: int
    unknown_rate: float
    continued_words: float
    single_token_words: float
    distribution: TokenDistribution
    unigram_bits_per_byte: float
    mean_token_bytes: float
    median_token_bytes: float
    longest_token_bytes: int
    encode_mb_per_second: float
    curve: tuple[tuple[int, float], ...]
    bytes: int
    chars: int
    words: int
    tokens: int
    documents: int
    pre_tokens: int
    distinct_pre_tokens: int
    vocab_size: int

    def as_dict(self) -> dict[str, Any]:
        """Everything as JSON values, with the definitions the figures rest on."""
        return asdict(self) | {
            "curve": [list(point) for point in self.curve],
            "renyi_order": RENYI_ORDER,
            "rare_below": RARE,
            "word_definition": WORD_DEFINITION,
        }


def evaluate(tokenizer: Tokenizer, documents: Sequence[bytes]) -> CompressionReport:
    """Measure a tokenizer on documents (formulas: `CompressionReport`).

    Args:
        tokenizer: of any origin; the curve takes its first merges as a smaller tokenizer's.
        documents: UTF-8; best such that training has not seen.

    Raises:
        EmptyCorpus: the documents hold no text, or no word where only words are encoded.
        InvalidUtf8: a document is not UTF-8.
    """
    size = sum(map(len, documents))
    occurrences = np.zeros(max(tokenizer.vocab) + 1, np.int64)
    distinct_words = WordSum(tokenizer.pattern)
    seen = chars = words = failures = 0
    seconds = 0.0
    for part in _parts(documents):
        text = Text.of(b"".join(part))
        refuse_invalid_utf8(text)
        words += sum(len(document.decode().split()) for document in part)
        chars += int(((text.data[: text.size] & 0xC0) != 0x80).sum())
        ids, edges = encode_contents(tokenizer.encoder, part, _ORDINARY)
        begun = time.perf_counter()
        encode_contents(tokenizer.encoder, part, _ORDINARY)
        seconds += time.perf_counter() - begun
        occurrences += np.bincount(ids, minlength=len(occurrences))
        failures += sum(
            tokenizer.decode_bytes(ids[edges[i] : edges[i + 1]]) != document
            for i, document in enumerate(part)
        )
        counted = count_spans(text, spans_of_lengths(part), tokenizer.pattern)
        distinct_words.add(counted.shifted(seen))
        seen += text.size
    tokens = int(occurrences.sum())
    pre_tokens = distinct_words.result()
    if not len(pre_tokens):
        raise EmptyCorpus(
            "there is no text to evaluate on",
            "at least one document with text",
            "hold out more, or name files to evaluate on",
        )
    tokens_of = np.diff(tokenizer.encoder.encode_words(pre_tokens.words())[1], prepend=0)
    distribution = token_distribution(occurrences, tokenizer.vocab_size)
    ordinary = _ordinary_tokens(tokenizer)
    lengths = np.fromiter(map(len, ordinary), np.int64, len(ordinary))
    return CompressionReport(
        bytes_per_token=size / tokens,
        chars_per_token=chars / tokens,
        fertility=tokens / words if words else 0.0,
        compression_ratio_vs_bytes=1 - tokens / size,
        vocab_utilization=distribution.distinct_tokens / tokenizer.vocab_size,
        unreachable_tokens=len(unreachable_tokens(tokenizer.encoder, ordinary))
        if tokenizer.words is None
        else None,
        undecodable_tokens=undecodable_tokens(ordinary),
        roundtrip_failures=failures,
        unknown_rate=int(occurrences[_unknown_ids(tokenizer)].sum()) / tokens,
        continued_words=int(pre_tokens.counts[tokens_of > 1].sum()) / pre_tokens.total,
        single_token_words=int((tokens_of == 1).sum()) / len(pre_tokens),
        distribution=distribution,
        unigram_bits_per_byte=distribution.unigram_bits(tokens) / size,
        mean_token_bytes=float(lengths.mean()),
        median_token_bytes=float(np.median(lengths)),
        longest_token_bytes=int(lengths.max()),
        encode_mb_per_second=size / 1e6 / max(seconds, 1e-9),
        curve=_curve(tokenizer, size, tokens, pre_tokens),
        bytes=size,
        chars=chars,
        words=words,
        tokens=tokens,
        documents=len(documents),
        pre_tokens=pre_tokens.total,
        distinct_pre_tokens=len(pre_tokens),
        vocab_size=tokenizer.vocab_size,
    )


def _curve(
    tokenizer: Tokenizer, size: int, tokens: int, words: WordCounts
) -> tuple[tuple[int, float], ...]:
    # Words that are taken whole take no merges, so gains say nothing about smaller sizes.
    if tokenizer.words is not None or tokenizer.byte_pairs.has_whole_words:
        return ((tokenizer.vocab_size, size / tokens),)
    return compression_curve(tokenizer, size, tokenizer.merge_gains(words))


def compression_curve(
    tokenizer: Tokenizer, size: int, gains: NDArray[np.int64]
) -> tuple[tuple[int, float], ...]:
    """(vocab size, bytes per token) at 512, 1024, … and the full size, from merge gains.

    Args:
        tokenizer: whose vocab holds, besides the merges' results, bytes and special tokens.
        size: bytes of the text, in which nothing but merges shortens.
        gains: int64 ``[n_merges]`` on that text, from `Tokenizer.merge_gains`.
    """
    full = tokenizer.vocab_size
    without_merges = full - len(gains)
    tokens_left = size - np.concatenate(([0], np.cumsum(gains)))
    sizes = [_FIRST_SIZE << doubling for doubling in range(full.bit_length())]
    chosen = [s for s in sizes if without_merges <= s < full] + [full]
    return tuple((s, size / int(tokens_left[s - without_merges])) for s in chosen)


def _parts(documents: Sequence[bytes]) -> list[list[bytes]]:
    parts: list[list[bytes]] = [[]]
    room = _PART_BYTES
    for document in documents:
        if room < 0:
            parts.append([])
            room = _PART_BYTES
        parts[-1].append(document)
        room -= len(document)
    return parts


def _unknown_ids(tokenizer: Tokenizer) -> list[int]:
    """The id of the unknown token, where the algorithm has one."""
    unknown = getattr(tokenizer.algorithm, "unknown", None)
    return [] if unknown is None else [tokenizer.token_to_id(unknown)]


def _ordinary_tokens(tokenizer: Tokenizer) -> dict[bytes, int]:
    special = set(tokenizer.special_tokens.values())
    return {token: id_ for id_, token in tokenizer.vocab.items() if id_ not in special}
