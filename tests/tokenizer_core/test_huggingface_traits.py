"""Traits of tokenizer.json files that people download: each read exactly, or refused by name."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers, processors

from bpeline.tokenizer_core.errors import InvalidTokenizer
from bpeline.tokenizer_core.tokenizer import Tokenizer

ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())
NASTY = (
    "", " ", "  the", "the the\n\n", "12 345 ٣½a1", "don't DON'T", "naïve e\u0301 漢字👍🏽",
    "<|end|><|end|>x <|end|>", "\x00\x7f\u0085\u2028", "a1b22c333 4444", " 1 2  3", "1\n\n2 x",
)  # fmt: skip


def peer_of(merges: list[tuple[str, str]], extra: tuple[str, ...] = (), **model: Any) -> Any:
    made = dict.fromkeys((*ALPHABET, *extra, *(left + right for left, right in merges)))
    vocab = {token: id_ for id_, token in enumerate(made)}
    peer = tokenizers.Tokenizer(models.BPE(vocab, merges, **model))
    peer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    peer.decoder = decoders.ByteLevel()
    peer.add_special_tokens(["<|end|>"])
    return peer


def small() -> Any:
    return peer_of([("t", "h"), ("th", "e"), ("Ġ", "the"), ("1", "2"), ("Ġ", "Ġ"), ("Ġ", "1")])


def saved(peer: Any, path: Path, change: Callable[[Any], object] = lambda _: None) -> Path:
    document = json.loads(peer.to_str())
    change(document)
    path.write_text(json.dumps(document))
    return path


def assert_equal(path: Path, texts: tuple[str, ...] = NASTY) -> Tokenizer:
    """Ours and theirs from the same file, with added tokens found and nothing put around."""
    ours, peer = Tokenizer.load(path), tokenizers.Tokenizer.from_file(str(path))
    peer.no_truncation()
    peer.no_padding()
    for text in texts:
        ids = ours.encode(text, "all")
        assert ids == peer.encode(text, add_special_tokens=False).ids, f"REPRO: {text!r}"
        assert ours.decode(ids) == peer.decode(ids, skip_special_tokens=False), f"REPRO: {text!r}"
    return ours


TEMPLATE = processors.TemplateProcessing(
    single="<|end|> $A", pair="<|end|> $A $B", special_tokens=[("<|end|>", 262)]
)
READ: dict[str, tuple[Callable[[Any], object], tuple[str, ...]]] = {
    "a model without type": (lambda d: d["model"].pop("type"), ()),
    "merges as strings, a version first": (
        lambda d: d["model"].update(
            merges=["#version: 0.2", *(" ".join(pair) for pair in d["model"]["merges"])]
        ),
        (),
    ),
    "empty prefixes": (
        lambda d: d["model"].update(continuing_subword_prefix="", end_of_word_suffix=""), ()
    ),
    "a token without text": (
        lambda d: d["model"]["vocab"].update({"": 400, "<|end|>": 262}),
        ("a token without text left out",),
    ),
    "a token that no merge makes": (
        lambda d: d["model"]["vocab"].update({"zzz": 401, "<|end|>": 262}), ()
    ),
    "ids with gaps": (
        lambda d: d["model"]["vocab"].update({"zzz": 90_000, "<|end|>": 262}), ()
    ),
    "an added token that is ordinary too": (
        lambda d: d["model"]["vocab"].update({"<|end|>": d["added_tokens"][0]["id"]}), ()
    ),
    "empty steps": (
        lambda d: d.update(
            normalizer={"type": "Sequence", "normalizers": []},
            pre_tokenizer={"type": "Sequence", "pretokenizers": [d["pre_tokenizer"]]},
            post_processor={"type": "Sequence", "processors": []},
        ),
        (),
    ),
    "template": (
        lambda d: d.update(post_processor=json.loads(TEMPLATE.__getstate__())),
        ("post_processor TemplateProcessing left out",),
    ),
    "Roberta in a Sequence": (
        lambda d: d.update(
            post_processor={
                "type": "Sequence",
                "processors": [
                    {"type": "RobertaProcessing", "sep": ["a", 1], "cls": ["b", 2],
                     "trim_offsets": True, "add_prefix_space": False}
                ],
            }
        ),
        ("post_processor RobertaProcessing left out",),
    ),
    "truncation and padding": (
        lambda d: d.update(
            truncation={"direction": "Right", "max_length": 2, "strategy": "LongestFirst",
                        "stride": 0},
            padding={"strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": None,
                     "pad_id": 0, "pad_type_id": 0, "pad_token": "!"},
        ),
        ("truncation left out", "padding left out"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("trait", READ)
def test_traits_are_read_exactly(trait: str, tmp_path: Path) -> None:
    change, remarks = READ[trait]
    ours = assert_equal(saved(small(), tmp_path / "tokenizer.json", change))
    assert ours.spec.remarks == remarks
    assert Tokenizer.load(tmp_path).spec.remarks == remarks, "as a folder of transformers"


@pytest.mark.parametrize("individual", [True, False])
def test_digits_before_a_byte_level_are_one_pattern(
    individual: bool, tmp_path: Path, fuzz_texts: list[str]
) -> None:
    peer = small()
    digits = pre_tokenizers.Digits(individual_digits=individual)
    level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    peer.pre_tokenizer = pre_tokenizers.Sequence([digits, level])
    texts = (*NASTY, *fuzz_texts[:3_000])
    ours = assert_equal(saved(peer, tmp_path / "tokenizer.json"), texts)
    assert ours.pattern.name == ("starcoder" if individual else None)


@pytest.mark.parametrize("number", range(30))
def test_merges_in_any_order_are_those_of_huggingface(number: int, tmp_path: Path) -> None:
    """Parts that later merges make, tokens that several make, and parts that none makes."""
    chance = random.Random(number)
    tokens = ["a", "b", "c"]
    merges: dict[tuple[str, str], None] = {}
    while len(merges) < 25:
        left, right = chance.choices(tokens, k=2)
        merges[left, right] = None
        tokens.append(left + right)
    for token in chance.sample(tokens, 6):
        for cut in range(1, len(token)):
            merges[token[:cut], token[cut:]] = None
    shuffled = chance.sample(list(merges), len(merges))
    parts = tuple(part for pair in shuffled for part in pair)
    whole = chance.random() < 0.5
    peer = peer_of(shuffled, parts, ignore_merges=whole)
    peer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"[a-z]+|[^a-z]+"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    texts = ["".join(chance.choices("abc", k=chance.randint(1, 14))) for _ in range(400)]
    texts += ["".join(chance.choices("abc", k=chance.randint(65, 400))) for _ in range(30)]
    assert_equal(saved(peer, tmp_path / "tokenizer.json"), (*texts, *tokens))


def test_what_is_not_read_is_named_with_the_file(tmp_path: Path) -> None:
    cases: dict[str, Callable[[Any], object]] = {
        "model Unigram": lambda d: d.update(model={"unk_id": 0, "vocab": [["a", 0.0]]}),
        "model WordLevel": lambda d: d.update(model={"unk_token": "a", "vocab": {"a": 0}}),
        "lacks 1 of the 256 single bytes: 0x61": lambda d: (
            d["model"]["vocab"].pop("a"),
            d["model"]["vocab"].update({"<|end|>": 262}),
        ),
        "' q' (id 264) with the text of the ordinary token of id 262": lambda d: (
            d["model"]["vocab"].update({"Ġq": 262, "<|end|>": 600}),
            d["added_tokens"][0].update(id=600),
            d["added_tokens"].insert(0, {**d["added_tokens"][0], "id": 264, "content": " q"}),
        ),
        "two ids: 700 among the added tokens, and 262 as tokenizers": lambda d: d["added_tokens"][
            0
        ].update(id=700),
        "normalizer Replace": lambda d: d.update(
            normalizer={
                "type": "Sequence",
                "normalizers": [{"type": "NFC"}, {"type": "Replace", "content": "x"}],
            }
        ),
        "post_processor Other": lambda d: d.update(post_processor={"type": "Other"}),
    }
    for why, change in cases.items():
        path = saved(small(), tmp_path / "tokenizer.json", change)
        with pytest.raises(InvalidTokenizer) as refused:
            Tokenizer.load(path)
        assert why in refused.value.happened
        assert str(path) in refused.value.happened


def test_the_id_of_an_added_token_is_indeed_not_that_of_the_file(tmp_path: Path) -> None:
    path = saved(small(), tmp_path / "x.json", lambda d: d["added_tokens"][0].update(id=700))
    assert tokenizers.Tokenizer.from_file(str(path)).encode("<|end|>").ids == [262]


def test_added_tokens_that_are_found_in_every_text_are_not_forgotten(tmp_path: Path) -> None:
    peer = small()
    peer.add_tokens([AddedToken("<think>", normalized=False)])
    path = saved(peer, tmp_path / "tokenizer.json")
    with pytest.raises(InvalidTokenizer, match="found in every text") as refused:
        Tokenizer.load(path)
    assert f"{path},added_as_special" in refused.value.next_step
    told = Tokenizer.load(path, added_as_special=True)
    assert told.encode("a<think>b", "all") == peer.encode("a<think>b").ids
