"""Pre-tokenizers as split patterns: each, and sequences of them, against `tokenizers`' pieces."""

from __future__ import annotations

import json
import pickle
import random
import unicodedata
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest
import tokenizers
from amounts import Amounts
from tempting_texts import tempting_texts

from bpeline.tokenizer_core.errors import InvalidPattern
from bpeline.tokenizer_core.pipeline import PRE_TOKENIZERS, pattern_of_steps
from bpeline.tokenizer_core.splitting.cuts import Cuts
from bpeline.tokenizer_core.splitting.pretokenization import Splitter, mark_kept_and_dropped
from bpeline.tokenizer_core.splitting.split_patterns import BEHAVIORS, SplitPattern, SplitStep
from bpeline.tokenizer_core.text import Text
from tests.tokenizer_core.test_pretokenization import PUBLISHED

FEW = list("aab  ▁▁12-..,\n漢é'$·")


def pattern_of_pre_tokenizer(part: Any) -> SplitPattern:
    return pattern_of_steps(PRE_TOKENIZERS.steps(part))


def step(kind: str, **values: Any) -> dict[str, Any]:
    return {"type": kind, **values}


def split(behavior: str, *, invert: bool = False, **pattern: str) -> dict[str, Any]:
    return step("Split", pattern=pattern, behavior=behavior, invert=invert)


def sequence(*steps: dict[str, Any]) -> dict[str, Any]:
    return step("Sequence", pretokenizers=list(steps))


def byte_level(use_regex: bool) -> dict[str, Any]:
    return step("ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=use_regex)


def metaspace(**values: Any) -> dict[str, Any]:
    return step("Metaspace", replacement="▁", prepend_scheme="never", **values)


SPLITS = [
    split(behavior, invert=invert, **pattern)
    for behavior in BEHAVIORS
    for invert in (False, True)
    for pattern in (
        {"String": " "},
        {"String": "-."},
        {"Regex": r"[\s,]"},
        {"Regex": r"\p{N}"},
        {"Regex": r"[^ab]"},
        {"Regex": r"a+|[0-9]{1,2}| ?\p{L}+"},
        {"Regex": r"\s+(?!\S)"},
    )
]
GPT2_AS_PUBLISHED = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
DEEPSEEK_LLM = sequence(
    split("Isolated", Regex=r"[\r\n]"),
    split("Isolated", Regex=r"\s?\p{L}+"),
    split("Isolated", Regex=r"\s?\p{P}+"),
    split("Isolated", Regex=r"[一-龥ࠀ-一가-퟿]+"),
    step("Digits", individual_digits=True),
    byte_level(False),
)
CLIP = sequence(
    split("Removed", invert=True,
          Regex=r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]"
                r"|[^\s\p{L}\p{N}]+"),
    byte_level(True),
)  # fmt: skip
SINGLE = [
    *(step("Punctuation", behavior=behavior) for behavior in BEHAVIORS),
    step("Digits", individual_digits=True),
    step("Digits", individual_digits=False),
    *map(step, ("Whitespace", "WhitespaceSplit", "BertPreTokenizer")),
    step("CharDelimiterSplit", delimiter=" "),
    step("CharDelimiterSplit", delimiter="-"),
    byte_level(True),
    byte_level(False),
    metaspace(split=True),
    metaspace(split=False),
]
SEQUENCES = [
    DEEPSEEK_LLM,
    CLIP,
    sequence(step("Digits", individual_digits=True), byte_level(True)),
    sequence(step("Digits", individual_digits=False), byte_level(True)),
    sequence(step("WhitespaceSplit"), step("Punctuation", behavior="Isolated")),
    sequence(step("Whitespace"), sequence(step("Digits", individual_digits=True))),
    sequence(step("BertPreTokenizer"), split("MergedWithPrevious", String="a")),
    sequence(metaspace(split=True), step("Digits", individual_digits=True)),
    sequence(step("Punctuation", behavior="Contiguous"), byte_level(True),
             split("Isolated", Regex="[0-9][0-9][0-9]")),
    sequence(split("MergedWithNext", Regex="[aé]"), split("Contiguous", Regex=r"\s|a"),
             split("Removed", String="-"), split("MergedWithPrevious", Regex="[ab]", invert=True)),
    sequence(split("Removed", Regex=" +"), split("Isolated", Regex=r"\p{L}+(?=1)|a(?![\s\S])")),
]  # fmt: skip


def theirs(part: dict[str, Any]) -> Any:
    model = {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}
    document = {"version": "1.0", "added_tokens": [], "pre_tokenizer": part, "model": model}
    return tokenizers.Tokenizer.from_str(json.dumps(document)).pre_tokenizer


def offsets(pre_tokenizer: Any, text: str) -> list[tuple[int, int]]:
    """Where its pieces begin and end, in characters."""
    return [edges for _, edges in pre_tokenizer.pre_tokenize_str(text)]


def pieces(pattern: SplitPattern, text: str) -> list[tuple[int, int]]:
    raw = text.encode()
    whole = Text.of(raw)
    starts, dropped = mark_kept_and_dropped(whole, np.array([[0, whole.size]], np.int64), pattern)
    begins = positions(starts)
    left_out = set(positions(dropped))
    places = np.cumsum([0] + [len(character.encode()) for character in text]).tolist()
    at = {place: index for index, place in enumerate(places)}
    return [
        (at[begin], at[end])
        for begin, end in pairwise([*begins, whole.size])
        if begin not in left_out
    ]


def positions(bitmap: np.ndarray) -> list[int]:
    found: list[int] = np.flatnonzero(
        np.unpackbits(bitmap.view(np.uint8), bitorder="little")
    ).tolist()
    return found


def random_texts(seed: int, count: int) -> list[str]:
    random_ = random.Random(seed)
    short = ["".join(random_.choices(FEW, k=random_.randint(0, 12))) for _ in range(count)]
    return short + [assigned(text) for text in islice(tempting_texts(seed), count // 4)]


def assigned(text: str) -> str:
    """Without characters that are in one engine's version of Unicode and not in another's."""
    return "".join(one for one in text if unicodedata.category(one) != "Cn")


@pytest.mark.night
@pytest.mark.parametrize("part", [*SPLITS, *SINGLE, *SEQUENCES], ids=lambda part: part["type"])
def test_pieces_are_those_of_tokenizers(part: dict[str, Any], seed: int, amounts: Amounts) -> None:
    pre_tokenizer, pattern = theirs(part), pattern_of_pre_tokenizer(part)
    dropped = False
    for text in [*random_texts(1, 300), *random_texts(seed, amounts.laws * 4)]:
        if part["type"] == "Metaspace" or part in SEQUENCES[7:8]:
            text = text.replace(" ", "▁")  # which is someone else's part
        expected = [(begin, end) for begin, end in offsets(pre_tokenizer, text) if begin < end]
        assert pieces(pattern, text) == expected, ascii(text)
        dropped |= sum(end - begin for begin, end in expected) < len(text)
    assert pattern.drops_gaps == dropped


@pytest.mark.parametrize("part", [*SPLITS, *SINGLE, *SEQUENCES], ids=lambda part: part["type"])
def test_a_pattern_comes_back_from_its_record(part: dict[str, Any]) -> None:
    pattern = pattern_of_pre_tokenizer(part)
    again = SplitPattern.from_record(json.loads(json.dumps(pattern.as_record())))
    assert again == pattern
    assert again.digest == pattern.digest
    assert pickle.loads(pickle.dumps(pattern)) == pattern
    assert pattern.has_kernel


def test_patterns_of_different_steps_have_different_digests() -> None:
    patterns = {pattern_of_pre_tokenizer(part) for part in (*SPLITS, *SINGLE, *SEQUENCES)}
    assert len({pattern.digest for pattern in patterns}) == len(patterns) > 40


@pytest.mark.parametrize("part", SEQUENCES, ids=range(len(SEQUENCES)))
def test_texts_are_cut_alike_in_parts(part: dict[str, Any], seed: int) -> None:
    """Legal cuts change no piece, and spans are cut apart."""
    pattern = pattern_of_pre_tokenizer(part)
    text = "".join(random_texts(seed, 400))
    raw = text.encode()
    cuts = Cuts(pairs=pattern.cut_pairs)
    edges = [0]
    while cuts.possible and (cut := cuts.first(raw, edges[-1] + 1, len(raw))) > 0:
        edges.append(cut)
    assert len(edges) > 40 or part in SEQUENCES[7::2]  # where matches are merged none is known
    spans = np.array([*pairwise([*edges, len(raw)])], np.int64)
    whole = Text.of(raw)
    in_parts = Splitter(pattern).mark(whole, spans[::-1])
    at_once = Splitter(pattern).mark(whole, np.array([[0, len(raw)]], np.int64))
    assert [positions(marks) for marks in in_parts] == [positions(marks) for marks in at_once]


@pytest.mark.parametrize(
    ("part", "name"),
    [
        (byte_level(True), "gpt2"),
        (sequence(byte_level(True)), "gpt2"),
        (SEQUENCES[2], "starcoder"),
        (split("Removed", invert=True, Regex=GPT2_AS_PUBLISHED), "gpt2"),
        (split("Isolated", Regex=GPT2_AS_PUBLISHED), "gpt2"),
        *(
            (
                sequence(
                    *(split("Isolated", Regex=one) for one in PUBLISHED[name]), byte_level(False)
                ),
                name,
            )
            for name in ("llama3", "qwen2", "deepseek-v3")
        ),
        (split("Removed", invert=True, Regex=PUBLISHED["llama3"][0]), "llama3"),
        (step("WhitespaceSplit"), "whitespace"),
        (step("Whitespace"), "wordpunct"),
        *(
            (
                sequence(
                    split(behavior, invert=invert, Regex=SplitPattern.named(name).regex),
                    byte_level(False),
                ),
                name,
            )
            for name in ("llama3", "qwen2", "o200k", "tekken", "cl100k")
            for behavior, invert in (("Isolated", False), ("Removed", True))
        ),
    ],
)
def test_known_pre_tokenizers_are_named_patterns(part: dict[str, Any], name: str) -> None:
    assert pattern_of_pre_tokenizer(part) == SplitPattern.named(name)


def test_one_regex_is_preferred() -> None:
    """For speed, and because other programs can be told of it."""
    assert pattern_of_pre_tokenizer(metaspace(split=True)) == SplitPattern("▁?[^▁]+|▁")
    gemma = split("MergedWithPrevious", String=" ")
    assert pattern_of_pre_tokenizer(gemma) == SplitPattern("[^ ]+ ?| ")
    assert pattern_of_pre_tokenizer(None) == SplitPattern(r"[\s\S]+")
    bert = pattern_of_pre_tokenizer(step("BertPreTokenizer"))
    assert bert.automaton is not None
    assert bert.cut_pairs is not None


@pytest.mark.parametrize("part", [*SPLITS, *SEQUENCES], ids=lambda part: part["type"])
def test_steps_are_given_back_for_export(part: dict[str, Any], seed: int) -> None:
    pattern = pattern_of_pre_tokenizer(part)
    again = sequence(*pattern.steps_for_export)
    assert pattern_of_pre_tokenizer(again) == pattern
    pre_tokenizer = theirs(again)
    for text in random_texts(seed, 60):
        assert pieces(pattern, text) == offsets(pre_tokenizer, text)
    if pattern.steps:
        with pytest.raises(InvalidPattern):
            _ = pattern.regex_for_export


@pytest.mark.parametrize(
    ("part", "names"),
    [
        (step("UnicodeScripts"), "'UnicodeScripts'"),
        (step("FixedLength", length=5), "'FixedLength'"),
        ([], "type"),
        (sequence({}), "type"),
        (sequence(None), "type"),  # type: ignore[arg-type]
        (step("Digits", individual=True), "'individual'"),
        (step("Digits", individual_digits=1), "individual_digits"),
        (step("Punctuation", behavior="Kept"), "'Kept'"),
        (split("Isolated", String=""), "pattern"),
        (split("Isolated", Regex="("), "compile"),
        (split("Isolated", Regex=r"\w+"), r"'\\w+'"),
        (split("Removed", Regex=r"\w+"), r"'\\w+'"),
        (split("Isolated", Regex=PUBLISHED["cl100k"][0]), "Oniguruma"),
        (split("Removed", Regex=r"(?<=a)b"), "'(?<=a)b'"),
        (split("Removed", Regex=r"a*"), "'a*'"),
        (step("CharDelimiterSplit", delimiter="ab"), "'ab'"),
        (step("Metaspace", replacement=""), "replacement"),
        (sequence(step("WhitespaceSplit"), metaspace()), "Metaspace"),
        (
            sequence(step("WhitespaceSplit"), step("ByteLevel", add_prefix_space=True)),
            "add_prefix_space",
        ),
        (sequence(byte_level(True), step("Digits", individual_digits=True)), "bytes"),
        (sequence(byte_level(True), byte_level(True)), "ByteLevel"),
        (sequence(*[step("WhitespaceSplit")] * 33), "steps"),
    ],
)
def test_what_cannot_be_done_exactly_is_refused_by_name(part: Any, names: str) -> None:
    with pytest.raises(InvalidPattern) as refused:
        pattern_of_pre_tokenizer(part)
    assert names in refused.value.happened
    assert refused.value.accepted
    assert refused.value.next_step


def test_records_that_are_none_are_refused() -> None:
    record = SplitPattern.of_steps(
        [SplitStep("a", "Isolated"), SplitStep("b", "Removed")]
    ).as_record()
    for changed in (
        {"steps": "a"},
        {"steps": [{}]},
        {"steps": record["steps"][:1]},
        {"name": "gpt2"},
        {"between": "kept"},
        {"digest": "x"},
        {"regex": "a"},
    ):
        with pytest.raises(InvalidPattern):
            SplitPattern.from_record(record | changed)
