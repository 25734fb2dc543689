"""A job on a fresh copy of what it begins with, as often as a suite wants; nothing of faults."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zygote import Ended, Zygote

Attempt = Callable[..., Ended]


@dataclass(frozen=True, slots=True)
class Attempts:
    """What is tried again and again.

    Attributes:
        zygote: whose forks do it.
        job: its name there.
        made: the directory it makes or changes.
        begin: what lies there when it begins; None: nothing.
        arguments: the job's own.
    """

    zygote: Zygote
    job: str
    made: Path
    begin: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict)

    @contextmanager
    def afresh(self) -> Iterator[Attempt]:
        """The job, which may be run several times on one copy; further arguments say how."""
        if self.begin is not None:
            shutil.copytree(self.begin, self.made)
        try:
            yield lambda **how: self.zygote.run(self.job, **self.arguments, **how)
        finally:
            shutil.rmtree(self.made, ignore_errors=True)

    def undisturbed(self) -> dict[str, Any]:
        """What it returns when nobody disturbs it: its operations, and the state it leads to."""
        with self.afresh() as attempt:
            done: dict[str, Any] = attempt().returned()
        return done


def training(zygote: Zygote, empty: str, corpus: str, place: Path, **named: Any) -> Attempts:
    """A training in an empty workspace, whose result waits in the outbox."""
    made = place / "workspace"
    return Attempts(zygote, "train", made, empty, {"workspace": made, "corpus": corpus, **named})


def superwords(zygote: Zygote, registered: str, place: Path) -> Attempts:
    """The second phase of a training across spaces, behind the one version of a workspace."""
    made = place / "workspace"
    (words,) = Path(registered, "versions").iterdir()
    named = {"workspace": made, "words": words.name}
    return Attempts(zygote, "train_superwords", made, registered, named)


def publication(zygote: Zygote, outbox: str, place: Path) -> Attempts:
    """The publication of what waits in an outbox, on a real MLflow."""
    made = place / "workspace"
    return Attempts(zygote, "publish_waiting", made, outbox, {"workspace": made})


def encoding(zygote: Zygote, registered: str, corpus: str, place: Path) -> Attempts:
    """An encoding of the corpus by the one version of a copy of a workspace."""
    out, own = place / "tokens", place / "registered"
    shutil.copytree(registered, own)  # killed readers may leave something in theirs
    named = {"workspace": own, "corpus": corpus, "out": out}
    return Attempts(zygote, "encode", out, None, named)
