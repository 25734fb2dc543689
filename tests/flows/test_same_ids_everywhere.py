"""One megabyte of mixed text has the same ids however the registered version is opened."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import tiktoken
import tokenizers
from click.testing import Result
from tiktoken.load import load_tiktoken_bpe

from bpeline.registry import load_tokenizer
from bpeline.tokenizer_core.cache_directory import kept_below
from bpeline.tokenizer_core.formats.tiktoken import encoding_arguments

SCRIPTS = (
    "привет мир, сегодня хорошая погода; ",
    "中文分詞沒有空格，所以很長。",
    "日本語のテキストです。",
    "한국어 형태소 분석 ",
    "العربية من اليمين إلى اليسار ",
    "हिन्दी पाठ १२३ ",
    "ภาษาไทยไม่มีช่องว่าง",
    "naïve café — “quoted”… ",
    "🎉👩‍👩‍👧‍👦🇩🇪 ",
    "e\u0301\u0301 \u200d\ufe0f",
    "\u00a0\u3000\u2028\x85 ",
    "\t\tif x==1:\r\n",
    "   \n\n\n  ",
    "1234567890 ٣٤٥ Ⅷ² ",
    "don't we'll I'VE 'tis ",
)

PROGRAM = """
import array, sys, warnings
import mlflow
mlflow.set_tracking_uri(sys.argv[1])
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    model = mlflow.pyfunc.load_model("models:/mixed@candidate")
text = open(sys.argv[2], encoding="utf-8", newline="").read()
sys.stdout.buffer.write(array.array("I", model.predict([text])[0]).tobytes())
"""


@pytest.fixture(scope="module")
def mixed_text(english_and_code: str) -> str:
    """About 1 MB: English prose and code between lines of many scripts."""
    chosen = random.Random(7)
    pieces: list[str] = []
    for begin in range(0, 800_000, 500):
        pieces.append(english_and_code[begin : begin + 500])
        pieces.extend(chosen.choices(SCRIPTS, k=6))
    return "".join(pieces)


@pytest.mark.night
@pytest.mark.parametrize("pattern", ["gpt2", "cl100k"])
def test_every_way_to_open_a_version_gives_the_same_ids(
    pattern: str,
    mixed_text: str,
    corpus: Path,
    bpeline: Callable[..., Result],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    size = len(mixed_text.encode())
    assert size > 1_000_000
    (corpus / "mixed.txt").write_text(mixed_text[: len(mixed_text) // 2], encoding="utf-8")
    trained = bpeline(
        "train", corpus, "--name", "mixed", "--vocab-size", 3000, "--pattern", pattern,
        "--special-token", "<|endoftext|>",
    )  # fmt: skip
    assert trained.exit_code == 0, trained.output

    tokenizer = load_tokenizer("mixed@candidate")
    ids = tokenizer.encode(mixed_text)
    assert tokenizer.decode(ids) == mixed_text
    assert len(ids) < size / 2, "too few merges to tempt anybody"

    for format_name, target in (("hf", "tokenizer.json"), ("tiktoken", "mixed.tiktoken")):
        options = ("--format", format_name, "--output", tmp_path / target)
        assert bpeline("export", "mixed/1", *options).exit_code == 0

    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert theirs.encode(mixed_text).ids == ids

    arguments = encoding_arguments(tokenizer)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")  # it would keep a copy by path
    assert load_tiktoken_bpe(str(tmp_path / "mixed.tiktoken")) == arguments["mergeable_ranks"]
    encoding = tiktoken.Encoding("mixed", **arguments)
    assert encoding.encode_ordinary(mixed_text) == ids

    text = tmp_path / "text"
    text.write_text(mixed_text, encoding="utf-8", newline="")
    uri = f"sqlite:///{(Path.cwd() / '.bpeline' / 'mlflow.sqlite').absolute()}"
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, uri, str(text)],
        cwd=tmp_path / "prefect" if (tmp_path / "prefect").exists() else tmp_path,
        env={
            **os.environ,
            "HOME": str(tmp_path),
            "BPELINE_KERNEL_CACHE": kept_below(),
            "DO_NOT_TRACK": "true",
        },
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    loaded = list(memoryview(done.stdout).cast("I"))
    assert loaded == ids
