"""Normalizers: each against `tokenizers` on all characters and on random texts; files refused."""

from __future__ import annotations

import base64
import json
import random
import sys
import unicodedata
from typing import Any

import pytest
import tokenizers
from amounts import Amounts
from charsmaps import charsmap

from bpeline.tokenizer_core.errors import InvalidTokenizer
from bpeline.tokenizer_core.pipeline import Normalizer, unicode_tables

as_documented = pytest.mark.skipif(
    not tokenizers.__version__.startswith("0.23."), reason="docs/formats.md describes 0.23.3"
)
CHARACTERS = [*map(chr, range(0xD800)), *map(chr, range(0xE000, 0x110000))]
EVERY_BYTE = charsmap({bytes([byte]): "X" for byte in range(1, 256)})
FEW_RULES = charsmap(
    {"a": "", "bc": "Y", "bcd": "Z", "①": "1", "\r\n": "N", "\u0301": "´", "é": "e", "\u0600a": "P"}
)


def step(kind: str, **values: Any) -> dict[str, Any]:
    return {"type": kind, **values}


def bert(*values: bool | None) -> dict[str, Any]:
    keys = ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase")
    return step("BertNormalizer", **dict(zip(keys, values, strict=True)))


def replace(content: str, **pattern: str) -> dict[str, Any]:
    return step("Replace", pattern=pattern, content=content)


def sequence(*steps: dict[str, Any]) -> dict[str, Any]:
    return step("Sequence", normalizers=list(steps))


def precompiled(rules: str) -> dict[str, Any]:
    return step("Precompiled", precompiled_charsmap=rules)


UNICODE = [step(kind) for kind in ("NFC", "NFD", "NFKC", "NFKD")]
BY_CHARACTER = [
    *UNICODE,
    *map(step, ("Nmt", "Lowercase", "StripAccents")),
    *(bert(*(at == place for at in range(4))) for place in range(4)),
    bert(True, True, None, True),
    bert(True, True, None, False),
    replace("▁", String=" "),
    replace("\\0$0", Regex=r"\s+|[ab]"),
    precompiled(EVERY_BYTE),
    precompiled(FEW_RULES),
]
OTHERS = [
    step("Strip", strip_left=True, strip_right=True),
    step("Strip", strip_left=False, strip_right=True),
    step("Strip", strip_left=True, strip_right=False),
    step("Prepend", prepend="▁"),
    step("Prepend", prepend=""),
    replace("", String="aa"),
    replace(" ", Regex=" {2,}"),
    replace("-", Regex=r"a[bc]+(?!c)|\p{Lu}\p{Ll}*"),
    sequence(step("Prepend", prepend="▁"), replace("▁", String=" ")),
    sequence(step("NFKD"), step("StripAccents"), sequence(step("Lowercase"))),
    sequence(step("Lowercase"), precompiled(FEW_RULES)),
    sequence(
        step("Nmt"),
        step("NFKC"),
        replace(" ", Regex=" {2,}"),
        step("Strip", strip_left=True, strip_right=True),
    ),
]


def theirs(part: dict[str, Any]) -> Any:
    """What tokenizers makes of it."""
    model = {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}
    document = {"version": "1.0", "added_tokens": [], "normalizer": part, "model": model}
    return tokenizers.Tokenizer.from_str(json.dumps(document)).normalizer


def ours(part: Any) -> Normalizer:
    normalizer = Normalizer.of_description(part)
    assert normalizer is not None
    return normalizer


def name_of(part: Any) -> str:
    return ours(part).name[:40]


def random_texts(seed: int, count: int) -> list[str]:
    """Of the characters that normalizers change or join, and some that they do not."""
    random_ = random.Random(seed)
    points = unicode_tables.points_of
    pools = [
        list("abAÉéΣςσİǅ ﬁﷺ①½Å가각한漢字\u2f00ÅΩ©⌚‼1\t\r\n\r\n ▁\u0130"),
        list("\ufffd\ufeff\u200b\x00\x1f\x85\u3000"),
        list("\u1100\u1161\u11a8\u0600\u0605\u0915\u094d\u0937\u0301\u0327\u0345\u200d\ufe0f🇺🇳👩🏽"),
        [chr(point) for point in unicode_tables.joined()],
        [chr(point) for point in unicode_tables.prepended()],
        [chr(point) for point in unicode_tables.controls() if point < 0xE1000],
        [chr(point) for point in points("C0-24F 300-36F 1E00-1FFF 2E80-33FF F900-FAFF FB00-FB4F")],
        CHARACTERS,
    ]  # fmt: skip
    return [
        "".join(random_.choice(random_.choice(pools)) for _ in range(random_.randint(1, 9)))
        for _ in range(count)
    ]


@as_documented
@pytest.mark.night
@pytest.mark.parametrize("part", BY_CHARACTER, ids=name_of)
def test_no_code_point_differs_from_tokenizers(part: dict[str, Any]) -> None:
    """As docs/formats.md says of every version of Python."""
    normalize, normalizer = theirs(part).normalize_str, ours(part)
    expected = normalize("a|".join(CHARACTERS)).split("|")
    assert normalizer.text("a|".join(CHARACTERS)).split("|") == expected
    # Before a mark, and after one that lower and higher classes move before.
    for pair in ("a{}\u0334", "a\u0345{}") if part in UNICODE else ():
        text = "|".join(map(pair.format, CHARACTERS))
        assert normalizer.text(text) == normalize(text)


@as_documented
@pytest.mark.night
@pytest.mark.parametrize("part", [*BY_CHARACTER, *OTHERS], ids=name_of)
def test_normalizers_equal_tokenizers_on_random_texts(
    part: dict[str, Any], seed: int, amounts: Amounts
) -> None:
    normalize, normalizer = theirs(part).normalize_str, ours(part)

    def drawn(seed: int, count: int) -> list[str]:
        texts = random_texts(seed, count)
        if "\\p" in str(part):  # the library may not know the properties of newer characters
            texts = ["".join(c for c in one if unicodedata.category(c) != "Cn") for one in texts]
        return texts

    for text in ["", " ", *drawn(1, 1000), *drawn(seed, amounts.laws * 20)]:
        assert normalizer.text(text) == normalize(text), ascii(text)
    long = " ".join(drawn(seed + 1, 2000))
    assert normalizer.text(long) == normalize(long)


@as_documented
@pytest.mark.night
@pytest.mark.parametrize("form", ["NFC", "NFKC"])
def test_whatever_decomposes_is_composed_alike(form: str) -> None:
    decompose = theirs(step("NFD")).normalize_str
    text = " ".join(
        f"{decompose(one)} {unicodedata.normalize('NFD', one)} {unicodedata.normalize('NFKD', one)}"
        for one in CHARACTERS
    )
    assert ours(step(form)).text(text) == theirs(step(form)).normalize_str(text)


@pytest.mark.parametrize(
    ("part", "text", "expected"),
    [
        (step("NFC"), "e\u0301\U00011935\U00011930", "é\U00011935\U00011930"),
        (step("NFD"), "é\U00011938", "e\u0301\U00011938"),  # of Unicode 13
        (step("NFKC"), "ﬁ①㋿\U0001fbf0", "fi1㋿\U0001fbf0"),
        (step("NFKD"), "ﬁé", "fie\u0301"),
        (step("Nmt"), "a\tb\x01c\u200bd\xa0", "a bc d\xa0"),
        (step("Lowercase"), "ΑΣ İ \ua7dc\U00016ea0", "ασ i\u0307 \u019b\U00016ebb"),
        (step("StripAccents"), "e\u0301é\u0488\u0903", "eé"),
        (OTHERS[0], "\x1c \u3000a \n", "\x1c \u3000a"),
        (OTHERS[1], " a \x85", " a"),
        (OTHERS[3], "a", "▁a"),
        (OTHERS[3], "", ""),
        (bert(True, True, None, True), "\tÉ漢\x00\x85\u200d", " e 漢 "),
        (bert(False, True, False, True), "É漢", "é 漢 "),
        (bert(False, False, True, False), "É", "E"),
        (precompiled(FEW_RULES), "a\u0301b bc ①\u0301", "b bc 1"),
        (precompiled(FEW_RULES), "\r\n漢\u0301a", "N漢´"),
        (OTHERS[-1], "\ufeff ﬁ  x ", "fi x"),
    ],
)
def test_normalizers_do_what_their_tables_say(
    part: dict[str, Any], text: str, expected: str
) -> None:
    assert ours(part).text(text) == expected


@pytest.mark.parametrize("part", [*BY_CHARACTER, *OTHERS], ids=name_of)
def test_a_normalizer_is_what_it_describes(part: dict[str, Any]) -> None:
    normalizer = ours(part)
    assert ours(json.loads(json.dumps(normalizer.described()))) == normalizer
    assert ours(sequence(sequence(part))) == normalizer
    assert ours(sequence(part)).described() == normalizer.described()


def test_null_and_an_empty_sequence_are_no_normalizer() -> None:
    assert Normalizer.of_description(None) is None
    assert Normalizer.of_description(sequence(sequence(), sequence())) is None


def test_names_are_for_people() -> None:
    assert ours(step("NFC")).name == "NFC"
    assert ours(bert(False, False, None, True)).name == "BertNormalizer(strip accents, lowercase)"
    assert ours(OTHERS[8]).name == "Prepend('▁'), Replace(' ', '▁')"


@pytest.mark.parametrize("part", [*BY_CHARACTER, *OTHERS], ids=name_of)
def test_text_that_does_not_change_is_the_same_object(part: dict[str, Any]) -> None:
    normalizer = ours(part)
    for text in ("", *random_texts(3, 200)):
        changed = normalizer.text(text)
        assert (changed is text) == (changed == text)
        raw = text.encode()
        content = normalizer.content(raw)
        assert (content is raw) == (changed is text)
        assert content.decode() == changed


@pytest.mark.night
@pytest.mark.parametrize("part", [*BY_CHARACTER, *OTHERS], ids=name_of)
def test_long_texts_are_normalized_in_blocks_as_if_whole(part: dict[str, Any]) -> None:
    normalizer = ours(part)
    for between in (" ", "\n", "\u0301", "漢"):
        text = between.join(random_texts(4, 2000)) * 90
        content = text.encode()
        assert len(content) > 2 << 20
        assert normalizer.content(content) == normalizer.text(text).encode()
    plain = b"0\n" * (1 << 21)
    if normalizer.text("0\n" * 9) == "0\n" * 9:
        assert normalizer.content(plain) is plain


@pytest.mark.parametrize("part", [*BY_CHARACTER, *OTHERS], ids=name_of)
def test_many_texts_are_normalized_as_each_by_itself(part: dict[str, Any]) -> None:
    normalizer = ours(part)
    tempting = ["", "\u0301", "\u0301\u0301", "e", "\u1100", "\u1161", "\r", "\n", "a\0b", "\u0600"]
    texts = [one.encode() for one in (*random_texts(6, 300), *tempting)]
    for some in (texts, [one for one in texts if b"\0" not in one]):
        assert normalizer.contents(some) == [*map(normalizer.content, some)]


def test_half_characters_are_read_as_elsewhere() -> None:
    for part in (*BY_CHARACTER, *OTHERS):
        assert ours(part).content("\ufffd".encode()) is not None
        ours(part).text("a\ud800b").encode("utf-8", "surrogatepass")


@pytest.mark.parametrize(
    ("part", "names"),
    [
        (step("Foo"), "'Foo'"),
        (step("ByteLevel"), "'ByteLevel'"),
        ({}, "type"),
        ([], "type"),
        ("NFC", "type"),
        (sequence(None), "type"),  # type: ignore[arg-type]
        (step("Sequence"), "normalizers"),
        (step("NFC", form=1), "'form'"),
        (step("Strip"), "strip_left"),
        (step("Strip", strip_left=1, strip_right=True), "strip_left"),
        (step("Prepend"), "prepend"),
        (step("Prepend", prepend="x" * 5000), "5000"),
        (step("Prepend", prepend="\ud800"), "Prepend"),
        (replace("b", String=""), "String"),
        (replace("b", Regex="x*"), "'x*'"),
        (replace("b", Regex="("), "Regex"[1:]),
        (replace("b", Regex=r"(?=ab)a"), "'(?=ab)a'"),
        (replace("b", Regex=r"\w+"), r"'\\w+'"),
        (replace("b", Regex="a", String="b"), "pattern"),
        (step("Replace", pattern="a", content="b"), "pattern"),
        (bert(None, True, None, True), "clean_text"),
        (sequence(*[replace("a" * 1024, String="a")] * 2), "1048576"),
        (sequence(*[step("NFC")] * 65), "steps"),
        (precompiled(""), "trie"),
        (precompiled("!!"), "base64"),
        (precompiled("é"), "base64"),
        (precompiled(None), "precompiled_charsmap"),  # type: ignore[arg-type]
        (precompiled("A" * (1 << 23)), "8388608"),
    ],
)
def test_what_cannot_be_done_exactly_is_refused_by_name(part: Any, names: str) -> None:
    with pytest.raises(InvalidTokenizer) as refused:
        Normalizer.of_description(part)
    assert names in refused.value.happened
    assert refused.value.accepted
    assert refused.value.next_step


def test_sequences_nested_without_end_are_refused() -> None:
    part = step("NFC")
    for _ in range(sys.getrecursionlimit()):
        part = sequence(part)
    with pytest.raises(InvalidTokenizer, match="Sequence"):
        Normalizer.of_description(part)


def test_damaged_charsmaps_are_refused_or_run_to_an_end() -> None:
    whole = base64.b64decode(FEW_RULES)
    random_ = random.Random(5)
    used = [place for place in range(len(whole)) if whole[place]]  # of the units there are few
    refused = 0
    for _ in range(400):
        content = bytearray(whole)
        for _ in range(random_.randint(1, 4)):
            content[random_.choice(used)] = random_.randrange(256)
        if random_.random() < 0.2:
            del content[random_.randrange(len(content)) :]
        try:
            normalizer = ours(precompiled(base64.b64encode(content).decode()))
        except InvalidTokenizer:
            refused += 1
            continue
        normalizer.content("abcde①\u0301\r\né\u0600a漢\x7f\x00".encode()).decode()
    assert 40 < refused < 399


def test_a_regex_that_would_backtrack_is_linear() -> None:
    normalizer = ours(replace("-", Regex="(?:a|aa)+b|x"))
    assert normalizer.text("a" * 100_000 + "x") == "a" * 100_000 + "-"
