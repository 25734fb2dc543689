"""``bpeline init``."""

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
    "bpeline init --name news                      # with the texts that are here, as proposals",
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
    help="A named source, as of `bpeline train`, instead of PATHS. Repeat for more.",
)
@click.option("--name", required=True, help="The name to register under.")
@click.option(
    "--vocab-size",
    type=SIZE,
    metavar="NUMBER|auto",
    help="Number of ids; with auto the one at which text costs a model least.  [default: 32000]",
)
@click.option(
    "--model-shape",
    metavar="NAME|FILE",
    help="With --vocab-size auto: register the size at which a byte of text costs this model "
    "least; as of `bpeline train`.",
)
@click.option(
    "--largest-size",
    type=int,
    help="With --vocab-size auto: the largest that is asked about.  [default: 131072]",
)
@click.option("--pattern", help="The split pattern.  [default: gpt2]")
@click.option(
    "--special-token",
    "special_tokens",
    multiple=True,
    help="A token of its own, which also separates documents. Repeat for more.",
)
@click.option("--project", type=FILE, help="Write this file.  [default: bpeline.toml]")
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
    """Write bpeline.toml here: what this project trains on PATHS, with comments.

    Without PATHS and --source, texts beside the file are listed in it as comments: uncomment
    those that are the corpus.

    `bpeline train` without arguments then trains what the file says, `bpeline train --dry-run`
    shows what that would be, and `bpeline deploy` schedules it. The file and its workspace are
    found from every directory below; --project names a file elsewhere.
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
            f"there is a {path} already",
            "the name of a file that is not there",
            f"edit it, or move it away: `mv {quote(str(path))} {quote(f'{path}.old')}`",
        )
    given: dict[str, Any] = {
        "name": name,
        "vocab_size": vocab_size or TrainingRequest.model_fields["vocab_size"].default,
        "pattern": pattern or "gpt2",
        "special_tokens": list(special_tokens),
    }
    chosen = {"largest_size": largest_size, "model_shape": model_shape}
    given |= {key: value for key, value in chosen.items() if value is not None}
    corpus = list(paths) if paths or sources else ["corpus/"]
    request = TrainingRequest.checked(**given, paths=corpus, sources=list(sources))
    found: list[FoundSource] = []
    named = corpus_sources(sources)
    files = [file for source in named for file in source.found()]
    if paths:
        others = [Source(one) for one in paths if one != DEMO]
        files = find_source_files(others) if others else []
        given["paths"] = [one if one == DEMO else _beside(path, one) for one in paths]
    elif not sources:
        found = sources_beside(path.absolute().parent)
    if model_shape is not None and Path(model_shape).exists():
        given["model_shape"] = _beside(path, model_shape)
    named = tuple(
        replace(one, files=tuple(_beside(path, file) for file in one.files)) for one in named
    )
    share, remark = advised_share(files, request.reading)
    if DEMO in paths:
        given["held_out"] = DEMO_HELD_OUT
    elif share:
        given["held_out"] = share
    elif remark:
        click.echo(f"note: {remark}", err=True)
    DURABLE.write(path, project_text(given, found, named).encode())
    typed = "" if project is None else f" --project {quote(str(path))}"
    lines = [f"wrote {path}"]
    if found:
        width = max(len(one.path) for one in found)
        lines += [f"  found {one.path:<{width}}  {one}" for one in found]
        lines.append(f"say which is the corpus: take the comment signs of paths away in {path}")
    lines += [f"what it would do:  bpeline train --dry-run{typed}", f"do it:  bpeline train{typed}"]
    told = {"written": str(path.absolute()), "found": [asdict(one) for one in found]}
    answer(as_json, told, lines)


def _beside(project: Path, path: str) -> str:
    """A path that was typed here, as it stands in a file that may lie elsewhere."""
    folder = project.absolute().parent
    if folder == Path.cwd() or is_url(path):
        return path
    return absolute_name(path)
