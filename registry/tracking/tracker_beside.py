"""`MlflowTracker` in two processes: one asks, the other is asked, imports MLflow and answers.

Knows which questions need MLflow; neither what they mean nor how they are carried.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any

from bpeline.registry.tracking.beside import (
    Beside,
    NobodyThere,
    NotPickled,
    answering,
    present,
)
from bpeline.registry.tracking.mlflow_database import database_of, wait_for_maker
from bpeline.registry.tracking.tracked import TrackingSettings
from bpeline.registry.tracking.tracking import MlflowTracker
from bpeline.tokenizer_core.errors import BpelineError, RegistryError

# These are read from the database without MLflow, see `MlflowConnection._quickly`.
LOOKED_UP = {"identity", "aliases", "model_tags", "versions", "version", "version_of_alias"}
ASKED = {
    name
    for kind in MlflowTracker.__mro__
    for name, value in vars(kind).items()
    if callable(value) and not name.startswith("_") and name not in LOOKED_UP
}


def tracker_of(settings: TrackingSettings) -> MlflowTracker:
    """Who speaks to this MLflow: where it is a SQLite file, a process that was begun for that."""
    beside = present()
    if beside is None or database_of(settings.uri) is None:
        return MlflowTracker(settings)
    return TrackerBeside(settings, beside)


class _NeedsMlflow(BpelineError):
    """What is looked up in tables is not certain."""


class TrackerBeside(MlflowTracker):
    """Asks a process beside this one; where that cannot be asked, MLflow is imported here."""

    def __init__(self, settings: TrackingSettings, beside: Beside) -> None:
        super().__init__(settings)
        self._beside = beside

    @property
    def is_beside(self) -> bool:
        return not self._beside.is_gone

    def _quickly(self, read: Callable[[Any], Any], ask: Callable[[], Any]) -> Any:
        def ask_beside() -> Any:
            if self._beside.is_gone:
                return ask()
            raise _NeedsMlflow("it is to be asked of MLflow")

        return super()._quickly(read, ask_beside)


def _asking(name: str) -> Callable[..., Any]:
    here = getattr(MlflowTracker, name)

    @wraps(here)
    def ask(self: TrackerBeside, *args: Any, **named: Any) -> Any:
        database = database_of(self.settings.uri)
        assert database is not None, "see `tracker_of`"
        try:
            with self._beside.turn:
                wait_for_maker(database)
                error, answer, remarks = self._beside.ask((self.settings, name, args, named))
        except NotPickled:
            return here(MlflowTracker(self.settings), *args, **named)
        except NobodyThere:
            return here(self, *args, **named)
        for text, category in remarks:
            warnings.warn(text, category, stacklevel=2)
        if error is not None:  # made anew: without the secrets that are known here
            kind, *parts = error
            raise kind(*parts)
        return answer

    return ask


def _looking_up(name: str) -> Callable[..., Any]:
    here, ask = getattr(MlflowTracker, name), _asking(name)

    @wraps(here)
    def look(self: TrackerBeside, *args: Any, **named: Any) -> Any:
        with suppress(_NeedsMlflow):
            return here(self, *args, **named)
        return ask(self, *args, **named)

    return look


for _names, _kind in ((ASKED, _asking), (LOOKED_UP, _looking_up)):
    for _name in _names:
        setattr(TrackerBeside, _name, _kind(_name))


Question = tuple[TrackingSettings, str, tuple[Any, ...], dict[str, Any]]


def answer_beside(end: int) -> None:
    """The other process: import MLflow, then answer until nobody asks any more."""
    with suppress(Exception):  # who asks for what needs it meets the same error, and is told
        MlflowTracker(TrackingSettings("")).load()
    trackers: dict[TrackingSettings, MlflowTracker] = {}
    answering(end, lambda question, carry: answer_to(question, trackers, carry))
    os._exit(0)  # without taking MLflow apart


def answer_to(
    question: Question,
    trackers: dict[TrackingSettings, MlflowTracker],
    carry: Callable[[Any], None],
) -> None:
    """Carry back what comes of a question: the error, the answer and the remarks.

    An error is its kind and its three parts: what libraries raise cannot always be made again.
    """
    settings, name, args, named = question
    tracker = trackers.setdefault(settings, MlflowTracker(settings))
    with warnings.catch_warnings(record=True) as remarks:
        try:
            found = getattr(tracker, name)(*args, **named)
            carry((None, found, _told(remarks)))  # what cannot be pickled is not begun to be sent
        except Exception as raised:
            error = raised if isinstance(raised, BpelineError) else _as_ours(raised, name)
            parts = (error.happened, error.accepted, error.next_step)
            carry(((type(error), *parts), None, _told(remarks)))


def _told(remarks: list[warnings.WarningMessage]) -> list[tuple[str, type[Warning]]]:
    return [(str(one.message), _carried(one.category)) for one in remarks]


def _carried(category: type[Warning]) -> type[Warning]:
    """The category, which is found by its name; where it is not, the one of all that are not."""
    module = sys.modules.get(category.__module__)
    is_found = getattr(module, category.__qualname__, None) is category
    return category if is_found else UserWarning


def _as_ours(error: Exception, asked: str) -> RegistryError:
    return RegistryError(
        f"the process that speaks to MLflow failed ({asked}): {type(error).__name__}: {error}",
        "accepted is an installation whose parts fit together",
        "type `bpeline doctor`, then the same command again",
    )
