"""Frequency BPE beside the program that writes its three files, transcribed here independently."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from bpeline.flows.requests import TrainingRequest
from bpeline.registry.catalogue import as_asked
from bpeline.tokenizer_core import (
    Tokenizer,
    WordCounts,
    count_texts,
    count_words,
    train_bpe,
    train_frequency_bpe,
)
from bpeline.tokenizer_core.corpus import (
    ReadOptions,
    find_source_files,
    plan_chunk_groups,
    read_chunks,
    sources_of,
)
from bpeline.tokenizer_core.corpus import reading as corpus_reading
from bpeline.tokenizer_core.counting import count_chunk
from bpeline.tokenizer_core.errors import InvalidOption, InvalidPattern
from bpeline.tokenizer_core.splitting import pretokenization
from bpeline.tokenizer_core.word_encoding import explain_words

punkt = pytest.importorskip("nltk.tokenize.punkt")
wordpunct_tokenize = pytest.importorskip("nltk.tokenize").wordpunct_tokenize

MARKS = ["<line/>", "</line>", "<pad>", "<unk>"]
FILES = ["freqs.json", "vocab_to_idx.json", "idx_to_vocab.json"]


class Program:
    """Learns from files, writes three files, encodes a file."""

    def __init__(self, paths: list[Path], least: int, merges: int) -> None:
        self._sentences = punkt.PunktSentenceTokenizer().tokenize
        words: Counter[str] = Counter()
        for path in paths:
            for sentence in self._sentences(path.read_text(encoding="utf-8-sig")):
                words.update(wordpunct_tokenize(sentence))
        cut = {" ".join([*w, "</w>"]): n for w, n in words.items() if n >= least}
        merged: Counter[str] = Counter()
        for _ in range(merges):
            pairs: Counter[tuple[str, str]] = Counter()
            for word, count in cut.items():
                symbols = word.split()
                for place in range(len(symbols) - 1):
                    pairs[symbols[place], symbols[place + 1]] += count
            if not pairs:
                break
            best, times = max(pairs.items(), key=lambda one: one[1])
            merged["".join(best)] += times
            cut = {self._merged(word.split(), best): count for word, count in cut.items()}
        self.freqs: dict[str, int] = {}
        for word in cut:
            for symbol in word.split(" "):
                self.freqs[symbol] = self.freqs.get(symbol, 0) + 1
        for mark in MARKS:
            self.freqs[mark] = self.freqs.get(mark, 0) + 1
        ordered = sorted(self.freqs, key=lambda symbol: self.freqs[symbol], reverse=True)
        self.ids = {symbol: id_ for id_, symbol in enumerate(ordered)}
        self.freqs.update(merged)

    @staticmethod
    def _merged(symbols: list[str], pair: tuple[str, str]) -> str:
        place = 0
        while place < len(symbols) - 1:
            if (symbols[place], symbols[place + 1]) == pair:
                symbols[place : place + 2] = ["".join(pair)]
            place += 1
        return " ".join(symbols)

    def save(self, directory: Path) -> None:
        listed = {id_: symbol for symbol, id_ in self.ids.items()}
        for name, value in zip(FILES, (self.freqs, self.ids, listed), strict=True):
            content = json.dumps(value, indent=4, ensure_ascii=False)
            (directory / name).write_text(content, encoding="utf-8")

    def symbols(self, word: str) -> list[str]:
        symbols = [*word, "</w>"]
        while True:
            found = {
                place: self.freqs[joined]
                for place in range(len(symbols) - 1)
                if (joined := symbols[place] + symbols[place + 1]) in self.freqs
            }
            if not found:
                return symbols
            place = max(found, key=found.__getitem__)
            symbols[place : place + 2] = ["".join(symbols[place : place + 2])]

    def encode(self, path: Path) -> list[int]:
        ids = []
        for sentence in self._sentences(path.read_text(encoding="utf-8-sig")):
            if len(sentence) > 1:
                cut = [s for word in wordpunct_tokenize(sentence) for s in self.symbols(word)]
                cut = [MARKS[0], *cut, MARKS[1]]
                ids += [self.ids.get(symbol, self.ids[MARKS[3]]) for symbol in cut]
        return ids


def text_of(random: Random) -> str:
    words = ["".join(random.choices("abcdeéж中", k=random.randint(1, 6))) for _ in range(40)]
    ends = [" ", " ", " ", ", ", ". ", "! ", ".\n", "? x ", "\n\n", '!"* ', ".) -- ", " J. A"]
    parts = [random.choice(words) + random.choice(ends) for _ in range(random.randint(5, 250))]
    return random.choice(["", "\ufeff"]) + "".join(parts) + random.choice(["", " ?", " . x"])


@pytest.fixture
def cases(seed: int, tmp_path: Path) -> list[tuple[Path, int, int]]:
    random, made = Random(seed), []
    for number in range(30):
        path = tmp_path / f"{number}.txt"
        path.write_text(text_of(random), encoding="utf-8")
        made.append((path, random.choice([1, 1, 2]), random.randint(0, 40)))
    path = tmp_path / "hello.txt"
    path.write_text("\ufeffHello World , Hey Wow", encoding="utf-8")
    return [*made, (path, 1, 5)]


def test_files_and_ids_are_those_of_the_program(
    cases: list[tuple[Path, int, int]], tmp_path: Path
) -> None:
    dropped = unnamed = 0
    for number, (path, least, merges) in enumerate(cases):
        program = Program([path], least, merges)
        train = partial(
            train_frequency_bpe,
            words_counted(path),
            merges,
            min_word_count=least,
            min_sentence_characters=2,
        )
        trained, bare = train(), train(parts="none")
        here, there = tmp_path / f"here{number}", tmp_path / f"there{number}"
        there.mkdir()
        trained.save(here, "frequency-bpe")
        program.save(there)
        ours, theirs = ([json.loads((d / f).read_text()) for f in FILES] for d in (here, there))
        assert list(ours[0].items()) == list(theirs[0].items())
        # The first ids are the program's; what it has none for comes after them.
        assert list(ours[1].items())[: len(theirs[1])] == list(theirs[1].items())
        assert {*ours[1]} - {*theirs[1]} <= {*theirs[0], *path.read_text(), "</w>"}
        others, _, _ = cases[(number + 1) % len(cases)]
        loaded = Tokenizer.load(
            there, "frequency-bpe", algorithm=trained.algorithm, pattern="wordpunct"
        )
        assert {t.decode(): id_ for id_, t in loaded.vocab.items()} == program.ids
        assert bare.digest == loaded.digest  # without ids for parts
        for source in (path, others):
            text = source.read_text(encoding="utf-8")
            expected = program.encode(source)
            assert loaded.encode(text) == expected
            # Trained here, nothing but what the corpus lacks is unknown.
            names = {id_: token.decode() for id_, token in trained.vocab.items()}
            ids = [id_ if names[id_] in program.ids else program.ids["<unk>"]
                   for id_ in trained.encode(text)]  # fmt: skip
            assert ids == expected
            unnamed += ids != trained.encode(text)
            plain = train_frequency_bpe(count_words(path, "wordpunct"), 0, word_sentences="text")
            dropped += plain.encode(text).count(plain.token_to_id("<line/>")) != expected.count(
                program.ids["<line/>"]
            )
        words = "".join(c for c in path.read_text() if c.isalnum() or c == " ").split()[:9]
        for word in explain_words(loaded, " ".join(words)):
            steps = word.steps[-1].symbols if word.steps else (*word.word, "</w>")
            assert list(steps) == program.symbols(word.word)
    assert dropped > 3
    assert unnamed > 3


def words_of(path: Path) -> Counter[str]:
    """The words of the program, which cuts sentences first."""
    sentences = punkt.PunktSentenceTokenizer().tokenize(path.read_text(encoding="utf-8-sig"))
    return Counter(word for sentence in sentences for word in wordpunct_tokenize(sentence))


def words_counted(path: Path) -> WordCounts:
    return count_words(path, "wordpunct", sentences="punkt")


def counted(counts: WordCounts) -> Counter[str]:
    return Counter({word.decode(): count for word, count in counts.items()})


@pytest.mark.parametrize("few", [pretokenization._FEW_BYTES, 200])  # few bytes, or by processes
def test_words_are_counted_within_sentences(
    few: int, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pretokenization, "_FEW_BYTES", few)
    monkeypatch.setattr(pretokenization, "PART", 300)
    monkeypatch.setattr(corpus_reading, "SECTION_BYTES", 50)
    random, differ, cut = Random(seed), 0, 0
    path = tmp_path / "a.txt"
    for text in ('"Stop!"* He left.', " \n", *(text_of(random) * 3 for _ in range(12))):
        path.write_text(text, encoding="utf-8")
        expected = words_of(path)
        if not expected:
            continue
        differ += expected != counted(count_words(path, "wordpunct"))
        for chunk_bytes in (1, 400, 4 << 20):
            counts = count_words(path, "wordpunct", chunk_bytes=chunk_bytes, sentences="punkt")
            assert counted(counts) == expected
        given = path.read_text(encoding="utf-8-sig")
        assert counted(count_texts([given], "wordpunct", sentences="punkt")) == expected
        # Chunks and parts that are held out end where sentences do.
        reading = ReadOptions(counts.pattern, held_out=0.3)
        seen: Counter[str] = Counter()
        for group in plan_chunk_groups(find_source_files(sources_of([path])), 400):
            for chunk, content in read_chunks(group, reading, 400):
                shares = count_chunk(chunk, content, reading)
                seen += counted(shares.counts)
                cut += len(shares.held_out)
                for part in shares.held_out:
                    if part.strip():
                        seen += counted(count_texts([part], counts.pattern))
        assert seen == expected
    assert differ > 5
    assert cut > 10


@pytest.fixture
def nltk_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """NLTK's only data directory, with tables for ``english`` that NLTK trained and wrote."""
    data = importlib.import_module("nltk.data")
    monkeypatch.setattr(data, "path", [str(tmp_path)])
    trainer = punkt.PunktTrainer()
    trainer.INCLUDE_ALL_COLLOCS = True
    trainer.train("Dr. Low met Mr. Low, e.g. at noon. The low met Dr. New. " * 40, finalize=False)
    directory = tmp_path / "tokenizers/punkt_tab/english"
    directory.parent.mkdir(parents=True, mode=0o700)
    parameters = trainer.get_params()
    parameters.abbrev_types |= {"mr", "e.g"}
    punkt.save_punkt_params(parameters, str(directory))
    return tmp_path


def test_trained_punkt_becomes_part_of_the_version(
    nltk_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, text = (
        tmp_path / "a.txt",
        "Mr.* Low saw Dr. New! The low, e.g.* Low, sat.* He left. " * 99,
    )
    path.write_text(text, encoding="utf-8")
    english = punkt.PunktTokenizer("english")
    expected = Counter(w for s in english.tokenize(text) for w in wordpunct_tokenize(s))
    directory = nltk_data / "tokenizers/punkt_tab/english"
    for asked in ("punkt:english", f"punkt:{directory}"):
        for few in (10, 1 << 20):
            monkeypatch.setattr(pretokenization, "_FEW_BYTES", few)
            counts = count_words(path, "wordpunct", chunk_bytes=300, sentences=asked)
            assert counted(counts) == expected != words_of(path)
    with pytest.raises(InvalidOption, match="punkt:"):
        train_frequency_bpe(counts, 3)  # by the untrained one
    trained = train_frequency_bpe(counts, 3, sentences="punkt:english")
    assert trained.digest != train_frequency_bpe(words_counted(path), 3).digest
    trained.save(tmp_path / "kept")
    trained.save(tmp_path / "files", "frequency-bpe")
    shutil.rmtree(nltk_data / "tokenizers")
    for kept in ("kept", "files"):
        again = Tokenizer.load(tmp_path / kept)
        assert again.digest == trained.digest
        assert again.encode(text).count(again.token_to_id("<line/>")) == len(english.tokenize(text))
    with pytest.raises(InvalidOption, match="'english'") as refused:
        count_words(path, "wordpunct", sentences="punkt:english")
    assert "python -m nltk.downloader punkt_tab" in refused.value.next_step


@pytest.mark.parametrize("sentences", ["punkt:english", "punkt:/nowhere", "punkt:", "words"])
def test_what_finds_no_sentences_is_refused_before_anything_is_read(
    sentences: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.import_module("nltk.data"), "path", [str(tmp_path)])
    asked = {"paths": ["/nowhere.txt"], "name": "a", "algorithm": "frequency-bpe"}
    with pytest.raises(InvalidOption, match=sentences.removeprefix("punkt:") or sentences):
        TrainingRequest.checked(**asked, options={"sentences": sentences})
    monkeypatch.setitem(sys.modules, "nltk.tokenize.punkt", None)
    with pytest.raises(InvalidOption, match="NLTK"):
        TrainingRequest.checked(**asked)


def test_requests_of_before_mean_the_words_of_the_whole_text() -> None:
    asked: dict[str, Any] = {"paths": ["a.txt"], "name": "a", "algorithm": "frequency-bpe"}
    new = TrainingRequest.checked(**asked)
    assert new.reading.pattern.sentences is not None
    old = {**new.as_config(), "options": {}}
    former = TrainingRequest.checked(**as_asked(old))
    assert former.reading.pattern.sentences is None
    assert TrainingRequest.checked(**as_asked(new.as_config())) == new
    assert not new.same_as(as_asked(old))
    assert former.same_as(as_asked(old))
    lines = TrainingRequest.checked(**asked, options={"sentences": "lines"})
    assert lines.reading.digest == former.reading.digest
    assert as_asked(lines.as_config()) == lines.as_config()


def test_counts_of_other_words_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text('"Stop!"* He left.', encoding="utf-8")
    within = count_words(path, "wordpunct", sentences="punkt")
    whole = count_words(path, "wordpunct")
    trained = train_frequency_bpe(within, 30)
    assert trained.pattern == whole.pattern != within.pattern
    assert within.digest != whole.digest
    assert "!</w>" in [token.decode() for token in trained.vocab.values()]
    former = train_frequency_bpe(whole, 30, word_sentences="text")
    assert '!"*</w>' in dict(former.algorithm.frequencies)
    for counts, how in (
        (whole, {}),
        (within, {"word_sentences": "text"}),
        (within, {"sentences": "lines"}),
        (WordCounts.from_mapping({b"low": 1}), {}),
    ):
        with pytest.raises(InvalidOption, match="sentences"):
            train_frequency_bpe(counts, 3, **how)
    with pytest.raises(InvalidPattern, match="'wordpunct'"):
        train_bpe(within, 300)


def test_lines_of_one_character_are_left_out_and_nonsense_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("ab ab\nж\n\nab", encoding="utf-8")
    counts = count_words(path, "wordpunct")
    made = train_frequency_bpe(counts, 3, sentences="lines", min_sentence_characters=2)
    assert made.decode(made.encode(path.read_text())) == "ab ab\nab"
    made.save(tmp_path / "kept")
    again = Tokenizer.load(tmp_path / "kept")
    assert again.digest == made.digest
    assert again.encode("ж\nab") == made.encode("ab")
    assert made.digest != train_frequency_bpe(counts, 3, sentences="lines").digest
    for kind, least in (("none", 2), ("lines", 0)):
        with pytest.raises(InvalidOption, match="min_sentence_characters"):
            train_frequency_bpe(counts, 3, sentences=kind, min_sentence_characters=least)  # type: ignore[arg-type]
