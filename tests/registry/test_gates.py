"""Rules of promotion: what they accept, what they refuse and how they say it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bpeline.registry import alias_history, promote, publish_version, rollback
from bpeline.registry.evaluation.gates import (
    Evidence,
    Rule,
    Rules,
    every_rule_holds,
    judge,
    read_rules,
    require,
    require_gain,
)
from bpeline.registry.opening import Registry
from bpeline.registry.records import Refusal, refusals_in
from bpeline.registry.records.publication import Publication
from bpeline.tokenizer_core.errors import (
    InvalidOption,
    NothingGained,
    PromotionNotJudged,
    PromotionRefused,
)
from bpeline.tokenizer_core.evaluation import (
    MODEL_SHAPES,
    TOO_FEW_DOCUMENTS,
    Change,
    NamedShape,
    model_shape,
)
from bpeline.tokenizer_core.evaluation.metric_names import ALL

pytestmark = pytest.mark.fake_mlflow

RATIO = "compression/bytes_per_token"
SCORE = "training/score"  # depends on no text


def changed(
    tokens: tuple[float, float] | None, documents: int = 400, confidence: float = 0.95
) -> Change:
    """A change of tokens with its interval; None for too few documents."""
    known = {} if tokens is None else {confidence: tokens}
    value = sum(tokens or (0.0, 0.0)) / 2
    return Change(value, 1 + value, documents if tokens else 9, known)


@pytest.mark.parametrize(
    ("rule", "value", "before", "holds", "worst"),
    [
        (Rule(SCORE, "higher"), 4.0, 4.0, True, 4.0),
        (Rule(SCORE, "higher"), 3.99, 4.0, False, 4.0),
        (Rule(SCORE, "higher", 0.01), 3.97, 4.0, True, 3.96),
        (Rule(SCORE, "higher", 0.01), 3.95, 4.0, False, 3.96),
        (Rule("words/continued", "lower", 0.1), 1.09, 1.0, True, 1.1),
        (Rule("words/continued", "lower", 0.1), 1.2, 1.0, False, 1.1),
        (Rule(SCORE, "higher", -0.1), 4.5, 4.0, True, 4.4),  # it must be better by a tenth
        (Rule(SCORE, "higher", -0.1), 4.3, 4.0, False, 4.4),
        (Rule("loss", "higher", 0.1), -1.05, -1.0, True, -1.1),
        (Rule(RATIO, "higher", None, 3.5), 3.6, 9.9, True, 3.5),
        (Rule(RATIO, "higher", None, 3.5), 3.4, 1.0, False, 3.5),
        (Rule(RATIO, "higher", 0.5, 3.5), 3.0, 4.0, False, 3.5),
        (Rule("unreachable", "lower", None, 0), 0, None, True, 0),
        (Rule("unreachable", "lower", None, 0), 1, None, False, 0),
        (Rule(RATIO, "higher"), 1.0, None, True, None),  # nothing to compare with yet
    ],
)
def test_a_rule_bounds_a_metric(
    rule: Rule, value: float, before: float | None, holds: bool, worst: float | None
) -> None:
    present = None if before is None else {ALL: {rule.metric: before}}
    (verdict,) = judge([rule], Evidence({ALL: {rule.metric: value}}, present))
    assert verdict.holds is holds
    assert verdict.judged
    if worst is not None:
        assert f"{worst:.6g}" in str(verdict)
        assert holds or str(verdict).endswith(f" {abs(value - worst):.3g}"), "how much is missing"


GERMAN = {"language:de": {RATIO: 3.0, "words/fertility": 1.5}}


@pytest.mark.parametrize(
    ("rule", "interval", "holds", "said"),
    [
        # Tokens fall by 2 to 6 %: bytes per token rise by 2.04 to 6.38 %.
        (Rule(RATIO, "higher"), (-0.06, -0.02), True, "+2.04% … +6.38%"),
        # The difference is good, and perhaps chance.
        (Rule(RATIO, "higher"), (-0.06, 0.01), None, " 748 "),
        (Rule(RATIO, "higher", 0.01), (-0.06, 0.01), True, "-1.00%"),
        (Rule(RATIO, "higher", -0.01), (-0.06, -0.02), True, "+1.00%"),
        (Rule(RATIO, "higher", -0.03), (-0.06, -0.02), None, "+3.00%"),
        (Rule(RATIO, "higher", -0.07), (-0.06, -0.02), False, " 0.62%"),
        (Rule("words/fertility", "lower", 0.0), (-0.06, 0.01), None, " 784 "),
        (Rule("words/fertility", "lower", 0.0), (-0.0101, 0.01), None, " 1.01%"),
        (Rule("words/fertility", "lower", 0.01), (-0.06, 0.009), True, "+1.00%"),
        (Rule("words/fertility", "lower", 0.01), (0.011, 0.06), False, " 0.10%"),
        (Rule("words/fertility", "lower"), (0.0, 0.0), True, "+0.00%"),
        (Rule(RATIO, "higher", 0.0), None, None, TOO_FEW_DOCUMENTS),
        (Rule(RATIO, "higher", 0.0, 3.5), (-0.06, -0.02), False, "by 0.5"),
    ],
)
@pytest.mark.parametrize("confidence", [None, 0.95, 0.8])
def test_the_interval_of_what_follows_from_tokens_decides(
    rule: Rule,
    interval: tuple[float, float] | None,
    holds: bool | None,
    said: str,
    confidence: float | None,
) -> None:
    """A rule without a confidence decided by the difference alone, which may be chance."""
    rule = replace(rule, slice="language:de", confidence=confidence)
    changes = {"language:de": changed(interval, confidence=confidence or 0.95)}
    (verdict,) = judge([rule], Evidence(GERMAN, GERMAN, changes, "set 2"))
    assert (verdict.holds, verdict.judged) == (bool(holds), holds is not None), str(verdict)
    assert said in str(verdict)
    assert "language:de" in str(verdict)
    assert "set 2" in str(verdict)
    if rule.limit is None:
        (first,) = judge([rule], Evidence(GERMAN))
        assert first.holds
        (apart,) = judge([rule], Evidence(GERMAN, GERMAN))
        assert (apart.holds, apart.judged) == (False, False)


def test_a_slice_that_was_not_measured_does_not_pass() -> None:
    (verdict,) = judge([Rule(RATIO, "higher", slice="french")], Evidence(GERMAN, GERMAN))
    assert (verdict.holds, verdict.judged) == (False, False)
    assert RATIO in str(verdict)
    assert "french" in str(verdict)
    rule = Rule("words/fertility", "lower", slice="language:de")
    (verdict,) = judge([rule], Evidence(GERMAN, {ALL: {}}))
    assert (verdict.holds, verdict.judged) == (False, False)


def test_a_rule_of_a_slice_looks_at_this_slice_of_both_versions() -> None:
    rule = Rule(RATIO, "higher", slice="language:de")
    version = {ALL: {RATIO: 4.0}, "language:de": {RATIO: 3.0}}
    for all_before, german_before, holds in ((2.0, 3.5, False), (5.0, 2.5, True)):
        present = {ALL: {RATIO: all_before}, "language:de": {RATIO: german_before}}
        more = {ALL: changed((-0.5, -0.4)), "language:de": changed((0.1, 0.2))}
        less = {ALL: changed((0.1, 0.2)), "language:de": changed((-0.5, -0.4))}
        evidence = Evidence(version, present, less if holds else more, "the same text")
        (verdict,) = judge([rule], evidence)
        assert verdict.holds is holds
        assert (verdict.value, verdict.before) == (3.0, german_before)


def test_what_was_not_measured_does_not_pass() -> None:
    rules = [Rule(RATIO, "higher"), Rule("x", "lower")]
    verdicts = judge(rules, Evidence({ALL: {"x": float("nan")}}))
    assert [(verdict.holds, verdict.judged) for verdict in verdicts] == [(False, False)] * 2
    with pytest.raises(PromotionNotJudged, match=rf"{RATIO}.*\bx\b") as refusal:
        require(verdicts, "it cannot be")
    assert refusal.value.exit_code == 4


def test_of_a_rule_that_is_broken_and_one_that_was_not_judged_the_broken_one_decides() -> None:
    rules = [Rule("x", "lower", None, 1.0), Rule("y", "lower")]
    with pytest.raises(PromotionRefused) as refusal:
        require(judge(rules, Evidence({ALL: {"x": 2.0}})), "it cannot be")
    assert refusal.value.exit_code == 3
    assert re.search(r"\bx\b.*\by\b", refusal.value.happened), "the other one is named, too"


def test_what_depends_on_text_is_not_judged_where_there_is_none() -> None:
    known = {ALL: {"privacy/key_tokens": 0.0, "vocabulary/unreachable_tokens": 0.0}}
    rules = [
        Rule(RATIO, "higher"), Rule(RATIO, "higher", None, 1.0),
        Rule("privacy/key_tokens", "lower", None, 0),
        Rule("vocabulary/unreachable_tokens", "lower"),
    ]  # fmt: skip
    for present in (known, None):
        better, limit, *others = judge(rules, Evidence(known, present, missing="no-set"))
        assert (limit.judged, str(limit).endswith("no-set")) == (False, True)
        assert all(one.holds for one in others)
        # With nothing to compare with only limits bind.
        assert (better.judged, better.holds) == ((False, False) if present else (True, True))


def test_rules_are_read_from_toml(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(
        f"""
        [[rule]]
        metric = "{RATIO}"
        direction = "higher"
        tolerance = 0.005

        [[rule]]
        metric = "vocabulary/unreachable_tokens"
        direction = "lower"
        limit = 0

        [[rule]]
        metric = "words/fertility"
        direction = "lower"

        [[rule]]
        metric = "words/fertility"
        direction = "lower"
        slice = "language:de"
        confidence = 0.95
        """,
        encoding="utf-8",
    )
    rules = (
        Rule(RATIO, "higher", 0.005, None),
        Rule("vocabulary/unreachable_tokens", "lower", None, 0),
        Rule("words/fertility", "lower", 0.0, None),
        Rule("words/fertility", "lower", 0.0, None, "language:de", 0.95),
    )
    assert read_rules(path) == Rules(rules, 0.01)
    path.write_text(f"gain = 0\n{path.read_text()}")
    assert read_rules(path) == Rules(rules, 0.0)
    path.write_text(f"certified = true\n{path.read_text()}")
    assert read_rules(path) == Rules(rules, 0.0, certified=True)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"rule = 3",
        b"[[rule]]\n",
        b'[[rule]]\nmetric = "x"',
        b'[[rule]]\nmetric = "x"\ndirection = "up"',
        b'[[rule]]\nmetric = 3\ndirection = "lower"',
        b'[[rule]]\nmetric = "x"\ndirection = "lower"\ntolerance = "1 %"',
        b'[[rule]]\nmetric = "x"\ndirection = "lower"\ntolerance = inf',
        b'[[rule]]\nmetric = "x"\ndirection = "lower"\nlimit = nan',
        b'[[rule]]\nmetric = "x"\ndirection = "lower"\nlimit = true',
        b'[[rule]]\nmetric = "x"\ndirection = "lower"\ntolerence = 0.1',
        b'[[rule]]\nmetric = "x"\ndirection = "lower"\n[other]\n',
        b'[[rule]]\nmetric = "x"\ndirection = "lower"\nslice = 3',
        b'[[rule]]\nmetric = "x"\ndirection = "lower"\nconfidence = 0.95',
        b'[[rule]]\nmetric = "words/fertility"\ndirection = "lower"\nconfidence = 0.94',
        b'[[rule]]\nmetric = "words/fertility"\ndirection = "lower"\nconfidence = true',
        b'[[rule]]\nmetric = "serving/flops_per_byte"\ndirection = "lower"',
        b'[[rule]]\nmetric = "x"\ndirection = "lower"\nmodel_shape = "llama-3.2-1b"',
        b'[[rule]]\nmetric = "serving/flops_per_byte"\ndirection = "lower"\nmodel_shape = 3',
        b'gain = -0.1\n[[rule]]\nmetric = "x"\ndirection = "lower"',
        b'gain = 1\n[[rule]]\nmetric = "x"\ndirection = "lower"',
        b'gain = "1 %"\n[[rule]]\nmetric = "x"\ndirection = "lower"',
        b'[[rule]]\nmetric = "x"\ndirection = "lower"\ngain = 0.02',
        b"gain = 0.02",
        b'certified = false\n[[rule]]\nmetric = "x"\ndirection = "lower"',
        b'certified = 1\n[[rule]]\nmetric = "x"\ndirection = "lower"',
        b'certified = "true"\n[[rule]]\nmetric = "x"\ndirection = "lower"',
        b'[[rule]]\nmetric = "x"\ndirection = "lower"\ncertified = true',
        b"certified = true",
        b"not toml",
        b"\xff",
    ],
)
def test_other_files_are_refused_by_name(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_bytes(content)
    with pytest.raises(InvalidOption, match=r"rules\.toml"):
        read_rules(path)
    with pytest.raises(InvalidOption, match=r"missing\.toml"):
        read_rules(tmp_path / "missing.toml")


COST = "serving/flops_per_byte"
OWN_SHAPE = "hidden_size=8\nlayers=2\nheads=4\nkv_heads=2\nhead_size=2\nexpert_size=16\n"


def test_a_rule_on_cost_says_of_which_model(tmp_path: Path) -> None:
    path, own = tmp_path / "rules.toml", tmp_path / "own.toml"
    own.write_text(f"{OWN_SHAPE}context=9\n")
    rule = f'[[rule]]\nmetric = "{COST}"\ndirection = "lower"\ntolerance = 0.01\n'
    path.write_text(f"{rule}model_shape = 'llama-3.2-1b'\n{rule}model_shape = 'own.toml'\n")
    small, of_file = read_rules(path).rules
    assert small.model_shape == NamedShape("llama-3.2-1b", MODEL_SHAPES["llama-3.2-1b"])
    assert (small.metric, small.tolerance) == (f"{COST}.llama-3.2-1b", 0.01)
    assert of_file.metric.startswith(f"{COST}.own-")
    own.write_text(f"{OWN_SHAPE}context=10\n")
    assert read_rules(path).rules[1].metric != of_file.metric, (
        "another shape, and no figure in common"
    )
    path.write_text(f"{rule}model_shape = 'llama-9'\n")
    with pytest.raises(InvalidOption, match="llama-9"):
        read_rules(path)


@pytest.mark.parametrize(
    ("tokens", "tolerance", "holds", "said"),
    [
        # 2,000 ids cost 3,200 FLOPs more a token than 1,800: what a token costs rises, too.
        ((-0.06, -0.05), 0.05, True, "+5.00%"),
        ((-0.06, -0.05), 0.0, False, "+0.00%"),  # fewer tokens, and each dearer
        ((-0.06, 0.0), 0.15, True, "+15.00%"),
        (None, 0.15, False, TOO_FEW_DOCUMENTS),
    ],
)
def test_an_interval_of_cost_is_that_of_tokens_times_what_each_costs(
    tokens: tuple[float, float] | None, tolerance: float, holds: bool, said: str, tmp_path: Path
) -> None:
    own = tmp_path / "own.toml"
    own.write_text(f"{OWN_SHAPE}context=9\n")
    model = model_shape(str(own))
    after, before = model.figures(2_000, 4.0), model.figures(1_800, 3.9)
    dearer = after[f"serving/flops_per_token.{model.label}"] - 2 * 8 * 200
    assert dearer == before[f"serving/flops_per_token.{model.label}"]
    rule = Rule(model.metric(COST), "lower", tolerance, confidence=0.95, model_shape=model)
    evidence = Evidence({ALL: after}, {ALL: before}, {ALL: changed(tokens)}, "a set")
    (verdict,) = judge([rule], evidence)
    assert (verdict.holds, said in str(verdict)) == (holds, True), str(verdict)
    if tokens is not None:
        each = 1 + 3_200 / dearer
        low, high = (each * (1 + end) - 1 for end in tokens)
        assert f"{low:+.2%} … {high:+.2%}" in str(verdict)
    (plain,) = judge([replace(rule, confidence=None)], evidence)
    assert (plain.value, plain.before) == (after[rule.metric], before[rule.metric])
    assert (plain.holds, plain.said) == (verdict.holds, verdict.said)


@pytest.mark.parametrize("number", [1, 2])
def test_one_rule_is_spoken_of_as_one(number: int) -> None:
    rules = [Rule(RATIO, "higher")] * number
    with pytest.raises(PromotionRefused) as refusal:
        require(judge(rules, Evidence({})), "news/1")
    for said in (every_rule_holds(rules), refusal.value.accepted):
        assert ("rules" in said, "2" in said) == (number == 2, number == 2)


@pytest.mark.night
def test_a_promotion_that_breaks_a_rule_moves_nothing(
    registry: Registry, made: Callable[..., Publication]
) -> None:
    for word, ratio in ((b"the", 2.5), (b"and", 2.4), (b"there", 2.49)):
        publication = replace(made(word), metrics={SCORE: ratio})
        publish_version(registry, publication)
    rules = Rules((Rule(SCORE, "higher", 0.01),), gain=0)
    assert promote("news/1", rules=rules).number == 1  # nobody was there
    tags = registry.tracker.version("news", 1).tags  # type: ignore[union-attr]
    assert tags["promotion"].startswith("champion: ")
    with pytest.raises(PromotionRefused, match=r"news@champion.*news/2.* 2\.4\b"):
        promote("news/2", rules=rules)
    assert registry.tracker.aliases("news").get("news", {})["champion"] == 1
    refusal, first = alias_history("news", "champion")
    assert (refusal.from_number, refusal.to_number, first.to_number) == (1, 1, 1)
    assert re.match(rf"refused news/2: {SCORE}\b.* 2\.4\b.* 2\.475\b", refusal.reason)
    tags = registry.tracker.version("news", 2).tags  # type: ignore[union-attr]
    assert tags["promotion"].startswith("champion refused")
    assert promote("news/3", rules=rules).number == 3
    with pytest.raises(PromotionRefused):
        promote("news/2", rules=Rules((Rule(SCORE, "higher"),), gain=0))
    assert rollback("news").number == 1, "a refusal is no place to go back to"


def test_a_version_is_judged_against_the_one_that_the_moving_alias_points_to(
    registry: Registry, made: Callable[..., Publication]
) -> None:
    for word, ratio in ((b"the", 2.5), (b"and", 2.3), (b"there", 2.4)):
        publication = replace(made(word), metrics={SCORE: ratio})
        publish_version(registry, publication)
    promote("news/1", "staging")
    promote("news/2")
    rules = Rules((Rule(SCORE, "higher"),), gain=0)
    with pytest.raises(PromotionRefused, match=r"news@staging.*\b2\.5\b"):
        promote("news/3", "staging", rules=rules)
    assert registry.tracker.aliases("news").get("news", {})["staging"] == 1
    assert promote("news/3", rules=rules).number == 3, "it is better than the champion"


def test_several_texts_ask_each_rule_once_and_the_worst_answer_counts() -> None:
    rules = [Rule(SCORE, "higher"), Rule("x", "lower", None, 3.0)]
    better = Evidence({ALL: {SCORE: 4.0, "x": 1.0}}, {ALL: {SCORE: 3.0}}, measured_on="set 2")
    worse = Evidence({ALL: {SCORE: 2.0, "x": 1.0}}, {ALL: {SCORE: 3.0}}, measured_on="set 1")
    unknown = Evidence({ALL: {"x": 1.0}}, {ALL: {SCORE: 3.0}})
    assert [one.holds for one in judge(rules, better)] == [True, True]
    broken, other = judge(rules, better, worse)
    assert (broken.holds, broken.judged, other.holds) == (False, True, True)
    assert SCORE in str(broken)
    assert judge(rules, better, unknown, worse)[0] == broken, "broken, not only unknown"
    assert not judge(rules, better, unknown)[0].judged
    german = [Rule(SCORE, "higher", slice="german")]
    first = Evidence({"german": {SCORE: 4.0}}, {"german": {SCORE: 3.0}})
    assert judge(german, first, worse)[0].holds, "a slice that only one text has"


def test_a_refusal_that_cannot_be_read_is_none() -> None:
    refusal = Refusal("a" * 64, Rules(()).digest, "", False, 10)
    (kept,) = refusal.as_tag("champion").values()
    assert len(kept) < 500, "as long as a tag may be"
    for value in (kept[:-1], kept.replace("10", '"10"'), "null", "[" * 100_000, "\ud800", ""):
        found = refusals_in({**refusal.as_tag("champion"), "refusal.staging": value, "locked": ""})
        assert found == {"champion": refusal}
    assert Rules((), gain=0).digest != Rules((), certified=True).digest != Rules(()).digest


@pytest.mark.parametrize("confidence", [None, 0.95])
@pytest.mark.parametrize(
    ("tokens", "rule", "holds"),
    [
        ((-0.01, 0.06), Rule(RATIO, "higher"), True),
        ((0.01, 0.04), Rule(RATIO, "higher"), False),
        ((0.01, 0.04), Rule(RATIO, "higher", 0.02), True),
        (None, Rule(RATIO, "higher"), True),
        ((0.01, 0.04), Rule("words/fertility", "lower"), False),
        ((-0.01, 0.04), Rule("words/fertility", "lower"), True),
        ((-0.01, 0.06), Rule(RATIO, "higher", None, 3.95), False),
    ],
)
def test_an_exchanged_provisional_set_refuses_what_is_worse_beyond_chance(
    tokens: tuple[float, float] | None, rule: Rule, holds: bool, confidence: float | None
) -> None:
    rule = replace(rule, confidence=confidence)
    present, version = {ALL: {rule.metric: 4.0}}, {ALL: {rule.metric: 3.9}}
    good = Evidence({ALL: {rule.metric: 4.0}}, present, {ALL: changed((0.0, 0.0))}, "set 2")
    earlier = Evidence(version, present, {ALL: changed(tokens)}, "set 1", earlier=True)
    (verdict,) = judge([rule], good, earlier)
    assert (verdict.judged, verdict.holds) == (True, holds), verdict.said
    assert (verdict.value, verdict.before) == ((4.0 if holds else 3.9), 4.0)
    assert holds or "set 1" in verdict.said


@pytest.mark.parametrize(
    ("changes", "new", "said"),
    [
        ({ALL: (-0.03, -0.01)}, {}, "-2.00% tokens (-3.00% … -1.00%) of all on set 2"),
        ({ALL: (-0.01, 0.01), "german": (-0.05, -0.04)}, {}, "of german on set 2"),
        ({ALL: (0.01, 0.02)}, {"held-out": (-0.2, -0.1)}, "of held-out on new text"),
        ({ALL: (-0.01, -0.005)}, {}, NothingGained),  # less than it takes
        ({ALL: (-0.05, 0.01)}, {}, NothingGained),  # perhaps chance
        ({ALL: (0.0, 0.0)}, {"held-out": None}, NothingGained),
        ({ALL: None}, {"held-out": None}, PromotionNotJudged),
        ({}, {}, PromotionNotJudged),
    ],
)
def test_a_gain_is_told_beyond_chance_on_any_text(
    changes: dict[str, Any], new: dict[str, Any], said: str | type[PromotionRefused]
) -> None:
    known, brought = ({key: changed(one) for key, one in some.items()} for some in (changes, new))
    evidence = Evidence({}, {}, known, "set 2", new=brought)
    if isinstance(said, str):
        assert said in require_gain(0.01, evidence, "it moves")
    else:
        with pytest.raises(said, match="it moves: ") as error:
            require_gain(0.01, evidence, "it moves")
        assert error.value.exit_code == (3 if said is NothingGained else 4)
