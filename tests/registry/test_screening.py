"""The screen over a version's chunks: what it reads, what it says, what rules can do with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from counted_chunks import READING, counted

from registry import screening
from registry.gates import Evidence, Rule, judge
from registry.screening import ONE_CHUNK, SUSPICIOUS, Screening, screen
from registry.word_count_store import ShardRef, WordCountStore
from registry.workspace import Workspace
from tokenizer_core import Tokenizer, WordCounts
from tokenizer_core.errors import CorruptFile
from tokenizer_core.metric_names import ALL
from tokenizer_core.token_use import TokenUse, token_use

TOKENS = [b"ab", b"cd", b"on", b"ly", b"only", b"john.d@example.com"]
PAIRS = [(b"a", b"b"), (b"c", b"d"), (b"o", b"n"), (b"l", b"y"), (b"on", b"ly")]
SPECIAL = {"<a.b@example.com>": 400}
EVERYWHERE = {b"ab": 5, b"cd": 4}


@pytest.fixture
def tokenizer() -> Tokenizer:
    vocab = {i: bytes([i]) for i in range(256)} | {256 + i: t for i, t in enumerate(TOKENS)}
    vocab |= {id_: token.encode() for token, id_ in SPECIAL.items()}
    return Tokenizer(vocab, PAIRS, SPECIAL)


def kept(workspace: Workspace, chunks: list[dict[bytes, int]]) -> tuple[WordCounts, list[str]]:
    """The chunks' counts in a store; their sum and their keys."""
    store = WordCountStore(workspace)
    keys = [store.put(counted(words, str(at)), READING) for at, words in enumerate(chunks)]
    table = store.combine([ShardRef(key, position_base=1000 * i) for i, key in enumerate(keys)])
    return store.open_table(table), keys


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace.open(tmp_path / "workspace")


def screened(
    workspace: Workspace, tokenizer: Tokenizer, chunks: list[dict[bytes, int]]
) -> Screening:
    words, keys = kept(workspace, chunks)
    return screen(tokenizer, token_use(tokenizer, words), workspace, keys)


def test_tokens_are_screened_and_special_ones_are_not(
    workspace: Workspace, tokenizer: Tokenizer
) -> None:
    found = screen(tokenizer, None, workspace, [])
    assert [(one.id, one.kind) for one in found.suspicions] == [(261, "email")]
    assert found.metrics["privacy/email_tokens"] == found.metrics[SUSPICIOUS] == 1
    assert found.metrics["privacy/key_tokens"] == 0
    assert ONE_CHUNK not in found.metrics


def test_tokens_of_one_chunk_are_told_from_those_of_several(
    workspace: Workspace, tokenizer: Tokenizer
) -> None:
    found = screened(workspace, tokenizer, [EVERYWHERE, {**EVERYWHERE, b"only": 3}, EVERYWHERE])
    assert {tokenizer.id_to_token(id_) for id_ in found.one_chunk} == {b"on", b"ly", b"only"}
    assert len(set(found.one_chunk.values())) == 1
    assert found.metrics[ONE_CHUNK] == 3
    assert (found.chunks, found.unmet) == (3, 0)
    assert 1 <= found.chunks_read <= 3


def test_a_single_chunk_says_nothing_of_chunks(workspace: Workspace, tokenizer: Tokenizer) -> None:
    found = screened(workspace, tokenizer, [{**EVERYWHERE, b"only": 3}])
    assert (found.chunks, found.chunks_read, found.one_chunk) == (1, 0, {})
    assert ONE_CHUNK not in found.metrics


def test_no_more_chunks_are_read_than_are_allowed(
    workspace: Workspace, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screening, "MOST_CHUNKS", 2)
    lone = {b"on": 1}, {b"ly": 1}, {b"ab": 1}, {b"cd": 1}, {b"abcd": 1, b"cdab": 1}
    words, keys = kept(workspace, list(lone))
    found = screen(tokenizer, token_use(tokenizer, words), workspace, keys)
    assert (found.chunks, found.chunks_read) == (5, 2)
    assert set(found.one_chunk.values()) <= set(sorted(keys)[:2])
    assert found.unmet > 0
    monkeypatch.undo()
    whole = screen(tokenizer, token_use(tokenizer, words), workspace, keys)
    assert {tokenizer.id_to_token(id_) for id_ in whole.one_chunk} == {b"on", b"ly"}
    assert whole.unmet == 0


def test_a_chunk_that_is_gone_is_said_to_be(workspace: Workspace, tokenizer: Tokenizer) -> None:
    words, keys = kept(workspace, [EVERYWHERE, {b"only": 3}])
    WordCountStore(workspace).forget_shard(keys[0])
    use: TokenUse = token_use(tokenizer, words)
    with pytest.raises(CorruptFile):
        screen(tokenizer, use, workspace, keys)


@pytest.mark.parametrize(
    ("rule", "holds"),
    [
        (Rule(SUSPICIOUS, "lower", None, 0), False),
        (Rule(SUSPICIOUS, "lower", None, 1), True),
        (Rule("privacy/key_tokens", "lower", None, 0), True),
        (Rule(ONE_CHUNK, "lower", None, 3), True),
        (Rule(ONE_CHUNK, "lower", None, 2), False),
    ],
)
def test_a_rule_can_block_on_what_was_found(
    workspace: Workspace, tokenizer: Tokenizer, rule: Rule, holds: bool
) -> None:
    found = screened(workspace, tokenizer, [EVERYWHERE, {**EVERYWHERE, b"only": 3}])
    (verdict,) = judge([rule], Evidence({ALL: found.metrics}))
    assert verdict.holds is holds
