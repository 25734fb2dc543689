"""A workspace of release 0.2 in an archive: `unpacked` for tests, and the program that made it.

The program runs under 0.2 (commit 231515b6) and drives the command line in ``/srv/texts``::

    unshare --uts sh -c 'hostname example; python tests/support/workspace_0_2.py'

- `big/1` separates documents at blank lines and `big/2` does not, so the training of `big/2` left
  out most of the corpus. A third training of `big`, of 500 ids, was killed with 204 merges saved.
- `code/1` (`llama3`) made an evaluation set of ``--eval`` documents above 64 KiB; `code/2`
  (`o200k`) was measured on the same files, cut otherwise, as text of its own.
- `words/1` is frequency BPE with Punkt's sentences.
- ``project`` has a ``bpeline.toml`` and a workspace of its own: a rule moved `champion` from
  `news/1` to `news/2`, then the name got another evaluation set, then its schedules were deployed.
  ``home`` has the database of that Prefect server.

``expected.json`` holds what 0.2 said of all this. Left out are the wheels of our core in MLflow's
models, except that of `words/1`.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

from published import rewrite_paths

ARCHIVE = Path(__file__).parents[1] / "workspace_0_2.tar.xz"
MADE_IN = Path("/srv/texts")  # in an archive, absolute paths begin with it
WORKSPACES = (".bpeline", "project/.bpeline")
PORTS = ("--prefect-port", "4317", "--mlflow-port", "5317")
BPELINE = str(Path(sys.executable).with_name("bpeline"))
KEPT_WHEEL = "words"
END = "<|endoftext|>"


def unpacked(
    directory: Path, archive: Path = ARCHIVE, workspaces: Sequence[str] = WORKSPACES
) -> dict[str, Any]:
    """Unpack workspaces into ``directory`` and return what 0.2 said of them.

    Absolute paths in databases and in records of corpora are rewritten. The machine is this one,
    which was started anew since.
    """
    with tarfile.open(archive) as packed:
        packed.extractall(directory, filter="data")
    rewrite_paths(directory, str(MADE_IN), str(directory))
    for place in workspaces:
        catalogue = directory / place / "catalogue.sqlite"
        with closing(sqlite3.connect(catalogue)) as connection, connection:
            connection.execute("UPDATE runs SET host = ?", (socket.gethostname(),))
    said: dict[str, Any] = json.loads((directory / "expected.json").read_bytes())
    return said


def databases_of(workspaces: Sequence[str]) -> list[str]:
    """Those of workspaces, and of a Prefect server."""
    names = [f"{place}/{name}.sqlite" for place in workspaces for name in ("catalogue", "mlflow")]
    return [*names, "home/.prefect/prefect.db"]


# ---- the program ---------------------------------------------------------------------------------


def _sentences(seed: int, ending: str = ".") -> Iterator[str]:
    """Sentences of made-up words, the frequent ones short, without end and always the same."""
    choice = random.Random(seed)
    syllables = [c + v for c in "bdfgklmnprstvz" for v in ("a", "e", "i", "o", "u", "ä")]
    made = ("".join(choice.choices(syllables, k=choice.choice((1, 2, 2, 3)))) for _ in range(3000))
    words = sorted(dict.fromkeys(made), key=len)
    weights = [1 / (place + 3) for place in range(len(words))]
    while True:
        said = choice.choices(words, weights, k=choice.randint(4, 16))
        yield " ".join(said).capitalize() + ending


def _markdown(seed: int, size: int) -> str:
    """Headings, paragraphs and lists with blank lines between them."""
    choice, sentences, parts, length = random.Random(seed), _sentences(seed), [], 0
    while length < size:
        kind = choice.random()
        if kind < 0.15:
            part = "#" * choice.randint(1, 3) + " " + next(sentences).rstrip(".")
        elif kind < 0.35:
            part = "\n".join(f"* {next(sentences)}" for _ in range(choice.randint(2, 6)))
        else:
            part = " ".join(next(sentences) for _ in range(choice.randint(1, 6)))
        parts.append(part)
        length += len(part.encode()) + 2
    return "\n\n".join(parts) + "\n"


def _code(seed: int, size: int) -> str:
    """Functions of several lines."""
    choice, sentences, parts, length = random.Random(seed), _sentences(seed, ""), [], 0
    while length < size:
        said = next(sentences).lower().replace("ä", "ae").split()
        names = [one + two.title() for one, two in pairwise(said)]
        body = "".join(f"    {one} = {choice.randint(0, 9999)}\n" for one in names[1:5])
        part = f"def {names[0]}({', '.join(names[1:4])}):\n{body}    return {names[1]}\n\n\n"
        parts.append(part)
        length += len(part)
    return "".join(parts)


def _documents(seed: int, many: int) -> str:
    sentences = _sentences(seed)
    return END.join(" ".join(next(sentences) for _ in range(12)) for _ in range(many))


def _write_texts(root: Path) -> None:
    (root / "big.txt").write_text(_markdown(1, 241_000), "utf-8")
    (root / "code.py").write_text(_code(2, 60_000) + _code(3, 70_000), "utf-8")
    held = [{"text": _code(seed, size)} for seed, size in ((3, 70_000), (4, 90_000), (5, 2_000))]
    (root / "held.jsonl").write_text("\n".join(map(json.dumps, held)) + "\n", "utf-8")
    quoted = 'Dr. Bana met Mr. Kolo. "Stop!"* He left, e.g. by train. '
    (root / "words.txt").write_text(quoted * 4 + _documents(6, 20).replace(END, "\n"), "utf-8")
    project = root / "project"
    (project / "corpus").mkdir(parents=True)
    (project / "corpus/monday.txt").write_text(_documents(7, 500), "utf-8")
    (project / "tuesday.txt").write_text(_documents(8, 400), "utf-8")
    (project / "another-set.txt").write_text(_documents(9, 300), "utf-8")
    (project / "bpeline.toml").write_text(
        f"""[train]
name = "news"
paths = ["corpus/"]
vocab_size = 600
special_tokens = ["{END}"]
held_out = 0.5

[[rule]]
metric = "compression/bytes_per_token"
direction = "higher"
tolerance = 0.005

[schedule]
retrain = "0 3 * * *"
watch-drift = "0 */6 * * *"
""",
        "utf-8",
    )


class Commands:
    """The command line of this environment, in a home of its own."""

    def __init__(self, root: Path, **environment: str) -> None:
        self.root = root
        self.environment = {
            **os.environ,
            "HOME": str(root / "home"),
            "BPELINE_KERNEL_CACHE": os.path.expanduser("~/.cache/bpeline/kernels"),
            **environment,
        }

    def __call__(self, *typed: str, cwd: str = ".", exits: int = 0) -> str:
        ended = subprocess.run(
            [BPELINE, *typed],
            env=self.environment, cwd=self.root / cwd, text=True, capture_output=True, check=False,
        )  # fmt: skip
        print("$ bpeline", *typed, ended.stdout, ended.stderr, sep="\n")  # noqa: T201
        assert ended.returncode == exits, ended.returncode
        return ended.stdout

    def killed_after(self, merges: int, *typed: str) -> None:
        """A command that is killed when so many merges are in its checkpoint."""
        from interruptions import PROGRAM, SAVE

        killed = [sys.executable, "-c", PROGRAM, *SAVE, str(merges), str(int(signal.SIGKILL))]
        ended = subprocess.run([*killed, *typed], env=self.environment, cwd=self.root, check=False)
        assert ended.returncode == -signal.SIGKILL

    def deployed(self, cwd: str) -> None:
        """``bpeline server --deploy`` until it says that it is up."""
        server = subprocess.Popen(
            [BPELINE, "server", "--deploy", *PORTS],
            env=self.environment, cwd=self.root / cwd, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        assert server.stdout is not None
        for line in server.stdout:
            print(line, end="")  # noqa: T201
            if "Ctrl-C stops all" in line:
                break
        time.sleep(5)
        os.killpg(server.pid, signal.SIGINT)
        server.wait(60)


def make(root: Path) -> None:
    """Make the workspace in ``root``, which must not exist."""
    root.mkdir()
    (root / "home").mkdir()
    _write_texts(root)
    bpeline = Commands(root)
    workspace = "--workspace", str(root / ".bpeline")
    big = "train", "big.txt", "--name", "big", "--held-out", "0.1", *workspace
    bpeline(*big, "--vocab-size", "400", "--special-token", "\n\n")
    bpeline(*big, "--vocab-size", "400")
    code = "train", "code.py", "--name", "code", "--vocab-size", "500", "--eval", "t=held.jsonl"
    bpeline(*code, "--pattern", "llama3")
    bpeline(*code, "--pattern", "o200k")
    bpeline("train", "words.txt", "--name", "words", "--algorithm", "frequency-bpe",
            "--merges", "150")  # fmt: skip
    bpeline("train", cwd="project")
    shutil.move(root / "project/tuesday.txt", root / "project/corpus/tuesday.txt")
    bpeline("train", cwd="project")
    bpeline("evaluate", "news", "--set-from", "another-set.txt", "--separator", END,
            "--reason", "another set", cwd="project")  # fmt: skip
    bpeline.killed_after(60, *big, "--vocab-size", "500")
    bpeline.deployed("project")
    _write_expected(bpeline)


def _write_expected(bpeline: Commands) -> None:
    def asked(*typed: str, cwd: str = ".") -> Any:
        return json.loads(bpeline(*typed, "--json", cwd=cwd))

    here, project = ("big/1", "big/2", "code/1", "code/2", "words/1"), ("news/1", "news/2")
    said = {
        "versions": {reference: asked("show", reference) for reference in here}
        | {reference: asked("show", reference, cwd="project") for reference in project},
        "sets": asked("evaluate", "--sets") + asked("evaluate", "--sets", cwd="project"),
        "history": asked("history", "news", cwd="project"),
    }
    text = json.dumps(said, indent=1, sort_keys=True, ensure_ascii=False)
    (bpeline.root / "expected.json").write_text(text + "\n", "utf-8")


def keep(root: Path, archive: Path, workspaces: Sequence[str] = WORKSPACES) -> None:
    """Write the archive: databases compacted, without the wheels that models carry but one."""

    def kept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        return member

    for name in filter(lambda one: (root / one).exists(), databases_of(workspaces)):
        with closing(sqlite3.connect(root / name)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute("VACUUM")
    with tarfile.open(archive, "w:xz", preset=9) as packed:
        for path in sorted(root.rglob("*")):
            if path.suffix == ".whl" and KEPT_WHEEL not in path.parts:
                continue
            packed.add(path, str(path.relative_to(root)), recursive=False, filter=kept)


if __name__ == "__main__":
    make(MADE_IN)
    keep(MADE_IN, ARCHIVE)
