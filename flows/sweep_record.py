"""The trainings of a sweep, which are measured but not registered, and their record.

The record is a table, a chart, and an MLflow run with nested runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bpeline.flows.counting import (
    CorpusPlan,
    CountedCorpus,
    CountedWords,
    SourceStatistics,
    combine_counts,
    count_words,
    plan_chunks,
    remarks_on,
)
from bpeline.flows.evaluation import Evaluated, EvaluationSetup, curves_of, evaluate, metrics_of
from bpeline.flows.learning import learn
from bpeline.flows.publishing import corpus_inputs, evaluation_inputs, logged_change
from bpeline.flows.requests import (
    AUTO,
    ORDINARY,
    PLAIN,
    PRESENT,
    UNRESTRICTED,
    VARIANTS,
    WORDS_ALONE,
    TrainingRequest,
    decimal,
)
from bpeline.flows.running import steps
from bpeline.flows.trainings import TrainingRun
from bpeline.flows.wording import number_text
from bpeline.registry.catalogue import NamedSet
from bpeline.registry.figures import draw_choices, draw_sweep
from bpeline.registry.opening import Registry
from bpeline.registry.records import CHAMPION, CorpusInput, RunRecord
from bpeline.registry.tracking import STEP_IS_IDS, run_link, shown_set
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.evaluation import (
    ALL,
    BYTES_PER_TOKEN,
    FLOPS_PER_BYTE,
    WELL_USED,
    NamedShape,
    gini_of_texts,
)
from bpeline.tokenizer_core.tables import Table
from bpeline.tokenizer_core.tokenizer import Tokenizer

MOST_TRIALS = 200
COLUMNS = {
    "bytes/token": BYTES_PER_TOKEN,
    "tokens/word": "words/fertility",
    "Rényi 2.5": "distribution/renyi_efficiency_2.5",
    "unused": "vocabulary/unused_tokens",
    "unreachable": "vocabulary/unreachable_tokens",
    "junk": "training/junk_tokens",
    "f95": "training/f95",
}


@dataclass(frozen=True, slots=True)
class Trial:
    """One training with its evaluation."""

    words: CountedWords
    evaluated: Evaluated

    @property
    def vocab_size(self) -> int:
        """Number of ids; smaller than requested if no pair was left."""
        return self.evaluated.report.vocab_size

    @property
    def logged(self) -> dict[str, Any]:
        """Metrics, curves and ``evaluation.json``, as a training would log them."""
        evaluated = self.evaluated
        curves = {BYTES_PER_TOKEN: evaluated.report.curve, **curves_of(evaluated)}
        return {
            "metrics": metrics_of(evaluated), "curves": curves, "record": evaluated.record(),
        }  # fmt: skip


def refuse_choice(parameters: Mapping[str, Any]) -> None:
    """Raise InvalidOption if the vocab size is ``auto``, which a sweep cannot compare."""
    if parameters.get("vocab_size") == AUTO or parameters.get("largest_size"):
        raise InvalidOption(
            "a sweep cannot choose the vocab size: it compares trainings of the same size",
            "expected sizes as numbers",
            "type numbers: `--sizes 16000,32000`; choose when you train: `bpeline train … "
            "--vocab-size auto --model-shape llama-3.2-1b`",
        )


def try_sizes(
    run: TrainingRun,
    mixtures: Mapping[str, Sequence[TrainingRequest]],
    setup: EvaluationSetup,
    title: str,
) -> tuple[dict[str, list[Trial]], list[CorpusInput]]:
    """Train and measure all mixtures and sizes of one pattern, counted once.

    Returns:
        Title of the mixture → a trial for each size reached, the smallest first; and the inputs.
    """
    first = next(iter(mixtures.values()))[0]
    plan, corpus = _count(run, first, setup, title)
    inputs: list[CorpusInput] = []
    present: dict[int, Tokenizer] = {}
    trials: dict[str, list[Trial]] = {}
    for mixture, requests in mixtures.items():
        with run.step(steps.COMBINE_COUNTS) as outcome:
            words = combine_counts(corpus, requests[0], run.registry, run.id)
            outcome(f"{mixture}: {words.outcome}" if mixture else words.outcome)
        inputs = inputs or corpus_inputs(plan, corpus, words, first)
        trial_of_size: dict[int, Trial] = {}
        for request in requests:
            size = request.vocab_size
            beside = {PRESENT: present[size]} if size in present else {}
            trial = _try_out(run, words, plan, setup, request, beside)
            present.setdefault(size, trial.evaluated.tokenizer)
            trial_of_size.setdefault(trial.vocab_size, trial)
            inputs += [
                source for source in evaluation_inputs(trial.evaluated) if source not in inputs
            ]
        trials[mixture] = sorted(trial_of_size.values(), key=lambda trial: trial.vocab_size)
    return trials, inputs


def _count(
    run: TrainingRun, request: TrainingRequest, setup: EvaluationSetup, title: str
) -> tuple[CorpusPlan, CountedCorpus]:
    with run.step(steps.PLAN_CHUNKS) as outcome:
        plan = plan_chunks(request, run.registry, setup.left_out(run.row.left_out_rule))
        outcome(f"{title}: {plan.outcome}")
        for remark in remarks_on(plan, request, plan.reading):
            run.note(remark)
    with run.step(steps.COUNT_WORDS, plan.bytes_to_read, "bytes") as outcome:
        corpus = count_words(plan, request, run.registry)
        outcome(corpus.outcome)
    return plan, corpus


def _try_out(
    run: TrainingRun,
    words: CountedWords,
    plan: CorpusPlan,
    setup: EvaluationSetup,
    request: TrainingRequest,
    beside: Mapping[str, Tokenizer],
) -> Trial:
    with run.step(steps.LEARN_MERGES, request.merges_shown, "merges") as outcome:
        learned = learn(words, request, run.workspace)
        outcome(learned.outcome)
    with run.step(steps.EVALUATE) as outcome:
        evaluated = evaluate(
            learned, words, plan, setup, request, run.registry, adopts=False, beside=beside
        )
        outcome(f"{evaluated.report.vocab_size:,} ids: {evaluated.outcome}")
    return Trial(words, evaluated)


def table_of(sweep: Sweep) -> Table:
    """Return a table with a row for each combination."""
    model = sweep.model
    metric = "" if model is None else model.metric(FLOPS_PER_BYTE)
    costs = [combination.metrics.get(metric) for combination in sweep.combinations]
    lowest = min((cost for cost in costs if cost is not None), default=None)
    varied = any(combination.variant != PLAIN for combination in sweep.combinations)
    several = any(combination.gini is not None for combination in sweep.combinations)
    titles = (
        "pattern", *["variant"] * varied, *["mixture"] * sweep.compares_mixtures, "vocab",
        *sweep.combinations[0].figures,
        *["MFLOPs/byte"] * (lowest is not None), *["Gini"] * several,
        *["tokens against plain"] * varied, "tokens against champion",
    )  # fmt: skip
    rows = []
    for combination, cost in zip(sweep.combinations, costs, strict=True):
        rows.append((
            combination.pattern,
            *[combination.variant] * varied,
            *[combination.mixture] * sweep.compares_mixtures,
            f"{combination.vocab_size:,}",
            *combination.figures.values(),
            *([] if cost is None else [f"{cost / 1e6:,.1f}{' least' * (cost == lowest)}"]),
            *[number_text(combination.gini)] * several,
            *[combination.against_plain] * varied,
            logged_change(combination.metrics, CHAMPION, ALL),
        ))  # fmt: skip
    return Table(titles, rows)


def record_sweep(
    sweep: Sweep,
    requests: Mapping[str, TrainingRequest],
    inputs: Sequence[CorpusInput],
    registry: Registry,
) -> Sweep:
    """Draw the chart and record the sweep in MLflow; return it with a link to its run."""
    first, combinations = next(iter(requests.values())), sweep.combinations
    params = {key: value for key, value in first.as_config().items() if value not in (None, [], {})}
    params |= {
        "vocab_size": sorted({combination.vocab_size for combination in combinations}),
        "pattern": list(dict.fromkeys(combination.pattern for combination in combinations)),
        **_for_model(sweep),
    }
    if sweep.compares_mixtures:
        params["mixtures"] = ", ".join(requests)
    lines = {} if sweep.compares_mixtures else _lines(combinations)
    current_set = registry.catalogue.evaluation_set(sweep.name)
    children = tuple(
        _child(sweep, combination, requests[combination.mixture], current_set)
        for combination in combinations
    )
    table = f"{table_of(sweep).markdown()}\n\n{sweep.measured_on}\n"
    with registry.workspace.temporary_directory("trials") as directory:
        picture = _draw(sweep, directory)
        record = RunRecord(
            name=sweep.name,
            title=f"sweep-{sweep.run_id[:8]}",
            tags=children[0].tags,  # equal for all, as the texts are the same
            params={**params, "evaluation_set": children[0].params["evaluation_set"]},
            curves={f"sweep_bytes_per_token/{_plain(p)}": c for p, c in lines.items()},
            set_number=children[0].set_number,
            inputs=tuple(inputs),
            files={f"figures/{picture.name}": picture, "sweep.md": table},
            note=f"{STEP_IS_IDS}\n\n{table}",
            note_file="sweep.md",
            children=children,
        )
        run = registry.tracker.runs.record(record)
    return replace(
        sweep, link=run_link(registry.tracker.settings.ui, run.experiment_id, run.run_id)
    )


def _draw(sweep: Sweep, directory: Path) -> Path:
    """Draw bytes per token over the sizes, or bars by slice to compare mixtures."""
    combinations, first = sweep.combinations, sweep.combinations[0]
    if not sweep.compares_mixtures:
        title = f"{sweep.name}: {len(combinations)} combinations, {sweep.measured_on}"
        return draw_sweep(_lines(combinations), directory / "sweep.svg", title)
    values = {
        name: [combination.bytes_per_token[name] for combination in combinations]
        for name in first.bytes_per_token
    }
    titles, size = (
        [combination.mixture for combination in combinations],
        f" {first.vocab_size:,} ids,",
    )
    if len(set(titles)) < len(titles):
        titles, size = (
            [f"{combination.title} {combination.vocab_size:,}" for combination in combinations],
            "",
        )
    title = f"{sweep.name}:{size} bytes per token by mixture"
    return draw_choices(values, titles, directory / "mixtures.svg", title)


def _for_model(sweep: Sweep) -> dict[str, str]:
    """Return the parameter with the model of the costs, if there is one."""
    return {} if sweep.model is None else {"model_shape": str(sweep.model)}


def _lines(combinations: Sequence[Combination]) -> dict[str, tuple[tuple[int, float], ...]]:
    """Return bytes per token of each size, by title."""
    lines: dict[str, tuple[tuple[int, float], ...]] = {}
    for combination in combinations:
        point = combination.vocab_size, combination.metrics[BYTES_PER_TOKEN]
        lines[combination.title] = (*lines.get(combination.title, ()), point)
    return lines


def _child(
    sweep: Sweep, one: Combination, request: TrainingRequest, named: NamedSet | None
) -> RunRecord:
    """Return the record of a combination, without empty parameters."""
    own = {"pattern": one.pattern, "vocab_size": one.vocab_size, **VARIANTS[one.variant]}
    params = {**request.as_config(), **own, **_for_model(sweep)}
    if one.mixture:
        weights = ", ".join(f"{s.source}={decimal(s.weight)}" for s in one.sources)
        params |= {"weights": weights, "temperature": request.temperature}
    mixture = re.sub(r"[^A-Za-z0-9.=_-]+", "-", one.mixture)
    title = "-".join(filter(None, (_plain(one.training), mixture, str(one.vocab_size))))
    digest = (one.record["set"] or {}).get("digest", "")
    shown = {key: value for key, value in params.items() if value not in (None, [], {})}
    measured = {"evaluation_set": shown_set(digest)}
    compared = {
        f"compared_with.{label}": opponent["reference"]
        for label, opponent in one.record["compared"].items()
    }
    return RunRecord(
        name=sweep.name,
        title=title,
        tags={"kind": "sweep", **measured, **compared},
        params={**shown, **measured},
        metrics=one.metrics,
        curves=one.curves,
        step=one.vocab_size,
        set_number=named.number if named is not None and named.digest == digest else 0,
        files={"evaluation.json": json.dumps(one.record, indent=2)},
    )


def _plain(pattern: str) -> str:
    """Return a short form of a pattern that is valid in a metric name."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", pattern).strip("_")
    return plain if plain == pattern else f"regex_{plain[:24]}"


@dataclass(frozen=True, slots=True)
class Combination:
    """One size of one pattern, variant and mixture.

    Attributes:
        vocab_size: smaller than requested if no pair was left.
        bytes_per_token: by slice: everything, sources, languages, domains.
        mixture: ``as it is``, ``de=2 en=1`` or ``T=5``; empty if none are compared.
        against_champion: relative change in tokens; None without a champion.
        gini: of tokens per byte over the sources; None for a single source.
    """

    pattern: str
    vocab_size: int
    metrics: dict[str, float]
    curves: dict[str, tuple[tuple[int, float], ...]]
    against_champion: float | None
    record: dict[str, Any]
    bytes_per_token: dict[str, float]
    sources: tuple[SourceStatistics, ...]
    variant: str = PLAIN
    mixture: str = ""
    gini: float | None = None

    @property
    def training(self) -> str:
        """Pattern and variant."""
        return self.pattern if self.variant == PLAIN else f"{self.pattern} {self.variant}"

    @property
    def title(self) -> str:
        """Title of its line in charts."""
        return f"{self.training} {self.mixture}".rstrip()

    @property
    def figures(self) -> dict[str, str]:
        """Columns of its row; for mixtures, bytes/token of slices and shares of sources."""
        if not self.mixture:
            return {title: number_text(self.metrics.get(name)) for title, name in COLUMNS.items()}
        slices = {
            f"bytes/token {name}": f"{value:.4f} {logged_change(self.metrics, PRESENT, name)}"
            for name, value in self.bytes_per_token.items()
        }
        shares = {
            f"{source.source} share": f"{source.weighted_share:.1%} (×{source.weight:.4g})"
            for source in self.sources
        }
        return {**slices, **shares}

    @property
    def against_plain(self) -> str:
        """Change in tokens against the training without the variant, with its interval."""
        for label in (ORDINARY, UNRESTRICTED, WORDS_ALONE):
            if text := logged_change(self.metrics, label, ALL):
                return text
        return ""

    @classmethod
    def of(cls, trial: Trial, pattern: str, variant: str = PLAIN, mixture: str = "") -> Combination:
        """Create from a trial and its parameters."""
        evaluation = trial.evaluated.evaluation
        champion = evaluation.opponents.get(CHAMPION)
        return cls(
            pattern,
            trial.vocab_size,
            against_champion=None if champion is None else champion.changes[ALL].value,
            bytes_per_token={
                part.name: evaluation.slices[part.name].metrics[BYTES_PER_TOKEN]
                for part in evaluation.distinct_parts
            },
            sources=trial.words.sources,
            variant=variant,
            mixture=mixture,
            gini=gini_of_texts(evaluation.parts, evaluation.slices),
            **trial.logged,
        )

    def costing(self, model: NamedShape) -> Combination:
        """Return the combination with the cost of text for a model."""
        figures = model.figures(self.vocab_size, self.metrics[BYTES_PER_TOKEN])
        others = {name: value for name, value in self.metrics.items() if name != WELL_USED}
        return replace(self, metrics={**others, **figures})


@dataclass(frozen=True, slots=True)
class Sweep:
    """The result of a sweep; ``model`` is that of the costs."""

    name: str
    run_id: str
    combinations: tuple[Combination, ...]
    link: str = ""
    notes: tuple[str, ...] = ()
    model: NamedShape | None = None

    @property
    def compares_mixtures(self) -> bool:
        """Whether several weights or temperatures were tried."""
        return bool(self.combinations[0].mixture)

    @property
    def measured_on(self) -> str:
        """The texts of the figures, and the champion compared with."""
        record = self.combinations[0].record
        digest, champion = (record["set"] or {}).get("digest"), record["compared"].get(CHAMPION)
        text = f"measured on {f'evaluation set {digest[:8]}' if digest else 'its own texts'}"
        if self.compares_mixtures:
            text += ", changes in tokens are from the mixture as it is"
        return text if champion is None else f"{text}, the champion is {champion['reference']}"
