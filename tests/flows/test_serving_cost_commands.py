"""``--model-shape`` of evaluate, compare and sweep, and ``bpeline size``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from bpeline.flows.requests import model_shape
from bpeline.registry import load_tokenizer
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.evaluation import MODEL_SHAPES

Command = Callable[..., Result]
SMALL = MODEL_SHAPES["llama-3.2-1b"]
CONFIG = {
    "num_hidden_layers": 16, "hidden_size": 2048, "num_attention_heads": 32, "model_type": "llama",
    "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 8192, "vocab_size": 128256,
    "max_position_embeddings": 8192, "sliding_window": None,
}  # fmt: skip


def test_shapes_come_by_name_and_from_files(tmp_path: Path) -> None:
    assert model_shape("llama-3.2-1b").shape == SMALL
    config = tmp_path / "config.json"
    config.write_text(json.dumps(CONFIG))
    assert model_shape(str(config)).shape == SMALL
    del CONFIG["head_dim"]
    config.write_text(json.dumps(CONFIG))
    assert model_shape(str(config)).shape == SMALL
    own = tmp_path / "own.toml"
    own.write_text(
        "hidden_size=8\nlayers=2\nheads=4\nkv_heads=2\nhead_size=2\nexpert_size=16\ncontext=9\n"
    )
    assert str(model_shape(str(own))).startswith("own.toml (hidden_size 8, layers 2, heads 4")
    for content in ("layers=2", "hidden_size='8'", "colour=1", "[", "\xff"):
        own.write_bytes(content.encode("latin-1"))
        with pytest.raises(InvalidOption, match=r"model shape|hidden_size"):
            model_shape(str(own))
    for key in ("num_local_experts", "kv_lora_rank", "sliding_window"):
        config.write_text(json.dumps({**CONFIG, key: 8}))
        with pytest.raises(InvalidOption, match=key):
            model_shape(str(config))
    with pytest.raises(InvalidOption, match=r"llama-3\.1-8b"):
        model_shape("llama-9")


@pytest.mark.slow
def test_every_command_says_the_same_cost(corpus: Path, bpeline: Command) -> None:
    def printed(*arguments: str) -> str:
        result = bpeline(*arguments)
        assert result.exit_code == 0, result.output
        return result.stdout

    held_out = ("--held-out", "0.3")
    for size in ("400", "1500"):
        printed("train", "corpus", "--name", "news", "--vocab-size", size, *held_out)
    shape = ("--model-shape", "llama-3.2-1b")
    (measured,) = json.loads(printed("evaluate", "news/2", *shape, "--json"))
    figures = measured["slices"]["all"]
    size = load_tokenizer("news/2").vocab_size
    cost = SMALL.flops_per_token(size) / figures["compression/bytes_per_token"]
    assert figures["serving/flops_per_byte"] == pytest.approx(cost)
    assert "MFLOPs/byte" in printed("evaluate", "news/2", *shape)
    compared = json.loads(printed("compare", "news/1", "news/2", *shape, "--json"))
    (pair,) = [one for one in compared["metrics"] if one["key"] == "serving/flops_per_byte"]
    assert pair["second"] == pytest.approx(cost)
    sizes = json.loads(printed("size", "news/2", *shape, "--json"))
    assert sizes["sizes"][-1]["flops_per_byte"] == pytest.approx(cost)
    assert (sizes["least"], sizes["at_edge"]) == (size, "largest")
    assert sizes["load"] == f"news/2:{size}"
    shown = printed("size", "news/2", *shape)
    assert "a larger vocabulary may cost less" in shown
    options = ("--name", "news", "--sizes", "300,400", *shape, *held_out, "--json")
    swept = json.loads(printed("sweep", "corpus", *options))
    for one in swept["combinations"]:
        per_token = SMALL.flops_per_token(one["vocab_size"])
        expected = per_token / one["metrics"]["compression/bytes_per_token"]
        assert one["metrics"]["serving/flops_per_byte"] == pytest.approx(expected)
    assert bpeline("size", "news/2").exit_code == 2
    assert bpeline("compare", "news/1", "news/2", "--model-shape", "none").exit_code == 2
