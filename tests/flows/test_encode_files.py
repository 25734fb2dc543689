"""``bpeline encode REF FILES... -o DIRECTORY``: token shards from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from bpeline.tokenizer_core.shards.packing import shuffled
from bpeline.tokenizer_core.shards.token_shards import TokenShards
from bpeline.tokenizer_core.tokenizer import Tokenizer

Command = Callable[..., Result]
END = "<|end|>"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tokenizer:
    """A folder with a tokenizer and two files."""
    vocab = {byte: bytes([byte]) for byte in range(256)} | {256: b" t", 257: END.encode()}
    tokenizer = Tokenizer(vocab, [(b" ", b"t")], [END])
    tokenizer.save(tmp_path / "kept")
    (tmp_path / "a.txt").write_text(f"to the{END}two{END}{END}three")
    (tmp_path / "b.jsonl").write_text('{"body": "four", "doc": 4}\n')
    monkeypatch.chdir(tmp_path)
    return tokenizer


def test_files_become_shards_and_documents_again(here: Tokenizer, bpeline: Command) -> None:
    named = ("encode", "./kept", "a.txt", "b.jsonl", "-o", "out", "--separator", END)
    command = (*named, "--end-of-text", END, "--text-field", "body", "--threads", "1")
    result = bpeline(*command)
    assert result.exit_code == 0, result.output
    assert "4 documents" in result.stdout
    shards = TokenShards("out")
    assert [here.decode(ids) for ids in shards] == [
        text + END for text in ("to the", "two", "three", "four")
    ]
    again = json.loads(bpeline(*command, "--id-field", "doc", "--json").stdout)
    place = TokenShards("out").place(3)
    assert (place.id, json.loads(place.read())["body"]) == (4, "four")
    assert again["tokenizer"] == here.digest
    assert again["documents"] == 4
    assert again["end_of_text"] == 257


def test_files_and_texts_have_the_ids_of_an_imported_tokenizer(
    here: Tokenizer, bpeline: Command
) -> None:
    here.save(Path("x.json"), "hf")
    text = Path("a.txt").read_text()
    ids = Tokenizer.load("x.json").encode(text)
    assert ids.count(257) == 3
    assert json.loads(bpeline("encode", "./x.json", text, "--json").stdout)["ids"] == ids
    assert (
        json.loads(bpeline("encode", "./x.json", "--file", "a.txt", "--json").stdout)["ids"] == ids
    )
    result = bpeline("encode", "./x.json", "a.txt", "-o", "out")
    assert result.stderr.count("note: ") == 1, "where documents end"
    assert [document.tolist() for document in TokenShards("out")] == [ids]
    counted = json.loads(bpeline("count", "./x.json", "a.txt", "--json").stdout)
    assert (counted["total"]["tokens"], counted["total"]["documents"]) == (len(ids), 1)
    result = bpeline("encode", "./x.json", "a.txt", "-o", "named", "--separator", END)
    assert len(TokenShards("named")) == 3, result.output


def test_documents_end_at_the_special_tokens_of_the_version(
    here: Tokenizer, bpeline: Command
) -> None:
    result = bpeline("encode", "./kept", "a.txt", "-o", "out")
    assert result.exit_code == 0, result.output
    assert "3 documents" in result.stdout
    assert END in result.stderr
    shards = TokenShards("out")
    assert [here.decode(ids) for ids in shards] == ["to the", "two", "three"]
    named = bpeline("encode", "./kept", "a.txt", "-o", "named", "--separator", END)
    assert "documents of text" not in named.stderr
    assert TokenShards("named").records == shards.records
    whole = bpeline("encode", "./kept", "a.txt", "-o", "out", "--separator", "none", "--json")
    told = json.loads(whole.stdout)
    assert (told["documents"], told["separator"], told["notes"]) == (1, None, [])
    text = Path("a.txt").read_text()
    assert [ids.tolist() for ids in TokenShards("out")] == [here.encode(text)]


@pytest.mark.parametrize("format", ["bin", "npy", "megatron", "parquet"])
def test_every_format_holds_the_same_documents(
    here: Tokenizer, bpeline: Command, format: str
) -> None:
    named = ("encode", "./kept", "a.txt", "-o", "out", "--separator", END, "--format", format)
    result = bpeline(*named, "--shard-megabytes", "1")
    assert result.exit_code == 0, result.output
    shards = TokenShards("out")
    shards.verify()
    assert [here.decode(ids) for ids in shards] == ["to the", "two", "three"]
    assert shards.manifest["shard_format"] == format


@pytest.mark.parametrize("format", ["bin", "megatron", "parquet"])
def test_documents_are_packed_beside_their_shards(
    here: Tokenizer, bpeline: Command, format: str
) -> None:
    named = ("encode", "./kept", "a.txt", "b.jsonl", "-o", "out", "--text-field", "body")
    command = (*named, "--format", format, "--pack", "4", "--seed", "7")
    told = json.loads(bpeline(*command, "--end-of-text", END, "--json").stdout)
    documents = [ids.tolist() for ids in TokenShards("out")]
    packed = TokenShards("out/packed-4-7")
    packed.verify()
    stream = [id_ for at in shuffled(4, 7) for id_ in documents[at]]
    assert [id_ for ids in packed for id_ in ids.tolist()] == stream[: len(packed) * 4]
    assert told["packed"]["path"] == "out/packed-4-7"
    assert told["packed"]["packed"]["seed"] == 7
    assert told["packed"]["packed"]["left_out_tokens"] == len(stream) % 4
    assert len(told["notes"]) == 2
    result = bpeline(*command)  # other ids: nothing ends a document
    assert result.exit_code == 0, result.output
    assert "seed 7" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-o", "out"), "options for single texts"),
        (("a.txt", "-o", "out", "--allow-special"), "options for single texts"),
        (("a.txt", "-o", "out", "--file", "a.txt"), "options for single texts"),
        (("a.txt", "-o", "out", "--offsets"), "options for single texts"),
        (("a.txt", "-o", "out", "--special", END), "options for single texts"),
        (("a.txt", "-o", "out", "--format", "csv"), "--format"),
        (("a.txt", "-o", "out", "--shard-megabytes", "0"), "--shard-megabytes"),
        (("a.txt", "-o", "out", "--threads", "0"), "threads is 0"),
        (("one", "two"), "2 texts"),
        (("one", "--separator", END, "--threads", "2"), "only applies to files"),
        (("one", "--pack", "4"), "only applies to files"),
        (("a.txt", "-o", "out", "--pack", "0"), "--pack"),
        (("a.txt", "-o", "out", "--pack", "4", "--seed", "-1"), "--seed"),
        (("gone.txt", "-o", "out"), "gone.txt"),
        (("a.txt", "-o", "out", "--end-of-text", "<no>"), "<no>"),
    ],
)
def test_what_makes_no_sense_is_said(
    here: Tokenizer, bpeline: Command, arguments: tuple[str, ...], said: str
) -> None:
    result = bpeline("encode", "./kept", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert not Path("out").exists() or not list(Path("out").iterdir())
