"""Segmenters as split patterns: the segments of the library, wherever text is cut, or an error."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from segmented_texts import (
    CHINESE,
    JAPANESE,
    needs_jieba,
    needs_sudachi,
    segments_of,
    text_of,
)

from bpeline.tokenizer_core import count_words
from bpeline.tokenizer_core.corpus.reading import ReadOptions
from bpeline.tokenizer_core.errors import (
    BpelineError,
    InvalidInput,
    InvalidPattern,
    PatternExceedsLimit,
    SegmenterUnavailable,
)
from bpeline.tokenizer_core.splitting import pretokenization, segmenters
from bpeline.tokenizer_core.splitting.pretokenization import mark_pre_tokens, pre_tokens
from bpeline.tokenizer_core.splitting.regex_processes import Cutter, Limits, _workers, ask
from bpeline.tokenizer_core.splitting.segmenters import SEGMENTERS, parts_of_line
from bpeline.tokenizer_core.splitting.split_automaton import cut_pairs
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.training.bpe import train_bpe

NAMES = [
    pytest.param("jieba", marks=needs_jieba),
    pytest.param("jieba-no-hmm", marks=needs_jieba),
    pytest.param("sudachi", marks=needs_sudachi),
    pytest.param("sudachi-a", marks=needs_sudachi),
]
ONE_EACH = [NAMES[0], NAMES[2]]


def natural(name: str) -> tuple[str, ...]:
    return CHINESE if name.startswith("jieba") else JAPANESE


@pytest.fixture(scope="module", autouse=True)
def _end_processes() -> Iterator[None]:
    yield
    _workers.end_all()


@pytest.fixture(autouse=True)
def _forget_identities() -> Iterator[None]:
    segmenters._identity.cache_clear()
    yield
    segmenters._identity.cache_clear()


# The segments


@pytest.mark.night
@pytest.mark.parametrize("name", NAMES)
def test_pre_tokens_are_the_segments_of_the_library(name: str, fuzz_texts: list[str]) -> None:
    texts = [text_of(natural(name), 12, seed) for seed in range(60)] + fuzz_texts[:200]
    for text in texts:
        found = pre_tokens(text, name)
        assert "".join(found) == text
        assert found == segments_of(text, name), f"REPRO: {text!r}"


@pytest.mark.night
@needs_jieba
def test_words_beyond_the_dictionary_are_found_with_the_hmm_alone() -> None:
    text = "他来到了网易杭研大厦"
    assert pre_tokens(text, "jieba") == ["他", "来到", "了", "网易", "杭研", "大厦"]
    assert pre_tokens(text, "jieba-no-hmm") == ["他", "来到", "了", "网易", "杭", "研", "大厦"]


@pytest.mark.night
@needs_sudachi
def test_units_are_long_or_short() -> None:
    assert pre_tokens("国家公務員は", "sudachi") == ["国家公務員", "は"]
    assert pre_tokens("国家公務員は", "sudachi-a") == ["国家", "公務", "員", "は"]


@needs_sudachi
def test_lines_of_any_length_are_segmented() -> None:
    for text in ("ﷺ" * 5000, "漢字かな" * 5000, JAPANESE[0] * 800):
        assert "".join(pre_tokens(text, "sudachi")) == text


def test_long_lines_are_divided_behind_sentences_then_pauses_then_anywhere() -> None:
    assert list(parts_of_line("あい。うえ、お", 7)) == ["あい。うえ、お"]
    assert list(parts_of_line("あい。うえ、おか", 7)) == ["あい。", "うえ、おか"]
    assert list(parts_of_line("あい、うえおかき", 7)) == ["あい、", "うえおかき"]
    assert list(parts_of_line("あいうえおかきく", 7)) == ["あいうえおかき", "く"]
    assert list(parts_of_line("あ。」」」」」」」。」い", 7)) == ["あ。」」」」」", "」」。」い"]


# Where text may be cut


@pytest.mark.night
@pytest.mark.parametrize("name", ONE_EACH)
def test_text_cut_anywhere_legal_has_the_same_segments(name: str, fuzz_texts: list[str]) -> None:
    pairs = cut_pairs(SEGMENTERS[name].blocks)
    assert pairs is not None
    cuts = 0
    for text in [text_of(natural(name), 30, seed) for seed in range(8)] + fuzz_texts[:60]:
        content = text.encode()
        whole = pre_tokens(text, name)
        at = pairs.first(content, 1, len(content))
        while 0 < at < len(content):
            left, right = content[:at].decode(), content[at:].decode()
            assert pre_tokens(left, name) + pre_tokens(right, name) == whole, f"REPRO: {text!r}"
            cuts += 1
            at = pairs.first(content, at + 1, len(content))
    assert cuts > 50


@pytest.mark.night
@pytest.mark.parametrize("name", ONE_EACH)
def test_parts_in_several_processes_are_the_whole(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = Text.of(text_of(natural(name), 400).encode())
    half = text.bytes().index(b"\n", text.size // 2)
    spans = np.array([[0, half], [half, half], [half, text.size]])
    expected = mark_pre_tokens(text, spans, SplitPattern.named(name))
    for part in (1, 50, 1000):
        monkeypatch.setattr(pretokenization, "PART", part)
        assert (mark_pre_tokens(text, spans, SplitPattern.named(name)) == expected).all()
    with pytest.raises(IndexError):
        mark_pre_tokens(text, np.array([[0, text.size + 1]]), SplitPattern.named(name))


@pytest.mark.night
@pytest.mark.parametrize("name", ONE_EACH)
def test_files_are_counted_alike_in_chunks_of_any_size(name: str, tmp_path: Path) -> None:
    text = text_of(natural(name), 300)
    (tmp_path / "a.txt").write_bytes(text.encode())
    expected = Counter(segment.encode() for segment in segments_of(text, name))
    for chunk_bytes in (200, 3000, 1 << 20):
        counts = count_words(tmp_path / "a.txt", name, workers=2, chunk_bytes=chunk_bytes)
        assert counts.to_mapping() == expected


# Identity


@pytest.mark.parametrize("name", ONE_EACH)
def test_another_version_or_dictionary_is_another_pattern(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pattern = SplitPattern.named(name)
    record = json.loads(json.dumps(pattern.as_record()))
    assert SplitPattern.from_record(record) == pattern
    assert pattern.compiled_by.startswith("segmenter: ")
    before, reading = pattern.digest, ReadOptions(pattern).digest
    for attribute, replacement in (
        ("version", lambda _: "99.1"),
        ("_digest_of_files", lambda _: "0" * 64),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(segmenters, attribute, replacement)
            segmenters._identity.cache_clear()
            assert pattern.digest != before
            assert ReadOptions(pattern).digest != reading
            with pytest.raises(SegmenterUnavailable) as refused:
                SplitPattern.from_record(record)
            assert record["segmenter"] in refused.value.happened
            assert refused.value.accepted
            assert refused.value.next_step
        segmenters._identity.cache_clear()
    assert pattern.digest == before
    assert SplitPattern(pattern.regex).digest != before


def test_a_missing_segmenter_names_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(package: str) -> str:
        raise segmenters.PackageNotFoundError(package)

    monkeypatch.setattr(segmenters, "version", missing)
    for name, extra in (("jieba", "bpeline[chinese]"), ("sudachi", "bpeline[japanese]")):
        with pytest.raises(SegmenterUnavailable, match=name) as refused:
            SplitPattern.named(name)
        assert extra in refused.value.next_step
        record = {"name": name, "regex": SEGMENTERS[name].blocks, "digest": "0" * 64}
        with pytest.raises(SegmenterUnavailable, match=name):
            SplitPattern.from_record(record)


@needs_jieba
def test_a_process_with_another_version_gives_no_answer() -> None:
    other = SEGMENTERS["jieba"].identity.replace("jieba 0", "jieba 1")
    content = np.frombuffer(b"abc", np.uint8)
    with pytest.raises(SegmenterUnavailable, match="LookupError"):
        ask(Cutter(other, True, Limits()), content, np.array([[0, 3]]))


@needs_jieba
def test_a_segmenter_is_held_to_its_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pretokenization, "SEGMENTER_LIMITS", Limits(0.05, 0, 0, 4 << 30))
    _workers.end_all()
    with pytest.raises(PatternExceedsLimit, match="processor time"):
        pre_tokens(CHINESE[0] * 2000, "jieba")


@pytest.mark.night
@needs_jieba
def test_nothing_is_written_and_no_file_of_others_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jieba.cache").write_bytes(b"not a dictionary")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    _workers.end_all()
    assert pre_tokens("北京大学", "jieba") == ["北京大学"]
    assert [path.name for path in tmp_path.iterdir()] == ["jieba.cache"]


# Tokenizers


@pytest.mark.night
@pytest.mark.parametrize("name", ONE_EACH)
def test_a_tokenizer_over_segments_is_like_any_other(name: str, tmp_path: Path) -> None:
    text = text_of(natural(name), 300)
    (tmp_path / "a.txt").write_bytes(text.encode())
    counts = count_words(tmp_path / "a.txt", name, special_tokens=["<|end|>"])
    tokenizer = train_bpe(counts, 600, special_tokens=["<|end|>"])
    tokenizer.save(tmp_path / "saved")
    loaded = Tokenizer.load(tmp_path / "saved")
    assert loaded.digest == tokenizer.digest
    ids = loaded.encode(text)
    assert loaded.decode(ids) == text
    assert len(ids) < len(text)
    assert list(loaded.encode_iterable(text[i : i + 7] for i in range(0, len(text), 7))) == ids
    for most in (0, 1, 17, 400):
        prefix = loaded.truncate(text, most)
        assert text.startswith(prefix)
        assert loaded.count(prefix) <= most
    segments = [segment.encode() for segment in pre_tokens(text, name)]
    assert loaded.encoder.encode_words(segments)[0].tolist() == ids
    with pytest.raises(InvalidInput, match=f"'{name}'"):
        tokenizer.save(tmp_path / "tokenizer.json", "hf")
    with pytest.raises(InvalidPattern, match=f"'{name}'"):
        _ = tokenizer.pattern.regex_for_tiktoken


@pytest.mark.night
@needs_jieba
def test_a_tokenizer_is_not_loaded_without_its_segmenter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text(text_of(CHINESE, 100))
    train_bpe(count_words(tmp_path / "a.txt", "jieba"), 300).save(tmp_path / "saved")
    monkeypatch.setattr(segmenters, "version", lambda _: "0.40")
    segmenters._identity.cache_clear()
    with pytest.raises(BpelineError, match=r"jieba 0\.42\.1.*jieba 0\.40"):
        Tokenizer.load(tmp_path / "saved")
