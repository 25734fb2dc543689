"""The screen over a version's corpus: what it reads, what it says, what rules can do with it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from corpus_files import counted, write

from bpeline.registry.catalogue import ChunkRecord
from bpeline.registry.evaluation.gates import Evidence, Rule, judge
from bpeline.registry.records import SUSPICIOUS_METRIC
from bpeline.registry.tokens.screening import (
    FEWEST_DOCUMENTS,
    ONE_CHUNK,
    ONE_DOCUMENT,
    Screening,
    TrainedOn,
    kept_screening,
    screen,
)
from bpeline.registry.word_counts import ShardRef, WordCountStore, shard_key
from bpeline.registry.word_counts.corpus_records import RecordedFile
from bpeline.registry.workspace.workspace import Workspace
from bpeline.tokenizer_core import SplitPattern, Tokenizer, train_bpe
from bpeline.tokenizer_core.corpus.reading import CHUNK_BYTES, ReadOptions
from bpeline.tokenizer_core.errors import CorruptFile
from bpeline.tokenizer_core.evaluation.metric_names import ALL
from bpeline.tokenizer_core.evaluation.tokens_in_use import token_use
from bpeline.tokenizer_core.splitting.pretokenization import pre_tokens

END = "<|end|>"
READING = ReadOptions(SplitPattern.parse(r"\S+|\s+"), (END,))
ADDRESS, SHARED = "jane.doe@example.com", "press@example.org"


@dataclass
class Corpus:
    """Files as training reads, counts and remembers them."""

    workspace: Workspace
    folder: Path
    chunk_bytes: int = CHUNK_BYTES
    reading: ReadOptions = READING
    files: list[RecordedFile] = field(default_factory=list)
    refs: list[ShardRef] = field(default_factory=list)
    base: int = 0

    def add(self, name: str, documents: list[str]) -> Path:
        lines = ".jsonl" in name
        joined = (
            "".join(json.dumps({"text": text}) + "\n" for text in documents)
            if lines
            else END.join(documents)
        )
        file = write(self.folder / name, joined)
        store, records = WordCountStore(self.workspace), []
        for one in counted(file, self.chunk_bytes, self.reading):
            key = store.put(one, self.reading.digest)
            assert key == shard_key(one.chunk.digest, self.reading.digest)
            self.refs.append(ShardRef(key, position_base=self.base + one.chunk.begin))
            records.append(
                ChunkRecord(one.chunk.digest, one.chunk.begin, one.chunk.end, one.chunk.ordinal)
            )
        self.base += records[-1].end
        self.files.append(RecordedFile(file.path, tuple(records)))
        return Path(file.path)

    def trained(self, tokenizer: Tokenizer) -> TrainedOn:
        store = WordCountStore(self.workspace)
        words = store.open_table(store.combine(self.refs))
        use = token_use(tokenizer, words)
        reading = replace(self.reading, chunk_bytes=self.chunk_bytes)
        return TrainedOn(words, use, self.files, reading)

    def train(self, size: int = 420) -> Tokenizer:
        store = WordCountStore(self.workspace)
        words = store.open_table(store.combine(self.refs))
        return train_bpe(words, size, special_tokens=[END], min_count=2)

    def screened(self, tokenizer: Tokenizer) -> Screening:
        return screen(tokenizer, self.workspace, self.trained(tokenizer))


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    (tmp_path / "files").mkdir()
    return Corpus(Workspace.open(tmp_path / "workspace"), tmp_path / "files")


def texts(english: str) -> list[str]:
    """Documents, one of which has an address 50 times; two have another."""
    documents = [english[at : at + 500] for at in range(0, 30_000, 500)]
    documents[20] += f" {ADDRESS}" * 50
    for place in (11, 40):
        documents[place] += f" {SHARED}" * 50
    return documents


def tokens(tokenizer: Tokenizer, ids: tuple[int, ...]) -> set[str]:
    return {tokenizer.id_to_token(id_).decode() for id_ in ids}


def alone(tokenizer: Tokenizer, documents: list[str]) -> set[int]:
    """The reference: ids that come about in the words of exactly one document."""
    met: Counter[int] = Counter()
    for document in documents:
        words = {word.encode() for word in pre_tokens(document, tokenizer.pattern)}
        merges = [merge for word in words for merge in tokenizer.explainer.token(word).merges]
        met.update({tokenizer.token_to_id(merge.left + merge.right) for merge in merges})
    return {id_ for id_, number in met.items() if number == 1}


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.txt.gz", "a.jsonl.zst"])
def test_an_address_in_one_document_is_told_from_one_in_two(
    corpus: Corpus, english_and_code: str, name: str
) -> None:
    documents = texts(english_and_code)
    corpus.add(name, documents)
    tokenizer = corpus.train()
    found = corpus.screened(tokenizer)
    assert {ADDRESS, SHARED} <= {one.token.decode() for one in found.suspicions}
    assert ADDRESS in tokens(tokenizer, found.one_document)
    assert SHARED not in tokens(tokenizer, found.one_document)
    assert set(found.one_document) == alone(tokenizer, documents)
    assert (found.chunks, found.one_chunk, found.unread) == (1, (), ())
    assert ONE_CHUNK not in found.metrics
    assert found.metrics[ONE_DOCUMENT] == len(found.one_document)
    assert kept_screening({"screening": found.as_record()}, tokenizer) == found


@pytest.mark.parametrize("names", [["a.txt", "b.txt", "c.txt"], ["a.jsonl.gz", "b.txt", "c.jsonl"]])
def test_of_many_chunks_only_those_with_candidates_are_read(
    corpus: Corpus, english_and_code: str, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus.chunk_bytes = 4_000
    documents = texts(english_and_code)
    for at, name in enumerate(names):
        corpus.add(name, documents[at * 20 : at * 20 + 20])
    tokenizer = corpus.train()
    found = corpus.screened(tokenizer)
    assert found.chunks == len({ref.key for ref in corpus.refs}) > 6
    assert ADDRESS in tokens(tokenizer, found.one_document)
    assert SHARED not in tokens(tokenizer, found.one_chunk)
    assert set(found.one_document) <= set(found.one_chunk)
    whole = alone(tokenizer, documents)
    assert set(found.one_document) <= whole
    # What is missing is in two chunks, of which one document may have a part each.
    assert whole - set(found.one_document) <= whole - set(found.one_chunk)
    assert found.metrics[ONE_CHUNK] == len(found.one_chunk)


def test_a_text_that_changed_or_is_gone_leaves_the_chunk(
    corpus: Corpus, english_and_code: str
) -> None:
    documents = texts(english_and_code)
    corpus.add("a.txt", documents[:30])
    second = corpus.add("b.txt", [*documents[30:], " zyxwv" * 20, "the end"])
    tokenizer = corpus.train(480)
    before = corpus.screened(tokenizer)
    assert " zyxwv".strip() in tokens(tokenizer, before.one_document)
    second.write_text(second.read_text().replace("the end", "the ends"))
    after = corpus.screened(tokenizer)
    assert after.one_chunk == before.one_chunk
    assert "zyxwv" in tokens(tokenizer, after.unread)
    assert ADDRESS in tokens(tokenizer, after.one_document)
    assert set(after.one_document) | set(after.unread) >= set(before.one_document)
    assert ONE_DOCUMENT not in after.metrics, "what is not known must not pass a rule"
    second.unlink()
    assert corpus.screened(tokenizer) == after


def test_of_two_copies_one_is_enough(corpus: Corpus, english_and_code: str) -> None:
    """The same chunk twice is two documents of everything in it, wherever they lie."""
    documents = texts(english_and_code)
    first = corpus.add("a.txt", documents)
    corpus.add("b.txt", documents)
    found = corpus.screened(corpus.train())
    assert (found.chunks, found.one_document, found.unread) == (1, (), ())
    first.unlink()


def test_a_chunk_of_one_document_need_not_be_read(corpus: Corpus) -> None:
    path = corpus.add("a.txt", ["only " * 9])
    corpus.add("b.txt", ["other words " * 9, *["more"] * 9])
    tokenizer = corpus.train(270)
    path.unlink()
    found = corpus.screened(tokenizer)
    assert "only" in tokens(tokenizer, found.one_document)
    assert found.unread == ()


@pytest.mark.parametrize("files", [1, 2, 3])
def test_of_few_documents_each_has_tokens_of_its_own_which_says_nothing(
    corpus: Corpus, english_and_code: str, files: int
) -> None:
    documents = [english_and_code[at : at + 900] for at in range(0, 9_000, 900)]
    assert len(documents) == FEWEST_DOCUMENTS
    for number in range(files):
        corpus.add(f"{number}.txt", documents[number : FEWEST_DOCUMENTS - 1 : files])
    tokenizer = corpus.train(420)
    found = corpus.screened(tokenizer)
    assert (found.chunks, found.one_chunk, found.one_document, found.unread) == (0, (), (), ())
    assert not {ONE_CHUNK, ONE_DOCUMENT} & found.metrics.keys()
    verdicts = judge([Rule(ONE_DOCUMENT, "lower", None, 999)], Evidence({ALL: found.metrics}))
    assert [str(one) for one in verdicts] == [f"not judged: {ONE_DOCUMENT} was not measured"]
    corpus.add("one-more.txt", documents[-1:])
    again = corpus.screened(tokenizer)
    assert set(again.one_document) == alone(tokenizer, documents)
    assert again.metrics[ONE_DOCUMENT] > 0


def test_the_page_says_how_many_documents_are_few() -> None:
    page = Path(__file__).parents[2] / "docs" / "evaluation.md"
    said = " ".join(page.read_text(encoding="utf-8").split())
    assert f"a corpus of fewer than {FEWEST_DOCUMENTS} documents neither" in said


def test_tokens_alone_are_screened_and_special_ones_are_not(corpus: Corpus) -> None:
    vocab = {i: bytes([i]) for i in range(256)} | {256: b"john.d@example.com"}
    tokenizer = Tokenizer(vocab | {400: b"<a.b@example.com>"}, [], {"<a.b@example.com>": 400})
    found = screen(tokenizer, corpus.workspace)
    assert [(one.id, one.kind) for one in found.suspicions] == [(256, "email")]
    assert found.metrics["privacy/email_tokens"] == found.metrics[SUSPICIOUS_METRIC] == 1
    assert found.metrics["privacy/key_tokens"] == 0
    assert not {ONE_CHUNK, ONE_DOCUMENT} & found.metrics.keys()


def test_counts_that_are_gone_are_said_to_be(corpus: Corpus, english_and_code: str) -> None:
    for name in ("a.txt", "b.txt"):
        corpus.add(name, [*(english_and_code[at : at + 900] for at in range(0, 9_000, 900)), name])
    tokenizer = corpus.train(300)
    trained = corpus.trained(tokenizer)
    WordCountStore(corpus.workspace)._shards.forget(corpus.refs[0].key)
    with pytest.raises(CorruptFile):
        screen(tokenizer, corpus.workspace, trained)
    assert screen(tokenizer, corpus.workspace, replace(trained, files=())).chunks == 0


@pytest.mark.parametrize("record", [{}, {"suspicious": [[1]]}, {"suspicious": [], "chunks": "x"}])
def test_a_record_of_something_else_says_nothing(record: object) -> None:
    tokenizer = Tokenizer({i: bytes([i]) for i in range(256)}, [])
    assert kept_screening({"screening": record}, tokenizer) is None
    assert kept_screening(None, tokenizer) is None


@pytest.mark.parametrize(
    ("rule", "holds"),
    [
        (Rule(SUSPICIOUS_METRIC, "lower", None, 1), False),
        (Rule(SUSPICIOUS_METRIC, "lower", None, 2), True),
        (Rule("privacy/key_tokens", "lower", None, 0), True),
        (Rule(ONE_DOCUMENT, "lower", None, 0), False),
        (Rule(ONE_DOCUMENT, "lower", None, 500), True),
        (Rule(ONE_CHUNK, "lower", None, 500), False),  # there is but one
    ],
)
def test_a_rule_can_block_on_what_was_found(
    corpus: Corpus, english_and_code: str, rule: Rule, holds: bool
) -> None:
    corpus.add("a.txt", texts(english_and_code))
    found = corpus.screened(corpus.train())
    (verdict,) = judge([rule], Evidence({ALL: found.metrics}))
    assert verdict.holds is holds
