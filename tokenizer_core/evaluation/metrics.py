"""Metrics of a tokenizer: on documents, of its vocab, at smaller sizes, on morphs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.bounded_files import read_file
from bpeline.tokenizer_core.charts import curves_in_notebook
from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.encoding import unreachable_tokens
from bpeline.tokenizer_core.errors import EmptyCorpus, InvalidOption, WrongKind
from bpeline.tokenizer_core.evaluation.measuring import Measured, measure
from bpeline.tokenizer_core.evaluation.metric_names import NAMES
from bpeline.tokenizer_core.tables import Table
from bpeline.tokenizer_core.text import utf8_of
from bpeline.tokenizer_core.tokenizer import Tokenizer

_RENYI_ORDER = 2.5
RARE = 100  # occurrences; models learn rarer tokens badly (Gowda & May 2020)
_COMMON_SHARE = 0.95
_MIDDLE = 0.03, 0.83  # percentiles of the observed tokens by rank
# Stored together with the metrics that depend on them.
DEFINITIONS = {
    "renyi_order": _RENYI_ORDER,
    "rare_below": RARE,
    "word_definition": "a maximal run of characters that are not white space (str.split)",
    "line_definition": "what ends at a line feed or at the end of a document",
}
_FIRST_SIZE = 512
_FEWEST_POINTS = 4  # of a curve for a knee
_LARGEST_GOLD = 64 << 20  # bytes


@dataclass(frozen=True, slots=True)
class TokenDistribution:
    """Figures of counts c_v over a vocab V.

    T = Σ c_v, p_v = c_v / T, V⁺ = {v: c_v > 0}.

    Attributes:
        distinct_tokens: |V⁺|.
        unused_tokens: |V| − |V⁺|.
        rare_tokens: tokens with 0 < c_v < `RARE`.
        f95: the greatest count that at least 95 % of V reach (Gowda & May 2020).
        type_token_ratio: |V⁺| / T.
        shannon_entropy: H = −Σ p_v log₂ p_v, in bits.
        shannon_efficiency: H / log₂|V|.
        renyi_efficiency: H₂.₅ / log₂|V|, H_α = log₂(Σ p_v^α) / (1 − α) (Zouhar et al. 2023).
        renyi_efficiency_observed: H₂.₅ / log₂|V⁺|; 0 when only one token occurs.
        imbalance: D = ½ Σ_v |p_v − 1/|V|| over V (Gowda & May 2020); 0 is even.
        percentile_frequency: Σ p_v over the ranks of V⁺ from 3 % to 83 %, most frequent first.
        average_rank: Σ p_v · rank(v), the most frequent token having rank 1 (Limisiewicz 2023).
    """

    distinct_tokens: int
    unused_tokens: int
    rare_tokens: int
    f95: int
    type_token_ratio: float
    shannon_entropy: float
    shannon_efficiency: float
    renyi_efficiency: float
    renyi_efficiency_observed: float
    imbalance: float
    percentile_frequency: float
    average_rank: float


def f95(counts: NDArray[np.int64], vocab_size: int) -> int:
    """The greatest count that 95 % of a vocab reach; ``counts`` in descending order."""
    common = math.ceil(_COMMON_SHARE * vocab_size)
    return int(counts[common - 1]) if common <= len(counts) else 0


def token_distribution(occurrences: NDArray[np.int64], vocab_size: int) -> TokenDistribution:
    """Compute the figures from positive counts by id, 0 for gaps; |V| is at least 2."""
    counts = np.sort(occurrences[occurrences > 0])[::-1]
    tokens, distinct = int(counts.sum()), len(counts)
    shares = counts / tokens
    shannon = max(0.0, float(-(shares * np.log2(shares)).sum()))
    renyi = float(np.log2((shares**_RENYI_ORDER).sum()) / (1 - _RENYI_ORDER))
    first, last = (int(distinct * share) for share in _MIDDLE)
    return TokenDistribution(
        distinct_tokens=distinct,
        unused_tokens=vocab_size - distinct,
        rare_tokens=int((counts < RARE).sum()),
        f95=f95(counts, vocab_size),
        type_token_ratio=distinct / tokens,
        shannon_entropy=shannon,
        shannon_efficiency=shannon / math.log2(vocab_size),
        renyi_efficiency=renyi / math.log2(vocab_size),
        renyi_efficiency_observed=renyi / math.log2(distinct) if distinct > 1 else 0.0,
        imbalance=float(
            (np.abs(shares - 1 / vocab_size).sum() + (vocab_size - distinct) / vocab_size) / 2
        ),
        percentile_frequency=float(shares[first:last].sum()),
        average_rank=float((shares * np.arange(1, distinct + 1)).sum()),
    )


@dataclass(frozen=True, slots=True)
class FragmentTokens:
    """Ordinary tokens that are not valid UTF-8, as (id, bytes) in order of id.

    Attributes:
        parts: tokens with parts of characters only, including the bytes above 0x7F.
        mixed: tokens with a part of a character and whole characters, such as a space and the first
            byte of a letter: predicting one commits a model to a range of letters.
    """

    parts: tuple[tuple[int, bytes], ...]
    mixed: tuple[tuple[int, bytes], ...]


def fragment_tokens(ids: Mapping[bytes, int]) -> FragmentTokens:
    """Find the ordinary tokens that contain parts of characters."""
    parts: list[tuple[int, bytes]] = []
    mixed: list[tuple[int, bytes]] = []
    for token, id_ in sorted(ids.items(), key=lambda one: one[1]):
        try:
            token.decode()
        except UnicodeDecodeError:
            whole = token.decode(errors="ignore")  # the whole characters
            (mixed if whole else parts).append((id_, token))
    return FragmentTokens(tuple(parts), tuple(mixed))


class Curve(tuple[tuple[int, float], ...]):
    """(vocab size, value) in order of size; drawn as a chart in notebooks.

    Example:
        >>> Curve([(512, 2.5), (1024, 3.0)])
        512: 2.5, 1,024: 3
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return ", ".join(f"{size:,}: {value:.6g}" for size, value in self)

    def _repr_html_(self) -> str:
        return curves_in_notebook({"": self}) or "no curve"


def has_curve(tokenizer: Tokenizer) -> bool:
    """Whether merge gains give the compression at smaller sizes."""
    return tokenizer.merges_words and not tokenizer.byte_pairs.has_whole_words


def gains_on(tokenizer: Tokenizer, words: WordCounts) -> NDArray[np.int64] | None:
    """`Tokenizer.merge_gains`, which add up for several texts; None without a curve."""
    return tokenizer.merge_gains(words) if has_curve(tokenizer) else None


def curve_sizes(tokenizer: Tokenizer) -> list[int]:
    """512, 1024, 2048, … within the range of the merges, and the full size."""
    full = tokenizer.vocab_size
    without_merges = full - len(tokenizer.merges)
    sizes = [_FIRST_SIZE << doubling for doubling in range(full.bit_length())]
    return [size for size in sizes if without_merges <= size < full] + [full]


def _curves_of(tokenizer: Tokenizer, size: int, gains: NDArray[np.int64]) -> tuple[Curve, Curve]:
    """`CompressionReport.curve` and ``merge_gain`` of a text of ``size`` bytes."""
    sizes = curve_sizes(tokenizer)
    tokens = _tokens_at(tokenizer, size, gains, sizes)
    gain = (
        (sizes[i], 1e6 * (tokens[i - 1] - tokens[i]) / (sizes[i] - sizes[i - 1]) / tokens[-1])
        for i in range(1, len(sizes))
    )
    return Curve((at, size / left) for at, left in zip(sizes, tokens, strict=True)), Curve(gain)


def bytes_per_token_at(
    tokenizer: Tokenizer, size: int, gains: NDArray[np.int64], sizes: Sequence[int]
) -> Curve:
    """(vocab size, bytes per token) at given sizes, from the first merges.

    ``gains`` is int64 ``[n_merges]`` of a text of ``size`` bytes, see `Tokenizer.merge_gains`.
    """
    full = tokenizer.vocab_size
    least = full - len(gains)
    for at in sizes:
        if not least <= at <= full:
            raise InvalidOption(
                f"the size {at:,} is out of range",
                f"expected {least:,} (without merges) to {full:,} (with all)",
                f"choose sizes from {least:,} to {full:,}",
            )
    tokens = _tokens_at(tokenizer, size, gains, sizes)
    return Curve((at, size / left) for at, left in zip(sizes, tokens, strict=True))


def _tokens_at(
    tokenizer: Tokenizer, size: int, gains: NDArray[np.int64], sizes: Sequence[int]
) -> list[int]:
    saved = np.concatenate(([0], np.cumsum(gains)))
    merges = [at - tokenizer.vocab_size + len(gains) for at in sizes]
    return [size - int(saved[number]) for number in merges]


def knee(curve: Sequence[tuple[int, float]]) -> int | None:
    """The knee of a curve by vocab size: Kneedle (Satopää et al. 2011), offline.

    Both axes are scaled to 0 … 1, the vocab size logarithmically. The knee is the highest point
    above the line from the first point to the last. It depends on where the curve ends.

    Returns:
        None for fewer than four points, or if no point is above that line.
    """
    if len(curve) < _FEWEST_POINTS:
        return None
    xs = [math.log2(size) for size, _ in curve]
    ys = [value for _, value in curve]
    if ys[-1] <= ys[0]:
        return None
    heights = [
        (y - ys[0]) / (ys[-1] - ys[0]) - (x - xs[0]) / (xs[-1] - xs[0])
        for x, y in zip(xs, ys, strict=True)
    ]
    highest = max(range(len(heights)), key=heights.__getitem__)
    return curve[highest][0] if heights[highest] > 1e-9 else None


@dataclass(frozen=True, slots=True)
class CompressionReport:
    """Result of `evaluate`.

    B, C, W, L, T: bytes, code points, words, lines and tokens of all documents. Special tokens in
    the documents are ordinary text and count in every figure.

    Attributes:
        bytes_per_token: B / T, the compression; higher is better.
        chars_per_token: C / T.
        fertility: T / W; words are separated by white space.
        tokens_per_line: T / L.
        compression_ratio_vs_bytes: 1 − T / B.
        vocab_utilization: |V⁺| / |V|, V⁺ the tokens that occur, V the vocab with special tokens.
        unreachable_tokens: ordinary tokens v with encode(decode(v)) ≠ [v]; None except for
            byte-level BPE.
        undecodable_tokens: ordinary tokens that are not valid UTF-8, see `FragmentTokens`.
        mixed_fragment_tokens: those with whole characters and a part of one.
        roundtrip_failures: documents d with decode(encode(d)) ≠ d. For byte-level BPE anything but
            0 is a defect; other algorithms do not keep the text between words.
        unknown_rate: share of T that is the unknown token; 0 for byte-level BPE, which has none.
        byte_rate: share of T that is a single byte above 0x7F (byte fallback).
        continued_words: share of pre-tokens that take several tokens (Rust et al. 2021, for words).
        single_token_words: share of distinct pre-tokens that take one token (Nayeem et al. 2025).
        distribution: how evenly the vocab is used.
        unigram_bits_per_byte: code length of the tokens under their own distribution, per byte;
            comparable between vocabs of any size.
        description_length: bytes of the text in that code plus bytes of the vocab (each token and
            a byte for its length), over B; junk tokens increase it.
        mean_token_bytes, median_token_bytes, p99_token_bytes, longest_token_bytes: of the ordinary
            tokens of V; bytes_per_token is the mean over T.
        encode_mb_per_second, decode_mb_per_second: 10⁶ bytes per second of one thread's CPU time,
            warm caches, ids as NumPy arrays; decoding is document by document.
        curve: (vocab size, bytes per token) at 512, 1024, 2048, … and the full size, as if
            training had stopped there. Only the full size for other algorithms than byte-level BPE
            and for ``ignore_merges`` with tokens that no merge makes.
        merge_gain: (vocab size, tokens saved per merge and per million tokens of the full
            tokenizer), averaged over the merges since the size before; empty without a curve.
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

    @property
    def metrics(self) -> dict[str, float]:
        """The figures by metric name, without those that are None."""
        figures = {name: attrgetter(key)(self) for key, name in NAMES.items()}
        return {name: float(figure) for name, figure in figures.items() if figure is not None}

    def as_dict(self) -> dict[str, Any]:
        """All figures as JSON values, with the definitions that they depend on."""
        return asdict(self) | {
            "curve": [list(point) for point in self.curve],
            "merge_gain": [list(point) for point in self.merge_gain],
            **DEFINITIONS,
        }


def evaluate(tokenizer: Tokenizer, documents: Iterable[str | bytes]) -> CompressionReport:
    """Measure a tokenizer on documents (formulas: `CompressionReport`).

    Args:
        tokenizer: any tokenizer; the curve treats its first merges as a smaller one.
        documents: texts or their UTF-8, ideally not seen in training. Memory use is a few MiB.

    Example:
        >>> from bpeline import count_texts, train_bpe
        >>> tokenizer = train_bpe(count_texts(["low lower lowest"] * 2), 259)
        >>> evaluate(tokenizer, ["low low"]).tokens
        2

    Raises:
        InvalidOption: a single text instead of documents, or no tokenizer.
        EmptyCorpus: no text, or no word for algorithms that encode only words.
        InvalidUtf8: a document is not UTF-8.
    """
    checks.instance("tokenizer", tokenizer, Tokenizer)
    checks.iterable("documents", documents, "documents")
    if isinstance(documents, Mapping):
        raise WrongKind(
            f"documents is a mapping, which iterates over its keys {list(documents)[:3]!r}",
            "expected an iterable of documents",
            "evaluate(tokenizer, documents['train'])",
        )
    read = (one if isinstance(one, bytes) else utf8_of(one) for one in documents)
    (measured,) = measure([tokenizer], read)
    gains = gains_on(tokenizer, measured.words)
    return report(tokenizer, measured, vocab_figures(tokenizer), gains)


@dataclass(frozen=True, slots=True, eq=False)
class VocabFigures:
    """Figures of a tokenizer that do not depend on text."""

    unreachable: int | None  # this and the next two as in `CompressionReport`
    undecodable: int
    mixed: int
    lengths: NDArray[np.int64]  # bytes of every ordinary token
    unknown: list[int]  # the id of the unknown token
    high_bytes: list[int]  # ids of single bytes above 0x7F


def vocab_figures(tokenizer: Tokenizer) -> VocabFigures:
    """Compute the figures of a vocab, once for all texts."""
    ordinary = tokenizer.spec.ids
    unknown = getattr(tokenizer.algorithm, "unknown", None)
    fragments = fragment_tokens(ordinary)
    high = (bytes([byte]) for byte in range(0x80, 0x100))
    return VocabFigures(
        len(unreachable_tokens(tokenizer.encoder, ordinary)) if tokenizer.merges_words else None,
        len(fragments.parts) + len(fragments.mixed),
        len(fragments.mixed),
        np.fromiter(map(len, ordinary), np.int64, len(ordinary)),
        [] if unknown is None else [tokenizer.token_to_id(unknown)],
        [ordinary[byte] for byte in high if byte in ordinary],
    )


def report(
    tokenizer: Tokenizer,
    measured: Measured,
    vocab: VocabFigures,
    gains: NDArray[np.int64] | None,
) -> CompressionReport:
    """Compute the figures of a measured text; ``gains`` are from `gains_on`."""
    text, pre_tokens, occurrences = measured.text, measured.words, measured.occurrences
    if not len(pre_tokens):
        raise EmptyCorpus(
            "there is no text to evaluate on",
            "expected at least one document with text",
            "hold out more, or name files to evaluate on",
        )
    tokens, size = measured.tokens, text.bytes
    tokens_of = np.diff(tokenizer.encoder.encode_words(pre_tokens.words())[1], prepend=0)
    distribution = token_distribution(occurrences, tokenizer.vocab_size)
    lengths = vocab.lengths
    bits = tokens * distribution.shannon_entropy  # length of the text in the unigram code
    curve, merge_gain = Curve([(tokenizer.vocab_size, size / tokens)]), Curve()
    if gains is not None:
        curve, merge_gain = _curves_of(tokenizer, size, gains)
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
        tokens=tokens,
        pre_tokens=pre_tokens.total,
        distinct_pre_tokens=len(pre_tokens),
        vocab_size=tokenizer.vocab_size,
        **asdict(text),
    )


@dataclass(frozen=True, slots=True)
class GoldWord:
    """A word and its morphs, which joined are the word."""

    word: str
    morphs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BoundaryScores:
    """Counts of boundaries inside all words together (micro-average).

    As in Morfessor's evaluation (Virpioja et al. 2011) and MorphScore (Arnett et al. 2025).
    """

    words: int
    gold: int  # boundaries between morphs
    found: int  # boundaries between tokens
    right: int  # boundaries between tokens that are boundaries between morphs
    whole: int  # words in one token

    @property
    def precision(self) -> float:
        """right / found; NaN if no word is split."""
        return self.right / self.found if self.found else float("nan")

    @property
    def recall(self) -> float:
        """right / gold; NaN if no word has two morphs."""
        return self.right / self.gold if self.gold else float("nan")

    @property
    def f1(self) -> float:
        """2 · right / (found + gold), the harmonic mean of precision and recall."""
        both = self.found + self.gold
        return 2 * self.right / both if both else float("nan")

    @property
    def metrics(self) -> dict[str, float]:
        figures = {
            "morphology/boundary_precision": self.precision,
            "morphology/boundary_recall": self.recall,
            "morphology/boundary_f1": self.f1,
            "morphology/words_in_one_token": self.whole / self.words if self.words else self.f1,
            "morphology/words": float(self.words),
        }
        return {name: value for name, value in figures.items() if value == value}


def boundary_scores(tokenizer: Tokenizer, gold: Iterable[GoldWord]) -> BoundaryScores:
    """Encode each word after a space, as in a text, and compare its boundaries.

    The space is not part of the word: whether it is joined to the first token does not matter. A
    token that ends within a character is a wrong boundary.
    """
    words = morphs = token_cuts = matches = uncut = 0
    for gold_word in gold:
        places = tokenizer.encode_with_offsets(f" {gold_word.word}").byte_offsets
        size = len(gold_word.word.encode())
        cuts = {end - 1 for end in places[:, 1].tolist()} & set(range(1, size))
        boundaries = set(accumulate(len(morph.encode()) for morph in gold_word.morphs[:-1]))
        words += 1
        morphs += len(boundaries)
        token_cuts += len(cuts)
        matches += len(cuts & boundaries)
        uncut += not cuts
    return BoundaryScores(words, morphs, token_cuts, matches, uncut)


def read_gold(path: Path) -> list[GoldWord]:
    """Read a segmentation; empty lines and lines that begin with ``#`` are skipped."""
    try:
        lines = read_file(path, _LARGEST_GOLD, pipes=True).decode().split("\n")
    except (OSError, ValueError) as error:
        raise _unusable(path, getattr(error, "strerror", None) or str(error)) from error
    gold = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        word, tab, segmented = line.rstrip("\r").partition("\t")
        morphs = tuple(segmented.split())
        if not tab or "".join(morphs) != word or not word:
            raise _unusable(path, f"line {number} is {line[:80]!r}")
        gold.append(GoldWord(word, morphs))
    if not gold:
        raise _unusable(path, "it has no words")
    return gold


def _unusable(path: Path, reason: str) -> InvalidOption:
    return InvalidOption(
        f"the morphs in {path} cannot be used: {reason}",
        "expected UTF-8 with a word, a tab and its morphs, separated by spaces, on each line; "
        "joined morphs equal the word: unhappiness<tab>un happi ness",
        f"correct {path}",
    )
