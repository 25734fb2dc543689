"""``bpeline train --vocab-size auto``: the size that is registered is the one that costs least."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from interruptions import SAVE, Interrupted

from bpeline.flows.requests import TrainingRequest, read_project
from bpeline.flows.serving.project_deployments import project_deployments
from bpeline.flows.sweep import sweep
from bpeline.registry import load_tokenizer
from bpeline.registry.evaluation_sets import read_set, texts_of
from bpeline.registry.loading import resolve
from bpeline.registry.opening import open_registry
from bpeline.registry.records.references import parse_registered
from bpeline.registry.versions.lineage import Lineage
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.evaluation import WELL_USED, cheapest_size, model_shape

Command = Callable[..., Result]
# The wider its MLP, the less of a token's cost is the output layer's: what 120 kB of text give
# costs a narrow one least at the smallest size, a wide one at the largest.
SIZES = "layers=1\nheads=1\nkv_heads=1\nhead_size=16\nhidden_size=8\ncontext=64\nexpert_size="
MLPS = {"narrow": 16, "middle": 2_000, "wide": 1_000_000}


def asked(**more: Any) -> TrainingRequest:
    return TrainingRequest.checked(**{"paths": ["a.txt"], "name": "n", **more})


def test_auto_asks_up_to_the_largest_size(tmp_path: Path) -> None:
    auto = asked(vocab_size="auto", model_shape="llama-3.2-1b")
    assert (auto.chooses_size, auto.vocab_size, auto.smallest_size) == (True, 131_072, 1_024)
    config = auto.as_config()
    told = ("vocab_size", "largest_size", "model_shape")
    assert [config[name] for name in told] == ["auto", 131_072, "llama-3.2-1b"]
    assert TrainingRequest.checked(**json.loads(json.dumps(config))) == auto
    # A form of Prefect sends the usual vocab size, too.
    form = asked(vocab_size=32_000, largest_size=4_096, model_shape="llama-3.2-1b")
    assert form == asked(vocab_size="auto", largest_size=4_096, model_shape="llama-3.2-1b")
    decided = form.of_size(2_048)
    assert decided == asked(vocab_size=2_048)
    assert not {"largest_size", "model_shape"} & decided.as_config().keys()
    tokens = [f"token{number}" for number in range(9)]
    many = asked(largest_size=9_000, model_shape="marin-moe", special_tokens=tokens, reserve=1_000)
    assert many.smallest_size == 256 + 9 + 1_000
    required = asked(largest_size=9_000, model_shape="marin-moe", required_tokens=["ab" * 500])
    assert required.smallest_size > 256 + 5
    (tmp_path / "own.toml").write_text(f"{SIZES}8\n")
    file = asked(largest_size=9_000, model_shape=str(tmp_path / "own.toml"))
    assert file.model.shape.expert_size == 8


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"vocab_size": "auto"}, "model"),
        ({"model_shape": "llama-3.2-1b"}, "llama-3.2-1b|vocab.size"),
        ({"vocab_size": "auto", "model_shape": "llama-9"}, "llama-9"),
        ({"vocab_size": 8_000, "largest_size": 9_000, "model_shape": "marin-moe"}, "8000"),
        ({"largest_size": 1_024, "model_shape": "marin-moe"}, "1,024"),
        ({"largest_size": 9_000, "round_to": 128, "model_shape": "marin-moe"}, "--round-to 128"),
        ({"largest_size": 9_000, "algorithm": "wordpiece", "model_shape": "marin-moe"}, "wordp"),
        (
            {
                "largest_size": 9_000,
                "extends": "a" * 64,
                "continued_ids": 300,
                "model_shape": "marin-moe",
            },
            "extend",
        ),
        ({"vocab_size": "large"}, "vocab.size"),
    ],
)
def test_what_cannot_be_chosen_is_refused(more: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidOption, match=said) as refused:
        asked(**more)
    assert refused.value.next_step


@pytest.mark.parametrize(
    ("algorithm", "why"),
    [
        ("char-bpe", "two merges can produce the same token"),
        ("wordpiece", "the longest token that fits"),
        ("frequency-bpe", "the most frequent merge first"),
    ],
)
def test_why_sizes_of_an_algorithm_are_measured_one_by_one(algorithm: str, why: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        asked(largest_size=9_000, algorithm=algorithm, model_shape="marin-moe")
    assert why in refused.value.accepted
    assert f"--algorithm {algorithm} --sizes" in refused.value.next_step


def test_a_project_says_auto_and_so_does_its_deployment(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(f"{SIZES}8\n")
    path = tmp_path / "bpeline.toml"
    path.write_text(
        '[train]\nname = "news"\npaths = ["a.txt"]\nvocab_size = "auto"\n'
        'model_shape = "own.toml"\n[schedule]\nretrain = "0 3 * * *"\n'
    )
    project = read_project(path)
    usual = Path(__file__).parents[2] / "prefect.yaml"
    (deployment,) = project_deployments(project, usual)["deployments"]
    told = deployment["parameters"]["request"]
    assert (told["vocab_size"], told["model_shape"]) == ("auto", str(tmp_path / "own.toml"))
    request = TrainingRequest.checked(**told)
    assert (request.chooses_size, request.largest_size) == (True, 131_072)


def test_costs_near_the_least_are_told_and_enough_of_all() -> None:
    """Independently: every size within one per cent of the least, side by side with it."""
    shape = model_shape("llama-3.2-1b").shape
    curve = [(size, 3.0 + 0.4 * (1 - 2_000 / size)) for size in range(1_024, 60_000, 128)]
    found = cheapest_size(shape, curve)
    per_byte = {size: shape.flops_per_token(size) / value for size, value in curve}
    least = min(per_byte, key=lambda size: per_byte[size])
    near = [size for size in per_byte if per_byte[size] <= 1.01 * per_byte[least]]
    assert (found.best.vocab_size, found.near(0.01)) == (least, (near[0], near[-1]))
    shown = [cost.vocab_size for cost in found.shown]
    assert {1_024, least, curve[-1][0]} <= {*shown}
    assert 20 < len(shown) < 30
    assert all(after / before < 1.35 for before, after in pairwise(shown))


@pytest.fixture
def auto(corpus: Path, tmp_path: Path, bpeline: Command) -> Callable[..., dict[str, Any]]:
    for name, inner in MLPS.items():
        (tmp_path / f"{name}.toml").write_text(f"{SIZES}{inner}\n")

    def train(shape: str, *options: object, name: str = "news") -> dict[str, Any]:
        size = ("--vocab-size", "auto", "--model-shape", f"{shape}.toml")
        given = ("train", corpus.name, "--name", name, "--held-out", "0.3", *size, *options)
        result = bpeline(*map(str, given), "--json")
        assert result.exit_code == 0, result.output
        told: dict[str, Any] = json.loads(result.stdout)
        return told

    return train


def plain_costs(reference: str, shape: str, sizes: range) -> dict[int, float]:
    """FLOPs per byte of smaller sizes of a version: every document encoded, the formula by hand."""
    registry = open_registry()
    version = resolve(registry, parse_registered(reference))
    named = registry.catalogue.evaluation_set(version.name)
    assert named is not None
    texts = texts_of(registry.workspace, read_set(registry.workspace, named.digest))
    documents = [one.decode() for text in texts for one in text.documents]
    size_of_text = sum(len(one.encode()) for one in documents)
    width, costs = 8, {}
    for size in sizes:
        tokenizer = load_tokenizer(f"{reference}:{size}")
        tokens = sum(len(tokenizer.encode(one)) for one in documents)
        attention = 64 * (4 * 16 + 3)
        layer = 6 * width * MLPS[shape] + 2 * width * 3 * 16 + 2 * width * 16 + attention
        costs[size] = (layer + 2 * width * size) * tokens / size_of_text
    return costs


@pytest.mark.night
def test_the_registered_size_is_the_one_that_costs_least(
    auto: Callable[..., dict[str, Any]], bpeline: Command, tmp_path: Path
) -> None:
    chosen = auto("middle", "--largest-size", 2_048)
    size, record = chosen["vocab_size"], chosen["chosen_size"]
    full = ("--name", "full", "--vocab-size", "2048", "--held-out", "0.3", "--json")
    large = json.loads(bpeline("train", "corpus", *full).stdout)
    costs = plain_costs("full/1", "middle", range(1_024, 2_048, 128))
    assert size == min(costs, key=lambda one: costs[one])
    assert (record["smallest"], record["largest"], record["reached"]) == (1_024, 2_048, 2_048)
    for at, _, cost in record["curve"]:
        if at in costs:
            assert cost == pytest.approx(costs[at]), at
    (named,) = [name for name in chosen["metrics"] if name.startswith("serving/flops_per_byte.")]
    assert chosen["metrics"][named] == pytest.approx(costs[size])
    suggested = {key for key in (*chosen["metrics"], *large["metrics"]) if "suggested" in key}
    assert not suggested - {WELL_USED}, "the knee is in evaluation.json alone"
    assert WELL_USED not in chosen["metrics"], "one size is suggested"
    # It is the tokenizer of a training to that size, and of the larger one's first merges.
    fixed = ("--name", "fixed", "--vocab-size", str(size), "--held-out", "0.3", "--json")
    same = json.loads(bpeline("train", "corpus", *fixed).stdout)
    assert chosen["digest"] == same["digest"] == load_tokenizer(f"full/1:{size}").digest
    assert large["digest"] != same["digest"]
    # What is recorded says that it was chosen, by which shape, of which sizes, on which texts.
    registry = open_registry()
    version = resolve(registry, parse_registered("news/1"))
    run = registry.tracker._client.get_run(version.mlflow_run_id).data
    assert (run.params["vocab_size"], run.params["chosen_vocab_size"]) == ("auto", str(size))
    assert run.params["chosen_for"].startswith("middle.toml (hidden_size 8, ")
    assert run.params["chosen_from"] == "1024 to 2048"
    assert run.metrics[named] == pytest.approx(costs[size])
    directory = registry.workspace.version_directory(version.digest)
    kept = json.loads((directory / "evaluation.json").read_text())
    assert kept["suggested"].keys() == {"knee", "well_used"}
    assert kept["chosen_sizes"] == {"news": record}, "a fixed training of the same shares the file"
    assert record["set"] == kept["set"]["digest"]
    pictures = registry.tracker._client.list_artifacts(version.mlflow_run_id, "figures")
    assert "figures/size.svg" in {one.path for one in pictures}
    assert bpeline("report", "news/1").exit_code == 0
    page = Path("news-1.html").read_text()
    assert "middle.toml" in page
    assert record["said"] in page
    assert record["said"] in bpeline("show", "news/1").stdout
    sizes = bpeline("evaluate", "news/1", "--sizes", "--model-shape", "middle.toml").stdout
    assert "1,024 to 2,048" in sizes
    # What makes it again asks no text: the shape may be gone.
    (tmp_path / "middle.toml").unlink()
    assert Lineage.of(registry, version).request["vocab_size"] == size
    verified = bpeline("verify", "news/1")
    assert verified.exit_code == 0, verified.output
    drifted = bpeline("drift", "news@candidate", "corpus")
    assert drifted.exit_code == 0, drifted.output


@pytest.mark.night
def test_a_least_at_the_edge_is_said_to_be_there(auto: Callable[..., dict[str, Any]]) -> None:
    small = auto("narrow", "--largest-size", 2_000, name="small")
    assert (small["vocab_size"], small["chosen_size"]["at_edge"]) == (1_024, "smallest")
    assert any("smallest" in note for note in small["notes"])
    large = auto("wide", "--largest-size", 1_100, name="large")
    assert (large["vocab_size"], large["chosen_size"]["at_edge"]) == (1_100, "largest")
    assert any("`--largest-size 2200`" in n for n in large["notes"])
    ends = auto("wide", "--largest-size", 100_000, name="ends")
    record = ends["chosen_size"]
    assert ends["vocab_size"] == record["vocab_size"] == record["reached"] < 2_500
    assert any("100,000" in note for note in ends["notes"])
    inside = auto("middle", "--largest-size", 100_000, name="inside")
    assert inside["chosen_size"]["at_edge"] is None
    assert not any("the cheapest is" in note or "stopped early" in note for note in inside["notes"])


@pytest.mark.night
def test_slots_are_ids_that_cost_too(auto: Callable[..., dict[str, Any]], bpeline: Command) -> None:
    options = ("--reserve", "7", "--special-token", "<|a|>", "--round-to", "100")
    chosen = auto("middle", "--largest-size", 2_000, *options)
    size = chosen["vocab_size"]
    assert size % 100 == 0
    assert load_tokenizer("news/1").vocab_size == size
    fixed = ("--name", "fixed", "--vocab-size", str(size), "--held-out", "0.3", "--json")
    assert (
        json.loads(bpeline("train", "corpus", *fixed, *options).stdout)["digest"]
        == (chosen["digest"])
    )
    for at, value, _ in chosen["chosen_size"]["curve"]:
        if at == size:
            assert value == pytest.approx(chosen["metrics"]["compression/bytes_per_token"])
    assert bpeline("verify", "news/1").exit_code == 0


@pytest.mark.night
def test_it_goes_on_where_it_was_interrupted_and_where_text_was_added(
    interrupted: Interrupted,
    auto: Callable[..., dict[str, Any]],
    bpeline: Command,
    corpus: Path,
    tmp_path: Path,
) -> None:
    size = ("--vocab-size", "auto", "--largest-size", "2048", "--model-shape", "middle.toml")
    given = ("train", "corpus", "--name", "news", "--held-out", "0.3", *size)
    stopped = interrupted(*SAVE, 700, signal.SIGINT, *given)
    assert stopped.returncode == 130, stopped.stderr
    resumed = json.loads(bpeline("resume", "--json").stdout)
    assert resumed["chosen_size"]["largest"] == 2_048
    undisturbed = auto("middle", "--largest-size", 2_048, name="undisturbed")
    assert resumed["digest"] == undisturbed["digest"]
    again = auto("middle", "--largest-size", 2_048)
    assert (again["newly_registered"], again["digest"]) == (False, resumed["digest"])
    (corpus / "part-9.txt").write_text("zebra quagga okapi " * 3_000)
    grown = auto("middle", "--largest-size", 2_048)
    assert (grown["newly_registered"], grown["chunks_reused"]) == (True, 3)
    plan = bpeline(*given, "--dry-run").stdout
    assert "choose size" in plan
    assert "of 1,024 to 2,048 ids" in plan


@pytest.mark.night
def test_more_ids_of_a_version_are_chosen_among_too(
    auto: Callable[..., dict[str, Any]], bpeline: Command
) -> None:
    """Extensions and superwords: independently, every smaller size encodes the evaluation set."""
    assert auto("narrow", "--largest-size", 2_000)["vocab_size"] == 1_024
    chosen = ("--vocab-size", "auto", "--model-shape", "middle.toml")
    planned = bpeline(
        "derive", "extend", "news/1", *chosen, "--largest-size", "2000", "--dry-run"
    ).stdout
    assert "of 1,025 to 2,000 ids" in planned
    for name, command, more in (
        ("longer", "extend", ()),
        ("across", "superwords", ("--transition-size", "1024")),
    ):
        given = ("derive", command, "news/1", "--name", name, "--json", *more)
        result = bpeline(*given, *chosen, "--largest-size", "2000")
        assert result.exit_code == 0, result.output
        told = json.loads(result.stdout)
        size = told["vocab_size"]
        fixed = json.loads(bpeline(*given, "--vocab-size", str(size)).stdout)
        assert (fixed["digest"], fixed["newly_registered"]) == (told["digest"], False)
        assert 1_024 < told["chosen_size"]["smallest"] <= 1_152
        largest = json.loads(bpeline(*given, "--vocab-size", "2000").stdout)
        found = plain_costs(f"{name}/{largest['version']}", "middle", range(1_152, 2_000, 128))
        cheapest = min(found, key=lambda one: found[one])
        assert size == (2_000 if told["chosen_size"]["at_edge"] else cheapest)
        for at, _, cost in told["chosen_size"]["curve"]:
            if at in found:
                assert cost == pytest.approx(found[at]), at
        verified = bpeline("verify", f"{name}/1")
        assert verified.exit_code == 0, verified.output


@pytest.mark.night
def test_where_no_size_can_be_chosen_the_command_says_why(corpus: Path, bpeline: Command) -> None:
    made = bpeline("train", "corpus", "--name", "news", "--vocab-size", 600)
    assert made.exit_code == 0, made.output
    for said, command in (
        ("with --vocab-size 900", "derive extend news/1 --vocab-size 900 --model-shape marin-moe"),
        ("model", "derive extend news/1 --vocab-size auto"),
        ("model", "derive superwords news/1 --vocab-size auto"),
        (
            "with --vocab-size 900",
            "derive superwords news/1 --vocab-size 900 --model-shape marin-moe",
        ),
        ("300 ids were", "derive superwords news/1 --vocab-size auto --largest-size 300"),
        (
            "at the same number of ids",
            "train --joint a=corpus --joint b=corpus --name ab --vocab-size auto "
            "--model-shape marin-moe",
        ),
    ):
        refused = bpeline(*command.split())
        assert refused.exit_code == 2, command
        assert said in refused.stderr
        assert "type " in refused.stderr or "add `--model-shape" in refused.stderr


def test_sweeps_choose_no_size(corpus: Path) -> None:
    with pytest.raises(InvalidOption):
        sweep(["corpus"], "n", [300], largest_size=9_000, model_shape=None)


def test_a_new_project_is_told_auto(bpeline: Command, corpus: Path) -> None:
    Path("own.toml").write_text(f"{SIZES}8\n")
    size = ("--vocab-size", "auto", "--largest-size", "4096", "--model-shape", "own.toml")
    written = bpeline("init", "corpus", "--name", "news", *size)
    assert written.exit_code == 0, written.output
    request = TrainingRequest.checked(**read_project(Path("bpeline.toml")).parameters)
    assert (request.chooses_size, request.vocab_size) == (True, 4_096)
    assert request.model_shape == str(Path("own.toml").absolute())
    assert "of 1,024 to 4,096 ids" in bpeline("train", "--dry-run").stdout
    refused = bpeline(
        "init", "corpus", "--name", "news", "--vocab-size", "auto", "--project", "b.toml"
    )
    assert refused.exit_code == 2
    assert "model" in refused.stderr
    assert not Path("b.toml").exists()
