"""``bpeline init``: write a project file."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from shlex import quote
from typing import Any

import click

from bpeline.flows.cli.commands import FILE, SIZE, answer, command
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.urls import absolute_name, is_url


@command(
    "bpeline init corpus/ --name news",
    "bpeline init --name news                      # propose the texts in this directory",
    "bpeline init corpus/ --name news --vocab-size auto --model-shape llama-3.2-1b",
    "bpeline init 'data/*.jsonl.zst' --name news --vocab-size 64000 --pattern llama3",
    "bpeline init --source 'en=en/*.txt' --source 'de:weight=2:language=de=de/*.txt' --name two",
)
@click.argument("paths", nargs=-1)
@click.option(
    "--source",
    "sources",
    multiple=True,
    metavar="NAME=FILES",
    help="Named source, as for `bpeline train`, instead of PATHS. Repeatable.",
)
@click.option("--name", required=True, help="Name to register under.")
@click.option(
    "--vocab-size",
    type=SIZE,
    metavar="NUMBER|auto",
    help="Vocabulary size; auto chooses the cheapest size for --model-shape.  [default: 32000]",
)
@click.option(
    "--model-shape",
    metavar="NAME|FILE",
    help="With --vocab-size auto: the model that the vocabulary is for, as for `bpeline train`.",
)
@click.option(
    "--largest-size",
    type=int,
    help="With --vocab-size auto: the largest size to try.  [default: 131072]",
)
@click.option("--pattern", help="Split pattern.  [default: gpt2]")
@click.option(
    "--special-token",
    "special_tokens",
    multiple=True,
    help="Special token; it also separates documents. Repeatable.",
)
@click.option("--project", type=FILE, help="File to write.  [default: bpeline.toml]")
def init(
    paths: tuple[str, ...],
    sources: tuple[str, ...],
    name: str,
    vocab_size: int | str | None,
    largest_size: int | None,
    model_shape: str | None,
    pattern: str | None,
    special_tokens: tuple[str, ...],
    project: Path | None,
    as_json: bool,
) -> None:
    """Write a project file, bpeline.toml, that trains on PATHS.

    The file has comments on common parameters. Without PATHS and --source, texts next to it are
    listed as comments: uncomment those of the corpus.

    Then `bpeline train` without arguments trains what the file says, `bpeline train --dry-run`
    shows the plan, and `bpeline deploy` schedules it. Subdirectories use the same file and
    workspace.
    """
    from bpeline.flows.requests import (
        DEMO,
        DEMO_HELD_OUT,
        PROJECT_FILE,
        FoundSource,
        TrainingRequest,
        advised_share,
        corpus_sources,
        project_text,
        sources_beside,
    )
    from bpeline.tokenizer_core.corpus import Source, find_source_files

    path = project or Path(PROJECT_FILE)
    if path.exists():
        raise InvalidOption(
            f"{path} already exists",
            "expected a new file name",
            f"edit it, or move it away: `mv {quote(str(path))} {quote(f'{path}.old')}`",
        )
    parameters: dict[str, Any] = {
        "name": name,
        "vocab_size": vocab_size or TrainingRequest.model_fields["vocab_size"].default,
        "pattern": pattern or "gpt2",
        "special_tokens": list(special_tokens),
    }
    chosen = {"largest_size": largest_size, "model_shape": model_shape}
    parameters |= {key: value for key, value in chosen.items() if value is not None}
    corpus = list(paths) if paths or sources else ["corpus/"]
    request = TrainingRequest.checked(**parameters, paths=corpus, sources=list(sources))
    proposals: list[FoundSource] = []
    named_sources = corpus_sources(sources)
    files = [file for source in named_sources for file in source.found()]
    if paths:
        unnamed_sources = [Source(item) for item in paths if item != DEMO]
        files = find_source_files(unnamed_sources) if unnamed_sources else []
        parameters["paths"] = [item if item == DEMO else _beside(path, item) for item in paths]
    elif not sources:
        proposals = sources_beside(path.absolute().parent)
    if model_shape is not None and Path(model_shape).exists():
        parameters["model_shape"] = _beside(path, model_shape)
    named_sources = tuple(
        replace(item, files=tuple(_beside(path, file) for file in item.files))
        for item in named_sources
    )
    share, remark = advised_share(files, request.reading)
    if DEMO in paths:
        parameters["held_out"] = DEMO_HELD_OUT
    elif share:
        parameters["held_out"] = share
    elif remark:
        click.echo(f"note: {remark}", err=True)
    DURABLE.write(path, project_text(parameters, proposals, named_sources).encode())
    typed = "" if project is None else f" --project {quote(str(path))}"
    lines = [f"wrote {path}"]
    if proposals:
        width = max(len(item.path) for item in proposals)
        lines += [f"  found {item.path:<{width}}  {item}" for item in proposals]
        lines.append(f"choose the corpus: uncomment paths in {path}")
    lines += [f"show the plan:  bpeline train --dry-run{typed}", f"train:  bpeline train{typed}"]
    result = {"written": str(path.absolute()), "found": [asdict(item) for item in proposals]}
    answer(as_json, result, lines)


def _beside(project: Path, path: str) -> str:
    """A typed path, made absolute if the project file is in another directory."""
    folder = project.absolute().parent
    if folder == Path.cwd() or is_url(path):
        return path
    return absolute_name(path)
