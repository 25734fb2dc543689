"""How well a tokenizer compresses held-out documents, in figures with their denominators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.arguments import checked
from bpeline.tokenizer_core.charts import curves_in_notebook
from bpeline.tokenizer_core.encoding import unreachable_tokens
from bpeline.tokenizer_core.errors import EmptyCorpus, WrongKind
from bpeline.tokenizer_core.evaluation.compression_curve import Curve, curves_of, gains_on
from bpeline.tokenizer_core.evaluation.measuring import Measured, measure
from bpeline.tokenizer_core.evaluation.token_distribution import (
    RARE,
    RENYI_ORDER,
    TokenDistribution,
    token_distribution,
)
from bpeline.tokenizer_core.evaluation.token_fragments import fragment_tokens
from bpeline.tokenizer_core.tables import Table
from bpeline.tokenizer_core.text import utf8_of
from bpeline.tokenizer_core.tokenizer import Tokenizer

WORD_DEFINITION = "a maximal run of characters that are not white space (str.split)"
LINE_DEFINITION = "what ends at a line feed or at the end of a document"
_HIGH = [bytes([byte]) for byte in range(0x80, 0x100)]
# What figures rest on beside their formulas; kept with them.
DEFINITIONS = {
    "renyi_order": RENYI_ORDER,
    "rare_below": RARE,
    "word_definition": WORD_DEFINITION,
    "line_definition": LINE_DEFINITION,
}


@dataclass(frozen=True, slots=True)
class CompressionReport:
    """What `evaluate` found. B, C, W, L, T: bytes, code points, words, lines and tokens of all
    documents.

    Special tokens in the documents are ordinary text: they count in every figure.

    Attributes:
        bytes_per_token: B / T, the compression; higher is better.
        chars_per_token: C / T.
        fertility: T / W, with words as `WORD_DEFINITION` says.
        tokens_per_line: T / L.
        compression_ratio_vs_bytes: 1 − T / B.
        vocab_utilization: |V⁺| / |V|, V⁺ the tokens that occur, V the vocab with special tokens.
        unreachable_tokens: ordinary tokens v with encode(decode(v)) ≠ [v].
        undecodable_tokens: ordinary tokens that are not UTF-8 alone, so that nothing can be said.
            None with other algorithms than byte-level BPE, whose tokens are parts of words.
        mixed_fragment_tokens: those of them that hold whole characters beside a part of one.
        roundtrip_failures: documents d with decode(encode(d)) ≠ d; of byte-level BPE anything but
            0 is a defect, other algorithms keep words and not what is between them.
        unknown_rate: share of T that is the unknown token; 0 for byte-level BPE, which has none.
        byte_rate: share of T that is a single byte above 0x7F, a part of a character that no
            longer token holds (byte fallback).
        continued_words: share of pre-tokens that take several tokens (Rust et al. 2021, who
            speak of words).
        single_token_words: share of distinct pre-tokens that take one (Nayeem et al. 2025).
        distribution: how evenly the vocab is used; see there.
        unigram_bits_per_byte: code length of the tokens under their own distribution, per byte:
            comparable between vocabs of any size.
        description_length: bytes of the text under that code and of a list of V (each token and
            a byte for its length), over B: junk tokens cost here what they do not earn.
        mean_token_bytes, median_token_bytes, p99_token_bytes, longest_token_bytes: of the ordinary
            tokens of V; the mean over T is bytes_per_token.
        encode_mb_per_second: 10⁶ bytes per second, of one thread's processor time, caches warm,
            ids as NumPy arrays.
        decode_mb_per_second: the same of decoding them, document by document.
        curve: (vocab size, bytes per token) at 512, 1024, 2048, … and the size itself, as if
            training had stopped there (the size itself alone for one with ``ignore_merges``
            whose merges do not make every token, and for other algorithms).
        merge_gain: see `compression_curve.curves_of`; empty where there is no curve.
        bytes, chars, words, lines, tokens, documents: the denominators.
        pre_tokens, distinct_pre_tokens: further denominators.
        vocab_size: |V|.
    """

    bytes_per_token: float
    chars_per_token: float
    fertility: float
    tokens_per_line: float
    compression_ratio_vs_bytes: float
    vocab_utilization: float
    unreachable_tokens: int | None
    undecodable_tokens: int
    mixed_fragment_tokens: int
    roundtrip_failures: int
    unknown_rate: float
    byte_rate: float
    continued_words: float
    single_token_words: float
    distribution: TokenDistribution
    unigram_bits_per_byte: float
    description_length: float
    mean_token_bytes: float
    median_token_bytes: float
    p99_token_bytes: float
    longest_token_bytes: int
    encode_mb_per_second: float
    decode_mb_per_second: float
    curve: Curve
    merge_gain: Curve
    bytes: int
    chars: int
    words: int
    lines: int
    tokens: int
    documents: int
    pre_tokens: int
    distinct_pre_tokens: int
    vocab_size: int

    def __repr__(self) -> str:
        return (
            f"<CompressionReport: {self.bytes_per_token:.4f} bytes/token, {self.fertility:.4f} "
            f"tokens/word on {self.documents:,} documents, {self.bytes:,} bytes>"
        )

    def _repr_html_(self) -> str:
        """What a notebook shows: the figures that are looked at first, and the curve."""
        facts = {
            "bytes/token": f"{self.bytes_per_token:.4f}",
            "tokens/word": f"{self.fertility:.4f}",
            "tokens": f"{self.tokens:,}",
            "words of one token": f"{1 - self.continued_words:.2%}",
            "ids that occur": f"{self.vocab_utilization:.2%} of {self.vocab_size:,}",
            "bits/byte of its tokens alone": f"{self.unigram_bits_per_byte:.4f}",
            "documents that do not come back": f"{self.roundtrip_failures:,}",
        }
        measured_on = f"{self.documents:,} documents, {self.bytes:,} bytes"
        drawn = curves_in_notebook({"": self.curve})
        return f"{Table((), list(facts.items())).html(measured_on)}{drawn}"

    def as_dict(self) -> dict[str, Any]:
        """Everything as JSON values, with the definitions the figures rest on."""
        return asdict(self) | {
            "curve": [list(point) for point in self.curve],
            "merge_gain": [list(point) for point in self.merge_gain],
            **DEFINITIONS,
        }


@checked
def evaluate(tokenizer: Tokenizer, documents: Iterable[str | bytes]) -> CompressionReport:
    """Measure a tokenizer on documents (formulas: `CompressionReport`).

    Args:
        tokenizer: of any origin; the curve takes its first merges as a smaller tokenizer's.
        documents: texts, or their UTF-8; best such that training has not seen. A few MiB are in
            memory at a time.

    Example:
        >>> from bpeline import count_texts, train_bpe
        >>> tokenizer = train_bpe(count_texts(["low lower lowest"] * 2), 259)
        >>> evaluate(tokenizer, ["low low"]).tokens
        2

    Raises:
        InvalidOption: one text where documents are measured, or no tokenizer.
        EmptyCorpus: the documents hold no text, or no word where only words are encoded.
        InvalidUtf8: a document is not UTF-8.
    """
    if isinstance(documents, Mapping):
        raise WrongKind(
            f"a mapping is given where documents are measured; it gives its keys "
            f"{list(documents)[:3]!r}",
            "an iterable of documents",
            "evaluate(tokenizer, documents['train'])",
        )
    read = (one if isinstance(one, bytes) else utf8_of(one) for one in documents)
    (measured,) = measure([tokenizer], read)
    gains = gains_on(tokenizer, measured.words)
    return report(tokenizer, measured, vocab_figures(tokenizer), gains)


@dataclass(frozen=True, slots=True, eq=False)
class VocabFigures:
    """What can be said of a tokenizer without any text.

    Attributes:
        unreachable, undecodable, mixed: as in `CompressionReport`.
        lengths: int64: bytes of every ordinary token.
        unknown, high_bytes: ids of the unknown token, and of single bytes above 0x7F.
    """

    unreachable: int | None
    undecodable: int
    mixed: int
    lengths: NDArray[np.int64]
    unknown: list[int]
    high_bytes: list[int]


def vocab_figures(tokenizer: Tokenizer) -> VocabFigures:
    """Look at the vocab of a tokenizer; once for all texts."""
    ordinary = tokenizer.spec.ids
    unknown = getattr(tokenizer.algorithm, "unknown", None)
    by_bytes = tokenizer.merges_words
    fragments = fragment_tokens(ordinary)
    return VocabFigures(
        len(unreachable_tokens(tokenizer.encoder, ordinary)) if by_bytes else None,
        len(fragments.parts) + len(fragments.mixed),
        len(fragments.mixed),
        np.fromiter(map(len, ordinary), np.int64, len(ordinary)),
        [] if unknown is None else [tokenizer.token_to_id(unknown)],
        [ordinary[byte] for byte in _HIGH if byte in ordinary],
    )


def report(
    tokenizer: Tokenizer,
    measured: Measured,
    vocab: VocabFigures,
    gains: NDArray[np.int64] | None,
) -> CompressionReport:
    """The figures of what was measured.

    Args:
        gains: from `gains_on` the same text.

    Raises:
        EmptyCorpus: as `evaluate`.
    """
    text, pre_tokens, occurrences = measured.text, measured.words, measured.occurrences
    if not len(pre_tokens):
        raise EmptyCorpus(
            "there is no text to evaluate on",
            "at least one document with text",
            "hold out more, or name files to evaluate on",
        )
    tokens, size = measured.tokens, text.bytes
    tokens_of = np.diff(tokenizer.encoder.encode_words(pre_tokens.words())[1], prepend=0)
    distribution = token_distribution(occurrences, tokenizer.vocab_size)
    lengths = vocab.lengths
    bits = tokens * distribution.shannon_entropy  # the length of their code
    curve, merge_gain = Curve([(tokenizer.vocab_size, size / tokens)]), Curve()
    if gains is not None:
        curve, merge_gain = curves_of(tokenizer, size, gains)
    return CompressionReport(
        bytes_per_token=size / tokens,
        chars_per_token=text.chars / tokens,
        fertility=tokens / text.words if text.words else 0.0,
        tokens_per_line=tokens / text.lines,
        compression_ratio_vs_bytes=1 - tokens / size,
        vocab_utilization=distribution.distinct_tokens / tokenizer.vocab_size,
        unreachable_tokens=vocab.unreachable,
        undecodable_tokens=vocab.undecodable,
        mixed_fragment_tokens=vocab.mixed,
        roundtrip_failures=measured.roundtrip_failures,
        unknown_rate=int(occurrences[vocab.unknown].sum()) / tokens,
        byte_rate=int(occurrences[vocab.high_bytes].sum()) / tokens,
        continued_words=int(pre_tokens.counts[tokens_of > 1].sum()) / pre_tokens.total,
        single_token_words=int((tokens_of == 1).sum()) / len(pre_tokens),
        distribution=distribution,
        unigram_bits_per_byte=bits / size,
        description_length=(bits / 8 + float(lengths.sum() + len(lengths))) / size,
        mean_token_bytes=float(lengths.mean()),
        median_token_bytes=float(np.median(lengths)),
        p99_token_bytes=float(np.quantile(lengths, 0.99)),
        longest_token_bytes=int(lengths.max()),
        encode_mb_per_second=size / 1e6 / max(measured.encode_seconds, 1e-9),
        decode_mb_per_second=size / 1e6 / max(measured.decode_seconds, 1e-9),
        curve=curve,
        merge_gain=merge_gain,
        bytes=size,
        chars=text.chars,
        words=text.words,
        lines=text.lines,
        tokens=tokens,
        documents=text.documents,
        pre_tokens=pre_tokens.total,
        distinct_pre_tokens=len(pre_tokens),
        vocab_size=tokenizer.vocab_size,
    )
