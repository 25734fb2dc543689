"""tokenizer.json: parts that are not understood are refused by name, harmless ones read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from json_files import Change, rewrite

from bpeline.tokenizer_core.errors import InvalidPattern, InvalidTokenizer
from bpeline.tokenizer_core.tokenizer import Tokenizer

MakeTokenizer = Callable[..., Tokenizer]


def huggingface_file(tokenizer: Tokenizer, path: Path, change: Change) -> Path:
    tokenizer.save(path, "hf")
    rewrite(path, change)
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(normalizer={"type": "NFC"}), "normalizer NFC"),
        (lambda d: d.update(future={"x": 1}), "'future'"),
        (lambda d: d.update(decoder={"type": "WordPiece"}), "decoder WordPiece"),
        (lambda d: d.update(pre_tokenizer=None), "pre_tokenizer none"),
        (lambda d: d.update(pre_tokenizer={"type": "Whitespace"}), "pre_tokenizer Whitespace"),
        (lambda d: d["pre_tokenizer"].update(add_prefix_space=True), "add_prefix_space"),
        (lambda d: d["pre_tokenizer"].update(use_regex=False), "steps ByteLevel"),
        (lambda d: d["pre_tokenizer"].update(new_flag=1), "'new_flag' of ByteLevel"),
        (lambda d: d["model"].update(type="Unigram"), "model Unigram"),
        (lambda d: d["model"].update(dropout=0.1), "dropout"),
        (lambda d: d["model"].update(continuing_subword_prefix="##"), "continuing_subword_prefix"),
        (lambda d: d["model"].update(end_of_word_suffix="</w>"), "end_of_word_suffix"),
        (lambda d: d["model"].update(new_flag=1), "'new_flag' of BPE"),
        (lambda d: d["model"].pop("merges"), "without vocab or merges"),
        (lambda d: d["model"].update(merges={"a": 1}), "merges"),
        (lambda d: d["model"].update(merges=[["a"]]), "no pairs"),
        (lambda d: d["model"].update(merges=[["a", 5]]), "merge of 5"),
        (lambda d: d["model"].update(merges=[["a", "no"]]), "merge of 'no'"),
        (lambda d: d["model"].update(merges=[["a", ["b"]]]), "merge of"),
        (lambda d: d["model"].update(merges=["a", "b c d"]), "no pair"),
        (lambda d: d["model"].update(merges=["a b c"]), "no pair"),
        (lambda d: d["model"].update(merges=[5]), "pairs"),
        (lambda d: d["model"].update(vocab=[1]), "no vocab"),
        (lambda d: d["model"]["vocab"].update(a=1.5), "'a' the id 1.5"),
        (lambda d: d["model"]["vocab"].update(a=True), "'a' the id True"),
        (lambda d: d["model"]["vocab"].update({"a": d["model"]["vocab"]["b"]}), "two tokens"),
        (lambda d: d["model"]["vocab"].update({"漢": 900}), "'漢', which is not"),
        (lambda d: d["added_tokens"][0].update(lstrip=True), "lstrip"),
        (lambda d: d["added_tokens"][0].update(special=False), "special=False"),
        (lambda d: d["added_tokens"][0].update(id="1"), "without an id"),
        (lambda d: d["added_tokens"][0].update(id=299), "two ids"),
        (lambda d: d["added_tokens"].append(5), "without content"),
        (lambda d: d["added_tokens"][0].update(rstrip=True), "rstrip"),
        (lambda d: d["added_tokens"][0].update(single_word=True), "single_word"),
        (lambda d: d["added_tokens"][0].update(new_flag=True), "'new_flag' of an added token"),
        (lambda d: d["decoder"].update(new_flag=True), "'new_flag' of ByteLevel"),
        (lambda d: d.update(normalizer={"type": "Prepend", "prepend": "▁"}), "normalizer Prepend"),
        (lambda d: d.update(normalizer={"type": "NFC", "new_flag": 1}), "'new_flag' of NFC"),
        (lambda d: d.update(post_processor={"type": "Sequence", "new": []}), "'new' of Sequence"),
        (lambda d: d["model"].update(dropout=True), "dropout"),
        (lambda d: d["model"].update(ignore_merges="yes"), "ignore_merges"),
    ],
)
def test_parts_not_understood_are_refused_by_name(
    small: Tokenizer, tmp_path: Path, change: Change, message: str
) -> None:
    path = huggingface_file(small, tmp_path / "tokenizer.json", change)
    with pytest.raises(InvalidTokenizer, match=message):
        Tokenizer.load(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda split: split.update(behavior="Removed"),
        lambda split: split.update(behavior="MergedWithNext"),
        lambda split: split.update(behavior="Removed", invert=True, pattern={"Regex": r"\p{L}+"}),
        lambda split: split.update(pattern={"Regex": r"\w+"}),
        lambda split: split.update(pattern={"Regex": r"\bx"}),
        lambda split: split.update(pattern={"Regex": 5}),
        lambda split: split.update(invert=True),
        lambda split: split.update(pattern={"String": " "}),
        lambda split: split.update(pattern={"Regex": r"\p{N}{1,3}+|\p{L}+"}),
    ],
)
def test_splits_of_another_kind_are_refused(
    trained: MakeTokenizer, tmp_path: Path, change: Change
) -> None:
    path = huggingface_file(
        trained("cl100k"),
        tmp_path / "tokenizer.json",
        lambda d: change(d["pre_tokenizer"]["pretokenizers"][0]),
    )
    with pytest.raises((InvalidTokenizer, InvalidPattern)):
        Tokenizer.load(path)


def test_a_regex_that_does_not_compile_is_refused(trained: MakeTokenizer, tmp_path: Path) -> None:
    path = huggingface_file(
        trained("cl100k"),
        tmp_path / "tokenizer.json",
        lambda d: d["pre_tokenizer"]["pretokenizers"][0].update(pattern={"Regex": "("}),
    )
    with pytest.raises(InvalidPattern):
        Tokenizer.load(path)


def test_harmless_parts_are_read(small: Tokenizer, tmp_path: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        document["post_processor"] = {"type": "ByteLevel", "trim_offsets": False}
        document["model"].update(continuing_subword_prefix="", dropout=0.0, ignore_merges=True)
        document["model"]["unk_token"] = None

    loaded = Tokenizer.load(huggingface_file(small, tmp_path / "tokenizer.json", change))
    assert loaded.vocab == small.vocab
    assert loaded.special_tokens == small.special_tokens
    assert loaded.ignore_merges


LLAMA_TEMPLATE = {
    "type": "Sequence",
    "processors": [
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
        {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
            ],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}],
            "special_tokens": {
                "<|endoftext|>": {"id": "<|endoftext|>", "ids": [0], "tokens": ["<|endoftext|>"]}
            },
        },
    ],
}


def test_a_template_is_left_out_and_that_is_said(
    trained: MakeTokenizer, tmp_path: Path, fuzz_texts: list[str]
) -> None:
    path = huggingface_file(
        trained("cl100k"),
        tmp_path / "tokenizer.json",
        lambda document: document.update(post_processor=LLAMA_TEMPLATE),
    )
    loaded = Tokenizer.load(path)
    assert loaded.spec.remarks == ("post_processor TemplateProcessing left out",)
    assert Tokenizer.load(path, without_template=True).spec.remarks == ()
    assert loaded.digest == trained("cl100k").digest
    peer = tokenizers.Tokenizer.from_file(str(path))
    assert peer.encode("text").ids == [0, *loaded.encode("text")]
    for encoding, text in zip(
        peer.encode_batch(fuzz_texts[:1_000], add_special_tokens=False),
        fuzz_texts[:1_000],
        strict=True,
    ):
        assert encoding.ids == loaded.encode(text, "all")
    rewrite(path, lambda d: d["post_processor"]["processors"].append({"type": "Other"}))
    with pytest.raises(InvalidTokenizer, match="post_processor Other"):
        Tokenizer.load(path, without_template=True)
