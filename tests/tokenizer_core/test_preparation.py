"""Added tokens, normalizer and prefix in their order: the pieces that `tokenizers` makes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from amounts import Amounts, numbers
from tokenizers import AddedToken as TheirToken
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from bpeline.tokenizer_core.errors import InvalidTokenizer
from bpeline.tokenizer_core.pipeline import AddedToken, Prefix, TextPreparation
from bpeline.tokenizer_core.text import Text

CHARACTERS = "abABxyz<>_-.,'1éÉßİ ☃▁\t\n\u3000\u00a0\u2003\u0301\u200d中\U0001f600"
# A character that begins a piece has another id than one that goes on with it: seams show.
BEGINNING = {character: 2 * k + 1 for k, character in enumerate(CHARACTERS + "ĠĊĉ")}
VOCAB = {
    "[U]": 0,
    **BEGINNING,
    **{f"##{character}": id_ + 1 for character, id_ in BEGINNING.items()},
}
NORMALIZERS: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "lowercase": normalizers.Lowercase,
    "nfkc": normalizers.NFKC,
    "strip": normalizers.Strip,
    "strip right": lambda: normalizers.Strip(left=False),
    "replace x": lambda: normalizers.Replace("x", ""),
    "replace y": lambda: normalizers.Replace("y", "zz"),
    "mark spaces": lambda: normalizers.Replace(" ", "▁"),
    "prepend": lambda: normalizers.Prepend("▁"),
    "llama": lambda: normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    ),
    "bert": normalizers.BertNormalizer,
    "strip accents": lambda: normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()]),
}
# Where such a character is an added token at the beginning of a text, what follows still counts as
# the beginning to `tokenizers`, whose offsets say so, and not to us.
INSERTING = {"prepend", "llama", "bert"}
PREFIXES: dict[str, tuple[Prefix | None, Callable[[], Any]]] = {
    "none": (None, lambda: None),
    **{
        f"metaspace {scheme}": (
            Prefix("▁", scheme, True),  # type: ignore[arg-type]
            lambda scheme=scheme: pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False),
        )
        for scheme in ("always", "first", "never")
    },
    "metaspace x": (
        Prefix("x", "always", True),
        lambda: pre_tokenizers.Metaspace(replacement="x", split=False),
    ),
    "byte level": (
        Prefix(" ", "always", False),
        lambda: pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=False),
    ),
}


def piece_ids(piece: str) -> Iterator[int]:
    for k, character in enumerate(piece):
        yield VOCAB.get("##" * (k > 0) + character, 0)


class Both:
    """The same added tokens, normalizer and prefix in `tokenizers` and here."""

    def __init__(
        self, added: Sequence[AddedToken], normalizer: str = "none", prefix: str = "none"
    ) -> None:
        model = models.BPE(VOCAB, [], unk_token="[U]", continuing_subword_prefix="##")
        self.theirs = Tokenizer(model)
        made = NORMALIZERS[normalizer]()
        if made is not None:
            self.theirs.normalizer = made
        ours, cutting = PREFIXES[prefix]
        if (pre_tokenizer := cutting()) is not None:
            self.theirs.pre_tokenizer = pre_tokenizer
        self.bytes_shown = prefix == "byte level"
        flags = ("special", "normalized", "single_word", "lstrip", "rstrip")
        self.theirs.add_tokens(
            [
                TheirToken(one.content, **{flag: getattr(one, flag) for flag in flags})
                for one in added
            ]
        )
        known = [
            AddedToken(id_, one.content, **{flag: getattr(one, flag) for flag in flags})
            for id_, one in sorted(self.theirs.get_added_tokens_decoder().items())
        ]
        self.special = frozenset(token.id for token in known if token.special)
        normalize = None
        if made is not None:

            def normalize(content: bytes) -> bytes:
                return made.normalize_str(content.decode()).encode()

        self.ours = TextPreparation(known, normalize, ours)
        #: Texts of which `TextPreparation.whole` told at once what becomes of them.
        self.at_once = 0

    def our_ids(self, text: str, special_as_text: bool) -> list[int]:
        prepared, spans, behind = self.ours.prepare(
            Text.of(text.encode()), self.special if special_as_text else frozenset()
        )
        if (whole := self.ours.whole(text.encode())) is not None:
            self.at_once += 1
            assert [prepared.bytes(*span) for span in spans.tolist()] == [whole]
            assert behind.tolist() == [-1]
        ids: list[int] = []
        for (begin, end), id_ in zip(spans.tolist(), behind.tolist(), strict=True):
            piece = prepared.bytes(begin, end).decode()
            if self.bytes_shown and piece:
                ((piece, _),) = pre_tokenizers.ByteLevel(
                    add_prefix_space=False, use_regex=False
                ).pre_tokenize_str(piece)
            ids.extend(piece_ids(piece))
            if id_ >= 0:
                ids.append(id_)
        return ids

    def their_ids(self, text: str, special_as_text: bool) -> list[int]:
        self.theirs.encode_special_tokens = special_as_text
        ids: list[int] = self.theirs.encode(text, add_special_tokens=False).ids
        return ids

    def agree(self, text: str) -> None:
        for special_as_text in (False, True):
            ours = self.our_ids(text, special_as_text)
            assert ours == self.their_ids(text, special_as_text), (text, special_as_text)


def token(content: str, **flags: bool) -> AddedToken:
    return AddedToken(0, content, **flags)


def random_tokens(draw: random.Random) -> list[AddedToken]:
    """Short ones that overlap, hold white space and differ in case, with any flags."""
    contents = {
        "".join(draw.choices("aAbx<> _é▁\t", k=draw.choice((1, 2, 2, 3, 4))))
        for _ in range(draw.randint(1, 7))
    }
    often = draw.random() ** 2
    return [
        AddedToken(0, content, *(draw.random() < often for _ in range(5)))
        for content in sorted(contents)
    ]


def random_text(draw: random.Random, added: Sequence[AddedToken]) -> str:
    contents = [one.content for one in added]
    parts = []
    for _ in range(draw.randint(0, 12)):
        if draw.random() < 0.5:
            parts.append(draw.choice(contents))
        else:
            parts.append("".join(draw.choices(CHARACTERS, k=draw.randint(1, 3))))
        if draw.random() < 0.3:
            parts.append(" " * draw.randint(1, 3))
    return "".join(parts)


@pytest.mark.night
def test_pieces_and_ids_are_those_of_tokenizers(amounts: Amounts, seed: int, point: int) -> None:
    made = compared = 0
    for number in numbers(seed, 10 * amounts.laws, point):
        draw = random.Random(number)
        added = random_tokens(draw)
        kinds = draw.choice([*NORMALIZERS]), draw.choice([*PREFIXES])
        if kinds[0] in INSERTING and kinds[1] == "metaspace first":
            added = [replace(one, normalized=False) for one in added]
        try:
            both = Both(added, *kinds)
        except InvalidTokenizer:
            continue  # alike once they are normalized
        made += 1
        for _ in range(8):
            text, special_as_text = random_text(draw, added), draw.random() < 0.5
            try:
                theirs = both.their_ids(text, special_as_text)
            except BaseException as failed:  # a panic of theirs is no Exception
                if type(failed).__name__ != "PanicException":
                    raise
                continue
            compared += 1
            ours = both.our_ids(text, special_as_text)
            assert ours == theirs, (number, kinds, added, text, special_as_text)
    assert made
    assert compared > made


@pytest.mark.parametrize(
    ("added", "text"),
    [
        ([token("<m>", lstrip=True, rstrip=True)], "a <m> <m> b"),
        ([token("cat", single_word=True)], "cat concat cats cat_ cat. \u0301cat cat\u200d cat"),
        # Not retried shorter, not even by a token that would be a single word.
        ([token("cats", single_word=True), token("cat")], "catsup cats cat"),
        # A token inside of the white space that the one before took is found all the same.
        ([token("<m>", rstrip=True), token(" b"), token(" ")], "a<m>   b <m> <m>  "),
        ([token("<m>", rstrip=True), token(" ", lstrip=True)], "<m> "),
        # Nor does one that was not accepted keep white space from the next.
        ([token(" ", single_word=True), token("left", lstrip=True)], "a\n left"),
        # What is switched off covers its characters.
        ([token("<a>", special=True), token("a>"), token("<")], "x<a>b<a a>"),
        ([token("<a>", special=True), token("<a")], "<a><a"),
    ],
)
def test_flags(added: list[AddedToken], text: str) -> None:
    Both(added).agree(text)


@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("prefix", PREFIXES)
def test_every_normalizer_and_prefix(normalizer: str, prefix: str) -> None:
    both = Both(
        [token("<m>", special=True), token("By", normalized=True), token("<x>", rstrip=True)],
        normalizer,
        prefix,
    )
    for text in (
        "", " ", "a", " a", "▁a", "<m>", "<m>a", " <m> a<m>", "By", "xByx", "bY ", "  a  By<x>  b ",
        "x", "xx<m>x", "<x> By", "ÉßİBY<m>by", "\u3000a", "\ta", "a▁b c", "é<m>É", "x▁", "y<m>yBy",
    ):  # fmt: skip
        both.agree(text)
    assert both.at_once


def test_white_space_of_every_kind_is_stripped_and_no_other() -> None:
    both = Both([token("<m>", lstrip=True, rstrip=True)])
    for (
        character
    ) in "\t\n\v\f\r \x1c\x85\xa0\u1680\u180e\u2000\u200a\u200b\u2028\u202f\u205f\u3000":
        both.agree(f"a{character * 3}<m>{character}b")


@pytest.mark.night
def test_characters_of_words_are_theirs() -> None:
    """But for characters that only one of both Unicode versions knows."""
    theirs = Both([token("<m>", single_word=True)])
    known = {0x41, 0x5F, 0x301, 0x200C, 0x200D, 0x2160, 0xB2, 0x24B6, 0x903, 0x20DD, 0x660, 0x2040}
    for code in [*range(0x20, 0x558), *known, *range(0x3000, 0x3100), 0x1F600, 0x10400, 0xE0100]:
        theirs.agree(f"{chr(code)}<m> <m>{chr(code)}")


def prepared(
    text: Text, added: Sequence[AddedToken] = (), **kinds: Any
) -> tuple[Text, list[bytes], list[int]]:
    made, spans, behind = TextPreparation(added, **kinds).prepare(text)
    return made, [made.bytes(*span) for span in spans.tolist()], behind.tolist()


def test_a_text_in_which_nothing_changes_is_not_copied() -> None:
    text = Text.of(b"a<m>b<n>")
    added = [AddedToken(7, "<m>"), AddedToken(8, "<n>", normalized=True)]
    for kinds in (
        {},
        {"normalize": bytes.lower},
        {"prefix": Prefix("▁", "never", True)},
        {"prefix": Prefix("a", "first", False)},
    ):
        made, pieces, behind = prepared(text, added, **kinds)
        assert made is text
        assert pieces == [b"a", b"b", b""]
        assert behind == [7, 8, -1]
    changed, pieces, behind = prepared(text, added, normalize=bytes.upper)
    assert changed is not text
    assert pieces == [b"A", b"B", b""]


def test_what_a_normalizer_makes_of_a_token_is_what_it_is_called() -> None:
    made = TextPreparation(
        [AddedToken(3, "Hello", normalized=True), AddedToken(4, "Bye")], bytes.lower
    )
    assert made.contents == {3: b"hello", 4: b"Bye"}


@pytest.mark.parametrize(
    ("added", "complaint"),
    [
        ([AddedToken(1, "a"), AddedToken(2, "a")], "'a'"),
        (
            [AddedToken(1, "A", normalized=True), AddedToken(2, "a", normalized=True)],
            "'A'",
        ),
        ([AddedToken(1, " ", normalized=True)], "' '"),
        ([AddedToken(1, "a"), AddedToken(1, "b")], "id"),
    ],
)
def test_tokens_that_cannot_be_told_apart_are_refused(
    added: list[AddedToken], complaint: str
) -> None:
    with pytest.raises(InvalidTokenizer) as caught:
        TextPreparation(added, lambda content: content.lower().strip())
    assert complaint in caught.value.happened
    assert caught.value.accepted
    assert caught.value.next_step


def test_tokens_of_one_content_may_be_sought_before_and_after_normalizing() -> None:
    both = Both([token("ab"), token("AB", normalized=True)], "lowercase")
    both.agree("ab AB aB")
