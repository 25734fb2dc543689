"""A tokenizer is measured on documents that training has not seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter

from flows.combine_counts import CountedWords
from flows.learn import Learned
from flows.plan_chunks import CorpusPlan
from flows.steps import step
from flows.summary import counted, megabytes
from flows.training_request import TrainingRequest
from registry.word_count_store import WordCountStore
from registry.workspace import Workspace
from tokenizer_core import metrics
from tokenizer_core.chunk_counts import documents_between
from tokenizer_core.chunking import ChunkGroup, read_chunks
from tokenizer_core.corpus import SourceFile
from tokenizer_core.errors import InvalidTokenizer
from tokenizer_core.reading import Reading

MOST_HELD_OUT = 8 << 20  # bytes evaluated on; beyond it documents are left out evenly
MOST_TRAINING = 1 << 20  # bytes taken from the beginning of the corpus when none were held out

# With 50 sections of 4 KiB, bytes per token is off by 3 % (English, C) to 6 % (many languages), one
# standard deviation over samples of the same corpus; with 10 of them by 7 to 14 %.
FEWEST_DOCUMENTS = 50
LEAST_BYTES = FEWEST_DOCUMENTS * 4096

# How MLflow groups and orders the figures: charts are grouped by what stands before the slash.
NAMES = {
    "bytes_per_token": "compression/bytes_per_token",
    "chars_per_token": "compression/chars_per_token",
    "compression_ratio_vs_bytes": "compression/ratio_vs_bytes",
    "unigram_bits_per_byte": "compression/unigram_bits_per_byte",
    "fertility": "words/fertility",
    "continued_words": "words/continued",
    "single_token_words": "words/distinct_in_one_token",
    "vocab_utilization": "vocabulary/utilization",
    "distribution.distinct_tokens": "vocabulary/distinct_tokens",
    "distribution.unused_tokens": "vocabulary/unused_tokens",
    "distribution.rare_tokens": "vocabulary/rare_tokens",
    "distribution.f95": "vocabulary/f95",
    "unreachable_tokens": "vocabulary/unreachable_tokens",
    "undecodable_tokens": "vocabulary/undecodable_tokens",
    "mean_token_bytes": "vocabulary/token_bytes_mean",
    "median_token_bytes": "vocabulary/token_bytes_median",
    "longest_token_bytes": "vocabulary/token_bytes_longest",
    "distribution.shannon_entropy": "distribution/shannon_entropy",
    "distribution.shannon_efficiency": "distribution/shannon_efficiency",
    "distribution.renyi_efficiency": "distribution/renyi_efficiency_2.5",
    "distribution.renyi_efficiency_observed": "distribution/renyi_efficiency_2.5_observed",
    "distribution.imbalance": "distribution/imbalance",
    "distribution.percentile_frequency": "distribution/percentile_frequency",
    "distribution.average_rank": "distribution/average_rank",
    "distribution.type_token_ratio": "distribution/type_token_ratio",
    "unknown_rate": "vocabulary/unknown_rate",
    "roundtrip_failures": "evaluated/roundtrip_failures",
    "encode_mb_per_second": "evaluated/encode_mb_per_second",
    "bytes": "evaluated/bytes",
    "chars": "evaluated/chars",
    "words": "evaluated/words",
    "pre_tokens": "evaluated/pre_tokens",
    "tokens": "evaluated/tokens",
    "documents": "evaluated/documents",
}


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What was measured, and on what.

    Attributes:
        report: the figures.
        held_out: whether training had not seen the documents.
    """

    report: metrics.CompressionReport
    held_out: bool

    @property
    def metrics(self) -> dict[str, float]:
        """The figures under the names that MLflow shows; those that mean something."""
        figures = {name: attrgetter(key)(self.report) for key, name in NAMES.items()}
        return {name: float(figure) for name, figure in figures.items() if figure is not None}

    @property
    def is_small(self) -> bool:
        """Whether another sample of the same corpus would give clearly other figures."""
        return self.report.documents < FEWEST_DOCUMENTS or self.report.bytes < LEAST_BYTES

    @property
    def outcome(self) -> str:
        kind = "held-out" if self.held_out else "training"
        return (
            f"{self.report.bytes_per_token:.4f} bytes/token on "
            f"{counted(self.report.documents, f'{kind} document')}, "
            f"{megabytes(self.report.bytes)}{', a small sample' if self.is_small else ''}"
        )

    @property
    def warning(self) -> str:
        """What people should know of the figures before they compare them; may be empty."""
        if not self.held_out:
            return "no document was held out: evaluated on training text, which flatters"
        if not self.is_small:
            return ""
        return (
            f"only {counted(self.report.documents, 'document')} of {megabytes(self.report.bytes)} "
            f"together were held out: below {FEWEST_DOCUMENTS} documents or "
            f"{megabytes(LEAST_BYTES)}, chance moves bytes/token by 3 % and more; "
            "hold out more (`--held-out 0.1`) or compare on more text"
        )


@step(name="evaluate")
def evaluate(
    learned: Learned,
    words: CountedWords,
    plan: CorpusPlan,
    request: TrainingRequest,
    workspace: Workspace,
) -> Evaluation:
    """Measure on the held-out documents, or on training text when there are none.

    Raises:
        InvalidTokenizer: a document does not survive encoding and decoding by byte-level BPE; a
            defect of ours. Other algorithms lose what stands between words.
    """
    documents = WordCountStore(workspace).held_out_documents(words.shards, MOST_HELD_OUT)
    held_out = bool(documents)
    if not held_out:
        documents = list(_first_documents(plan.files, request.reading))
    report = metrics.evaluate(learned.tokenizer(request), documents)
    if report.roundtrip_failures and request.over_bytes:
        raise InvalidTokenizer(
            f"{report.roundtrip_failures} documents are not what they were after encoding and "
            "decoding",
            "every document survives: this is a defect of bpeline",
            "report it; nothing was published",
        )
    return Evaluation(report, held_out)


def _first_documents(files: Iterable[SourceFile], reading: Reading) -> Iterator[bytes]:
    """Documents from the beginning of the corpus, `MOST_TRAINING` bytes of them."""
    room = MOST_TRAINING
    for file in files:
        chunks = read_chunks(ChunkGroup(file), reading, MOST_TRAINING)
        for _, text in chunks:
            for begin, end in documents_between(text, reading.special_bytes)[0].tolist():
                document = text.text.bytes(begin, min(end, begin + room))
                yield document.decode(errors="ignore").encode()  # not a part of a character
                room -= end - begin
                if room <= 0:
                    return
            break
