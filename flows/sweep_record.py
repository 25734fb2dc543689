"""A sweep as people see it: a table, a picture, and a run of MLflow with a nested run for each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bpeline.flows.requests import (
    ORDINARY,
    PLAIN,
    UNRESTRICTED,
    VARIANTS,
    WORDS_ALONE,
    TrainingRequest,
)
from bpeline.flows.steps import Trial, logged_change, measured_on, nested_run, record_trials
from bpeline.flows.wording import markdown_table, number_text
from bpeline.registry.figures import draw_sweep
from bpeline.registry.opening import Registry
from bpeline.registry.records import CorpusInput, SweepChild
from bpeline.registry.references import CHAMPION
from bpeline.tokenizer_core.evaluation import (
    ALL,
    BYTES_PER_TOKEN,
    FLOPS_PER_BYTE,
    WELL_USED,
    NamedShape,
    gini_of_texts,
)

COLUMNS = {
    "bytes/token": BYTES_PER_TOKEN,
    "tokens/word": "words/fertility",
    "Rényi 2.5": "distribution/renyi_efficiency_2.5",
    "unused": "vocabulary/unused_tokens",
    "unreachable": "vocabulary/unreachable_tokens",
    "junk": "training/junk_tokens",
    "f95": "training/f95",
}


def table_of(sweep: Sweep) -> list[tuple[str, ...]]:
    """A row for each combination under a row of titles; every cell a text."""
    model = sweep.model
    named = "" if model is None else model.metric(FLOPS_PER_BYTE)
    costs = [one.metrics.get(named) for one in sweep.combinations]
    least = min((cost for cost in costs if cost is not None), default=None)
    varied = any(one.variant != PLAIN for one in sweep.combinations)
    several = any(one.gini is not None for one in sweep.combinations)
    rows = [
        (
            "pattern", *["variant"] * varied, "vocab", *COLUMNS,
            *["MFLOPs/byte"] * (least is not None), *["Gini"] * several,
            *["tokens against plain"] * varied, "tokens against champion",
        )
    ]  # fmt: skip
    for one, cost in zip(sweep.combinations, costs, strict=True):
        rows.append((
            one.pattern,
            *[one.variant] * varied,
            f"{one.vocab_size:,}",
            *(number_text(one.metrics.get(name)) for name in COLUMNS.values()),
            *([] if cost is None else [f"{cost / 1e6:,.1f}{' least' * (cost == least)}"]),
            *[number_text(one.gini)] * several,
            *[one.against_plain] * varied,
            logged_change(one.metrics, CHAMPION, ALL),
        ))  # fmt: skip
    return rows


def record_sweep(
    sweep: Sweep, request: TrainingRequest, inputs: Sequence[CorpusInput], registry: Registry
) -> Sweep:
    """Draw it and tell MLflow; the sweep with a link to its run.

    Raises:
        RegistryUnreachable: MLflow does not answer; what was learned stays in the workspace.
    """
    asked = {key: value for key, value in request.as_config().items() if value not in (None, [])}
    sizes = sorted({one.vocab_size for one in sweep.combinations})
    patterns = list(dict.fromkeys(one.pattern for one in sweep.combinations))
    titles = dict.fromkeys(one.title for one in sweep.combinations)
    lines = {title: tuple(_line(sweep.combinations, title)) for title in titles}
    title = f"{sweep.name}: {len(sweep.combinations)} combinations, {sweep.measured_on}"
    link = record_trials(
        registry,
        lambda directory: draw_sweep(lines, directory / "sweep.svg", title),
        name=sweep.name,
        title=f"sweep-{sweep.run_id[:8]}",
        params={**asked, "vocab_size": sizes, "pattern": patterns, **_for_model(sweep)},
        curves={f"sweep_bytes_per_token/{_plain(p)}": c for p, c in lines.items()},
        children=tuple(
            replace(child, params={**child.params, **_for_model(sweep)})
            for child in (_child(one, request) for one in sweep.combinations)
        ),
        inputs=tuple(inputs),
        table=f"{markdown_table(table_of(sweep))}\n\n{sweep.measured_on}\n",
    )
    return replace(sweep, link=link)


def _for_model(sweep: Sweep) -> dict[str, str]:
    """The model that figures of cost are of, with all its sizes; nothing where there are none."""
    return {} if sweep.model is None else {"model_shape": str(sweep.model)}


def _line(combinations: Sequence[Combination], title: str) -> Iterator[tuple[int, float]]:
    for one in combinations:
        if one.title == title:
            yield one.vocab_size, one.metrics[BYTES_PER_TOKEN]


def _child(one: Combination, request: TrainingRequest) -> SweepChild:
    params = {**request.as_config(), "pattern": one.pattern, "vocab_size": one.vocab_size}
    params |= VARIANTS[one.variant]
    title = f"{_plain(one.title)}-{one.vocab_size}"
    return nested_run(title, one.vocab_size, params, one.metrics, one.curves, one.record)


def _plain(pattern: str) -> str:
    """A pattern as part of the name of a metric: a regex is too long and has other characters."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", pattern).strip("_")
    return plain if plain == pattern else f"regex_{plain[:24]}"


@dataclass(frozen=True, slots=True)
class Combination:
    """One size of one pattern and variant.

    Attributes:
        pattern, vocab_size: which one; the size is smaller than asked where no pair was left.
        variant: one of `VARIANTS`.
        metrics: as a training would log them.
        curves: name → (vocab size, value), the compression curve too.
        against_champion: change in tokens, as a share; None without a champion.
        record: the content of its ``evaluation.json``.
        gini: of the tokens per byte that each source takes; None where there is one.
    """

    pattern: str
    vocab_size: int
    metrics: dict[str, float]
    curves: dict[str, tuple[tuple[int, float], ...]]
    against_champion: float | None
    record: dict[str, Any]
    variant: str = PLAIN
    gini: float | None = None

    @property
    def title(self) -> str:
        """What its line is called."""
        return self.pattern if self.variant == PLAIN else f"{self.pattern} {self.variant}"

    @property
    def against_plain(self) -> str:
        """Change in tokens from the same training without the variant, with its interval."""
        for label in (ORDINARY, UNRESTRICTED, WORDS_ALONE):
            if said := logged_change(self.metrics, label, ALL):
                return said
        return ""

    @classmethod
    def of(cls, trial: Trial, pattern: str, variant: str = PLAIN) -> Combination:
        """What was measured with a pattern, as it was asked for."""
        against, size = trial.against_champion([ALL]).get(ALL), trial.vocab_size
        evaluation = trial.evaluated.evaluation
        gini = gini_of_texts(evaluation.parts, evaluation.slices)
        return cls(
            pattern, size, against_champion=against, variant=variant, gini=gini, **trial.logged
        )

    def costing(self, model: NamedShape) -> Combination:
        """The same with what text costs a model with this vocabulary."""
        figures = model.figures(self.vocab_size, self.metrics[BYTES_PER_TOKEN])
        known = {name: value for name, value in self.metrics.items() if name != WELL_USED}
        return replace(self, metrics={**known, **figures})


@dataclass(frozen=True, slots=True)
class Sweep:
    """What a sweep found: combinations by pattern and size; the model of figures of cost."""

    name: str
    run_id: str
    combinations: tuple[Combination, ...]
    link: str = ""
    notes: tuple[str, ...] = ()
    model: NamedShape | None = None

    @property
    def measured_on(self) -> str:
        """Which texts the figures are of."""
        return measured_on(self.combinations[0].record)
