"""The evaluation of a tokenizer: its figures, texts, and versions compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bpeline.flows.wording import counted, megabytes
from bpeline.registry.evaluation import MeasuredSource, VersionComparison, evaluation_record
from bpeline.registry.evaluation_sets import FEWEST_DOCUMENTS, LEAST_BYTES, EvaluationSet, Text
from bpeline.registry.records import CHAMPION
from bpeline.tokenizer_core.evaluation import (
    ALL,
    TOO_FEW_DOCUMENTS,
    CompressionReport,
    Evaluation,
    EvaluationText,
    MadeTokens,
    Robustness,
    TokenUsage,
    TokenUse,
)
from bpeline.tokenizer_core.tokenizer import Tokenizer

HELD_OUT, TRAINING = "held-out", "training"  # names of texts without named sources


@dataclass(frozen=True, slots=True)
class MeasuredOn:
    """The kind of text that a tokenizer is measured on.

    Attributes:
        made: the evaluation set; None if the name has none.
        set_number: number of the set for the name, from 1; 0 for a set without a name yet.
    """

    made: EvaluationSet | None
    set_number: int
    held_out: bool

    def __str__(self) -> str:
        return str(self.made or "this training's own text (no evaluation set)")


@dataclass(frozen=True, slots=True)
class MeasuredTexts:
    """The texts that a tokenizer is measured on; ``own`` is this training's own text."""

    on: MeasuredOn
    texts: list[EvaluationText]
    own: Sequence[Text]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedTokens:
    """Usage of the tokens in the words trained on; ``usage`` only for byte-level BPE."""

    made: MadeTokens
    use: TokenUse
    usage: TokenUsage | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """The evaluation of a new tokenizer.

    Attributes:
        references: label → name of the tokenizer compared with.
        parallel: whether the texts of all languages have the same content.
        new: evaluation on this training's own text that is not in the set; None without such text.
        robustness: on the set with perturbed text; None without a set, for trials, and if it
            cannot be measured, see `may_be_perturbed`.
        left_out: digest of the set whose passages were excluded from training; usually empty,
            because held-out text is excluded anyway.
        remark: why the requested texts were not used; usually empty.
    """

    tokenizer: Tokenizer
    on: MeasuredOn
    sources: tuple[MeasuredSource, ...]
    evaluation: Evaluation
    references: Mapping[str, str]
    parallel: bool = False
    comparison: VersionComparison | None = None
    new: Evaluation | None = None
    robustness: Robustness | None = None
    languages: Mapping[str, Robustness] = field(default_factory=dict)
    trained: TrainedTokens | None = None
    left_out: str = ""
    remark: str = ""

    @property
    def made(self) -> EvaluationSet | None:
        """The evaluation set, or None for other texts."""
        return self.on.made

    @property
    def usage(self) -> TokenUsage | None:
        """Usage of the vocabulary in the words trained on, if known."""
        return None if self.trained is None else self.trained.usage

    @property
    def report(self) -> CompressionReport:
        """Compression of all texts together."""
        return self.evaluation.report

    def record(self) -> dict[str, Any]:
        """Return the content of ``evaluation.json``."""
        return evaluation_record(
            self.evaluation,
            digest=self.tokenizer.digest,
            pattern=self.tokenizer.pattern.title,
            made=self.made,
            new=self.new,
            sources=self.sources,
            references=self.references,
            held_out=self.on.held_out,
            parallel=self.parallel,
            usage=self.usage,
            robustness=self.robustness,
            languages=self.languages,
        )

    @property
    def is_small(self) -> bool:
        """Whether another sample of the same corpus would give clearly different figures."""
        return self.report.documents < FEWEST_DOCUMENTS or self.report.bytes < LEAST_BYTES

    @property
    def kind(self) -> str:
        """Kind of the text: ``held-out``, ``training``, or the name of its source."""
        if not self.on.held_out:
            return TRAINING
        if not any(source.files for source in self.sources):
            return HELD_OUT
        names = [source.name for source in self.sources]
        return names[0] if len(names) == 1 else "evaluation"

    @property
    def outcome(self) -> str:
        summary = (
            f"{self.report.bytes_per_token:.4f} bytes/token on "
            f"{counted(self.report.documents, f'{self.kind} document')}, "
            f"{megabytes(self.report.bytes)}{', a small sample' if self.is_small else ''}"
        )
        if self.made is not None:
            summary += f" (evaluation set {self.made.digest[:8]})"
        summary += self._against_champion(self.evaluation)
        if self.new is not None:
            summary += (
                f"; on its own new text, {megabytes(self.new.report.bytes)}: "
                f"{self.new.report.bytes_per_token:.4f}{self._against_champion(self.new)}"
            )
        return summary

    def _against_champion(self, evaluation: Evaluation) -> str:
        opponent = evaluation.opponents.get(CHAMPION)
        if opponent is None:
            return ""
        change = opponent.changes[ALL]
        remark = "" if change.intervals else f", {TOO_FEW_DOCUMENTS}"
        return f", {change.value:+.2%} tokens against {self.references[CHAMPION]}{remark}"

    @property
    def warning(self) -> str:
        """What to consider before comparing the figures; may be empty."""
        return "; ".join(filter(None, (self.remark, self._weakness)))

    @property
    def _weakness(self) -> str:
        if not self.on.held_out:
            return "no document was held out: evaluated on training text, so figures are optimistic"
        if not self.is_small:
            return ""
        was = "was" if self.report.documents == 1 else "were"
        warning = (
            f"only {counted(self.report.documents, 'document')} of {megabytes(self.report.bytes)} "
            f"in all {was} evaluated on: below {FEWEST_DOCUMENTS} documents or "
            f"{megabytes(LEAST_BYTES)}, bytes/token varies by 3 % and more by chance"
        )
        if self.made is not None:
            warning += (
                ". The evaluation set is provisional: the next training with enough replaces it"
            )
        return f"{warning}; hold out more (`--held-out 0.1`) or give more text (`--eval`)"
