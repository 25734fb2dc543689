"""Files whose names are no text: trained on, counted and shown, also where output is strict."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from published import copied

from bpeline import flows

ROOT = Path(flows.__file__).parents[1]
PROGRAM = """
from bpeline.flows.cli.main import main
import sys
for arguments in eval(sys.argv.pop()):
    sys.argv[1:] = arguments
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, (arguments, ended.code)
    print()
"""
NAMES = (b"caf\xe9.txt", b"two\nlines.txt", b"-x.txt", b"a'b\"%[1]*.txt")


@pytest.mark.night
def test_a_corpus_with_such_names_is_trained_on_and_shown(
    tmp_path: Path, fresh_workspace: Path
) -> None:
    copied(fresh_workspace, tmp_path / ".bpeline")
    (tmp_path / "corpus").mkdir()
    for name in NAMES:
        content = b"the quick brown fox jumps over the lazy dog. " * 40 + str(name).encode()
        with open(os.path.join(os.fsencode(tmp_path), b"corpus", name), "wb") as file:
            file.write(content)
    train = [
        "train",
        "corpus",
        "corpus/" + os.fsdecode(NAMES[0]),
        "--name",
        "news",
        "--merges",
        "9",
    ]
    commands = [
        [*train, "--json"],
        [*train, "--json", "--merges", "12"],
        ["count", "news/1", "corpus", "--json"],
        ["count", "news/1", "corpus"],
        ["show", "news/1"],
        ["report", "news/1", "--output", "report.html"],
        ["encode", "news/1", "corpus", "-o", "tokens"],
        ["encode", "news/1", "--file", "corpus/" + os.fsdecode(NAMES[0])],
        [*train, "--dry-run"],
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8:strict"}
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, repr(commands)],
        cwd=tmp_path, env=environment, capture_output=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr.decode()
    said = ended.stdout.decode()  # strictly: what reaches a terminal is UTF-8
    outputs = said.split("\n\n{")
    first = json.loads(said[: said.index("\n}\n") + 3])
    assert (first["files"], first["reference"]) == (len(NAMES), "news/1")
    assert len(outputs) == 3, "--json of three commands"
    counted = json.loads("{" + outputs[2][: outputs[2].index("\n}\n") + 2])
    names = [os.fsencode(Path(one["path"]).name) for one in counted["files"]]
    assert sorted(names) == sorted(NAMES)
    assert "caf\\udce9.txt" in said
