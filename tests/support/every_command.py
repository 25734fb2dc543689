"""Every command, as typed in a folder with two versions of `v`, `text.txt` and `tokenizer.json`."""

from __future__ import annotations

import click

COMMANDS = [
    "compare v/1 v/2 --eval text.txt",
    "compare v/1 v/2 --eval -",
    "compress text.txt -o small",
    "compress --expand text.txt",
    "count v/1 text.txt",
    "count v/1 -",
    "decode v/1 104 105",
    "decode v/1 -",
    "delete v/1 --dry-run",
    "delete v/1 --yes",
    "deploy",
    "doctor",
    "doctor --dismiss 00000000",
    "drift v@candidate text.txt",
    "drift v@candidate -",
    "encode v/1 low",
    "encode v/1 -",
    "encode v/1 text.txt -o tokens",
    "evaluate v/1",
    "evaluate --sets",
    "explain v/1 lower",
    "explain v/1 -",
    "export v/1 --format hf --output tokenizer.json",
    "derive extend v/1 --vocab-size 290",
    "gc --dry-run",
    "import tokenizer.json --name w",
    "init text.txt --name v",
    "promote v/1",
    "derive prune v/1 --min-count 5 -o plan.json",
    "export --check v/1",
    "derive rename v/1 <|a|>=<|b|>",
    "report v/1 -o page.html",
    "resume",
    "rollback v",
    "serve --help",
    "show v",
    "show v/1",
    "evaluate v/1 --sizes --model-shape llama-3.1-8b",
    "sql SELECT(1)",
    "sql -",
    "derive superwords v/1 --vocab-size 290",
    "sweep text.txt --name sizes --sizes 270",
    "sweep v/1 --weights text=2",
    "train text.txt --name other --vocab-size 270",
    "train - --name other --vocab-size 270",
    "verify v/1",
    "versions",
    "--help",
    "nonsense",
]


def command_in(words: list[str]) -> tuple[str, click.Command, list[str]]:
    """The command that words begin with: its name, itself, and the words after it."""
    from bpeline.flows.cli.main import all_commands

    commands = all_commands()
    length = 1 if words[0] in commands else 2
    name = " ".join(words[:length])
    assert name in commands, words
    return name, commands[name], words[length:]
