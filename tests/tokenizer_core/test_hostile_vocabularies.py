"""Ids, merges and special tokens that no tokenizer has, in every format that can say them.

What other tools accept (one id for two tokens decodes "ab" as "a") or crash on is refused with an
error that names the file, within seconds.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from huggingface_peers import assert_as_library

from bpeline.tokenizer_core.errors import BpelineError, InvalidSpecialToken, InvalidTokenizer
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.vocabulary.token_table import MAX_ID

MERGES = [(b"a", b"b"), (b"ab", b"c"), (b" ", b"t"), (b" t", b"h")]
VOCAB = {byte: bytes([byte]) for byte in range(256)} | {
    256 + rank: left + right for rank, (left, right) in enumerate(MERGES)
}
SPECIALS = {"<|fin|>": 260, "<|a|>": 261, "<|a|><|b|>": 262}
Change = Callable[[dict[str, Any]], object]


def tokenizer() -> Tokenizer:
    tokens = {id_: token.encode() for token, id_ in SPECIALS.items()}
    return Tokenizer(VOCAB | tokens, MERGES, SPECIALS)


@pytest.fixture
def hf(tmp_path: Path) -> Path:
    """Special tokens stand among the added tokens alone, so that what is changed there counts."""
    tokenizer().save(tmp_path / "tokenizer.json", "hf")
    path = rewritten(
        tmp_path / "tokenizer.json", lambda d: list(map(d["model"]["vocab"].pop, SPECIALS))
    )
    assert Tokenizer.load(path).digest == tokenizer().digest
    return path


def rewritten(path: Path, change: Change) -> Path:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    return path


IDS: dict[str, Any] = {
    "negative": -1, "a float": 256.0, "half": 256.5, "true": True, "text": "256", "null": None,
    "a list": [256], "2^31": 2**31, "2^32 + 256": 2**32 + 256, "2^63": 2**63, "2^64": 2**64,
    "beyond all": MAX_ID + 1, "taken": 97, "huge": 10**4_000,
}  # fmt: skip


@pytest.mark.parametrize("kind", IDS)
@pytest.mark.parametrize("place", ["vocab", "added", "gpt2"])
def test_an_id_that_is_none_is_refused(hf: Path, tmp_path: Path, kind: str, place: str) -> None:
    def change(document: dict[str, Any]) -> None:
        if place == "added":
            document["added_tokens"][0]["id"] = IDS[kind]
        else:
            (document["model"]["vocab"] if place == "vocab" else document)["ab"] = IDS[kind]

    path = hf
    if place == "gpt2":
        tokenizer().save(tmp_path / "kept", "gpt2")
        path = tmp_path / "kept"
        rewritten(path / "vocab.json", change)
    else:
        rewritten(hf, change)
    begin = time.process_time()
    if place in ("vocab", "added") and kind in ("taken", "2^31", "beyond all"):
        refused_or_as_library(path)  # which counts added tokens itself, and takes the last of two
        return
    with pytest.raises(BpelineError) as refusal:
        Tokenizer.load(path, "gpt2" if place == "gpt2" else "hf")
    assert refusal.value.accepted
    assert len(str(refusal.value)) < 1_000
    assert time.process_time() - begin < 5


def test_digits_without_end_are_refused(hf: Path) -> None:
    content = hf.read_text().replace('"ab": 256', '"ab": ' + "9" * 100_000)
    assert len(content) > 100_000
    hf.write_text(content)
    with pytest.raises(InvalidTokenizer, match="digits"):
        Tokenizer.load(hf)


def test_ids_may_have_gaps_and_nothing_decodes_in_them(hf: Path) -> None:
    def apart(document: dict[str, Any]) -> None:
        document["added_tokens"][0].update(id=MAX_ID)
        document["model"]["vocab"] |= {**SPECIALS, "<|fin|>": MAX_ID}

    rewritten(hf, apart)
    loaded = Tokenizer.load(hf)
    assert loaded.encode("<|fin|>", allowed_special="all") == [MAX_ID]
    assert loaded.encode("abc") == [257]
    for unknown in (263, 299, MAX_ID - 1, MAX_ID + 1, 2**31, 2**63, -1):
        with pytest.raises(BpelineError):
            loaded.decode([97, unknown])


LINES: dict[str, list[bytes]] = {
    "one rank twice": [b"%s 255" % base64.b64encode(b"ab")],
    "one token twice": [b"%s 256" % base64.b64encode(b"a")],
    "a negative rank": [b"%s -1" % base64.b64encode(b"ab")],
    "a rank beyond all": [b"%s 4294967552" % base64.b64encode(b"ab")],
    "a rank that is none": [b"%s 0x100" % base64.b64encode(b"ab")],
    "a rank in other digits": [b"%s %s" % (base64.b64encode(b"ab"), "٢٥٦".encode())],
    "underscores": [b"%s 2_56" % base64.b64encode(b"ab")],
    "no number": [b"YWI= x"],
    "digits without end": [b"%s %s" % (base64.b64encode(b"ab"), b"9" * 100_000)],
    "an empty token": [b" 256"],
    "no base64": [b"!!!! 256"],
    "base64 cut off": [b"YWI 256"],
    "three columns": [b"YWI= 256 1"],
    "a token of 70,000 bytes": [b"%s 256" % base64.b64encode(b"a" * 70_000)],
}


@pytest.mark.parametrize("kind", LINES)
def test_ranks_that_are_none_are_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x.tiktoken"
    lines = [b"%s %d" % (base64.b64encode(bytes([byte])), byte) for byte in range(256)]
    path.write_bytes(b"\n".join([*lines, *LINES[kind]]) + b"\n")
    said = "b'a'" if kind == "one token twice" else "line 257"
    with pytest.raises(InvalidTokenizer, match=said) as refusal:
        Tokenizer.load(path, pattern="gpt2")
    assert len(str(refusal.value)) < 1_000


MERGE_LISTS: dict[str, list[Any]] = {
    "a part that comes later": [["ab", "c"], ["a", "b"]],
    "a part that nothing makes": [["a", "b"], ["zz", "c"]],
    "itself": [["a", "b"], ["abc", "abc"], ["ab", "c"]],
    "twice": [["a", "b"], ["a", "b"]],
    "the same token of other parts": [["a", "b"], ["b", "c"], ["ab", "c"], ["a", "bc"]],
    "an empty part": [["", "ab"]],
    "three parts": [["a", "b", "c"]],
    "numbers": [[97, 98]],
    "text of three": ["a b c"],
    "text of one": ["ab"],
    "mixed": [["a", "b"], "ab c"],
    "a result that the vocab lacks": [["a", "z"]],
    "a special token as a part": [["<|a|>", "<|a|>"]],
}


@pytest.mark.parametrize("kind", MERGE_LISTS)
def test_merges_that_cannot_be_are_refused_or_harmless(hf: Path, kind: str) -> None:
    """Whatever is loaded encodes as its merges say, and decodes to the text."""
    rewritten(hf, lambda d: d["model"].update(merges=MERGE_LISTS[kind]))
    try:
        loaded = Tokenizer.load(hf)
    except InvalidTokenizer as refusal:
        message = str(refusal)
    else:
        message = ""
        for text in ("abc", "ababcbc", "a b c the"):
            assert loaded.decode(loaded.encode(text)) == text
    harmless = ("a part that comes later", "twice", "the same token of other parts", "mixed")
    assert message or kind in harmless, kind
    assert len(message) < 1_000


SPECIAL_TOKENS: dict[str, Change] = {
    "empty": lambda d: d["added_tokens"][0].update(content=""),
    "one twice": lambda d: d["added_tokens"].append(dict(d["added_tokens"][0])),
    "one id for two": lambda d: d["added_tokens"][1].update(id=260),
    "the id of a byte": lambda d: d["added_tokens"][0].update(id=97),
    "a single letter": lambda d: d["added_tokens"][0].update(content="a"),
    "a space": lambda d: d["added_tokens"][0].update(content=" "),
    "a line feed": lambda d: d["added_tokens"][0].update(content="\n"),
    "a learned token": lambda d: d["added_tokens"][0].update(content=" th"),
    "half a pair": lambda d: d["added_tokens"][0].update(content="\udfff"),
    "a number": lambda d: d["added_tokens"][0].update(content=5),
    "a NUL within": lambda d: d["added_tokens"][0].update(content="<\0>"),
    "a regex": lambda d: d["added_tokens"][0].update(content=".*+?[^"),
    # Where one of a single letter could begin, all of it is compared: in 64 KiB of it, for seconds.
    "a letter again and again": lambda d: d["added_tokens"][0].update(content="x" * 1_025),
    "64 KiB": lambda d: d["added_tokens"][0].update(content="<" + "x" * 65_536),
}


@pytest.mark.parametrize("kind", SPECIAL_TOKENS)
def test_special_tokens_are_refused_or_those_of_the_library(hf: Path, kind: str) -> None:
    rewritten(hf, SPECIAL_TOKENS[kind])
    refused_or_as_library(hf)


def refused_or_as_library(path: Path) -> None:
    """Nothing in between: what is loaded gives the ids and the text of HuggingFace's library."""
    try:
        specials = Tokenizer.load(path).special_tokens
    except (InvalidTokenizer, InvalidSpecialToken) as refusal:
        assert refusal.accepted  # noqa: PT017
        return
    texts = [f"a{special}{special}b{special[:-1]}" for special in specials]
    assert_as_library(path, ("a b ab abc th the", *texts))


def test_the_longest_of_special_tokens_that_contain_one_another_wins(hf: Path) -> None:
    loaded = Tokenizer.load(hf)
    ids = loaded.encode("<|a|><|a|><|b|><|fin|>", allowed_special="all")
    assert ids == [261, 262, 260]
    # As there: what is not sought still covers its characters.
    assert not any(map(loaded.is_special, loaded.encode("<|a|><|b|>", {"<|a|>"})))


WRONG: list[Any] = [None, True, 0, -1, 1.5, "", "x", [], [[]], {}, {"a": 1}, [None], "\ud800"]
PARTS = ("model", "vocab", "merges", "added_tokens", "pre_tokenizer", "decoder", "normalizer",
         "post_processor", "version", "type", "truncation", "padding", "pretokenizers", "pattern",
         "content", "id", "special", "byte_fallback", "ignore_merges", "unk_token", "dropout",
         "continuing_subword_prefix", "end_of_word_suffix", "Regex", "behavior")  # fmt: skip


def replace_everywhere(node: Any, name: str, value: Any) -> Any:
    if isinstance(node, list):
        return [replace_everywhere(one, name, value) for one in node]
    if isinstance(node, dict):
        return {
            key: value if key == name else replace_everywhere(one, name, value)
            for key, one in node.items()
        }
    return node


@pytest.mark.parametrize("part", PARTS)
def test_every_part_may_be_of_every_wrong_type(hf: Path, part: str) -> None:
    document = json.loads(hf.read_text())
    for value in WRONG:
        hf.write_text(json.dumps(replace_everywhere(document, part, value)))
        try:
            Tokenizer.load(hf).encode("abc the")
        except BpelineError:
            continue
        except Exception as error:
            raise AssertionError(f"REPRO: {part} = {value!r}") from error


@pytest.mark.parametrize("format_", ["hf", "gpt2", "bpeline", "tiktoken"])
def test_files_cut_off_anywhere_are_refused(tmp_path: Path, format_: Any) -> None:
    one_file = format_ in ("hf", "tiktoken")
    told = {"pattern": "gpt2"} if format_ in ("gpt2", "tiktoken") else {}
    target = tmp_path / ("x.tiktoken" if format_ == "tiktoken" else "kept.json")
    tokenizer().save(target, format_)
    for path in [target] if one_file else sorted(target.iterdir()):
        content = path.read_bytes()
        for size in {0, 1, 2, len(content) // 3, len(content) // 2, len(content) - 3}:
            path.write_bytes(content[:size])
            try:
                loaded = Tokenizer.load(target, format_, **told)
            except BpelineError:
                continue
            except Exception as error:
                raise AssertionError(f"REPRO: {path.name} of {size} bytes") from error
            # A text without a sum, cut between two lines, is a smaller tokenizer.
            assert path.name in ("merges.txt", "x.tiktoken"), (path.name, size)
            assert format_ != "bpeline"
            assert len(loaded.merges) <= len(MERGES)
        path.write_bytes(content)
