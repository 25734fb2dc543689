"""Roles of special tokens: declared once, used by every export, no part of the digest."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from sentencepiece import SentencePieceProcessor
from transformers import AutoTokenizer

from bpeline.registry import load_tokenizer
from bpeline.tokenizer_core.formats import read_metadata

Command = Callable[..., Result]
pytestmark = [pytest.mark.night, pytest.mark.fake_mlflow]

PROJECT = """
[train]
name = "news"
paths = ["corpus.txt"]
vocab_size = 400
special_tokens = ["<|endoftext|>", "<|stop|>", "<|fill|>", "<|begin|>"]

[roles]
eos = "<|stop|>"
pad = "<|fill|>"
model_max_length = 4096
"""


@pytest.fixture(scope="module")
def trained(folder_after: Callable[..., Path], english_and_code: str) -> Path:
    """A folder with ``news/1``, whose project declares roles."""
    files = {"bpeline.toml": PROJECT, "corpus.txt": english_and_code[:30_000]}
    return folder_after(files, [("train",)])


def exported(bpeline: Command, reference: str, folder: Path, *more: str) -> tuple[Any, str]:
    said = bpeline("export", reference, "--format", "transformers", "--output", folder, *more)
    assert said.exit_code == 0, said.output
    theirs = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    lines = [line for line in said.stdout.splitlines() if line.startswith("roles of")]
    return theirs, "".join(lines)


def test_what_is_declared_is_what_transformers_and_llama_cpp_have(
    here: Path, bpeline: Command, tmp_path: Path
) -> None:
    ids = load_tokenizer("news@candidate").special_tokens
    theirs, said = exported(bpeline, "news/1", tmp_path / "hf")
    assert (theirs.eos_token, theirs.pad_token) == ("<|stop|>", "<|fill|>")
    assert theirs.model_max_length == 4096
    assert theirs.bos_token is None
    padded = theirs(["a", "a longer text"], padding=True)["input_ids"]
    assert padded[0][-1] == ids["<|fill|>"]
    assert "--role ROLE=TOKEN" in said
    card = (tmp_path / "hf" / "README.md").read_text()
    assert (
        "| eos | `<\\|stop\\|>` |\n| pad | `<\\|fill\\|>` |\n| model_max_length | `4096` |" in card
    )

    bos = ("--role", "bos=<|begin|>")
    smaller, said = exported(bpeline, "news/1:350", tmp_path / "small", *bos)
    assert said == ""
    assert (smaller.eos_token, smaller.bos_token) == ("<|stop|>", "<|begin|>")

    to_gguf = ("export", "news/1", "--format", "gguf", "--output", tmp_path / "x.gguf")
    assert bpeline(*to_gguf).exit_code == 0
    read = read_metadata(tmp_path / "x.gguf", ("tokenizer.ggml.",))
    assert read["tokenizer.ggml.eos_token_id"] == ids["<|stop|>"]
    assert read["tokenizer.ggml.padding_token_id"] == ids["<|fill|>"]
    assert bpeline("export", "--check", "news/1").exit_code == 0


def test_roles_are_no_part_of_the_digest_and_go_with_the_version(
    here: Path, bpeline: Command, tmp_path: Path
) -> None:
    again = bpeline("train", "--role", "eos=<|endoftext|>", "--json")
    assert again.exit_code == 0, again.output
    stays = "news/1: eos=<|stop|>, pad=<|fill|>"
    assert stays in " ".join(again.stderr.split())
    assert any(stays in note for note in json.loads(again.stdout)["notes"])
    assert "eos=" not in bpeline("train").output
    assert exported(bpeline, "news/1", tmp_path / "1")[0].eos_token == "<|stop|>"

    # Under another name it has the roles that were declared there; by a name, they are said.
    typed = ("corpus.txt", "--name", "other", "--vocab-size", 400)
    tokens = ("<|endoftext|>", "<|stop|>", "<|fill|>", "<|begin|>")
    specials = [part for token in tokens for part in ("--special-token", token)]
    assert bpeline("train", *typed, *specials, "--role", "bos=<|begin|>").exit_code == 0
    theirs, said = exported(bpeline, "other/1", tmp_path / "other")
    assert (theirs.bos_token, theirs.eos_token) == ("<|begin|>", "<|endoftext|>")
    assert "eos <|endoftext|>" in said

    assert bpeline("derive", "rename", "news/1", "<|stop|>=<|end|>").exit_code == 0
    theirs, _ = exported(bpeline, "news/2", tmp_path / "renamed")
    assert (theirs.eos_token, theirs.pad_token) == ("<|end|>", "<|fill|>")
    assert bpeline("derive", "extend", "news/2", "--vocab-size", 420).exit_code == 0
    assert exported(bpeline, "news/3", tmp_path / "extended")[0].eos_token == "<|end|>"


def test_an_import_has_the_roles_of_its_files_and_those_declared(
    here: Path, bpeline: Command, tmp_path: Path
) -> None:
    exported(bpeline, "news/1", tmp_path / "theirs")
    config = tmp_path / "theirs" / "tokenizer_config.json"
    said = json.loads(config.read_text()) | {"bos_token": {"content": "<|begin|>"}}
    config.write_text(json.dumps(said))
    declared = ("--role", "pad=<|endoftext|>")
    done = bpeline("import", tmp_path / "theirs", "--name", "theirs", *declared)
    assert done.exit_code == 0, done.output
    theirs, _ = exported(bpeline, "theirs/1", tmp_path / "again")
    roles = (theirs.eos_token, theirs.bos_token, theirs.pad_token)
    assert roles == ("<|stop|>", "<|begin|>", "<|endoftext|>")
    refused = bpeline("import", tmp_path / "theirs", "--name", "x", "--role", "eos=<|no|>")
    assert refused.exit_code == 2
    assert "'<|endoftext|>'" in refused.stderr


def test_a_sentencepiece_model_has_them(here: Path, bpeline: Command, tmp_path: Path) -> None:
    train = ("train", "corpus.txt", "--name", "chars", "--algorithm", "char-bpe")
    specials = ("--special-token", "<|stop|>", "--special-token", "</s>")
    role = ("--role", "eos=<|stop|>")
    done = bpeline(*train, "--vocab-size", 300, "--pattern", "whitespace", *specials, *role)
    assert done.exit_code == 0, done.output
    path = tmp_path / "x.model"
    said = bpeline("export", "chars/1", "--format", "sentencepiece", "--output", path)
    assert said.exit_code == 0, said.output
    ids = load_tokenizer("chars@candidate").special_tokens
    assert SentencePieceProcessor(model_file=str(path)).eos_id() == ids["<|stop|>"]


@pytest.mark.parametrize(
    ("role", "said"),
    [
        ("eos", "the role 'eos' cannot be used"),
        ("end=<|stop|>", "the role 'end=<|stop|>' cannot be used"),
        ("eos=<|no|>", "no special token here"),
        ("model_max_length=-1", "the role 'model_max_length=-1' cannot be used"),
    ],
)
def test_roles_that_are_none_are_refused(
    role: str, said: str, here: Path, bpeline: Command, tmp_path: Path
) -> None:
    to = ("--output", tmp_path / "x", "--role", role)
    for command in (("train", "--role", role), ("export", "news/1", "--format", "gguf", *to)):
        refused = bpeline(*command)
        assert refused.exit_code == 2
        assert said in refused.stderr
    name, _, token = role.partition("=")
    project = PROJECT.partition("[roles]")[0] + f'[roles]\n{name} = "{token}"\n'
    (tmp_path / "bpeline.toml").write_text(project)
    refused = bpeline("train", "--project", tmp_path / "bpeline.toml")
    assert refused.exit_code == 2
    assert "the role" in refused.stderr
    hf = ("export", "news/1", "--format", "hf", "--output", tmp_path / "x")
    assert bpeline(*hf, "--role", "eos=<|stop|>").exit_code == 2
