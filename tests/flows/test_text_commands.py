"""``bpeline encode``, ``count`` and ``explain``: what they print and refuse."""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from bpeline.flows.cli.main import cli
from bpeline.tokenizer_core import WordCounts, bounded_files, train_char_bpe
from bpeline.tokenizer_core.derived import DropoutEncoding
from bpeline.tokenizer_core.tokenizer import Tokenizer

Command = Callable[..., Result]
END = "<|end|>"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tokenizer:
    """A folder with a tokenizer that knows " then" and two special tokens."""
    vocab = {byte: bytes([byte]) for byte in range(256)}
    vocab |= {256: b" t", 257: b"he", 258: b" the", 259: b" then", 260: END.encode(), 261: b"<x>"}
    merges = [(b" ", b"t"), (b"h", b"e"), (b" t", b"he"), (b" the", b"n")]
    tokenizer = Tokenizer(vocab, merges, [END, "<x>"])
    tokenizer.save(tmp_path / "kept")
    monkeypatch.chdir(tmp_path)
    return tokenizer


def printed(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return result.stdout


# encode


def test_single_special_tokens_are_allowed_by_name(here: Tokenizer, bpeline: Command) -> None:
    text = f"a{END}<x>"
    assert printed(bpeline("encode", "./kept", text, "--special", END)).split() == [
        *("97", "260"),
        *map(str, b"<x>"),
    ]
    assert printed(bpeline("encode", "./kept", text, "--allow-special")) == "97 260 261\n"
    refused = bpeline("encode", "./kept", text, "--special", END, "--on-special", "error")
    assert refused.exit_code == 2
    assert "<x>" in refused.stderr
    assert bpeline("encode", "./kept", "a", "--special", "<no>").exit_code == 2


def test_offsets_are_of_bytes_and_of_characters(here: Tokenizer, bpeline: Command) -> None:
    found = json.loads(printed(bpeline("encode", "./kept", "é then", "--offsets", "--json")))
    assert found["ids"] == [0xC3, 0xA9, 259]
    assert found["byte_offsets"] == [[0, 1], [1, 2], [2, 7]]
    assert found["char_offsets"] == [[0, 1], [0, 1], [1, 6]]
    lines = printed(bpeline("encode", "./kept", "é then", "--offsets")).splitlines()
    assert lines[-1].split() == ["259", "2:7", "1:6", "Ġthen"]


@pytest.mark.parametrize("command", ["encode", "explain"])
def test_the_name_of_a_file_is_no_text(here: Tokenizer, bpeline: Command, command: str) -> None:
    Path("my notes.txt").write_text(" then")
    refused = bpeline(command, "kept", "my notes.txt")
    assert refused.exit_code == 2
    assert "--file 'my notes.txt'" in refused.output
    assert "printf %s 'my notes.txt' | bpeline" in refused.output
    assert printed(bpeline(command, "kept", "--file", "my notes.txt"))
    assert printed(bpeline(command, "kept", "-", input="my notes.txt"))
    long = "a" * 5_000  # longer than any name
    assert printed(bpeline("encode", "kept", long)).split() == ["97"] * 5_000


def test_dropout_gives_one_of_the_encodings_of_a_text_and_of_files(
    here: Tokenizer, bpeline: Command
) -> None:
    dropping = DropoutEncoding(here, 0.5, 7)
    command = ("encode", "./kept", "a then", "--dropout", "0.5", "--seed", "7", "--json")
    assert json.loads(printed(bpeline(*command)))["ids"] == dropping.encode("a then")
    assert bpeline("encode", "./kept", "a", "--dropout", "0.5", "--offsets").exit_code == 2
    assert bpeline("encode", "./kept", "a", "--seed", "7").exit_code == 2
    Path("a.txt").write_text("a then " * 99)
    files = ("encode", "./kept", "a.txt", "-o")
    told = json.loads(printed(bpeline(*files, "1", "--dropout", "0.5", "--seed", "7", "--json")))
    assert (told["dropout"], told["dropout_seed"]) == (0.5, 7)
    plain = json.loads(printed(bpeline(*files, "2", "--json")))
    assert told["tokens"] > plain["tokens"]
    assert "dropout" not in plain


def test_text_comes_through_a_pipe(here: Tokenizer, bpeline: Command) -> None:
    assert printed(bpeline("encode", "./kept", "-", input="a then")) == "97 259\n"
    assert printed(bpeline("encode", "./kept", "-", input="")) == "\n"
    assert bpeline("encode", "./kept", "-", input=b"\xff").exit_code == 2


@pytest.mark.parametrize(
    "words", [("encode", "./kept", "-"), ("decode", "./kept", "-"), ("sql", "-"),
              ("count", "./kept", "-"), ("train", "-", "--name", "closed")]
)  # fmt: skip
def test_standard_input_that_is_closed_is_said(
    here: Tokenizer,
    words: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert cli.main(words, standalone_mode=False) == 2
    told = capsys.readouterr().err
    assert "standard input" in told
    assert f"`bpeline {' '.join(words)} < FILE`" in told


# count


def test_what_is_not_read_is_said_and_an_error_where_all_must_be(
    here: Tokenizer, bpeline: Command
) -> None:
    Path("data").mkdir()
    for name in ("a.txt", "b.png", "c.rst", "d.png"):
        Path("data", name).write_text("a then")
    for command in (("count", "./kept", "data"), ("encode", "./kept", "data", "-o", "tokens")):
        found = json.loads(printed(bpeline(*command, "--json")))
        assert found["notes"][0] == "skipped 3 files: 2 .png, 1 .rst"
        assert found["skipped"] == {
            "files": 3,
            "kinds": {".png": 2, ".rst": 1},
            "hidden": 0,
            "about_datasets": 0,
        }
        refused = bpeline(*command, "--strict", "--include", "*.rst")
        assert refused.exit_code == 2
        assert "2 .png" in refused.stderr
    found = json.loads(printed(bpeline("count", "./kept", "data", "--include", "*.rst", "--json")))
    assert found["total"]["documents"] == 2
    again = ("encode", "./kept", "data", "-o", "tokens", "--include", "*.rst", "--json")
    assert json.loads(printed(bpeline(*again)))["documents"] == 2


def test_count_says_tokens_documents_and_bytes_of_each_file(
    here: Tokenizer, bpeline: Command
) -> None:
    Path("a.txt").write_text(f" then{END}é{END}{END}")
    Path("b.jsonl.gz").write_bytes(gzip.compress(b'{"text": "a then"}\n{"text": ""}\n'))
    command = ("count", "./kept", "a.txt", "b.jsonl.gz", "--separator", END)
    found = json.loads(printed(bpeline(*command, "--json")))
    assert [Path(one.pop("path")).name for one in found["files"]] == ["a.txt", "b.jsonl.gz"]
    assert found == {
        "digest": here.digest,
        "separators": [END],
        "skipped": {"files": 0, "kinds": {}, "hidden": 0, "about_datasets": 0},
        "notes": [],
        "files": [
            {"tokens": 3, "documents": 2, "bytes": 7, "bytes_per_token": 7 / 3},
            {"tokens": 2, "documents": 1, "bytes": 6, "bytes_per_token": 3.0},
        ],
        "total": {"tokens": 5, "documents": 3, "bytes": 13, "bytes_per_token": 2.6},
    }
    lines = printed(bpeline(*command)).splitlines()
    assert len(lines) == 4
    assert lines[1].split()[:4] == ["3", "2", "7", "2.3333"]
    assert lines[-1].split() == ["5", "3", "13", "2.6000", "total"]
    closed = json.loads(printed(bpeline(*command, "--end-of-text", END, "--json")))
    assert closed["total"]["tokens"] == 5 + 3


def test_count_separates_documents_at_the_special_tokens_of_the_version(
    here: Tokenizer, bpeline: Command
) -> None:
    Path("a.txt").write_text(f" then{END}é<x> then")
    found = json.loads(printed(bpeline("count", "./kept", "a.txt", "--json")))
    total = found["total"]
    assert (total["documents"], total["tokens"], total["bytes"]) == (3, 4, 12)
    assert found["separators"] == [END, "<x>"]
    (note,) = found["notes"]
    for fact in (f" {END} ", " <x>", "`--separator none`"):
        assert fact in note
    plain = bpeline("count", "./kept", "a.txt")
    assert plain.stderr == f"note: {found['notes'][0]}\n"
    assert plain.stdout.splitlines()[1].split()[:3] == ["4", "3", "12"]
    whole = json.loads(
        printed(bpeline("count", "./kept", "a.txt", "--separator", "none", "--json"))
    )
    assert whole["total"]["tokens"] == here.count(Path("a.txt").read_text())
    assert (whole["total"]["documents"], whole["separators"], whole["notes"]) == (1, [], [])


def test_text_that_looks_like_a_special_token_brings_one_line_with_the_option_to_type(
    here: Tokenizer, bpeline: Command
) -> None:
    Path("a.txt").write_text("one</s>two<|endoftext|>" * 12 + END * 20 + "[INST]" * 9)
    command = ("count", "./kept", "a.txt")
    line = bpeline(*command).stderr.splitlines()[1]
    assert "</s> 12 times, <|endoftext|> 12 times" in line
    assert "--separator '</s>'" in line
    assert END not in line
    assert "INST" not in line
    for more in (("--separator", "</s>"), ("--separator", "none")):
        notes = json.loads(printed(bpeline(*command, *more, "--json")))["notes"]
        assert len(notes) == 1
        assert "<|endoftext|> 12 times" in notes[0]
    Path("b.jsonl").write_text(json.dumps({"text": "</s>" * 30}))
    assert json.loads(printed(bpeline("count", "./kept", "b.jsonl", "--json")))["notes"] == []


def test_count_reads_a_pipe(here: Tokenizer, bpeline: Command) -> None:
    lines = printed(bpeline("count", "./kept", "-", input=" then then")).splitlines()
    assert lines[1].split() == ["2", "1", "10", "5.0000", "-"]
    nothing = bpeline("count", "./kept", "-", "--json", input="")
    assert nothing.exit_code == 2
    assert "standard input" in nothing.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "FILES"),
        (("gone.txt",), "gone.txt"),
        (("-", "a.txt"), "together with files"),
        (("a.txt", "--threads", "0"), "threads is 0"),
        (("a.txt",), "not UTF-8"),
    ],
)
def test_count_says_what_it_cannot_do(
    here: Tokenizer, bpeline: Command, arguments: tuple[str, ...], said: str
) -> None:
    Path("a.txt").write_bytes(b"a\xff")
    result = bpeline("count", "./kept", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr


# explain


def test_explain_shows_merges_in_the_order_in_which_they_fired(
    here: Tokenizer, bpeline: Command
) -> None:
    lines = printed(bpeline("explain", "./kept", "a then")).splitlines()
    assert lines == [
        "a  at byte 0  ->  a 97",
        "Ġthen  at byte 1  ->  Ġthen 259",
        "    rank 0  Ġ + t -> Ġt  at byte 1",
        "    rank 1  h + e -> he  at byte 3",
        "    rank 2  Ġt + he -> Ġthe  at byte 1",
        "    rank 3  Ġthe + n -> Ġthen  at byte 1",
    ]
    (first, second) = json.loads(printed(bpeline("explain", "./kept", "a then", "--json")))
    assert first["merges"] == []
    assert second["ids"] == [259]
    assert second["merges"][2] == {"rank": 2, "left": "Ġt", "right": "he", "begin": 1}


@pytest.mark.parametrize("named", [("--token", " then"), ("--id", "259")])
def test_explain_draws_the_tree_of_a_token(
    here: Tokenizer, bpeline: Command, named: tuple[str, str]
) -> None:
    assert printed(bpeline("explain", "./kept", *named)).splitlines() == [
        "token 259  Ġthen  5 bytes",
        "Ġthen  rank 3",
        "├── Ġthe  rank 2",
        "│   ├── Ġt  rank 0",
        "│   │   ├── Ġ",
        "│   │   └── t",
        "│   └── he  rank 1",
        "│       ├── h",
        "│       └── e",
        "└── n",
    ]
    found = json.loads(printed(bpeline("explain", "./kept", *named, "--json")))
    assert found["reached_by_merges"] is True
    assert [merge["rank"] for merge in found["merges"]] == [0, 1, 2, 3]


def test_explain_says_that_no_merge_makes_a_special_token(
    here: Tokenizer, bpeline: Command
) -> None:
    assert "special" in printed(bpeline("explain", "./kept", "--token", END))
    found = json.loads(printed(bpeline("explain", "./kept", "--id", "260", "--json")))
    assert found["special"] is True
    assert found["reached_by_merges"] is False


@pytest.mark.parametrize(
    "arguments", [(), ("a", "--token", "b"), ("--token", "zz"), ("--id", "9999"), ("--id", "x")]
)
def test_explain_says_what_it_cannot_do(
    here: Tokenizer, bpeline: Command, arguments: tuple[str, ...]
) -> None:
    result = bpeline("explain", "./kept", *arguments)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) >= 2


@pytest.mark.parametrize("command", ["encode", "decode", "count", "explain"])
def test_help_has_an_example(bpeline: Command, command: str) -> None:
    said = printed(bpeline(command, "--help"))
    assert f"bpeline {command} news" in said
    assert "--json" in said


def test_characters_are_printed_where_tokens_are_of_characters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bpeline: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    words = WordCounts.from_mapping({"мама".encode(): 3, "мыла".encode(): 2}, "whitespace")
    train_char_bpe(words, 3).save("kept")
    found = json.loads(printed(bpeline("encode", "./kept", "мама мыла", "--json")))
    assert "".join(found["tokens"]) == "мама</w>мыла</w>"
    assert "ма" in printed(bpeline("encode", "./kept", "мама мыла", "--offsets"))
    lines = printed(bpeline("explain", "./kept", "мама")).splitlines()
    assert lines[0].startswith("мама  ->  мама</w> ")
    assert lines[1] == "    м + а  (rank 0)  ->  ма ма </w>"
    (word,) = json.loads(printed(bpeline("explain", "./kept", "мама", "--json")))
    assert word["steps"][-1]["symbols"] == word["tokens"]


# files that are no files


@pytest.mark.parametrize("command", [("encode", "./kept", "--file"), ("compress",)])
@pytest.mark.parametrize(
    ("file", "message"), [("pipe", "no program writes"), ("/dev/zero", "not a regular file")]
)
def test_pipes_without_a_writer_and_endless_devices_are_refused(
    here: Tokenizer, bpeline: Command, monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...], file: str, message: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(bounded_files, "_PATIENCE", 0)
    os.mkfifo("pipe")
    result = bpeline(*command, file)
    assert result.exit_code == 2
    assert message in result.output


def test_pipes_with_a_writer_and_files_of_proc_are_read(here: Tokenizer, bpeline: Command) -> None:
    reads, writes = os.pipe()
    os.write(writes, b"ab")
    os.close(writes)
    assert printed(bpeline("encode", "./kept", "--file", f"/dev/fd/{reads}")).split() == [
        "97",
        "98",
    ]
    os.close(reads)
    name = Path("/proc/self/comm").read_bytes()
    assert printed(bpeline("encode", "./kept", "--file", "/proc/self/comm")).split()[-1] == "10"
    assert bounded_files.read_file("/proc/self/comm") == name
