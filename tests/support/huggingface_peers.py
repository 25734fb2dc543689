"""Small tokenizers of HuggingFace's library, saved with a change, and ours compared with them."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from bpeline.tokenizer_core.tokenizer import Tokenizer

ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())
NASTY = (
    "", " ", "  the", "the the\n\n", "12 345 ٣½a1", "don't DON'T", "naïve e\u0301 漢字👍🏽",
    "<|end|><|end|>x <|end|>", "\x00\x7f\u0085\u2028", "a1b22c333 4444", " 1 2  3", "1\n\n2 x",
    "▁a ▁", "THE The tHe", "ﬁ Ａ ② ½", "<s>a</s> <m> <m>x", " <|end|> ", "a<|end|>b",
    "the-final--countdown!", "\u00a0x\u3000y\u200b", "가각\u1100\u1161", "İıſK",
)  # fmt: skip


def peer_of(merges: list[tuple[str, str]], extra: tuple[str, ...] = (), **model: Any) -> Any:
    """Byte-level BPE of these merges, with the special token ``<|end|>``."""
    made = dict.fromkeys((*ALPHABET, *extra, *(left + right for left, right in merges)))
    vocab = {token: id_ for id_, token in enumerate(made)}
    peer = tokenizers.Tokenizer(models.BPE(vocab, merges, **model))
    peer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    peer.decoder = decoders.ByteLevel()
    peer.add_special_tokens(["<|end|>"])
    return peer


def small_peer() -> Any:
    """262 tokens of byte-level BPE; the id of ``<|end|>`` is 262."""
    return peer_of([("t", "h"), ("th", "e"), ("Ġ", "the"), ("1", "2"), ("Ġ", "Ġ"), ("Ġ", "1")])


def saved_peer(peer: Any, path: Path, change: Callable[[Any], object] = lambda _: None) -> Path:
    """A tokenizer.json of a peer, changed."""
    document = json.loads(peer.to_str())
    change(document)
    path.write_text(json.dumps(document))
    return path


def assert_as_library(path: Path, texts: Iterable[str] = NASTY) -> Tokenizer:
    """Load a tokenizer.json: ids in all four ways and decoded text are those of the library."""
    ours = Tokenizer.load(path)
    finding, ignoring = (_library(path, ignores) for ignores in (False, True))
    texts = list(texts)
    for text in texts:
        ids = ours.encode(text)
        assert ids == finding.encode(text, add_special_tokens=False).ids, f"REPRO: {text!r}"
        assert ids == ours.encode(text, "all")
        assert ours.decode(ids) == finding.decode(ids, skip_special_tokens=False), text
        stream = ours.decode_stream()
        assert "".join(map(stream.feed, ids)) + stream.flush() == ours.decode(ids), text
        around = ours.encode(text, add_special_tokens=True)
        assert around == finding.encode(text).ids, f"REPRO: {text!r}"
        plain = ours.encode(text, "none")
        assert plain == ignoring.encode(text, add_special_tokens=False).ids, f"REPRO: {text!r}"
        assert plain == ours.encode_ordinary(text)
    assert ours.encode_batch(texts) == list(map(ours.encode, texts))
    assert_moves_to_another_process(ours, texts)
    return ours


def assert_moves_to_another_process(tokenizer: Tokenizer, texts: Iterable[str] = NASTY) -> None:
    """What `multiprocessing` hands on does what the tokenizer does."""
    moved = pickle.loads(pickle.dumps(tokenizer))
    assert (moved.digest, moved.spec.remarks) == (tokenizer.digest, tokenizer.spec.remarks)
    assert moved.special_tokens == tokenizer.special_tokens
    for text in texts:
        ids = tokenizer.encode(text, add_special_tokens=True)
        assert moved.encode(text, add_special_tokens=True) == ids
        assert moved.encode(text, "none") == tokenizer.encode(text, "none")
        assert moved.decode(ids) == tokenizer.decode(ids)


def _library(path: Path, ignores: bool) -> Any:
    library = tokenizers.Tokenizer.from_file(str(path))
    library.no_truncation()
    library.no_padding()
    library.encode_special_tokens = ignores
    return library
