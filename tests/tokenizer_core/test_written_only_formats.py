"""GGUF, SentencePiece and transformers' directory: what is written, and what is refused."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from bpeline.tokenizer_core.algorithms.character_bpe import train_char_bpe
from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.derived import of_size
from bpeline.tokenizer_core.errors import BpelineError, InvalidOption, InvalidTokenizer
from bpeline.tokenizer_core.formats import gguf
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.training.bpe import train_bpe

BYTES = {byte: bytes([byte]) for byte in range(256)}
WORDS = {b" low": 9, b" lower": 5, b" newest": 7}


def trained(**options: Any) -> Tokenizer:
    counts = WordCounts.from_mapping(WORDS)
    return train_bpe(counts, 266, special_tokens=["<s>", "<|end|>"], **options)


def test_transformers_directory_holds_the_roles_of_special_tokens(tmp_path: Path) -> None:
    tokenizer = trained()
    tokenizer.save(tmp_path, "transformers")
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert config["bos_token"] == "<s>"
    assert "eos_token" not in config, "its name does not say so"
    assert config["added_tokens_decoder"]["1"]["content"] == "<|end|>"
    assert json.loads((tmp_path / "special_tokens_map.json").read_text()) == {"bos_token": "<s>"}
    assert Tokenizer.load(tmp_path).digest == tokenizer.digest


def test_a_gguf_file_is_metadata_alone(tmp_path: Path) -> None:
    """Read back by the format's description: ggml/docs/gguf.md."""
    tokenizer = of_size(trained(special_ids="last"), 262)
    tokenizer.save(tmp_path / "x.gguf", "gguf")
    content = (tmp_path / "x.gguf").read_bytes()
    assert struct.unpack_from("<4sIQQ", content) == (b"GGUF", 3, 0, len(read(content)))
    entries = read(content)
    assert entries["tokenizer.ggml.model"] == "gpt2"
    assert entries["tokenizer.ggml.pre"] == "gpt-2"
    assert entries["tokenizer.ggml.tokens"][256:258] == ["lo", "Ġlo"]
    assert entries["tokenizer.ggml.tokens"][260:] == ["[PAD260]", "[PAD261]", "[PAD262]",
                                                      "[PAD263]", "<s>", "<|end|>"]  # fmt: skip
    assert entries["tokenizer.ggml.token_type"][258:] == [1, 1, 5, 5, 5, 5, 3, 3]
    assert entries["tokenizer.ggml.merges"][:2] == ["l o", "Ġ lo"]
    assert len(entries["tokenizer.ggml.merges"]) == 4
    assert entries["tokenizer.ggml.bos_token_id"] == 264
    assert entries["tokenizer.ggml.add_bos_token"] is False


def read(content: bytes) -> dict[str, Any]:
    at = 24

    def take(layout: str) -> Any:
        nonlocal at
        (value,) = struct.unpack_from(f"<{layout}", content, at)
        at += struct.calcsize(f"<{layout}")
        return value

    def value_of(kind: int) -> Any:
        nonlocal at
        if kind == 8:
            length = take("Q")
            at += length
            return content[at - length : at].decode()
        if kind == 9:
            inner, count = take("I"), take("Q")
            return [value_of(inner) for _ in range(count)]
        return take({4: "I", 5: "i", 7: "?"}[kind])

    entries = {}
    while at < len(content):
        key = value_of(8)
        entries[key] = value_of(take("I"))
    return entries


@pytest.mark.parametrize(
    "pattern", ["o200k", "tekken", "deepseek-v3", "kimi", "cl100k", r"\p{L}+|\s+|."]
)
def test_patterns_that_llama_cpp_cuts_otherwise_are_refused(pattern: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match=r"llama\.cpp") as caught:
        Tokenizer(BYTES, [], pattern=pattern).save(tmp_path / "x.gguf", "gguf")
    assert "qwen3.5" in caught.value.accepted
    assert not list(tmp_path.iterdir())


def test_tokens_that_llama_cpp_takes_whole_are_refused(tmp_path: Path) -> None:
    vocab = BYTES | {256: b"ab", 257: b"whole"}
    merges = [(b"a", b"b")]
    for pattern, ignoring in (("llama3", False), ("gpt2", True)):
        tokenizer = Tokenizer(vocab, merges, pattern=pattern, ignore_merges=ignoring)
        with pytest.raises(InvalidTokenizer, match="257"):
            tokenizer.save(tmp_path / "x.gguf", "gguf")
    for pattern, ignoring in (("llama3", True), ("gpt2", False)):
        tokenizer = Tokenizer(vocab, merges, pattern=pattern, ignore_merges=ignoring)
        tokenizer.save(tmp_path / "x.gguf", "gguf")
    assert gguf.differences(Tokenizer(BYTES, [], pattern="qwen2"))
    assert not gguf.differences(Tokenizer(BYTES, []))


def test_sentencepiece_holds_character_bpe_whose_words_end_in_a_symbol(tmp_path: Path) -> None:
    words = WordCounts.from_mapping({b"lower": 5, b"lowest": 3, b"new_": 4}, "whitespace")
    path = tmp_path / "x.model"
    train_char_bpe(words, 9).save(path, "sentencepiece")
    assert "▁".encode() in path.read_bytes()
    path.unlink()
    cuts = WordCounts.from_mapping({b"lower": 5}, "wordpunct")
    space = WordCounts.from_mapping({"a▁b".encode(): 5}, "whitespace")
    refused = {
        "byte-bpe": trained(),
        "joined": train_char_bpe(words, 9, joined=True),
        "wordpunct": train_char_bpe(cuts, 2),
        "space": train_char_bpe(space, 2),
        "gaps": of_size_with_gap(train_char_bpe(words, 9)),
        "'aba'": Tokenizer(
            {0: b"<unk>", 1: b"a", 2: b"b", 3: b"</w>", 4: b"ab", 5: b"ba", 6: b"aba"},
            [(b"a", b"b"), (b"b", b"a"), (b"ab", b"a"), (b"a", b"ba")],
            algorithm=train_char_bpe(words, 1).algorithm,
        ),
        "merges .*'aba'": Tokenizer(
            {0: b"<unk>", 1: b"a", 2: b"b", 3: b"</w>", 4: b"ab", 5: b"ba", 6: b"aba"},
            [(b"a", b"b"), (b"b", b"a"), (b"a", b"ba")],
            algorithm=train_char_bpe(words, 1).algorithm,
        ),
    }
    for reason, tokenizer in refused.items():
        with pytest.raises(BpelineError, match=reason) as caught:
            tokenizer.save(path, "sentencepiece")
        assert caught.value.accepted
        assert caught.value.next_step
    assert not path.exists()


def of_size_with_gap(tokenizer: Tokenizer) -> Tokenizer:
    vocab = {id_ + (id_ > 3): token for id_, token in tokenizer.vocab.items()}
    return Tokenizer(
        vocab, tokenizer.merges, pattern=tokenizer.pattern, algorithm=tokenizer.algorithm
    )
