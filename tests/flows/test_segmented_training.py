"""Byte-level BPE over a segmenter's words goes the whole way, like any other split pattern."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from segmented_texts import CHINESE, JAPANESE, needs_jieba, needs_sudachi, text_of

from bpeline.registry import load_tokenizer
from bpeline.tokenizer_core.splitting import segmenters

Command = Callable[..., Result]


@pytest.mark.parametrize(
    ("name", "sentences"),
    [
        pytest.param("jieba", CHINESE, marks=needs_jieba),
        pytest.param("sudachi", JAPANESE, marks=[needs_sudachi, pytest.mark.night]),
    ],
)
def test_train_register_load_compare_encode(
    name: str,
    sentences: tuple[str, ...],
    bpeline: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    corpus = tmp_path / "text"
    corpus.mkdir()
    for number in range(3):
        text = text_of(sentences, 400, number) + "\n"
        (corpus / f"{number}.txt").write_bytes(text.encode())
    train = ("train", str(corpus), "--vocab-size", "500", "--held-out", "0.1", "--json")
    said = bpeline(*train, "--name", "cut", "--pattern", name)
    assert said.exit_code == 0, said.output
    assert bpeline(*train, "--name", "cut", "--pattern", "gpt2").exit_code == 0
    summary = json.loads(said.stdout)
    assert summary["metrics"]["evaluated/roundtrip_failures"] == 0
    assert summary["held_out"]

    again = json.loads(bpeline(*train, "--name", "cut", "--pattern", name).stdout)
    assert again["digest"] == summary["digest"]
    assert again["chunks_reused"] == again["chunks"]
    tokenizer = load_tokenizer("cut/1")
    ids = tokenizer.encode(sentences[0])
    assert tokenizer.decode(ids) == sentences[0]
    needed = [path.read_text() for path in Path().glob(".bpeline/**/requirements.txt")]
    assert [name in text.lower() for text in needed].count(True) == 1  # of jieba, and of gpt2

    compared = bpeline("compare", "cut/1", "cut/2", "--json")
    assert compared.exit_code == 0, compared.output
    assert name in compared.stdout
    shards = bpeline("encode", "cut/1", str(corpus), "-o", str(tmp_path / "ids"), "--json")
    assert shards.exit_code == 0, shards.output
    texts = [path.read_bytes().decode() for path in sorted(corpus.iterdir())]
    assert json.loads(shards.stdout)["tokens"] == sum(len(tokenizer.encode(one)) for one in texts)

    # Another version of the program cuts otherwise: counts are made anew, the old one is refused.
    monkeypatch.setattr(segmenters, "version", lambda _: "99.1")
    segmenters._identity.cache_clear()
    refused = bpeline("encode", "cut/1", sentences[0])
    segmenters._identity.cache_clear()
    assert refused.exit_code != 0
    assert "99.1" in refused.output
