"""What tokenizers make of perturbed documents, counted a second way; edges of the figures."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from itertools import islice

import numpy as np
import pytest
from amounts import Amounts
from tempting_texts import tempting_texts

from bpeline.tokenizer_core.algorithms.frequency_bpe import FrequencyBpe
from bpeline.tokenizer_core.algorithms.wordpiece import WordPiece
from bpeline.tokenizer_core.digests import canonical_json
from bpeline.tokenizer_core.errors import EmptyCorpus, InvalidUtf8
from bpeline.tokenizer_core.evaluation import (
    PERTURBATIONS,
    SHOWN_ROBUSTNESS,
    EvaluationText,
    Robustness,
    fragment_tokens,
    measure_robustness,
    robustness_by_language,
)
from bpeline.tokenizer_core.evaluation.measuring import resampled_change
from bpeline.tokenizer_core.evaluation.perturbations import CharacterText
from bpeline.tokenizer_core.evaluation.robustness import MOST_BYTES, MOST_DOCUMENTS, _sample
from bpeline.tokenizer_core.tokenizer import Tokenizer

MakeTokenizer = Callable[..., Tokenizer]


def words_alone(algorithm: WordPiece | FrequencyBpe) -> Tokenizer:
    tokens = [
        "[UNK]",
        "<line/>",
        "</line>",
        "</w>",
        *"theabcdo,!.",
        "##e",
        "##he",
        "he",
        "##o",
        "##n",
    ]
    vocab = {id_: token.encode() for id_, token in enumerate(dict.fromkeys(tokens))}
    return Tokenizer(vocab, [], algorithm=algorithm)


@pytest.fixture(scope="module")
def documents() -> list[bytes]:
    chance = random.Random(5)
    words = [
        *("the", "The", "cat", "sat", "on_the", "1234567", "mat,", "naïve", "übung\n    x", "="),
        *("fooBar(2)", "漢字", "한국", "🎉", "e\u0301", "can", "two"),
    ]
    return [" ".join(chance.choices(words, k=30)).encode() for _ in range(60)]


# Counted a second way: one document at a time, one byte at a time


def ends_of(tokenizer: Tokenizer, text: str) -> tuple[int, set[int]]:
    """Tokens, and where those that are in the text end."""
    encoded = tokenizer.encode_with_offsets(text)
    return len(encoded.ids), {end for begin, end in encoded.byte_offsets.tolist() if begin < end}


def counted(tokenizer: Tokenizer, documents: list[str], seed: int) -> dict[str, list[int]]:
    """By kind: tokens, boundaries that are still places, those kept, and places that are either."""
    found = {}
    for kind in PERTURBATIONS:
        sums, changed = [0, 0, 0, 0], 0
        for document in documents:
            edited, edits = kind.apply(CharacterText([document.encode()]), seed)
            changed += len(edits)
            now_text = edited.data.tobytes()[:-1].decode()
            tokens, now = ends_of(tokenizer, now_text)
            now |= {0, len(now_text.encode())}
            _, before = ends_of(tokenizer, document)
            spans = list(zip(edits.begins.tolist(), edits.ends.tolist(), strict=True))
            lengths = [len(edits.pieces[one]) for one in edits.chosen.tolist()]
            sums[0] += tokens
            for place in range(1, len(document.encode())):
                if any(begin < place < end for begin, end in spans):
                    continue
                shift = sum(
                    length - (end - begin)
                    for (begin, end), length in zip(spans, lengths, strict=True)
                    if begin < place
                )
                put = sum(
                    length
                    for span, length in zip(spans, lengths, strict=True)
                    if span == (place, place)
                )
                still = any(one in now for one in range(place + shift, place + shift + put + 1))
                sums[1] += place in before
                sums[2] += place in before and still
                sums[3] += place in before or still
        if changed:
            found[kind.name] = sums
    return found


@pytest.mark.parametrize(
    "which",
    [
        "gpt2",
        *(pytest.param(one, marks=pytest.mark.night)
          for one in ("cl100k", "wordpiece", "frequency-bpe")),
    ],
)  # fmt: skip
def test_counts_are_those_of_single_documents(
    which: str, trained: MakeTokenizer, amounts: Amounts, seed: int
) -> None:
    made = {
        "wordpiece": lambda: words_alone(WordPiece()),
        "frequency-bpe": lambda: words_alone(
            FrequencyBpe(unknown="[UNK]", sentences="none", frequencies=(("he", 3),))
        ),
    }
    tokenizer = made[which]() if which in made else trained(which)
    texts = [text for text in islice(tempting_texts(seed), amounts.laws // 6) if text]
    texts += ["the cat sat on_the mat", "12345 ab\n    ab 漢字!", "\u0301", "ends with a word"]
    found = measure_robustness(tokenizer, {}, [text.encode() for text in texts], seed)
    assert found.documents == len(texts)
    expected = counted(tokenizer, texts, seed)
    kinds = found.tokenizers[""].kinds
    assert list(kinds) == list(expected) == list(found.applied)
    for name, (tokens, mapped, kept, either) in expected.items():
        effect = kinds[name]
        assert (effect.tokens, effect.boundaries) == (tokens, mapped), name
        assert effect.stability is None or effect.stability.value == kept / mapped, name
        assert effect.agreement is None or effect.agreement.value == kept / either, name
        assert (effect.stability is None) == (not mapped)


def test_figures_follow_their_formulas(trained: MakeTokenizer, documents: list[bytes]) -> None:
    tokenizer = trained("gpt2")
    found = measure_robustness(tokenizer, {}, documents)
    one, total = found.tokenizers[""], sum(map(len, documents))
    assert (found.bytes, found.documents) == (total, len(documents))
    assert found.chars == sum(len(document.decode()) for document in documents)
    assert one.tokens == sum(tokenizer.count(document) for document in documents)
    for name, effect in one.kinds.items():
        applied = found.applied[name]
        assert effect.inflation.value == pytest.approx(effect.tokens / one.tokens - 1)
        before, after = one.tokens / total, effect.tokens / applied.bytes
        assert effect.inflation_per_byte == pytest.approx(after / before - 1)
        before, after = one.tokens / found.chars, effect.tokens / applied.chars
        assert effect.inflation_per_char == pytest.approx(after / before - 1)
        assert effect.tokens_per_change * applied.changes == pytest.approx(
            effect.tokens - one.tokens
        )
        for estimate in (effect.inflation, effect.stability, effect.agreement):
            if estimate is not None and estimate.low is not None:
                assert estimate.high is not None
                assert estimate.low <= estimate.value <= estimate.high
    for family, effect in one.families.items():
        kinds = [one.kinds[name] for name, kind in found.applied.items() if kind.family == family]
        inflations = [kind.inflation.value for kind in kinds]
        assert effect.inflation.value == pytest.approx(np.mean(inflations))
    assert set(SHOWN_ROBUSTNESS) <= set(one.metrics)
    assert one.metrics["robustness/case_inflation"] == one.families["case"].inflation.value


def test_the_interval_is_that_of_paired_documents(
    trained: MakeTokenizer, documents: list[bytes]
) -> None:
    tokenizer = trained("gpt2")
    found = measure_robustness(tokenizer, {}, documents)
    in_order = sorted(documents, key=lambda one: hashlib.sha256(one).digest())
    before = np.array([tokenizer.count(document) for document in in_order])
    after = np.array([tokenizer.count(document.decode().lower()) for document in in_order])
    expected = resampled_change(before, after).interval()
    lower = found.tokenizers[""].kinds["lower_case"].inflation
    assert (lower.value, lower.low, lower.high) == (expected.value, expected.low, expected.high)


def test_few_changed_documents_give_no_interval(trained: MakeTokenizer) -> None:
    """Nine documents of twenty have an accent, ten a capital: of nine nothing sure is said."""
    texts = [b"some more words here"] + [b"A word"] * 10 + ["some caf\u00e9".encode()] * 9
    found = measure_robustness(trained("gpt2"), {}, texts)
    kinds = found.tokenizers[""].kinds
    assert found.applied["nfd"].documents == 9
    assert kinds["nfd"].inflation.low is None
    assert found.applied["lower_case"].documents == 10
    assert kinds["lower_case"].inflation.low is not None


def test_what_found_nothing_to_change_is_named_and_has_no_figure(trained: MakeTokenizer) -> None:
    found = measure_robustness(trained("gpt2"), {}, [b"1 2 3"] * 12)
    assert {"lower_case", "nfd", "latex_bold"} <= set(found.not_applied)
    assert not set(found.not_applied) & set(found.tokenizers[""].kinds)
    assert "case" not in found.tokenizers[""].families
    assert "robustness/case_inflation" not in found.tokenizers[""].metrics


def test_where_nothing_can_be_changed_nothing_is_known(small: Tokenizer) -> None:
    found = measure_robustness(small, {"other": small}, ["。".encode()] * 20)
    assert len(found.not_applied) == len(PERTURBATIONS)
    assert (found.tokenizers[""].kinds, found.tokenizers[""].metrics) == ({}, {})
    assert found.differences == {"other": {}}


@pytest.mark.night
def test_others_are_compared_in_pairs(trained: MakeTokenizer, documents: list[bytes]) -> None:
    mine, other = trained("gpt2"), trained("cl100k")
    found = measure_robustness(mine, {"same": mine, "other": other}, documents)
    assert found.tokenizers["same"] == found.tokenizers[""]
    for estimate in found.differences["same"].values():
        assert (estimate.value, estimate.low or 0.0, estimate.high or 0.0) == (0.0, 0.0, 0.0)
    alone = measure_robustness(other, {}, documents).tokenizers[""]
    assert found.tokenizers["other"] == alone
    for family, estimate in found.differences["other"].items():
        mine_, theirs = (found.tokenizers[one].families[family] for one in ("", "other"))
        assert estimate.value == mine_.inflation.value - theirs.inflation.value


@pytest.mark.night
def test_the_order_of_documents_says_nothing(
    trained: MakeTokenizer, documents: list[bytes]
) -> None:
    tokenizer = trained("gpt2")
    once = measure_robustness(tokenizer, {}, documents)
    assert measure_robustness(tokenizer, {}, [b"", *documents[::-1], b""]) == once
    assert measure_robustness(tokenizer, {}, documents, seed=1).tokenizers != once.tokenizers
    assert measure_robustness(tokenizer, {}, documents[1:]).digest != once.digest


def test_of_much_text_a_sample_is_perturbed() -> None:
    many = [b"%d" % number for number in range(MOST_DOCUMENTS + 500)]
    found, digest = _sample(many, MOST_BYTES)
    assert len(found) == MOST_DOCUMENTS
    assert _sample(many[::-1], MOST_BYTES) == (found, digest)
    assert found == sorted(many, key=lambda one: hashlib.sha256(one).digest())[:MOST_DOCUMENTS]
    large, _ = _sample([b"ab " * (MOST_BYTES // 10) + b"%d" % i for i in range(9)], MOST_BYTES)
    assert len(large) == 4  # the first with which there is enough
    whole = ("ä" * (MOST_BYTES // 2)).encode()
    assert _sample([whole + b"more"], MOST_BYTES)[0] == [whole]
    assert _sample([b"a" + whole], MOST_BYTES)[0] == [b"a" + whole[:-2]]  # not within a character


def test_languages_are_measured_apart_where_documents_suffice(small: Tokenizer) -> None:
    english = [b"one text %d" % number for number in range(12)]
    german = ["über Änderungen %d".encode() % number for number in range(10)]
    texts = [
        EvaluationText("news", english[:5], "en"),
        EvaluationText("mail", english[5:], "en"),
        EvaluationText("zeitung", german, "de"),
        EvaluationText("few", german[:9], "fr"),
        EvaluationText("other", english, None),
    ]
    found = robustness_by_language(small, {"other": small}, texts)
    assert list(found) == ["en", "de"]
    assert found["en"] == measure_robustness(small, {"other": small}, english)
    decomposed = found["de"].tokenizers[""].kinds["nfd"].inflation
    assert decomposed.low is not None
    assert "nfd" in found["en"].not_applied
    assert not robustness_by_language(small, {}, texts[:2]), "one language is all documents"


def test_a_record_is_plain_json(small: Tokenizer) -> None:
    """Also where no token ends inside of a document."""
    record = measure_robustness(small, {"other": small}, [b"a", b"B"] * 6, seed=3).as_record()
    read = json.loads(canonical_json(record))
    assert read == record
    assert read["tokenizers"][""]["kinds"]["struck_through"]["stability"] is None
    assert read["confidence"] == 0.95


def test_documents_without_text_or_words_are_refused(small: Tokenizer) -> None:
    for nothing in ([], [b"", b""]):
        with pytest.raises(EmptyCorpus):
            measure_robustness(small, {}, nothing)
    with pytest.raises(EmptyCorpus):
        measure_robustness(words_alone(WordPiece()), {}, [b"  \n"])
    with pytest.raises(InvalidUtf8):
        measure_robustness(small, {}, [b"caf\xc3", b"\xa9"])


def test_special_tokens_are_ordinary_text(small: Tokenizer) -> None:
    found: Robustness = measure_robustness(small, {}, ["<|fin é|>".encode()])
    assert found.tokenizers[""].tokens == len("<|fin é|>".encode())


# Tokens that are no text


def test_fragments_are_told_from_what_is_mixed() -> None:
    tokens = {
        0: "é".encode(),
        1: "é".encode()[:1],
        2: "é".encode()[1:],
        3: b" \xe4\xb8",  # a space and two thirds of a character
        4: b"\xadab",
        5: "漢字".encode()[1:-1],  # a part, and a part
        6: "漢字漢".encode()[1:],
        7: b"\xff",
        8: b"\xf0\x9f",
        9: b"plain",
        10: b"\xe4\xc3\xa9",  # a part, then a whole one
    }
    found = fragment_tokens({token: id_ for id_, token in tokens.items()})
    assert [id_ for id_, _ in found.parts] == [1, 2, 5, 7, 8]
    assert [id_ for id_, _ in found.mixed] == [3, 4, 6, 10]
    assert found.mixed[0] == (3, b" \xe4\xb8")
