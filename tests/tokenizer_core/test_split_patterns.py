"""Names, values and digests of patterns; the named ones against the engines others run them on."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest
import regex
import tiktoken
from tiktoken_ext import openai_public
from tokenizers import Regex, pre_tokenizers

from bpeline.tokenizer_core import reference
from bpeline.tokenizer_core.errors import InvalidOption, InvalidPattern, PatternExceedsLimit
from bpeline.tokenizer_core.splitting import split_patterns
from bpeline.tokenizer_core.splitting.pretokenization import pre_tokens
from bpeline.tokenizer_core.splitting.regex_spellings import (
    DROPPING_PATTERNS,
    MAX_REGEX_BYTES,
    NAMED_PATTERNS,
    OTHER_SPELLINGS,
)
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern

# As tiktoken publishes them, and older spellings in wide use.
PUBLISHED = [
    ("gpt2", r"'s|'t|'re|'ve|'m|'ll|'d| ?[\p{L}]+| ?[\p{N}]+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"),
    ("gpt2", r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"),
    ("gpt2", r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"),
    ("gpt2", r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"),
    ("cl100k", r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++"
               r"[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"),
]  # fmt: skip
# Characters whose classes no Unicode version of the last ten years has changed.
TEMPTING = [*"   \n\n\r\t'''sSdlLvVeErRtmaxé漢한яſ123456٣Ⅷ½!?-…—\u3000\u00a0\u0301\u200d😀",
            "'s", "'LL", "'ſ", "\x1c", "\x85", "\u2003"]  # fmt: skip


def tempting_texts(count: int) -> list[str]:
    generator = random.Random(17)
    return ["".join(generator.choices(TEMPTING, k=generator.randint(1, 14))) for _ in range(count)]


def test_a_pattern_is_parsed_from_a_name_a_regex_or_itself() -> None:
    gpt2 = SplitPattern.named("gpt2")
    assert SplitPattern.parse("gpt2") == gpt2
    assert SplitPattern.parse(gpt2) is gpt2
    own = SplitPattern.parse(r"\w+")
    assert (own.regex, own.name, own.drops_gaps) == (r"\w+", None, False)
    assert own.compiled.findall("a bc") == ["a", "bc"]


def test_what_runs_a_pattern_is_told() -> None:
    expected = {
        "gpt2": "kernel",
        "llama3": "kernel",
        "qwen3.5": "kernel",
        "o200k": "kernel",
        "tekken": "kernel",
        "deepseek-v3": "automaton",
        "wordpunct": "automaton",
        r"\w+|.": "automaton",
        r"(?<=a)b": "regex: look-behind at position 0",
        r"ab\b": "regex: a word boundary at position 2",
    }
    patterns = {text: SplitPattern.parse(text) for text in expected}
    assert {text: pattern.compiled_by for text, pattern in patterns.items()} == expected
    assert [text for text, pattern in patterns.items() if not pattern.has_kernel] == [
        r"(?<=a)b",
        r"ab\b",
    ]
    assert patterns[r"ab\b"].automaton is None


@pytest.mark.parametrize(
    ("name", "shared"),
    [("qwen2.5", "qwen2"), ("qwen3", "qwen2"), ("llama4", "o200k"), ("glm4", "llama3")],
)
def test_tokenizers_that_share_a_pattern_share_its_name(name: str, shared: str) -> None:
    assert SplitPattern.parse(name) == SplitPattern.named(shared)
    assert SplitPattern(regex=SplitPattern.named(shared).regex, name=name).name == shared


def test_kimi_as_published_is_not_read_by_an_engine_that_knows_no_intersections() -> None:
    published = SplitPattern.named("kimi").regex
    for case in ("LuLtLmLoM", "LlLmLoM"):
        properties = "".join(rf"\p{{{p}}}" for p in regex.findall("L[ultmo]|M", case))
        published = published.replace(
            rf"(?:(?!\p{{Han}})[{properties}])", rf"[{properties}&&[^\p{{Han}}]]"
        )
    assert published.count("&&") == 4
    assert SplitPattern(regex=published) == SplitPattern.named("kimi")


def test_starcoder_is_what_its_two_steps_are_in_tokenizers() -> None:
    steps = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True),
         pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]
    )  # fmt: skip
    for text in tempting_texts(5000):
        spans = [span for _, span in steps.pre_tokenize_str(text)]
        assert [text[begin:end] for begin, end in spans] == pre_tokens(text, "starcoder")


def test_a_pattern_that_drops_text_is_not_the_same_regex_that_keeps_it() -> None:
    dropping, keeping = SplitPattern.named("whitespace"), SplitPattern(r"\S+")
    assert dropping.regex == keeping.regex
    assert (dropping.drops_gaps, keeping.drops_gaps) == (True, False)
    assert (dropping.name, keeping.name) == ("whitespace", None)
    assert dropping != keeping
    assert dropping.digest != keeping.digest
    assert SplitPattern(dropping.regex, dropping.name) == dropping
    assert [name for name in NAMED_PATTERNS if SplitPattern.named(name).drops_gaps] == []


EVERY_KIND = [
    *map(SplitPattern.named, [*NAMED_PATTERNS, *DROPPING_PATTERNS]),
    *map(SplitPattern, [r"\S+", r"\w+|[^\w\s]+", r"\b\w+", "and", PUBLISHED[0][1]]),
]


@pytest.mark.parametrize("pattern", EVERY_KIND, ids=repr)
def test_a_record_gives_an_equal_pattern_back(pattern: SplitPattern) -> None:
    again = SplitPattern.from_record(json.loads(json.dumps(pattern.as_record())))
    assert again == pattern
    assert (again.digest, again.drops_gaps) == (pattern.digest, pattern.drops_gaps)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"digest": "0" * 64}, "Unicode"),
        ({"digest": None}, "Unicode"),
        ({"regex": None}, "record"),
        ({"regex": r"\w+"}, "'whitespace'"),
        ({"regex": "(", "name": None}, "compile"),
        ({"name": 5}, "name"),
        ({"name": None}, "None"),
        ({"between": "kept"}, "'whitespace'"),
    ],
)
def test_a_changed_record_is_refused(change: dict[str, object], message: str) -> None:
    record = SplitPattern.named("whitespace").as_record()
    with pytest.raises(InvalidPattern) as refused:
        SplitPattern.from_record({**record, **change})
    assert message in refused.value.happened
    with pytest.raises(InvalidPattern):
        SplitPattern.from_record(r"\S+")


def test_o200k_is_what_the_installed_tiktoken_has() -> None:
    code = Path(openai_public.__file__).read_text()
    parts = regex.findall(r'r"""(.*?)"""', code[code.index("def o200k_base") :])[:7]
    assert "|".join(parts) == SplitPattern.named("o200k").regex


DEEPSEEK_V3 = pre_tokenizers.Sequence(
    [
        pre_tokenizers.Split(Regex(step), "isolated")
        for step in (
            r"\p{N}{1,3}",
            "[一-龥\u3040-\u309f\u30a0-\u30ff]+",
            r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"""
            r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
            r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        )
    ]
)


@pytest.mark.night
def test_deepseek_is_what_its_three_splits_are_in_tokenizers() -> None:
    tempting = [*"  \n\n\r\t'!#-_/[]{}~`aZsé漢龥龦一丁かガ・゛゜゠ー",
                *"\u3040\u3097\u3098\u3099\u309a1٣Ⅷ½12",
                *"\u0301\u200d\x1c\x00\x85\u3000\u2003…「。\ue000\U000e0001+<$€^",
                "abc", "漢字", "123"]  # fmt: skip
    generator = random.Random(5)
    cut = 0
    for _ in range(20_000):
        pool = generator.sample(tempting, generator.randint(2, 8))
        text = "".join(generator.choices(pool, k=generator.randint(1, 14)))
        pieces = [piece for piece, _ in DEEPSEEK_V3.pre_tokenize_str(text)]
        assert pre_tokens(text, "deepseek-v3") == pieces
        cut += len(pieces)
    assert cut > 80_000


@pytest.mark.parametrize("name", ["gtp2", "GPT2", "o300k", "", "cl100k_base", "qwen3.6"])
def test_an_unknown_name_is_not_taken_for_a_regex(name: str) -> None:
    with pytest.raises((InvalidOption, InvalidPattern)) as caught:
        SplitPattern.parse(name)
    assert "gpt2, cl100k" in caught.value.accepted
    assert caught.value.next_step


def test_a_mistyped_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(InvalidOption) as caught:
        SplitPattern.parse("cl100")
    assert "'cl100k'" in caught.value.next_step


def test_a_literal_word_can_still_be_a_regex_on_purpose() -> None:
    assert SplitPattern(regex="and").name is None


@pytest.mark.parametrize("name", ["gpt2", "qwen2.5", "whitespace"])
def test_a_name_is_no_regex(name: str) -> None:
    with pytest.raises(InvalidPattern) as caught:
        SplitPattern(name)
    assert f"SplitPattern.named({name!r})" in caught.value.next_step


@pytest.mark.parametrize(("name", "spelling"), PUBLISHED)
def test_known_spellings_are_the_named_pattern(name: str, spelling: str) -> None:
    pattern = SplitPattern(regex=spelling)
    assert pattern == SplitPattern.named(name)
    assert pattern.digest == SplitPattern.named(name).digest
    assert hash(pattern) == hash(SplitPattern.named(name))


def test_a_single_dot_is_a_regex_and_no_name() -> None:
    assert SplitPattern.parse(".").name is None


@pytest.mark.parametrize(("name", "spelling"), PUBLISHED)
def test_known_spellings_really_are_equal(name: str, spelling: str) -> None:
    for text in tempting_texts(4000):
        assert reference.split(text, SplitPattern.named(name).regex) == reference.split(
            text, spelling
        )


def test_a_name_cannot_be_put_on_another_regex() -> None:
    with pytest.raises(InvalidPattern, match="'gpt2'"):
        SplitPattern(regex=r"\w+", name="gpt2")
    with pytest.raises(InvalidPattern, match="'mine'"):
        SplitPattern(regex=r"\w+", name="mine")


@pytest.mark.parametrize(
    ("pattern", "complaint"),
    [
        (r"[a", "position 2"),
        (r"(?P<n>a)(?P=m)", "position 11"),
        (r"a**", "position 2"),
        (r"(?r)\w+", "(?r)"),
        ("a" * 4097, "4097"),
        ("é" * 2049, "2049"),
        ("\ud800", "UTF-8"),
        ("", "''"),
    ],
)
def test_an_unusable_regex_is_refused_in_three_parts(pattern: str, complaint: str) -> None:
    with pytest.raises((InvalidPattern, InvalidOption)) as caught:
        SplitPattern(regex=pattern)
    assert complaint in caught.value.happened
    assert caught.value.accepted
    assert caught.value.next_step
    assert len(str(caught.value)) < 1000


def test_the_longest_regex_allowed_is_allowed() -> None:
    assert len(SplitPattern(regex="a" * MAX_REGEX_BYTES).regex) == MAX_REGEX_BYTES


def test_digests_tell_patterns_and_unicode_versions_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    patterns = [
        *map(SplitPattern.named, [*NAMED_PATTERNS, "whitespace"]),
        *map(SplitPattern, [r"\w+", r"\S+", r"\b\w+"]),
    ]
    digests = [pattern.digest for pattern in patterns]
    assert len(set(digests)) == len(NAMED_PATTERNS) + 4
    monkeypatch.setattr(split_patterns, "unicode_classes_digest", lambda: "another")
    assert not set(digests) & {pattern.digest for pattern in patterns}


@pytest.mark.parametrize("name", sorted(NAMED_PATTERNS))
def test_tokenizers_cuts_the_exported_regex_alike(name: str) -> None:
    pattern = SplitPattern.named(name)
    split = pre_tokenizers.Split(Regex(pattern.regex_for_export), "isolated")
    for text in tempting_texts(5000):
        pieces = [piece for piece, _ in split.pre_tokenize_str(text)]
        assert pieces == reference.split(text, pattern.regex)


@pytest.mark.night
@pytest.mark.parametrize("name", sorted(NAMED_PATTERNS))
def test_tiktoken_cuts_the_exported_regex_alike(name: str) -> None:
    pattern = SplitPattern.named(name)
    # With a rank for every substring each pre-token is one token, so tokens show the cuts.
    for text in tempting_texts(120):
        content = text.encode()
        ranks = {bytes([byte]): byte for byte in range(256)}
        for length in range(2, len(content) + 1):
            for begin in range(len(content) - length + 1):
                ranks.setdefault(content[begin : begin + length], len(ranks))
        encoding = tiktoken.Encoding(
            name, pat_str=pattern.regex_for_export, mergeable_ranks=ranks, special_tokens={}
        )
        pieces = encoding.decode_tokens_bytes(encoding.encode_ordinary(text))
        assert [piece.decode() for piece in pieces] == reference.split(text, pattern.regex)


def test_gpt2_is_what_tokenizers_calls_byte_level() -> None:
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    gpt2 = SplitPattern.named("gpt2").regex
    for text in tempting_texts(3000):
        spans = [span for _, span in byte_level.pre_tokenize_str(text)]
        assert [text[begin:end] for begin, end in spans] == reference.split(text, gpt2)


def test_the_export_of_a_users_regex_avoids_what_oniguruma_misreads() -> None:
    assert SplitPattern(regex=r"\d{1,3}+|\D").regex_for_export == r"(?>\d{1,3})|\D"
    assert regex.compile(SplitPattern(regex=r"\d{1,3}+$").regex_for_export)


@pytest.mark.parametrize(
    ("pattern", "shown"),
    [
        ("[a-z&&[^aeiou]]+|.", "[a-z&&[^aeiou]"),
        (r"\s|[\p{L}&&\p{Han}]", r"[\p{L}&&\p{Han}]"),
        (r"[\p{Lu}\p{Lo}&&[^\p{Han}]]*x", r"[\p{Lu}\p{Lo}&&[^\p{Han}]"),
        ("[^a-z--aeiou]", "[^a-z--aeiou]"),
        (r"[\w--\d]+", r"[\w--\d]"),
        ("[[a-z]--[aeiou]]", "[[a-z]--"),
        ("[[a-z]&&[^aeiou]]", "[[a-z]&&"),
        ("[^[a-z]||[0-9]]", "[^[a-z]||"),
        ("[a||b]", "[a||b]"),
        ("[a-z~~b]", "[a-z~~b]"),
        (r"[\&&&a]", r"[\&&&a]"),
    ],
)
def test_a_set_that_reads_as_an_operation_is_refused(pattern: str, shown: str) -> None:
    with pytest.raises(InvalidPattern) as caught:
        SplitPattern(pattern)
    assert caught.value.happened.endswith(repr(shown))
    assert "(?:(?![aeiou])[a-z])" in caught.value.next_step


@pytest.mark.parametrize(
    "pattern",
    [
        *(r"[&|~-]+", r"[a\&\&b]", r"[!--]", "[--a]", "[&&]", "[^&&]", "a&&b", "a||b", r"\[a&&b\]"),
        *("[[:alpha:]]|x", "[[]|a", r"(?V0)[a&&b]", "(?V1)[a-z&&[^aeiou]]|[a-z]", "[a-z&]&&"),
    ],
)
def test_what_only_resembles_an_operation_is_a_regex(pattern: str) -> None:
    assert SplitPattern(pattern).regex == pattern


def test_what_an_operation_is_advised_to_be_is_the_same() -> None:
    text = "strength of Greek ελληνικά, and 漢字"
    for theirs, ours in (
        ("[a-z&&[^aeiou]]", "(?:(?![aeiou])[a-z])"),
        ("[a-z--[aeiou]]", "(?:(?![aeiou])[a-z])"),
        (r"[\w&&\p{Greek}]", r"(?:(?=\p{Greek})\w)"),
        ("[a||b]", "[ab]"),
    ):
        found = regex.findall(f"(?V1){theirs}+", text)
        assert found
        assert found == regex.findall(f"{SplitPattern(ours).regex}+", text)


def test_kimi_as_published_is_known_and_its_parts_are_refused() -> None:
    published = next(text for text, name in OTHER_SPELLINGS.items() if name == "kimi")
    assert r"&&[^\p{Han}]" in published
    assert SplitPattern(published) == SplitPattern.named("kimi")
    with pytest.raises(InvalidPattern, match="operator"):
        SplitPattern(published + r"|\p{Zs}")


@pytest.mark.parametrize(
    "pattern",
    [
        "a{1000000000}", "(?:a{1000}){1000}", "(?:" * 40 + "a+b?" + ")+" * 40,
        "((((a{0}){1000}){1000}){1000}){1000}b", "(?:" * 30 + "a" + "){1,}" * 30,
        "[]a]" * 9 + "(?:" * 30 + "a" + "){2}?" * 30, "(?x)" + "(?: " * 30 + "a" + ") + " * 30,
        "(?x)(?: # )\n" + "a) {3000000 0}", "(?x) a {1 000 000}", r"[\]]" + "a{99999999999999999}",
    ],
)  # fmt: skip
def test_a_regex_that_explodes_when_it_is_compiled_is_refused(pattern: str) -> None:
    before = time.process_time()
    with pytest.raises(PatternExceedsLimit):
        SplitPattern(pattern)
    assert time.process_time() - before < 0.5


def test_large_counts_that_are_bounded_compile() -> None:
    for pattern in ("a{1,60000}", "(?:a{100}b){500}", "a+" * 2000, "(?:" * 9 + "a+" + ")+" * 9,
                    "(?:" * 50 + "a" + "){1}" * 50, "(?:" * 50 + "a" + ")?" * 50):  # fmt: skip
        assert SplitPattern(pattern).compiled is not None
