"""``bpeline init``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bpeline.flows.cli.options import answer, command
from bpeline.tokenizer_core.errors import InvalidOption


@command(
    "bpeline init corpus/ --name news",
    "bpeline init 'data/*.jsonl.zst' --name news --vocab-size 64000 --pattern llama3",
)
@click.argument("paths", nargs=-1, required=True)
@click.option("--name", required=True, help="The name to register under.")
@click.option("--vocab-size", type=int, help="Number of ids.  [default: 32000]")
@click.option("--pattern", help="The split pattern.  [default: gpt2]")
@click.option(
    "--special-token",
    "special_tokens",
    multiple=True,
    help="A token of its own, which also separates documents. Repeat for more.",
)
def init(
    paths: tuple[str, ...],
    name: str,
    vocab_size: int | None,
    pattern: str | None,
    special_tokens: tuple[str, ...],
    as_json: bool,
) -> None:
    """Write bpeline.toml here: what this project trains on PATHS, with comments.

    `bpeline train` without arguments does then what it says, `bpeline train --plan` says what that
    would be, `bpeline deploy` schedules it. The file and the workspace beside it are found from
    every directory below.
    """
    from bpeline.flows.requests import DEMO, PROJECT_FILE, TrainingRequest, project_text
    from bpeline.tokenizer_core.corpus import Source, find_source_files
    from bpeline.tokenizer_core.durable_files import DURABLE

    path = Path(PROJECT_FILE)
    if path.exists():
        raise InvalidOption(
            f"there is a {PROJECT_FILE} here already",
            "a directory without one",
            f"edit it, or move it away: `mv {PROJECT_FILE} {PROJECT_FILE}.old`",
        )
    given: dict[str, Any] = {
        "name": name,
        "paths": list(paths),
        "vocab_size": vocab_size or TrainingRequest.model_fields["vocab_size"].default,
        "pattern": pattern or "gpt2",
        "special_tokens": list(special_tokens),
    }
    TrainingRequest.checked(**given)
    find_source_files([Source(one) for one in paths if one != DEMO])
    DURABLE.write(path, project_text(given).encode())
    lines = [f"wrote {path}", "what it would do:  bpeline train --plan", "do it:  bpeline train"]
    answer(as_json, {"written": str(path.absolute())}, lines)
