"""What a byte of text costs a model: FLOPs of its shape for each token, and tokens for each byte.

The forward FLOPs are those of marin-community/marin, ``experiments/tokenize/flop_equivalent.py``
(pull request 6916): 2 for each weight that a token passes, attention to what stands before it,
and the output layer, which grows with the vocabulary. Knows no tokenizer and no file.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bpeline.tokenizer_core.errors import InvalidOption


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The sizes of a decoder that decide what a token costs; of dense models and of experts.

    Attributes:
        hidden_size: width of the residual stream.
        layers: how many.
        heads, kv_heads: of queries, and of keys and values.
        head_size: width of one head.
        expert_size: inner width of a gated MLP; of one expert where there are several.
        experts_used: experts that a token passes; 1 where there are none.
        experts: to choose from; 0 where there are none, and nothing chooses.
        shared_size: inner width of what every token passes beside the experts.
        context: tokens that a token may look back on.
        window: tokens that layers with a sliding window look back on; ``context`` without one.
        full_attention_every: one layer in so many looks back on all of the context; 1: all do.
    """

    hidden_size: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    expert_size: int
    context: int
    experts_used: int = 1
    experts: int = 0
    shared_size: int = 0
    window: int = 0
    full_attention_every: int = 1

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InvalidOption(
                    f"{name} of the model is {value!r}",
                    f"a whole number from {least} on",
                    f"put it right, or name one of {', '.join(MODEL_SHAPES)}",
                )
        if self.heads % self.kv_heads:
            raise InvalidOption(
                f"the model has {self.heads} heads of queries and {self.kv_heads} of keys",
                "each head of keys serves as many heads of queries",
                "put kv_heads right",
            )

    def flops_per_token(self, vocab_size: int) -> float:
        """Forward FLOPs of one token at the end of a full context.

        Args:
            vocab_size: rows of the output layer, rounded up to a multiple as the model has them.
        """
        width, shape = self.hidden_size, self
        experts = 6 * width * (shape.expert_size * shape.experts_used + shape.shared_size)
        router = 2 * width * shape.experts
        projections = 2 * width * (shape.heads + 2 * shape.kv_heads) * shape.head_size
        output = 2 * width * shape.heads * shape.head_size
        full = 1 / shape.full_attention_every
        looked = full * self._attention(shape.context)
        looked += (1 - full) * self._attention(min(shape.window or shape.context, shape.context))
        a_layer = experts + router + projections + output + looked
        return shape.layers * a_layer + self.output_flops(vocab_size)

    def output_flops(self, vocab_size: int) -> float:
        """FLOPs of the output layer for one token: what follows from the vocabulary alone."""
        return 2.0 * self.hidden_size * vocab_size

    def _attention(self, tokens: int) -> float:
        return tokens * (4 * self.heads * self.head_size + 3 * self.heads)


MULTIPLE = 128  # sizes that models have
_EACH_DOUBLING = 2**0.25
_LEAST = {
    "hidden_size": 1, "layers": 1, "heads": 1, "kv_heads": 1, "head_size": 1, "expert_size": 1,
    "context": 1, "experts_used": 1, "experts": 0, "shared_size": 0, "window": 0,
    "full_attention_every": 1,
}  # fmt: skip
MODEL_SHAPES = {
    "llama-3.2-1b": ModelShape(2048, 16, 32, 8, 64, 8192, 8192),
    "llama-3.1-8b": ModelShape(4096, 32, 32, 8, 128, 14336, 8192),
    "llama-3.1-70b": ModelShape(8192, 80, 64, 8, 128, 28672, 8192),
    # The target of the pull request above.
    "marin-moe": ModelShape(
        6144,
        64,
        48,
        8,
        128,
        3072,
        16384,
        experts_used=8,
        experts=256,
        shared_size=6144,
        window=4096,
        full_attention_every=6,
    ),
}


@dataclass(frozen=True, slots=True)
class ServingCost:
    """What text costs with one vocabulary.

    Attributes:
        vocab_size: ids.
        bytes_per_token: on the text that was measured.
        flops_per_token: forward.
        vocab_share: of these what the output layer takes.
    """

    vocab_size: int
    bytes_per_token: float
    flops_per_token: float
    vocab_share: float

    @classmethod
    def of(cls, shape: ModelShape, vocab_size: int, bytes_per_token: float) -> ServingCost:
        """The cost of a model of this shape; NaN per byte where there was no text."""
        flops = shape.flops_per_token(vocab_size)
        return cls(vocab_size, bytes_per_token, flops, shape.output_flops(vocab_size) / flops)

    @property
    def flops_per_byte(self) -> float:
        """FLOPs for a byte of the text."""
        return self.flops_per_token / self.bytes_per_token if self.bytes_per_token else math.nan


@dataclass(frozen=True, slots=True)
class CheapestSize:
    """The size at which text costs least, of those that were asked about.

    Attributes:
        costs: of all sizes, the smallest first.
        best: the cheapest.
        at_edge: ``smallest`` or ``largest`` where it is one of these: beyond it may be cheaper.
    """

    costs: tuple[ServingCost, ...]
    best: ServingCost
    at_edge: str

    def near(self, share: float = 0.01) -> tuple[int, int]:
        """The smallest and the largest size around the cheapest that cost at most so much more."""
        accepted = self.best.flops_per_byte * (1 + share)
        place = self.costs.index(self.best)
        first = last = place
        while first > 0 and self.costs[first - 1].flops_per_byte <= accepted:
            first -= 1
        while last + 1 < len(self.costs) and self.costs[last + 1].flops_per_byte <= accepted:
            last += 1
        return self.costs[first].vocab_size, self.costs[last].vocab_size

    @property
    def shown(self) -> tuple[ServingCost, ...]:
        """Those that say enough: four for each doubling, the ends, the cheapest."""
        found = {cost.vocab_size: cost for cost in (self.costs[0], self.best, self.costs[-1])}
        edge = self.costs[0].vocab_size * _EACH_DOUBLING
        for cost in self.costs:
            if cost.vocab_size >= edge:
                found[cost.vocab_size] = cost
                while edge <= cost.vocab_size:
                    edge *= _EACH_DOUBLING
        return tuple(found[size] for size in sorted(found))


def sizes_between(smallest: int, largest: int, step: int = MULTIPLE) -> list[int]:
    """Every multiple of a step from the smallest to the largest size, and the largest itself."""
    return sorted({*range(-(-smallest // step) * step, largest, step), largest})


def cheapest_size(shape: ModelShape, curve: Sequence[tuple[int, float]]) -> CheapestSize:
    """Where on a curve of (vocab size, bytes per token) a byte costs least.

    Raises:
        InvalidOption: no sizes.
    """
    costs = tuple(ServingCost.of(shape, size, value) for size, value in sorted(curve))
    if not costs:
        raise InvalidOption(
            "there are no sizes to choose from",
            "a version whose smaller sizes are known: byte-level BPE, measured on text",
            "train one with `bpeline train`",
        )
    best = min(costs, key=lambda cost: cost.flops_per_byte)
    edges = {costs[0].vocab_size: "smallest", costs[-1].vocab_size: "largest"}
    return CheapestSize(costs, best, edges.get(best.vocab_size, ""))
