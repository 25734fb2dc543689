"""What a search for sources found and does not read, told by kind; searches nothing itself."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bpeline.tokenizer_core.corpus.file_kinds import ACCEPTED, is_about_datasets
from bpeline.tokenizer_core.errors import UnreadableSource

_MOST_KINDS = 8


@dataclass(frozen=True, slots=True)
class SkippedFiles:
    """The files below directories, or matched by globs, that are not read.

    Attributes:
        kinds: extension, or what else is the reason → how many files.
        hidden: names that begin with a dot: left out on purpose, as globs do.
        about_datasets: descriptions that the library `datasets` keeps beside its files; likewise.
        example: one of the files, of the most frequent kind.
    """

    kinds: Mapping[str, int] = field(default_factory=dict)
    hidden: int = 0
    about_datasets: int = 0
    example: str = ""

    @property
    def number(self) -> int:
        """How many files are not read, beside those that are left out on purpose."""
        return sum(self.kinds.values())

    @property
    def remark(self) -> str:
        """One line for people, empty where nothing was skipped: ``skipped 3 files: 3 .png``."""
        found = [self._listed] if self.number else []
        if self.about_datasets:
            found.append(_several(self.about_datasets, "description", " of datasets"))
        if self.hidden:
            found.append(_several(self.hidden, "hidden name"))
        if not found:
            return ""
        *others, last = found
        return f"skipped {', '.join(others)}, and {last}" if others else f"skipped {last}"

    @property
    def _listed(self) -> str:
        ordered = sorted(self.kinds.items(), key=lambda one: (-one[1], one[0]))
        shown = [f"{number:,} {kind}" for kind, number in ordered[:_MOST_KINDS]]
        rest = ordered[_MOST_KINDS:]
        if rest:
            shown.append(f"{sum(number for _, number in rest):,} of {len(rest):,} other kinds")
        return f"{self.number:,} file{'s' * (self.number != 1)}: {', '.join(shown)}"

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "files": self.number,
            "kinds": dict(self.kinds),
            "hidden": self.hidden,
            "about_datasets": self.about_datasets,
        }

    def refuse(self) -> None:
        """What ``--strict`` asks for.

        Raises:
            UnreadableSource: a file was skipped that is not hidden.
        """
        if self.number:
            raise UnreadableSource(
                f"{self._listed} would not be read, such as {self.example}",
                "with --strict every file must be read, apart from hidden ones and descriptions of "
                f"datasets; accepted are {ACCEPTED}",
                "leave --strict out; or name the files that are meant; or read more kinds as text "
                "with --include '*.rst'",
            )


def _several(number: int, what: str, of: str = "") -> str:
    return f"{number:,} {what}{'s' * (number != 1)}{of}"


class Skipping:
    """Counts what is skipped while sources are searched; each file once, whoever meets it."""

    def __init__(self) -> None:
        self._kinds: dict[str, str] = {}
        self._hidden: set[str] = set()

    def skip(self, path: str, kind: str) -> None:
        """A file that is not read, and why."""
        self._kinds[path] = kind

    def hide(self, path: str) -> None:
        """A file or directory that is left out because of its name."""
        self._hidden.add(path)

    def add(self, others: Skipping) -> None:
        """What another search has skipped."""
        self._kinds |= others._kinds
        self._hidden |= others._hidden

    def told(self, taken: set[str]) -> SkippedFiles:
        """What was skipped, apart from what another source took, perhaps by a link to it."""
        if self._kinds:
            taken = taken | {os.path.realpath(path) for path in taken if os.path.islink(path)}
        left = {path: kind for path, kind in self._kinds.items() if path not in taken}
        about = {path for path in left if is_about_datasets(path)}
        left = {path: kind for path, kind in left.items() if path not in about}
        kinds = Counter(left.values())
        most = max(kinds, key=lambda kind: (kinds[kind], kind), default="")
        example = min((path for path, kind in left.items() if kind == most), default="")
        return SkippedFiles(dict(kinds), len(self._hidden - taken), len(about), example)
