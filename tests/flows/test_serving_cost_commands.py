"""``--model-shape`` of evaluate, compare and sweep, and ``evaluate --sizes``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from bpeline.registry import load_tokenizer
from bpeline.registry.opening import open_registry
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.evaluation import (
    MODEL_SHAPES,
    NamedShape,
    model_shape,
)

pytestmark = pytest.mark.fake_mlflow

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
    assert str(model_shape(str(own))).startswith("own.toml (hidden_size 8, ")
    for content in ("layers=2", "hidden_size='8'", "colour=1", "[", "\xff"):
        own.write_bytes(content.encode("latin-1"))
        with pytest.raises(InvalidOption, match=r"model.shape|hidden_size"):
            model_shape(str(own))
    for key in ("num_local_experts", "kv_lora_rank", "sliding_window"):
        config.write_text(json.dumps({**CONFIG, key: 8}))
        with pytest.raises(InvalidOption, match=key):
            model_shape(str(config))
    with pytest.raises(InvalidOption, match=r"llama-3\.1-8b"):
        model_shape("llama-9")


def test_the_name_of_a_figure_of_cost_tells_two_shapes_apart(tmp_path: Path) -> None:
    """Presets by their names, also from files; files of one name by what they say."""
    names = []
    for number, context in enumerate((8192, 4096)):
        place = tmp_path / str(number) / "config.json"
        place.parent.mkdir()
        place.write_text(json.dumps({**CONFIG, "max_position_embeddings": context}))
        names.append(model_shape(str(place)).metric("serving/flops_per_byte"))
        assert model_shape("config.json", place.parent) == model_shape(str(place))
    assert names[0] == "serving/flops_per_byte.llama-3.2-1b"
    assert names[1].startswith("serving/flops_per_byte.config-")
    odd = model_shape(str(place)).shape
    assert NamedShape("ä b/€.toml", odd).label.isascii()
    figures = model_shape("marin-moe").figures(128_256, 3.3)
    assert figures["serving/flops_per_byte.marin-moe"] == pytest.approx(9.52495e10 / 3.3, 1e-6)


@pytest.mark.night
def test_every_command_says_the_same_cost(corpus: Path, bpeline: Command) -> None:
    def printed(*arguments: str) -> str:
        result = bpeline(*arguments)
        assert result.exit_code == 0, result.output
        return result.stdout

    held_out = ("--held-out", "0.5")
    for size in ("400", "1500"):
        printed("train", "corpus", "--name", "news", "--vocab-size", size, *held_out)
    shape = ("--model-shape", "llama-3.2-1b")
    (measured,) = json.loads(printed("evaluate", "news/2", *shape, "--json"))
    figures, per_byte = measured["slices"]["all"], "serving/flops_per_byte.llama-3.2-1b"
    assert measured["model"]["label"] == "llama-3.2-1b"
    size = load_tokenizer("news/2").vocab_size
    cost = SMALL.flops_per_token(size) / figures["compression/bytes_per_token"]
    assert figures[per_byte] == pytest.approx(cost)
    assert "MFLOPs/byte" in printed("evaluate", "news/2", *shape)
    compared = json.loads(printed("compare", "news/1", "news/2", *shape, "--json"))
    (pair,) = [one for one in compared["metrics"] if one["key"] == per_byte]
    assert pair["second"] == pytest.approx(cost)
    (evaluated,) = json.loads(printed("evaluate", "news/2", "--sizes", *shape, "--json"))
    sizes = evaluated["sizes"]
    assert sizes["sizes"][-1]["flops_per_byte"] == pytest.approx(cost)
    assert (sizes["least"], sizes["at_edge"]) == (size, "largest")
    assert sizes["load"] == f"news/2:{size}"
    (of_name,) = json.loads(printed("evaluate", "news", "--sizes", *shape, "--json"))
    assert of_name["sizes"] == sizes, "by the name alone, the version that an alias points to"
    shown = printed("evaluate", "news/2", "--sizes", *shape)
    assert re.search(r"news/2 [^/]*\blarger\b", shown), "there is no larger one to ask about"
    options = ("--name", "news", "--sizes", "300,400", *shape, *held_out, "--json")
    swept = json.loads(printed("sweep", "corpus", *options))
    for one in swept["combinations"]:
        per_token = SMALL.flops_per_token(one["vocab_size"])
        expected = per_token / one["metrics"]["compression/bytes_per_token"]
        assert one["metrics"][per_byte] == pytest.approx(expected)
    assert swept["model"]["title"] == "llama-3.2-1b"
    run_id = swept["link"].rpartition("/")[2].partition("?")[0]
    run = open_registry().tracker._client.get_run(run_id).data
    assert run.params["model_shape"].startswith("llama-3.2-1b (hidden_size 2,048, ")
    # A rule judges the same cost, of both versions with the shape that it names.
    printed("promote", "news/2")
    rule = '[[rule]]\nmetric = "serving/flops_per_byte"\ndirection = "lower"\ntolerance = 0.01\n'
    Path("rules.toml").write_text(f'{rule}model_shape = "llama-3.2-1b"\n')
    refused = bpeline("promote", "news/1", "--rules", "rules.toml")
    assert refused.exit_code == 3
    low, high = re.findall(r"changes by \+(.+?)% … \+(.+?)% ", refused.stderr)[0]
    assert float(low) < 100 * (pair["first"] / cost - 1) < float(high)
    assert per_byte in refused.stderr
    assert "+1.00%" in refused.stderr
    printed("promote", "news/1")
    printed("promote", "news/2", "--rules", "rules.toml")
    refused = bpeline("evaluate", "news/2", "--sizes")
    assert refused.exit_code == 2
    assert "`bpeline evaluate news/2 --sizes --model-shape llama-3.1-8b`" in refused.stderr
    assert bpeline("compare", "news/1", "news/2", "--model-shape", "none").exit_code == 2
