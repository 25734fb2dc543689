"""Steps of algorithms in lines, from the command line."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import Result

from bpeline.flows.requests import CHOICES, SCORES
from bpeline.tokenizer_core import Tokenizer, WordCounts, train_char_bpe
from bpeline.tokenizer_core.algorithms import compression_steps
from bpeline.tokenizer_core.algorithms.visible_training import ALGORITHMS
from bpeline.tokenizer_core.algorithms.wordpiece import SCORE_NAMES
from bpeline.tokenizer_core.errors import InvalidOption

Command = Callable[..., Result]


def test_each_replacement_of_a_compression_is_printed(bpeline: Command, tmp_path: Path) -> None:
    (tmp_path / "toy").write_bytes(b"ABABCABCD")
    begin = ["compress", "toy", "--threshold", 2, "--show-steps", "--new-bytes", "HG"]
    printed = bpeline(*begin).stdout
    assert [line[9:] for line in printed.splitlines() if line.startswith("  block")] == [
        "ABABCABCD", "HHCHCD", "HGGD"
    ]  # fmt: skip
    assert re.search(r"^step 1: H = AB\b.*\b3\b", printed, re.MULTILINE)
    assert re.search(r"^step 2: G = HC\b.*\b2\b", printed, re.MULTILINE)
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
    assert re.search(r"H = aa\b.*\b4\b.*overlap", bpeline(*command).stdout)
    command = ("train", "a.txt", "--algorithm", "char-bpe", "--merges", 1, "--show-steps")
    assert re.search(r"a \+ a = aa\b.*\b4\b.*overlap", bpeline(*command).stdout)


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


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    counts = WordCounts.from_mapping({b"low": 5, b"newest": 6, "лес".encode(): 14}, "whitespace")
    made = train_char_bpe(counts, 9)
    made.save(tmp_path / "made")
    return made


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
    told = json.loads(bpeline("explain", "made", "--token", "л", "--json").stdout)
    assert "trees" not in told, "no merge makes it"
    assert bpeline("explain", "made", "--id", 999).exit_code == 2


def test_steps_of_a_file(bpeline: Callable[..., Result], tmp_path: Path) -> None:
    words = ["low"] * 5 + ["lower"] * 2 + ["newest"] * 6 + ["widest"] * 3
    (tmp_path / "toy.txt").write_text(" ".join(words), encoding="utf-8")
    options = ["toy.txt", "--algorithm", "char-bpe", "--end-of-word", "_", "--show-steps"]
    shown = bpeline("train", *options, "--json")
    made = [step["makes"] for step in json.loads(shown.stdout)]
    assert made == [None, "es", "est", "est_", "lo", "low", "ne", "new", "newest_", "low_", "wi"]
    printed = bpeline("train", *options, "--merges", 1).stdout
    assert "e + s = es" in printed
    assert printed.count("number of tokens") == 2
    assert [path.name for path in tmp_path.iterdir()] == ["toy.txt"]
    assert bpeline("train", "toy.txt", "--show-steps", "--merges", "-1").exit_code == 2
    assert bpeline("train", "nowhere.txt", "--show-steps").exit_code == 2


def test_the_choices_are_those_of_the_library() -> None:
    assert tuple(CHOICES) == ALGORITHMS
    assert tuple(SCORES) == SCORE_NAMES
