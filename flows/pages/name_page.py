"""The page of a name with all its versions, as a file and in MLflow."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpeline.flows.pages.rendering import render
from bpeline.flows.wording import SHOWN_CONFIDENCE, megabytes, number_text
from bpeline.registry.aliases import (
    NEW_TEXT_COST,
    OWN_TEXT_COST,
    WATCHED,
    NameHistory,
    PastVersion,
    name_history,
)
from bpeline.registry.opening import Registry, open_registry
from bpeline.registry.records import CANDIDATE, CHAMPION
from bpeline.registry.tracking import DRIFTED, DRIFTED_VALUES, model_link
from bpeline.tokenizer_core.charts import COLOURS, Chart, Line, Point, short_number
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import (
    ArtifactsRefused,
    BpelineError,
    InvalidOption,
    RegistryUnreachable,
    UnknownVersion,
)
from bpeline.tokenizer_core.evaluation import BYTES_PER_TOKEN, RARE, depends_on_text

if TYPE_CHECKING:
    from bpeline.registry.catalogue import AliasMove
    from bpeline.registry.records import PastObservation

_LONGEST_PATTERN = 60  # characters
# Titles of the table of figures; values measured on another text are marked.
_FIGURES = (
    (BYTES_PER_TOKEN, "bytes/token"),
    ("words/fertility", "tokens/word"),
    ("vocabulary/utilization", "of the vocab in use"),
    ("training/rare_tokens", f"tokens seen fewer than {RARE} times in training"),
    ("privacy/suspicious_tokens", "look like personal data"),
)
_OUTCOMES = {value: outcome for outcome, value in DRIFTED_VALUES.items()}


@dataclass(frozen=True, slots=True)
class VersionLinks:
    """Links to a version's pages.

    Attributes:
        report: URI of its report; empty if there is none.
        mlflow: its page in MLflow's UI; empty for pages inside MLflow, which blocks links.
    """

    report: str = ""
    mlflow: str = ""


def page_of_name(history: NameHistory, ui: str = "") -> str:
    """Render the page of a name.

    Args:
        ui: address of MLflow's UI; empty for a page inside MLflow, without links.
    """
    links = (
        {version.version.number: _links(version, ui) for version in history.versions} if ui else {}
    )
    newest = history.versions[::-1]
    values = {
        "history": history,
        "at": _minute(history.at),
        "links": links,
        "aliases": _aliases(history),
        "champion": _with_alias(history, CHAMPION),
        "candidate": _with_alias(history, CANDIDATE),
        "newest": newest,
        "cost": _cost_chart(history),
        "has_intervals": any(
            version.change and SHOWN_CONFIDENCE in version.change.intervals
            for version in history.compared
        ),
        "stuck": [version.version for version in newest if version.version.stuck],
        "not_compared": [version for version in history.versions if version.not_compared],
        "versions": [_version_cells(version) for version in newest],
        "figures": [_figure_cells(version) for version in newest],
        "figure_titles": [title for _, title in _FIGURES],
        "since_first": _since_first(history),
        "moves": list(_moves(history)),
        "drift": _drift_chart(history),
        "observations": _observations(history),
    }
    return render("name.html", values)


def _links(one: PastVersion, ui: str) -> VersionLinks:
    report = one.report.as_uri() if one.report is not None else ""
    return VersionLinks(report, model_link(ui, one.version.name, one.version.number))


def _with_alias(history: NameHistory, alias: str) -> PastVersion | None:
    return next((one for one in history.versions if alias in one.version.aliases), None)


def _minute(at: str) -> str:
    return at[:16].replace("T", " ")


def _aliases(history: NameHistory) -> list[dict[str, str]]:
    """Return where each alias points, and since when if known."""
    rows = []
    for version in history.versions:
        for alias in version.version.aliases:
            moves = [move for move in history.moves if move.alias == alias and _moved(move)]
            last = moves[0] if moves and moves[0].to_number == version.version.number else None
            rows.append({
                "alias": alias,
                "version": version.version.reference,
                "since": _minute(last.at) if last else "",
                "by": last.by if last else "",
                "reason": last.reason if last else "",
            })  # fmt: skip
    return sorted(rows, key=lambda row: (row["alias"] != CHAMPION, row["alias"]))


def _moved(move: AliasMove) -> bool:
    return move.from_number != move.to_number


def _moves(history: NameHistory) -> Iterator[dict[str, str]]:
    """Yield the moves of aliases, newest first, each with the time of the next move."""
    ends: dict[str, str] = {}
    for move in history.moves:
        moved = _moved(move)
        before, after = (
            "nowhere" if number is None else f"{history.name}/{number}"
            for number in (move.from_number, move.to_number)
        )
        yield {
            "at": _minute(move.at),
            "until": ends.get(move.alias, "") if moved else "",
            "alias": move.alias,
            "places": f"{before} → {after}" if moved else f"stays at {after}",
            "by": move.by,
            "reason": move.reason,
        }
        if moved:
            ends[move.alias] = _minute(move.at)


def _cost(bytes_per_token: float) -> float:
    """Return tokens per thousand bytes."""
    return 1000 / bytes_per_token


def _cost_chart(history: NameHistory) -> Chart | None:
    """Draw the cost of the same text in each version, coloured by size and pattern."""
    compared = history.compared
    if not compared:
        return None
    reference = next(
        (_cost(version.bytes_per_token) for version in compared
         if version.version is history.reference and version.bytes_per_token is not None), None
    )  # fmt: skip
    kinds = sorted({(version.version.vocab_size, version.version.pattern) for version in compared})
    points: dict[tuple[int, str], list[Point]] = {kind: [] for kind in kinds}
    for place, version in enumerate(compared):
        kind = version.version.vocab_size, version.version.pattern
        points[kind].append(_point(place, version, reference))
    names = _kind_names(kinds)
    return Chart(
        f"Tokens per 1,000 bytes of the versions of {history.name}",
        "version",
        "tokens per 1,000 bytes",
        [Line(names[kind], points[kind], dots=True) for kind in kinds],
        names=[str(version.version.number) for version in compared],
    )


def _kind_names(kinds: Sequence[tuple[int, str]]) -> dict[tuple[int, str], str]:
    """Name sizes and patterns by their differences; no names if there are too many."""
    sizes, patterns = ({*values} for values in zip(*kinds, strict=True))
    names = {
        (size, pattern): " ".join(
            [f"{short_number(size)} ids"] * (len(sizes) > 1 or len(patterns) == 1)
            + [pattern] * (len(patterns) > 1)
        )
        for size, pattern in kinds
    }
    return names if len(kinds) <= len(COLOURS) else dict.fromkeys(kinds, "")


def _point(place: int, one: PastVersion, reference: float | None) -> Point:
    assert one.bytes_per_token is not None
    version, cost = one.version, _cost(one.bytes_per_token)
    text = (
        f"{version.reference}: {cost:.2f} tokens per 1,000 bytes; {version.vocab_size:,} ids, "
        f"{_short(version.pattern)}, {version.created_at[:10]}"
    )
    ends = one.change.intervals.get(SHOWN_CONFIDENCE) if one.change else None
    ringed = CHAMPION in version.aliases
    if not ends or reference is None:
        return Point(place, cost, text, ringed=ringed)
    low, high = (reference * (1 + end) for end in ends)
    return Point(place, cost, text, low, high, ringed)


def _short(pattern: str) -> str:
    return pattern if len(pattern) <= _LONGEST_PATTERN else f"{pattern[: _LONGEST_PATTERN - 1]}…"


def _since_first(history: NameHistory) -> tuple[float, str] | None:
    """Return the champion's change in tokens since the first comparable version."""
    champion = _with_alias(history, CHAMPION)
    first = history.compared[0] if history.compared else None
    if champion is None or first is None or champion is first or not champion.bytes_per_token:
        return None
    assert first.bytes_per_token is not None
    return first.bytes_per_token / champion.bytes_per_token - 1, first.version.reference


def _version_cells(one: PastVersion) -> dict[str, str]:
    version = one.version
    metrics = version.metrics
    words, corpus = metrics.get("corpus/distinct_words"), metrics.get("corpus/bytes")
    return {
        "ids": f"{version.vocab_size:,}",
        "pattern": _short(version.pattern),
        "words": number_text(words),
        "corpus": "" if corpus is None else megabytes(int(corpus)),
        "made": _minute(version.created_at),
        "digest": version.digest[:12],
    }


def _figure_cells(one: PastVersion) -> dict[str, Any]:
    other_text = bool(one.not_compared)
    cells = []
    for key, _ in _FIGURES:
        value = one.version.metrics.get(key)
        marked = "*" if value is not None and other_text and depends_on_text(key) else ""
        cells.append(f"{_figure(key, value)}{marked}")
    change, interval = one.change, None
    if change is not None:
        interval = change.intervals.get(SHOWN_CONFIDENCE)
    return {
        "cells": cells,
        "change": "" if change is None else f"{change.value:+.2%}",
        "interval": "" if interval is None else f"{interval[0]:+.2%} … {interval[1]:+.2%}",
        "kind": "" if interval is None else _kind(*interval),
    }


def _figure(key: str, value: float | None) -> str:
    if value is None:
        return ""
    if key == "vocabulary/utilization":
        return f"{value:.1%}"
    return f"{value:,.0f}" if value == int(value) else f"{value:.4f}"


def _kind(low: float, high: float) -> str:
    """Return whether the tokens increase or decrease significantly."""
    return "more" if low > 0 else "less" if high < 0 else ""


def _drift_chart(history: NameHistory) -> Chart | None:
    """Draw tokens per 1,000 bytes of new text and of the watched version's own text."""
    observations = history.observations or ()
    points: dict[tuple[str, str], list[Point]] = {}
    for name, key in (("new text", NEW_TEXT_COST), ("its own text", OWN_TEXT_COST)):
        for place, observation in enumerate(observations):
            if observation.metrics.get(key, 0) > 0:
                point = Point(
                    place, _cost(observation.metrics[key]), _observed(history, observation)
                )
                points.setdefault((name, _watched(history, observation)), []).append(point)
    if not points:
        return None
    return Chart(
        f"Tokens per 1,000 bytes of new text, {len(observations)} observations",
        "observation",
        "tokens per 1,000 bytes",
        [Line(name, line, dots=True) for (name, _), line in points.items()],
        names=[str(observation.number) for observation in observations],
    )


def _observed(history: NameHistory, one: PastObservation) -> str:
    return (
        f"observation {one.number}, {_day(one.time_ms)}: {_watched(history, one)}, {_outcome(one)}"
    )


def _day(milliseconds: int) -> str:
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M}"


def _watched(history: NameHistory, one: PastObservation) -> str:
    number = one.metrics.get(WATCHED)
    return "" if number is None else f"{history.name}/{number:.0f}"


def _outcome(one: PastObservation) -> str:
    return _OUTCOMES.get(one.metrics[DRIFTED], "")


def _observations(history: NameHistory) -> list[dict[str, str]]:
    """Return the table rows, newest first."""
    rows = []
    for observation in reversed(history.observations or ()):
        new, own = (observation.metrics.get(key) for key in (NEW_TEXT_COST, OWN_TEXT_COST))
        rows.append({
            "number": str(observation.number),
            "at": _day(observation.time_ms),
            "version": _watched(history, observation),
            "outcome": _outcome(observation),
            "new": "" if not new else f"{_cost(new):.2f}",
            "own": "" if not own else f"{_cost(own):.2f}",
            "change": "" if not new or not own else f"{own / new - 1:+.2%}",
        })  # fmt: skip
    return rows


def show_name_page(registry: Registry, name: str) -> str:
    """Show the page of a name in MLflow; return its address, empty if that failed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # commands that list versions show these warnings
            return _shown(registry, name)
    except (BpelineError, OSError) as error:
        waits = isinstance(error, RegistryUnreachable) and not isinstance(error, ArtifactsRefused)
        if not waits and not isinstance(error, UnknownVersion):
            reason = error.happened if isinstance(error, BpelineError) else str(error)
            warnings.warn(
                f"the page of {name} in MLflow could not be written: {reason}; "
                f"`bpeline versions {name} -o {name}.html` writes it to a file",
                stacklevel=2,
            )
    return ""


def _shown(registry: Registry, name: str) -> str:
    history = name_history(registry, name)
    runs = [one.version.mlflow_run_id for one in history.versions if one.version.mlflow_run_id]
    if not runs:
        return ""
    with (
        registry.workspace.temporary_directory("name-page") as directory,
        DURABLE.passing(directory),
    ):
        path = directory / "versions.html"
        DURABLE.write(path, page_of_name(history).encode(errors="backslashreplace"))
        return registry.tracker.show_name_page(name, runs[-1], path, history.measured_on)


def write_name_page(name: str | None, path: Path) -> None:
    """Write the page of a name, with links to the report of each version."""
    if name is None:
        raise InvalidOption(
            "--output needs the name of a tokenizer",
            "expected one name, whose versions the page shows",
            "type `bpeline versions` to see the names, then `bpeline versions NAME -o FILE`",
        )
    registry = open_registry(make=False)
    history = name_history(registry, name)
    page = page_of_name(history, registry.tracker.settings.ui)
    DURABLE.write(path, page.encode(errors="backslashreplace"))
