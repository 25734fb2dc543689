"""Gates: the rules a version must keep to before an alias moves to it. Data, judged by figures.

Knows metrics by their names; measures nothing and moves nothing. A rule compares a metric of one
slice with that of the version in place. Where the metric follows from the number of tokens, the
whole interval of the difference decides (a test of non-inferiority), else the difference itself.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from bpeline.registry.environment import PROJECT_TABLE, read_settings
from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.errors import (
    InvalidOption,
    NothingGained,
    PromotionNotJudged,
    PromotionRefused,
    likely,
)
from bpeline.tokenizer_core.evaluation import (
    ALL,
    CONFIDENCE,
    CONFIDENCES,
    FLOPS_PER_BYTE,
    FLOPS_PER_TOKEN,
    POWER_OF_TOKENS,
    SERVING,
    TOO_FEW_DOCUMENTS,
    NamedShape,
    depends_on_text,
    model_shape,
)

if TYPE_CHECKING:
    from bpeline.tokenizer_core.evaluation import Change

ABOVE_RULES = ("gain", "certified")  # what may stand above the tables of a file of rules
GAIN = 0.01  # share of tokens; a smaller one does not pay for encoding all data again
_NEW = "new text of its training"
_MOST_DOCUMENTS = 1_000_000  # a difference that takes more is called none
_COST_WITH_INTERVAL = (FLOPS_PER_BYTE,)  # of a rule that names a model
Direction = Literal["higher", "lower"]

_ACCEPTED = (
    'accepted are tables [[rule]] with metric = "compression/bytes_per_token", direction = '
    '"higher" or "lower", and perhaps slice = "german", tolerance = 0.01 (one per cent worse is '
    "still good), limit = 3.5 (whatever the other version has), confidence = "
    + ", ".join(map(str, CONFIDENCES))
    + f'; of {", ".join(SERVING)} also model_shape = "llama-3.1-8b", or a file beside the rules; '
    "above them perhaps gain = 0.01 (of tokens; below 1) and certified = true"
)


@dataclass(frozen=True, slots=True)
class Rule:
    """One condition on one metric.

    Attributes:
        metric: its name, as `bpeline show` prints it.
        direction: which way is better.
        tolerance: how much worse than the present version is still good, as a share of its value;
            below 0, how much better it must be; None does not compare.
        limit: the worst value that is good whatever the present version has; None for no limit.
        slice: the part of the texts it is measured on; ``all`` for everything.
        confidence: of the interval of the difference, 0.95 where it is None. For metrics that
            follow from the number of tokens (`POWER_OF_TOKENS`, FLOPs per byte).
        model_shape: the model that a figure of cost is of, which its name says, too.
    """

    metric: str
    direction: Direction
    tolerance: float | None = 0.0
    limit: float | None = None
    slice: str = ALL
    confidence: float | None = None
    model_shape: NamedShape | None = None

    @property
    def power_of_tokens(self) -> int | None:
        """How the metric follows from the number of tokens, see `POWER_OF_TOKENS`; None: not."""
        if self.model_shape is not None and self.metric == self.model_shape.metric(FLOPS_PER_BYTE):
            return 1
        return POWER_OF_TOKENS.get(self.metric)

    def __str__(self) -> str:
        return self.metric if self.slice == ALL else f"{self.metric} of {self.slice}"


@dataclass(frozen=True, slots=True)
class Rules:
    """What must hold before an alias moves from one version to another.

    Attributes:
        rules: all of them must hold.
        gain: the least share of tokens that the new version saves; 0 asks for no gain.
        certified: whether its exports must have been read by the libraries they are made for.
    """

    rules: tuple[Rule, ...]
    gain: float = GAIN
    certified: bool = False

    @property
    def digest(self) -> str:
        """Of everything that they ask for."""
        return digest_of(asdict(self))


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of a version and of the one it would replace, measured on the same texts.

    Attributes:
        version: slice → metric → value.
        present: the same of the version in place, on the same documents; None when there is none,
            and then only limits bind.
        changes: slice → how its tokens differ from those of the version in place.
        measured_on: what these are, for people: ``evaluation set 3f2a91c0 (1,992 documents, …)``.
        missing: why nothing was measured on texts, when that is so; begins in lower case.
        earlier: whether the texts are those of a provisional set that was exchanged; of these only
            a broken rule counts.
        new: slice → the change on text that the training brought and the set does not hold.
    """

    version: Mapping[str, Mapping[str, float]]
    present: Mapping[str, Mapping[str, float]] | None = None
    changes: Mapping[str, Change] = field(default_factory=dict)
    measured_on: str = ""
    missing: str = ""
    earlier: bool = False
    new: Mapping[str, Change] = field(default_factory=dict)

    @property
    def on_new_text(self) -> str:
        """How many tokens more or fewer that text takes; empty where there is none."""
        return _told(_NEW, ALL, self.new[ALL]) if ALL in self.new else ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a rule says of a version.

    Attributes:
        rule: the rule.
        holds: whether it is kept.
        said: why, with how much is missing.
        judged: whether it could be told; a rule that could not be judged does not hold.
        value, before: what was compared, of the version and of the one in place; None where it was
            not measured.
    """

    rule: Rule
    holds: bool
    said: str
    judged: bool = True
    value: float | None = None
    before: float | None = None

    def __str__(self) -> str:
        return self.said


def read_rules(
    path: Path,
    *,
    metrics: Collection[str] | None = None,
    with_intervals: Collection[str] = POWER_OF_TOKENS,
    table: str = "",
) -> Rules:
    """Read rules from a TOML file: tables ``[[rule]]``, alone in it or in that of a project.

    Above those of promotion stand perhaps ``gain = 0.01`` and ``certified = true``.

    Args:
        metrics: the metrics there are; None accepts any, and a rule on one that was not measured
            is not judged.
        with_intervals: those that may have a confidence.
        table: the one of a project's file that holds them, where they are not of promotion.

    Raises:
        InvalidOption: no such file, not TOML, or a rule that says something else than a rule can.
    """
    above = () if table else ABOVE_RULES
    content = read_settings(path, partial(_unusable, path), ("rule", *above))
    is_within = bool(table) and PROJECT_TABLE in content
    within = content.get(table, {}) if is_within else content
    tables = within.get("rule") if isinstance(within, dict) else None
    if not isinstance(tables, list) or not tables:
        raise _unusable(path, f"it has no [[{f'{table}.rule' if is_within else 'rule'}]]")
    gain, certified = GAIN, None
    if not table:
        gain, certified = content.get("gain", GAIN), content.get("certified")
    if isinstance(gain, bool) or not isinstance(gain, (int, float)) or not 0 <= gain < 1:
        raise _unusable(path, f"the gain is {gain!r}")
    if certified is not None and certified is not True:
        raise _unusable(path, f"certified is {certified!r}, and may only be true")
    rules = tuple(_rule(table, path, with_intervals) for table in tables)
    for rule in rules:
        if metrics is not None and rule.metric not in metrics:
            raise _unusable(path, f"there is no {rule.metric}; metrics are {', '.join(metrics)}")
    return Rules(rules, gain, certified is True)


def every_rule(rules: Sequence[object]) -> str:
    """``the rule``, or ``all 3 rules``."""
    return "the rule" if len(rules) == 1 else f"all {len(rules)} rules"


def every_rule_holds(rules: Sequence[object]) -> str:
    """That they do, of rules or of what they said."""
    return f"{every_rule(rules)} {'holds' if len(rules) == 1 else 'hold'}"


def judge(rules: Sequence[Rule], evidence: Evidence, *others: Evidence) -> tuple[Verdict, ...]:
    """What every rule says; where it must hold on several texts, the first answer that is not good.

    Args:
        evidence: on the texts that count first.
        others: on more; a rule is asked only where they have its slice.
    """
    verdicts = []
    for rule in rules:
        asked = [evidence, *(one for one in others if rule.slice in one.version)]
        found = [(one, _with_figures(_verdict(rule, one), one)) for one in asked]
        said = [verdict for one, verdict in found if verdict.judged or not one.earlier]
        not_good = [one for one in said if not one.holds]
        broken = [one for one in not_good if one.judged]
        verdicts.append((broken or not_good or said)[0])
    return tuple(verdicts)


def require(verdicts: Sequence[Verdict], what: str, new_text: str = "") -> None:
    """Refuse a version that breaks a rule.

    Args:
        what: what would happen (``news@champion cannot move to news/4``).
        new_text: the figure on text that is not in the evaluation set, to stand beside them.

    Raises:
        PromotionRefused: names every rule that is broken, and by how much.
        PromotionNotJudged: none is broken, but these could not be judged.
    """
    broken = [str(verdict) for verdict in verdicts if not verdict.holds]
    if broken:
        judged = any(verdict.judged and not verdict.holds for verdict in verdicts)
        raise (PromotionRefused if judged else PromotionNotJudged)(
            f"{what}: {'; '.join([*broken, *filter(None, [new_text])])}",
            f"for a promotion {every_rule(verdicts)} must hold",
            "compare the versions with `bpeline compare`, or change the rules",
        )


def require_gain(gain: float, evidence: Evidence, what: str) -> str:
    """Refuse a version that saves too few tokens on every text and slice.

    Args:
        gain: the least share of tokens.
        evidence: of the evaluation set.
        what: what would happen (``news@champion cannot move to news/4``).

    Returns:
        The largest gain, for people.

    Raises:
        NothingGained: on no text are so many tokens saved, beyond chance.
        PromotionNotJudged: no text has enough documents to tell.
    """
    texts = [(evidence.measured_on, *one) for one in evidence.changes.items()]
    texts += [(_NEW, *one) for one in evidence.new.items()]
    judged = [one for one in texts if CONFIDENCE in one[2].intervals]
    needed = (
        f"at least {gain:.2%} fewer tokens, beyond chance, on the evaluation set, a slice of it or "
        "new text"
    )
    if not judged:
        why = evidence.missing or TOO_FEW_DOCUMENTS
        raise PromotionNotJudged(
            f"{what}: not judged: what it gains: {why}", needed, "write `gain = 0` above the rules"
        )
    gained = [
        one for one in judged if one[2].value <= -gain and one[2].intervals[CONFIDENCE][1] < 0
    ]
    said = _told(*min(gained or judged, key=lambda one: one[2].value))
    if not gained:
        both = [said, *(_told(*one) for one in texts if one[1] == ALL), evidence.on_new_text]
        said = "; ".join(dict.fromkeys(filter(None, both)))
        raise NothingGained(
            f"{what}: it gains too little, {said}; {gain:.2%} fewer are expected, beyond chance",
            needed,
            "compare the versions with `bpeline compare`, or write `gain = 0` above the rules",
        )
    return said


def _told(measured_on: str, part: str, change: Change) -> str:
    """How many tokens more or fewer a part of some texts takes."""
    ends = change.intervals.get(CONFIDENCE)
    chance = TOO_FEW_DOCUMENTS if ends is None else f"{ends[0]:+.2%} … {ends[1]:+.2%}"
    return f"{change.value:+.2%} tokens ({chance}) of {part} on {measured_on}"


def _with_figures(verdict: Verdict, evidence: Evidence) -> Verdict:
    rule = verdict.rule
    figures = (evidence.version, evidence.present or {})
    value, before = (one.get(rule.slice, {}).get(rule.metric) for one in figures)
    return replace(verdict, value=value, before=before)


def _verdict(rule: Rule, evidence: Evidence) -> Verdict:
    value = evidence.version.get(rule.slice, {}).get(rule.metric)
    if value is None or math.isnan(value):
        if evidence.missing and evidence.present is None and rule.limit is None:
            return Verdict(rule, True, f"{rule}: there is nothing to compare it with")
        return _not_judged(rule, "was not measured", evidence)
    sign = 1 if rule.direction == "higher" else -1
    on = f" on {evidence.measured_on}" if depends_on_text(rule.metric) else ""
    said = f"{rule} is {value:.6g}{on}"
    bound = "at least" if sign > 0 else "at most"
    if rule.limit is not None and sign * value < sign * rule.limit:
        short = abs(value - rule.limit)
        return Verdict(
            rule, False, f"{said}, {bound} {rule.limit:.6g} is accepted: {short:.3g} short"
        )
    if rule.tolerance is None:
        return Verdict(rule, True, f"{said}, {bound} {rule.limit:.6g} is accepted")
    if evidence.present is None:
        return Verdict(rule, True, f"{said}; there is nothing to compare it with: only limits bind")
    if rule.power_of_tokens is not None:
        return _by_interval(rule, rule.tolerance, evidence, sign)
    before = evidence.present.get(rule.slice, {}).get(rule.metric)
    if before is None:
        return _not_judged(rule, "was not measured of the version in place", evidence)
    worst = before - sign * rule.tolerance * abs(before)
    said = f"{said}, {bound} {worst:.6g} is accepted"
    if sign * value >= sign * worst:
        return Verdict(rule, True, said)
    return Verdict(rule, False, f"{said}: {abs(value - worst):.3g} short")


def _not_judged(rule: Rule, why: str, evidence: Evidence) -> Verdict:
    known = f": {evidence.missing}" if evidence.missing and depends_on_text(rule.metric) else ""
    return Verdict(rule, False, f"not judged: {rule} {why}{known}", judged=False)


def _by_interval(rule: Rule, tolerance: float, evidence: Evidence, sign: int) -> Verdict:
    """Compare the interval of a change with the change that is accepted: it holds, or is broken."""
    change, confidence = evidence.changes.get(rule.slice), rule.confidence or CONFIDENCE
    if change is None:
        return _not_judged(rule, "was not measured of the version in place", evidence)
    if confidence not in change.intervals:
        return _not_judged(rule, f"on {evidence.measured_on}: {TOO_FEW_DOCUMENTS}", evidence)
    each, power = _cost_of_a_token(rule, evidence), rule.power_of_tokens or 1
    low, high = sorted(each * (1 + end) ** power - 1 for end in change.intervals[confidence])
    worse, better = (low, high) if sign > 0 else (high, low)
    accepted = -sign * tolerance or 0.0  # never −0 %
    said = (
        f"{rule} changes by {low:+.2%} … {high:+.2%} ({confidence:.0%} interval) on "
        f"{evidence.measured_on}, {'at least' if sign > 0 else 'at most'} {accepted:+.2%} "
        "is accepted"
    )
    if sign * worse >= sign * accepted:
        return Verdict(rule, True, said)
    if sign * better < sign * accepted:
        return Verdict(rule, False, f"{said}: {abs(better - accepted):.2%} short, beyond chance")
    said = f"not judged: {said}: {_enough(change.documents, low, high, accepted)}"
    return Verdict(rule, False, said, judged=False)


def _enough(documents: int, low: float, high: float, accepted: float) -> str:
    """How many documents would decide; the width of an interval falls with their square root."""
    half, distance = (high - low) / 2, abs((low + high) / 2 - accepted)
    if half**2 * documents > _MOST_DOCUMENTS * distance**2:
        return f"equal to that within {half:.2%}, no number of documents decides"
    needed = math.ceil(documents * (half / distance) ** 2)
    return f"{documents:,} documents do not decide, about {needed:,} would"


def _cost_of_a_token(rule: Rule, evidence: Evidence) -> float:
    """How many times as much a token costs as before, of a metric in which that counts, too."""
    if rule.model_shape is None:
        return 1.0
    name = rule.model_shape.metric(FLOPS_PER_TOKEN)
    after, before = (one[rule.slice][name] for one in (evidence.version, evidence.present or {}))
    return after / before


def _rule(table: Any, path: Path, with_intervals: Collection[str]) -> Rule:
    if not isinstance(table, dict):
        raise _unusable(path, f"a rule is {table!r}")
    if unknown := table.keys() - set(Rule.__slots__):
        said = ", ".join(f"{name}{likely(name, Rule.__slots__)}" for name in sorted(unknown))
        misplaced = [name for name in ABOVE_RULES if name in unknown]
        above = f"; {' and '.join(misplaced)} must be above the first table" if misplaced else ""
        raise _unusable(path, f"a rule has {said}{above}")
    if not {"metric", "direction"} <= table.keys():
        raise _unusable(path, "a rule lacks its metric or its direction")
    metric = table["metric"]
    if not isinstance(metric, str) or table["direction"] not in get_args(Direction):
        raise _unusable(path, f"the direction of {metric} is {table['direction']!r}")
    if not isinstance(table.get("slice", ALL), str):
        raise _unusable(path, f"the slice of {metric} is {table['slice']!r}")
    for key in ("tolerance", "limit", "confidence"):
        number = table.get(key, 0.0)
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            raise _unusable(path, f"the {key} of {metric} is {number!r}")
        if not math.isfinite(number):
            raise _unusable(path, f"the {key} of {metric} is {number}")
    model = _model_of(table, metric, path)
    confidence = table.get("confidence")
    if confidence is not None and confidence not in CONFIDENCES:
        raise _unusable(path, f"the confidence of {metric} is {confidence}")
    if confidence is not None and metric not in (*with_intervals, *_COST_WITH_INTERVAL):
        known = ", ".join((*with_intervals, *_COST_WITH_INTERVAL))
        raise _unusable(path, f"{metric} has no interval; those with one are {known}")
    # A rule with only a limit does not look at the version before.
    follows = metric in (*POWER_OF_TOKENS, *_COST_WITH_INTERVAL)
    only_limit = "limit" in table and (confidence is None or not follows)
    tolerance = table.get("tolerance", None if only_limit else 0.0)
    return Rule(
        metric if model is None else model.metric(metric),
        table["direction"],
        tolerance,
        table.get("limit"),
        table.get("slice", ALL),
        confidence,
        model,
    )


def _model_of(table: dict[str, Any], metric: str, path: Path) -> NamedShape | None:
    """The model that a rule on a figure of cost names; of other rules none.

    Raises:
        InvalidOption: such a rule names none, another rule names one, or there is no such model.
    """
    typed = table.get("model_shape")
    if metric not in SERVING:
        if typed is not None:
            raise _unusable(path, f"{metric} is of no model, and its rule has a model_shape")
        return None
    if typed is None:
        raise _unusable(path, f"a rule on {metric} does not say of which model: its model_shape")
    if not isinstance(typed, str):
        raise _unusable(path, f"the model_shape of {metric} is {typed!r}")
    return model_shape(typed, path.parent)


def _unusable(path: Path, reason: str) -> InvalidOption:
    return InvalidOption(f"the rules in {path} cannot be used: {reason}", _ACCEPTED, f"mend {path}")
