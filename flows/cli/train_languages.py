"""``bpeline train --joint`` and ``--separate``: which files are which language."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from bpeline.tokenizer_core.errors import InvalidOption

if TYPE_CHECKING:
    from bpeline.flows.steps import TrainingSummary
    from bpeline.flows.train_languages import LanguagesSummary


def train_languages(
    joint: Sequence[str],
    separate: Sequence[str],
    parameters: dict[str, Any],
    train: Callable[[dict[str, Any]], TrainingSummary],
) -> LanguagesSummary:
    """Train as asked for.

    Args:
        joint, separate: ``LANGUAGE=PATH``; one of them is empty.
        parameters: of `train_tokenizer`.
        train: runs it.
    """
    from bpeline.flows import train_languages as flow

    others = {key: value for key, value in parameters.items() if key not in ("paths", "name")}
    return flow.train_languages(
        languages_of(joint or separate),
        "joint" if joint else "separate",
        parameters["name"],
        train,
        **others,
    )


def languages_of(named: Sequence[str]) -> dict[str, list[str]]:
    """``LANGUAGE=PATH`` as language → paths, in order.

    Raises:
        InvalidOption: one of another form.
    """
    languages: dict[str, list[str]] = {}
    for one in named:
        language, equals, path = one.partition("=")
        if not (language and equals and path):
            raise InvalidOption(
                f"{one!r} names no language and its files",
                "accepted: a name, '=', and a file, directory or glob",
                "type `--joint src=corpus.src --joint tgt=corpus.tgt`",
            )
        languages.setdefault(language, []).append(path)
    return languages
