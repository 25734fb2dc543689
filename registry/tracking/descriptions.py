"""What MLflow's pages say in sentences: of a version, of a registered model, of an experiment."""

from __future__ import annotations

import re
from collections.abc import Mapping

from bpeline.registry.records import CURVE_METRIC, SUSPICIOUS_METRIC, Publication
from bpeline.registry.tracking.tracked import in_utf8
from bpeline.tokenizer_core.evaluation import ALL

LONGEST_DESCRIPTION = 5000  # characters, as MLflow allows
STEP_IS_IDS = "In charts of metrics, *Step* is a number of ids: the size of the vocabulary."
_FIRST_SENTENCE = "Tokenizers that bpeline trained and registered."
_LINKED_PAGE = "[All versions: cost over time, figures, who was champion when, drift]"
_SLICES_SAID = 4  # in the first line of a version's description


def description_of(publication: Publication, report: str = "") -> str:
    """What the pages of a run and of a version say, in Markdown; lists show its first line.

    Args:
        report: a link to the version's page of figures.
    """
    metrics = publication.metrics
    ratio, suspicious = metrics.get(CURVE_METRIC), metrics.get(SUSPICIOUS_METRIC)
    sources = [one.name for one in publication.inputs if one.context == "training"]
    said = [
        _against_champion(publication),  # first: MLflow's lists show some thirty characters
        f"{ratio:.3f} bytes per token{_measured_on(publication)}" if ratio is not None else "",
        f"{publication.vocab_size:,} ids",
        "" if suspicious is None else f"{suspicious:,.0f} tokens look like personal data",
        f"pattern {publication.pattern}" if len(publication.pattern) < 40 else "",
        f"trained on {', '.join(sources[:3])}{' …' if sources[3:] else ''}" if sources else "",
    ]
    line = ", ".join(filter(None, said))
    linked = f"\n\n[Report: figures, vocabulary, playground]({report})" if report else ""
    return shortened_page(f"{line}{linked}\n\n{STEP_IS_IDS}\n\n{publication.report}", "report.md")


def _measured_on(publication: Publication) -> str:
    if not publication.evaluation_set:
        return " of its own text"
    return f" on evaluation set {publication.evaluation_set[:8]}"


def _against_champion(publication: Publication) -> str:
    """``-1.2 % tokens against news/3 (-1.5 … -0.9)``, and slices; empty without a champion."""
    name = "vs_champion_percent/all"
    change = publication.metrics.get(name)
    if change is None:
        return ""
    champion = publication.tags.get("compared_with.champion", "the champion")
    said = f"{change:+.2f} % tokens against {champion}"
    low, high = (publication.metrics.get(f"{name}_{end}") for end in ("low", "high"))
    if low is not None and high is not None:
        chance = ", may be chance" if low <= 0 <= high else ""
        said = f"{said} ({low:+.2f} … {high:+.2f}{chance})"
    slices = _beyond_chance(publication.metrics)
    more = f" and {len(slices) - _SLICES_SAID} more" if len(slices) > _SLICES_SAID else ""
    return ", ".join([said, *slices[:_SLICES_SAID]]) + more


def _beyond_chance(metrics: Mapping[str, float]) -> list[str]:
    """``german +8.5 %``: slices whose tokens differ from the champion's by more than chance."""
    judged = "vs_champion_beyond_chance/"
    names = [one.removeprefix(judged) for one in metrics if one.startswith(judged) and metrics[one]]
    changes = {one: metrics[f"vs_champion_percent/{one}"] for one in names if one != ALL}
    ordered = sorted(changes.items(), key=lambda one: -abs(one[1]))
    return [f"{name} {change:+.2f} %" for name, change in ordered]


def description_of_name(name: str, measured_on: str, page: str = "") -> str:
    """What the page of a registered model says, in Markdown: its versions, how to load one.

    Args:
        page: a link to the page with all versions.
    """
    linked = f"{_LINKED_PAGE}({page})\n\n" if page else ""
    return (
        f"{_FIRST_SENTENCE}\n\n{linked}All versions of {name} are measured on {measured_on}: their "
        "figures compare; texts and when they changed: `bpeline evaluate --sets`.\n\n"
        f'Load one with `bpeline.load_tokenizer("{name}@champion")`, or without bpeline with '
        f'`mlflow.pyfunc.load_model("models:/{name}@champion")`; the same by `@candidate`, or by '
        "number. Both read a special token in text as ordinary text unless `allowed_special` "
        "allows it (`params` of `predict`); `tokenizers` and `transformers` read it as one id. "
        f"The first line of a version says how it compares to the champion it met; "
        f"its page, to the earlier ones; `bpeline compare {name}@champion {name}@candidate` "
        "compares any two.\n\n"
        "Better is more of `bytes_per_token`, and less of tokens, `vs_champion_percent` (against "
        "the version that the parameter `champion` of the run names), `words/fertility`, "
        "`robustness/…_inflation`, `training/rare_tokens` (met fewer than 100 times) and "
        "`privacy/`; `vs_champion_beyond_chance` is -1 where fewer tokens are no chance, 1 where "
        "more are none, 0 where it may be. Speeds compare on one machine (`speed_of`). "
        f"{STEP_IS_IDS}\n\n"
        "`champion` is what is in use, `candidate` what was published last."
    )


def linked_page(description: str) -> str:
    """The link to the page with all versions that such a description has; empty without one."""
    found = re.search(rf"{re.escape(_LINKED_PAGE)}\((\S+)\)", description)
    return found[1] if found else ""


def is_ours(description: str) -> bool:
    """Whether nobody else described a registered model."""
    return not description or description.startswith(_FIRST_SENTENCE)


def description_of_experiment(name: str) -> str:
    """What the list of experiments says of that of a name: one line."""
    return (
        f"Trainings of {name}: a run for each, one for its drift, and its sweeps and datasets. "
        f"{STEP_IS_IDS} Of drift, it is the number of the observation."
    )


def shortened_page(text: str, rest: str) -> str:
    """Markdown as long as MLflow allows, cut between sections or, in a long one, between lines.

    Args:
        rest: the artifact of the run that has all of it.
    """
    text = in_utf8(text).rstrip()
    if len(text) <= LONGEST_DESCRIPTION:
        return text
    more = f"\n\nThe rest is in the artifact `{rest}`."
    room = LONGEST_DESCRIPTION - len(more)
    ends = (text.rfind(mark, 1, room) for mark in ("\n## ", "\n"))
    return text[: next((end for end in ends if end > 0), room)].rstrip() + more
