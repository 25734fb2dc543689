"""Exports and their certificates: read by their own programs, and refused when these differ."""

from __future__ import annotations

import json
import random
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unicodedata import category

import pytest
from kept_registry import KeptRegistry
from small_publications import publication_of

from bpeline.registry import export, load_tokenizer, publish_version
from bpeline.registry.certify import asking, native_readers
from bpeline.registry.certify.certificates import certificates_of, certify
from bpeline.registry.certify.sample_texts import _PIECES, certificate_texts
from bpeline.registry.exports.exporting import export_version
from bpeline.registry.loading.version_files import write_exports
from bpeline.registry.opening import Registry
from bpeline.registry.tracking.mlflow_runs import Runs
from bpeline.tokenizer_core.algorithms.character_bpe import train_char_bpe
from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.errors import (
    InvalidOption,
    InvalidTokenizer,
    RegistryUnreachable,
    WorkerLost,
    wrap_errors,
)
from bpeline.tokenizer_core.formats import gguf, huggingface
from bpeline.tokenizer_core.formats.known import format_named
from bpeline.tokenizer_core.splitting.regex_syntax import LETTERS_SINCE, unicode_version
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.training.bpe import train_bpe

pytestmark = pytest.mark.fake_mlflow

BYTE_LEVEL = {
    "bpeline": "bpeline",
    "hf": "tokenizers",
    "transformers": "transformers",
    "gpt2": "tokenizers",
    "tiktoken": "tiktoken",
    "gguf": "cyllama",
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
def library_in(tmp_path: Path) -> Callable[[str], Path]:
    """A folder with a library ``tokenizers`` 9.9 of this source text."""

    def make(program: str) -> Path:
        package = tmp_path / "own" / "tokenizers"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(textwrap.dedent(program))
        about = package.with_name("tokenizers-9.9.dist-info")
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tokenizers\nVersion: 9.9\n")
        return package.parent

    return make


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, empty_mlflow: Path) -> KeptRegistry:
    root = tmp_path_factory.mktemp("kept")

    def fill(registry: Registry) -> str:
        publication = publication_of(root / "made", b"the", b"and")
        publish_version(registry, publication)
        return publication.digest

    return KeptRegistry(root, empty_mlflow, fill)


@pytest.fixture
def news(kept: KeptRegistry, registry: Registry) -> str:
    """The digest of news/1."""
    return str(kept.filled)


PATTERNS = ["gpt2", "cl100k", "llama3", r"\p{L}+|\s+|."]
NAMED_BY_LLAMA_CPP = ["gpt2", "llama3"]  # of these


@pytest.mark.night
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
    assert certificate.equal >= both_ways
    names = {file.name for file in path.iterdir()} if path.is_dir() else {path.name}
    assert certificate.files.keys() == names
    assert certificate.version
    assert certificate.library


@pytest.mark.filterwarnings("ignore:characters that are in no merge")
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


def test_gguf_is_read_back_where_llama_cpp_is_not_installed(
    trained: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs("gguf", "gguf")
    monkeypatch.setattr(
        native_readers, "find_spec", lambda name: None if name == "cyllama" else find_spec(name)
    )
    trained.save(tmp_path / "x.gguf", "gguf")
    certificate = certify(trained, "gguf", tmp_path / "x.gguf")
    assert (certificate.library, certificate.unit, certificate.unequal) == ("gguf", "entries", 0)
    assert certificate.equal >= 400


@pytest.fixture(scope="module")
def tempting() -> tuple[list[str], Tokenizer]:
    """Texts, and a tokenizer whose merges cross every place where a pattern may cut them.

    With other merges a cut in another place mostly gives the same ids, and nobody sees it.
    """
    random_ = random.Random(11)
    known = [chr(point) for point in range(0x3000) if category(chr(point)) not in ("Cn", "Cs")]
    pieces = [*_PIECES, "~", "`", "^", "$", "+", "|", "=", "  a", "ab", "cde", " fg", "12345"]
    texts = [f"a{c} {c}b{c}{c}1{c}.{c}\n" for c in random_.sample(known, 1_200)]
    texts += ["".join(random_.choices(pieces, k=random_.randint(2, 6))) for _ in range(2_500)]
    counts = Counter(text.encode() for text in texts)
    counts.update((one + other).encode() for one in pieces for other in pieces)
    whole = train_bpe(
        WordCounts.from_mapping(counts, r"[\s\S]+"), 24_000, special_tokens=SPECIALS, min_count=1
    )
    return texts, whole


@pytest.mark.night
@pytest.mark.parametrize("pattern", gguf.PATTERNS)
def test_llama_cpp_cuts_where_the_pattern_does(
    tempting: tuple[list[str], Tokenizer], tmp_path: Path, pattern: str
) -> None:
    needs("gguf", "cyllama")
    texts, whole = tempting
    ignoring = gguf.PATTERNS[pattern] in gguf.TAKING_WHOLE
    tokenizer = Tokenizer(
        whole.vocab, whole.merges, whole.special_tokens, pattern, ignore_merges=ignoring
    )
    tokenizer.save(tmp_path / "x.gguf", "gguf")
    made = [*texts, "'ſaid"]
    reading = native_readers.native_reading(tokenizer, "gguf", tmp_path / "x.gguf", made)
    compared = list(reading.comparisons)
    assert len(compared) > 2 * len(texts)
    known = {"'ſ"} if gguf.differences(tokenizer) else set()
    otherwise = [what for what, ours, theirs in compared if ours != theirs]
    assert [what for what in otherwise if not any(one in what for one in known)] == []


@pytest.mark.parametrize(
    ("format_", "module"),
    [("hf", "tokenizers"), ("tiktoken", "tiktoken"), ("gguf", "cyllama")],
)
def test_a_program_with_older_tables_of_unicode_is_said_to_cut_newer_characters_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_: Any, module: str
) -> None:
    """Whether ``a`` and a letter are one pre-token is seen by a merge of both."""
    needs(format_, module)
    vocab = {i: bytes([i]) for i in range(256)} | {256: b"a\xf0"}
    tokenizer = Tokenizer(vocab, [(b"a", b"\xf0")], pattern="gpt2")
    tokenizer.save(tmp_path / "made", format_)
    certificate = certify(tokenizer, format_, tmp_path / "made")
    theirs, ours = certificate.library_unicode, certificate.pattern_unicode
    assert ours == unicode_version()
    assert "14.0" <= theirs <= ours
    texts = [f"a{letter}" for letter in LETTERS_SINCE.values()]
    made = native_readers.native_reading(tokenizer, format_, tmp_path / "made", texts).comparisons
    otherwise = [what[1:] for what, mine, other in made if mine != other]
    newer = [letter for since, letter in LETTERS_SINCE.items() if theirs < since <= ours]
    assert otherwise == newer
    said = [one for one in certificate.differences if f"knows Unicode {theirs}" in one]
    assert len(said) == bool(newer)
    assert all(f"U+{ord(newer[0]):04X}" in one for one in said)

    monkeypatch.setattr(native_readers, "newest_unicode", lambda letters: ours)
    same = certify(tokenizer, format_, tmp_path / "made")
    assert (same.library_unicode, same.differences) == (ours, ())


@pytest.mark.night
def test_what_is_said_to_be_read_otherwise_is(tmp_path: Path) -> None:
    needs("gguf", "cyllama")
    vocab = {i: bytes([i]) for i in range(256)} | {256: "ſ".encode(), 257: "ſa".encode()}
    merges = [("ſ".encode()[:1], "ſ".encode()[1:]), ("ſ".encode(), b"a")]
    tokenizer = Tokenizer(vocab, merges, pattern="qwen2")
    assert gguf.differences(tokenizer)
    tokenizer.save(tmp_path / "x.gguf", "gguf")
    certificate = certify(tokenizer, "gguf", tmp_path / "x.gguf", ["it'ſaid", "it's"])
    assert certificate.difference is not None
    assert (certificate.difference.ours[0], certificate.difference.theirs[0]) == (256, 257)
    with pytest.raises(InvalidTokenizer, match="cyllama"):
        certificate.require_equal()


def test_a_file_that_llama_cpp_does_not_read_is_not_checked(
    trained: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs("gguf", "cyllama")
    path = tmp_path / "x.gguf"
    trained.save(path, "gguf")
    path.write_bytes(path.read_bytes().replace(b"gpt-2", b"gpt-9"))
    certificate = certify(trained, "gguf", path)
    assert "cyllama " in str(certificate)
    assert (certificate.difference, certificate.equal) == (None, 0)
    monkeypatch.setattr(asking, "PATIENCE", 0.01)
    assert "within 0 seconds" in str(certify(trained, "gguf", path))


def test_an_export_that_no_process_can_read_is_not_checked(
    trained: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_python: Path
) -> None:
    path = tmp_path / "x.json"
    trained.save(path, "hf")
    assert str(without_python) in str(certify(trained, "hf", path))
    monkeypatch.setattr(sys, "executable", sys._base_executable)  # type: ignore[attr-defined]

    def refused(*_: object, **__: object) -> None:
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(asking.subprocess, "run", refused)
    with pytest.raises(WorkerLost):
        asking.ask("tokenizers", path, [], {})
    assert "no more processes" in str(certify(trained, "hf", path))


@pytest.mark.night
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
    differs = r"tokenizers.*' leading and trailing '.* 9\b"
    with pytest.raises(InvalidTokenizer, match=differs):
        export("news/1", tmp_path / "tokenizer.json", "hf")
    assert not (tmp_path / "tokenizer.json").exists()
    kept = tmp_path / "kept"
    tokenizer = load_tokenizer("news/1")
    tokenizer.save(kept)
    assert [path.name for path in write_exports(tokenizer, "news", kept)] == ["news.tiktoken"]
    assert not (kept / "tokenizer.json").exists()
    record = json.loads((kept / "certificate-hf.json").read_text())
    assert record["unequal"] > 0
    assert record["difference"]["ours"] != record["difference"]["theirs"]


@pytest.mark.night
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


@pytest.mark.night
def test_mlflow_shows_the_certificate_of_a_later_export_once(
    registry: Registry, news: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = registry.tracker.version("news", 1).mlflow_run_id  # type: ignore[union-attr]
    uploads = []

    def adding(runs: Runs, run_id: str, files: Any) -> None:
        uploads.append((run_id, *files))
        add(runs, run_id, files)

    add = Runs.add_files
    monkeypatch.setattr(Runs, "add_files", adding)
    for _ in range(2):
        export_version("news/1", tmp_path / "gpt2", "gpt2")
        export_version("news@candidate", tmp_path / "x.tiktoken", "tiktoken")
    assert uploads == [
        (run, "certificates/certificate-gpt2.json"),
        (run, "certificates/certificate-tiktoken.json"),
    ]
    client = registry.tracker._client
    shown = [one.path for one in client.list_artifacts(run, "certificates")]
    assert shown == [
        "certificates/certificate-gpt2.json", "certificates/certificate-tiktoken.json"
    ]  # fmt: skip

    def refusing(*_: Any) -> None:
        raise RegistryUnreachable("MLflow does not answer", "a server that does")

    monkeypatch.setattr(Runs, "add_files", refusing)
    again = export_version("news/1", tmp_path / "gpt2", "gpt2", texts=["more to compare"])
    assert "MLflow" in again.remark
    assert (tmp_path / "gpt2.certificate.json").read_bytes() == again.certificate.as_json()


def test_without_the_program_the_certificate_says_so(
    news: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bpeline.registry.certify.native_readers.find_spec", lambda name: None)
    certificate = export_version("news/1", tmp_path / "tokenizer.json", "hf").certificate
    assert str(certificate).startswith("not checked: tokenizers ")
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
    with pytest.raises(InvalidOption):
        export("news/1", tmp_path / "there", "hf")
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidOption):
        export("news/1", tmp_path / "file", "gpt2")
    assert (tmp_path / "file").read_text() == ""


@pytest.mark.parametrize(
    ("pattern", "format_", "reason"),
    [
        (r"(\w+\s?)+\d{5}", "hf", "PanicException: Onig: Regex search error"),
        ("(a{1,1000}){1,1000}", "tiktoken", "ValueError: Error compiling regex"),
    ],
)
def test_a_library_that_fails_checks_nothing_and_ends_nothing(
    pattern: str, format_: str, reason: str, tmp_path: Path
) -> None:
    needs(format_, BYTE_LEVEL[format_])
    counts = WordCounts.from_mapping({b"some": 3, b" words": 2}, pattern)
    tokenizer = train_bpe(counts, 260)
    path = tmp_path / "export"
    tokenizer.save(path, format_)
    certificate = certify(tokenizer, format_, path)
    assert reason in certificate.not_checked
    assert (certificate.equal, certificate.difference) == (0, None)


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import os; os.abort()", "tokenizers ended its process with -6"),
        ("raise SystemError('not today')", "tokenizers 9.9 failed: SystemError: not today"),
        (
            """
            class Tokenizer:
                from_file = staticmethod(lambda path: Tokenizer())
                def encode_batch(self, texts, **how): return []
            """,
            "tokenizers returned a wrong number of results",
        ),
    ],
)
def test_a_library_in_a_folder_of_its_own_ends_nothing_here(
    trained: Tokenizer, library_in: Callable[[str], Path], tmp_path: Path, program: str, reason: str
) -> None:
    path = tmp_path / "tokenizer.json"
    trained.save(path, "hf")
    certificate = certify(trained, "hf", path, folder=library_in(program))
    assert certificate.not_checked.startswith(reason)
    assert (certificate.equal, certificate.difference) == (0, None)
    trained.save(tmp_path / "x.tiktoken", "tiktoken")
    absent = certify(trained, "tiktoken", tmp_path / "x.tiktoken", folder=tmp_path / "empty")
    assert re.fullmatch(rf"tiktoken .* {tmp_path / 'empty'}", absent.not_checked)


def test_an_interruption_passes_the_fence() -> None:
    with pytest.raises(KeyboardInterrupt), wrap_errors("a library", "working"):
        raise KeyboardInterrupt
    with pytest.raises(MemoryError), wrap_errors("a library", "working"):
        raise MemoryError
