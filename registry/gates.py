"""Gates: the rules a version must keep to before an alias moves to it. Data, judged by figures.

Knows metrics by their names; measures nothing and moves nothing.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from tokenizer_core.errors import InvalidOption, PromotionRefused

LARGEST_FILE = 1 << 20  # bytes
Direction = Literal["higher", "lower"]

_ACCEPTED = (
    'accepted are tables [[rule]] with metric = "compression/bytes_per_token", direction = '
    '"higher" or "lower", tolerance = 0.01 (one per cent worse is still good), and limit = 3.5 '
    "(whatever the other version has)"
)


@dataclass(frozen=True, slots=True)
class Rule:
    """One condition on one metric.

    Attributes:
        metric: its name, as `bpeline show` prints it.
        direction: which way is better.
        tolerance: how much worse than the present version is still good, as a share of its value;
            None does not compare.
        limit: the worst value that is good whatever the present version has; None for no limit.
    """

    metric: str
    direction: Direction
    tolerance: float | None = 0.0
    limit: float | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a rule says of a version.

    Attributes:
        rule: the rule.
        value: the version's; None when it was not measured.
        worst: the worst value that would have been good; None when nothing bounds it.
        holds: whether the rule is kept.
    """

    rule: Rule
    value: float | None
    worst: float | None
    holds: bool

    def __str__(self) -> str:
        name = self.rule.metric
        if self.value is None:
            return f"{name} was not measured"
        if self.worst is None:
            return f"{name} is {self.value:.6g}; there is nothing to compare it with"
        bound = "at least" if self.rule.direction == "higher" else "at most"
        said = f"{name} is {self.value:.6g}, {bound} {self.worst:.6g} is accepted"
        return said if self.holds else f"{said}: {abs(self.value - self.worst):.3g} short"


def read_rules(path: Path) -> tuple[Rule, ...]:
    """Read rules from a TOML file.

    Raises:
        InvalidOption: no such file, not TOML, or a rule that says something else than a rule can.
    """
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise ValueError(f"it is larger than {LARGEST_FILE} bytes")
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # TOML's and UTF-8's errors are ValueErrors
        raise _unusable(path, str(error)) from error
    tables = content.pop("rule", None)
    if content or not isinstance(tables, list) or not tables:
        raise _unusable(path, f"it has {', '.join(content) or 'no [[rule]]'}")
    return tuple(_rule(table, path) for table in tables)


def judge(
    rules: Sequence[Rule], version: Mapping[str, float], present: Mapping[str, float] | None
) -> tuple[Verdict, ...]:
    """What every rule says of a version's metrics.

    Args:
        version: the metrics of the version that asks to be promoted.
        present: those of the version that the alias points to; None when there is none yet, and
            then only limits bind.
    """
    return tuple(_verdict(rule, version, present or {}) for rule in rules)


def require(verdicts: Sequence[Verdict], what: str) -> None:
    """Refuse a version that breaks a rule.

    Args:
        what: what would happen (``news@champion cannot move to news/4``).

    Raises:
        PromotionRefused: names every rule that is broken, and by how much.
    """
    broken = [str(verdict) for verdict in verdicts if not verdict.holds]
    if broken:
        raise PromotionRefused(
            f"{what}: {'; '.join(broken)}",
            f"all {len(verdicts)} rules of promotion must hold",
            "compare the versions with `bpeline compare`, or change the rules",
        )


def _verdict(rule: Rule, version: Mapping[str, float], present: Mapping[str, float]) -> Verdict:
    value, before = version.get(rule.metric), present.get(rule.metric)
    sign = 1 if rule.direction == "higher" else -1
    bounds = [] if rule.limit is None else [rule.limit]
    if rule.tolerance is not None and before is not None:
        bounds.append(before - sign * rule.tolerance * abs(before))
    worst = max(bounds, key=lambda bound: sign * bound) if bounds else None
    if value is None or math.isnan(value):
        return Verdict(rule, None, worst, False)
    return Verdict(rule, value, worst, worst is None or sign * value >= sign * worst)


def _rule(table: Any, path: Path) -> Rule:
    if not isinstance(table, dict) or not {"metric", "direction"} <= table.keys():
        raise _unusable(path, "a rule lacks its metric or its direction")
    unknown = table.keys() - {"metric", "direction", "tolerance", "limit"}
    if unknown:
        raise _unusable(path, f"a rule has {', '.join(sorted(unknown))}")
    if not isinstance(table["metric"], str) or table["direction"] not in get_args(Direction):
        raise _unusable(path, f"the direction of {table['metric']} is {table['direction']!r}")
    for key in ("tolerance", "limit"):
        number = table.get(key, 0.0)
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            raise _unusable(path, f"the {key} of {table['metric']} is {number!r}")
        if not math.isfinite(number) or (key == "tolerance" and number < 0):
            raise _unusable(path, f"the {key} of {table['metric']} is {number}")
    # A rule with only a limit does not look at the version before.
    tolerance = table.get("tolerance", None if "limit" in table else 0.0)
    return Rule(table["metric"], table["direction"], tolerance, table.get("limit"))


def _unusable(path: Path, reason: str) -> InvalidOption:
    return InvalidOption(f"the rules in {path} cannot be used: {reason}", _ACCEPTED, f"mend {path}")
