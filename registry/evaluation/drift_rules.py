"""Rules of drift: when new text differs too much from the version's own.

Written like promotion rules (`registry.evaluation.gates`). With a confidence, the whole interval
must be beyond the bound to report drift.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from bpeline.registry.evaluation.gates import Rule, Verdict, read_rules
from bpeline.tokenizer_core.display import megabytes
from bpeline.tokenizer_core.evaluation import (
    BYTES_PER_TOKEN,
    DIVERGENCE,
    DRIFT_DEFINITIONS,
    EXCESS_DIVERGENCE,
    LEAST_WATCHED_BYTES,
    LEAST_WATCHED_DOCUMENTS,
    MANY,
    NEW_COST,
    TOO_FEW_DOCUMENTS,
    Figure,
)

_SURE = 0.99  # drift runs every night; at 0.95 false alarms would be too frequent
MOST_HELD_OUT = 0.5  # largest held-out share of a training
_MARGIN = 1.5  # sections are held out at random: four standard deviations of 150
_SECTION = 4_400  # bytes, with short words
_ENOUGH_TO_ESTIMATE = 30  # documents, to estimate the document length of a corpus
_PER_TOKEN = Rule(BYTES_PER_TOKEN, "higher", tolerance=0.05, confidence=_SURE)

# On all text. Samples of one corpus stay well within these; measurements are in docs/evaluation.md.
DEFAULT_RULES = (
    _PER_TOKEN,
    Rule(MANY, "lower", tolerance=1.0, confidence=_SURE),
    Rule(EXCESS_DIVERGENCE, "lower", tolerance=None, limit=0.1, confidence=_SURE),
    Rule(NEW_COST, "lower", tolerance=None, limit=0.02, confidence=_SURE),
)

WITH_INTERVALS = tuple(metric for metric in DRIFT_DEFINITIONS if metric != DIVERGENCE)

Figures = Mapping[str, Mapping[str, Figure]]  # by slice and metric


def share_to_watch(corpus: int, documents: int, is_cut: bool) -> float:
    """Return the share of a corpus to hold out so that drift can be judged.

    Above 0.5 the corpus is too small. ``corpus`` is in bytes of text; ``is_cut`` says whether the
    split pattern allows cutting documents, see `sections_of`.
    """
    sections = max(documents, corpus // _SECTION) if is_cut else documents
    needed = max(LEAST_WATCHED_BYTES / max(corpus, 1), LEAST_WATCHED_DOCUMENTS / max(sections, 1))
    return math.ceil(1000 * _MARGIN * needed) / 1000


def missing_text(corpus: int, share: float) -> str:
    """Return advice on how much more text is needed to judge drift."""
    least = max(LEAST_WATCHED_BYTES, LEAST_WATCHED_DOCUMENTS * _SECTION) * _MARGIN
    more = max(least, corpus * share) / MOST_HELD_OUT - corpus
    return f"add {math.ceil(more / 1e5) / 10} MB of text, and set `--held-out {MOST_HELD_OUT}`"


def too_small_to_judge(sample: tuple[int, int], share: float, advised: float, corpus: int) -> str:
    """Return a note if too little text was held out to judge drift; else empty.

    Args:
        sample: held-out documents, and their bytes.
        share: requested held-out share.
        advised: see `share_to_watch`.
    """
    documents, held_out = sample
    if documents >= LEAST_WATCHED_DOCUMENTS and held_out >= LEAST_WATCHED_BYTES:
        return ""
    if documents >= _ENOUGH_TO_ESTIMATE:
        advised = share_to_watch(corpus, corpus * documents // held_out, False)
    if advised <= share:  # by chance, or lengths differ very much
        advised = _MARGIN * share
    more = (
        f"hold out more (`--held-out {advised:.3g}`)"
        if advised <= MOST_HELD_OUT
        else missing_text(corpus, advised)
    )
    return (
        f"too little was held out ({documents:,} document{'s' * (documents != 1)}, "
        f"{megabytes(held_out)}) for "
        f"`bpeline drift`, which needs {LEAST_WATCHED_DOCUMENTS} documents and "
        f'{LEAST_WATCHED_BYTES / 1e6:.1f} MB; less is "not judged"; {more}'
    )


def read_drift_rules(path: Path) -> tuple[Rule, ...]:
    """Read drift rules from a TOML file, in a project file from ``[[drift.rule]]``."""
    return read_rules(
        path, metrics=DRIFT_DEFINITIONS, with_intervals=WITH_INTERVALS, table="drift"
    ).rules


def default_rules(slices: Sequence[str]) -> tuple[Rule, ...]:
    """Return the default rules for ``all`` and for these slices."""
    return (*DEFAULT_RULES, *(replace(_PER_TOKEN, slice=name) for name in slices))


def judge_drift(
    rules: Sequence[Rule], figures: Figures, too_little: Mapping[str, str]
) -> tuple[Verdict, ...]:
    """Judge every rule; a broken rule means drift.

    With a confidence, a rule is broken only if its whole interval is beyond the bound. Rules of
    slices in ``too_little`` (slice → reason) are not judged.
    """
    return tuple(_verdict(rule, figures, too_little) for rule in rules)


def _verdict(rule: Rule, figures: Figures, too_little: Mapping[str, str]) -> Verdict:
    if rule.slice in too_little:
        return _not_judged(rule, too_little[rule.slice])
    figure = figures.get(rule.slice, {}).get(rule.metric)
    if figure is None:
        return _not_judged(rule, "it was not measured: the version's own text is missing")
    if rule.confidence is not None and not len(figure.new_draws):
        return _not_judged(rule, TOO_FEW_DOCUMENTS)
    higher, sign = rule.direction == "higher", 1 if rule.direction == "higher" else -1
    bound = "at least" if higher else "at most"
    message = f"{rule} is {figure.new:.4g}"
    if rule.limit is not None:
        margin = figure.margin(higher, limit=rule.limit, confidence=rule.confidence)
        if margin < 0:
            return Verdict(
                rule, False, f"{message}, expected {bound} {rule.limit:.4g}{_surely(rule, margin)}"
            )
    if rule.tolerance is not None and figure.own is not None:
        worst = figure.own * (1 - sign * rule.tolerance)
        message = (
            f"{message}, {figure.own:.4g} on the version's own text, expected {bound} {worst:.4g}"
        )
        margin = figure.margin(higher, tolerance=rule.tolerance, confidence=rule.confidence)
        if margin < 0:
            return Verdict(rule, False, f"{message}{_surely(rule, margin)}")
    elif rule.tolerance is not None:
        return _not_judged(rule, "it is not known for the version's own text")
    else:
        message = f"{message}, expected {bound} {rule.limit:.4g}"
    return Verdict(rule, True, message)


def _not_judged(rule: Rule, why: str) -> Verdict:
    return Verdict(rule, False, f"{rule} is not judged: {why}", judged=False)


def _surely(rule: Rule, margin: float) -> str:
    if rule.confidence is None:
        return f": missed by {-margin:.3g}"
    return f": missed by {-margin:.3g} or more ({rule.confidence:.0%} sure)"
