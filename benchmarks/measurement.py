"""What a measurement is: who takes part, on what, and when results are equal; runs nothing."""

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
    """What one process is given.

    Attributes:
        files: the text; most measurements read one file.
        vocab_size, threads: as the measurement understands them.
        vocabulary: a tokenizer.json to use instead of learning one.
        prepared: what `Measurement.prepare` made, as JSON values.
    """

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
    """One program that is measured.

    Attributes:
        name: as the tables show it.
        run: the program; times itself with the stopwatch and returns what is compared, as JSON
            values in which bytes may stand.
        package: the distribution that has to be there; None for ourselves.
        module: what is imported of it.
        promise: what its result must equal, in words of the measurement.
        caveat: what a reader must know before comparing.
        slow: whether it is asked for a sample of a large file only.
        once: whether one round has to be enough, because it takes minutes.
        folder_variable: the environment variable that names a folder with the package, where that
            cannot be installed beside another version of it (``pip install --target FOLDER``).
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
        """Where the package is, if not among those that are installed."""
        return os.environ.get(self.folder_variable, "") if self.folder_variable else ""

    @property
    def installed(self) -> bool:
        if self.folder_variable:
            return Path(self.folder, self.module).is_dir() if self.folder else False
        return importlib.util.find_spec(self.module) is not None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a comparison.

    Attributes:
        equal: None where equality is not to be expected.
        words: for the table.
        divergence: (index, ours, theirs) of the first difference, printable.
    """

    equal: bool | None
    words: str
    divergence: tuple[int, str, str] | None = None


def same(contestant: Contestant, theirs: Any, found: Mapping[str, Any], _case: Case) -> Verdict:
    """Equal is what everybody found; ``found`` is what each of them found in the first round."""
    first = next(iter(found.values()))
    return Verdict(theirs == first, "equal" if theirs == first else "differs")


@contextmanager
def nothing_prepared(_case: Case) -> Iterator[Mapping[str, Any]]:
    yield {}


@dataclass(frozen=True, slots=True)
class Measurement:
    """A measurement, declared.

    Attributes:
        name: on the command line, and of the file of results.
        about: for the command line's help.
        contestants: who takes part; the first is what the others are compared with.
        prepare: what all of them need; ``facts`` in it are kept with the result.
        judge: (contestant, what it found, what each found first, case) → whether that is equal.
        vocab_sizes, threads, megabytes: what is measured unless something else is asked for; no
            megabytes is the whole file, others are its beginnings.
        together: whether all files are one corpus.
        sample_bytes: what slow contestants get of a file that is more than twice as large.
        packages: whose versions are kept beside those of the contestants.
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
        return next(one for one in self.contestants if one.name == name)
