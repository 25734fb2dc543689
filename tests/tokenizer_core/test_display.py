"""What notebooks and terminals show of a tokenizer."""

from __future__ import annotations

import html
import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from bpeline.tokenizer_core import Tokenizer, WordCounts, count_texts, evaluate, train_bpe
from bpeline.tokenizer_core.evaluation import Curve, EvaluationText, evaluate_texts
from bpeline.tokenizer_core.tables import Table


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    words = {b"low": 9, b" lower": 5, b" lowest": 4, "é".encode(): 1}
    return train_bpe(WordCounts.from_mapping(words), 275, special_tokens=["<|end|>"])


def text_of(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", page))


def test_tokens_are_shown_with_bars_between_them(tokenizer: Tokenizer) -> None:
    shown = tokenizer.show("low lower<|end|>", allowed_special="all")
    assert str(shown) == repr(shown) == "low| lower|<|end|>"
    assert [token.id for token in shown.tokens] == tokenizer.encode(
        "low lower<|end|>", allowed_special="all"
    )
    assert [token.special for token in shown.tokens] == [False, False, True]
    assert len(shown) == 3
    assert str(tokenizer.show("é")) == "‹C3›|‹A9›", "parts of a character are bytes"
    assert str(tokenizer.show("")) == ""


def test_a_notebook_shows_text_and_runs_nothing_of_it(tokenizer: Tokenizer) -> None:
    page = tokenizer.show("<script>alert(1)</script>\n low")._repr_html_()
    assert "<script" not in page
    assert text_of(page).startswith("<script>alert(1)</script>⏎\n low")
    assert page.count("<span") == len(tokenizer.encode("<script>alert(1)</script>\n low"))
    long = tokenizer.show("x " * 3_000)._repr_html_()
    assert long.count("<span") == 2_000
    assert "more" in long


def test_every_token_has_its_colour_and_a_special_one_a_line_around_it(
    tokenizer: Tokenizer,
) -> None:
    page = tokenizer.show("low lower<|end|>", allowed_special="all")._repr_html_()
    styles = [
        dict(part.split(":", 1) for part in span.get("style", "").rstrip(";").split(";"))
        for span in ElementTree.fromstring(page).iter("span")
    ]
    assert [set(style) >= {"background", "white-space"} for style in styles] == [True] * 3
    assert len({style["background"] for style in styles}) == 3
    assert ["outline" in style for style in styles] == [False, False, True]


def test_a_notebook_shows_what_a_tokenizer_is(tokenizer: Tokenizer) -> None:
    page = text_of(tokenizer._repr_html_())
    for said in ("264", "byte-bpe", "gpt2", "<|end|>", tokenizer.digest[:16], "brown fox"):
        assert said in page


def test_evaluations_and_curves_show_themselves() -> None:
    texts = ["low lower lowest newest widest"] * 40
    tokenizer = train_bpe(count_texts(texts), 270)
    found = evaluate(tokenizer, texts)
    assert found.tokens == evaluate(tokenizer, [text.encode() for text in texts]).tokens
    assert repr(found).startswith(f"<CompressionReport: {found.bytes_per_token:.4f} bytes/token")
    said = text_of(found._repr_html_())
    for figure in (f"{found.tokens:,}", f"{found.bytes_per_token:.4f}", "40 documents"):
        assert figure in said
    assert found.curve == ((tokenizer.vocab_size, found.bytes_per_token),)
    assert repr(found.curve) == f"{tokenizer.vocab_size}: {found.bytes_per_token:.6g}"
    assert ElementTree.fromstring(found.curve._repr_html_()).tag == "svg"
    assert "svg" not in Curve()._repr_html_()
    parts = [EvaluationText(name, [b"low lower"] * 9) for name in ("<b>", "two")]
    suite, _ = evaluate_texts(tokenizer, {}, parts)
    assert "<b>" not in suite._repr_html_()
    assert "<b>" in text_of(suite._repr_html_())
    assert repr(suite).startswith("<Evaluation: all")


def test_it_is_called_and_has_a_length(tokenizer: Tokenizer) -> None:
    assert len(tokenizer) == tokenizer.vocab_size == 264
    assert tokenizer("low lower") == tokenizer.encode("low lower")
    assert tokenizer(["low", " lower"]) == tokenizer.encode_batch(["low", " lower"])
    ids = tokenizer.encode_to_numpy("low lower", dtype=np.int64)
    assert (ids.dtype, ids.tolist()) == (np.int64, tokenizer("low lower"))
    assert tokenizer.encode_to_numpy("low").dtype == np.uint32
    padded, mask = tokenizer.encode_padded(["low", ""], pad_id=0, dtype=np.int64)
    assert padded.dtype == np.int64
    assert mask.tolist() == [[True], [False]]


# Tables


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
