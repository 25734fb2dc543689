"""What a byte of text costs a model: published figures, by hand, and which size is cheapest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bpeline.tokenizer_core import WordCounts, train_bpe
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.evaluation import (
    MODEL_SHAPES,
    ModelShape,
    bytes_per_token_at,
    cheapest_size,
)
from bpeline.tokenizer_core.evaluation.serving_cost import ServingCost

TARGET = MODEL_SHAPES["marin-moe"]


def test_the_published_figures_come_out() -> None:
    """Those of the pull request that the formula is from: FLOPs, attention's share, cost ratios."""
    assert TARGET.flops_per_token(128_256) == pytest.approx(9.52495e10, rel=1e-6)
    for context, share in ((4_096, 0.07), (16_384, 0.10), (65_536, 0.21)):
        shape = replace(TARGET, context=context)
        without = replace(shape, context=1, window=1)
        attention = 1 - without.flops_per_token(128_256) / shape.flops_per_token(128_256)
        assert attention == pytest.approx(share, abs=0.005)
    reference = ServingCost.of(TARGET, 128_256, 3.30).flops_per_byte
    superbpe = ServingCost.of(TARGET, 128_256, 3.82).flops_per_byte
    assert superbpe / reference == pytest.approx(0.864, abs=0.0005)
    smaller = [ServingCost.of(TARGET, 64_000, value).flops_per_byte for value in (3.48, 3.47)]
    assert smaller[0] / reference < 0.942 < smaller[1] / reference


def test_a_small_dense_model_by_hand() -> None:
    shape = ModelShape(8, 2, heads=4, kv_heads=2, head_size=2, expert_size=16, context=10)
    mlp = 6 * 8 * 16
    projections = 2 * 8 * (4 + 2 * 2) * 2 + 2 * 8 * 4 * 2
    attention = 10 * (4 * 4 * 2 + 3 * 4)
    assert shape.flops_per_token(100) == 2 * (mlp + projections + attention) + 2 * 8 * 100
    cost = ServingCost.of(shape, 100, 4.0)
    assert cost.flops_per_byte == shape.flops_per_token(100) / 4
    assert cost.vocab_share == 1600 / shape.flops_per_token(100)


def test_the_cheapest_size_lies_where_tokens_saved_outweigh_the_output_layer() -> None:
    shape = ModelShape(64, 4, heads=4, kv_heads=4, head_size=16, expert_size=64, context=64)
    curve = [(1_000, 2.0), (2_000, 3.0), (8_000, 3.3), (500, 1.0)]
    found = cheapest_size(shape, curve)
    assert [cost.vocab_size for cost in found.costs] == [500, 1_000, 2_000, 8_000]
    assert (found.best.vocab_size, found.at_edge) == (2_000, "")
    assert cheapest_size(shape, curve[:2]).at_edge == "largest"
    assert cheapest_size(shape, [(1_000, 2.0), (9_000, 2.0)]).at_edge == "smallest"
    with pytest.raises(InvalidOption):
        cheapest_size(shape, [])


def test_sizes_between_are_those_of_tokenizers_trained_to_them() -> None:
    words = WordCounts.from_pairs([("lower", 5), ("lowest", 3), ("newest", 6)], "gpt2")
    large = train_bpe(words, 264)
    text = "lower lowest newest"
    size = len(text)
    counts = WordCounts.from_pairs([("lower", 1), (" lowest", 1), (" newest", 1)], "gpt2")
    gains = large.merge_gains(counts)
    for at, value in bytes_per_token_at(large, size, gains, [256, 259, 264]):
        assert value == size / len(train_bpe(words, at).encode(text))
    with pytest.raises(InvalidOption):
        bytes_per_token_at(large, size, gains, [255])


@pytest.mark.parametrize("wrong", [{"layers": 0}, {"heads": 3, "kv_heads": 2}, {"window": -1}])
def test_shapes_that_no_model_has_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidOption):
        replace(TARGET, **wrong)  # type: ignore[arg-type]
