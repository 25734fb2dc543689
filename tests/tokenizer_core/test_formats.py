"""Formats: what others read from us, what we read from them, and what is refused."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
import tiktoken.load
import tokenizers

from bpeline.tokenizer_core import (
    WordCounts,
    count_texts,
    superword_lines,
    train_bpe,
    train_char_bpe,
    train_frequency_bpe,
    train_superbpe,
    train_wordpiece,
)
from bpeline.tokenizer_core.algorithms import greedy_longest
from bpeline.tokenizer_core.errors import InvalidOption, InvalidTokenizer, MissingSource
from bpeline.tokenizer_core.formats import tiktoken as tiktoken_format
from bpeline.tokenizer_core.formats.json_tokens import printable_tokens, tokens_of_printable
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern
from bpeline.tokenizer_core.tokenizer import SavedFormat, Tokenizer
from bpeline.tokenizer_core.vocabulary.numbering import to_printable

MakeTokenizer = Callable[..., Tokenizer]
BYTES = {byte: bytes([byte]) for byte in range(256)}
AB = (b"a", b"b")


@pytest.fixture(scope="module", params=["gpt2", "cl100k", r"\p{L}+|[^\p{L}]{1,3}"])
def tokenizer(request: pytest.FixtureRequest, trained: MakeTokenizer) -> Tokenizer:
    return trained(request.param)


# Round trips


def test_our_format_gives_the_same_tokenizer_back(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "kept")
    again = Tokenizer.load(tmp_path / "kept")
    assert again.digest == tokenizer.digest
    assert again.vocab == tokenizer.vocab
    assert again.merges == tokenizer.merges
    assert again.special_tokens == tokenizer.special_tokens
    assert again.pattern == tokenizer.pattern


def test_huggingfaces_format_comes_back(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    tokenizer.save(path, "hf")
    assert Tokenizer.load(path).digest == tokenizer.digest
    peer = tokenizers.Tokenizer.from_file(str(path))
    assert peer.get_vocab_size() == tokenizer.vocab_size
    for special, id_ in tokenizer.special_tokens.items():
        assert peer.token_to_id(special) == id_
    text = " They'll  go\n\nto 1234 Москва 漢字 👍🏽"
    assert peer.encode(text).ids == tokenizer.encode(text)
    assert peer.decode(tokenizer.encode(text)) == text


def test_what_huggingface_saves_again_is_read(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path, again = tmp_path / "tokenizer.json", tmp_path / "again.json"
    tokenizer.save(path, "hf")
    tokenizers.Tokenizer.from_file(str(path)).save(str(again), pretty=True)
    assert Tokenizer.load(again).digest == tokenizer.digest


def test_gpt2s_format_comes_back(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path, "gpt2")
    told = {"pattern": tokenizer.pattern}
    assert Tokenizer.load(tmp_path, **told).digest == tokenizer.digest
    given = list(tokenizer.special_tokens)
    with pytest.raises(InvalidOption, match="pattern"):
        Tokenizer.load(tmp_path)
    assert Tokenizer.load(tmp_path, special_tokens=given, **told).digest == tokenizer.digest
    peer = tokenizers.models.BPE.from_file(
        str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt")
    )
    assert peer.token_to_id("the") == tokenizer.token_to_id("the")


@pytest.mark.parametrize("special_ids", ["first", "last"])
def test_ranks_are_read_by_tiktoken_and_by_us(
    trained: MakeTokenizer, special_ids: str, tmp_path: Path, fuzz_texts: list[str]
) -> None:
    tokenizer = trained("cl100k", special_ids)
    path = tmp_path / "ours.tiktoken"
    tokenizer.save(path, "tiktoken")
    again = Tokenizer.load(path, pattern="cl100k", special_tokens=tokenizer.special_tokens)
    assert again.digest == tokenizer.digest
    ranks = tiktoken.load.load_tiktoken_bpe(str(path))
    assert ranks == tiktoken_format.mergeable_ranks(tokenizer)
    peer = tiktoken.Encoding(
        "ours", **{**tiktoken_format.encoding_arguments(tokenizer), "mergeable_ranks": ranks}
    )
    for text in fuzz_texts[:2_000]:
        assert tokenizer.encode(text) == peer.encode_ordinary(text), f"REPRO: {text!r}"
    assert peer.encode("<|endoftext|>", allowed_special="all") == tokenizer.encode(
        "<|endoftext|>", "all"
    )


def test_older_merges_as_strings_are_read(small: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    small.save(path, "hf")
    document = json.loads(path.read_text())
    document["model"]["merges"] = [" ".join(pair) for pair in document["model"]["merges"]]
    path.write_text(json.dumps(document))
    assert Tokenizer.load(path).digest == small.digest


def test_printable_names_are_the_mapping_and_its_inverse() -> None:
    tokens = [bytes([byte]) for byte in range(256)] + [b" the", "漢".encode(), b"\n\xff"]
    names = printable_tokens(tokens)
    assert names == [to_printable(token) for token in tokens]
    assert tokens_of_printable(names) == tokens
    for foreign in (" ", "\n", "\u00ad", "漢", "\x7f", "\u0144"):
        assert tokens_of_printable(["ok", foreign]) is None


TOKENS_BESIDE: dict[str, tuple[str, Any, str]] = {
    "an id of its own": ("added_tokens.json", {"<|im|>": 301}, "'<|im|>'"),
    "another id": ("added_tokens.json", {"<|fin é|>": 301}, "'<|fin é|>'"),
    "a role": ("special_tokens_map.json", {"pad_token": "[PAD]"}, "'\\[PAD\\]'"),
    "a flag": (
        "special_tokens_map.json",
        {"mask_token": {"content": "<|fin é|>", "lstrip": True}},
        "lstrip",
    ),
    "a list": ("tokenizer_config.json", {"additional_special_tokens": ["<a>"]}, "'<a>'"),
    "a decoder": (
        "tokenizer_config.json",
        {"added_tokens_decoder": {"257": {"content": "abc", "special": False}}},
        "'abc'",
    ),
}


@pytest.mark.parametrize("kind", TOKENS_BESIDE)
def test_tokens_that_only_files_beside_a_vocab_declare_are_refused(
    kind: str, small: Tokenizer, tmp_path: Path
) -> None:
    name, content, message = TOKENS_BESIDE[kind]
    small.save(tmp_path, "gpt2")
    known = {"added_tokens_decoder": {"300": {"content": "<|fin é|>"}}, "add_bos_token": True}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(known))
    assert Tokenizer.load(tmp_path, pattern="gpt2").special_tokens == {"<|fin é|>": 300}
    (tmp_path / name).write_text(json.dumps(content))
    with pytest.raises(InvalidTokenizer, match=message) as refused:
        Tokenizer.load(tmp_path, pattern="gpt2")
    assert name in refused.value.happened
    Tokenizer.load(tmp_path, pattern="gpt2", special_tokens=["<|fin é|>"])


def test_gpt2s_class_beside_its_files_names_the_pattern(small: Tokenizer, tmp_path: Path) -> None:
    small.save(tmp_path, "gpt2")
    config = tmp_path / "tokenizer_config.json"
    config.write_text('{"tokenizer_class": "GPT2Tokenizer"}')
    assert Tokenizer.load(tmp_path).pattern.name == "gpt2"
    config.write_text('{"tokenizer_class": "GPT2TokenizerFast", "add_prefix_space": true}')
    with pytest.raises(InvalidTokenizer, match="add_prefix_space"):
        Tokenizer.load(tmp_path)
    config.write_text('{"tokenizer_class": "Qwen2Tokenizer"}')
    with pytest.raises(InvalidOption, match="pattern"):
        Tokenizer.load(tmp_path)


# Other formats' refusals


def test_special_tokens_that_read_like_tokens_are_refused(tmp_path: Path) -> None:
    clash = Tokenizer(BYTES | {256: b" a", 257: "Ġa".encode()}, [(b" ", b"a")], ["Ġa"])
    for format_ in ("hf", "gpt2"):
        with pytest.raises(InvalidTokenizer, match="'Ġa'"):
            clash.save(tmp_path / "x", format_)  # type: ignore[arg-type]
    clash.save(tmp_path / "own")  # which spells no token
    assert Tokenizer.load(tmp_path / "own").encode("Ġa a", "all") == clash.encode("Ġa a", "all")


def test_ids_out_of_order_do_not_fit_tiktoken(tmp_path: Path) -> None:
    vocab = BYTES | {256: b"bc", 257: b"ab"}
    with pytest.raises(InvalidTokenizer, match="rank"):
        Tokenizer(vocab, [AB, (b"b", b"c")]).save(tmp_path / "x.tiktoken", "tiktoken")


def test_tokens_that_merges_do_not_make_do_not_fit_tiktoken(tmp_path: Path) -> None:
    unmade = Tokenizer(BYTES | {256: b"ab", 257: b"xyz"}, [AB])
    twice = Tokenizer(
        BYTES | {256: b"ab", 257: b"bc", 258: b"abc"},
        [AB, (b"b", b"c"), (b"ab", b"c"), (b"a", b"bc")],
    )
    hidden = Tokenizer(
        BYTES | {256: b"ab", 257: b"bc", 258: b"abc"}, [AB, (b"b", b"c"), (b"a", b"bc")]
    )
    for wrong in (unmade, twice, hidden):
        with pytest.raises(InvalidTokenizer):
            wrong.save(tmp_path / "x.tiktoken", "tiktoken")


def test_ranks_without_all_bytes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.tiktoken").write_bytes(b"YQ== 0\n")
    with pytest.raises(InvalidTokenizer, match=r"\b1\b.*\b256\b"):
        Tokenizer.load(tmp_path / "x.tiktoken")


MALFORMED_MERGES = ("a b c", "a", " a", "a ", "a \nb c", "a\nb c d", "a b\n\nab c", "a b\r\n\r",
                    "a\tb", "no such", "a\u00a0b", "a  b", "\n", " ")  # fmt: skip


@pytest.mark.parametrize("merges", MALFORMED_MERGES)
def test_malformed_merges_are_refused(small: Tokenizer, tmp_path: Path, merges: str) -> None:
    small.save(tmp_path, "gpt2")
    (tmp_path / "merges.txt").write_bytes(f"#version: 0.2\n{merges}\n".encode())
    with pytest.raises(InvalidTokenizer):
        Tokenizer.load(tmp_path, pattern="gpt2", special_tokens=["<|fin é|>"])


def test_a_special_token_that_the_vocab_lacks_is_refused(small: Tokenizer, tmp_path: Path) -> None:
    small.save(tmp_path, "gpt2")
    with pytest.raises(InvalidTokenizer, match="<no>"):
        Tokenizer.load(tmp_path, special_tokens=["<no>"])


# Which format


def test_the_format_is_told_from_names(small: Tokenizer, tmp_path: Path) -> None:
    with pytest.raises(MissingSource, match="nothing"):
        Tokenizer.load(tmp_path / "nothing")
    with pytest.raises(InvalidOption, match=r"manifest\.json"):
        Tokenizer.load(tmp_path)
    with pytest.raises(InvalidOption, match="'pickle'"):
        small.save(tmp_path / "x", "pickle")  # type: ignore[arg-type]
    small.save(tmp_path / "tokenizer.other", "hf")
    with pytest.raises(InvalidOption, match=r"tokenizer\.other"):
        Tokenizer.load(tmp_path / "tokenizer.other")
    assert Tokenizer.load(tmp_path / "tokenizer.other", "hf").digest == small.digest


def test_saving_over_an_older_one_replaces_it(small: Tokenizer, directory: Path) -> None:
    other = Tokenizer(BYTES | {256: b"ab"}, [AB], (), SplitPattern.named("cl100k"))
    other.save(directory)
    assert Tokenizer.load(directory).digest == other.digest
    shutil.rmtree(directory)
    small.save(directory)
    assert Tokenizer.load(directory).digest == small.digest


# Advice


TEXTS = ["the end of the world and the end of the day\n"] * 9
OF_CHARACTERS = WordCounts.from_mapping({b"low": 5, b"lower": 2, b"newest": 6}, "whitespace")


def of_every_kind() -> dict[str, Tokenizer]:
    words = train_bpe(count_texts(TEXTS, "gpt2"), 290, special_tokens=["<|end|>"])
    lines = count_texts(TEXTS, superword_lines())
    return {
        "words": words,
        "superwords": train_superbpe(words, lines, 300, transition_size=272),
        "another pattern": train_bpe(count_texts(TEXTS, r"\w+|\W+"), 290),
        "WordPiece": train_wordpiece(OF_CHARACTERS, 30),
        "characters": train_char_bpe(OF_CHARACTERS, 6),
        "characters, joined": train_char_bpe(OF_CHARACTERS, 6, joined=True),
        "greedy": greedy_longest(train_char_bpe(OF_CHARACTERS, 6), OF_CHARACTERS, "</u>"),
        "frequency": train_frequency_bpe(OF_CHARACTERS, 6, word_sentences="text"),
    }


@pytest.mark.night
@pytest.mark.filterwarnings("ignore:characters that are in no merge")
def test_what_a_refusal_names_holds_the_tokenizer(tmp_path: Path) -> None:
    refused = 0
    for number, (kind, tokenizer) in enumerate(of_every_kind().items()):
        for format in get_args(SavedFormat):
            try:
                tokenizer.save(tmp_path / f"{number} {format}", format)
            except (InvalidOption, InvalidTokenizer) as refusal:
                said = refusal.next_step
            else:
                continue
            refused += 1
            advised = set(re.findall(r"'([a-z0-9-]+)'|--format ([a-z0-9-]+)", said))
            names = {name for pair in advised for name in pair if name}
            assert names, f"{kind} as {format}: {said}"
            for name in names:
                tokenizer.save(tmp_path / f"{number} {format} {name}", name)  # type: ignore[arg-type]
    assert refused > 30
