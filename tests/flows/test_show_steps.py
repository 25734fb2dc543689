"""``bpeline train --show-steps`` shows the example of the papers' readers from a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from bpeline.flows.requests import CHOICES, SCORES
from bpeline.tokenizer_core.algorithms.visible_training import ALGORITHMS
from bpeline.tokenizer_core.algorithms.wordpiece import SCORE_NAMES


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
