"""``bpeline import``: register a tokenizer from files or from the Hugging Face Hub."""

from __future__ import annotations

from typing import Any

import click

from bpeline.flows.cli.commands import answer, command
from bpeline.flows.cli.request_options import options_of
from bpeline.flows.requests import ImportRequest
from bpeline.registry.environment import addresses


@command(
    "bpeline import tokenizer.json --name llama3",
    "bpeline import Qwen2.5-7B/ --name qwen --licence Apache-2.0 --eval 'english=heldout/*.txt'",
    "bpeline import ranks.tiktoken,pattern=cl100k --name ours --rules rules.toml",
    "bpeline import tekken.json --name mistral --dry-run",
    "bpeline import tokens.txt --name words --algorithm greedy --end-of-word '</w>'",
    "bpeline import hf://openai-community/gpt2@main --name gpt2",
)
@click.argument("file", metavar="FILE")
@options_of(
    ImportRequest,
    {
        "name": {"required": True},
        "roles": {"option": "--role", "metavar": "ROLE=TOKEN"},
        "evaluation": {"option": "--eval", "metavar": "NAME=FILES"},
        "baselines": {"option": "--baseline", "metavar": "[NAME=]REF"},
        "rules": {"type": click.Path(dir_okay=False)},
    },
    but=("file",),
)
@click.option("--dry-run", is_flag=True, help="Show what would be registered, and stop.")
def import_(file: str, dry_run: bool, as_json: bool, **given: Any) -> None:
    """Register a tokenizer made by another program.

    FILE is tokenizer.json, *.tiktoken, tekken.json, a .model, vocab.txt, a folder of these, or
    hf://ORG/REPO@REVISION. Append what the file lacks, such as ,pattern=cl100k. With --algorithm
    greedy, FILE is a list of tokens, one per line.

    The original file is kept, compared with its own library if that is installed, and measured on
    the evaluation set of the name. The result is a version like any other.
    """
    from bpeline.flows.cli.train import print_summary, run_training

    parameters = {key: value for key, value in given.items() if value not in (None, ())}
    parameters["file"] = file
    if dry_run:
        from bpeline.flows.importing import plan_import

        planned = plan_import(ImportRequest.checked(**parameters), addresses().home)
        answer(as_json, planned, [f"{title:<12} {text}" for title, text in planned.items()])
        return
    print_summary(run_training(parameters), as_json)
