"""The suite over slices and opponents, against measuring each part by itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bpeline.tokenizer_core import Tokenizer, count_texts, train_bpe
from bpeline.tokenizer_core.errors import EmptyCorpus
from bpeline.tokenizer_core.evaluation.drift import divergence
from bpeline.tokenizer_core.evaluation.measuring import resampled_change
from bpeline.tokenizer_core.evaluation.metric_names import (
    BYTES_PER_TOKEN,
    CONFIDENCES,
    NAMES,
    POWER_OF_TOKENS,
    SPEEDS,
)
from bpeline.tokenizer_core.evaluation.metrics import evaluate
from bpeline.tokenizer_core.evaluation.suite import (
    Evaluation,
    EvaluationText,
    evaluate_texts,
    parity,
)

GREEK = "Η ζωή είναι ωραία, και η θάλασσα μπλε. " * 40


def trained(text: str, size: int, pattern: str = "gpt2") -> Tokenizer:
    return train_bpe(count_texts([text], pattern), size)


@pytest.fixture(scope="module")
def tokenizer(english_and_code: str) -> Tokenizer:
    return trained(english_and_code[:60_000] + GREEK, 700)


@pytest.fixture(scope="module")
def others(english_and_code: str) -> dict[str, Tokenizer]:
    old = trained(english_and_code[:30_000], 500)
    return {"champion": old, "other": trained(english_and_code[:30_000], 600, "cl100k")}


@pytest.fixture(scope="module")
def documents(english_and_code: str) -> dict[str, list[bytes]]:
    pieces = [english_and_code[at : at + 900].encode() for at in range(200_000, 240_000, 900)]
    greek = [GREEK[at : at + 300].encode() for at in range(0, 1500, 300)]
    return {"news": pieces[:20], "code": pieces[20:], "greek": greek}


def texts_of(documents: dict[str, list[bytes]]) -> list[EvaluationText]:
    return [
        EvaluationText("news", iter(documents["news"]), "en", "news"),
        EvaluationText("code", iter(documents["code"]), "en", "code"),
        EvaluationText("greek", iter(documents["greek"]), "el"),
    ]


@pytest.fixture(scope="module")
def found(
    tokenizer: Tokenizer, others: dict[str, Tokenizer], documents: dict[str, list[bytes]]
) -> Evaluation:
    return evaluate_texts(tokenizer, others, texts_of(documents))[0]


def test_every_slice_measures_as_by_itself(
    found: Evaluation, tokenizer: Tokenizer, others: dict[str, Tokenizer],
    documents: dict[str, list[bytes]],
) -> None:  # fmt: skip
    parts = {part.name: part.texts for part in found.parts}
    assert parts == {
        "all": ("news", "code", "greek"), "news": ("news",), "code": ("code",),
        "greek": ("greek",), "language:en": ("news", "code"), "language:el": ("greek",),
        "domain:news": ("news",), "domain:code": ("code",),
    }  # fmt: skip
    assert found.slices.keys() == parts.keys()
    for name, texts in parts.items():
        together = [one for text in texts for one in documents[text]]
        for measured, one in [
            (found.slices[name], tokenizer),
            *((found.opponents[label].slices[name], other) for label, other in others.items()),
        ]:
            alone = evaluate(one, together)
            expected = alone.metrics
            assert measured.metrics.keys() == expected.keys() == set(NAMES.values())
            for speed in SPEEDS:
                del expected[speed]
            for key, value in expected.items():
                assert measured.metrics[key] == pytest.approx(value), (name, key)
            assert measured.curve == alone.curve
    assert found.report.bytes == sum(len(one) for part in documents.values() for one in part)


def test_changes_compare_document_by_document(
    found: Evaluation, tokenizer: Tokenizer, others: dict[str, Tokenizer],
    documents: dict[str, list[bytes]],
) -> None:  # fmt: skip
    def lengths(one: Tokenizer, parts: list[str]) -> np.ndarray:
        contents = [document.decode() for part in parts for document in documents[part]]
        return np.array([len(one.encode(content)) for content in contents])

    for label, other in others.items():
        for name, parts in (("all", ["news", "code", "greek"]), ("news", ["news"])):
            change = found.opponents[label].changes[name]
            before, after = lengths(other, parts), lengths(tokenizer, parts)
            assert change.value == pytest.approx(after.sum() / before.sum() - 1)
            assert change.mean_ratio == pytest.approx((after / before).mean())
            assert tuple(change.intervals) == CONFIDENCES
            for confidence, (low, high) in change.intervals.items():
                expected = resampled_change(before, after).interval(confidence)
                assert (low, high) == (expected.low, expected.high)
    few = found.opponents["champion"].changes["greek"]
    assert (few.documents, dict(few.intervals)) == (5, {})
    assert few.value < 0


def test_what_follows_from_tokens_changes_as_they_do(found: Evaluation) -> None:
    """The claim by which an interval of tokens is one of these metrics."""
    for label, opponent in found.opponents.items():
        for name, change in opponent.changes.items():
            for metric, power in POWER_OF_TOKENS.items():
                before = found.opponents[label].slices[name].metrics[metric]
                after = found.slices[name].metrics[metric]
                assert after / before == pytest.approx((1 + change.value) ** power)


def test_languages_are_compared(
    found: Evaluation, tokenizer: Tokenizer, documents: dict[str, list[bytes]]
) -> None:
    cost = {
        language: 1 / found.slices[f"language:{language}"].metrics[BYTES_PER_TOKEN]
        for language in ("en", "el")
    }
    expected = parity(cost)
    assert found.parity is not None
    assert found.parity.max_over_min == pytest.approx(expected.max_over_min)
    assert replace(found.parity, max_over_min=expected.max_over_min) == expected
    ids = {
        language: [
            i for part in parts for d in documents[part] for i in tokenizer.encode(d.decode())
        ]
        for language, parts in (("en", ["news", "code"]), ("el", ["greek"]))
    }
    en, el = (np.bincount(one, minlength=tokenizer.vocab_size) for one in ids.values())
    assert found.divergences[("en", "el")] == pytest.approx(divergence(en, en.sum(), el))
    assert found.premiums == {}
    parallel, _ = evaluate_texts(tokenizer, {}, texts_of(documents), parallel=True)
    ratio = len(ids["en"]) / len(ids["el"])
    assert parallel.premiums == pytest.approx({"en": ratio, "el": 1.0})
    assert parallel.parity is not None
    assert parallel.parity.max_over_min == pytest.approx(ratio)
    single, _ = evaluate_texts(tokenizer, {}, [EvaluationText("x", documents["news"])])
    assert (single.parity, single.divergences) == (None, {})


def test_a_text_without_words_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(EmptyCorpus):
        evaluate_texts(tokenizer, {}, [EvaluationText("x", [b""])])
