"""Exports and their certificates: read by their own programs, and refused when these differ."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from registry import export, load_tokenizer, publish_version
from registry.artifacts import write_exports
from registry.certificate_texts import certificate_texts
from registry.certificates import certificates_of, certify
from registry.exporting import export_version
from registry.opening import Registry
from registry.publication import Publication
from tokenizer_core.errors import InvalidOption, InvalidTokenizer
from tokenizer_core.formats import format_named, huggingface
from tokenizer_core.tokenizer import Tokenizer
from tokenizer_core.trainers.bpe import train_bpe
from tokenizer_core.trainers.characters import train_char_bpe
from tokenizer_core.word_counts import WordCounts

BYTE_LEVEL = {
    "bpeline": "tokenizer_core",
    "hf": "tokenizers",
    "transformers": "transformers",
    "gpt2": "tokenizers",
    "tiktoken": "tiktoken",
    "gguf": "gguf",
}
WORDS = {"low": 9, "lower": 5, "newest": 7, "widest": 4, "don't": 3, "naïve": 6, "3.14": 2}
SPECIALS = ["<|endoftext|>", "<|pad|>"]


def needs(format_: str, module: str) -> None:
    if find_spec(module) is None:
        pytest.skip(f"{module}, which reads {format_}, is not installed")


@pytest.fixture(scope="module")
def trained() -> Tokenizer:
    words = {f" {word}".encode(): count for word, count in WORDS.items()}
    return train_bpe(WordCounts.from_mapping(words), 290, special_tokens=SPECIALS)


@pytest.fixture
def news(registry: Registry, made: Callable[..., Publication]) -> str:
    publication = made(b"the", b"and")
    publish_version(registry.workspace, registry.catalogue, registry.tracker, publication)
    return publication.digest


PATTERNS = ["gpt2", "cl100k", "llama3", r"\p{L}+|\s+|."]
NAMED_BY_LLAMA_CPP = ["gpt2", "llama3"]  # of these


@pytest.mark.parametrize(
    ("format_", "pattern"),
    [
        (format_, pattern)
        for format_ in BYTE_LEVEL
        for pattern in (NAMED_BY_LLAMA_CPP if format_ == "gguf" else PATTERNS)
    ],
)
def test_byte_level_exports_are_read_alike(
    trained: Tokenizer, tmp_path: Path, format_: Any, pattern: str
) -> None:
    needs(format_, BYTE_LEVEL[format_])
    tokenizer = Tokenizer(trained.vocab, trained.merges, trained.special_tokens, pattern)
    path = tmp_path / "made"
    tokenizer.save(path, format_)
    certificate = certify(tokenizer, format_, path, ["lower newest <|endoftext|> widest"])
    assert certificate.difference is None
    assert (certificate.unequal, certificate.not_checked) == (0, "")
    texts = certificate_texts(tokenizer, ["lower newest <|endoftext|> widest"])
    both_ways = len(texts) * (1 if format_ == "bpeline" else 2)
    assert certificate.equal >= 400 if format_ == "gguf" else certificate.equal >= both_ways
    names = {file.name for file in path.iterdir()} if path.is_dir() else {path.name}
    assert certificate.files.keys() == names
    assert certificate.version
    assert certificate.library


@pytest.mark.parametrize(
    ("format_", "module", "joined"),
    [("subword-nmt", "subword_nmt", False), ("subword-nmt", "subword_nmt", True),
     ("sentencepiece", "sentencepiece", False)],
)  # fmt: skip
def test_character_level_exports_are_read_alike(
    tmp_path: Path, format_: Any, module: str, joined: bool
) -> None:
    needs(format_, module)
    words = {word.encode(): count for word, count in WORDS.items()}
    counts = WordCounts.from_mapping(words, "whitespace")
    tokenizer = train_char_bpe(counts, 25, joined=joined)
    tokenizer.save(tmp_path / "made.model", format_)
    certificate = certify(tokenizer, format_, tmp_path / "made.model", ["lower  newest\twider low"])
    assert certificate.difference is None
    assert certificate.equal >= 40


def test_a_file_that_its_program_reads_otherwise_is_not_written(
    news: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = huggingface.save

    def forget_a_merge(tokenizer: Tokenizer, path: Path) -> None:
        save(tokenizer, path)
        document = json.loads(path.read_text())
        document["model"]["merges"].pop()
        path.write_text(json.dumps(document))

    monkeypatch.setattr(format_named("hf"), "save", forget_a_merge)
    differs = r"tokenizers .* of .* texts otherwise, the first ' leading and trailing ': at 9"
    with pytest.raises(InvalidTokenizer, match=differs) as caught:
        export("news/1", tmp_path / "tokenizer.json", "hf")
    assert "nothing was written" in caught.value.accepted
    assert not (tmp_path / "tokenizer.json").exists()
    kept = tmp_path / "kept"
    tokenizer = load_tokenizer("news/1")
    tokenizer.save(kept)
    assert [path.name for path in write_exports(tokenizer, "news", kept)] == ["news.tiktoken"]
    assert not (kept / "tokenizer.json").exists()
    record = json.loads((kept / "certificate-hf.json").read_text())
    assert record["unequal"] > 0
    assert record["difference"]["ours"] != record["difference"]["theirs"]


def test_the_certificate_lies_beside_the_export_and_with_the_version(
    registry: Registry, news: str, tmp_path: Path
) -> None:
    written = export_version("news@candidate", tmp_path / "tokenizer.json", "hf", texts=["the end"])
    beside = json.loads((tmp_path / "tokenizer.json.certificate.json").read_text())
    directory = registry.workspace.version_directory(news)
    assert json.loads((directory / "certificate-hf.json").read_text()) == beside
    assert (beside["tokenizer"], beside["unequal"], beside["difference"]) == (news, 0, None)
    assert beside["library"] == "tokenizers"
    assert certificates_of(directory)["hf"] == str(written.certificate)
    assert "alike" in str(written.certificate)
    (directory / "certificate-hf.json").write_text("{")
    assert "hf" not in certificates_of(directory)
    smaller = export_version("news/1:257", tmp_path / "small", "gpt2")
    assert smaller.certificate.tokenizer == load_tokenizer("news/1:257").digest
    assert not (directory / "certificate-gpt2.json").exists()
    copied = export_version(directory, tmp_path / "copy", "bpeline")
    assert copied.certificate.unequal == 0
    assert Tokenizer.load(tmp_path / "copy").digest == news


def test_without_the_program_the_certificate_says_so(
    news: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("registry.native_readers.find_spec", lambda name: None)
    certificate = export_version("news/1", tmp_path / "tokenizer.json", "hf").certificate
    assert str(certificate) == "not checked: tokenizers is not installed"
    assert (certificate.equal, certificate.library) == (0, "")
    assert (tmp_path / "tokenizer.json").exists()


def test_texts_are_the_same_for_the_same_tokenizer(trained: Tokenizer) -> None:
    texts = certificate_texts(trained, ["own"])
    assert texts == certificate_texts(trained, ["own"])
    assert "own" in texts
    assert any("<|endoftext|>" in text for text in texts)
    assert " newest" in texts, "a token alone"
    assert len(texts) > 1_000


def test_a_file_and_a_directory_are_not_confused(news: str, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(InvalidOption, match="is there already"):
        export("news/1", tmp_path / "there", "hf")
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidOption, match="is there already"):
        export("news/1", tmp_path / "file", "gpt2")
    assert (tmp_path / "file").read_text() == ""
