"""The page of a name with all its versions: rendered, written to a file, and shown in MLflow."""

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
# In the table of figures; what depends on text is marked where that is another text.
_FIGURES = (
    (BYTES_PER_TOKEN, "bytes/token"),
    ("words/fertility", "tokens/word"),
    ("vocabulary/utilization", "of the vocab in use"),
    ("training/rare_tokens", f"tokens met fewer than {RARE} times in training"),
    ("privacy/suspicious_tokens", "look like personal data"),
)
_OUTCOMES = {value: outcome for outcome, value in DRIFTED_VALUES.items()}


@dataclass(frozen=True, slots=True)
class VersionLinks:
    """Where more is said of a version.

    Attributes:
        report: its page of figures; empty where there is none.
        mlflow: its page in MLflow's UI; empty where the page is shown by MLflow, which lets
            nothing be followed there.
    """

    report: str = ""
    mlflow: str = ""


def page_of_name(history: NameHistory, ui: str = "") -> str:
    """The whole page.

    Args:
        ui: the address of MLflow's pages; empty for a page that MLflow shows, without links.
    """
    links = {one.version.number: _links(one, ui) for one in history.versions} if ui else {}
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
            one.change and SHOWN_CONFIDENCE in one.change.intervals for one in history.compared
        ),
        "stuck": [one.version for one in newest if one.version.stuck],
        "not_compared": [one for one in history.versions if one.not_compared],
        "versions": [_version_cells(one) for one in newest],
        "figures": [_figure_cells(one) for one in newest],
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
    """Where each alias points, and since when that is known."""
    rows = []
    for one in history.versions:
        for alias in one.version.aliases:
            moves = [move for move in history.moves if move.alias == alias and _moved(move)]
            last = moves[0] if moves and moves[0].to_number == one.version.number else None
            rows.append({
                "alias": alias,
                "version": one.version.reference,
                "since": _minute(last.at) if last else "",
                "by": last.by if last else "",
                "reason": last.reason if last else "",
            })  # fmt: skip
    return sorted(rows, key=lambda row: (row["alias"] != CHAMPION, row["alias"]))


def _moved(move: AliasMove) -> bool:
    return move.from_number != move.to_number


def _moves(history: NameHistory) -> Iterator[dict[str, str]]:
    """The moves of aliases, newest first, each with the time of the next one of its alias."""
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
    """Tokens for a thousand bytes."""
    return 1000 / bytes_per_token


def _cost_chart(history: NameHistory) -> Chart | None:
    """What the same text costs in each version; a colour for each kind where there are few."""
    compared = history.compared
    if not compared:
        return None
    reference = next(
        (_cost(one.bytes_per_token) for one in compared
         if one.version is history.reference and one.bytes_per_token is not None), None
    )  # fmt: skip
    kinds = sorted({(one.version.vocab_size, one.version.pattern) for one in compared})
    points: dict[tuple[int, str], list[Point]] = {kind: [] for kind in kinds}
    for place, one in enumerate(compared):
        kind = one.version.vocab_size, one.version.pattern
        points[kind].append(_point(place, one, reference))
    names = _kind_names(kinds)
    return Chart(
        f"Tokens per 1,000 bytes of the versions of {history.name}",
        "version",
        "tokens per 1,000 bytes",
        [Line(names[kind], points[kind], dots=True) for kind in kinds],
        names=[str(one.version.number) for one in compared],
    )


def _kind_names(kinds: Sequence[tuple[int, str]]) -> dict[tuple[int, str], str]:
    """Names of sizes and patterns, by what differs; one for all where there are too many."""
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
    """How many more tokens the champion takes than the first version that compares, as a share."""
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
    """More or fewer tokens, where that is no chance."""
    return "more" if low > 0 else "less" if high < 0 else ""


def _drift_chart(history: NameHistory) -> Chart | None:
    """Tokens per 1,000 bytes of new text, and of the own text of the version that was watched."""
    observations = history.observations or ()
    points: dict[tuple[str, str], list[Point]] = {}
    for name, key in (("new text", NEW_TEXT_COST), ("its own text", OWN_TEXT_COST)):
        for place, one in enumerate(observations):
            if one.metrics.get(key, 0) > 0:
                point = Point(place, _cost(one.metrics[key]), _observed(history, one))
                points.setdefault((name, _watched(history, one)), []).append(point)
    if not points:
        return None
    return Chart(
        f"Tokens per 1,000 bytes of new text, {len(observations)} observations",
        "observation",
        "tokens per 1,000 bytes",
        [Line(name, line, dots=True) for (name, _), line in points.items()],
        names=[str(one.number) for one in observations],
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
    """Rows for the table, newest first."""
    rows = []
    for one in reversed(history.observations or ()):
        new, own = (one.metrics.get(key) for key in (NEW_TEXT_COST, OWN_TEXT_COST))
        rows.append({
            "number": str(one.number),
            "at": _day(one.time_ms),
            "version": _watched(history, one),
            "outcome": _outcome(one),
            "new": "" if not new else f"{_cost(new):.2f}",
            "own": "" if not own else f"{_cost(own):.2f}",
            "change": "" if not new or not own else f"{own / new - 1:+.2%}",
        })  # fmt: skip
    return rows


def show_name_page(registry: Registry, name: str) -> str:
    """Put the page of a name into MLflow.

    Returns:
        Its address; empty where it could not be shown.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of other MLflows: whoever lists versions is told
            return _shown(registry, name)
    except (BpelineError, OSError) as error:
        waits = isinstance(error, RegistryUnreachable) and not isinstance(error, ArtifactsRefused)
        if not waits and not isinstance(error, UnknownVersion):
            said = error.happened if isinstance(error, BpelineError) else str(error)
            warnings.warn(
                f"the page of {name} in MLflow could not be written: {said}; "
                f"`bpeline versions {name} -o {name}.html` writes it again",
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
    """Write the page of a name, with links to the report of each version.

    Raises:
        InvalidOption: no name, or a misspelt one.
        UnknownVersion: it has no version.
        DiskFull: no space left.
    """
    if name is None:
        raise InvalidOption(
            "a page is about the versions of one name, and none is given",
            "the name of a tokenizer",
            "type `bpeline versions` to see the names, then `bpeline versions NAME -o FILE`",
        )
    registry = open_registry(make=False)
    history = name_history(registry, name)
    page = page_of_name(history, registry.tracker.settings.ui)
    DURABLE.write(path, page.encode(errors="backslashreplace"))
