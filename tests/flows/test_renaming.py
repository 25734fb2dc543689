"""Slots kept in training, and ``bpeline derive rename``: a new version, the same ids."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from bpeline.registry import load_tokenizer
from bpeline.tokenizer_core.derived import slots_of

Command = Callable[..., Result]
pytestmark = [pytest.mark.night, pytest.mark.fake_mlflow]
TRAIN = ("train", "corpus.txt", "--name", "news", "--special-token", "<|end|>")


@pytest.fixture(scope="module")
def trained(folder_after: Callable[..., Path], english_and_code: str) -> Path:
    """A folder whose workspace holds ``news/1`` with slots."""
    slots = ("--vocab-size", "300", "--reserve", "4", "--round-to", "64")
    return folder_after({"corpus.txt": english_and_code[:60_000]}, [(*TRAIN, *slots)])


def test_slots_are_the_last_ids_and_fill_a_multiple(here: Path) -> None:
    tokenizer = load_tokenizer("news/1")
    assert tokenizer.vocab_size == 320
    assert list(slots_of(tokenizer).values()) == list(range(296, 320))
    assert tokenizer.special_tokens["<|end|>"] == 0


def test_a_renamed_version_has_the_same_ids_and_is_made_again(here: Path, bpeline: Command) -> None:
    done = bpeline("derive", "rename", "news/1", "<|reserved_2|>=<|tool|>", "--json")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["reference"] == "news/2"
    assert said["renamed"] == [{"id": 298, "from": "<|reserved_2|>", "to": "<|tool|>"}]
    assert said["slots_left"] == 23
    before, after = load_tokenizer("news/1"), load_tokenizer("news@candidate")
    assert after.encode("a word<|tool|>", allowed_special="all") == [*before.encode("a word"), 298]
    details = json.loads(bpeline("show", "news/2", "--json").stdout)
    old = json.loads(bpeline("show", "news/1", "--json").stdout)
    key = "compression/bytes_per_token"
    assert details["metrics"][key] == pytest.approx(old["metrics"][key])
    assert details["lineage"]["counts_digest"] == old["lineage"]["counts_digest"]
    verified = bpeline("verify", "news/2")
    assert verified.exit_code == 0, verified.output
    again = json.loads(
        bpeline("derive", "rename", "news/1", "<|reserved_2|>=<|tool|>", "--json").stdout
    )
    assert (again["reference"], again["newly_registered"]) == ("news/2", False)
    refused = bpeline("derive", "rename", "news/2", "<|reserved_2|>=<|x|>")
    assert refused.exit_code == 2
    assert "special token" in refused.output
    assert bpeline("derive", "rename", "news/2", "tool").exit_code == 2


def test_an_extension_keeps_slots_where_they_are(here: Path, bpeline: Command) -> None:
    assert (
        bpeline("derive", "extend", "news/1", "--vocab-size", "330", "--round-to", "64").exit_code
        == 0
    )
    before, after = load_tokenizer("news/1"), load_tokenizer("news@candidate")
    assert after.vocab_size == 384
    assert all(after.vocab[id_] == token for id_, token in before.vocab.items())
    assert list(slots_of(after).values()) == [*range(296, 320), *range(330, 384)]
