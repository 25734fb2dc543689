"""Serving cost of text: FLOPs per token of a model, and tokens per byte.

The forward FLOPs are those of marin-community/marin, ``experiments/tokenize/flop_equivalent.py``
(pull request 6916): 2 per weight that a token passes, attention to the context, and the output
layer, which grows with the vocabulary.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any

from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.bounded_files import parse_json, parse_toml, read_file
from bpeline.tokenizer_core.digests import digest_of_bytes
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.evaluation.metric_names import SERVING


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The sizes of a decoder that decide the cost of a token; dense or with experts.

    Attributes:
        hidden_size: width of the residual stream.
        layers: number of layers.
        heads, kv_heads: heads of queries, and of keys and values.
        head_size: width of one head.
        expert_size: inner width of a gated MLP, or of one expert.
        experts_used: experts per token; 1 for a dense model.
        experts: experts to choose from; 0 for a dense model.
        shared_size: inner width of the MLP that every token passes in addition to the experts.
        context: tokens of the context.
        window: context of layers with a sliding window; 0 for none.
        full_attention_every: one in so many layers attends to the whole context; 1: all do.
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
        for field in fields(self):
            name, value = field.name, getattr(self, field.name)
            least = 1 if field.default is MISSING else field.default
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InvalidOption(
                    f"{name} of the model is {value!r}",
                    f"expected a whole number of at least {least}",
                    f"correct it, or use one of {', '.join(MODEL_SHAPES)}",
                )
        if self.heads % self.kv_heads:
            raise InvalidOption(
                f"the model has {self.heads} heads of queries and {self.kv_heads} of keys",
                "expected a number of query heads that is a multiple of the key heads",
                "correct kv_heads",
            )

    def flops_per_token(self, vocab_size: int) -> float:
        """Forward FLOPs of one token at the end of a full context.

        ``vocab_size`` is the number of rows of the output layer, including padding.
        """
        width, shape = self.hidden_size, self
        experts = 6 * width * (shape.expert_size * shape.experts_used + shape.shared_size)
        router = 2 * width * shape.experts
        projections = 2 * width * (shape.heads + 2 * shape.kv_heads) * shape.head_size
        output = 2 * width * shape.heads * shape.head_size
        full = 1 / shape.full_attention_every
        attention = full * self._attention(shape.context)
        attention += (1 - full) * self._attention(min(shape.window or shape.context, shape.context))
        a_layer = experts + router + projections + output + attention
        return shape.layers * a_layer + self.output_flops(vocab_size)

    def output_flops(self, vocab_size: int) -> float:
        """FLOPs of the output layer per token, the part that depends on the vocabulary."""
        return 2.0 * self.hidden_size * vocab_size

    def _attention(self, tokens: int) -> float:
        return tokens * (4 * self.heads * self.head_size + 3 * self.heads)


LARGEST_FILE = 1 << 20  # bytes of a shape file
MULTIPLE = 128  # of the vocabulary sizes of models
_EACH_DOUBLING = 2**0.25
MODEL_SHAPES = {
    "llama-3.2-1b": ModelShape(2048, 16, 32, 8, 64, 8192, 8192),
    "llama-3.1-8b": ModelShape(4096, 32, 32, 8, 128, 14336, 8192),
    "llama-3.1-70b": ModelShape(8192, 80, 64, 8, 128, 28672, 8192),
    # the target of the pull request
    "marin-moe": ModelShape(6144, 64, 48, 8, 128, 3072, 16384, 8, 256, 6144, 4096, 6),
}
_FIELDS = tuple(field.name for field in fields(ModelShape))
_USUAL = {field.name: field.default for field in fields(ModelShape)}
_NEEDED = tuple(field.name for field in fields(ModelShape) if field.default is MISSING)
# Names of these sizes in the config.json of `transformers`.
_OF_TRANSFORMERS = {
    "hidden_size": "hidden_size",
    "num_hidden_layers": "layers",
    "num_attention_heads": "heads",
    "num_key_value_heads": "kv_heads",
    "head_dim": "head_size",
    "intermediate_size": "expert_size",
    "max_position_embeddings": "context",
}
# Models with one of these keys do not fit a `ModelShape`.
_OTHERWISE = (
    "num_local_experts", "num_experts", "n_routed_experts", "moe_intermediate_size", "kv_lora_rank",
    "layer_types", "sliding_window", "is_encoder_decoder", "text_config",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ServingCost:
    """The cost of text with one vocabulary.

    Attributes:
        bytes_per_token: on the measured text.
        flops_per_token: forward FLOPs.
        vocab_share: share of the output layer in these.
    """

    vocab_size: int
    bytes_per_token: float
    flops_per_token: float
    vocab_share: float

    @classmethod
    def of(cls, shape: ModelShape, vocab_size: int, bytes_per_token: float) -> ServingCost:
        flops = shape.flops_per_token(vocab_size)
        return cls(vocab_size, bytes_per_token, flops, shape.output_flops(vocab_size) / flops)

    @property
    def flops_per_byte(self) -> float:
        return self.flops_per_token / self.bytes_per_token if self.bytes_per_token else math.nan


@dataclass(frozen=True, slots=True)
class CheapestSize:
    """The vocabulary size with the lowest cost."""

    costs: tuple[ServingCost, ...]  # of all sizes, the smallest size first
    best: ServingCost
    at_edge: str  # ``smallest`` or ``largest`` if the best size is one of these, else empty

    def near(self, share: float = 0.01) -> tuple[int, int]:
        """The range of sizes around the best that cost at most this share more."""
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
        """A selection of sizes for output: four per doubling, both ends and the best."""
        costs_by_size = {
            cost.vocab_size: cost for cost in (self.costs[0], self.best, self.costs[-1])
        }
        edge = self.costs[0].vocab_size * _EACH_DOUBLING
        for cost in self.costs:
            if cost.vocab_size >= edge:
                costs_by_size[cost.vocab_size] = cost
                while edge <= cost.vocab_size:
                    edge *= _EACH_DOUBLING
        return tuple(costs_by_size[size] for size in sorted(costs_by_size))


def sizes_between(smallest: int, largest: int, step: int = MULTIPLE) -> list[int]:
    """Every multiple of a step from the smallest to the largest size, and the largest."""
    return sorted({*range(-(-smallest // step) * step, largest, step), largest})


def cheapest_size(shape: ModelShape, curve: Sequence[tuple[int, float]]) -> CheapestSize:
    """Find the lowest cost per byte on a curve of (vocab size, bytes per token)."""
    costs = tuple(ServingCost.of(shape, size, value) for size, value in sorted(curve))
    if not costs:
        raise InvalidOption(
            "there are no sizes to choose from",
            "expected a version with smaller sizes: byte-level BPE, measured on text",
            "train one with `bpeline train`",
        )
    best = min(costs, key=lambda cost: cost.flops_per_byte)
    edges = {costs[0].vocab_size: "smallest", costs[-1].vocab_size: "largest"}
    return CheapestSize(costs, best, edges.get(best.vocab_size, ""))


@dataclass(frozen=True, slots=True)
class NamedShape:
    """A model shape and its title.

    Metrics contain its label, as in `serving/flops_per_byte.llama-3.2-1b`, so figures of different
    shapes are never compared.
    """

    title: str
    shape: ModelShape

    def __str__(self) -> str:
        values = {name: getattr(self.shape, name) for name in _FIELDS}
        sizes = ", ".join(
            f"{name} {values[name]:,}" for name in _FIELDS if values[name] != _USUAL.get(name)
        )
        return f"{self.title} ({sizes})"

    @property
    def label(self) -> str:
        """The shape in metric names: a name of `MODEL_SHAPES`, or the title and a digest."""
        for name, shape in MODEL_SHAPES.items():
            if shape == self.shape:
                return name
        stem = re.sub(r"[^A-Za-z0-9_-]+", "_", Path(self.title).stem).strip("_")[:24]
        sizes = json.dumps(asdict(self.shape), sort_keys=True).encode()
        return f"{stem or 'model'}-{digest_of_bytes(sizes)[:8]}"

    def metric(self, name: str) -> str:
        """The name of one of `SERVING` for this shape."""
        return f"{name}.{self.label}"

    def figures(self, vocab_size: int, bytes_per_token: float) -> dict[str, float]:
        """The cost of text for this model: each metric of `SERVING` by its full name."""
        cost = ServingCost.of(self.shape, vocab_size, bytes_per_token)
        return {self.metric(name): float(getattr(cost, key)) for name, key in SERVING.items()}

    def as_dict(self) -> dict[str, Any]:
        return {"title": self.title, "label": self.label, **asdict(self.shape)}


def model_shape(typed: str, directory: Path | None = None) -> NamedShape:
    """Load the shape of a model.

    Args:
        typed: one of `MODEL_SHAPES`, a .toml or .json file with the fields of `ModelShape`, or the
            config.json of a dense model.
        directory: base of a relative path; the current directory if None.
    """
    checks.text("typed", typed)
    if typed in MODEL_SHAPES:
        return NamedShape(typed, MODEL_SHAPES[typed])
    path = (directory or Path()) / Path(typed).expanduser()
    try:
        text = read_file(path, LARGEST_FILE, pipes=True)
        content = parse_toml(text) if path.suffix == ".toml" else parse_json(text)
        if not isinstance(content, dict):
            raise ValueError("it holds no table")
    except (OSError, ValueError) as error:
        raise _unusable(typed, f"cannot be read: {error}") from error
    if "num_hidden_layers" in content:
        content = _of_config(typed, content)
    unknown = content.keys() - set(_FIELDS)
    if unknown:
        raise _unusable(typed, f"has unknown fields: {', '.join(sorted(unknown))}")
    try:
        return NamedShape(path.name, ModelShape(**content))
    except TypeError as error:
        missing = [name for name in _NEEDED if name not in content]
        raise _unusable(typed, f"lacks {', '.join(missing)}") from error


def _of_config(typed: str, content: dict[str, Any]) -> dict[str, Any]:
    known_values = {key: value for key, value in content.items() if value is not None}
    unsupported = [key for key in _OTHERWISE if known_values.get(key)]
    if unsupported:
        raise _unusable(
            typed, f"is of a model with {', '.join(unsupported)}, which is not supported"
        )
    sizes = {
        ours: known_values[key] for key, ours in _OF_TRANSFORMERS.items() if key in known_values
    }
    sizes.setdefault("kv_heads", sizes.get("heads", 0))
    if "head_size" not in sizes and {"hidden_size", "heads"} <= sizes.keys():
        sizes["head_size"] = sizes["hidden_size"] // max(sizes["heads"], 1)
    return sizes


def _unusable(typed: str, why: str) -> InvalidOption:
    return InvalidOption(
        f"the model shape {typed!r} {why}",
        f"expected {', '.join(MODEL_SHAPES)}; a .toml or .json file with {', '.join(_NEEDED)}, "
        f"and optionally {', '.join(_FIELDS[len(_NEEDED) :])}; or the config.json of a dense model",
        f"type `--model-shape {next(iter(MODEL_SHAPES))}`",
    )
