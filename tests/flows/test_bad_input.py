"""Every kind of bad input: a typed error in three parts, the right exit code, nothing lost."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from published import copied

from bpeline.registry.opening import open_registry

pytestmark = pytest.mark.fake_mlflow

Command = Callable[..., Result]

INPUT, ENVIRONMENT = 2, 1


def make_corpora(directory: Path) -> None:
    (directory / "good.txt").write_text("the quick brown fox jumps over the lazy dog " * 200)
    (directory / "empty.txt").write_text("")
    (directory / "latin1.txt").write_bytes("the caf\xe9 ".encode("latin-1") * 100)
    (directory / "not-gzip.txt.gz").write_bytes(b"this is no gzip file")
    whole = gzip.compress(os.urandom(50_000).hex().encode())
    (directory / "cut.txt.gz").write_bytes(whole[: len(whole) // 2])
    (directory / "broken.jsonl").write_text('{"text": "fine"}\n{"text": \n')
    (directory / "numbers.jsonl").write_text('{"text": 3}\n')
    (directory / "nothing").mkdir()
    os.mkfifo(directory / "pipe.txt")


CASES = {
    "missing file": (["gone.txt"], INPUT, "gone.txt"),
    "glob without a match": (["*.nothing"], INPUT, "*.nothing"),
    "directory without text": (["nothing"], INPUT, "nothing"),
    "empty corpus": (["empty.txt"], INPUT, "empty.txt"),
    "not a gzip file": (["not-gzip.txt.gz"], INPUT, "not-gzip.txt.gz"),
    "gzip that ends early": (["cut.txt.gz"], INPUT, "cut.txt.gz"),
    "a line that is not JSON": (["broken.jsonl"], INPUT, "broken.jsonl"),
    "a field that is not text": (["numbers.jsonl"], INPUT, "numbers.jsonl"),
    "a pipe": (["pipe.txt"], INPUT, "pipe.txt"),
    "no path at all": ([], INPUT, "no text was named"),
    "invalid UTF-8": (["latin1.txt"], INPUT, "latin1.txt is not UTF-8 at byte 7"),
    "too small a vocabulary": (["good.txt", "--vocab-size", "255"], INPUT, "255"),
    "specials do not fit": (
        ["good.txt", "--vocab-size", "257", "--special-token", "<a>", "--special-token", "<b>"],
        INPUT,
        "257",
    ),
    "too large a vocabulary": (["good.txt", "--vocab-size", str(10**9)], INPUT, "1,000,000,000"),
    "empty special": (["good.txt", "--special-token", ""], INPUT, "special token"),
    "special of one byte": (["good.txt", "--special-token", "x"], INPUT, "'x'"),
    "duplicate special": (
        ["good.txt", "--special-token", "<a>", "--special-token", "<a>"],
        INPUT,
        "twice",
    ),
    "unknown pattern": (["good.txt", "--pattern", "gpt3"], INPUT, "gpt3"),
    "broken regex": (["good.txt", "--pattern", r"(\w+"], INPUT, "does not compile"),
    "unknown tie-break": (["good.txt", "--tie-break", "random"], INPUT, "random"),
    "unknown policy": (["good.txt", "--invalid-utf8", "other"], INPUT, "other"),
    "share above one half": (["good.txt", "--held-out", "0.9"], INPUT, "0.9"),
    "share that is no number": (["good.txt", "--held-out", "nan"], INPUT, "nan"),
    "count below one": (["good.txt", "--min-count", "0"], INPUT, "min-count"),
    "words rarer than none": (["good.txt", "--min-word-count", "0"], INPUT, "min-word-count"),
    "words rarer than all": (["good.txt", "--min-word-count", "999999"], INPUT, "999999 times"),
    "required token of two words": (
        ["good.txt", "--required-token", "quick fox"],
        INPUT,
        "is cut by the split pattern",
    ),
    "required token that does not fit": (
        ["good.txt", "--vocab-size", "258", "--required-token", "quick"],
        INPUT,
        "take 4 merges",
    ),
    "special token that is required": (
        ["good.txt", "--required-token", "quick", "--special-token", "qui"],
        INPUT,
        "also an ordinary token",
    ),
    "tokens of one byte": (["good.txt", "--max-token-bytes", "1"], INPUT, "max-token-bytes"),
    "no workers": (["good.txt", "--threads", "0"], INPUT, "--threads"),
    "no memory": (["good.txt", "--table-memory", "1"], INPUT, "--table-memory is 1"),
    "fewer merges than none": (["good.txt", "--merges", "-5"], INPUT, "--merges is -5"),
    "special that reads like bytes": (["good.txt", "--special-token", "Ġthe"], INPUT, "'Ġthe'"),
    "pattern that drops text": (["good.txt", "--pattern", "whitespace"], INPUT, "drops the text"),
    "size and merges": (["good.txt", "--merges", "9", "--vocab-size", "300"], INPUT, "--merges"),
    "demo and paths": (["good.txt", "--demo"], INPUT, "--demo"),
    "name with a capital": (["good.txt", "--name", "News"], INPUT, "'News'"),
    "name that climbs": (["good.txt", "--name", "../news"], INPUT, "'../news'"),
    "name too long": (["good.txt", "--name", "n" * 65], INPUT, "nnnn"),
    "empty name": (["good.txt", "--name", ""], INPUT, "''"),
    "option that is no number": (["good.txt", "--vocab-size", "many"], INPUT, "many"),
    "unknown option": (["good.txt", "--vocabsize", "300"], INPUT, "--vocabsize"),
}


@pytest.fixture(scope="module")
def hard_used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder, and so one workspace, for all bad input of this file."""
    directory = tmp_path_factory.mktemp("hard-used")
    make_corpora(directory)
    return directory


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_refused_in_three_parts(
    case: str, hard_used: Path, bpeline: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, code, mentioned = CASES[case]
    monkeypatch.chdir(hard_used)
    defaults = [] if "--name" in given or case == "demo and paths" else ["--name", "news"]
    if "--vocab-size" not in given and "--merges" not in given:
        defaults += ["--vocab-size", "300"]
    result = bpeline("train", *given, *defaults)
    assert result.exit_code == code, result.output
    assert mentioned in " ".join(result.stderr.split())
    assert "Traceback" not in result.output
    assert isinstance(result.exception, SystemExit)
    if not case.startswith(("option that", "unknown option")):  # those are click's own words
        happened, *rest = result.stderr.strip().splitlines()[-3:]
        assert happened.startswith("error: "), result.stderr
        assert len(rest) == 2
        assert all(line.startswith("       ") for line in rest)
    assert result.stdout == ""
    workspace = open_registry().workspace
    assert workspace.lock_holder() is None
    assert list(workspace.temporary.iterdir()) == []
    assert bpeline("versions").stdout.startswith("no version")


@pytest.mark.night
def test_after_all_of_it_the_same_workspace_trains(
    hard_used: Path, bpeline: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(hard_used)
    good = bpeline("train", "good.txt", "--name", "news", "--vocab-size", "280")
    assert good.exit_code == 0, good.output
    assert "news/1" in good.stdout
    assert bpeline("encode", "news/1", "the quick").exit_code == 0


def test_a_name_is_needed(bpeline: Command) -> None:
    result = bpeline("train", "good.txt", "--vocab-size", "300")
    assert result.exit_code == INPUT
    assert "--name" in result.stderr


@pytest.mark.night
def test_invalid_utf8_can_be_replaced(tmp_path: Path, bpeline: Command) -> None:
    make_corpora(tmp_path)
    result = bpeline(
        "train", "latin1.txt", "--name", "news", "--vocab-size", "270", "--invalid-utf8", "replace"
    )
    assert result.exit_code == 0, result.output
    assert "100" in result.stderr
    assert "U+FFFD" in result.stderr


@pytest.mark.night
def test_a_locked_workspace_is_left_alone(tmp_path: Path, bpeline: Command) -> None:
    make_corpora(tmp_path)
    with open_registry().workspace.lock("training 'other'"):
        result = bpeline("train", "good.txt", "--name", "news", "--vocab-size", "300")
        assert result.exit_code == ENVIRONMENT
        assert str(os.getpid()) in result.stderr
        assert "training 'other'" in result.stderr
        assert bpeline("versions").exit_code == 0, "readers need no lock"
    assert bpeline("train", "good.txt", "--name", "news", "--vocab-size", "300").exit_code == 0


def test_a_directory_of_other_things_is_no_workspace(tmp_path: Path, bpeline: Command) -> None:
    make_corpora(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    result = bpeline("train", "good.txt", "--name", "news", "--workspace", tmp_path)
    assert result.exit_code == INPUT
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.night
@pytest.mark.parametrize("step", ["shards", "checkpoint", "versions"])
def test_a_full_disk_is_said_and_survived(
    step: str, tmp_path: Path, bpeline: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno

    from bpeline.tokenizer_core.durable_files import Disk

    make_corpora(tmp_path)
    replace = Disk.replace

    def full(self: Disk, source: Path, target: Path) -> None:
        if step in target.parts:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))
        replace(self, source, target)

    arguments = ("train", "good.txt", "--name", "news", "--vocab-size", "300")
    with monkeypatch.context() as patch:
        patch.setattr(Disk, "replace", full)
        result = bpeline(*arguments)
    assert result.exit_code == ENVIRONMENT, result.output
    assert "space" in result.stderr
    assert "Traceback" not in result.output
    assert bpeline("versions").stdout.startswith("no version")
    again = bpeline(*arguments)
    assert again.exit_code == 0, again.output


@pytest.mark.parametrize(
    ("arguments", "code", "mentioned"),
    [
        (("show", "news@champion"), ENVIRONMENT, "news"),
        (("show", "news"), ENVIRONMENT, "no history"),
        (("show", "news", "--recipe"), INPUT, "--recipe"),
        (("show", "news/1", "--alias", "champion"), INPUT, "--alias"),
        (("doctor", "--dismiss", "00000000", "--fix"), INPUT, "--dismiss"),
        (("serve", "--mlflow-only", "--deploy"), INPUT, "--deploy"),
        (("compress", "--expand", "a.bpec", "--show-steps"), INPUT, "--expand"),
        (("export", "--check", "--format", "gguf"), INPUT, "--format"),
        (("show", "../news"), INPUT, "path"),
        (("encode", "news/1", "text"), ENVIRONMENT, "news"),
        (("encode", "./gone", "text"), ENVIRONMENT, "gone"),
        (("encode", "news/1", "text", "--file", "gone.txt"), INPUT, "both"),
        (("encode", "news/1", "--file", "gone.txt"), INPUT, "gone.txt"),
        (("decode", "news/1", "three"), INPUT, "three"),
        (("encode", "news/1", "caf\udcff"), INPUT, "character 3"),
        (("versions", "--nonsense"), INPUT, "type `bpeline versions --help`"),
        (("export", "news/9", "--output", "out.json"), ENVIRONMENT, "news"),
        (("versions", "News"), INPUT, "'News'"),
        (("resume", "nosuchrun"), ENVIRONMENT, "nosuchrun"),
    ],
)
def test_questions_about_what_does_not_exist(
    arguments: tuple[str, ...],
    code: int,
    mentioned: str,
    bpeline: Command,
    fresh_workspace: Path,
    tmp_path: Path,
) -> None:
    copied(fresh_workspace, tmp_path / ".bpeline")
    result = bpeline(*arguments)
    assert result.exit_code == code, result.output
    assert mentioned in result.stderr
    assert "Traceback" not in result.output
