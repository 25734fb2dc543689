"""Rules that a version must satisfy before an alias moves to it.

A rule compares a metric of one slice with that of the current version. For metrics that follow from
the number of tokens, the confidence interval of the difference decides (a non-inferiority test);
for others the difference itself.
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

ABOVE_RULES = ("gain", "certified")  # keys above the tables of a rules file
GAIN = 0.01  # share of tokens saved; less does not justify encoding all data again
_NEW = "new text of its training"
_MOST_DOCUMENTS = 1_000_000  # a difference that needs more documents counts as none
_COST_WITH_INTERVAL = (FLOPS_PER_BYTE,)  # for rules with a model_shape
Direction = Literal["higher", "lower"]

_ACCEPTED = (
    'expected tables [[rule]] with metric = "compression/bytes_per_token", direction = "higher" or '
    '"lower"; optional: slice = "german", tolerance = 0.01 (1 % worse is accepted), limit = 3.5 '
    "(absolute), confidence = "
    + ", ".join(map(str, CONFIDENCES))
    + f'; for {", ".join(SERVING)} also model_shape = "llama-3.1-8b" or a file next to the rules; '
    "optional above the tables: gain = 0.01 (share of tokens, below 1) and certified = true"
)


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition on one metric.

    Attributes:
        metric: its name, as `bpeline show` prints it.
        direction: which values are better.
        tolerance: accepted loss against the current version, as a share of its value; negative
            requires an improvement; None does not compare.
        limit: worst accepted value; None for no limit.
        slice: part of the texts; ``all`` for everything.
        confidence: of the interval; None means 0.95. For metrics that follow from tokens.
        model_shape: the model of a cost metric.
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
        """The power in `POWER_OF_TOKENS`; None if tokens do not determine the metric."""
        if self.model_shape is not None and self.metric == self.model_shape.metric(FLOPS_PER_BYTE):
            return 1
        return POWER_OF_TOKENS.get(self.metric)

    def __str__(self) -> str:
        return self.metric if self.slice == ALL else f"{self.metric} of {self.slice}"


@dataclass(frozen=True, slots=True)
class Rules:
    """The conditions for moving an alias.

    Attributes:
        rules: all of them must hold.
        gain: least share of tokens that the new version saves; 0 requires no gain.
        certified: whether libraries must have checked the exports.
    """

    rules: tuple[Rule, ...]
    gain: float = GAIN
    certified: bool = False

    @property
    def digest(self) -> str:
        return digest_of(asdict(self))


@dataclass(frozen=True, slots=True)
class Evidence:
    """Figures of a version and of the current one, on the same texts.

    Attributes:
        version, present: slice → metric → value; without a current version only limits apply.
        changes: slice → change of the number of tokens from the current version.
        measured_on: the texts, such as ``evaluation set 3f2a91c0 (1,992 documents, …)``.
        missing: why nothing was measured on texts, in lower case; else empty.
        earlier: whether this is a replaced provisional set; of these only broken rules count.
        new: slice → change on new text of the training that is not in the set.
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
        """The change on new text, as text; empty if there is none."""
        return _told(_NEW, ALL, self.new[ALL]) if ALL in self.new else ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a rule for a version.

    Attributes:
        said: the reason, with the distance to the bound.
        judged: whether the rule could be judged; if not, it does not hold.
        value, before: of the version and of the current one; None if not measured.
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
    """Read the tables ``[[rule]]`` of a TOML file of rules or of a project file.

    Rules for promotion may have ``gain = 0.01`` and ``certified = true`` above them.

    Args:
        metrics: allowed metrics; None allows any, and a rule on one that was not measured is not
            judged.
        with_intervals: metrics that may have a confidence.
        table: the table of a project file with these rules, if they are not for promotion.
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
        raise _unusable(path, f"certified is {certified!r}, expected true")
    rules = tuple(_rule(table, path, with_intervals) for table in tables)
    for rule in rules:
        if metrics is not None and rule.metric not in metrics:
            raise _unusable(path, f"there is no {rule.metric}; metrics are {', '.join(metrics)}")
    return Rules(rules, gain, certified is True)


def every_rule(rules: Sequence[object]) -> str:
    """Return ``the rule``, or ``all 3 rules``."""
    return "the rule" if len(rules) == 1 else f"all {len(rules)} rules"


def every_rule_holds(rules: Sequence[object]) -> str:
    """Return ``the rule holds``, or ``all 3 rules hold``."""
    return f"{every_rule(rules)} {'holds' if len(rules) == 1 else 'hold'}"


def judge(rules: Sequence[Rule], evidence: Evidence, *others: Evidence) -> tuple[Verdict, ...]:
    """Judge every rule on all texts that have its slice; the first failure counts."""
    verdicts = []
    for rule in rules:
        texts = [evidence, *(entry for entry in others if rule.slice in entry.version)]
        judged = [(entry, _with_figures(_verdict(rule, entry), entry)) for entry in texts]
        counted = [verdict for entry, verdict in judged if verdict.judged or not entry.earlier]
        failed = [entry for entry in counted if not entry.holds]
        broken = [entry for entry in failed if entry.judged]
        verdicts.append((broken or failed or counted)[0])
    return tuple(verdicts)


def require(verdicts: Sequence[Verdict], what: str, new_text: str = "") -> None:
    """Raise PromotionRefused or PromotionNotJudged unless every rule holds.

    Args:
        what: the move, such as ``news@champion cannot move to news/4``.
        new_text: the change on new text, added to the message.
    """
    broken = [str(verdict) for verdict in verdicts if not verdict.holds]
    if broken:
        judged = any(verdict.judged and not verdict.holds for verdict in verdicts)
        raise (PromotionRefused if judged else PromotionNotJudged)(
            f"{what}: {'; '.join([*broken, *filter(None, [new_text])])}",
            f"expected that {every_rule_holds(verdicts)}",
            "compare the versions with `bpeline compare`, or change the rules",
        )


def require_gain(gain: float, evidence: Evidence, what: str) -> str:
    """Require enough fewer tokens on a text or slice; returns the gain as text.

    Args:
        gain: least share of tokens.
        what: as for `require`.

    Raises:
        NothingGained: no text saves that many tokens beyond chance.
        PromotionNotJudged: no text has enough documents.
    """
    texts = [(evidence.measured_on, *entry) for entry in evidence.changes.items()]
    texts += [(_NEW, *entry) for entry in evidence.new.items()]
    measured = [entry for entry in texts if CONFIDENCE in entry[2].intervals]
    needed = (
        f"expected at least {gain:.2%} fewer tokens, beyond chance, on the evaluation set, a slice "
        "of it or new text"
    )
    if not measured:
        why = evidence.missing or TOO_FEW_DOCUMENTS
        raise PromotionNotJudged(
            f"{what}: not judged: its gain: {why}", needed, "write `gain = 0` above the rules"
        )
    gained = [
        entry
        for entry in measured
        if entry[2].value <= -gain and entry[2].intervals[CONFIDENCE][1] < 0
    ]
    message = _told(*min(gained or measured, key=lambda entry: entry[2].value))
    if not gained:
        both = [
            message,
            *(_told(*entry) for entry in texts if entry[1] == ALL),
            evidence.on_new_text,
        ]
        message = "; ".join(dict.fromkeys(filter(None, both)))
        raise NothingGained(
            f"{what}: it gains too little, {message}; expected {gain:.2%} fewer, beyond chance",
            needed,
            "compare the versions with `bpeline compare`, or write `gain = 0` above the rules",
        )
    return message


def _told(measured_on: str, part: str, change: Change) -> str:
    ends = change.intervals.get(CONFIDENCE)
    chance = TOO_FEW_DOCUMENTS if ends is None else f"{ends[0]:+.2%} … {ends[1]:+.2%}"
    return f"{change.value:+.2%} tokens ({chance}) of {part} on {measured_on}"


def _with_figures(verdict: Verdict, evidence: Evidence) -> Verdict:
    rule = verdict.rule
    figures = (evidence.version, evidence.present or {})
    value, before = (slices.get(rule.slice, {}).get(rule.metric) for slices in figures)
    return replace(verdict, value=value, before=before)


def _verdict(rule: Rule, evidence: Evidence) -> Verdict:
    value = evidence.version.get(rule.slice, {}).get(rule.metric)
    if value is None or math.isnan(value):
        if evidence.missing and evidence.present is None and rule.limit is None:
            return Verdict(rule, True, f"{rule}: nothing to compare with")
        return _not_judged(rule, "was not measured", evidence)
    sign = 1 if rule.direction == "higher" else -1
    texts = f" on {evidence.measured_on}" if depends_on_text(rule.metric) else ""
    message = f"{rule} is {value:.6g}{texts}"
    bound = "at least" if sign > 0 else "at most"
    if rule.limit is not None and sign * value < sign * rule.limit:
        distance = abs(value - rule.limit)
        return Verdict(
            rule, False, f"{message}, expected {bound} {rule.limit:.6g}: missed by {distance:.3g}"
        )
    if rule.tolerance is None:
        return Verdict(rule, True, f"{message}, expected {bound} {rule.limit:.6g}")
    if evidence.present is None:
        return Verdict(rule, True, f"{message}; nothing to compare with: only limits apply")
    if rule.power_of_tokens is not None:
        return _by_interval(rule, rule.tolerance, evidence, sign)
    before = evidence.present.get(rule.slice, {}).get(rule.metric)
    if before is None:
        return _not_judged(rule, "was not measured for the current version", evidence)
    worst = before - sign * rule.tolerance * abs(before)
    message = f"{message}, expected {bound} {worst:.6g}"
    if sign * value >= sign * worst:
        return Verdict(rule, True, message)
    return Verdict(rule, False, f"{message}: missed by {abs(value - worst):.3g}")


def _not_judged(rule: Rule, why: str, evidence: Evidence) -> Verdict:
    known = f": {evidence.missing}" if evidence.missing and depends_on_text(rule.metric) else ""
    return Verdict(rule, False, f"not judged: {rule} {why}{known}", judged=False)


def _by_interval(rule: Rule, tolerance: float, evidence: Evidence, sign: int) -> Verdict:
    change, confidence = evidence.changes.get(rule.slice), rule.confidence or CONFIDENCE
    if change is None:
        return _not_judged(rule, "was not measured for the current version", evidence)
    if confidence not in change.intervals:
        return _not_judged(rule, f"on {evidence.measured_on}: {TOO_FEW_DOCUMENTS}", evidence)
    token_cost, power = _cost_of_a_token(rule, evidence), rule.power_of_tokens or 1
    low, high = sorted(token_cost * (1 + end) ** power - 1 for end in change.intervals[confidence])
    worse, better = (low, high) if sign > 0 else (high, low)
    accepted = -sign * tolerance or 0.0  # never −0 %
    message = (
        f"{rule} changes by {low:+.2%} … {high:+.2%} ({confidence:.0%} interval) on "
        f"{evidence.measured_on}, expected {'at least' if sign > 0 else 'at most'} {accepted:+.2%}"
    )
    if sign * worse >= sign * accepted:
        return Verdict(rule, True, message)
    if sign * better < sign * accepted:
        return Verdict(
            rule, False, f"{message}: missed by {abs(better - accepted):.2%}, beyond chance"
        )
    message = f"not judged: {message}: {_enough(change.documents, low, high, accepted)}"
    return Verdict(rule, False, message, judged=False)


def _enough(documents: int, low: float, high: float, accepted: float) -> str:
    """How many documents would decide: the interval shrinks with their square root."""
    half, distance = (high - low) / 2, abs((low + high) / 2 - accepted)
    if half**2 * documents > _MOST_DOCUMENTS * distance**2:
        return f"equal to that within {half:.2%}, more documents would not decide"
    needed = math.ceil(documents * (half / distance) ** 2)
    return f"{documents:,} documents are too few, about {needed:,} would decide"


def _cost_of_a_token(rule: Rule, evidence: Evidence) -> float:
    """How the cost per token changes, for metrics that include it."""
    if rule.model_shape is None:
        return 1.0
    name = rule.model_shape.metric(FLOPS_PER_TOKEN)
    after, before = (
        figures[rule.slice][name] for figures in (evidence.version, evidence.present or {})
    )
    return after / before


def _rule(table: Any, path: Path, with_intervals: Collection[str]) -> Rule:
    if not isinstance(table, dict):
        raise _unusable(path, f"a rule is {table!r}")
    if unknown := table.keys() - set(Rule.__slots__):
        keys = ", ".join(f"{name}{likely(name, Rule.__slots__)}" for name in sorted(unknown))
        misplaced = [name for name in ABOVE_RULES if name in unknown]
        above = f"; {' and '.join(misplaced)} must be above the first table" if misplaced else ""
        raise _unusable(path, f"a rule has {keys}{above}")
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
        metrics = ", ".join((*with_intervals, *_COST_WITH_INTERVAL))
        raise _unusable(path, f"{metric} has no interval; expected one of {metrics}")
    # A rule with only a limit does not compare with the current version.
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
    """The model of a rule on a cost metric; None for other rules."""
    typed = table.get("model_shape")
    if metric not in SERVING:
        if typed is not None:
            raise _unusable(path, f"{metric} does not depend on a model_shape")
        return None
    if typed is None:
        raise _unusable(path, f"a rule on {metric} lacks its model_shape")
    if not isinstance(typed, str):
        raise _unusable(path, f"the model_shape of {metric} is {typed!r}")
    return model_shape(typed, path.parent)


def _unusable(path: Path, reason: str) -> InvalidOption:
    return InvalidOption(
        f"the rules in {path} cannot be used: {reason}", _ACCEPTED, f"correct {path}"
    )
