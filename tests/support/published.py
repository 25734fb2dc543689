"""Workspaces that many tests start from: each is made once per run and copied.

A copy is independent of its original: no address in it leads back, so a deletion in a copy leaves
the original whole.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import tokenizers
from filelock import FileLock
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from bpeline.registry.opening import open_registry
from bpeline.tokenizer_core.digests import canonical_json, digest_of


class Recipe(NamedTuple):
    """The texts of a folder by their paths, and the commands that are run in it."""

    files: Mapping[str, str]
    commands: Sequence[Sequence[object]]


END = "<|end|>"


def corpus_parts(text: str) -> dict[str, str]:
    """About 120 kB in three files of a folder ``corpus``."""
    return {
        f"corpus/part-{number}.txt": text[begin : begin + 40_000]
        for number, begin in enumerate((0, 40_000, 90_000))
    }


def recipes(text: str, imported: str) -> dict[str, Recipe]:
    """Recipes by the name of the workspace.

    Args:
        text: at least 190,000 characters of real text.
        imported: a ``tokenizer.json`` that another library made.
    """
    fresh = END.join(text[at : at + 900] for at in range(160_000, 190_000, 900))
    german = "Der Zug hält in Berlin und in Lübeck. Die Straße ist für alle da, the end. " * 30
    german += text[60_000:65_000] + " zyxqwvzyxqwv" * 60
    two = {"english.txt": text[:60_000] + " é\0ü", "german.txt": german}
    sources = ("--source", "english:language=en=english.txt", "--source")
    sources = (*sources, "german:weight=2=german.txt", "--name", "news", "--held-out", 0)
    news = ("--name", "news", "--vocab-size", 500, "--held-out", 0.2, "--special-token", END)
    plain = ("--name", "plain", "--held-out", 0, "--min-word-count", 2)
    small = ("train", "text.txt", "--name", "v", "--vocab-size")
    return {
        # news/1 of old.txt is champion, news/2 of new.txt is candidate; neither has read fresh.txt.
        "news": Recipe(
            {"old.txt": text[:60_000], "new.txt": text[40_000:160_000], "fresh.txt": fresh},
            [
                ("train", "old.txt", *news),
                ("train", "new.txt", *news),
                ("promote", "news/1", "--reason", "the first"),
            ],
        ),
        # news/1 of three files, all of which was trained on.
        "corpus": Recipe(
            corpus_parts(text),
            [
                ("train", "corpus", "--name", "news", "--vocab-size", 400, "--held-out", 0,
                 "--special-token", "<|endoftext|>"),
            ],
        ),
        # news/1 and news/2 of two sources; plain/1 of the same files, words of one occurrence left
        # out. A strange word occurs 60 times in german.txt alone.
        "two sources": Recipe(
            two,
            [
                ("train", *sources, "--vocab-size", 500, "--special-token", END),
                ("train", *sources, "--vocab-size", 900),
                ("train", *two, *plain, "--vocab-size", 800),
            ],
        ),
        # ext/1, which another library made.
        "imported": Recipe(
            {
                "corpus.txt": text[:60_000] + " WRONG" * 80,
                "new.txt": text[60_000:90_000],
                "tokenizer.json": imported,
            },
            [
                ("import", "tokenizer.json", "--name", "ext", "--eval", "own=new.txt",
                 "--licence", "MIT"),
            ],
        ),
        # v/1 and v/2 of a few words, and an export: what the commands of `every_command` name.
        "small": Recipe(
            {"text.txt": "".join(f"low lower lowest new newer number {n}\n" for n in range(200))},
            [
                (*small, 280, "--special-token", "<|a|>"),
                (*small, 276),
                ("export", "v/1", "--format", "hf", "--output", "tokenizer.json"),
            ],
        ),
    }  # fmt: skip


def trained_by_tokenizers(text: str) -> str:
    """A ``tokenizer.json`` of byte-level BPE that normalizes."""
    made = tokenizers.Tokenizer(models.BPE())
    made.normalizer = normalizers.NFC()
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=500, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(text.splitlines(), trainer)
    return made.to_str()


def made_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """Return the folder after one process of this run has filled it with ``make``."""
    done = folder.with_name(f"{folder.name}.done")
    folder.parent.mkdir(exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)  # of a process that failed
            folder.mkdir()
            make(folder)
            done.touch()
    return folder


def make_workspace(root: Path) -> None:
    """Make an empty workspace with an MLflow database."""
    registry = open_registry(root)
    registry.tracker.prepare()
    registry.catalogue.close()


def copied(workspace: Path, to: Path) -> Path:
    """Copy a workspace, or a folder that holds one, and return the copy."""
    shutil.copytree(workspace, to, dirs_exist_ok=True)
    rewrite_paths(to, str(workspace), str(to))
    for catalogue in to.rglob("catalogue.sqlite"):
        with closing(sqlite3.connect(catalogue)) as connection, connection:
            for (path,) in connection.execute("SELECT path FROM file_readings").fetchall():
                if Path(path).is_relative_to(to) and Path(path).exists():
                    status = Path(path).stat()  # size and time of change are those of the original
                    connection.execute(
                        "UPDATE file_readings SET ctime_ns = ?, inode = ? WHERE path = ?",
                        (status.st_ctime_ns, str(status.st_ino), path),
                    )
    return to


def rewrite_paths(folder: Path, old: str, new: str) -> None:
    """Replace a path in all databases and records of places and corpora below a folder."""
    for database in (*folder.rglob("*.sqlite"), *folder.rglob("prefect.db")):
        if old.encode() in database.read_bytes():
            _replace_everywhere(database, old, new)
    for places in folder.rglob("mlflow-places.json"):
        places.write_text(places.read_text("utf-8").replace(old, new), "utf-8")
    for record in folder.rglob("tables/*.corpus.json"):
        moved = json.loads(record.read_text("utf-8").replace(old, new))
        del moved["digest"]
        record.write_bytes(canonical_json({**moved, "digest": digest_of(moved)}))


def _replace_everywhere(database: Path, old: str, new: str) -> None:
    with closing(sqlite3.connect(database)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        for (table,) in tables.fetchall():
            for _, column, *_ in connection.execute(f"PRAGMA table_info('{table}')").fetchall():
                connection.execute(
                    f'UPDATE \'{table}\' SET "{column}" = replace("{column}", ?, ?) '
                    f'WHERE instr("{column}", ?)',
                    (old, new, old),
                )
        connection.commit()
        connection.execute("VACUUM")  # or pages that are free still hold the former path
