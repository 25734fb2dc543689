"""Pictures are SVG by itself, show what they are given, and are the same for the same numbers."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bpeline.flows.pages import Bars, Chart, Series, bar_chart, line_chart, write_figure
from bpeline.registry.figures import draw_observations

NAME = "{http://www.w3.org/2000/svg}"
CURVE = [(256, 1.0), (512, 1.9), (4096, 3.5)]


def texts(path: Path) -> list[str]:
    return [one.text or "" for one in ElementTree.parse(path).iter(f"{NAME}text")]


def widths(path: Path) -> list[float]:
    bars = ElementTree.parse(path).iter(f"{NAME}rect")
    return [float(one.get("width", "")) for one in bars if one.get("height") == "14"]


@pytest.mark.parametrize(
    "drawing",
    [
        line_chart("c", "vocab size", "bytes per token", [Series("all", CURVE, dots=True)]),
        line_chart("c", "size", "saved", [Series("gain", CURVE), Series("k", CURVE)], y_log=True),
        bar_chart("lengths", "bytes", "tokens", [("1", 256.0), ("2", 4.0)]),
        Bars("bytes per token", ["all", "docs"], {"news": [3.5, 2.0], "champion": [3.0, 2.5]}),
    ],
)
def test_a_picture_is_the_same_bytes_and_needs_nothing_else(
    drawing: Chart | Bars, tmp_path: Path
) -> None:
    title = "news <b> & \u202e"
    first = write_figure(tmp_path / "a.svg", title, drawing).read_bytes()
    assert write_figure(tmp_path / "b.svg", title, drawing).read_bytes() == first
    root = ElementTree.parse(tmp_path / "a.svg").getroot()
    assert root.tag == f"{NAME}svg"
    assert all(one.tag.startswith(NAME) for one in root.iter())
    assert texts(tmp_path / "a.svg")[0].startswith("news <b> & ")
    assert b"href" not in first
    assert "\u202e".encode() not in first


def test_bars_are_as_long_as_their_values_and_say_them(tmp_path: Path) -> None:
    bars = Bars("bytes per token", ["all", "docs"], {"news": [4.0, 2.0], "champion": [3.0, 1.0]})
    path = write_figure(tmp_path / "slices.svg", "news", bars, tuple(bars.values))
    assert widths(path) == [270, 135, 202.5, 67.5]
    said = texts(path)
    assert {"all", "docs", "news", "champion", "4.00", "2.00", "3.00", "1.00"} <= set(said)


def test_a_single_series_needs_no_legend_and_forty_rows_are_drawn(tmp_path: Path) -> None:
    rows = [f"language:{number}" for number in range(50)]
    bars = Bars("bytes per token", rows, {"news": [2.0] * 50})
    said = texts(write_figure(tmp_path / "slices.svg", "v", bars, ["news"]))
    assert "news" not in said
    assert sum(one.startswith("language:") for one in said) == 40


def test_names_are_whole_however_long(tmp_path: Path) -> None:
    names = ["all text", "champion (a-rather-long-name-of-a-version/123)"]
    chart = line_chart("c", "vocab size", "bytes per token", [Series(one, CURVE) for one in names])
    assert set(names) <= set(texts(write_figure(tmp_path / "curves.svg", "v", chart, names)))
    row = "language:a-language-whose-name-is-long"
    bars = Bars("bytes per token", [row], {"news": [2.0]})
    path = write_figure(tmp_path / "slices.svg", "v", bars)
    (named,) = (one for one in ElementTree.parse(path).iter(f"{NAME}text") if one.text == row)
    assert float(named.get("x", "")) > 6 * len(row)


@pytest.mark.night
@pytest.mark.parametrize(
    ("watched", "lines"),
    [({1: 3.0, 2: 3.0, 3: 3.0}, 1), ({1: 3.0, 2: 4.0, 3: 4.0}, 2), ({2: 3.0, 3: 3.0}, 2)],
    ids=["one version", "two versions", "one that is not known"],
)
def test_a_line_of_observations_ends_with_its_version(
    watched: dict[int, float], lines: int, tmp_path: Path
) -> None:
    series = {"all": [(1, 3.4), (2, 3.3), (3, 3.2)]}
    picture = draw_observations(series, watched, tmp_path / "a.svg").read_text()
    drawn = re.findall(r'clip-path="[^"]*" style="fill: none; stroke: #20558a', picture)
    assert len(drawn) == lines
