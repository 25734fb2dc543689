"""Imported tokenizers on a text that comes in pieces: the ids of the whole."""

from __future__ import annotations

import json
import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from amounts import Amounts
from charsmaps import charsmap
from huggingface_peers import peer_of, saved_peer
from tempting_texts import tempting_texts
from tokenizers import AddedToken as TheirToken
from tokenizers import normalizers

from bpeline.tokenizer_core.encoding import batch_encoding
from bpeline.tokenizer_core.errors import InvalidSpecialToken, InvalidTokenizer
from bpeline.tokenizer_core.pipeline import AddedToken, Normalizer, Pipeline, Prefix
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.tokenizer_spec import TokenizerSpec

RULES = charsmap(
    {
        "ﬁ": "fi", "e\u0301": "é", "\u3000": " ", "\u200b": "", "Ａ": "A", "ab": "x", "abc": "y",
        "\t": " ", "\n": " ", "\u0301": "", "…": "...",
    }
)  # fmt: skip
STEPS: dict[str, Any] = {
    **{form: {"type": form} for form in ("NFC", "NFD", "NFKC", "NFKD", "Nmt", "Lowercase")},
    "StripAccents": {"type": "StripAccents"},
    "Precompiled": {"type": "Precompiled", "precompiled_charsmap": RULES},
    **{
        f"Bert {flags}": {
            "type": "BertNormalizer",
            "clean_text": flags & 1 > 0,
            "handle_chinese_chars": flags & 2 > 0,
            "strip_accents": None if flags & 4 else True,
            "lowercase": flags & 8 > 0,
        }
        for flags in (0, 6, 15)
    },
    **{
        f"Strip {left} {right}": {"type": "Strip", "strip_left": left, "strip_right": right}
        for left in (False, True)
        for right in (False, True)
    },
    "Prepend": {"type": "Prepend", "prepend": "▁▁"},
    **{
        f"Replace {string}": {"type": "Replace", "pattern": {"String": string}, "content": content}
        for string, content in ((" ", "▁"), ("aa", "a"), ("aba", "b"), ("e\u0301", "E"))
    },
    **{
        f"Replace /{one}/": {"type": "Replace", "pattern": {"Regex": one}, "content": content}
        for one, content in ((" {2,}", " "), ("a+b", "x"), (r"\s+", " "), ("[^a]", "c"))
    },
    **{
        f"SentencePiece {flags}": {
            "type": "SentencePiece",
            "charsmap": RULES if flags & 1 else "",
            "add_dummy_prefix": flags & 2 > 0,
            "remove_extra_whitespaces": flags & 4 > 0,
            "escape_whitespaces": flags & 8 > 0,
            "space_is_suffix": flags & 16 > 0,
            "user_defined": ["<u>", "a<u>", "\u3000x"] if flags & 32 else [],
        }
        for flags in range(64)
    },
}
SEQUENCES = (("NFD", "StripAccents", "Lowercase"), ("Strip True True", "Prepend", "Replace  "),
             ("NFKC", "Replace /\\s+/", "SentencePiece 15"))  # fmt: skip
TEMPTING = [
    *"aabbecx   ▁\t\n", "  ", "e\u0301", "\u0301", "\u0323\u0300", "\u1100", "\u1161", "\u11a8",
    "가", "각", "ﬁ", "\u200b", "\u3000", "\u00a0", "<u>", "a<u>", "<", "u>", "क", "\u094d",
    "\u200d", "ｶ", "\uff9e", "か", "\u3099", "中", "Σ", "İ", "\r\n", "\r", "👍", "🏽",
    "🇩", "🇪", "…", "Ａ", "\u0e33", "ก", "abc", "\u0660", "ㄱ", "ㅏ",
]  # fmt: skip


def random_text(random_: random.Random, more: list[str] | None = None) -> str:
    few = random_.sample(TEMPTING, 6) + (more or [])
    return "".join(random_.choices(few, k=random_.randint(0, 40)))


def cut(text: str, random_: random.Random) -> Iterator[str]:
    at = 0
    while at < len(text):
        size = random_.choice([1, 1, 2, 7])
        yield text[at : at + size]
        at += size


def normalized(names: tuple[str, ...]) -> Normalizer:
    made = Normalizer.of_description(
        {"type": "Sequence", "normalizers": [STEPS[name] for name in names]}
    )
    assert made is not None
    return made


@pytest.mark.parametrize("names", [*((name,) for name in STEPS), *SEQUENCES])
def test_ids_with_each_normalizer_are_those_of_the_whole(
    names: tuple[str, ...], seed: int, amounts: Amounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    random_ = random.Random(f"{seed} {names}")
    contents = ["<u>", "<", "u>", "  ", "a", "ab", "e\u0301", "<u><u>", "▁", "中", " x"]
    vocab = {byte: bytes([byte]) for byte in range(256)}
    for _ in range(4 + amounts.laws // 20):
        added = [
            AddedToken(300 + id_, content, *(random_.random() < 0.4 for _ in range(5)))
            for id_, content in enumerate(random_.sample(contents, random_.randint(0, 4)))
        ]
        scheme = random_.choice(["always", "first", "never"])
        prefix = random_.choice([None, None, Prefix("▁", scheme, True)])
        try:
            pipeline = Pipeline(tuple(added), normalized(names), prefix)
            tokens = vocab | {one.id: one.content.encode() for one in added}
            specials = {one.content: one.id for one in added if one.special}
            spec = TokenizerSpec.checked(tokens, [], specials, "gpt2", pipeline=pipeline)
            tokenizer = Tokenizer.of_spec(spec)
            tokenizer.encode("")
        except InvalidTokenizer:  # added tokens that are the same once they are normalized
            continue
        assert_streams(tokenizer, contents, seed, 20, monkeypatch)


PEERS: dict[str, Any] = {
    "NFC": normalizers.NFC(),
    "NFKC": normalizers.NFKC(),
    "BERT": normalizers.BertNormalizer(),
    "strips": normalizers.Sequence([normalizers.Strip(), normalizers.Lowercase()]),
    "spaces": normalizers.Sequence([normalizers.Replace(" ", "▁"), normalizers.Prepend("▁")]),
}


@pytest.mark.parametrize("name", PEERS)
def test_ids_are_those_of_the_whole(
    name: str, tmp_path: Path, seed: int, amounts: Amounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = peer_of([("t", "h"), ("th", "e"), ("Ġ", "the"), ("1", "2"), ("Ġ", "Ġ"), ("Ġ", "1")])
    peer.normalizer = PEERS[name]
    peer.add_tokens(
        [TheirToken("<w>", single_word=True), TheirToken("<s>", lstrip=True, rstrip=True)]
    )
    tokenizer = Tokenizer.load(saved_peer(peer, tmp_path / "tokenizer.json"))
    assert_streams(
        tokenizer, ["<w>", "<s>", "<|end|>", "the ", " 12"], seed, 30 + amounts.laws, monkeypatch
    )


def assert_streams(
    tokenizer: Tokenizer, more: list[str], seed: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random_, texts = random.Random(seed), tempting_texts(seed)
    for _ in range(count):
        monkeypatch.setattr(batch_encoding, "_ENOUGH", random_.choice([1, 5, 60]))
        text = random_text(random_, more) + next(texts) + random_text(random_, more)
        text += random_.choice(["", "\ud83d", "\ud83d\udc4d"])
        for allowed in (None, "none", "all"):
            streamed = list(tokenizer.encode_iterable(cut(text, random_), allowed))
            assert streamed == tokenizer.encode(text, allowed), f"{allowed} {text!r}"


def whole_texts(
    ignore_merges: bool = False, user_defined: tuple[str, ...] = ("<u>", "cac"), **options: Any
) -> Tokenizer:
    """BPE over characters of whole texts, as of SentencePiece."""
    from bpeline.tokenizer_core.algorithms import SentencePieceBpe

    merges = [("▁", "a"), ("a", "b"), ("▁a", "b"), ("b", "▁"), ("e", "\u0301"), ("ab", "ab")]
    tokens = [
        "<unk>",
        *"▁abce中",
        "\u0301",
        "<u>",
        "cac",
        *("".join(pair) for pair in merges),
        "<|end|>",
        "▁▁abc",  # no merge makes it
    ]
    if options.get("byte_fallback"):
        tokens += [f"<0x{byte:02X}>" for byte in range(256)]
    spec = TokenizerSpec.checked(
        {id_: token.encode() for id_, token in enumerate(tokens)},
        [(left.encode(), right.encode()) for left, right in merges],
        algorithm=SentencePieceBpe(user_defined=user_defined, **options),
        ignore_merges=ignore_merges,
        pipeline=Pipeline(
            added_tokens=(AddedToken(tokens.index("<|end|>"), "<|end|>", special=True),),
            normalizer=normalized(("Prepend", "Replace  ")),
        ),
    )
    return Tokenizer.of_spec(spec)


@pytest.mark.parametrize("ignore_merges", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {"byte_fallback": True},
        {"byte_fallback": False, "fuse_unknown": True},
        {"byte_fallback": False, "fuse_unknown": False},
    ],
)
def test_texts_that_are_one_word_have_the_ids_of_the_whole(
    options: dict[str, Any],
    ignore_merges: bool,
    seed: int,
    amounts: Amounts,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokenizer = whole_texts(ignore_merges, **options)
    more = ["ab", " a", "abc", " abc", "<u>", "<|end|>", "abc<|end|>abc", "ca", "ee", "qq"]
    assert_streams(tokenizer, more, seed, 30 + amounts.laws, monkeypatch)


METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}


def unigram(kind: str) -> dict[str, Any]:
    """A small tokenizer.json whose model is Unigram."""
    added = [
        {"id": id_, "content": content, "special": special, "normalized": not special,
         "single_word": False, "lstrip": content == "<w>", "rstrip": content == "<w>"}
        for id_, content, special in ((0, "<|end|>", True), (1, "<w>", False))
    ]  # fmt: skip
    document: dict[str, Any] = {"version": "1.0", "added_tokens": added, "post_processor": None,
                                "truncation": None, "padding": None, "decoder": None}  # fmt: skip
    pieces = ["<|end|>", "<w>", "<unk>", "▁", *"abcetx1é中", "▁a", "ab", "▁ab", "th", "▁the", "e▁"]
    vocab = [[piece, -1.0 - place / 7] for place, piece in enumerate(pieces)]
    model = {"type": "Unigram", "vocab": vocab, "unk_id": 2, "byte_fallback": False}
    split_spaces = {"type": "WhitespaceSplit"}
    cutting = {
        "T5": {"type": "Sequence", "pretokenizers": [split_spaces, METASPACE]},
        "XLM-R": METASPACE,
        "first": {**METASPACE, "prepend_scheme": "first"},
        "whole": {**METASPACE, "split": False},
    }[kind]
    return {**document, "model": model, "normalizer": STEPS["Precompiled"],
            "pre_tokenizer": cutting}  # fmt: skip


def loaded(document: dict[str, Any], folder: Path) -> Tokenizer:
    (folder / "tokenizer.json").write_text(json.dumps(document))
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    assert tokenizer.algorithm.name == "unigram"
    return tokenizer


@pytest.mark.parametrize("kind", ["T5", "XLM-R", "first", "whole"])
def test_ids_of_unigram_are_those_of_the_whole(
    kind: str, tmp_path: Path, seed: int, amounts: Amounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = loaded(unigram(kind), tmp_path)
    more = ["ab", " a", "the ", "<w>", "<|end|>", "<|e", " <w", "▁a", "'s", "  "]
    assert_streams(tokenizer, more, seed, 30 + amounts.laws, monkeypatch)


@pytest.mark.parametrize("kind", ["NFC", "T5"])
def test_texts_are_parted_between_words(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "T5":
        given = unigram(kind)
        given["added_tokens"].pop()  # which takes white space
        tokenizer = loaded(given, tmp_path)
    else:
        peer = peer_of([("t", "h"), ("th", "e")])
        peer.normalizer = PEERS[kind]
        tokenizer = Tokenizer.load(saved_peer(peer, tmp_path / "tokenizer.json"))
    read = 0

    def pieces() -> Iterator[str]:
        nonlocal read
        for _ in range(50):
            read += 1
            yield "the ab the\n" * 200

    monkeypatch.setattr(batch_encoding, "_ENOUGH", 2_000)
    next(tokenizer.encode_iterable(pieces()))
    assert read < 10


def test_what_is_forbidden_is_found_across_pieces(tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(saved_peer(peer_of([("t", "h")]), tmp_path / "tokenizer.json"))
    for pieces in (["a<|e", "nd|>b"], iter("x<|end|>")):
        with pytest.raises(InvalidSpecialToken, match="end"):
            list(tokenizer.encode_iterable(pieces, "none", on_special="error"))
    long = "x" * ((1 << 16) - 3)
    with pytest.raises(InvalidSpecialToken, match="end"):
        list(tokenizer.encode_iterable([long, "<|e", "nd|>"], "none", on_special="error"))
    with pytest.raises(TypeError, match="bytes"):
        list(tokenizer.encode_iterable(["a", b"b"]))  # type: ignore[list-item]


@pytest.mark.night
def test_a_stream_takes_little_memory(tmp_path: Path) -> None:
    peer = peer_of([("t", "h"), ("th", "e")])
    peer.normalizer = PEERS["NFC"]
    tokenizer = Tokenizer.load(saved_peer(peer, tmp_path / "tokenizer.json"))
    random_ = random.Random(3)
    words = ["".join(random_.choices("abcdefghijéüß中文かな", k=5)) for _ in range(20_000)]
    piece = " ".join(words)
    list(tokenizer.encode_iterable(["the 中\n"]))
    peaks = []
    for times in (10, 40):
        tracemalloc.start()
        ids = sum(1 for _ in tokenizer.encode_iterable(piece for _ in range(times)))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert ids > times * len(words)
    assert peaks[1] < 1.1 * peaks[0] + 1_000_000
    assert peaks[1] < 90_000_000  # 7 MB of text; a table of 64 MiB for words is a part of it
