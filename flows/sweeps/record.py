"""A sweep as people see it: a table, a picture, and a run of MLflow with a nested run for each."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bpeline.flows.counting import SourceStatistics
from bpeline.flows.publishing import logged_change
from bpeline.flows.requests import (
    ORDINARY,
    PLAIN,
    PRESENT,
    UNRESTRICTED,
    VARIANTS,
    WORDS_ALONE,
    TrainingRequest,
    decimal,
)
from bpeline.flows.sweeps.trials import Trial
from bpeline.flows.wording import number_text
from bpeline.registry.catalogue import NamedSet
from bpeline.registry.figures import draw_choices, draw_sweep
from bpeline.registry.opening import Registry
from bpeline.registry.records import CHAMPION, CorpusInput, RunRecord
from bpeline.registry.tracking import STEP_IS_IDS, run_link, shown_set
from bpeline.tokenizer_core.evaluation import (
    ALL,
    BYTES_PER_TOKEN,
    FLOPS_PER_BYTE,
    WELL_USED,
    NamedShape,
    gini_of_texts,
)
from bpeline.tokenizer_core.tables import Table

COLUMNS = {
    "bytes/token": BYTES_PER_TOKEN,
    "tokens/word": "words/fertility",
    "Rényi 2.5": "distribution/renyi_efficiency_2.5",
    "unused": "vocabulary/unused_tokens",
    "unreachable": "vocabulary/unreachable_tokens",
    "junk": "training/junk_tokens",
    "f95": "training/f95",
}


def table_of(sweep: Sweep) -> Table:
    """A row for each combination."""
    model = sweep.model
    named = "" if model is None else model.metric(FLOPS_PER_BYTE)
    costs = [one.metrics.get(named) for one in sweep.combinations]
    least = min((cost for cost in costs if cost is not None), default=None)
    varied = any(one.variant != PLAIN for one in sweep.combinations)
    several = any(one.gini is not None for one in sweep.combinations)
    titles = (
        "pattern", *["variant"] * varied, *["mixture"] * sweep.compares_mixtures, "vocab",
        *sweep.combinations[0].figures,
        *["MFLOPs/byte"] * (least is not None), *["Gini"] * several,
        *["tokens against plain"] * varied, "tokens against champion",
    )  # fmt: skip
    rows = []
    for one, cost in zip(sweep.combinations, costs, strict=True):
        rows.append((
            one.pattern,
            *[one.variant] * varied,
            *[one.mixture] * sweep.compares_mixtures,
            f"{one.vocab_size:,}",
            *one.figures.values(),
            *([] if cost is None else [f"{cost / 1e6:,.1f}{' least' * (cost == least)}"]),
            *[number_text(one.gini)] * several,
            *[one.against_plain] * varied,
            logged_change(one.metrics, CHAMPION, ALL),
        ))  # fmt: skip
    return Table(titles, rows)


def record_sweep(
    sweep: Sweep,
    requests: Mapping[str, TrainingRequest],
    inputs: Sequence[CorpusInput],
    registry: Registry,
) -> Sweep:
    """Draw it and tell MLflow; the sweep with a link to its run.

    Args:
        requests: one of each mixture, by its title.

    Raises:
        RegistryUnreachable: MLflow does not answer; what was learned stays in the workspace.
    """
    first, combinations = next(iter(requests.values())), sweep.combinations
    asked = {key: value for key, value in first.as_config().items() if value not in (None, [], {})}
    asked |= {
        "vocab_size": sorted({one.vocab_size for one in combinations}),
        "pattern": list(dict.fromkeys(one.pattern for one in combinations)),
        **_for_model(sweep),
    }
    if sweep.compares_mixtures:
        asked["mixtures"] = ", ".join(requests)
    lines = {} if sweep.compares_mixtures else _lines(combinations)
    named = registry.catalogue.evaluation_set(sweep.name)
    children = tuple(_child(sweep, one, requests[one.mixture], named) for one in combinations)
    table = f"{table_of(sweep).markdown()}\n\n{sweep.measured_on}\n"
    with registry.workspace.temporary_directory("trials") as directory:
        picture = _draw(sweep, directory)
        record = RunRecord(
            name=sweep.name,
            title=f"sweep-{sweep.run_id[:8]}",
            tags=children[0].tags,  # all are measured on the same texts
            params={**asked, "evaluation_set": children[0].params["evaluation_set"]},
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
    """Bytes per token over the sizes; where mixtures are compared, of every slice over these."""
    combinations, first = sweep.combinations, sweep.combinations[0]
    if not sweep.compares_mixtures:
        title = f"{sweep.name}: {len(combinations)} combinations, {sweep.measured_on}"
        return draw_sweep(_lines(combinations), directory / "sweep.svg", title)
    values = {
        name: [one.bytes_per_token[name] for one in combinations] for name in first.bytes_per_token
    }
    titles, size = [one.mixture for one in combinations], f" {first.vocab_size:,} ids,"
    if len(set(titles)) < len(titles):
        titles, size = [f"{one.title} {one.vocab_size:,}" for one in combinations], ""
    title = f"{sweep.name}:{size} bytes per token by mixture"
    return draw_choices(values, titles, directory / "mixtures.svg", title)


def _for_model(sweep: Sweep) -> dict[str, str]:
    """The model that figures of cost are of, with all its sizes; nothing where there are none."""
    return {} if sweep.model is None else {"model_shape": str(sweep.model)}


def _lines(combinations: Sequence[Combination]) -> dict[str, tuple[tuple[int, float], ...]]:
    """By title, bytes per token of each size."""
    lines: dict[str, tuple[tuple[int, float], ...]] = {}
    for one in combinations:
        point = one.vocab_size, one.metrics[BYTES_PER_TOKEN]
        lines[one.title] = (*lines.get(one.title, ()), point)
    return lines


def _child(
    sweep: Sweep, one: Combination, request: TrainingRequest, named: NamedSet | None
) -> RunRecord:
    """A combination as MLflow shows it, without parameters that say nothing.

    Args:
        request: one of its mixture.
        named: the name's evaluation set, which need not be what it was measured on.
    """
    own = {"pattern": one.pattern, "vocab_size": one.vocab_size, **VARIANTS[one.variant]}
    params = {**request.as_config(), **own, **_for_model(sweep)}
    if one.mixture:
        weights = ", ".join(f"{s.source}={decimal(s.weight)}" for s in one.sources)
        params |= {"weights": weights, "temperature": request.temperature}
    mixture = re.sub(r"[^A-Za-z0-9.=_-]+", "-", one.mixture)
    title = "-".join(filter(None, (_plain(one.training), mixture, str(one.vocab_size))))
    digest = (one.record["set"] or {}).get("digest", "")
    given = {key: value for key, value in params.items() if value not in (None, [], {})}
    measured = {"evaluation_set": shown_set(digest)}
    compared = {
        f"compared_with.{label}": opponent["reference"]
        for label, opponent in one.record["compared"].items()
    }
    return RunRecord(
        name=sweep.name,
        title=title,
        tags={"kind": "sweep", **measured, **compared},
        params={**given, **measured},
        metrics=one.metrics,
        curves=one.curves,
        step=one.vocab_size,
        set_number=named.number if named is not None and named.digest == digest else 0,
        files={"evaluation.json": json.dumps(one.record, indent=2)},
    )


def _plain(pattern: str) -> str:
    """A pattern as part of the name of a metric: a regex is too long and has other characters."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", pattern).strip("_")
    return plain if plain == pattern else f"regex_{plain[:24]}"


@dataclass(frozen=True, slots=True)
class Combination:
    """One size of one pattern, variant and mixture.

    Attributes:
        pattern, vocab_size: which one; the size is smaller than asked where no pair was left.
        bytes_per_token: by slice: everything, sources, languages, domains.
        sources: of every named source its weight after temperature, its share and more.
        variant: one of `VARIANTS`.
        mixture: ``as it is``, ``de=2 en=1`` or ``T=5``; empty where none are compared.
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
        """What its line is called."""
        return f"{self.training} {self.mixture}".rstrip()

    @property
    def figures(self) -> dict[str, str]:
        """The columns of its row; of a mixture bytes/token and shares of every slice and source."""
        if not self.mixture:
            return {title: number_text(self.metrics.get(name)) for title, name in COLUMNS.items()}
        slices = {
            f"bytes/token {name}": f"{value:.4f} {logged_change(self.metrics, PRESENT, name)}"
            for name, value in self.bytes_per_token.items()
        }
        shares = {
            f"{one.source} share": f"{one.weighted_share:.1%} (×{one.weight:.4g})"
            for one in self.sources
        }
        return {**slices, **shares}

    @property
    def against_plain(self) -> str:
        """Change in tokens from the same training without the variant, with its interval."""
        for label in (ORDINARY, UNRESTRICTED, WORDS_ALONE):
            if said := logged_change(self.metrics, label, ALL):
                return said
        return ""

    @classmethod
    def of(cls, trial: Trial, pattern: str, variant: str = PLAIN, mixture: str = "") -> Combination:
        """What was measured with a pattern, as it was asked for."""
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
    def compares_mixtures(self) -> bool:
        """Whether other weights or temperatures were tried."""
        return bool(self.combinations[0].mixture)

    @property
    def measured_on(self) -> str:
        """Which texts the figures are of, and the champion that they are compared with."""
        record = self.combinations[0].record
        digest, champion = (record["set"] or {}).get("digest"), record["compared"].get(CHAMPION)
        said = f"measured on {f'evaluation set {digest[:8]}' if digest else 'texts of its own'}"
        if self.compares_mixtures:
            said += ", changes in tokens are from the mixture as it is"
        return said if champion is None else f"{said}, the champion is {champion['reference']}"
