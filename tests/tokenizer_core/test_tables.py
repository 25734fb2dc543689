"""One table is text, Markdown, HTML and JSON."""

from __future__ import annotations

import html
import json
import re

import pytest

from bpeline.tokenizer_core.tables import Table

TABLE = Table(("name", "tokens", "why"), [("a | b", 12, "new"), ("<i>\n", 1_000, "")], left=(0, 2))


def test_lines_are_aligned_and_each_is_one_line() -> None:
    assert TABLE.lines() == [
        "name       tokens  why",
        "a | b          12  new",
        "<i>\\u000a    1000",
    ]
    assert Table(("", "x"), [(" a ", "1")]).lines(bordered=True) == [
        "    | x",
        "----+--",
        " a  | 1",
    ]
    assert Table((), [("when", "champion"), ("later", "x")], left=(0, 1)).lines() == [
        "when   champion",
        "later  x",
    ]
    assert Table(("a", "b"), []).lines() == ["a  b"]
    assert Table((), []).lines() == []


def test_markdown_keeps_a_cell_in_its_cell() -> None:
    assert TABLE.markdown().splitlines() == [
        "| name | tokens | why |",
        "| --- | ---: | --- |",
        "| a \\| b | 12 | new |",
        "| <i>  | 1000 |  |",
    ]
    assert Table.of([("size", "share"), ("8k", "1 %")]).markdown() == (
        "| size | share |\n| --- | ---: |\n| 8k | 1 % |"
    )


def test_html_is_escaped_and_takes_the_colours_of_the_page() -> None:
    shown = Table(("", "<b>"), [("a & b", "1")]).html("<i>")
    assert html.unescape(re.sub(r"<[^>]+>", "", shown)) == "<b>a & b1<i>"
    assert "<b>" not in shown
    assert "<i>" not in shown
    assert "background" not in shown, "that of the page: light or dark"
    assert not re.search("#[0-9a-f]{3}|black|white", shown)
    assert re.findall(r"<(t[hd]) style=\"text-align:(\w+)", shown) == [
        ("th", "left"), ("th", "right"), ("td", "left"), ("td", "right"),
    ]  # fmt: skip
    facts = Table((), [("ids", "264")]).html()
    assert re.findall(r"<(t[hd]) style=\"text-align:(\w+)", facts) == [
        ("th", "left"),
        ("td", "left"),
    ]


def test_json_keeps_what_cells_are() -> None:
    assert json.loads(json.dumps(TABLE.json()))[0] == {"name": "a | b", "tokens": 12, "why": "new"}


@pytest.mark.parametrize("hostile", ["\x1b[2J", "\u202e", "\r"])
def test_a_terminal_shows_controls_and_does_not_obey_them(hostile: str) -> None:
    (_, line) = Table((hostile,), [(hostile,)]).lines()
    assert hostile not in line
    assert "\\u" in line
