"""Rules of drift: when a difference between new text and a version's own is one to act on.

Spelt as rules of promotion are (`registry.gates`), and read the other way round: a promotion must
be sure to be good, an alarm must be sure that something is bad. Measures nothing.
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

_SURE = 0.99  # a watch looks every night: one alarm in forty nights would be ignored
MOST_HELD_OUT = 0.5  # the largest share that a training holds out
_MARGIN = 1.5  # sections are held out by chance: four standard deviations of 150
_SECTION = 4_400  # bytes, where words are short
_ENOUGH_TO_ESTIMATE = 30  # documents that tell how long those of a corpus are
_PER_TOKEN = Rule(BYTES_PER_TOKEN, "higher", tolerance=0.05, confidence=_SURE)

# Of everything together. Samples of one corpus stay far inside; see docs/drift.md for what they and
# other texts measure.
DEFAULT_RULES = (
    _PER_TOKEN,
    Rule(MANY, "lower", tolerance=1.0, confidence=_SURE),
    Rule(EXCESS_DIVERGENCE, "lower", tolerance=None, limit=0.1, confidence=_SURE),
    Rule(NEW_COST, "lower", tolerance=None, limit=0.02, confidence=_SURE),
)

WITH_INTERVALS = tuple(metric for metric in DRIFT_DEFINITIONS if metric != DIVERGENCE)

Figures = Mapping[str, Mapping[str, Figure]]  # by slice and metric


def share_to_watch(corpus: int, documents: int, is_cut: bool) -> float:
    """The share of a corpus to hold out for drift to be judged; above 0.5 there is too little text.

    Args:
        corpus: bytes of all its text.
        documents: how many.
        is_cut: whether the split pattern allows sections of documents, see `sections_of`.
    """
    sections = max(documents, corpus // _SECTION) if is_cut else documents
    needed = max(LEAST_WATCHED_BYTES / max(corpus, 1), LEAST_WATCHED_DOCUMENTS / max(sections, 1))
    return math.ceil(1000 * _MARGIN * needed) / 1000


def missing_text(corpus: int, share: float) -> str:
    """How much text a corpus lacks for drift to be judged, for people.

    Args:
        corpus: bytes of all its text.
        share: see `share_to_watch`.
    """
    least = max(LEAST_WATCHED_BYTES, LEAST_WATCHED_DOCUMENTS * _SECTION) * _MARGIN
    more = max(least, corpus * share) / MOST_HELD_OUT - corpus
    return f"give {math.ceil(more / 1e5) / 10} MB more text, and `--held-out {MOST_HELD_OUT}`"


def too_small_to_judge(sample: tuple[int, int], share: float, advised: float, corpus: int) -> str:
    """What people should know of a version whose own text is too little; empty where it is enough.

    Args:
        sample: documents that a training held out, and their bytes.
        share: of the text, that was to be held out.
        advised: see `share_to_watch`.
        corpus: bytes of all its text.
    """
    documents, held_out = sample
    if documents >= LEAST_WATCHED_DOCUMENTS and held_out >= LEAST_WATCHED_BYTES:
        return ""
    if documents >= _ENOUGH_TO_ESTIMATE:
        advised = share_to_watch(corpus, corpus * documents // held_out, False)
    if advised <= share:  # chance, or documents of very different lengths
        advised = _MARGIN * share
    more = (
        f"hold out more (`--held-out {advised:.3g}`)"
        if advised <= MOST_HELD_OUT
        else missing_text(corpus, advised)
    )
    return (
        f"too little was held out ({documents:,} document{'s' * (documents != 1)}, "
        f"{megabytes(held_out)}) for "
        f"`bpeline drift` to judge by: it takes {LEAST_WATCHED_DOCUMENTS} documents and "
        f'{LEAST_WATCHED_BYTES / 1e6:.1f} MB, less is "not judged"; {more}'
    )


def read_drift_rules(path: Path) -> tuple[Rule, ...]:
    """Rules from a TOML file, as those of promotion; a confidence speaks of a limit too.

    In a project's file they are tables ``[[drift.rule]]``.

    Raises:
        InvalidOption: no such file, or not such rules.
    """
    return read_rules(
        path, metrics=DRIFT_DEFINITIONS, with_intervals=WITH_INTERVALS, table="drift"
    ).rules


def default_rules(slices: Sequence[str]) -> tuple[Rule, ...]:
    """What is judged when nobody says what.

    Args:
        slices: those that the version was evaluated on, beside ``all``.
    """
    return (*DEFAULT_RULES, *(replace(_PER_TOKEN, slice=one) for one in slices))


def judge_drift(
    rules: Sequence[Rule], figures: Figures, too_little: Mapping[str, str]
) -> tuple[Verdict, ...]:
    """What every rule says; one that does not hold says that the text has drifted.

    With a confidence, a rule is broken only when even the better end of the interval is. One that
    could not be judged neither holds nor is broken.

    Args:
        figures: what was measured.
        too_little: slice → why nothing can be said of it; its rules are not judged.
    """
    return tuple(_verdict(rule, figures, too_little) for rule in rules)


def _verdict(rule: Rule, figures: Figures, too_little: Mapping[str, str]) -> Verdict:
    if rule.slice in too_little:
        return _not_judged(rule, too_little[rule.slice])
    figure = figures.get(rule.slice, {}).get(rule.metric)
    if figure is None:
        return _not_judged(rule, "it was not measured, for want of the version's own text")
    if rule.confidence is not None and not len(figure.new_draws):
        return _not_judged(rule, TOO_FEW_DOCUMENTS)
    higher, sign = rule.direction == "higher", 1 if rule.direction == "higher" else -1
    bound = "at least" if higher else "at most"
    said = f"{rule} is {figure.new:.4g}"
    if rule.limit is not None:
        margin = figure.margin(higher, limit=rule.limit, confidence=rule.confidence)
        if margin < 0:
            return Verdict(
                rule, False, f"{said}, {bound} {rule.limit:.4g} is accepted{_surely(rule, margin)}"
            )
    if rule.tolerance is not None and figure.own is not None:
        worst = figure.own * (1 - sign * rule.tolerance)
        said = (
            f"{said}, {figure.own:.4g} of the version's own text, {bound} {worst:.4g} is accepted"
        )
        margin = figure.margin(higher, tolerance=rule.tolerance, confidence=rule.confidence)
        if margin < 0:
            return Verdict(rule, False, f"{said}{_surely(rule, margin)}")
    elif rule.tolerance is not None:
        return _not_judged(rule, "it is not known of the version's own text")
    else:
        said = f"{said}, {bound} {rule.limit:.4g} is accepted"
    return Verdict(rule, True, said)


def _not_judged(rule: Rule, why: str) -> Verdict:
    return Verdict(rule, False, f"{rule} is not judged: {why}", judged=False)


def _surely(rule: Rule, margin: float) -> str:
    if rule.confidence is None:
        return f": {-margin:.3g} beyond"
    return f": beyond by {-margin:.3g} or more ({rule.confidence:.0%} sure)"
