"""The evaluation of a tokenizer: what was measured, on which texts, beside which versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bpeline.flows.wording import counted, megabytes
from bpeline.registry.evaluation import (
    MeasuredSource,
    VersionComparison,
    evaluation_record,
)
from bpeline.registry.evaluation_sets import (
    FEWEST_DOCUMENTS,
    LEAST_BYTES,
    EvaluationSet,
    Text,
)
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

HELD_OUT, TRAINING = "held-out", "training"  # what these are called where no sources were named


@dataclass(frozen=True, slots=True)
class MeasuredOn:
    """What kind of text a tokenizer is measured on.

    Attributes:
        made: the evaluation set; None where the name has none.
        set_number: of it among those of the name, from 1; 0 for a set of no name yet.
        held_out: whether training has not seen the text.
    """

    made: EvaluationSet | None
    set_number: int
    held_out: bool

    def __str__(self) -> str:
        return str(self.made or "text of this training's own, which is no evaluation set")


@dataclass(frozen=True, slots=True)
class MeasuredTexts:
    """The texts that a tokenizer is measured on.

    Attributes:
        on: what kind of text.
        texts: with their documents.
        own: texts of this training's own.
    """

    on: MeasuredOn
    texts: list[EvaluationText]
    own: Sequence[Text]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedTokens:
    """How the words trained on use the tokens.

    Attributes:
        made: the tokens of these words.
        use: how often each occurs.
        usage: how they use the vocabulary; None for algorithms other than byte-level BPE.
    """

    made: MadeTokens
    use: TokenUse
    usage: TokenUsage | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """What was measured, and on what.

    Attributes:
        tokenizer: the new one, as learned.
        on: what kind of text.
        sources: of the texts.
        evaluation: the figures.
        references: label → what the tokenizers compared with are called.
        parallel: whether the texts of all languages say the same.
        comparison: to the present champion; None when there is none.
        new: on text of this training's own that is not in the set; None where there is none.
        robustness: on the set with its text changed; None where there is none, of trials, and
            where it cannot be measured, see `may_be_perturbed`.
        languages: robustness of every language of several that has enough documents.
        trained: on the words trained on; None where nothing was trained.
        left_out: digest of the set whose passages were left out of training, although nothing
            else held them out; empty where there was no need.
        remark: why it was not measured on what was asked for; empty as a rule.
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
        """The evaluation set measured on; None for other texts."""
        return self.on.made

    @property
    def usage(self) -> TokenUsage | None:
        """How the words trained on use the vocabulary, if that is known."""
        return None if self.trained is None else self.trained.usage

    @property
    def report(self) -> CompressionReport:
        """Of all texts together."""
        return self.evaluation.report

    def record(self) -> dict[str, Any]:
        """The content of ``evaluation.json``."""
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
        """Whether another sample of the same corpus would give clearly other figures."""
        return self.report.documents < FEWEST_DOCUMENTS or self.report.bytes < LEAST_BYTES

    @property
    def kind(self) -> str:
        """What kind of text it was: ``held-out``, ``training``, or from which sources."""
        if not self.on.held_out:
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
        if self.made is not None:
            said += f" (evaluation set {self.made.digest[:8]})"
        said += self._against_champion(self.evaluation)
        if self.new is not None:
            said += (
                f"; of new text of its own, {megabytes(self.new.report.bytes)}: "
                f"{self.new.report.bytes_per_token:.4f}{self._against_champion(self.new)}"
            )
        return said

    def _against_champion(self, evaluation: Evaluation) -> str:
        opponent = evaluation.opponents.get(CHAMPION)
        if opponent is None:
            return ""
        change = opponent.changes[ALL]
        remark = "" if change.intervals else f", {TOO_FEW_DOCUMENTS}"
        return f", {change.value:+.2%} tokens against {self.references[CHAMPION]}{remark}"

    @property
    def warning(self) -> str:
        """What people should know of the figures before they compare them; may be empty."""
        return "; ".join(filter(None, (self.remark, self._weakness)))

    @property
    def _weakness(self) -> str:
        if not self.on.held_out:
            return "no document was held out: evaluated on training text, which flatters"
        if not self.is_small:
            return ""
        was = "was" if self.report.documents == 1 else "were"
        said = (
            f"only {counted(self.report.documents, 'document')} of {megabytes(self.report.bytes)} "
            f"together {was} evaluated on: below {FEWEST_DOCUMENTS} documents or "
            f"{megabytes(LEAST_BYTES)}, chance moves bytes/token by 3 % and more"
        )
        if self.made is not None:
            said += ". The evaluation set is provisional: the next training with enough replaces it"
        return f"{said}; hold out more (`--held-out 0.1`) or give more text (`--eval`)"
