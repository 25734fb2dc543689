"""The drift report and its record in MLflow: metrics, a page and a chart."""

from __future__ import annotations

from calendar import timegm
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from time import strptime
from typing import Any, Literal

from bpeline.flows.wording import megabytes, token_text
from bpeline.registry.aliases import WATCHED
from bpeline.registry.evaluation import Verdict
from bpeline.registry.figures import draw_observations
from bpeline.registry.opening import Registry
from bpeline.registry.records import DriftObservation
from bpeline.registry.tracking import DRIFTED, DRIFTED_VALUES, run_link
from bpeline.tokenizer_core.corpus import SkippedFiles
from bpeline.tokenizer_core.evaluation import (
    ALL,
    BYTES_PER_TOKEN,
    CONFIDENCE,
    DEFINITIONS,
    Figure,
    NewWord,
    TextDrift,
    of_slice,
)
from bpeline.tokenizer_core.tables import Table

FORMAT = 2
Outcome = Literal["drifted", "not drifted", "not judged"]
WORDS_SHOWN, WORDS_KEPT = 10, 200
_SHARES = ("continued", "in_many_tokens", "unseen", "new_frequent", "new_frequent_cost")


@dataclass(frozen=True, slots=True, eq=False)
class DriftReport:
    """One drift observation of a version.

    Attributes:
        alias, reference, digest: the watched version, such as ``champion``, ``news/3``.
        at: UTC, ISO 8601.
        origins: slice → origin of the version's own text; empty if unknown.
        observation: its number in MLflow, from 1; 0 before it is recorded.
        stuck: why a new training would not end the drift; usually empty.
    """

    name: str
    alias: str
    reference: str
    digest: str
    at: str
    verdicts: tuple[Verdict, ...]
    slices: Mapping[str, TextDrift]
    origins: Mapping[str, str]
    notes: tuple[str, ...] = ()
    skipped: SkippedFiles = field(default_factory=SkippedFiles)
    observation: int = 0
    link: str = ""
    stuck: str = ""

    @property
    def broken(self) -> tuple[Verdict, ...]:
        """The verdicts of rules that report drift."""
        return tuple(verdict for verdict in self.verdicts if verdict.judged and not verdict.holds)

    @property
    def not_judged(self) -> tuple[Verdict, ...]:
        """The verdicts of rules that had too little text."""
        return tuple(verdict for verdict in self.verdicts if not verdict.judged)

    @property
    def outcome(self) -> Outcome:
        """Drifted if a rule reports drift; not drifted if all were judged and hold."""
        if self.broken:
            return "drifted"
        return "not judged" if self.not_judged else "not drifted"

    @property
    def drifted(self) -> bool:
        """Whether any rule reports drift."""
        return self.outcome == "drifted"

    @property
    def title(self) -> str:
        """The outcome in one line."""
        titles = {
            "drifted": f"DRIFT in {len(self.broken)} of {len(self.verdicts)} rules",
            "not drifted": "not drifted",
            "not judged": f"NOT JUDGED: {len(self.not_judged)} of {len(self.verdicts)} rules",
        }
        return f"{self.reference} ({self.alias}): {titles[self.outcome]}"

    @property
    def _reasons(self) -> list[str]:
        reasons = [verdict.said for verdict in (*self.broken, *self.not_judged)]
        return [*reasons, *filter(None, [self.stuck])]

    def metrics(self) -> dict[str, float]:
        """Return one point of every MLflow series."""
        points: dict[str, float] = {DRIFTED: DRIFTED_VALUES[self.outcome]}
        points["drift/version"] = float(self.reference.rpartition("/")[2])
        for name, drift in self.slices.items():
            for metric, figure in drift.figures.items():
                key = f"drift/{of_slice(metric, name)}"
                points[key] = figure.new
                if figure.own is not None:
                    points[f"{key}.own"] = figure.own  # in the same section of the UI
            points[f"drift/bytes/{name}"] = float(drift.bytes)
        return points

    @property
    def _about(self) -> dict[str, str]:
        names = ("name", "alias", "reference", "digest", "at")
        return {name: getattr(self, name) for name in names}

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "format": FORMAT,
            **self._about,
            "outcome": self.outcome,
            "drifted": None if self.outcome == "not judged" else self.drifted,
            "verdicts": [
                {
                    "metric": item.rule.metric,
                    "slice": item.rule.slice,
                    "judged": item.judged,
                    "holds": item.holds if item.judged else None,
                    "said": item.said,
                }
                for item in self.verdicts
            ],
            "slices": {
                name: _slice(item, self.origins[name]) for name, item in self.slices.items()
            },
            "definitions": dict(DEFINITIONS),
            "stuck": self.stuck,
            "notes": list(self.notes),
            "skipped": self.skipped.as_dict(),
            "observation": self.observation,
            "link": self.link,
        }

    def event(self) -> dict[str, Any]:
        """Return the payload of the drift event, without tables."""
        everything = self.slices[ALL]
        return {
            **self._about,
            "rules": [verdict.said for verdict in self.broken],
            "not_judged": [verdict.said for verdict in self.not_judged],
            "bytes": everything.bytes,
            "figures": {key: figure.new for key, figure in everything.figures.items()},
            "observation": self.observation,
            "link": self.link,
        }

    def lines(self) -> list[str]:
        """Return the report as lines for a terminal."""
        lines = [self.title, *(f"  {reason}" for reason in self._reasons)]
        for name, drift in self.slices.items():
            lines += ["", f"{name}: {_size(drift)}"]
            origin = self.origins[name]
            own = origin or "nothing: the version was not evaluated on this slice"
            lines.append(f"compared with {own}")
            lines += [f"  {line}" for line in Table(("", *HEAD), rows_of(drift)).lines()]
        words = self.slices[ALL].new_words
        if words:
            lines += ["", f"new frequent words: {len(words):,}; the most expensive:"]
            table = Table(WORD_HEAD, [*map(_word_row, words[:10])])
            lines += [f"  {line}" for line in table.lines()]
        lines += [f"note: {note}" for note in self.notes]
        if self.link:
            lines += ["", f"observation {self.observation} in MLflow: {self.link}"]
        return lines

    def markdown(self) -> str:
        """Return the report as a Markdown page."""
        parts = [f"# {self.title}", *(f"- {reason}" for reason in self._reasons)]
        for name, drift in self.slices.items():
            parts += ["", f"## {name}", "", f"{_size(drift)}; compared with "
                      f"{self.origins[name] or 'nothing'}", ""]  # fmt: skip
            parts.append(Table(("metric", *HEAD), rows_of(drift)).markdown())
        words = self.slices[ALL].new_words[:WORDS_SHOWN]
        if words:
            table = Table(WORD_HEAD, [*map(_word_row, words)])
            parts += ["", "## New frequent words", "", table.markdown()]
        parts += ["", *(f"*{note}*" for note in self.notes)]
        return "\n".join(parts).rstrip() + "\n"


HEAD = ("then", "now", "difference", f"{CONFIDENCE:.0%} interval")
WORD_HEAD = ("word", "now", "in training", "tokens", "saved as one token")


def rows_of(one: TextDrift) -> list[tuple[str, ...]]:
    """Return a table row for each figure."""
    return [(metric, *_cells(metric, figure)) for metric, figure in one.figures.items()]


def _cells(metric: str, figure: Figure) -> Iterator[str]:
    def number(value: float | None, sign: str = "") -> str:
        if value is None:
            return ""
        if metric.rpartition("/")[2] in _SHARES:
            return f"{100 * value:{sign}.2f} %"
        return f"{value:{sign}.4f}"

    yield number(figure.own)
    yield number(figure.new)
    yield number(figure.difference, "+")
    interval = figure.interval()
    sign = "" if figure.own is None else "+"
    ends = () if interval is None else (interval.low, interval.high)
    yield " … ".join(number(end, sign) for end in ends)


def _word_row(one: NewWord) -> tuple[str, ...]:
    return (
        token_text(one.word), f"{one.count:,}", f"{one.trained:,}", str(one.tokens),
        f"{one.saved:,}",
    )  # fmt: skip


def _size(one: TextDrift) -> str:
    return (
        f"{megabytes(one.bytes)}, {one.words:,} words, {one.distinct_words:,} distinct; "
        f"intervals from {one.documents:,} documents"
    )


def _slice(one: TextDrift, origin: str) -> dict[str, Any]:
    return {
        "compared_with": origin,
        "documents": one.documents,
        "bytes": one.bytes,
        "tokens": one.tokens,
        "words": one.words,
        "distinct_words": one.distinct_words,
        "figures": {metric: _figure(figure) for metric, figure in one.figures.items()},
        "new_words": [
            {
                "word": token_text(word.word),
                "bytes": word.word.hex(),
                "count": word.count,
                "trained": word.trained,
                "times": word.times,
                "tokens": word.tokens,
                "saved": word.saved,
            }
            for word in one.new_words[:WORDS_KEPT]
        ],
        "new_words_in_all": len(one.new_words),
    }


def _figure(figure: Figure) -> dict[str, Any]:
    interval = figure.interval()
    return {
        "now": figure.new,
        "then": figure.own,
        "difference": figure.difference,
        "interval": None if interval is None else [interval.low, interval.high],
        "confidence": None if interval is None else interval.confidence,
    }


def remember(report: DriftReport, registry: Registry) -> DriftReport:
    """Record a drift report in MLflow, with its page and a chart of the series.

    Raises:
        RegistryUnreachable: MLflow does not answer.
    """
    why = ", ".join(str(item.rule) for item in report.broken or report.not_judged)
    metrics, runs = report.metrics(), registry.tracker.runs
    run, number = runs.record_drift(
        DriftObservation(
            name=report.name,
            said=f"{report.reference}: {report.outcome}{': ' if why else ''}{why}",
            time_ms=timegm(strptime(report.at[:19], "%Y-%m-%dT%H:%M:%S")) * 1000,
            metrics=metrics,
            record=report.as_dict(),
            page=report.markdown(),
        )
    )
    observations = runs.past_observations(report.name, list(metrics))

    def series(metric: str) -> list[tuple[int, float]]:
        return [
            (item.number, item.metrics[metric]) for item in observations if metric in item.metrics
        ]

    lines = {name: series(f"drift/{of_slice(BYTES_PER_TOKEN, name)}") for name in report.slices}
    own = report.slices[ALL].figures[BYTES_PER_TOKEN].own
    with registry.workspace.temporary_directory("drift") as directory:
        title = f"{report.name}: {number} observations"
        place = directory / "bytes-per-token.svg"
        picture = draw_observations(lines, dict(series(WATCHED)), place, title, own)
        runs.add_files(run.run_id, {f"figures/{picture.name}": picture})
    link = run_link(registry.tracker.settings.ui, run.experiment_id, run.run_id)
    return replace(report, observation=number, link=link)
