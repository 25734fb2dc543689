"""The commands ``train``, ``compare`` and ``promote`` as functions: `bpeline.train` and so on."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterable
from contextlib import nullcontext
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpeline.flows.requests import ImportRequest, TrainingRequest
from bpeline.flows.running import progress, runner, settings
from bpeline.registry.environment import addresses
from bpeline.registry.records import CHAMPION

if TYPE_CHECKING:
    from bpeline.flows.publishing import TrainingSummary
    from bpeline.registry.aliases import AliasChange
    from bpeline.registry.evaluation import Rules, VersionComparison

Paths = str | PathLike[str] | Iterable[str | PathLike[str]]


def train(
    paths: Paths = (),
    *,
    name: str,
    workspace: str | PathLike[str] | None = None,
    quiet: bool = False,
    **parameters: Any,
) -> TrainingSummary:
    """Train a tokenizer on a corpus, evaluate and register it, as ``bpeline train`` does.

    The same call continues after an interruption, and registers nothing twice.

    Args:
        paths: files, directories, globs or URLs.
        name: the name to register under.
        workspace: its directory or URL; by default ``BPELINE_HOME``, else ``.bpeline``.
        quiet: whether to show no progress on standard error.
        parameters: the keys of ``bpeline.toml`` (``vocab_size=32_000``, ``pattern="o200k"``,
            ``special_tokens=["<|endoftext|>"]``, ``sources=[…]``); see `TrainingRequest`.

    Returns:
        A summary: ``reference`` (``news/1``), ``digest``, ``metrics`` and the rest of ``--json``.

    Raises:
        InvalidOption: a parameter is unknown, missing or has a wrong value.
        BpelineError: the corpus cannot be read, or the version cannot be registered now.

    Example:
        >>> import bpeline
        >>> done = bpeline.train("corpus/", name="news", vocab_size=32_000)    # doctest: +SKIP
        >>> bpeline.load_tokenizer(done.reference).encode("news")              # doctest: +SKIP
    """
    request = TrainingRequest.checked(paths=_listed(paths), name=name, **parameters)
    summary: TrainingSummary = run_request(request, workspace, quiet=quiet)
    return summary


def compare(
    first: str,
    second: str,
    *,
    eval: Paths = (),
    text_field: str = "text",
    separator: str | None = None,
) -> VersionComparison:
    """Compare two tokenizers, as ``bpeline compare`` does.

    Args:
        first, second: versions (``news@champion``, ``news/3``) or paths of tokenizers.
        eval: texts that both encode: files, directories, globs, or named sources
            (``german=de/*.txt``); by default the evaluation set of the second version's name.
        text_field: field of .jsonl lines, or column.
        separator: text between the documents of a file; ``none``: a file is one document.

    Returns:
        Metrics, vocabs, the first merge that differs, and the change in tokens with its interval.

    Raises:
        BpelineError: a tokenizer or a text cannot be read.
    """
    from bpeline.flows.evaluation import compare_on

    return compare_on(first, second, _listed(eval), text_field, separator)


def promote(
    reference: str,
    to: str = CHAMPION,
    *,
    rules: Rules | str | PathLike[str] | None = None,
    reason: str = "",
    by: str = "",
    lock: bool = False,
    force: bool = False,
    workspace: str | PathLike[str] | None = None,
) -> AliasChange:
    """Move an alias to a version, as ``bpeline promote`` does.

    Args:
        reference: the version: ``news/3``, ``news@candidate`` or a digest.
        to: the alias to move.
        rules: conditions against the version that the alias points to now, or a .toml file.
        reason, by: for the history; ``by`` is the user's name by default.
        lock: whether later moves need ``force``.
        force: whether to move a locked alias.
        workspace: its directory or URL; by default ``BPELINE_HOME``, else ``.bpeline``.

    Raises:
        PromotionRefused: a rule does not hold, or cannot be judged.
        AliasLocked, UnknownVersion, RegistryUnreachable: the alias was not moved.
    """
    from bpeline.flows.publishing import promote as promote_version
    from bpeline.registry.environment import this_user
    from bpeline.registry.evaluation import read_rules
    from bpeline.registry.opening import open_registry

    read = read_rules(Path(rules)) if isinstance(rules, str | PathLike) else rules
    registry = open_registry(_place(workspace), make=False)
    return promote_version(
        reference, to, by or this_user(), reason, warnings.warn, registry,
        rules=read, lock=lock, force=force,
    )  # fmt: skip


def run_request(
    request: TrainingRequest | ImportRequest,
    workspace: str | PathLike[str] | None = None,
    *,
    quiet: bool = False,
) -> Any:
    """Run the flow of a request, on a Prefect server if one is known; returns its summary."""
    place = addresses().workspace if workspace is None else str(_place(workspace))
    chosen = runner.choose_runner()
    listener = progress.for_stream(sys.stderr)
    if chosen.remark:
        listener.note(chosen.remark)
    if chosen.prefect_api is not None:
        settings.prepare_prefect(chosen.prefect_api, quiet_terminal=True)
        # Else each batch of lines that a lost server does not get is complained of here.
        logging.raiseExceptions = False
    with nullcontext() if quiet else progress.listening(listener):
        flow: Any
        if isinstance(request, ImportRequest):
            from bpeline.flows.import_tokenizer import import_tokenizer as flow
        else:
            from bpeline.flows.train_tokenizer import train_tokenizer as flow
        if chosen.prefect_api is None:
            return flow.fn(request, place)
        from bpeline.flows.serving import recorded

        return recorded(flow, request, place, chosen.prefect_api)


def _listed(paths: Paths) -> list[str]:
    if isinstance(paths, str | PathLike):
        return [fspath(paths)]
    return [fspath(path) for path in paths]


def _place(workspace: str | PathLike[str] | None) -> str | None:
    return None if workspace is None else fspath(workspace)
