"""Which model is meant: a name, or a file that says its sizes; and what its figures are called.

A figure of a model shape has the shape in its name, `serving/flops_per_byte.llama-3.2-1b`, so that
figures of two shapes are never set side by side as if they were of one. Computes nothing.
"""

from __future__ import annotations

import json
import re
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any

from bpeline.tokenizer_core.arguments import checked
from bpeline.tokenizer_core.bounded_files import parse_json, parse_toml, read_file
from bpeline.tokenizer_core.digests import digest_of_bytes
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.evaluation.metric_names import SERVING
from bpeline.tokenizer_core.evaluation.serving_cost import MODEL_SHAPES, ModelShape, ServingCost

LARGEST_FILE = 1 << 20  # bytes
_FIELDS = tuple(field.name for field in fields(ModelShape))
_USUAL = {field.name: field.default for field in fields(ModelShape)}
_NEEDED = tuple(field.name for field in fields(ModelShape) if field.default is MISSING)
# What the same sizes are called in the config.json of a model for `transformers`.
_OF_TRANSFORMERS = {
    "hidden_size": "hidden_size",
    "num_hidden_layers": "layers",
    "num_attention_heads": "heads",
    "num_key_value_heads": "kv_heads",
    "head_dim": "head_size",
    "intermediate_size": "expert_size",
    "max_position_embeddings": "context",
}
# Models that have one of these are shaped otherwise than a `ModelShape` can say.
_OTHERWISE = (
    "num_local_experts", "num_experts", "n_routed_experts", "moe_intermediate_size", "kv_lora_rank",
    "layer_types", "sliding_window", "is_encoder_decoder", "text_config",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class NamedShape:
    """A model shape and what to call it."""

    title: str
    shape: ModelShape

    def __str__(self) -> str:
        told = {name: getattr(self.shape, name) for name in _FIELDS}
        sizes = ", ".join(
            f"{name} {told[name]:,}" for name in _FIELDS if told[name] != _USUAL.get(name)
        )
        return f"{self.title} ({sizes})"

    @property
    def label(self) -> str:
        """The shape in the name of a metric: that of `MODEL_SHAPES` with these sizes, else what it
        is called and a digest of its sizes."""
        for name, shape in MODEL_SHAPES.items():
            if shape == self.shape:
                return name
        said = re.sub(r"[^A-Za-z0-9_-]+", "_", Path(self.title).stem).strip("_")[:24]
        sizes = json.dumps(asdict(self.shape), sort_keys=True).encode()
        return f"{said or 'model'}-{digest_of_bytes(sizes)[:8]}"

    def metric(self, name: str) -> str:
        """What one of `SERVING` is called where it is of this shape."""
        return f"{name}.{self.label}"

    def figures(self, vocab_size: int, bytes_per_token: float) -> dict[str, float]:
        """What text costs this model: a figure for each of `SERVING`, by its name with the shape.

        Args:
            vocab_size: number of ids.
            bytes_per_token: on the text.
        """
        cost = ServingCost.of(self.shape, vocab_size, bytes_per_token)
        return {self.metric(name): float(getattr(cost, key)) for name, key in SERVING.items()}

    def as_dict(self) -> dict[str, Any]:
        """JSON values: what it is called, and its sizes."""
        return {"title": self.title, "label": self.label, **asdict(self.shape)}


@checked
def model_shape(typed: str, directory: Path | None = None) -> NamedShape:
    """The shape of a model.

    Args:
        typed: one of `MODEL_SHAPES`; a .toml or .json file with the fields of `ModelShape`; or the
            config.json of a dense model.
        directory: what the path of a file is relative to; the current one when None.

    Raises:
        InvalidOption: neither, or a file that leaves sizes open.
    """
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
        raise _unusable(typed, f"says {', '.join(sorted(unknown))}")
    try:
        return NamedShape(path.name, ModelShape(**content))
    except TypeError as error:
        missing = [name for name in _NEEDED if name not in content]
        raise _unusable(typed, f"does not say {', '.join(missing)}") from error


def _of_config(typed: str, content: dict[str, Any]) -> dict[str, Any]:
    told = {key: value for key, value in content.items() if value is not None}
    otherwise = [key for key in _OTHERWISE if told.get(key)]
    if otherwise:
        raise _unusable(
            typed, f"is of a model with {', '.join(otherwise)}, which config.json says in many ways"
        )
    sizes = {ours: told[key] for key, ours in _OF_TRANSFORMERS.items() if key in told}
    sizes.setdefault("kv_heads", sizes.get("heads", 0))
    if "head_size" not in sizes and {"hidden_size", "heads"} <= sizes.keys():
        sizes["head_size"] = sizes["hidden_size"] // max(sizes["heads"], 1)
    return sizes


def _unusable(typed: str, why: str) -> InvalidOption:
    return InvalidOption(
        f"the model shape {typed!r} {why}",
        f"names are {', '.join(MODEL_SHAPES)}; a .toml or .json file has "
        f"{', '.join(_NEEDED)}, and perhaps {', '.join(_FIELDS[len(_NEEDED) :])}; or name the "
        "config.json of a dense model",
        f"type `--model-shape {next(iter(MODEL_SHAPES))}`",
    )
