"""Forbidden tokens: training learns what the reference learns without them, and none is left."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from bpeline import Tokenizer, WordCounts, count_words, train_bpe
from bpeline.tokenizer_core import reference
from bpeline.tokenizer_core.errors import InvalidOption, InvalidTokenizer
from bpeline.tokenizer_core.merging import merge_engine
from bpeline.tokenizer_core.training import (
    CHARACTERS,
    FORBIDDEN_LOOKS,
    Characters,
    TokenRules,
    read_token_list,
    settings_digest,
    spelling_of,
)
from bpeline.tokenizer_core.training.bpe import learn_merges
from bpeline.tokenizer_core.training.token_rules import bytes_of, keeps_characters
from bpeline.tokenizer_core.vocabulary.numbering import TIE_BREAKS, byte_order, token_bytes

REGEXES = (r"\d{2}", r"a.*b", r"\A.a", r"(?<=a)b", r"\d.|.\d", "aa", r"^ab$", r"\ufffd.")


def random_words(source: random.Random) -> dict[bytes, int]:
    alphabet = source.choice(["ab", "abc ", "a1 2", "0123", "aé한", "ab\U0001f600"])
    words: dict[bytes, int] = {}
    for _ in range(source.randrange(1, 9)):
        piece = "".join(source.choice(alphabet) for _ in range(source.randrange(1, 5)))
        words[(piece * source.randrange(1, 4)).encode()] = source.randrange(1, 5)
    return words


def learned(words: dict[bytes, int], merges: int, rules: TokenRules, **options: Any) -> list[Any]:
    found = learn_merges(WordCounts.from_mapping(words), merges, rules=rules, **options)
    tokens = token_bytes(found.pairs(), byte_order(options["tie_break"]))
    return [(tokens[left], tokens[right]) for left, right in found.pairs()]


def forbidden_by(patterns: list[str], tokens: list[bytes]) -> Callable[[bytes], bool]:
    return lambda token: (
        token in tokens or any(reference.has_match(token, pattern) for pattern in patterns)
    )


@pytest.mark.parametrize("tie_break", TIE_BREAKS)
def test_the_merges_are_those_of_the_reference(
    tie_break: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge_engine, "_FIRST_PAIRS", 1)  # the verdicts grow with the pairs
    monkeypatch.setattr(merge_engine, "_FEW_OCCURRENCES", 4)  # and are asked for again
    refused = 0
    for seed in range(120):
        source = random.Random(seed)
        words = random_words(source)
        patterns = source.sample(REGEXES, source.randrange(3))
        listed = [word[:3] for word in words if len(word) > 1 and source.random() < 0.3]
        options: dict[str, Any] = {"tie_break": tie_break, "min_count": source.randrange(1, 4)}
        forbidden = forbidden_by(patterns, listed)
        expected = reference.train(words, 40, forbidden=forbidden, **options)
        assert learned(words, 40, TokenRules.checked(patterns, listed), **options) == expected, seed
        assert not any(forbidden(left + right) for left, right in expected)
        refused += expected != reference.train(words, 40, **options)
    assert refused > 30


def test_many_pairs_of_equal_count_are_judged_in_order() -> None:
    source = random.Random(5)
    words = {
        "".join(source.choice("abcdefghij0123456789") for _ in range(9)).encode(): 1
        for _ in range(150)
    }
    options: dict[str, Any] = {"tie_break": "smallest-ids", "min_count": 1}
    expected = reference.train(words, 300, forbidden=forbidden_by([r"\d{2}"], []), **options)
    assert learned(words, 300, TokenRules.checked([r"\d{2}"]), **options) == expected


def test_a_training_goes_on_from_its_checkpoint_and_from_no_other(tmp_path: Path) -> None:
    counts = WordCounts.from_mapping({b"2024": 9, b"20245": 4, b"1202": 3, b"abab": 2})
    rules, place = TokenRules.checked(["digits"]), tmp_path / "merges"
    options: dict[str, Any] = {"min_count": 1, "rules": rules}
    whole = learn_merges(counts, 20, **options).pairs()
    learn_merges(counts, 3, checkpoint=place, **options)
    assert learn_merges(counts, 20, resume_from=place, **options).pairs() == whole
    with pytest.raises(InvalidOption, match="settings"):
        learn_merges(counts, 20, resume_from=place, min_count=1)


def test_settings_without_rules_have_the_digest_that_old_checkpoints_bear() -> None:
    assert settings_digest() == settings_digest(rules=TokenRules.checked()) == OLD_DIGEST
    digests = {
        settings_digest(rules=TokenRules.checked(*asked))
        for asked in ([], [["digits"]], [[r"\p{Nd}{4}"]], [[], ["ab"]], [["digits"], ["ab"]])
    }
    digests |= {settings_digest(rules=TokenRules.checked(characters=rule)) for rule in CHARACTERS}
    assert len(digests) == 7
    one, other = TokenRules.checked(["email", "digits"]), TokenRules.checked(["digits", "email"])
    assert settings_digest(rules=one) == settings_digest(rules=other)


OLD_DIGEST = "ed2685680a6778d486d61f08bde9394ca247e1526f7a06447e732de94ad27f9d"

FOUND = {
    "digits": [b"2024", b"a0000b", " ١٢٣٤".encode()],
    "email": [b" anna.meier@example.org"],
    "key": [b"AKIAIOSFODNN7EXAMPLE"],
    "phone": [b"+49 30 901820"],
    "card": [b"4539 1488 0343 6467"],
    "chat-marker": [b"<|im_start|>", b"[INST]", b"</s>", b"<|im", b"end|>", "<｜User｜>".encode()],
}
ALLOWED = [b" the", b"2.5", b"123", b"12a34", b" a@b", b"sk-learn", b"<|", b"|>", b"<s", b"[inst]"]


PARTS = "é한\U0001f600߿ࠀ퟿\ue000\uffff\U00010000\U0010ffffa".encode()


def test_parts_of_characters_are_told_as_the_reference_tells_them() -> None:
    source = random.Random(8)
    odd = [0x41, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xED, 0xEF]
    odd += [0xF0, 0xF1, 0xF4, 0xF5, 0xFF]
    tokens = {bytes(pair) for pair in product(odd, odd)}
    tokens |= {PARTS[at : at + size] for at in range(len(PARTS)) for size in range(1, 9)}
    tokens |= {bytes(source.choices(odd, k=source.randrange(3, 6))) for _ in range(1500)}
    for token in tokens:
        for rule in ("whole", "left-to-right"):
            expected = not reference.breaks_characters(token, rule)
            assert keeps_characters(token, rule == "left-to-right") == expected, (token, rule)


@pytest.mark.parametrize("rule", ["whole", "left-to-right"])
def test_characters_stay_whole_as_in_the_reference(rule: Characters) -> None:
    changed = 0
    for seed in range(60):
        source = random.Random(seed)
        alphabet = source.choice(
            ["한글 日本", "aé\U0001f600\U0001f601", "ябв", "é èa", "日\udc80本\udcff"]
        )
        words = {
            "".join(source.choices(alphabet, k=source.randrange(1, 7))).encode(
                errors="surrogateescape"
            ): source.randrange(1, 6)
            for _ in range(8)
        }
        options: dict[str, Any] = {"tie_break": source.choice(TIE_BREAKS), "min_count": 1}
        expected = reference.train(
            words, 60, forbidden=lambda token: reference.breaks_characters(token, rule), **options
        )
        rules = TokenRules.checked(characters=rule)
        assert learned(words, 60, rules, **options) == expected, seed
        changed += expected != reference.train(words, 60, **options)
    assert changed > 10


def test_a_character_of_three_bytes_is_built_from_its_left() -> None:
    words = {"한".encode(): 5, "글".encode(): 4, "한글".encode(): 2}
    first, second, third = (bytes([byte]) for byte in "한".encode())
    options: dict[str, Any] = {"tie_break": "smallest-ids", "min_count": 1}
    merges = learned(words, 9, TokenRules.checked(characters="left-to-right"), **options)
    assert merges[:2] == [(first, second), (first + second, third)]
    assert merges[-1] == ("한".encode(), "글".encode())
    assert train_bpe(WordCounts.from_mapping(words), 270, characters="whole").vocab_size > 256


@pytest.mark.parametrize("name", FORBIDDEN_LOOKS)
def test_what_has_a_name_is_found_wherever_it_stands(name: str) -> None:
    allows = TokenRules.checked([name]).judge()
    assert allows is not None
    for token in FOUND[name]:
        assert not allows(token)
        assert not allows(b" " + token)
    assert all(map(allows, ALLOWED))


def test_a_tokenizer_holds_no_number_of_four_digits(tmp_path: Path) -> None:
    file = tmp_path / "years.txt"
    file.write_text("in 1999 and 2024, of 20241 and 2024 <|end|> 99 2024 " * 30)
    counts = count_words([file])
    plain = train_bpe(counts, 300)
    assert b" 2024" in plain.vocab.values()
    made = train_bpe(counts, 300, forbid=["digits"], special_tokens=["<|1234|>"])
    ordinary = [token for id_, token in made.vocab.items() if not made.is_special(id_)]
    assert not any(reference.has_match(token, r"\d{4}") for token in ordinary)
    assert b" 202" in ordinary
    text = file.read_text()
    assert made.decode(made.encode(text)) == text
    listed = train_bpe(counts, 300, forbidden_tokens=[" 2024", b"and"])
    assert not {b" 2024", b"and"} & set(listed.vocab.values())


@pytest.mark.parametrize(
    ("forbid", "tokens", "said"),
    [
        ([r"\d"], [], "b'0'"),
        (["x*"], [], "--forbid x"),
        (["[^a-z]{1}"], [], "--forbid [^a-z]{1}"),
        (["(a"], [], "position 2"),
        ([""], [], "--forbid ''"),
        (["(?:a{1000}){1000}"], [], "{1000}){1000}"),
        (["[a&&b]c"], [], "[a&&b]"),
        ([], ["a"], "b'a'"),
        ([], [""], "''"),
        ([], ["hex:4"], "hex:4"),
        ([], ["\ud800"], r"\ud800"),
    ],
)
def test_what_cannot_be_forbidden_is_refused(
    forbid: list[str], tokens: list[str], said: str
) -> None:
    with pytest.raises(InvalidOption) as refused:
        TokenRules.checked(forbid, tokens)
    assert said in str(refused.value)


def test_a_regex_that_backtracks_without_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from bpeline.tokenizer_core.training import token_rules

    monkeypatch.setattr(token_rules, "_SEARCH_SECONDS", 0.05)
    allows = TokenRules.checked([r"b(?:a|aa)+$"]).judge()
    assert allows is not None
    with pytest.raises(InvalidOption, match="--forbid"):
        allows(b"b" + b"a" * 300 + b"b")


def test_a_required_token_cannot_be_forbidden() -> None:
    counts = WordCounts.from_mapping({b"2024": 9})
    with pytest.raises(InvalidOption, match="b'2024'"):
        train_bpe(counts, 300, required_tokens=["2024"], forbid=["digits"])


def test_a_vocabulary_that_breaks_a_rule_is_found() -> None:
    rules = TokenRules.checked(["digits"], ["ab"])
    rules.prove([b"123", b"abc"])
    for token in (b"x1234", b"ab"):
        with pytest.raises(InvalidTokenizer):
            rules.prove([b"x", token])


def test_lists_are_read_as_they_are_spelt(tmp_path: Path) -> None:
    file = tmp_path / "tokens.txt"
    file.write_bytes("\ufeff token\r\n\n two words \nhex:20ff\nhéé".encode())
    listed = read_token_list(file)
    assert [bytes_of(one) for one in listed] == [
        b" token",
        b" two words ",
        b" \xff",
        "héé".encode(),
    ]
    for token in (b" a", b"hex:20", b"\xe4\xbd", b"a\nb", b"\r", "\u2028x".encode(), b"\x85"):
        file.write_text(spelling_of(token), encoding="utf-8", newline="")
        assert [bytes_of(one) for one in read_token_list(file)] == [token]
    for wrong in (b"", b"\n\n", b"\xff", b"hex:0"):
        file.write_bytes(wrong)
        with pytest.raises(InvalidOption):
            read_token_list(file)
    with pytest.raises(InvalidOption):
        read_token_list(tmp_path / "none")


def test_a_trained_tokenizer_is_a_plain_one(tmp_path: Path) -> None:
    made = train_bpe(WordCounts.from_mapping({b"2024": 9}), 300, forbid=["digits"])
    made.save(tmp_path / "made")
    assert Tokenizer.load(tmp_path / "made").digest == made.digest
