"""`Measurement`, its contestants and its cases."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.process import Stopwatch

OURS = "bpeline"


@dataclass(frozen=True, slots=True)
class Case:
    """Arguments of one process; ``prepared`` is JSON of `Measurement.prepare`."""

    files: tuple[str, ...]
    vocab_size: int = 32_000
    threads: int = 2
    vocabulary: str | None = None
    prepared: Mapping[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        return Path(self.files[0])

    @property
    def bytes(self) -> int:
        return sum(Path(file).stat().st_size for file in self.files)


@dataclass(frozen=True, slots=True)
class Contestant:
    """One program to measure.

    Attributes:
        run: runs and times the program, and returns its result as JSON; bytes are allowed.
        package: required distribution; None for bpeline.
        promise: what its result must equal, see the measurement's ``judge``.
        caveat: note for readers of the tables.
        slow: gets only a sample of large files.
        once: runs one round only.
        folder_variable: environment variable with the folder of a package that conflicts with
            another version (``pip install --target FOLDER``).
    """

    name: str
    run: Callable[[Case, Stopwatch], Any]
    package: str | None = None
    module: str = "bpeline"
    promise: str = ""
    caveat: str = ""
    slow: bool = False
    once: bool = False
    folder_variable: str = ""

    @property
    def folder(self) -> str:
        """The folder of the package, or "" if it is installed."""
        return os.environ.get(self.folder_variable, "") if self.folder_variable else ""

    @property
    def installed(self) -> bool:
        if self.folder_variable:
            return Path(self.folder, self.module).is_dir() if self.folder else False
        return importlib.util.find_spec(self.module) is not None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of a comparison; ``equal`` is None if equality is not expected.

    ``divergence`` is (index, ours, theirs) of the first difference.
    """

    equal: bool | None
    words: str
    divergence: tuple[int, str, str] | None = None


def same(contestant: Contestant, theirs: Any, found: Mapping[str, Any], _case: Case) -> Verdict:
    """Compare with the result of the first contestant."""
    first = next(iter(found.values()))
    return Verdict(theirs == first, "equal" if theirs == first else "differs")


@contextmanager
def nothing_prepared(_case: Case) -> Iterator[Mapping[str, Any]]:
    yield {}


@dataclass(frozen=True, slots=True)
class Measurement:
    """A measurement.

    Attributes:
        about: help text of its command.
        contestants: the first is the baseline.
        prepare: makes what all need; its ``facts`` are stored with the result.
        judge: (contestant, its result, first results by name, case) → verdict.
        megabytes: sizes of beginnings to measure; empty for the whole file.
        together: whether all files are one corpus.
        sample_bytes: sample for slow contestants if the file is more than twice as large.
        packages: versions to store besides those of contestants.
    """

    name: str
    about: str
    contestants: Sequence[Contestant]
    prepare: Callable[[Case], AbstractContextManager[Mapping[str, Any]]] = nothing_prepared
    judge: Callable[[Contestant, Any, Mapping[str, Any], Case], Verdict] = same
    vocab_sizes: Sequence[int] = (32_000,)
    threads: Sequence[int] = (2,)
    megabytes: Sequence[float] = ()
    together: bool = False
    sample_bytes: int = 0
    packages: Sequence[str] = ()

    @property
    def baseline(self) -> str:
        return self.contestants[0].name

    def named(self, name: str) -> Contestant:
        return next(contestant for contestant in self.contestants if contestant.name == name)
