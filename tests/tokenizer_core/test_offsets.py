"""Where tokens stand in their text: against the text itself, and against HuggingFace."""

from __future__ import annotations

from pathlib import Path

import tokenizers

from bpeline.tokenizer_core.tokenizer import Tokenizer

BYTES = {byte: bytes([byte]) for byte in range(256)}


def test_offsets_cover_the_text_and_show_the_tokens(
    tokenizer: Tokenizer, fuzz_texts: list[str]
) -> None:
    for text in fuzz_texts[:3_000]:
        content = text.encode()
        placed = tokenizer.encode_with_offsets(text, "all")
        assert placed.ids == tokenizer.encode(text, "all")
        at = 0
        for id_, (begin, end) in zip(placed.ids, placed.byte_offsets.tolist(), strict=True):
            assert begin == at
            assert content[begin:end] == tokenizer.vocab[id_], f"REPRO: {text!r}"
            at = end
        assert at == len(content)
        for (begin, end), (first, last) in zip(
            placed.byte_offsets.tolist(), placed.char_offsets.tolist(), strict=True
        ):
            assert content[begin:end] in text[first:last].encode()


def test_character_offsets_are_those_of_huggingface(
    tokenizer: Tokenizer, fuzz_texts: list[str], tmp_path: Path
) -> None:
    tokenizer.save(tmp_path / "tokenizer.json", "hf")
    peer = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for encoding, text in zip(
        peer.encode_batch(fuzz_texts[:4_000]), fuzz_texts[:4_000], strict=True
    ):
        placed = tokenizer.encode_with_offsets(text, "all")
        assert placed.ids == encoding.ids
        offsets = [tuple(pair) for pair in placed.char_offsets.tolist()]
        assert offsets == encoding.offsets, f"REPRO: {text!r}"


def test_parts_of_a_character_have_the_offsets_of_the_whole() -> None:
    placed = Tokenizer(BYTES, []).encode_with_offsets("aé👍")
    assert placed.byte_offsets.tolist() == [[i, i + 1] for i in range(7)]
    assert placed.char_offsets.tolist() == [[0, 1], *[[1, 2]] * 2, *[[2, 3]] * 4]


def test_a_pair_of_surrogates_is_two_characters_of_the_text() -> None:
    tokenizer = Tokenizer(BYTES | {256: "é".encode()}, [(b"\xc3", b"\xa9")])
    placed = tokenizer.encode_with_offsets("\ud83d\udc4dé\ud800x\udc4d")
    expected = [*[[0, 2]] * 4, [2, 3], *[[3, 4]] * 3, [4, 5], *[[5, 6]] * 3]
    assert placed.char_offsets.tolist() == expected


def test_no_text_has_no_offsets(tokenizer: Tokenizer) -> None:
    placed = tokenizer.encode_with_offsets("")
    assert placed.ids == []
    assert placed.byte_offsets.shape == placed.char_offsets.shape == (0, 2)


def test_ids_far_apart_have_offsets_too() -> None:
    tokenizer = Tokenizer(BYTES | {(1 << 23): b"ab"}, [(b"a", b"b")])
    assert tokenizer.encode_with_offsets("xab").byte_offsets.tolist() == [[0, 1], [1, 3]]
