"""Steps of algorithms on a page and in lines, from the command line; the page in a real browser."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from browser import browsing, installed_browser
from click.testing import Result

from bpeline.flows.cli.explain import as_words
from bpeline.tokenizer_core import Tokenizer, WordCounts, train_bpe, train_char_bpe
from bpeline.tokenizer_core.algorithms import compression_steps
from bpeline.tokenizer_core.errors import InvalidOption

Command = Callable[..., Result]
TOY = " ".join(["low"] * 5 + ["lower"] * 2 + ["newest"] * 6 + ["widest"] * 3)


def test_each_replacement_of_a_compression_is_printed(bpeline: Command, tmp_path: Path) -> None:
    (tmp_path / "toy").write_bytes(b"ABABCABCD")
    begin = ["compress", "toy", "--threshold", 2, "--show-steps", "--new-bytes", "HG"]
    printed = bpeline(*begin).stdout
    assert [line[9:] for line in printed.splitlines() if line.startswith("  block")] == [
        "ABABCABCD", "HHCHCD", "HGGD"
    ]  # fmt: skip
    assert "step 1: H = AB, which occurs 3 times" in printed
    assert "step 2: G = HC, which occurs 2 times" in printed
    told = json.loads(bpeline(*begin, "--json").stdout)
    assert [step["table"] for step in told] == [{}, {"H": "AB"}, {"H": "AB", "G": "HC"}]
    assert told[1]["pairs"] == {"HC": 2, "HH": 1, "CH": 1, "CD": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["toy"]  # nothing is written
    for wrong in (["--new-bytes", "AZ"], ["--new-bytes", "HH"], ["-o", "x"], ["--threshold", 1]):
        assert bpeline("compress", "toy", "--show-steps", *wrong).exit_code == 2
    assert bpeline("compress", "toy", "--new-bytes", "HG").exit_code == 2


def test_overlapping_pairs_are_said_to_overlap(bpeline: Command, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("aaaaa")  # four pairs, and two of them become a token
    command = ("compress", "a.txt", "--threshold", 2, "--show-steps", "--new-bytes", "H")
    assert "H = aa, which occurs 4 times, overlaps included" in bpeline(*command).stdout
    bpeline(*command[:4], "--html", "a.html", "--new-bytes", "H")
    assert "aa → H, 4 times, overlaps included" in (tmp_path / "a.html").read_text()
    command = ("train", "a.txt", "--algorithm", "char-bpe", "--merges", 1, "--show-steps")
    assert "a + a = aa, which occurs 4 times, overlaps included" in bpeline(*command).stdout


def test_steps_of_a_compression_are_counted_anew(seed: int) -> None:
    content = bytes(ord("a") + seed % 7 * i * i % 5 for i in range(400)) + b" \n\xff"
    for step, after in pairwise(compression_steps(content, 150, 3)):
        assert step.pairs == Counter(map("".join, pairwise(step.content)))
        if after.number:
            assert after.block == step.block
            assert after.content == step.content.replace(after.pair, after.code)
            assert after.count == step.pairs[after.pair] == max(step.pairs.values()) >= 3
    with pytest.raises(InvalidOption, match="too many"):
        next(compression_steps(b"a" * 10_001))
    assert [step.content for step in compression_steps(b"")] == [""]


def test_bytes_are_explained_as_other_words_are() -> None:
    counts = WordCounts.from_mapping({b"low": 5, b" lower": 2, "für".encode(): 4}, "gpt2")
    for word in as_words(train_bpe(counts, 266), "low für lowest"):
        assert word.steps[-1].symbols == word.tokens
        assert len(word.steps[0].symbols) == len(word.word) - 1


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    counts = WordCounts.from_mapping({b"low": 5, b"newest": 6, "лес".encode(): 14}, "whitespace")
    made = train_char_bpe(counts, 9)
    made.save(tmp_path / "made")
    return made


@pytest.mark.usefixtures("tokenizer")
def test_pages_are_written_beside_json_and_nothing_else_is_printed(
    bpeline: Command, tmp_path: Path
) -> None:
    (tmp_path / "toy.txt").write_text(TOY, encoding="utf-8")
    for command in (
        ["steps", "toy.txt", "--algorithm", "wordpiece", "--score", "likelihood"],
        ["compress", "toy.txt", "--threshold", "2"],
        ["explain", "made", "lowest </script><b>"],
    ):
        shown = bpeline(*command, "--html", "page.html")
        assert shown.exit_code == 0, shown.output
        assert shown.stdout == ""
        page = (tmp_path / "page.html").read_text(encoding="utf-8")
        assert page.count("<article class=frame") > 2
        assert "<b>" not in page.split("</header>")[1].split("<b>")[0]
        assert json.loads(bpeline(*command, "--html", "page.html", "--json").stdout)
    assert "&lt;/script&gt;" in page
    assert bpeline("explain", "made", "--id", 3, "--html", "page.html").exit_code == 2


@pytest.mark.night
def test_keys_step_through_a_page(bpeline: Command, tmp_path: Path) -> None:
    program = installed_browser()
    if program is None:
        pytest.skip("no browser of the Chromium family is installed")
    (tmp_path / "toy.txt").write_text(TOY, encoding="utf-8")
    begin = ["steps", "toy.txt", "--algorithm", "char-bpe", "--end-of-word", "_"]
    bpeline(*begin, "--html", "page.html")
    (tmp_path / "profile").mkdir()
    with browsing(program, tmp_path / "profile") as page:

        def pressed(key: str) -> str:
            page.run(f"document.dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}'}}))")
            return str(page.run("document.querySelector('.frame:not([hidden]) h2').innerText"))

        page.open(tmp_path / "page.html")
        assert not page.complaints
        assert page.run("document.querySelectorAll('.frame:not([hidden])').length") == 1
        assert pressed("ArrowLeft") == "Before the first merge"
        assert pressed("ArrowRight") == "Merge 1: e + s → es, 9 times"
        assert pressed("ArrowRight") == "Merge 2: es + t → est, 9 times"
        assert page.run("byId('place').innerText") == "3 of 11"
        assert pressed("End").startswith("Merge 10: w + i → wi")
        assert page.run("byId('on').disabled")
        assert pressed("Home") == "Before the first merge"
        page.run("byId('on').click()")
        assert "Merge 1" in page.text()
        assert "Merge 2" not in page.text()
        page.open(tmp_path / "page.html", scripts=False)
        assert not page.requests[1:]
        shown = page.call("DOM.getDocument", depth=-1)
        assert "hidden" not in json.dumps(shown["root"]["children"][-1]["attributes"])


@pytest.mark.usefixtures("tokenizer")
def test_a_token_of_characters_is_drawn_as_characters(bpeline: Command) -> None:
    drawn = bpeline("explain", "made", "--token", "лес</w>")
    assert drawn.exit_code == 0, drawn.output
    assert drawn.stdout.splitlines()[0].endswith("лес</w>")
    assert "└── " in drawn.stdout
    assert "rank" in drawn.stdout
    told = json.loads(bpeline("explain", "made", "--token", "лес</w>", "--json").stdout)
    assert told["trees"][0]["token"] == "лес</w>"
    assert [part["token"] for part in told["trees"][0]["parts"]]
    assert "no merge makes it" in bpeline("explain", "made", "--token", "л").stdout
    assert bpeline("explain", "made", "--id", 999).exit_code == 2
