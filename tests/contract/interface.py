"""What programs rely on: names and signatures, the JSON of commands, exit codes, what MLflow holds.

`python_interface` reads the package; `command_interface` types every command in one folder.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import mlflow
from click.testing import CliRunner
from contract_texts import contract_text

import bpeline
from bpeline.flows.cli.main import all_commands, cli

RULES = '[[rule]]\nmetric = "compression/bytes_per_token"\ndirection = "higher"\ntolerance = 0.1\n'
TYPED = """
train one.txt --name v --vocab-size 300 --held-out 0.3 --special-token <|end|>
train one.txt two.txt --name v --vocab-size 320 --held-out 0.3 --special-token <|end|>
train one.txt --name v --vocab-size 320 --dry-run
train toy.txt --algorithm char-bpe --merges 3 --show-steps
train one.txt --name c --algorithm char-bpe --merges 40
train --source a=one.txt --source b=two.txt --name two --vocab-size 300 --held-out 0.3
versions
show v/1
show v/1/../nothing
compare v/1 v/2
compare v/1 v/2 --eval one.txt -o compared.html
promote v/1
promote v/2 --rules rules.toml
promote v/2 --reason better
rollback v
show v
evaluate v/1
drift v@candidate two.txt
evaluate v --set-from two.txt --separator none
evaluate --sets
encode v/1 lower
encode v/1 one.txt -o tokens
decode v/1 104 105
count v/1 one.txt
explain v/1 lower
export v/1 --format hf --output tokenizer.json
import tokenizer.json --name w
derive extend v/1 --vocab-size 330
derive superwords v/2 --vocab-size 340 --name s
derive rename v/1 <|end|>=<|stop|>
derive prune v/2 --min-count 3 -o plan.json
evaluate v/2 --sizes --model-shape llama-3.2-1b
sweep two/1 --weights a=2
sweep one.txt --name sizes --sizes 290,300
compress one.txt -o one.small
compress --expand one.small -o one.back
verify v/1
export --check v/1
report v/1 -o report.html
sql SELECT(1)
doctor
gc --dry-run
resume
doctor --dismiss 00000000
delete c/1 --dry-run
delete c@candidate --yes
init one.txt --name v
deploy
train
nonsense
"""
# What does not depend on what a program does, but on texts, machines and versions of packages.
_DATA = re.compile(r"[0-9.]+|.*[@<| ].*|.+/[0-9]+|.+\.(txt|json|toml)|[0-9a-f]{12,}")


def python_interface() -> dict[str, str]:
    """Public names → their signatures; members of classes as ``Class.member``."""
    found = {}
    for name in sorted(bpeline.__all__):
        public = getattr(bpeline, name)
        found[name] = str(inspect.signature(public))
        if inspect.isclass(public):
            for member in sorted(vars(public)):
                if not member.startswith("_"):
                    found[f"{name}.{member}"] = _signature(inspect.getattr_static(public, member))
    return found


def _signature(member: Any) -> str:
    if isinstance(member, staticmethod | classmethod):
        return str(inspect.signature(member.__func__))
    return str(inspect.signature(member)) if inspect.isfunction(member) else "value"


def options() -> dict[str, list[str]]:
    """Command → its arguments and options."""
    return {
        name: sorted(opt for one in command.params for opt in [*one.opts, *one.secondary_opts])
        for name, command in all_commands().items()
    }


def command_interface(folder: Path) -> dict[str, Any]:
    """Each typed line → its exit code and the shape of its JSON; the folder is the current one."""
    (folder / "one.txt").write_text(contract_text(("english", "code"), 3_000), "utf-8")
    (folder / "two.txt").write_text(contract_text(("russian", "german"), 3_000, 5), "utf-8")
    (folder / "toy.txt").write_text("low low lower newest newest widest\n", "utf-8")
    (folder / "rules.toml").write_text(RULES, "utf-8")
    runner, found, known = CliRunner(), {}, options()
    for typed in TYPED.strip().splitlines():
        words = typed.split(" ")
        name = " ".join(words[:2]) if words[0] == "derive" else words[0]
        as_json = ["--json"] if "--json" in known.get(name, ()) else []
        ended = runner.invoke(cli, [*words, *as_json])
        found[typed] = {"exit": ended.exit_code, "json": _shape_of(ended.stdout)}
    return found


def _shape_of(printed: str) -> Any:
    try:
        return shape(json.loads(printed))
    except ValueError:
        lines = [line for line in printed.splitlines() if line.startswith("{")]
        return shape([json.loads(line) for line in lines]) if lines else None


def shape(value: Any) -> Any:
    """Types instead of values; keys that are data (numbers, paths, references) are one key."""
    if isinstance(value, Mapping):
        made: dict[str, Any] = {}
        for key, one in value.items():
            name = "*" if _DATA.fullmatch(key) else key
            made[name] = _both(made.get(name), shape(one))
        return made
    if isinstance(value, list):
        union: Any = None
        for one in value:
            union = _both(union, shape(one))
        return [union]
    return "null" if value is None else type(value).__name__


def _both(one: Any, other: Any) -> Any:
    """What is either."""
    if one is None or one == other:
        return other
    if isinstance(one, dict) and isinstance(other, dict):
        return {key: _both(one.get(key), other.get(key)) for key in [*one, *other]}
    if isinstance(one, list) and isinstance(other, list):
        return [_both(one[0], other[0])]
    if other is None:
        return one
    return " or ".join(sorted(set(_names(one)) | set(_names(other))))


def _names(one: Any) -> Iterable[str]:
    return one.split(" or ") if isinstance(one, str) else [type(one).__name__]


def in_mlflow(uri: str) -> dict[str, Any]:
    """What MLflow holds of ``v/1``, which was trained, and ``w/1``, which was imported."""
    client = mlflow.MlflowClient(uri)
    found = {}
    for name in ("v", "w"):
        version = client.get_model_version(name, "1")
        run = client.get_run(version.run_id)
        found[name] = {
            "params": sorted(run.data.params),
            "metrics": sorted(run.data.metrics),
            "run tags": sorted(tag for tag in run.data.tags if not tag.startswith("mlflow.")),
            "version tags": sorted(version.tags),
            "model tags": sorted(client.get_registered_model(name).tags),
            "artifacts": sorted(_artifacts(client, version.run_id, "")),
        }
    return found


def _artifacts(client: mlflow.MlflowClient, run_id: str, path: str) -> Iterable[str]:
    for one in client.list_artifacts(run_id, path):
        if one.is_dir:
            yield from _artifacts(client, run_id, one.path)
        else:
            yield re.sub(r"[0-9a-f]{12,}", "DIGEST", one.path)
