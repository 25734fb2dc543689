"""Files that HuggingFace's own library writes: the same ids, or refused by the name of the part."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiktoken
import tokenizers
from tokenizers import (
    AddedToken,
    Regex,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

from bpeline.tokenizer_core.errors import InvalidPattern, InvalidTokenizer
from bpeline.tokenizer_core.formats import tiktoken as tiktoken_format
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern
from bpeline.tokenizer_core.tokenizer import Tokenizer

Change = Callable[[Any], object]
ENGLISH = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LIKE_GPT4 = ENGLISH + (
    r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
DEEPSEEK_V3 = (
    r"\p{N}{1,3}",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+".replace(r"\"", '"'),
)
CL100K_IN_TIKTOKEN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)


def split(regex: str, behavior: str = "isolated", invert: bool = False) -> Any:
    return pre_tokenizers.Split(Regex(regex), behavior, invert)


def byte_level(use_regex: bool = False, add_prefix_space: bool = False) -> Any:
    return pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space, use_regex=use_regex)


def trained_with(pre_tokenizer: Any, texts: list[str], **model: Any) -> Any:
    peer = tokenizers.Tokenizer(models.BPE(**model))
    peer.pre_tokenizer = pre_tokenizer
    peer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=900, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    peer.train_from_iterator(texts[:4_000], trainer)
    return peer


def saved(peer: Any, tmp_path: Path) -> Path:
    path = tmp_path / "tokenizer.json"
    peer.save(str(path))
    return path


def assert_same_ids(ours: Tokenizer, peer: Any, texts: list[str], **options: Any) -> None:
    theirs = peer.encode_batch(texts, **options)
    for text, ids, encoding in zip(
        texts, ours.encode_batch(texts, None, "all"), theirs, strict=True
    ):
        assert ids == encoding.ids, f"REPRO: {text!r}"


SPLITS = {
    "ByteLevel alone": (byte_level(use_regex=True), "gpt2"),
    "Llama 3": ([split(LIKE_GPT4), byte_level()], "llama3"),
    "matches only": ([split(LIKE_GPT4, "removed", True), byte_level()], "llama3"),
    "Qwen 2": ([split(LIKE_GPT4.replace("{1,3}", "")), byte_level()], "qwen2"),
    "o200k": ([split(SplitPattern.named("o200k").regex), byte_level()], "o200k"),
    "DeepSeek": ([*map(split, DEEPSEEK_V3), byte_level()], "deepseek-v3"),
    "own": ([split(r"\p{Lu}\p{Ll}*|\d|[^\s\p{L}]{1,4}"), byte_level()], None),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", SPLITS)
def test_published_pre_tokenizers_are_read(
    kind: str, tmp_path: Path, fuzz_texts: list[str]
) -> None:
    steps, name = SPLITS[kind]
    peer = trained_with(
        pre_tokenizers.Sequence(steps) if isinstance(steps, list) else steps, fuzz_texts
    )
    ours = Tokenizer.load(saved(peer, tmp_path))
    assert ours.pattern.name == name
    assert_same_ids(ours, peer, fuzz_texts)
    for text in fuzz_texts[:200]:
        assert ours.decode(ours.encode(text)) == peer.decode(peer.encode(text).ids)


def test_what_is_unknown_does_not_matter_where_every_byte_is_known(
    tmp_path: Path, fuzz_texts: list[str]
) -> None:
    peer = trained_with(
        byte_level(use_regex=True), fuzz_texts, unk_token="<unk>", byte_fallback=True, fuse_unk=True
    )
    assert_same_ids(Tokenizer.load(saved(peer, tmp_path)), peer, fuzz_texts[:5_000])


@pytest.mark.slow
def test_a_normalization_is_refused_or_left_to_the_caller(
    tmp_path: Path, fuzz_texts: list[str]
) -> None:
    peer = trained_with(pre_tokenizers.Sequence([split(LIKE_GPT4), byte_level()]), fuzz_texts)
    peer.normalizer = normalizers.NFC()
    path = saved(peer, tmp_path)
    with pytest.raises(InvalidTokenizer, match="normalizer NFC") as refused:
        Tokenizer.load(path)
    assert "without_normalizer=True" in refused.value.next_step
    ours = Tokenizer.load(path, without_normalizer=True)
    composed = [unicodedata.normalize("NFC", text) for text in fuzz_texts]
    assert composed != fuzz_texts
    assert_same_ids(ours, peer, composed)


@pytest.mark.slow
def test_added_tokens_that_are_not_special_are_made_special_on_demand(
    tmp_path: Path, fuzz_texts: list[str]
) -> None:
    peer = trained_with(byte_level(use_regex=True), fuzz_texts)
    peer.add_special_tokens(["<|endoftext|>"])
    peer.add_tokens([AddedToken("<|a|>", normalized=False), AddedToken("了不起", normalized=False)])
    path = saved(peer, tmp_path)
    with pytest.raises(InvalidTokenizer, match="special=False") as refused:
        Tokenizer.load(path)
    assert "added_as_special=True" in refused.value.next_step
    ours = Tokenizer.load(path, added_as_special=True)
    assert list(ours.special_tokens) == ["<|endoftext|>", "<|a|>", "了不起"]
    assert_same_ids(ours, peer, [*fuzz_texts, "a了不起b<|a|>了不起"])


@pytest.mark.parametrize(
    ("tokens", "overlap"),
    [
        ({"<a><b>": False, "<b>": False, "<a>": False}, False),
        ({"<a><b>": True, "<b>": True}, False),
        ({"<a>": True, "<c>": False}, False),
        ({"<a><b>": True, "<b>": False}, True),
        ({"<b>": True, "<a><b>c": False}, True),
        ({"<a><b>": True, "><c>": False}, True),
        ({"<c>x": True, "<a><c": False, "q": False}, True),
    ],
)
def test_normalized_and_other_added_tokens_do_not_mix_where_they_overlap(
    tokens: dict[str, bool], overlap: bool, tmp_path: Path, fuzz_texts: list[str]
) -> None:
    peer = trained_with(byte_level(use_regex=True), fuzz_texts)
    peer.add_special_tokens(
        [AddedToken(token, normalized=flag) for token, flag in tokens.items() if len(token) > 1]
    )
    path = saved(peer, tmp_path)
    if overlap:
        with pytest.raises(InvalidTokenizer, match="may overlap"):
            Tokenizer.load(path)
        return
    texts = ["".join(t) for t in (("<a><b>",), ("<a><a><b><b>c<c>",), ("x<b><a>", "<a><b><c>x"))]
    assert_same_ids(Tokenizer.load(path), peer, texts)


def test_the_refused_mix_is_indeed_read_otherwise(tmp_path: Path, fuzz_texts: list[str]) -> None:
    peer = trained_with(byte_level(use_regex=True), fuzz_texts)
    peer.add_special_tokens([AddedToken("<a><b>", normalized=True), AddedToken("<b>")])
    assert peer.token_to_id("<a><b>") not in peer.encode("<a><b>").ids


def sequence(*steps: Any) -> Any:
    return pre_tokenizers.Sequence(list(steps))


REFUSED_PRE_TOKENIZERS = {
    "BertPreTokenizer": pre_tokenizers.BertPreTokenizer(),
    "Whitespace": pre_tokenizers.Whitespace(),
    "WhitespaceSplit": sequence(pre_tokenizers.WhitespaceSplit(), byte_level()),
    "Metaspace": pre_tokenizers.Metaspace(),
    "Digits, ByteLevel": sequence(pre_tokenizers.Digits(individual_digits=True), byte_level()),
    "Punctuation": sequence(pre_tokenizers.Punctuation(), byte_level()),
    "CharDelimiterSplit": sequence(pre_tokenizers.CharDelimiterSplit("x"), byte_level()),
    "UnicodeScripts": sequence(pre_tokenizers.UnicodeScripts(), byte_level()),
    "add_prefix_space": byte_level(use_regex=True, add_prefix_space=True),
    "Split, ByteLevel": sequence(split(r"\d"), byte_level(use_regex=True)),
    "Split, Split, ByteLevel": sequence(split(r"\d"), split(r"\p{L}+"), byte_level()),
    "fixed string": sequence(pre_tokenizers.Split(" ", "isolated"), byte_level()),
    "MergedWithPrevious": sequence(split(r"\d", "merged_with_previous"), byte_level()),
    "Contiguous": sequence(split(r"\d", "contiguous"), byte_level()),
    "drops the text": sequence(split(r"\p{L}+", "removed", True), byte_level()),
    r"\\b": sequence(split(r"\b\p{L}+"), byte_level()),
    "reads differently": sequence(split(r"\w+|\s"), byte_level()),
    "Oniguruma reads": sequence(split(CL100K_IN_TIKTOKEN), byte_level()),
    "Split, Split, Split, Split, ByteLevel": sequence(
        split(r"\d", "removed", True), *map(split, DEEPSEEK_V3), byte_level()
    ),
    "match nothing at all": sequence(split(r"\p{L}*"), byte_level()),
}


@pytest.mark.parametrize("name", REFUSED_PRE_TOKENIZERS)
def test_other_pre_tokenizers_are_refused_by_name(
    name: str, tmp_path: Path, fuzz_texts: list[str]
) -> None:
    peer = trained_with(byte_level(use_regex=True), fuzz_texts[:100])
    peer.pre_tokenizer = REFUSED_PRE_TOKENIZERS[name]
    with pytest.raises((InvalidTokenizer, InvalidPattern), match=name):
        Tokenizer.load(saved(peer, tmp_path))


REFUSED_PARTS: dict[str, Change] = {
    "Lowercase": lambda p: setattr(p, "normalizer", normalizers.Lowercase()),
    "StripAccents": lambda p: setattr(p, "normalizer", normalizers.StripAccents()),
    "Replace": lambda p: setattr(p, "normalizer", normalizers.Replace("a", "b")),
    "normalizer NFC": lambda p: setattr(
        p, "normalizer", normalizers.Sequence([normalizers.NFC()])
    ),
    "normalizer Strip": lambda p: setattr(
        p, "normalizer", normalizers.Sequence([normalizers.NFC(), normalizers.Strip()])
    ),
    "decoder Metaspace": lambda p: setattr(p, "decoder", decoders.Metaspace()),
    "decoder Sequence": lambda p: setattr(
        p, "decoder", decoders.Sequence([decoders.ByteFallback(), decoders.ByteLevel()])
    ),
    "dropout": lambda p: setattr(p.model, "dropout", 0.5),
    "end_of_word_suffix": lambda p: setattr(p.model, "end_of_word_suffix", "</w>"),
    "continuing_subword_prefix": lambda p: setattr(p.model, "continuing_subword_prefix", "##"),
    "lstrip": lambda p: p.add_special_tokens([AddedToken("<m>", lstrip=True)]),
    "rstrip": lambda p: p.add_special_tokens([AddedToken("<m>", rstrip=True)]),
    "single_word": lambda p: p.add_special_tokens([AddedToken("<m>", single_word=True)]),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED_PARTS)
def test_other_parts_are_refused_by_name(name: str, tmp_path: Path, fuzz_texts: list[str]) -> None:
    peer = trained_with(byte_level(use_regex=True), fuzz_texts[:100])
    REFUSED_PARTS[name](peer)
    with pytest.raises(InvalidTokenizer, match=name):
        Tokenizer.load(saved(peer, tmp_path))


@pytest.mark.parametrize(
    "model",
    [
        models.WordLevel({"a": 0}, "a"),
        models.Unigram([("a", 0.0)], 0),
    ],
)
def test_other_models_are_refused_by_name(model: Any, tmp_path: Path) -> None:
    peer = tokenizers.Tokenizer(model)
    peer.pre_tokenizer = byte_level(use_regex=True)
    with pytest.raises(InvalidTokenizer, match=f"model {type(model).__name__}"):
        Tokenizer.load(saved(peer, tmp_path))


def test_wordpiece_behind_a_byte_level_is_refused(tmp_path: Path) -> None:
    peer = tokenizers.Tokenizer(models.WordPiece({"a": 0, "[UNK]": 1}))
    peer.pre_tokenizer = byte_level(use_regex=True)
    with pytest.raises(InvalidTokenizer, match="pre_tokenizer ByteLevel\nWordPiece behind"):
        Tokenizer.load(saved(peer, tmp_path))


# What we write


@pytest.mark.parametrize("format_", ["hf", "gpt2", "tiktoken"])
@pytest.mark.parametrize("name", ["whitespace", "wordpunct"])
def test_patterns_that_drop_text_are_not_exported(name: str, format_: Any, tmp_path: Path) -> None:
    dropping = Tokenizer({byte: bytes([byte]) for byte in range(256)}, [], (), name)
    with pytest.raises(InvalidPattern, match=f"'{name}' drops the text"):
        dropping.save(tmp_path / "out", format_)


OWN_REGEXES = [
    r"\w+|[^\w\s]+|\s+(?!\S)|\s+",
    r"\p{Lu}?\p{Ll}+|\d{1,3}+|[^\s\p{L}\d]++",
    r"(?i:'s|'re|'d)|[^\W\d]+|\d|\s{,3}x|[[&~]",
    r"(?<=a)b+|(?P<word>\pL+)|[\w-]|(?<!\s)\s$",
]


@pytest.mark.slow
@pytest.mark.rotating(2)
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
