"""Bits per byte where serving is paid in training: published figures, a plain fit, files."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random

import numpy as np
import pytest

from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.evaluation import (
    MODEL_SHAPES,
    Quality,
    ServingCost,
    fit_scaling,
    flop_equated,
    read_measured_models,
)

Points = list[tuple[float, float]]
# Vocab size, tokens per byte of English and of mathematics, (training FLOPs, bits per byte), and
# the feBPB that marin-community/marin publishes for them (experiments/tokenize/results, findings).
PUBLISHED: dict[str, tuple[int, float, float, Points, float]] = {
    "marin-128k": (128_256, 894412 / 4001234, 1530033 / 4004322, [
        (3.93272975425536e17, 1.3778282403945923), (9.17636942659584e17, 1.2376079559326172),
        (2.097455868936192e18, 1.1469331979751587)], 1.2376),
    "superbpe-128k": (128_001, 691988 / 4001234, 1398618 / 4004322, [
        (3.92964945739776e17, 1.3363250494003296), (9.16918206726144e17, 1.2000441551208496),
        (2.095813043945472e18, 1.1135064363479614)], 1.1794),
    "gpt-neox-50k": (50_277, 932271 / 4001234, 1517937 / 4004322, [
        (2.99077497520128e17, 1.3315601348876953), (6.97847494213632e17, 1.2057503461837769),
        (1.595079986774016e18, 1.1143876314163208)], 1.1745),
    "80k-t40k": (80_001, 728335 / 4001234, 1378730 / 4004322, [
        (3.34982887243776e17, 1.3386683464050293), (7.81626736902144e17, 1.200352668762207),
        (1.786575398633472e18, 1.110716700553894)], 1.1621),
    "128k-t51k": (128_001, 686006 / 4001234, 1338714 / 4004322, [
        (3.92964945739776e17, 1.356863021850586), (9.16918206726144e17, 1.2091583013534546),
        (2.095813043945472e18, 1.1081185340881348)], 1.1836),
    "160k-t64k": (160_001, 668533 / 4001234, 1328368 / 4004322, [
        (4.31619651403776e17, 1.365499496459961), (1.007112519942144e18, 1.2158203125),
        (2.301971474153472e18, 1.1216434240341187)], 1.2028),
}  # fmt: skip


def cost(name: str) -> float:
    size, english, mathematics, *_ = PUBLISHED[name]
    tokens = 0.8 * english + 0.2 * mathematics
    return ServingCost.of(MODEL_SHAPES["marin-moe"], size, 1 / tokens).flops_per_byte


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_figures_come_out(name: str) -> None:
    budget = PUBLISHED["marin-128k"][3][1][0]  # the middle one of the reference's
    points, published = PUBLISHED[name][3:]
    found = flop_equated(points, cost(name) / cost("marin-128k"), budget)
    assert found.bits_per_byte == pytest.approx(published, abs=5e-5)
    assert found.remark == ""


def plain(points: Points, budget: float) -> tuple[float, float]:
    """Exponent and bits per byte, by ordinary least squares for each exponent."""
    reached = np.array([value for _, value in points])
    best = (math.inf, 0.0, 0.0)
    for step in range(1, 501):
        exponent = 0.5 * step / 500
        # Of a unit near the points: C^-b alone is as good as constant for small exponents.
        unit = points[0][0]
        columns = np.array([[(flops / unit) ** -exponent, 1.0] for flops, _ in points])
        fitted = np.linalg.lstsq(columns, reached, rcond=None)[0]
        error = float(((columns @ fitted - reached) ** 2).sum())
        value = float(fitted[0] * (budget / unit) ** -exponent + fitted[1])
        best = min(best, (error, exponent, value))
    return best[1], best[2]


def test_the_fit_is_that_of_plain_least_squares(seed: int) -> None:
    random = Random(seed)
    for _ in range(20):
        exponent, floor, scale = random.uniform(0.05, 0.45), random.uniform(0.5, 1), 900.0
        points = [
            (flops, floor + scale * flops**-exponent * random.uniform(0.9, 1.1))
            for flops in (10 ** random.uniform(15, 25) for _ in range(random.randint(3, 9)))
        ]
        curve, budget = fit_scaling(points), points[1][0] * 1.1
        expected = plain(points, budget)
        assert curve.bits_per_byte(budget) == pytest.approx(expected[1], rel=1e-6)
        assert curve.exponent == pytest.approx(expected[0])


def test_a_power_law_is_found_again() -> None:
    points = [(flops, 700 * flops**-0.15 + 0.75) for flops in (1e18, 1e19, 1e20, 1e21)]
    curve = fit_scaling(points[::-1])
    assert (curve.exponent, curve.floor) == (pytest.approx(0.15), pytest.approx(0.75))
    assert curve.bits_per_byte(3e20) == pytest.approx(700 * 3e20**-0.15 + 0.75)
    assert (curve.smallest, curve.largest) == (1e18, 1e21)


def test_what_serving_saves_is_spent_on_training() -> None:
    points = PUBLISHED["marin-128k"][3]
    same = flop_equated(points, 1.0, 9.17636942659584e17)
    cheaper = flop_equated(points, 0.8, same.budget)
    assert cheaper.budget == pytest.approx(1.2 * same.budget)
    assert flop_equated(points, 0.8, same.budget, 2.0).budget == pytest.approx(1.4 * same.budget)
    assert flop_equated(points, 0.8, same.budget, 0.0).bits_per_byte == same.bits_per_byte
    assert cheaper.bits_per_byte is not None
    assert same.bits_per_byte is not None
    assert cheaper.bits_per_byte < same.bits_per_byte
    beyond = flop_equated(points, 1.0, 1e21)
    assert beyond.remark == (
        "extrapolated: 1e+21 FLOPs are outside of 3.93e+17 to 2.1e+18, where models were measured"
    )
    nothing = flop_equated(points, 2.0, 1e18)
    assert (nothing.bits_per_byte, nothing.as_dict()["bits_per_byte"]) == (math.inf, None)
    assert "more than there was to train with" in nothing.remark
    rising = flop_equated([(flops, 1 / value) for flops, value in points], 1.0, 1e18)
    assert "do not fall" in rising.remark
    for few in ([], points[:2], [points[0], points[0], points[1]]):
        unknown = flop_equated(few, 1.0, 1e18)
        assert unknown.bits_per_byte is None
        assert "3 are needed" in unknown.remark
        with pytest.raises(InvalidOption, match="points are given for a curve"):
            fit_scaling(few)


def test_points_are_read_from_csv_and_json(tmp_path: Path) -> None:
    table, listed = tmp_path / "trained.csv", tmp_path / "trained.json"
    table.write_text(
        "\ufeffrun,tokenizer,training_flops,bits_per_byte\n"
        "a,news/3,9e17,1.2\nb,news/4,1e18,1.1\nc,news/3,3.9e17,1.38\n"
    )
    listed.write_text('{"news/4": [[1e18, 1.1]], "news/3": [[9e17, 1.2], [3.9e17, 1.38]]}')
    for path in (table, listed):
        models = read_measured_models(path)
        assert models.of(["news/3"]) == ((3.9e17, 1.38), (9e17, 1.2))
        assert models.of(["news/5", "./news"], "ab" * 32) == ()
    listed.write_text('{"abababab": [[1e18, 1.1]], "news/3": [[9e17, 1.2]]}')
    models = read_measured_models(listed)
    assert models.of(["news/7"], "ab" * 32) == ((1e18, 1.1),)
    with pytest.raises(InvalidOption, match="twice"):
        models.of(["news/3"], "ab" * 32)
    quality = Quality(models)
    assert quality.budget_for("news/3", ((1.0, 2.0), (3.0, 1.0))) == 3.0
    assert Quality(models, 5e20).budget_for("news/3", ()) == 5e20
    with pytest.raises(InvalidOption, match=r"no points of news/9.* relative"):
        quality.budget_for("news/9", ())


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.csv", ""), ("x.csv", "tokenizer,flops,bits_per_byte\nnews/3,1,1\n"),
        ("x.csv", "tokenizer,training_flops,bits_per_byte\n"),
        ("x.csv", "tokenizer,training_flops,bits_per_byte\nnews/3,1e18\n"),
        ("x.csv", "tokenizer,training_flops,bits_per_byte\nnews/3,1e18,nan\n"),
        ("x.csv", "tokenizer,training_flops,bits_per_byte\nnews/3,-1,1\n"),
        ("x.json", "{}"), ("x.json", "[1]"), ("x.json", '{"news/3": 3}'), ("x.json", "{"),
        ("x.json", '{"news/3": [[1e18, 1, 2]]}'), ("x.json", '{"news/3": [[1e18, true]]}'),
        ("x.json", '{"news/3": [[1e999, 1]]}'), ("x.json", f'{{"a": [[1{"0" * 400}, 1]]}}'),
        ("x.json", '{"news/3": [[1e18, []]]}'),
    ],
)  # fmt: skip
def test_other_files_are_refused_by_name(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InvalidOption, match=name):
        read_measured_models(tmp_path / name)
    with pytest.raises(InvalidOption, match=r"missing\.csv"):
        read_measured_models(tmp_path / "missing.csv")


@pytest.mark.parametrize("wrong", [{"budget": 0.0}, {"budget": math.nan}, {"serving_ratio": -1.0},
                                   {"serving_ratio": math.inf}])  # fmt: skip
def test_budgets_and_ratios_that_there_cannot_be_are_refused(
    wrong: dict[str, float], tmp_path: Path
) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"news/3": [[9e17, 1.2]]}')
    with pytest.raises(InvalidOption):
        Quality(read_measured_models(path), **wrong)
