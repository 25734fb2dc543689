"""Files that HuggingFace's own library writes: the same ids, or refused by the name of the part."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tiktoken
import tokenizers
from huggingface_peers import saved_peer
from tokenizers import (
    decoders,
    models,
    pre_tokenizers,
    trainers,
)

from bpeline.tokenizer_core import WordCounts, train_bpe
from bpeline.tokenizer_core.errors import InvalidOption, InvalidPattern
from bpeline.tokenizer_core.formats import tiktoken as tiktoken_format
from bpeline.tokenizer_core.tokenizer import Tokenizer


def trained_with(pre_tokenizer: Any, texts: list[str], **model: Any) -> Any:
    peer = tokenizers.Tokenizer(models.BPE(**model))
    peer.pre_tokenizer = pre_tokenizer
    peer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=900, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    peer.train_from_iterator(texts[:4_000], trainer)
    return peer


def assert_same_ids(ours: Tokenizer, peer: Any, texts: list[str], **options: Any) -> None:
    theirs = peer.encode_batch(texts, **options)
    for text, ids, encoding in zip(
        texts, ours.encode_batch(texts, None, "all"), theirs, strict=True
    ):
        assert ids == encoding.ids, f"REPRO: {text!r}"


def test_what_is_unknown_does_not_matter_where_every_byte_is_known(
    tmp_path: Path, fuzz_texts: list[str]
) -> None:
    peer = trained_with(
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        fuzz_texts,
        unk_token="<unk>",
        byte_fallback=True,
        fuse_unk=True,
    )
    assert_same_ids(
        Tokenizer.load(saved_peer(peer, tmp_path / "tokenizer.json")), peer, fuzz_texts[:5_000]
    )


# What we write


@pytest.mark.parametrize("format_", ["hf", "gpt2", "tiktoken"])
@pytest.mark.parametrize("name", ["whitespace", "wordpunct"])
def test_patterns_that_drop_text_are_not_exported(name: str, format_: Any, tmp_path: Path) -> None:
    dropping = Tokenizer({byte: bytes([byte]) for byte in range(256)}, [], (), name)
    with pytest.raises(InvalidPattern, match=f"'{name}'"):
        dropping.save(tmp_path / "out", format_)


OWN_REGEXES = [  # others are in `format_fuzz`
    r"(?i:'s|'re|'d)|[^\W\d]+|\d|\s{,3}x|[[&~]",
    r"(?<=a)b+|(?P<word>\pL+)|[\w-]|(?<!\s)\s$",
]


@pytest.mark.night
@pytest.mark.parametrize("regex", OWN_REGEXES)
def test_a_users_regex_is_exported_exactly(
    regex: str, tmp_path: Path, fuzz_texts: list[str]
) -> None:
    merges = [(b"t", b"h"), (b"th", b"e"), (b" ", b"o"), (b" ", b" "), (b"-", b"-"), (b"1", b"2")]
    vocab = {byte: bytes([byte]) for byte in range(256)}
    vocab |= {256 + rank: left + right for rank, (left, right) in enumerate(merges)}
    ours = Tokenizer(vocab, merges, (), regex)
    ours.save(tmp_path / "tokenizer.json", "hf")
    peer = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert_same_ids(ours, peer, fuzz_texts)
    arguments = tiktoken_format.encoding_arguments(ours)
    other = tiktoken.Encoding("ours", **arguments)
    for text, ids in zip(fuzz_texts, other.encode_ordinary_batch(fuzz_texts), strict=True):
        assert ids == ours.encode(text), f"REPRO: {text!r}"
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert_same_ids(again, peer, fuzz_texts)


def test_what_a_file_says_around_its_model_decides_whether_ranks_can_say_it(
    tmp_path: Path,
) -> None:
    """Special tokens are told apart from ranks; what changes texts before has no place there."""
    words = {b"low": 9, b" lower": 5, "über".encode(): 3, " naïve".encode(): 2}
    made = train_bpe(WordCounts.from_mapping(words), 275, special_tokens=["<|end|>"])
    path, ranks = tmp_path / "tokenizer.json", tmp_path / "x.tiktoken"
    made.save(path, "hf")
    Tokenizer.load(path, "hf").save(ranks, "tiktoken")
    document = json.loads(path.read_bytes())
    document["normalizer"] = {"type": "NFC"}
    path.write_text(json.dumps(document))
    with pytest.raises(InvalidOption, match="normalizer"):
        Tokenizer.load(path, "hf").save(ranks, "tiktoken")
