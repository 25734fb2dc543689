"""What mypy says to a program that uses the public interface: nothing, unless it is wrong."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROGRAM = ROOT / "tests/support/users_program.py"
WRONG = """
from bpeline import WordCounts, count_words, evaluate, load_tokenizer, train_bpe
from bpeline.flows.requests import TrainingRequest
from bpeline.flows.train_tokenizer import train_tokenizer
from bpeline.registry import list_versions

tokenizer = load_tokenizer("news@champion")
tokenizer.encode(7)
number: str = tokenizer.count("low")
ids: list[str] = tokenizer("low")
train_bpe(tokenizer, 600)
train_bpe(count_words(["a.txt"]), "600")
evaluate("news@champion", ["low"])
list_versions("news")[0].no_such_attribute
train_tokenizer.fn(TrainingRequest(paths=("a.txt",), name="news")).no_such_attribute
"""


@pytest.mark.night
def test_mypy_is_content_with_a_users_program_and_finds_what_is_wrong(tmp_path: Path) -> None:
    if not (ROOT / "build/types/bpeline").exists():
        subprocess.run(["make", "types"], cwd=ROOT, check=True, capture_output=True)
    wrong = tmp_path / "wrong.py"
    wrong.write_text(WRONG)
    # With the options of `make lint` and a copy of its cache: it has read all of the package.
    cache = tmp_path / "cache"
    if (ROOT / ".mypy_cache").exists():
        shutil.copytree(ROOT / ".mypy_cache", cache)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(cache)]
    checked = subprocess.run(
        [*command, str(PROGRAM), str(wrong)],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": "build/types"},
        capture_output=True,
        text=True,
        check=False,
    )
    errors = re.findall(r"^(.*?):(\d+): error: (.*)$", checked.stdout, re.MULTILINE)
    assert [one for one in errors if not one[0].endswith("wrong.py")] == [], checked.stdout
    lines = WRONG.splitlines()
    first = lines.index("tokenizer.encode(7)") + 1
    assert sorted({int(line) for _, line, _ in errors}) == [*range(first, len(lines) + 1)]


def test_the_program_uses_every_public_name() -> None:
    import bpeline
    from bpeline import registry

    text = PROGRAM.read_text("utf-8")
    for name in {*bpeline.__all__, *registry.__all__}:
        assert len(re.findall(rf"\b{name}\b", text)) >= 2, f"{name} is imported and used"
