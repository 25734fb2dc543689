"""The commented project file that ``bpeline init`` writes, and the texts it proposes."""

from __future__ import annotations

import json
import os
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bpeline.flows.requests.corpus_files import CORPUS
from bpeline.flows.requests.project import SCHEDULE, SWEEP
from bpeline.flows.requests.source_spelling import NamedSource
from bpeline.flows.requests.training_request import LARGEST_SIZE, TrainingRequest
from bpeline.flows.wording import counted, megabytes
from bpeline.registry.environment import PROJECT_TABLE
from bpeline.registry.evaluation import MOST_HELD_OUT, missing_text, share_to_watch
from bpeline.tokenizer_core.bounded_files import MAX_FILE_BYTES, json_of, read_bounded
from bpeline.tokenizer_core.corpus import ReadOptions, Source, SourceFile, find_source_files
from bpeline.tokenizer_core.counting import documents_of
from bpeline.tokenizer_core.digests import MANIFEST
from bpeline.tokenizer_core.errors import BpelineError, MissingSource
from bpeline.tokenizer_core.urls import is_url

MOST_PROPOSED = 30
_NOT_TEXTS = {"__pycache__", "node_modules", "site-packages", "venv", "build", "dist"}


@dataclass(frozen=True, slots=True)
class FoundSource:
    """A readable file or directory next to the project file.

    Attributes:
        path: relative to the folder; directories end with a slash.
        files: number of readable files.
        bytes: size on disk.
    """

    path: str
    files: int
    bytes: int

    def __str__(self) -> str:
        return f"{counted(self.files, 'file')}, {megabytes(self.bytes)}"


def sources_beside(folder: Path) -> list[FoundSource]:
    """List files and directories of a folder that hold text, the largest first.

    Skips hidden names, ``node_modules`` and the like, and token shards. Raises `MissingSource` if
    there is none.
    """
    sources = []
    entries = os.scandir(folder) if folder.is_dir() else ()
    for entry in sorted(entries, key=lambda one: one.name):
        if entry.name.startswith(".") or entry.name in _NOT_TEXTS:
            continue
        is_folder = entry.is_dir()
        if is_folder and _is_of_ours(Path(entry.path)):
            continue
        if not is_folder and not re.search(_DATA, entry.name):
            continue
        try:
            files = find_source_files([Source(entry.path)])
        except BpelineError:  # no readable text
            continue
        size = sum(file.size for file in files)
        sources.append(FoundSource(entry.name + "/" * is_folder, len(files), size))
    if not sources:
        raise MissingSource(
            f"there is no text in {folder}",
            "expected .txt, .md, .py, .jsonl, .csv or .parquet files, or directories of them",
            "name the corpus: `bpeline init /data/corpus --name news`",
        )
    return sorted(sources, key=lambda one: -one.bytes)


def advised_share(files: Sequence[SourceFile], reading: ReadOptions) -> tuple[float, str]:
    """The share to hold out so that `bpeline drift` can judge, or 0 and the reason.

    Reads only as much text as the default share needs, and nothing from object stores.
    """
    default_share = TrainingRequest.model_fields["held_out"].default
    if not files or any(is_url(str(file.path)) for file in files):
        return 0.0, ""
    is_cut = reading.pattern.cut_pairs is not None
    size = documents = 0
    share = 1.0
    with suppress(BpelineError):  # the training reports it
        for document in documents_of(files, reading):
            size, documents = size + len(document), documents + 1
            share = share_to_watch(size, documents, is_cut)
            if share <= default_share:
                return default_share, ""
    if share <= MOST_HELD_OUT:
        return share, ""
    return 0.0, f"too little text for `bpeline drift` to judge: {missing_text(size, share)}"


def _is_of_ours(folder: Path) -> bool:
    """Whether bpeline wrote the folder, such as token shards, whose index has JSON lines."""
    path = folder / MANIFEST
    try:
        manifest = json_of(read_bounded(path, MAX_FILE_BYTES), path)
    except (BpelineError, OSError):
        return False
    return isinstance(manifest, dict) and str(manifest.get("format")).startswith("bpeline-")


# Top-level files are proposed by extension; README and the like are not corpus.
_DATA = r"\.(?:txt|jsonl|csv|tsv|parquet|arrow|feather)(?:\.(?:gz|zst|bz2|xz))?$"


def project_text(
    given: Mapping[str, Any],
    found: Sequence[FoundSource] = (),
    sources: Sequence[NamedSource] = (),
) -> str:
    """The text of a project file: the parameters given, and other common ones commented out.

    Args:
        given: parameters of `TrainingRequest`, with files as written in the file.
        found: proposals instead of paths.
        sources: named sources, with files as written in the file.
    """
    lines = [
        "# A bpeline project. `bpeline train` trains it, `bpeline train --dry-run` shows the plan,",
        "# and `bpeline deploy` schedules it. Paths are relative to this file.",
        "",
        f"[{PROJECT_TABLE}]",
    ]
    for name in _WRITTEN:
        described = TrainingRequest.model_fields[name]
        lines += [f"# {line}" for line in _wrapped(str(described.description))]
        if name in given:
            lines += [f"{name} = {_toml(given[name])}", ""]
        elif name == "paths" and found:
            lines += [*_proposed(found), ""]
        else:
            lines += [f"# {name} = {_toml(_USUAL.get(name, described.default))}", ""]
    folders = [one.path for one in found if one.path.endswith("/")]
    tables = _tables_of(sources) if sources else _named(folders or ["de/"])
    return "\n".join([*lines, *tables, *_TABLES, ""])


def _proposed(found: Sequence[FoundSource]) -> Iterator[str]:
    yield "# Found here. Uncomment these lines, and delete files that are not part of the corpus:"
    yield "# paths = ["
    listed = found[:MOST_PROPOSED]
    width = max(len(_toml(item.path)) for item in listed)
    for item in listed:
        yield f"#     {_toml(item.path) + ',':<{width + 1}}  # {item}"
    yield "# ]"
    if len(found) > len(listed):
        yield f"# and {len(found) - len(listed)} smaller ones"


def _tables_of(sources: Iterable[NamedSource]) -> Iterator[str]:
    for source in sources:
        yield f"[[{CORPUS.table}]]"
        empty = NamedSource("", ())
        for name, value in asdict(source).items():
            if value != getattr(empty, name):
                yield f"{name} = {_toml(value)}"
        yield ""


def _named(folders: Iterable[str]) -> Iterator[str]:
    yield "# Named sources instead of paths, each with a weight and labels:"
    for folder in list(folders)[:MOST_PROPOSED]:
        name = re.sub(r"[^A-Za-z0-9_-]+", "-", folder.rstrip("/")).strip("-")[:64] or "source"
        yield "# [[source]]"
        yield f"# name = {_toml(name)}"
        yield f"# files = [{_toml(folder)}]"
        yield "# weight = 1"
        yield ""
    yield '# Labels of a source: language = "de", domain = "news".'
    yield ""


_WRITTEN = (
    *("name", "paths", "vocab_size", "largest_size", "model_shape", "pattern", "special_tokens"),
    *("held_out", "text_field", "include", "forbid", "baselines"),
)
_USUAL = {
    "pattern": "gpt2", "baselines": (), "forbid": (), "paths": (), "largest_size": LARGEST_SIZE,
    "model_shape": "llama-3.2-1b",
}  # fmt: skip
_TABLES = (
    "# Texts that all versions are measured on, instead of held-out documents:",
    "# [[evaluation]]",
    '# name = "german"',
    '# files = ["heldout/de/*.txt"]',
    '# language = "de"',
    "",
    "# Promotion rules, for new versions and for `bpeline promote`:",
    "# [[rule]]",
    '# metric = "compression/bytes_per_token"',
    '# direction = "higher"',
    "# tolerance = 0.005",
    "",
    "# What `bpeline sweep` compares:",
    f"# [{SWEEP}]",
    "# sizes = [8000, 16000, 32000, 64000]",
    '# patterns = ["gpt2", "cl100k"]',
    "",
    "# New text for `bpeline drift`, if it is not the corpus:",
    "# [drift]",
    '# paths = ["incoming/"]',
    "",
    f"[{SCHEDULE}]",
    "# For `bpeline deploy`: minute, hour, day of the month, month, day of the week.",
    '# retrain = "0 3 * * *"',
    '# watch-drift = "0 */6 * * *"',
    '# encode-dataset = "0 4 * * *"',
    '# sweep-garbage = "0 5 * * 0"',
    '# timezone = "UTC"',
)


def _wrapped(text: str, width: int = 96) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False)


def _toml(value: Any) -> str:
    """A string, number, boolean or list as TOML; JSON strings are valid TOML."""
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)
