"""GGUF files read: ours come back, others are what llama.cpp makes of them, or refused."""

from __future__ import annotations

import random
import struct
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.derived import of_size
from bpeline.tokenizer_core.errors import BpelineError, InvalidOption, InvalidTokenizer
from bpeline.tokenizer_core.formats import gguf
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.training.bpe import train_bpe

WORDS = {b" low": 9, b" lower": 5, b" newest": 7, b"it's": 3, "é".encode(): 2}
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def trained(**options: Any) -> Tokenizer:
    counts = WordCounts.from_mapping(WORDS, options.pop("pattern", None))
    return train_bpe(counts, 272, special_tokens=["<s>", "<|end|>"], **options)


@pytest.mark.parametrize("pattern", [name for name in gguf.PATTERNS if name != "llama3"])
@pytest.mark.parametrize("special_ids", ["first", "last"])
def test_what_we_wrote_comes_back(pattern: str, special_ids: str, tmp_path: Path) -> None:
    ours = trained(pattern=pattern, special_ids=special_ids)
    ours.save(tmp_path / "x.gguf", "gguf")
    again = Tokenizer.load(tmp_path / "x.gguf")
    assert again.digest == ours.digest
    assert again.spec.pipeline is None
    text = "it's the lowest<s> newest é\n\n <|end|>"
    assert again.encode(text) == ours.encode(text)
    assert again.encode(text, allowed_special="all") == ours.encode(text, allowed_special="all")


def test_gaps_of_ids_and_words_taken_whole_come_back(tmp_path: Path) -> None:
    smaller = of_size(trained(special_ids="last"), 264)
    smaller.save(tmp_path / "x.gguf", "gguf")
    assert Tokenizer.load(tmp_path / "x.gguf").digest == smaller.digest
    vocab = {byte: bytes([byte]) for byte in range(256)} | {256: b"ab", 257: b"abc"}
    whole = Tokenizer(vocab, [(b"a", b"b")], pattern="llama3", ignore_merges=True)
    whole.save(tmp_path / "y.gguf", "gguf")
    again = Tokenizer.load(tmp_path / "y.gguf")
    assert again.digest == whole.digest
    assert again.encode("abc ab") == [257, 32, 256]


def written(path: Path, entries: Mapping[str, Any], head: bytes = b"") -> Path:
    parts = [head or struct.pack("<4sIQQ", b"GGUF", 3, 0, len(entries))]
    for key, value in entries.items():
        parts += text(key), typed(value)
    path.write_bytes(b"".join(parts))
    return path


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def typed(value: Any) -> bytes:
    if isinstance(value, bytes):  # as it is
        return value
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    if value and isinstance(value[0], float):
        return struct.pack(f"<IIQ{len(value)}f", 9, 6, len(value), *value)
    if value and isinstance(value[0], int):
        return struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)
    return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))


def entries_of(model: str, tokens: list[str], **others: Any) -> dict[str, Any]:
    named = {"model": model, "tokens": tokens, **others}
    return {"general.architecture": "gpt2"} | {f"tokenizer.ggml.{k}": v for k, v in named.items()}


def llama_like(seed: int, user_defined: tuple[str, ...] = ()) -> dict[str, Any]:
    """A vocab of type llama with tokens of any scores, some of them equal."""
    chance = random.Random(seed)
    tokens = ["<unk>", "<s>", "</s>", *BYTES, *"▁abc<s>é/"]
    first = len(tokens) - 9
    while len(tokens) < first + 70:
        token = chance.choice(tokens[first:]) + chance.choice(tokens[first:])
        if token not in tokens and len(token) < 7:
            tokens.append(token)
    tokens = list(dict.fromkeys([*tokens, "s>", "</"]))
    scores = [float(chance.randrange(-9, 0)) for _ in tokens]
    kinds = [2, 3, 3, *[6] * 256, *[1] * (len(tokens) - 259)]
    return entries_of(
        "llama",
        [*tokens, *user_defined],
        scores=[0.0] * 259 + scores[259:] + [-1000.0] * len(user_defined),
        token_type=kinds + [4] * len(user_defined),
        bos_token_id=1,
        eos_token_id=2,
    )


def samples(seed: int) -> list[str]:
    chance = random.Random(seed)
    made = [
        "",
        " ",
        "  a",
        "<s>",
        "a</s> b",
        "<0x0A>",
        "<unk>",
        "▁a",
        "\0",
        "☃",
        " <s> <s>a",
        "a" * 99,
    ]
    made += ["".join(chance.choice(" aabbc<s>é/☃") for _ in range(size)) for size in range(1, 90)]
    return [*made, " <sep>a<sep> ▁▁ <x>", "<sep>"]


def by_llama_cpp(path: Path, texts: list[str]) -> list[tuple[list[int], list[int]]]:
    pytest.importorskip("cyllama")
    from bpeline.registry.certify.asking import ask
    from bpeline.registry.certify.smallest_model import smallest_model

    model = path.with_suffix(".model.gguf")
    model.write_bytes(smallest_model(path))
    answer = ask("cyllama", model, texts, {})
    return list(zip(answer["plain"], answer["special"], strict=True))


@pytest.mark.night
@pytest.mark.parametrize(
    ("seed", "user_defined", "prefix"),
    [(1, (), True), (2, ("<sep>", "<x>", "▁▁▁▁"), True), (3, ("<sep>",), False)],
)
def test_the_type_llama_has_the_ids_of_llama_cpp(
    seed: int, user_defined: tuple[str, ...], prefix: bool, tmp_path: Path
) -> None:
    entries = llama_like(seed, user_defined)
    if not prefix:
        entries["tokenizer.ggml.add_space_prefix"] = False
    path = written(tmp_path / "x.gguf", entries)
    ours = Tokenizer.load(path)
    texts = samples(seed)
    for sample, expected in zip(texts, by_llama_cpp(path, texts), strict=True):
        found = ours.encode(sample, "none"), ours.encode(sample, "all")
        assert found == expected, sample
    assert ours.encode("a", add_special_tokens=True) == [1, *ours.encode("a")]
    ours.save(tmp_path / "ours")
    assert Tokenizer.load(tmp_path / "ours").digest == ours.digest


def test_tokens_with_scores_are_not_written_as_merges(tmp_path: Path) -> None:
    ours = Tokenizer.load(written(tmp_path / "x.gguf", llama_like(4)))
    with pytest.raises(InvalidTokenizer, match="scores"):
        ours.save(tmp_path / "tokenizer.json", "hf")
    with pytest.raises(BpelineError):
        ours.save(tmp_path / "y.gguf", "gguf")


def test_tokens_of_the_type_llama_become_text_again(tmp_path: Path) -> None:
    ours = Tokenizer.load(written(tmp_path / "x.gguf", llama_like(4)))
    for sample in ("a b  c", "☃\n", " abc"):
        assert ours.decode(ours.encode(sample)) == sample


@pytest.mark.night
def test_user_defined_tokens_of_the_type_gpt2_are_those_of_llama_cpp(tmp_path: Path) -> None:
    trained().save(tmp_path / "x.gguf", "gguf")
    read = gguf.read_vocabulary(tmp_path / "x.gguf")
    added = ["<sep>", "   ", "  "]
    entries = entries_of(
        "gpt2",
        [*read.tokens, *added],
        pre="gpt-2",
        token_type=[*read.kinds, 4, 4, 4],
        merges=read.merges,
        add_bos_token=True,
        bos_token_id=0,
    )
    path = written(tmp_path / "y.gguf", entries)
    ours = Tokenizer.load(path)
    texts = ["low", "it's    lower<sep> <s>newest     é", "   <sep>  ", "<|end|><s>"]
    for sample, expected in zip(texts, by_llama_cpp(path, texts), strict=True):
        assert (ours.encode(sample, "none"), ours.encode(sample, "all")) == expected, sample
    assert ours.encode("low", add_special_tokens=True) == [0, *ours.encode("low")]
    with pytest.raises(InvalidOption, match="added tokens"):
        ours.save(tmp_path / "z.gguf", "gguf")


LETTERS = ["a", "b", "ab"]
LLAMA = ["<unk>", "<s>", "</s>", *BYTES]
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no tokenizer": ({"general.name": "x"}, r"tokenizer\.ggml\.model"),
    "tokens that are no text": (entries_of("gpt2", [1, 2]), r"tokenizer\.ggml\.model"),  # type: ignore[list-item]
    "another type": (entries_of("bert", LETTERS), "'bert'"),
    "unigram": (entries_of("t5", LETTERS), "'t5'"),
    "no pattern": (entries_of("gpt2", LETTERS), r"tokenizer\.ggml\.pre"),
    "an unknown pattern": (entries_of("gpt2", LETTERS, pre="tekken"), "'tekken'"),
    "a token twice": (entries_of("gpt2", ["a", "a"], pre="gpt-2"), "twice"),
    "kinds too few": (entries_of("gpt2", LETTERS, pre="gpt-2", token_type=[1]), "token_type"),
    "kinds unknown": (entries_of("gpt2", LETTERS, pre="gpt-2", token_type=[1, 1, 9]), "type 9"),
    "merges of one": (entries_of("gpt2", LETTERS, pre="gpt-2", merges=["ab"]), "merge 0"),
    "merges of three": (entries_of("gpt2", LETTERS, pre="gpt-2", merges=["a b ab"]), "merge 0"),
    "merges of numbers": (entries_of("gpt2", LETTERS, pre="gpt-2", merges=[1]), "merges"),
    "bytes missing": (entries_of("llama", LETTERS), r"\b256\b"),
    "scores too few": (entries_of("llama", LLAMA, scores=[0.5]), "scores"),
    "scores that are none": (entries_of("llama", ["a"], scores=[float("nan")]), "scores"),
    "a token of what is none": (entries_of("llama", [*LLAMA, "ab"]), "'ab'.*'a'"),
    "tokens that overlap": (
        entries_of("llama", [*LLAMA, "ab", "bc"], token_type=[2, 3, 3, *[6] * 256, 4, 4]),
        "'ab'.*'bc'",
    ),
    "control tokens perhaps": (entries_of("llama", [*LLAMA, "<PRE>"]), "'<PRE>'"),
    "white space beside tokens": (
        entries_of("llama", LLAMA) | {"general.name": "Phi-3 mini"}, "phi-3",
    ),
    "tokens together": (
        entries_of("llama", [*LLAMA, "<|return|>", "<|call|>", "<|end|>"]), r"<\|end\|>",
    ),
    "a prefix that is no flag": (entries_of("llama", LLAMA, add_space_prefix=1), "_prefix"),
    "a token that is none": (entries_of("llama", LLAMA, bos_token_id="<s>"), "bos_token_id"),
    "no beginning to add": (
        entries_of("gpt2", LETTERS, pre="gpt-2", add_bos_token=True), "bos",
    ),
    "an array of arrays": ({"tokenizer.x": struct.pack("<IIQ", 9, 9, 1)}, "type 9"),
    "a value of no type": ({"tokenizer.x": struct.pack("<I", 13)}, "type 13"),
    "an endless array": ({"tokenizer.x": struct.pack("<IIQ", 9, 0, 1 << 60)}, "elements"),
    "endless text": ({"tokenizer.x": struct.pack("<IQ", 8, 1 << 60)}, "bytes"),
    "an early end": ({"tokenizer.x": struct.pack("<IQ", 8, 9)}, "metadata"),
    "text that is none": ({"tokenizer.x": struct.pack("<IQ", 8, 1) + b"\xff"}, "UTF-8"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_we_do_not_know_exactly_is_refused(name: str, tmp_path: Path) -> None:
    entries, said = REFUSED[name]
    with pytest.raises(InvalidTokenizer, match=said) as caught:
        Tokenizer.load(written(tmp_path / "x.gguf", entries))
    assert caught.value.accepted
    assert caught.value.next_step


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (b"GGML and more of it", "GGUF"),
        (b"GG", "metadata"),
        (struct.pack("<4sIQQ", b"GGUF", 1, 0, 0), "version 1"),
        (struct.pack(">4sIQQ", b"GGUF", 3, 0, 0), "version"),
        (struct.pack("<4sIQQ", b"GGUF", 3, 0, 1 << 40), "entries"),
    ],
)
def test_what_is_no_gguf_file_is_refused(head: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(head)
    with pytest.raises(InvalidTokenizer, match=said):
        Tokenizer.load(path)


def test_a_model_is_read_no_further_than_its_metadata(tmp_path: Path) -> None:
    trained().save(tmp_path / "x.gguf", "gguf")
    with (tmp_path / "x.gguf").open("ab") as file:
        file.truncate(1 << 40)  # a hole, as if of weights
    assert Tokenizer.load(tmp_path / "x.gguf").digest == trained().digest


def test_damaged_files_are_read_or_refused(tmp_path: Path) -> None:
    chance = random.Random(5)
    contents = []
    for number, entries in enumerate((llama_like(1), llama_like(2, ("<sep>",)))):
        contents.append(written(tmp_path / f"{number}.gguf", entries).read_bytes())
    path = tmp_path / "x.gguf"
    refused = 0
    for content, _ in product(contents, range(40)):
        at = chance.randrange(len(content))
        put = chance.randbytes(chance.randrange(1, 4))
        path.write_bytes(content[:at] + put + content[at + chance.randrange(4) :])
        try:
            Tokenizer.load(path).encode("abc <sep> é")
        except BpelineError:
            refused += 1
    assert refused > 10
