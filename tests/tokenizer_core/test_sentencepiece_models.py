"""SentencePiece's .model files: the ids of the library itself, and files that are none."""

from __future__ import annotations

import random
import struct
import sys
from functools import partial
from pathlib import Path

import pytest
from sentencepiece_peers import MODELS, SENTENCES, STRANGE, random_texts, trained_model

from bpeline.tokenizer_core.algorithms.sentencepiece_model import (
    BYTE,
    CONTROL,
    NORMAL,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
)
from bpeline.tokenizer_core.errors import BpelineError, InvalidTokenizer, UnknownToken
from bpeline.tokenizer_core.tokenizer import Tokenizer

sentencepiece = pytest.importorskip("sentencepiece")


model_of = partial(trained_model, model_type="bpe")


@pytest.mark.parametrize("name", MODELS)
def test_ids_are_those_of_sentencepiece(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.model"
    path.write_bytes(model_of(name))
    theirs = sentencepiece.SentencePieceProcessor(model_proto=model_of(name))
    ours = Tokenizer.load(path, "sentencepiece")
    texts = [*STRANGE, *SENTENCES, *random_texts(300, 1)]
    for text in texts:
        assert ours.encode(text) == theirs.encode(text), text
    assert ours.encode_batch(texts) == theirs.encode(texts)
    ours.save(tmp_path / "ours")
    again = Tokenizer.load(tmp_path / "ours")
    assert again.digest == ours.digest
    assert again.encode_batch(texts) == theirs.encode(texts)


def test_a_run_of_spaces_takes_no_call_for_each(tmp_path: Path) -> None:
    (tmp_path / "x.model").write_bytes(model_of("as trained by default"))
    theirs = sentencepiece.SentencePieceProcessor(model_proto=model_of("as trained by default"))
    ours = Tokenizer.load(tmp_path / "x.model", "sentencepiece")
    for text in (" " * 9_999, "\t \n\u3000" * 9_999, " " * 9_999 + "\x01", "a" + " " * 9_999):
        assert ours.encode(text) == theirs.encode(text)  # and everything is loaded
        calls: list[str] = []
        sys.setprofile(lambda _frame, event, _of, calls=calls: calls.append(event))
        try:
            ours.encode(text)
        finally:
            sys.setprofile(None)
        assert len(calls) < 9_999


@pytest.mark.parametrize("name", MODELS)
def test_text_comes_back_as_sentencepiece_gives_it(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.model"
    path.write_bytes(model_of(name))
    theirs = sentencepiece.SentencePieceProcessor(model_proto=model_of(name))
    ours = Tokenizer.load(path, "sentencepiece")
    pieces = {id_: theirs.id_to_piece(id_) for id_ in range(theirs.get_piece_size())}
    kinds = [
        [id_ for id_ in pieces if theirs.is_control(id_) or theirs.is_unknown(id_)],
        [id_ for id_, piece in pieces.items() if piece.startswith("▁")],
        [id_ for id_, piece in pieces.items() if piece in ("▁", "▁▁", "<0x20>", "<0xE4>")],
        [id_ for id_ in pieces if theirs.is_byte(id_)] or [*pieces],
        [*pieces],
    ]
    chance = random.Random(2)
    drawn = [
        [chance.choice(chance.choice(kinds)) for _ in range(chance.randint(0, 9))]
        for _ in range(600)
    ]
    for ids in [*map(theirs.encode, [*SENTENCES, *random_texts(200, 2)]), *drawn]:
        stream = ours.decode_stream()
        for text in (ours.decode(ids), "".join(map(stream.feed, ids)) + stream.flush()):
            assert text == theirs.decode(ids), [pieces[id_] for id_ in ids]
    with pytest.raises(UnknownToken):
        ours.decode([0, True])
    assert ours.id_to_token(theirs.unk_id()) == b"<unk>"


def varint(value: int) -> bytes:
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def whole(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def piece(text: str | bytes, score: float = 0.0, kind: int = NORMAL) -> bytes:
    content = text if isinstance(text, bytes) else text.encode()
    scored = varint(2 << 3 | 5) + struct.pack("<f", score)
    return field(1, field(1, content) + scored + whole(3, kind))


UNK = piece("<unk>", 0, UNKNOWN)
BPE_TRAINED = field(2, whole(3, 2))
PLAIN = field(3, field(1, b"identity") + whole(3, 0) + whole(4, 0))


def loaded(content: bytes, folder: Path) -> Tokenizer:
    path = folder / "x.model"
    path.write_bytes(content)
    return Tokenizer.load(path, "sentencepiece")


def agree(content: bytes, folder: Path, texts: list[str]) -> None:
    theirs = sentencepiece.SentencePieceProcessor(model_proto=content)
    ours = loaded(content, folder)
    for text in texts:
        assert ours.encode(text) == theirs.encode(text), text


@pytest.mark.parametrize("seed", range(6))
def test_pieces_of_any_scores_merge_as_in_sentencepiece(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    texts = list("▁abcé")
    while len(texts) < 70:
        text = chance.choice(texts) + chance.choice(texts)
        if text not in texts and len(text) < 7:
            texts.append(text)
    scores = {text: float(chance.randrange(-9, 3)) for text in texts}
    pieces = [UNK, piece("<s>", 0, CONTROL), *(piece(text, scores[text]) for text in texts)]
    pieces += [piece("bca", 0.0, USER_DEFINED), piece("é", 0.0, NORMAL)][: seed % 2]
    content = b"".join(pieces) + BPE_TRAINED + PLAIN
    samples = ["".join(chance.choice(" aabbcé☃") for _ in range(size)) for size in range(1, 120)]
    agree(content, tmp_path, samples)


def test_unused_pieces_that_nothing_makes_change_nothing(tmp_path: Path) -> None:
    pieces = [UNK, piece("▁"), piece("a", -1), piece("b"), piece("bxb", -2, UNUSED)]
    agree(b"".join(pieces) + BPE_TRAINED + PLAIN, tmp_path, ["a", "ab", "bxb"])


BYTES = b"".join(piece(f"<0x{byte:02X}>", 0, BYTE) for byte in range(256))
REFUSED: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "pieces"),
    "text": (b"hello, this is no model", "protocol buffer"),
    "a group": (varint(1 << 3 | 3), "protocol buffer"),
    "a field beyond its end": (field(1, b"abc")[:-1], "protocol buffer"),
    "a number without end": (b"\x08" + b"\xff" * 11, "protocol buffer"),
    "field 0": (b"\x02\x00", "protocol buffer"),
    "no unknown piece": (piece("a") + BPE_TRAINED, r"\b0\b.*unknown"),
    "two unknown pieces": (UNK + piece("<u>", 0, UNKNOWN) + BPE_TRAINED, r"\b2\b.*unknown"),
    "a piece twice": (UNK + piece("a") + piece("a") + BPE_TRAINED, "twice"),
    "an empty piece": (UNK + piece("") + BPE_TRAINED, "0 bytes"),
    "a long piece": (UNK + piece("a" * 5000) + BPE_TRAINED, "5000 bytes"),
    "a piece that is not UTF-8": (UNK + piece(b"\xff") + BPE_TRAINED, "UTF-8"),
    "a piece of another kind": (UNK + piece("a", 0, 9) + BPE_TRAINED, "type 9"),
    "an endless score": (UNK + piece("a", float("inf")) + BPE_TRAINED, "score"),
    "a score that is none": (UNK + piece("a", float("nan")) + BPE_TRAINED, "score"),
    "some bytes": (UNK + piece("<0x41>", 0, BYTE) + BPE_TRAINED, r"\b1\b.*byte pieces"),
    "bytes without pieces": (
        UNK + piece("a") + field(2, whole(3, 2) + whole(35, 1)), "byte pieces",
    ),
    "rules that are none": (UNK + piece("a") + BPE_TRAINED + field(3, field(2, b"abcdef")), "trie"),
    "rules beyond their end": (
        UNK + piece("a") + BPE_TRAINED + field(3, field(2, struct.pack("<I", 400) + bytes(8))),
        "trie",
    ),
    # What merges cannot say.
    "words": (UNK + piece("a") + field(2, whole(3, 3)), "word"),
    "a control piece of one character": (UNK + piece("☃", 0, CONTROL) + BPE_TRAINED, "'☃'"),
    "an unused piece that is made": (
        UNK + piece("a") + piece("aa", 0, UNUSED) + BPE_TRAINED, "unused",
    ),
    "an unused piece of one character": (
        UNK + piece("a") + piece("b", 0, UNUSED) + BPE_TRAINED, "unused",
    ),
    "another text of unknown characters": (
        UNK + piece("a") + field(2, whole(3, 2) + field(44, b"?")), "a text for unknown characters",
    ),
    "a piece of what is none": (UNK + piece("a") + piece("ab") + BPE_TRAINED, "'b'"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_exactly_is_refused(name: str, tmp_path: Path) -> None:
    content, said = REFUSED[name]
    with pytest.raises(InvalidTokenizer, match=said) as caught:
        loaded(content, tmp_path)
    assert caught.value.accepted
    assert caught.value.next_step


def changed(content: bytes, chance: random.Random) -> bytes:
    for _ in range(chance.randrange(1, 6)):
        at = chance.randrange(len(content) + 1)
        put = chance.randbytes(chance.randrange(3))
        content = content[:at] + put + content[at + chance.randrange(4) :]
    return content


@pytest.mark.parametrize("name", ["as trained by default", "user-defined"])
def test_damaged_models_are_read_or_refused(name: str, tmp_path: Path) -> None:
    chance = random.Random(3)
    refused = 0
    for _ in range(60):
        try:
            loaded(changed(model_of(name), chance), tmp_path).encode("the café  今天 <sep>")
        except BpelineError:
            refused += 1
    assert refused > 10
