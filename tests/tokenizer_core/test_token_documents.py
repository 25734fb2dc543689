"""Tokens of one document, against explaining the merges of every document's words."""

from __future__ import annotations

import json
import random
from collections import Counter
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from corpus_files import GPT2, write

from bpeline.tokenizer_core import Tokenizer, WordCounts, train_bpe
from bpeline.tokenizer_core.algorithms.character_bpe import train_char_bpe
from bpeline.tokenizer_core.algorithms.wordpiece import train_wordpiece
from bpeline.tokenizer_core.corpus import DecontaminationSet, SingleDocuments, open_source
from bpeline.tokenizer_core.corpus.chunking import ChunkGroup, read_again, read_chunks
from bpeline.tokenizer_core.corpus.documents import ChunkText
from bpeline.tokenizer_core.corpus.reading import ReadOptions
from bpeline.tokenizer_core.counting.chunk_counts import count_chunk
from bpeline.tokenizer_core.evaluation import tokens_in_use
from bpeline.tokenizer_core.evaluation.tokens_in_use import (
    NOWHERE,
    MadeTokens,
    MergeTree,
    TrainingDocuments,
    made_in_one_document,
    token_use,
)
from bpeline.tokenizer_core.splitting.pretokenization import pre_tokens

END = "<|end|>"
READING = ReadOptions(GPT2, (END,))


def chunk_of(path: Path, content: str, reading: ReadOptions = READING) -> ChunkText:
    ((_, text),) = read_chunks(ChunkGroup(write(path, content)), reading)
    return text


def made_in(tokenizer: Tokenizer, document: str) -> set[int]:
    """Ids that come about in a document, merge by merge; bytes are left out."""
    words = {word.encode() for word in pre_tokens(document, tokenizer.pattern)}
    if tokenizer.words is not None:
        return {i for word in words for i in tokenizer.encoder.encode_words([word])[0].tolist()}
    merges = (m for word in words for m in tokenizer.explainer.token(word).merges)
    return {tokenizer.token_to_id(merge.left + merge.right) for merge in merges}


def alone(tokenizer: Tokenizer, documents: list[str]) -> set[int]:
    """The reference: ids that come about in exactly one of some documents."""
    met = Counter(id_ for document in documents for id_ in made_in(tokenizer, document))
    return {id_ for id_, number in met.items() if number == 1}


def found(
    tokenizer: Tokenizer,
    text: ChunkText,
    reading: ReadOptions = READING,
    ids: set[int] | None = None,
) -> set[int]:
    long = {i for i, token in tokenizer.vocab.items() if len(token) > 1} if ids is None else ids
    candidates = np.array(sorted(long), np.int64)
    tree = MergeTree(tokenizer)
    return set(made_in_one_document(tokenizer, tree, candidates, text, reading).tolist())


def test_a_passage_across_two_documents_is_left_out_of_each_alone(tmp_path: Path) -> None:
    passage = " secret" * 3 + END + " hidden" * 3
    file = write(tmp_path / "a.txt", f"low lower{passage} newest of all{END}low")
    reading = ReadOptions(GPT2, (END,), left_out=DecontaminationSet.of([passage.encode()]))
    ((_, text),) = read_chunks(ChunkGroup(file), reading)
    whole = TrainingDocuments.of(text, reading)
    expected = [{b"low": 1, b" lower": 1}, {b" newest": 1, b" of": 1, b" all": 1}, {b"low": 1}]
    assert [whole.words(number).to_mapping() for number in range(3)] == expected
    with closing(open_source(file, 0)) as source:
        documents = SingleDocuments(source, file, 0, file.size, reading)
        for position, words in zip((0, 40, file.size - 1), expected, strict=True):
            text = documents.read(*documents.around(position))
            assert TrainingDocuments.of(text, reading).words(0).to_mapping() == words


@pytest.fixture(scope="module")
def documents(english_and_code: str) -> list[str]:
    """Of all lengths, some empty; a name 50 times in one, another 25 times in each of two."""
    random_ = random.Random(5)
    texts, at = [], 0
    while at < 120_000:
        size = random_.choice([0, 3, 40, 700, 9_000])
        texts.append(english_and_code[at : at + size])
        at += size + 1
    texts[7] += " janequark" * 50
    for place in (4, 21):
        texts[place] += " someoneplume" * 25
    return texts


@pytest.fixture(scope="module")
def words(documents: list[str]) -> WordCounts:
    counts = Counter(w.encode() for text in documents for w in pre_tokens(text, "gpt2"))
    return WordCounts.from_mapping(counts)


@pytest.fixture(scope="module")
def tokenizer(words: WordCounts) -> Tokenizer:
    return train_bpe(words, 1_500, special_tokens=[END])


@pytest.mark.parametrize("batch", [1, 5_000, 4 << 20])
def test_tokens_made_in_one_document_are_those_whose_merges_fire_in_one(
    tokenizer: Tokenizer, documents: list[str], tmp_path: Path, batch: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(tokens_in_use, "_BYTES_AT_A_TIME", batch)
    text = chunk_of(tmp_path / "a.txt", END.join(documents))
    expected = alone(tokenizer, documents)
    assert found(tokenizer, text) == expected
    tokens = {tokenizer.id_to_token(id_) for id_ in expected}
    assert any(token == b" janequark" for token in tokens)
    assert not any(b"plume" in token for token in tokens)
    some = set(sorted(expected)[::3]) | {tokenizer.token_to_id(b"th")}
    assert found(tokenizer, text, ids=some) == some - {tokenizer.token_to_id(b"th")}


def test_json_lines_are_documents(
    tokenizer: Tokenizer, documents: list[str], tmp_path: Path
) -> None:
    lines = "".join(json.dumps({"text": text}) + "\n" for text in documents)
    text = chunk_of(tmp_path / "a.jsonl", lines)
    assert found(tokenizer, text) == alone(tokenizer, documents)
    # A special token within a record begins another document.
    halves = [
        half for text in documents for half in (text[: len(text) // 2], text[len(text) // 2 :])
    ]
    pairs = zip(halves[::2], halves[1::2], strict=True)
    lines = "".join(json.dumps({"text": END.join(pair)}) + "\n" for pair in pairs)
    text = chunk_of(tmp_path / "b.jsonl", lines)
    assert found(tokenizer, text) == alone(tokenizer, halves)


def test_what_was_held_out_does_not_count(
    tokenizer: Tokenizer, documents: list[str], tmp_path: Path
) -> None:
    reading = ReadOptions(GPT2, (END,), held_out=0.4)
    text = chunk_of(tmp_path / "a.txt", END.join(documents), reading)
    met: Counter[int] = Counter()
    for document in filter(None, documents):
        file = write(tmp_path / "one.txt", document)
        ((chunk, read),) = read_chunks(ChunkGroup(file), reading)
        made = token_use(tokenizer, count_chunk(chunk, read, reading).counts).made
        met.update(np.flatnonzero(made).tolist())
    long = {i for i, token in tokenizer.vocab.items() if len(token) > 1}
    assert found(tokenizer, text, reading) == {i for i, n in met.items() if n == 1} & long


@pytest.mark.parametrize("train", [train_char_bpe, train_wordpiece])
def test_other_algorithms(documents: list[str], tmp_path: Path, train: object) -> None:
    small = documents[:40]
    counts = Counter(w.encode() for text in small for w in pre_tokens(text, "whitespace"))
    tokenizer = train(WordCounts.from_mapping(counts, "whitespace"), 400)  # type: ignore[operator]
    reading = ReadOptions(tokenizer.pattern, (END,))
    text = chunk_of(tmp_path / "a.txt", END.join(small), reading)
    expected = alone(tokenizer, small)
    ids = set(tokenizer.vocab)
    assert found(tokenizer, text, reading, ids) == expected


def test_words_taken_whole_have_no_parts(tmp_path: Path) -> None:
    vocab = {i: bytes([i]) for i in range(256)} | {256: b"ab", 257: b"abc", 258: b"whole"}
    tokenizer = Tokenizer(vocab, [(b"a", b"b"), (b"ab", b"c")], ignore_merges=True)
    text = chunk_of(tmp_path / "a.txt", END.join(["abc", "ab", "whole", "ab"]))
    assert found(tokenizer, text) == {257, 258}


def test_every_merge_of_a_token_has_its_parts_there(tmp_path: Path) -> None:
    """Two merges make ``abc``: either may have, so both merges' parts are where it is."""
    vocab = {i: bytes([i]) for i in range(256)} | {256: b"ab", 257: b"bc", 258: b"abc"}
    merges = [(b"a", b"b"), (b"b", b"c"), (b"a", b"bc"), (b"ab", b"c")]
    text = chunk_of(tmp_path / "a.txt", END.join(["abc", "bc", "x"]))
    assert found(Tokenizer(vocab, merges), text) == {256, 258}


def test_no_text_holds_nothing(tokenizer: Tokenizer, tmp_path: Path) -> None:
    assert found(tokenizer, chunk_of(tmp_path / "a.txt", END * 3)) == set()
    assert found(tokenizer, chunk_of(tmp_path / "b.txt", "the end"), ids=set()) == set()


def test_reading_ends_when_nothing_is_left(
    tokenizer: Tokenizer, documents: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens_in_use, "_BYTES_AT_A_TIME", 100)
    text = chunk_of(tmp_path / "a.txt", END.join([" the", " the", *documents]))
    batches = []
    encoded = tokens_in_use._encoded

    def counting(*arguments: object) -> object:
        for one in encoded(*arguments):  # type: ignore[arg-type]
            batches.append(one)
            yield one

    monkeypatch.setattr(tokens_in_use, "_encoded", counting)
    assert found(tokenizer, text, ids={tokenizer.token_to_id(b" the")}) == set()
    assert len(batches) < 10


def made_by_each(tokenizer: Tokenizer, words: WordCounts) -> list[set[int]]:
    """The reference: for each word the ids that come about in it."""
    made = []
    for word in words.words():
        merges = tokenizer.explainer.token(word).merges
        made.append({tokenizer.token_to_id(merge.left + merge.right) for merge in merges})
    return made


@pytest.mark.parametrize("batch", [7, 1 << 18])
def test_made_tokens_are_where_their_merges_fire(
    tokenizer: Tokenizer, words: WordCounts, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens_in_use, "_WORDS_AT_A_TIME", batch)
    made, each = MadeTokens.of(tokenizer, words), made_by_each(tokenizer, words)
    values = np.random.default_rng(3).integers(0, 50, len(words))
    smallest, largest = made.smallest(values), made.largest(values)
    where: dict[int, list[int]] = {}
    for value, ids in zip(values.tolist(), each, strict=True):
        for id_ in ids:
            where.setdefault(id_, []).append(value)
    long = [i for i, token in tokenizer.vocab.items() if len(token) > 1 and token != END.encode()]
    assert {i: int(smallest[i]) for i in long if smallest[i] != NOWHERE} == {
        i: min(found) for i, found in where.items()
    }
    assert {i: int(largest[i]) for i in long if largest[i] >= 0} == {
        i: max(found) for i, found in where.items()
    }
    for tokens in ([], long[::7], [tokenizer.token_to_id(b"th")]):
        rows = made.rows_making(np.array(tokens, np.int64))
        assert rows.tolist() == [row for row, ids in enumerate(each) if ids & set(tokens)]
        some = made.take(rows)
        assert np.array_equal(some.ends, np.cumsum(np.diff(made.ends, prepend=0)[rows]))
        of_rows = [made.ids[made.ends[r - 1] if r else 0 : made.ends[r]].tolist() for r in rows]
        assert some.ids.tolist() == [id_ for ids in of_rows for id_ in ids]


def test_use_of_tokens_is_the_same_from_what_words_are_left_with(
    tokenizer: Tokenizer, words: WordCounts
) -> None:
    made = MadeTokens.of(tokenizer, words)
    assert made.tree.is_exact
    merged, encoded = token_use(tokenizer, words), token_use(tokenizer, words, made)
    for name in ("made", "left", "absorbed", "gains"):
        assert np.array_equal(getattr(merged, name), getattr(encoded, name)), name
    assert merged.bytes == encoded.bytes


def test_of_two_ways_to_make_a_token_the_merges_tell_which_was_gone() -> None:
    """``abc`` is made of ``ab`` or of ``bc``: what words are left with does not say."""
    vocab = {i: bytes([i]) for i in range(256)} | {256: b"ab", 257: b"bc", 258: b"abc"}
    merges = [(b"a", b"b"), (b"b", b"c"), (b"a", b"bc"), (b"ab", b"c")]
    tokenizer = Tokenizer(vocab, merges)
    words = WordCounts.from_mapping({b"abc": 3, b"bc": 2})
    made = MadeTokens.of(tokenizer, words)
    assert not made.tree.is_exact
    use = token_use(tokenizer, words, made)
    assert use.made[256:].tolist() == [3, 2, 3] == token_use(tokenizer, words).made[256:].tolist()


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.txt.zst", "a.jsonl", "a.jsonl.gz"])
def test_chunks_are_read_again_one_by_one(documents: list[str], tmp_path: Path, name: str) -> None:
    lines = ".jsonl" in name
    content = "".join(
        json.dumps({"text": text}) + "\n" if lines else text + END for text in documents
    )
    file = write(tmp_path / name, content)
    whole = list(read_chunks(ChunkGroup(file), READING, 10_000))
    assert len(whole) > 5
    for chosen in ([0], [len(whole) - 1], [1, 4], range(len(whole))):
        wanted = [whole[at][0] for at in chosen]
        again = list(read_again(file.path, [c.ordinal for c in wanted], READING, 10_000))
        assert [chunk for chunk, _ in again] == wanted
        assert [text.text.bytes() for _, text in again] == [
            whole[at][1].text.bytes() for at in chosen
        ]


def test_what_is_gone_or_broken_is_not_read(tmp_path: Path) -> None:
    assert list(read_again(str(tmp_path / "gone.txt"), [0], READING)) == []
    write(tmp_path / "broken.jsonl", "{}\n")
    assert list(read_again(str(tmp_path / "broken.jsonl"), [0], READING)) == []
    (tmp_path / "several").mkdir()
    for name in "ab":
        write(tmp_path / "several" / f"{name}.txt", "text")
    assert list(read_again(str(tmp_path / "several"), [0], READING)) == []
