"""Descriptions on MLflow's pages of versions, registered models and experiments."""

from __future__ import annotations

import re
from collections.abc import Mapping

from bpeline.registry.records import CURVE_METRIC, SUSPICIOUS_METRIC, Publication
from bpeline.registry.tracking.tracked import in_utf8
from bpeline.tokenizer_core.evaluation import ALL

LONGEST_DESCRIPTION = 5000  # characters; MLflow's limit
STEP_IS_IDS = "In charts of metrics, *Step* is a number of ids: the size of the vocabulary."
_FIRST_SENTENCE = "Tokenizers that bpeline trained and registered."
_LINKED_PAGE = "[All versions: cost over time, figures, champions, drift]"
_SLICES_SAID = 4  # in the first line of a version's description


def description_of(publication: Publication, report: str = "") -> str:
    """Return the Markdown description of a version; lists show the first line."""
    metrics = publication.metrics
    ratio, suspicious = metrics.get(CURVE_METRIC), metrics.get(SUSPICIOUS_METRIC)
    sources = [source.name for source in publication.inputs if source.context == "training"]
    parts = [
        _against_champion(publication),  # first: MLflow's lists show about 30 characters
        f"{ratio:.3f} bytes per token{_measured_on(publication)}" if ratio is not None else "",
        f"{publication.vocab_size:,} ids",
        "" if suspicious is None else f"{suspicious:,.0f} tokens look like personal data",
        f"pattern {publication.pattern}" if len(publication.pattern) < 40 else "",
        f"trained on {', '.join(sources[:3])}{' …' if sources[3:] else ''}" if sources else "",
    ]
    line = ", ".join(filter(None, parts))
    linked = f"\n\n[Report: figures, vocabulary, playground]({report})" if report else ""
    return shortened_page(f"{line}{linked}\n\n{STEP_IS_IDS}\n\n{publication.report}", "report.md")


def _measured_on(publication: Publication) -> str:
    if not publication.evaluation_set:
        return " of its own text"
    return f" on evaluation set {publication.evaluation_set[:8]}"


def _against_champion(publication: Publication) -> str:
    """Return ``-1.2 % tokens against news/3 (-1.5 … -0.9)``, or an empty text."""
    name = "vs_champion_percent/all"
    change = publication.metrics.get(name)
    if change is None:
        return ""
    champion = publication.tags.get("compared_with.champion", "the champion")
    text = f"{change:+.2f} % tokens against {champion}"
    low, high = (publication.metrics.get(f"{name}_{end}") for end in ("low", "high"))
    if low is not None and high is not None:
        chance = ", may be chance" if low <= 0 <= high else ""
        text = f"{text} ({low:+.2f} … {high:+.2f}{chance})"
    slices = _beyond_chance(publication.metrics)
    more = f" and {len(slices) - _SLICES_SAID} more" if len(slices) > _SLICES_SAID else ""
    return ", ".join([text, *slices[:_SLICES_SAID]]) + more


def _beyond_chance(metrics: Mapping[str, float]) -> list[str]:
    """Return slices with significant changes against the champion: ``german +8.5 %``."""
    judged = "vs_champion_beyond_chance/"
    names = [
        entry.removeprefix(judged)
        for entry in metrics
        if entry.startswith(judged) and metrics[entry]
    ]
    changes = {entry: metrics[f"vs_champion_percent/{entry}"] for entry in names if entry != ALL}
    ordered = sorted(changes.items(), key=lambda entry: -abs(entry[1]))
    return [f"{name} {change:+.2f} %" for name, change in ordered]


def description_of_name(name: str, measured_on: str, page: str = "") -> str:
    """Return the Markdown description of a registered model."""
    linked = f"{_LINKED_PAGE}({page})\n\n" if page else ""
    return (
        f"{_FIRST_SENTENCE}\n\n{linked}All versions of {name} are measured on {measured_on}, so "
        "their figures are comparable; `bpeline evaluate --sets` lists the texts and their "
        "changes.\n\n"
        f'Load a version with `bpeline.load_tokenizer("{name}@champion")`, or without bpeline '
        f'with `mlflow.pyfunc.load_model("models:/{name}@champion")`; `@candidate` and numbers '
        "work too. Both treat a special token in text as ordinary text unless `allowed_special` "
        "allows it (`params` of `predict`); `tokenizers` and `transformers` read it as one id. "
        f"The first line of a version compares it with the champion of its time; its page, with "
        f"earlier champions; `bpeline compare {name}@champion {name}@candidate` compares any "
        "two.\n\n"
        "Higher is better for `bytes_per_token`. Lower is better for tokens, "
        "`vs_champion_percent` (against the version in the run's parameter `champion`), "
        "`words/fertility`, `robustness/…_inflation`, `training/rare_tokens` (seen fewer than 100 "
        "times) and `privacy/`. `vs_champion_beyond_chance` is -1 for significantly fewer tokens, "
        "1 for significantly more, 0 if it may be chance. Speeds are only comparable on one "
        f"machine (`speed_of`). {STEP_IS_IDS}\n\n"
        "`champion` is the version in use, `candidate` the latest published one."
    )


def linked_page(description: str) -> str:
    """Return the URL of the page with all versions in a description, if any."""
    match = re.search(rf"{re.escape(_LINKED_PAGE)}\((\S+)\)", description)
    return match[1] if match else ""


def is_ours(description: str) -> bool:
    """Whether a registered model's description is empty or was written by bpeline."""
    return not description or description.startswith(_FIRST_SENTENCE)


def description_of_experiment(name: str) -> str:
    """Return the one-line description of an experiment."""
    return (
        f"Trainings of {name}: one run each, one run for drift, and its sweeps and datasets. "
        f"{STEP_IS_IDS} For drift, it is the number of the observation."
    )


def shortened_page(text: str, rest: str) -> str:
    """Cut Markdown to MLflow's limit, between sections or else between lines."""
    text = in_utf8(text).rstrip()
    if len(text) <= LONGEST_DESCRIPTION:
        return text
    more = f"\n\nThe rest is in the artifact `{rest}`."
    room = LONGEST_DESCRIPTION - len(more)
    ends = (text.rfind(mark, 1, room) for mark in ("\n## ", "\n"))
    return text[: next((end for end in ends if end > 0), room)].rstrip() + more
