"""Added tokens as values, and the cuts at them; what `tokenizers` does is in test_preparation."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from tokenizers import AddedToken as TheirToken
from tokenizers import Tokenizer, models

from bpeline.tokenizer_core.encoding import BytePairEncoder, Encoder, PreparedEncoder
from bpeline.tokenizer_core.errors import InvalidTokenizer
from bpeline.tokenizer_core.pipeline import AddedToken, AddedTokenMatcher, Pipeline
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.tokenizer import Tokenizer as OurTokenizer
from bpeline.tokenizer_core.tokenizer_spec import TokenizerSpec

MASK = {
    "id": 7, "content": "<mask>", "single_word": False, "lstrip": True, "rstrip": False,
    "normalized": False, "special": True,
}  # fmt: skip


def test_a_description_is_read_as_it_was_written() -> None:
    mask = AddedToken(7, "<mask>", special=True, lstrip=True)
    assert AddedToken.of_description(MASK) == mask
    assert mask.described() == MASK


def test_tokenizers_reads_a_description() -> None:
    tokenizer = Tokenizer(models.WordLevel({"[U]": 0}, unk_token="[U]"))
    tokenizer.add_tokens([TheirToken("a", lstrip=True), TheirToken("b", special=True)])
    ours = [
        AddedToken(1, "a", lstrip=True, normalized=True),
        AddedToken(2, "b", special=True),
    ]
    assert tokenizer.get_added_tokens_decoder() == {
        one.id: TheirToken(**{k: v for k, v in one.described().items() if k != "id"})
        for one in ours
    }


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"id": -1}, "-1"),
        ({"id": True}, "True"),
        ({"content": ""}, "''"),
        ({"content": None}, "'None'"),
        ({"content": "a\ud800"}, "surrogate"),
        ({"special": 1}, "'special'"),
        ({"rstrip": None}, "'rstrip'"),
        ({"fuzzy": True}, "'fuzzy'"),
    ],
)
def test_other_descriptions_are_refused(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidTokenizer) as caught:
        AddedToken.of_description({**MASK, **change})
    assert complaint in caught.value.happened
    assert caught.value.accepted
    assert caught.value.next_step


def test_what_is_no_object_is_refused() -> None:
    with pytest.raises(InvalidTokenizer, match="'<mask>'"):
        AddedToken.of_description("<mask>")


def cut(
    content: str,
    *tokens: AddedToken,
    begin: int = 0,
    ignored_special_ids: frozenset[int] = frozenset(),
) -> list[Any]:
    text = Text.of(content.encode())
    matcher = AddedTokenMatcher(tokens, [token.content.encode() for token in tokens])
    whole = np.array([[begin, text.size]]), np.array([-1])
    spans, behind = matcher.cut(text, *whole, ignored_special_ids)
    pieces = [text.bytes(*span).decode() for span in spans.tolist()]
    return [part for pair in zip(pieces, behind.tolist(), strict=True) for part in pair][:-1]


def test_pieces_and_ids_take_turns() -> None:
    mask = AddedToken(7, "<m>", special=True, lstrip=True, rstrip=True)
    word = AddedToken(8, "é", single_word=True)
    assert cut("a <m> <m> b", mask) == ["a", 7, "", 7, "b"]
    assert cut("é éé é", word) == ["", 8, " éé ", 8, ""]
    assert cut("a <m>é", mask, word) == ["a", 7, "", 8, ""]
    assert cut("", mask) == [""]


def test_nothing_before_the_beginning_is_seen() -> None:
    assert cut("a <m>", AddedToken(7, "<m>", lstrip=True), begin=2) == ["", 7, ""]
    assert cut("ab", AddedToken(7, "b", single_word=True), begin=1) == ["", 7, ""]


def test_many_spans_are_cut_at_once() -> None:
    """Each by itself, empty ones and such that hold nothing among them."""
    text = Text.of(b"a <m> <m>c<m>")
    mask = AddedToken(7, "<m>", lstrip=True, rstrip=True)
    matcher = AddedTokenMatcher([mask], [b"<m>"])
    spans, behind = matcher.cut(
        text,
        np.array([[0, 1], [1, 6], [6, 6], [6, 12], [9, 10], [10, 13]]),
        np.array([-1, 3, 4, -1, 5, -1]),
    )
    pieces = [text.bytes(*span) for span in spans.tolist()]
    assert pieces == [b"a", b"", b"", b"", b"", b"c<m", b"c", b"", b""]
    assert behind.tolist() == [-1, 7, 3, 4, 7, -1, 5, 7, -1]


def test_what_is_not_sought_covers_its_characters() -> None:
    tokens = AddedToken(1, "<a>", special=True), AddedToken(2, "a>")
    assert cut("<a>a>", *tokens, ignored_special_ids=frozenset({1, 99})) == ["<a>", 2, ""]
    assert cut("<a>a>", *tokens, ignored_special_ids=frozenset({1, 2})) == ["<a>a>"]


def test_white_space_is_taken_once() -> None:
    """A match that is left with nothing is none."""
    tokens = AddedToken(1, "<m>", rstrip=True), AddedToken(2, " ", lstrip=True)
    assert cut("<m> x", *tokens) == ["", 1, "", -1, "x"]


def test_an_added_token_of_no_id_of_the_vocab_is_refused() -> None:
    vocab = {id_: bytes([id_]) for id_ in range(256)}
    pipeline = Pipeline(added_tokens=(AddedToken(999, "<mask>", special=True),))
    with pytest.raises(InvalidTokenizer, match="999"):
        TokenizerSpec.checked(vocab, [], pipeline=pipeline)
    held = TokenizerSpec.checked({**vocab, 256: b"<mask>"}, [], pipeline=Pipeline(
        added_tokens=(AddedToken(256, "<mask>", special=True),)
    ))  # fmt: skip
    assert held.vocab[256] == b"<mask>"


CONTENTS = {
    "one": ["<|end|>"],
    "alike": ["<|a|>", "<|a|><", "<|a", "<|b|>", "<"],
    "first bytes that differ": ["<a>", "[b]", "]["],
    "regex": [".", "(", "a|b", "^"],
    "one inside of another": ["xabx", "ab", "b"],
    "none": [],
}


@pytest.mark.parametrize("contents", CONTENTS.values(), ids=CONTENTS)
def test_short_texts_are_cut_where_others_are(contents: list[str]) -> None:
    added = [AddedToken(300 + number, content) for number, content in enumerate(contents)]
    matcher = AddedTokenMatcher(added, [content.encode() for content in contents])
    random_ = random.Random(len(contents))
    for _ in range(300):
        text = "".join(random_.choices([*contents, *"<|ab>][x.^ é"], k=random_.randint(0, 12)))
        content = text.encode()
        whole = Text.of(content)
        spans, ids = matcher.cut(whole, np.array([[0, whole.size]]), np.full(1, -1))
        expected = [
            (content[begin:end], id_)
            for (begin, end), id_ in zip(spans.tolist(), ids.tolist(), strict=True)
        ]
        assert matcher.split(content) == expected
        assert matcher.may_be_in(content) >= (len(expected) > 1)


def test_what_looks_beside_it_is_not_cut_in_short() -> None:
    assert AddedTokenMatcher([AddedToken(1, "a", rstrip=True)], [b"a"]).split(b"a b") is None
    many = [AddedToken(number, f"<{number}>") for number in range(513)]
    contents = [token.content.encode() for token in many]
    assert AddedTokenMatcher(many, contents).split(b"<1>") is None
    assert AddedTokenMatcher(many[:512], contents[:512]).split(b"<1>") == [(b"", 1), (b"", -1)]


@pytest.mark.parametrize("contents", CONTENTS.values(), ids=CONTENTS)
def test_short_texts_have_the_ids_of_long_ones(contents: list[str]) -> None:
    vocab = {byte: bytes([byte]) for byte in range(256)} | {256: b"ab", 257: b" x"}
    added = tuple(
        AddedToken(300 + number, content)
        for number, content in enumerate(contents)
        if len(content) > 1 and content != "ab"
    )
    vocab |= {token.id: token.content.encode() for token in added}
    merges = [(b"a", b"b"), (b" ", b"x")]
    spec = TokenizerSpec.checked(vocab, merges, {}, pipeline=Pipeline(added_tokens=added))
    encoder = OurTokenizer.of_spec(spec).encoder
    inner = encoder.inner if isinstance(encoder, PreparedEncoder) else encoder
    assert isinstance(inner, BytePairEncoder)
    random_ = random.Random(3)
    for _ in range(200):
        text = "".join(random_.choices([*contents, *"<|ab>][x.^ é"], k=random_.randint(0, 12)))
        content = text.encode()
        expected = Encoder.encode_short(encoder, content)
        assert encoder.encode_short(content) == expected
        inner._may_wait = False  # from the second text on
