"""Formats: what others read from us, what we read from them, and what is refused."""

from __future__ import annotations

import base64
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiktoken
import tiktoken.load
import tokenizers

from tokenizer_core.errors import (
    CorruptFile,
    InvalidOption,
    InvalidPattern,
    InvalidTokenizer,
    MissingSource,
)
from tokenizer_core.formats import bounded_files, bpeline
from tokenizer_core.formats import tiktoken as tiktoken_format
from tokenizer_core.formats.printable import printable_tokens, tokens_of_printable
from tokenizer_core.split_patterns import SplitPattern
from tokenizer_core.tokenizer import Tokenizer
from tokenizer_core.vocabulary import to_printable

MakeTokenizer = Callable[..., Tokenizer]
BYTES = {byte: bytes([byte]) for byte in range(256)}
AB = (b"a", b"b")
Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module", params=["gpt2", "cl100k", r"\p{L}+|[^\p{L}]{1,3}"])
def tokenizer(request: pytest.FixtureRequest, trained: MakeTokenizer) -> Tokenizer:
    return trained(request.param)


@pytest.fixture
def small() -> Tokenizer:
    vocab = BYTES | {256: b"ab", 257: b"abc", 300: "<|fin é|>".encode()}
    return Tokenizer(vocab, [AB, (b"ab", b"c")], ["<|fin é|>"])


@pytest.fixture
def directory(small: Tokenizer, tmp_path: Path) -> Path:
    small.save(tmp_path / "kept")
    return tmp_path / "kept"


# Round trips


def test_our_format_gives_the_same_tokenizer_back(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "kept")
    again = Tokenizer.load(tmp_path / "kept")
    assert again.digest == tokenizer.digest
    assert again.vocab == tokenizer.vocab
    assert again.merges == tokenizer.merges
    assert again.special_tokens == tokenizer.special_tokens
    assert again.pattern == tokenizer.pattern


def test_huggingfaces_format_comes_back(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    tokenizer.save(path, "hf")
    assert Tokenizer.load(path).digest == tokenizer.digest
    peer = tokenizers.Tokenizer.from_file(str(path))
    assert peer.get_vocab_size() == tokenizer.vocab_size
    for special, id_ in tokenizer.special_tokens.items():
        assert peer.token_to_id(special) == id_
    text = " They'll  go\n\nto 1234 Москва 漢字 👍🏽"
    assert peer.encode(text).ids == tokenizer.encode(text)
    assert peer.decode(tokenizer.encode(text)) == text


def test_what_huggingface_saves_again_is_read(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path, again = tmp_path / "tokenizer.json", tmp_path / "again.json"
    tokenizer.save(path, "hf")
    tokenizers.Tokenizer.from_file(str(path)).save(str(again), pretty=True)
    assert Tokenizer.load(again).digest == tokenizer.digest


def test_gpt2s_format_comes_back(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path, "gpt2")
    told = {"pattern": tokenizer.pattern}
    assert Tokenizer.load(tmp_path, **told).digest == tokenizer.digest
    given = list(tokenizer.special_tokens)
    assert Tokenizer.load(tmp_path, special_tokens=given, **told).digest == tokenizer.digest
    peer = tokenizers.models.BPE.from_file(
        str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt")
    )
    assert peer.token_to_id("the") == tokenizer.token_to_id("the")


@pytest.mark.parametrize("special_ids", ["first", "last"])
def test_ranks_are_read_by_tiktoken_and_by_us(
    trained: MakeTokenizer, special_ids: str, tmp_path: Path, fuzz_texts: list[str]
) -> None:
    tokenizer = trained("cl100k", special_ids)
    path = tmp_path / "ours.tiktoken"
    tokenizer.save(path, "tiktoken")
    again = Tokenizer.load(path, pattern="cl100k", special_tokens=tokenizer.special_tokens)
    assert again.digest == tokenizer.digest
    ranks = tiktoken.load.load_tiktoken_bpe(str(path))
    assert ranks == tiktoken_format.mergeable_ranks(tokenizer)
    peer = tiktoken.Encoding(
        "ours", **{**tiktoken_format.encoding_arguments(tokenizer), "mergeable_ranks": ranks}
    )
    for text in fuzz_texts[:2_000]:
        assert tokenizer.encode(text) == peer.encode_ordinary(text), f"REPRO: {text!r}"
    assert peer.encode("<|endoftext|>", allowed_special="all") == tokenizer.encode(
        "<|endoftext|>", "all"
    )


def test_older_merges_as_strings_are_read(small: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    small.save(path, "hf")
    document = json.loads(path.read_text())
    document["model"]["merges"] = [" ".join(pair) for pair in document["model"]["merges"]]
    path.write_text(json.dumps(document))
    assert Tokenizer.load(path).digest == small.digest


def test_printable_names_are_the_mapping_and_its_inverse() -> None:
    tokens = [bytes([byte]) for byte in range(256)] + [b" the", "漢".encode(), b"\n\xff"]
    names = printable_tokens(tokens)
    assert names == [to_printable(token) for token in tokens]
    assert tokens_of_printable(names) == tokens
    for foreign in (" ", "\n", "\u00ad", "漢", "\x7f", "\u0144"):
        assert tokens_of_printable(["ok", foreign]) is None


# Our format trusts nothing


def rewrite(path: Path, change: Change) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def test_golden_encodings_and_provenance_are_kept(small: Tokenizer, tmp_path: Path) -> None:
    bpeline.save(small, tmp_path, provenance={"corpus": "sha256:abc", "files": [1, 2]})
    manifest = bpeline.read_manifest(tmp_path)
    assert manifest["provenance"] == {"corpus": "sha256:abc", "files": [1, 2]}
    assert manifest["digest"] == small.digest
    assert len(manifest["golden"]) >= 20
    assert all(small.encode(entry["text"]) == entry["ids"] for entry in manifest["golden"])
    assert any("<|fin é|>" in entry["text"] for entry in manifest["golden"])
    assert sorted(os.listdir(tmp_path)) == ["manifest.json", "merges.txt", "vocab.json"]


def test_a_golden_encoding_that_differs_is_shown(small: Tokenizer, tmp_path: Path) -> None:
    bpeline.save(small, tmp_path, samples=["the ab of words"])
    assert Tokenizer.load(tmp_path).digest == small.digest
    ids = small.encode("the ab of words")

    def change(manifest: Any) -> None:
        manifest["golden"][-1]["ids"][2:] = [7, "x"]

    rewrite(tmp_path / "manifest.json", change)
    with pytest.raises(CorruptFile, match="'the ab of words' is no longer encoded") as caught:
        Tokenizer.load(tmp_path)
    assert f"from id 2 on it gives {ids[2:6]} and gave [7, 'x']" in caught.value.happened


@pytest.mark.parametrize("name", ["vocab.json", "merges.txt"])
def test_a_changed_file_is_corrupt(directory: Path, name: str) -> None:
    path = directory / name
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(CorruptFile, match=name):
        Tokenizer.load(directory)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.update(digest="0" * 64),
        lambda m: m["special_tokens"].clear(),
        lambda m: m["special_tokens"].update({"<|fin é|>": True}),
        lambda m: m["golden"][1]["ids"].append(5),
        lambda m: m["golden"].append({"text": "a", "ids": "no"}),
        lambda m: m["golden"].append(5),
        lambda m: m.pop("files"),
        lambda m: m["files"].pop("vocab.json"),
        lambda m: m.update(pattern="gpt2"),
        lambda m: m["pattern"].update(regex=5),
        lambda m: m.update(format="other"),
        lambda m: m.update(ignore_merges="no"),
    ],
)
def test_a_changed_manifest_is_corrupt(directory: Path, change: Change) -> None:
    rewrite(directory / "manifest.json", change)
    with pytest.raises((CorruptFile, InvalidTokenizer)):
        Tokenizer.load(directory)


def test_a_manifest_that_is_no_json_is_corrupt(directory: Path) -> None:
    path = directory / "manifest.json"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(CorruptFile, match=r"manifest\.json"):
        Tokenizer.load(directory)


def test_other_versions_and_other_unicode_tables_are_named(directory: Path) -> None:
    rewrite(directory / "manifest.json", lambda m: m.update(format_version=2))
    with pytest.raises(InvalidTokenizer, match="format version 2"):
        Tokenizer.load(directory)
    rewrite(directory / "manifest.json", lambda m: m.update(format_version=1))
    rewrite(directory / "manifest.json", lambda m: m["pattern"].update(digest="0" * 64))
    with pytest.raises(InvalidTokenizer, match="Unicode tables"):
        Tokenizer.load(directory)


@pytest.mark.parametrize("name", ["manifest.json", "vocab.json", "merges.txt"])
def test_a_missing_file_is_named(directory: Path, name: str) -> None:
    (directory / name).unlink()
    with pytest.raises(MissingSource, match=name):
        Tokenizer.load(directory, "bpeline")


def test_only_the_fixed_names_are_opened(directory: Path) -> None:
    for extra in ("MLmodel", "python_model.pkl", "conda.yaml", "../outside"):
        (directory / extra).write_bytes(b"\x80\x04cposix\nsystem\n")
    rewrite(directory / "manifest.json", lambda m: m["files"].update({"../outside": "0" * 64}))
    opened: list[str] = []
    watching = True

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if watching and event == "open" and str(directory.parent) in str(arguments[0]):
            opened.append(str(arguments[0]))

    sys.addaudithook(watch)
    Tokenizer.load(directory)
    watching = False
    assert sorted(set(opened)) == [
        str(directory / name) for name in ("manifest.json", "merges.txt", "vocab.json")
    ]


# The bounded parser


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a": 1, "a": 2}', "'a' occurs twice"),
        (b'{"x": {"b": 1, "b": 1}}', "'b' occurs twice"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": -Infinity}', "-Infinity"),
        (b"[" * 200_000, "nested"),
        (b'{"a": ' + b"9" * 5_000 + b"}", "digits"),
        (b"\xff\xfe{\0}\0", "UTF-8"),
        (b'\xef\xbb\xbf{"a": 1}', "BOM"),
        (b'{"a": 1', "not the JSON"),
        (b"", "not the JSON"),
    ],
)
def test_json_out_of_bounds_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(InvalidTokenizer, match=message):
        Tokenizer.load(path)


def test_large_files_and_pipes_are_refused_unread(tmp_path: Path) -> None:
    large = tmp_path / "large.json"
    with large.open("wb") as file:
        file.truncate(bounded_files.MAX_FILE_BYTES + 1)
    os.mkfifo(tmp_path / "pipe.json")
    for path in (large, tmp_path / "pipe.json"):
        with pytest.raises(InvalidTokenizer, match="regular file"):
            Tokenizer.load(path)
    with pytest.raises(InvalidTokenizer, match="regular file"):
        bounded_files.read_bounded(tmp_path)


# HuggingFace's parts


def huggingface_file(tokenizer: Tokenizer, path: Path, change: Change) -> Path:
    tokenizer.save(path, "hf")
    rewrite(path, change)
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(normalizer={"type": "NFC"}), "normalizer NFC"),
        (lambda d: d.update(truncation={"max_length": 5}), "truncation"),
        (lambda d: d.update(padding={"strategy": "Fixed"}), "padding"),
        (lambda d: d.update(future={"x": 1}), "'future'"),
        (lambda d: d.update(post_processor={"type": "TemplateProcessing"}), "TemplateProcessing"),
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
        (lambda d: d.update(post_processor={"type": "RobertaProcessing"}), "RobertaProcessing"),
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
        del document["model"]["vocab"]["<|fin é|>"]  # as in Llama 3's file: only in added_tokens

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


def test_a_template_is_refused_or_left_out_on_demand(
    trained: MakeTokenizer, tmp_path: Path, fuzz_texts: list[str]
) -> None:
    path = huggingface_file(
        trained("cl100k"),
        tmp_path / "tokenizer.json",
        lambda document: document.update(post_processor=LLAMA_TEMPLATE),
    )
    with pytest.raises(InvalidTokenizer, match="TemplateProcessing") as refused:
        Tokenizer.load(path)
    assert "without_template=True" in refused.value.next_step
    loaded = Tokenizer.load(path, without_template=True)
    assert loaded.digest == trained("cl100k").digest
    peer = tokenizers.Tokenizer.from_file(str(path))
    assert peer.encode("text").ids == [0, *loaded.encode("text")]
    for encoding, text in zip(
        peer.encode_batch(fuzz_texts[:1_000], add_special_tokens=False),
        fuzz_texts[:1_000],
        strict=True,
    ):
        assert encoding.ids == loaded.encode(text, "all")
    rewrite(path, lambda d: d["post_processor"]["processors"].append({"type": "BertProcessing"}))
    with pytest.raises(InvalidTokenizer, match="BertProcessing"):
        Tokenizer.load(path, without_template=True)


# Other formats' refusals


def test_special_tokens_that_read_like_tokens_are_refused(tmp_path: Path) -> None:
    clash = Tokenizer(BYTES | {256: b" a", 257: "Ġa".encode()}, [(b" ", b"a")], ["Ġa"])
    for format_ in ("bpeline", "hf", "gpt2"):
        with pytest.raises(InvalidTokenizer, match="reads like an ordinary token"):
            clash.save(tmp_path / "x", format_)  # type: ignore[arg-type]


def test_ids_out_of_order_do_not_fit_tiktoken(tmp_path: Path) -> None:
    vocab = BYTES | {256: b"bc", 257: b"ab"}
    with pytest.raises(InvalidTokenizer, match="do not ascend"):
        Tokenizer(vocab, [AB, (b"b", b"c")]).save(tmp_path / "x.tiktoken", "tiktoken")


def test_tokens_that_merges_do_not_make_do_not_fit_tiktoken(tmp_path: Path) -> None:
    unmade = Tokenizer(BYTES | {256: b"ab", 257: b"xyz"}, [AB])
    twice = Tokenizer(
        BYTES | {256: b"ab", 257: b"bc", 258: b"abc"},
        [AB, (b"b", b"c"), (b"ab", b"c"), (b"a", b"bc")],
    )
    hidden = Tokenizer(
        BYTES | {256: b"ab", 257: b"bc", 258: b"abc"}, [AB, (b"b", b"c"), (b"a", b"bc")]
    )
    for wrong in (unmade, twice, hidden):
        with pytest.raises(InvalidTokenizer):
            wrong.save(tmp_path / "x.tiktoken", "tiktoken")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([b"YQ== x"], "line 257"),
        ([b"Y 256"], "line 257"),
        ([b"!!!! 256"], "line 257"),
        ([b" 256"], "line 257"),
        ([b"eHl6 5"], "repeats"),
        ([b"eHl6 999999999"], "repeats or exceeds"),
        ([b"eHl6 -1"], "line 257"),
        ([b"eHl6 " + b"9" * 5000], "line 257"),
        ([base64.b64encode(b"xyz") + b" 256"], "no merge of two"),
    ],
)
def test_malformed_ranks_are_refused(lines: list[bytes], message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.tiktoken"
    sound = [b"%s %d" % (base64.b64encode(token), id_) for id_, token in BYTES.items()]
    path.write_bytes(b"\n".join(sound))
    assert Tokenizer.load(path).vocab == BYTES
    path.write_bytes(b"\n".join([*sound, *lines]))
    with pytest.raises(InvalidTokenizer, match=message):
        Tokenizer.load(path)


def test_ranks_without_all_bytes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.tiktoken").write_bytes(b"YQ== 0\n")
    with pytest.raises(InvalidTokenizer, match="1 of the 256"):
        Tokenizer.load(tmp_path / "x.tiktoken")


MALFORMED_MERGES = ("a b c", "a", " a", "a ", "a \nb c", "a\nb c d", "a b\n\nab c", "a b\r\n\r",
                    "a\tb", "no such", "a\u00a0b", "a  b", "\n", " ")  # fmt: skip


@pytest.mark.parametrize("merges", MALFORMED_MERGES)
def test_malformed_merges_are_refused(small: Tokenizer, tmp_path: Path, merges: str) -> None:
    small.save(tmp_path, "gpt2")
    (tmp_path / "merges.txt").write_bytes(f"#version: 0.2\n{merges}\n".encode())
    with pytest.raises(InvalidTokenizer):
        Tokenizer.load(tmp_path, special_tokens=["<|fin é|>"])


def test_a_special_token_that_the_vocab_lacks_is_refused(small: Tokenizer, tmp_path: Path) -> None:
    small.save(tmp_path, "gpt2")
    with pytest.raises(InvalidTokenizer, match="<no>"):
        Tokenizer.load(tmp_path, special_tokens=["<no>"])


# Which format


def test_the_format_is_told_from_names(small: Tokenizer, tmp_path: Path) -> None:
    with pytest.raises(MissingSource, match="no tokenizer at"):
        Tokenizer.load(tmp_path / "nothing")
    with pytest.raises(InvalidOption, match="cannot be told"):
        Tokenizer.load(tmp_path)
    with pytest.raises(InvalidOption, match="'pickle'"):
        small.save(tmp_path / "x", "pickle")  # type: ignore[arg-type]
    small.save(tmp_path / "tokenizer.other", "hf")
    with pytest.raises(InvalidOption, match="cannot be told"):
        Tokenizer.load(tmp_path / "tokenizer.other")
    assert Tokenizer.load(tmp_path / "tokenizer.other", "hf").digest == small.digest


def test_saving_over_an_older_one_replaces_it(small: Tokenizer, directory: Path) -> None:
    other = Tokenizer(BYTES | {256: b"ab"}, [AB], (), SplitPattern.named("cl100k"))
    other.save(directory)
    assert Tokenizer.load(directory).digest == other.digest
    shutil.rmtree(directory)
    small.save(directory)
    assert Tokenizer.load(directory).digest == small.digest
