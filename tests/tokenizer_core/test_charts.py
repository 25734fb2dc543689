"""Charts are SVG by itself, show what they are given, and are the same for the same numbers."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from bpeline.tokenizer_core.charts import (
    COLOURS,
    Bars,
    Chart,
    Line,
    Point,
    curves_in_notebook,
    inline_svg,
    svg_file,
)

NAME = "{http://www.w3.org/2000/svg}"
CURVE = [(256, 1.0), (512, 1.9), (4096, 3.5)]
HOSTILE = "news <b> & \u202e\x1b\ud800\"'"
CHARTS = {
    "lines": Chart(HOSTILE, "vocab size", HOSTILE, [Line(HOSTILE, CURVE, dots=True)]),
    "logarithmic": Chart("", "", "", [Line("gain", CURVE), Line(HOSTILE, CURVE)], y_log=True),
    "upright bars": Chart("", "bytes", "", bars=[256, 4], names=["1", HOSTILE]),
    "places": Chart("", "", "", [Line("", [(0, 1.0), (1, 2.0)], dots=True)], names=["", HOSTILE]),
    "bars": Bars(HOSTILE, "bytes", ["all", HOSTILE], {"news": [3.5, 2.0], HOSTILE: [3.0, 2.5]}),
}  # fmt: skip


def texts(svg: str) -> list[str]:
    return [
        one.text or "" for one in ElementTree.fromstring(svg).iter() if one.tag.endswith("text")
    ]


def dots(svg: str) -> list[tuple[float, float]]:
    return [
        (float(one.get("cx", "")), float(one.get("cy", "")))
        for one in ElementTree.fromstring(svg).iter()
        if one.tag.endswith("circle")
    ]


@pytest.mark.parametrize("chart", CHARTS.values(), ids=CHARTS)
def test_a_chart_is_the_same_text_and_needs_nothing_else(chart: Chart | Bars) -> None:
    picture = svg_file(HOSTILE, [chart])
    assert svg_file(HOSTILE, [chart]) == picture
    root = ElementTree.fromstring(picture.encode())
    assert root.tag == f"{NAME}svg"
    assert all(one.tag.startswith(NAME) for one in root.iter())
    assert texts(picture)[0] == "news <b> & [U+202E][U+001B][U+D800]\"'"
    assert "prefers-color-scheme" in picture
    for svg in (picture, inline_svg(chart)):
        assert not re.search(r"<b>|\u202e|href", svg)
        colours = re.findall(r'(?:fill|stroke)="([^"]*)"', svg)
        assert set(colours) <= {"none", "currentColor", *COLOURS}


def test_colours_are_seen_on_light_and_on_dark_grounds() -> None:
    def luminance(*channels: int) -> float:
        linear = [
            value / 12.92 if value <= 0.03928 else ((value + 0.055) / 1.055) ** 2.4
            for value in (channel / 255 for channel in channels)
        ]
        return sum(factor * v for factor, v in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    for colour in COLOURS:
        between = luminance(*map(int, re.findall(r"\d+", colour))) + 0.05
        assert 1.05 / between > 3
        assert between / (luminance(0x15, 0x18, 0x1B) + 0.05) > 3


def test_bars_are_as_long_as_their_values_and_say_them() -> None:
    bars = Bars("", "", ["all", "docs"], {"news": [4.0, 2.0], "champion": [3.0, 1.0]})
    svg = svg_file("news", [bars])
    lengths = [one.get("width") for one in ElementTree.fromstring(svg).iter(f"{NAME}rect")
               if one.get("height") == "14"]  # fmt: skip
    assert lengths == ["270.0", "135.0", "202.5", "67.5"]
    assert {"all", "docs", "news", "champion", "4.00", "2.00", "3.00", "1.00"} <= set(texts(svg))


def test_a_single_series_needs_no_legend_and_forty_rows_are_drawn() -> None:
    rows = [f"language:{number}" for number in range(50)]
    shown = texts(inline_svg(Bars("", "", rows, {"news": [2.0] * 50})))
    assert "news" not in shown
    assert sum(one.startswith("language:") for one in shown) == 40


def test_names_are_whole_however_long() -> None:
    names = ["all text", "champion (a-rather-long-name-of-a-version/123)"]
    chart = Chart("", "vocab size", "bytes per token", [Line(name, CURVE) for name in names])
    assert set(names) <= set(texts(inline_svg(chart)))
    choices = [f"de={n} en=1 code=0.25" for n in range(9)]
    line = Line("all", [(place, 1.0) for place in range(9)])
    assert set(choices) <= set(texts(inline_svg(Chart("", "", "", [line], names=choices))))
    row = "language:a-language-whose-name-is-long"
    svg = inline_svg(Bars("", "", [row], {"news": [2.0]}))
    (named,) = (one for one in ElementTree.fromstring(svg).iter("text") if one.text == row)
    assert float(named.get("x", "")) > 6 * len(row)


def test_a_chart_puts_every_value_in_its_field() -> None:
    points = [Point(place, 200 + place, "", 190.0, 300.0 + place) for place in range(40)]
    lines = [Line("a", points, dots=True), Line("b", points[::7], dots=True)]
    svg = inline_svg(Chart("", "", "", lines, names=[str(one) for one in range(40)]))
    intervals = [
        (float(x), float(y))
        for x, low, high in re.findall(r'd="M([\d.]+),([\d.]+)V([\d.]+)"', svg)
        for y in (low, high)
    ]
    assert len(dots(svg)) == len(intervals) / 2 == 40 + 6
    for x, y in [*dots(svg), *intervals]:
        assert 14 < x < 466
        assert 30 <= y <= 226
    ends = [float(x) for x in re.findall(r'<text x="([\d.]+)" y="242.0"', svg)]
    assert len(ends) >= 20
    assert min(after - before for before, after in pairwise(ends)) >= 12


@pytest.mark.parametrize(
    "svg",
    [
        inline_svg(Chart("", "", "", [Line("", [(0, 5.0)], dots=True)], names=["1"])),
        inline_svg(Chart("", "", "", [Line("", [(300, 1.0)], dots=True)])),
        inline_svg(Chart("", "", "", [Line("", [(300, 0.0)], dots=True)])),
    ],
    ids=["a place", "a size", "zero"],
)
def test_one_value_has_a_chart_too(svg: str) -> None:
    ((x, y),) = dots(svg)
    assert 14 < x <= 466
    assert 30 <= y <= 226
    assert 'rx="2"' not in svg, "no legend"


def test_lines_of_one_name_share_a_colour_and_an_entry_of_the_legend() -> None:
    lines = [Line("all", CURVE[:2]), Line("all", CURVE[2:]), Line("docs", CURVE)]
    svg = inline_svg(Chart("", "", "", lines))
    assert re.findall(r'fill="none" stroke="(rgb[^"]*)"', svg) == [COLOURS[0]] * 2 + [COLOURS[1]]
    assert texts(svg)[-2:] == ["all", "docs"]


def test_a_notebook_s_chart_says_its_values_and_takes_the_colours_of_the_page() -> None:
    drawn = curves_in_notebook({"<i>": [(512, 2.0), (1024, 2.5)], "two": [(512, 1.0)], "none": []})
    titles = [one.text for one in ElementTree.fromstring(drawn).iter("title")]
    assert titles == ["<i> 512: 2", "<i> 1,024: 2.5", "two 512: 1"]
    assert "style" not in drawn
    assert "background" not in drawn
    assert curves_in_notebook({"": []}) == ""


def test_several_charts_have_their_titles_in_one_picture() -> None:
    charts = [Bars(title, "", ["a"], {"": [1.0]}) for title in ("first", "second")]
    below = ElementTree.fromstring(svg_file("", charts))
    beside = ElementTree.fromstring(svg_file("", charts, across=True))
    for root in (below, beside):
        assert {"first", "second"} <= {one.text for one in root.iter(f"{NAME}text")}
    assert float(below.get("height", "")) > 1.9 * float(beside.get("height", ""))
    assert float(beside.get("width", "")) == 2 * float(below.get("width", ""))
