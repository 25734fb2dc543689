"""A tokenizer is measured on documents that training has not seen, beside those it should beat."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bpeline.flows.requests import CHAMPION, NamedSource, TrainingRequest, load_baselines
from bpeline.flows.running import EVALUATE, progress, step
from bpeline.flows.steps.chunk_plan import CorpusPlan
from bpeline.flows.steps.combining import CountedWords
from bpeline.flows.steps.evaluation_setup import EvaluationSetup
from bpeline.flows.steps.learning import Learned
from bpeline.flows.wording import counted, megabytes
from bpeline.registry.aliases import present_version
from bpeline.registry.comparison import VersionComparison, compare_evaluated
from bpeline.registry.loading import ResolvedVersion, load_version
from bpeline.registry.measured import MeasuredSource, evaluation_record
from bpeline.registry.opening import Registry
from bpeline.registry.word_counts import WordCountStore
from bpeline.registry.workspace import Workspace
from bpeline.tokenizer_core.corpus import ChunkGroup, Reading, SourceFile, documents_of, read_chunks
from bpeline.tokenizer_core.counting import documents_between
from bpeline.tokenizer_core.digests import digest_of, digest_of_bytes
from bpeline.tokenizer_core.errors import CorruptFile, InvalidTokenizer, RegistryError
from bpeline.tokenizer_core.evaluation import (
    ALL,
    CompressionReport,
    Evaluation,
    EvaluationText,
    MadeTokens,
    TokenUsage,
    TokenUse,
    evaluate_texts,
    has_curve,
    token_usage,
    token_use,
)
from bpeline.tokenizer_core.tokenizer import Tokenizer

MOST_HELD_OUT = 8 << 20  # bytes evaluated on; beyond it documents are left out evenly
MOST_TRAINING = 1 << 20  # bytes taken from the beginning of the corpus when none were held out
HELD_OUT, TRAINING = "held-out", "training"  # what these are called where no sources were named

# With 50 sections of 4 KiB, bytes per token is off by 3 % (English, C) to 6 % (many languages), one
# standard deviation over samples of the same corpus; with 10 of them by 7 to 14 %.
FEWEST_DOCUMENTS = 50
LEAST_BYTES = FEWEST_DOCUMENTS * 4096


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What was measured, and on what.

    Attributes:
        tokenizer: the new one, as learned.
        evaluation: the figures.
        sources: what the texts were.
        held_out: whether training had not seen them.
        parallel: whether the texts of all languages say the same.
        references: label → what the tokenizers compared with are called.
        made: the tokens of the words trained on.
        use: how often each occurs in them.
        usage: how the words trained on use the vocab; None for other algorithms.
        comparison: to the present champion; None when there is none.
    """

    tokenizer: Tokenizer
    evaluation: Evaluation
    sources: tuple[MeasuredSource, ...]
    held_out: bool
    parallel: bool
    references: Mapping[str, str]
    made: MadeTokens
    use: TokenUse
    usage: TokenUsage | None
    comparison: VersionComparison | None

    @property
    def report(self) -> CompressionReport:
        """Of all texts together."""
        return self.evaluation.report

    def record(self) -> dict[str, Any]:
        """The content of ``evaluation.json``."""
        return evaluation_record(
            self.evaluation,
            digest=self.tokenizer.digest,
            sources=self.sources,
            references=self.references,
            held_out=self.held_out,
            parallel=self.parallel,
            usage=self.usage,
        )

    @property
    def is_small(self) -> bool:
        """Whether another sample of the same corpus would give clearly other figures."""
        return self.report.documents < FEWEST_DOCUMENTS or self.report.bytes < LEAST_BYTES

    @property
    def kind(self) -> str:
        """What kind of text it was: ``held-out``, ``training``, or from which sources."""
        if not self.held_out:
            return TRAINING
        if not any(source.files for source in self.sources):
            return HELD_OUT
        names = [source.name for source in self.sources]
        return names[0] if len(names) == 1 else "evaluation"

    @property
    def outcome(self) -> str:
        said = (
            f"{self.report.bytes_per_token:.4f} bytes/token on "
            f"{counted(self.report.documents, f'{self.kind} document')}, "
            f"{megabytes(self.report.bytes)}{', a small sample' if self.is_small else ''}"
        )
        opponent = self.evaluation.opponents.get(CHAMPION)
        if opponent is None:
            return said
        change = opponent.changes[ALL].value
        return f"{said}; {change:+.2%} tokens against {self.references[CHAMPION]}"

    @property
    def warning(self) -> str:
        """What people should know of the figures before they compare them; may be empty."""
        if not self.held_out:
            return "no document was held out: evaluated on training text, which flatters"
        if not self.is_small:
            return ""
        return (
            f"only {counted(self.report.documents, 'document')} of {megabytes(self.report.bytes)} "
            f"together were evaluated on: below {FEWEST_DOCUMENTS} documents or "
            f"{megabytes(LEAST_BYTES)}, chance moves bytes/token by 3 % and more; "
            "hold out more (`--held-out 0.1`) or evaluate on more text (`--eval`)"
        )


@step(EVALUATE)
def evaluate(
    learned: Learned,
    words: CountedWords,
    plan: CorpusPlan,
    setup: EvaluationSetup,
    request: TrainingRequest,
    registry: Registry,
) -> Evaluated:
    """Measure on the named sources, else on held-out documents, else on training text.

    The champion and the baselines are measured on the same documents. A champion that cannot be
    had is noted and left out; rules that compare then find nothing measured together.

    Raises:
        CorpusError: a source that cannot be read as declared.
        InvalidTokenizer: a document does not survive encoding and decoding by byte-level BPE; a
            defect of ours. Other algorithms lose what stands between words.
    """
    workspace = registry.workspace
    tokenizer = learned.tokenizer(request)
    others = load_baselines(request.baselines, workspace.root)
    references = dict(one.split("=", 1) for one in request.baselines)
    champion = _champion(registry, request.name)
    if champion is not None:
        others = {CHAMPION: champion[1], **others}
        references = {CHAMPION: str(champion[0]), **references}
    reading, texts = request.evaluation_reading, _Texts(setup, words, plan, request, workspace)
    evaluation, measured = evaluate_texts(
        tokenizer, others, list(texts.made(reading)), setup.parallel
    )
    if evaluation.report.roundtrip_failures and request.over_bytes:
        raise InvalidTokenizer(
            f"{evaluation.report.roundtrip_failures} documents are not what they were after "
            "encoding and decoding",
            "every document survives: this is a defect of bpeline",
            "report it; nothing was published",
        )
    trained_on = WordCountStore(workspace).open_table(words.table)
    made = MadeTokens.of(tokenizer, trained_on)
    use = token_use(tokenizer, trained_on, made)
    return Evaluated(
        tokenizer,
        evaluation,
        texts.sources(evaluation),
        texts.held_out,
        setup.parallel,
        references,
        made,
        use,
        token_usage(tokenizer, use) if has_curve(tokenizer) else None,
        None
        if champion is None
        else compare_evaluated(
            (str(champion[0]), champion[1], measured[CHAMPION]),
            (f"{request.name} (new)", tokenizer, measured[""]),
            evaluation,
            CHAMPION,
        ),
    )


class _Texts:
    """The texts to evaluate on, and what was read of each."""

    def __init__(
        self,
        setup: EvaluationSetup,
        words: CountedWords,
        plan: CorpusPlan,
        request: TrainingRequest,
        workspace: Workspace,
    ) -> None:
        self.setup = setup
        self.held_out = True
        self._digests: dict[str, list[str]] = {}
        self._kept: list[EvaluationText] = []
        if not setup.files:
            self._kept = list(_held_out(words, request, WordCountStore(workspace)))
            self.held_out = bool(self._kept)
            if not self.held_out:
                first = list(_first_documents(plan.files, request.reading))
                self._kept = [EvaluationText(TRAINING, first)]

    def made(self, reading: Reading) -> Iterator[EvaluationText]:
        """Each text; its documents are read when they are asked for."""
        yield from self._kept
        for source, files in self.setup.files:
            digests = self._digests.setdefault(source.name, [])
            documents = documents_of(files, reading, digests)
            yield EvaluationText(source.name, documents, source.language, source.domain)

    def sources(self, evaluation: Evaluation) -> tuple[MeasuredSource, ...]:
        """What was read, once it was."""
        found: list[tuple[EvaluationText | NamedSource, tuple[str, ...], str]] = []
        for text in self._kept:
            sized = (len(one).to_bytes(8, "little") + one for one in text.documents)
            found.append((text, (), digest_of_bytes(*sized)))
        for source, _ in self.setup.files:
            found.append((source, source.files, digest_of(self._digests[source.name])))
        return tuple(
            MeasuredSource(
                one.name, files, one.language, one.domain, digest, *_sizes(evaluation, one.name)
            )
            for one, files, digest in found
        )


def _held_out(
    words: CountedWords, request: TrainingRequest, store: WordCountStore
) -> Iterator[EvaluationText]:
    """What was held out: of all the corpus, or of each named source that holds any.

    Sources are evaluated on about the same amount of text each where there is enough of it,
    whatever their share of the corpus and their weight.
    """
    if not request.sources:
        documents = store.held_out_documents(words.shards, MOST_HELD_OUT)
        if documents:
            yield EvaluationText(HELD_OUT, documents)
    for source in request.named_sources:
        room = MOST_HELD_OUT // len(words.shards_of)
        documents = store.held_out_documents(words.shards_of[source.name], room)
        if documents:
            yield EvaluationText(source.name, documents, source.language, source.domain)


def _sizes(evaluation: Evaluation, name: str) -> tuple[int, int]:
    metrics = evaluation.slices[name].metrics
    return int(metrics["evaluated/documents"]), int(metrics["evaluated/bytes"])


def _champion(registry: Registry, name: str) -> tuple[ResolvedVersion, Tokenizer] | None:
    """The version in place; None when there is none, or none that can be had: hours of training
    are not lost over a comparison."""
    try:
        version = present_version(registry, name, CHAMPION)
        return None if version is None else (version, load_version(registry, version))
    except (RegistryError, CorruptFile, InvalidTokenizer) as error:
        progress.current().note(f"not compared with {name}@{CHAMPION}: {error.happened}")
        return None


def _first_documents(files: Iterable[SourceFile], reading: Reading) -> Iterator[bytes]:
    """Documents from the beginning of the corpus, `MOST_TRAINING` bytes of them."""
    room = MOST_TRAINING
    for file in files:
        chunks = read_chunks(ChunkGroup(file), reading.of_source(file.source), MOST_TRAINING)
        for _, text in chunks:
            for begin, end in documents_between(text, reading.special_bytes)[0].tolist():
                document = text.text.bytes(begin, min(end, begin + room))
                yield document.decode(errors="ignore").encode()  # not a part of a character
                room -= end - begin
                if room <= 0:
                    return
            break
