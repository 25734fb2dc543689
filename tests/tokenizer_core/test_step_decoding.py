"""Decoders of HuggingFace, step by step: the texts of `tokenizers`, at once and as streams."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from amounts import Amounts, numbers
from tokenizers import AddedToken, Tokenizer, models, normalizers

from bpeline.tokenizer_core.encoding import DecodeStream, StepDecoder
from bpeline.tokenizer_core.errors import InvalidOption, InvalidTokenizer, UnknownToken
from bpeline.tokenizer_core.pipeline import DecoderSteps

BYTE_LEVEL = {
    "type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True,
}  # fmt: skip
BYTES: dict[str, Any] = {"type": "ByteFallback"}
FUSE: dict[str, Any] = {"type": "Fuse"}


def strip(content: str, start: int, stop: int) -> dict[str, Any]:
    return {"type": "Strip", "content": content, "start": start, "stop": stop}


def replaced(pattern: str, content: str, kind: str = "String") -> dict[str, Any]:
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


def metaspace(scheme: str, replacement: str = "▁") -> dict[str, Any]:
    return {
        "type": "Metaspace", "replacement": replacement, "prepend_scheme": scheme, "split": True,
    }  # fmt: skip


def word_piece(prefix: str, cleanup: bool) -> dict[str, Any]:
    return {"type": "WordPiece", "prefix": prefix, "cleanup": cleanup}


def ctc(pad: str, delimiter: str, cleanup: bool) -> dict[str, Any]:
    return {
        "type": "CTC", "pad_token": pad, "word_delimiter_token": delimiter, "cleanup": cleanup,
    }  # fmt: skip


def end_of_word(suffix: str) -> dict[str, Any]:
    return {"type": "BPEDecoder", "suffix": suffix}


def sequence(*decoders: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "decoders": list(decoders)}


SPACES = replaced("▁", " ")
PUBLISHED: dict[str, Any] = {
    "gpt2": BYTE_LEVEL,
    "llama": sequence(SPACES, BYTES, FUSE, strip(" ", 1, 0)),
    "gemma": sequence(SPACES, BYTES, FUSE),
    "t5": metaspace("always"),
    "mistral": metaspace("never"),
    "bert": word_piece("##", True),
    "openai-gpt": end_of_word("</w>"),
    "wav2vec2": ctc("<pad>", "|", True),
    "none": None,
}
STEPS: list[Any] = [
    *PUBLISHED.values(), BYTES, FUSE, SPACES, metaspace("first", "b"), word_piece("##", False),
    word_piece("", True), end_of_word(""), end_of_word("b"), ctc("<pad>", "|", False),
    ctc("", "", True), strip(" ", 1, 0), strip(" ", 0, 2), strip("b", 1, 1), strip("▁", 3, 0),
    replaced("", "-"), replaced("b", ""), replaced("a", "aa"), replaced("bb", "$0"),
    replaced("[ab]+", "<>", "Regex"), replaced(r"\s\p{L}", r"\1", "Regex"), sequence(),
    sequence(sequence(FUSE), sequence(BYTES)),
]  # fmt: skip
TOKENS = [
    "a", "b", "ab", "bb", " ", "  ", " b", "▁", "▁▁", "▁a", "b▁", "##a", "##", "##.", "</w>",
    "a</w>", "b</w>b", "<pad>", "|", "<pad>a", ".", ",", "'", "?", "!", " ' ", "n't", "'m",
    "do not", "'s", "'ve", "'re", "<0x41>", "<0xE4>", "<0xB8>", "<0xad>", "<0xF0>", "<0x9F>",
    "<0x98>", "<0x80>", "<0xff>", "<0x0A>", "<0x+5>", "<0x-5>", "<0x4G>", "<0x041>", "<0xé>",
    "Ġ", "Ġa", "Ċ", "ä", "¸", "Ń", "ð", "Ł", "ĺ", "Ģ", "é", "é ", "中", "☃▁", "\u0301",
    "\u200b", "\n", "\x00", "İ",
]  # fmt: skip


class Both:
    def __init__(self, decoder: Any, tokens: Sequence[str] = TOKENS) -> None:
        vocab = {token: 3 * k for k, token in enumerate(tokens)}
        model = Tokenizer(models.WordLevel(vocab, unk_token=tokens[0]))
        whole = {**json.loads(model.to_str()), "decoder": decoder}
        self.theirs = Tokenizer.from_str(json.dumps(whole))
        self.steps = DecoderSteps.of_description(decoder)
        self.ours = StepDecoder({id_: token for token, id_ in vocab.items()}, self.steps)
        self.ids = list(vocab.values())

    def their_text(self, ids: list[int]) -> str | None:
        """None where `tokenizers` panics."""
        try:
            text: str = self.theirs.decode(ids, skip_special_tokens=False)
        except BaseException as failed:  # a panic is no Exception
            if type(failed).__name__ != "PanicException":
                raise
            return None
        return text

    def agree(self, ids: list[int]) -> bool:
        expected = self.their_text(ids)
        if expected is None:
            return False
        shown = self.steps.described(), [self.ours._names[id_] for id_ in ids]
        assert self.ours.text(ids, "replace") == expected, shown
        assert self.ours.text(np.array(ids, np.uint32), "replace") == expected, shown
        assert self.ours.text(np.array(ids, np.int64), "replace") == expected, shown
        stream = self.ours.stream()
        for _ in range(2):  # it begins anew
            assert fed(stream, ids) == expected, shown
        content = self.ours.decode(ids)
        try:
            assert content.decode() == expected, shown
        except UnicodeDecodeError:
            assert "\ufffd" in expected
        return True


def fed(stream: DecodeStream, ids: Sequence[int]) -> str:
    return "".join([*map(stream.feed, ids), stream.flush()])


@pytest.mark.parametrize("decoder", STEPS, ids=str)
def test_texts_are_those_of_tokenizers(decoder: Any, seed: int) -> None:
    both = Both(decoder)
    assert both.steps.described() == decoder
    assert DecoderSteps.of_description(json.loads(json.dumps(decoder))) == both.steps
    draw = random.Random(seed)
    cases = [[], *([id_] for id_ in both.ids)]
    cases += [draw.choices(both.ids, k=draw.choice((2, 3, 5, 12, 40))) for _ in range(30)]
    assert sum(map(both.agree, cases)) > 50


@pytest.mark.night
def test_any_steps_one_after_the_other(amounts: Amounts, seed: int, point: int) -> None:
    compared = 0
    for number in numbers(seed, 2 * amounts.laws, point):
        draw = random.Random(number)
        steps = [step for step in draw.choices(STEPS, k=draw.randint(1, 5)) if step is not None]
        both = Both(sequence(*steps), draw.sample(TOKENS, k=draw.randint(5, 30)))
        for _ in range(10):
            compared += both.agree(draw.choices(both.ids, k=draw.choice((0, 1, 2, 4, 9, 30))))
    assert compared


@pytest.mark.night
@pytest.mark.parametrize("name", ["llama", "gemma", "gpt2"])
def test_many_ids(name: str, seed: int) -> None:
    """Kernels join them; the few bytes that are not UTF-8 cost no more than their steps."""
    both = Both(PUBLISHED[name])
    draw = random.Random(seed)
    for valid in (True, False):
        ids = [id_ for id_ in both.ids if valid is not both.ours._names[id_].startswith("<0x")]
        assert both.agree(draw.choices(ids + both.ids[:5], k=20_000))


@pytest.mark.parametrize("name", PUBLISHED)
def test_streams_say_nothing_that_later_ids_would_change(name: str, seed: int) -> None:
    both = Both(PUBLISHED[name])
    draw = random.Random(seed)
    for _ in range(60):
        ids = draw.choices(both.ids, k=draw.randint(1, 8))
        stream = both.ours.stream()
        said = "".join(map(stream.feed, ids))
        for _ in range(5):
            more = draw.choices(both.ids, k=draw.randint(0, 4))
            assert (both.their_text(ids + more) or "").startswith(said)


def test_a_stream_waits_no_longer_than_it_must() -> None:
    both = Both(PUBLISHED["llama"])
    ids = {token: id_ for id_, token in both.ours._names.items()}
    stream = both.ours.stream()
    fed_tokens = ["▁a", "b", "<0xE4>", "<0xB8>", "<0xad>", "b", "<0x41>", "<0xff>", "▁"]
    said = [stream.feed(ids[token]) for token in fed_tokens]
    assert said == ["a", "b", "", "", "", "中b", "", "", "\ufffd\ufffd "]
    assert stream.flush() == ""
    stream = Both(PUBLISHED["openai-gpt"]).ours.stream()
    assert [stream.feed(ids[token]) for token in ("a</w>", "a</w>")] == ["", "a "]
    assert stream.flush() == "a"
    stream = Both(PUBLISHED["bert"]).ours.stream()
    assert [stream.feed(ids[token]) for token in ("a", "##a", ".", "b")] == ["a", "a", ".", " b"]


def test_bytes_that_are_not_utf8_are_an_error_when_asked_for() -> None:
    for name, token in (("llama", "<0xff>"), ("gpt2", "ä")):
        decoder = Both(PUBLISHED[name]).ours
        ids = [id_ for id_, known in decoder._names.items() if known in (token, "a")]
        with pytest.raises(UnicodeDecodeError):
            decoder.text(ids, "strict")
        with pytest.raises(UnicodeDecodeError):
            fed(decoder.stream("strict"), ids)
        assert decoder.text(ids[:1], "strict") == "a"
        assert decoder.text(ids, "ignore") == fed(decoder.stream("ignore"), ids) == "a"
    with pytest.raises(InvalidOption, match="'other'"):
        decoder.text([], "other")  # type: ignore[arg-type]
    assert Both(PUBLISHED["llama"]).ours.decode([21, *ids]) == b"a" + b"\xc3\xa4"


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize("ids", [[0, 1], [True], ["a"], [-3], [10**9], np.ones((2, 2))], ids=str)
def test_what_is_no_id_is_refused(name: str, ids: Any) -> None:
    decoder = Both(PUBLISHED[name]).ours
    for call in (decoder.decode, lambda ids: decoder.text(ids, "replace")):
        with pytest.raises(UnknownToken):
            call(ids)
    if isinstance(ids, list):
        stream = decoder.stream()
        with pytest.raises(UnknownToken):
            stream.feed(ids[-1])
        assert fed(stream, [0]) == decoder.text([0], "replace")


def test_added_tokens_go_through_the_steps_like_others() -> None:
    """By what the normalizer makes of those that are sought in normalized text."""
    tokenizer = Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.add_tokens([AddedToken("É", normalized=True), AddedToken("É ", normalized=False)])
    for decoder in (BYTE_LEVEL, FUSE, None):
        whole = {**json.loads(tokenizer.to_str()), "decoder": decoder}
        theirs = Tokenizer.from_str(json.dumps(whole))
        ours = StepDecoder({0: "a", 1: "é", 2: "É "}, DecoderSteps.of_description(decoder))
        for ids in ([1], [2], [0, 1, 2, 0]):
            assert ours.text(ids, "replace") == theirs.decode(ids, skip_special_tokens=False)


def test_older_files_of_metaspace() -> None:
    for older in ({"add_prefix_space": True}, {"add_prefix_space": True, "str_rep": "▁"}, {}):
        read = DecoderSteps.of_description({"type": "Metaspace", "replacement": "▁", **older})
        assert read.described() == metaspace("always")


@pytest.mark.parametrize(
    ("decoder", "complaint"),
    [
        ("Fuse", "Fuse"),
        ({"type": "Cyrillic"}, "Cyrillic"),
        ({"type": ["Fuse"]}, "['Fuse']"),
        ({}, "{}"),
        ({"type": "WordPiece", "prefix": "##"}, "'cleanup'"),
        ({**FUSE, "more": 1}, "'more'"),
        ({**BYTE_LEVEL, "use_regex": 1}, "'use_regex'"),
        (strip("ab", 1, 0), "Strip"),
        (strip("a", -1, 0), "Strip"),
        (replaced("a*", "", "Regex"), "'a*'"),
        (replaced(r"\w", "", "Regex"), r"'\\w'"),
        (replaced("(?<=a)b", "", "Regex"), "'(?<=a)b'"),
        (replaced("(", "", "Regex"), "'('"),
        (replaced("a", "", "Glob"), "Replace"),
        ({**SPACES, "content": None}, "content"),
        (metaspace("sometimes"), "'sometimes'"),
        (metaspace("always", "ab"), "Metaspace"),
        ({**metaspace("always"), "add_prefix_space": False}, "add_prefix_space"),
        (sequence(sequence(None)), "None"),  # type: ignore[arg-type]
        ({"type": "Sequence"}, "Sequence"),
    ],
)
def test_other_decoders_are_refused(decoder: Any, complaint: str) -> None:
    with pytest.raises(InvalidTokenizer) as caught:
        DecoderSteps.of_description(decoder)
    assert complaint in caught.value.happened
    assert caught.value.accepted
    assert caught.value.next_step
