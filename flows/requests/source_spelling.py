"""How named sources are spelt, on the command line and in TOML files; finds and reads no text.

    english=en/*.txt
    german:language=de:domain=news:weight=2=de/*.txt

One spelling for what is trained on and for what is evaluated on. Which labels mean something, and
what the tables of a file are called, a `SourceKind` says.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from bpeline.registry.environment import read_settings
from bpeline.tokenizer_core.corpus import (
    SkippedFiles,
    Source,
    SourceFile,
    find_source_files,
    search_each,
)
from bpeline.tokenizer_core.errors import InvalidOption, likely
from bpeline.tokenizer_core.evaluation import ALL
from bpeline.tokenizer_core.urls import absolute_name, is_url

_WORD = r"[A-Za-z0-9_-]{1,64}"
_VALUES = {
    "language": _WORD,
    "domain": _WORD,
    "weight": r"[0-9]+(?:\.[0-9]+)?",
    "text_field": r"[A-Za-z0-9_.-]{1,64}",
}


@dataclass(frozen=True, slots=True)
class NamedSource:
    """One named text.

    Attributes:
        name: what its slice is called.
        files: paths, directories or globs.
        language, domain: labels, which make slices too.
        weight: factor on its counts.
        text_field: the field of its JSON lines, or column, where it is not that of the others.
    """

    name: str
    files: tuple[str, ...]
    language: str | None = None
    domain: str | None = None
    weight: float = 1.0
    text_field: str | None = None

    def found(self) -> list[SourceFile]:
        """The files it means.

        Raises:
            MissingSource, UnreadableSource: see `find_source_files`.
        """
        return find_source_files(self.searched)

    @property
    def searched(self) -> list[Source]:
        """What is searched for its files."""
        return [Source(files, self.name) for files in self.files]

    def spelt(self) -> list[str]:
        """What one would type for it, once for each of its files."""
        values = {
            "language": self.language,
            "domain": self.domain,
            "weight": None if self.weight == 1 else decimal(self.weight),
            "text_field": self.text_field,
        }
        labels = "".join(f":{label}={value}" for label, value in values.items() if value)
        return [f"{self.name}{labels}={files}" for files in self.files]


@dataclass(frozen=True, slots=True)
class SourceKind:
    """What sources are for.

    Attributes:
        what: ``evaluation source``.
        table: the name of a file's tables.
        labels: those that mean something.
        example: what to type.
        file: how a file of them is given.
    """

    what: str
    table: str
    labels: tuple[str, ...]
    example: str
    file: str = "a .toml file"

    @property
    def accepted(self) -> str:
        """What can be typed."""
        return (
            f"accepted are NAME=FILES, NAME:language=de:domain=news=FILES, and {self.file} with "
            f"tables [[{self.table}]]; labels are {', '.join(self.labels)}; names and labels are "
            "of letters, digits, '_' and '-'"
        )

    def absolute(self, spelling: str) -> str:
        """The same with absolute paths, so that a run can be continued from any directory.

        Raises:
            InvalidOption: not one of the accepted spellings.
        """
        if is_file(spelling):
            return os.path.abspath(spelling)
        matched = self._matched(spelling)
        return f"{matched['name']}{matched['labels']}={absolute_name(matched['files'])}"

    def from_text(self, spelling: str) -> NamedSource:
        """A source that was typed; errors as `absolute`."""
        matched = self._matched(spelling)
        labels: dict[str, Any] = dict(one.split("=") for one in matched["labels"].split(":")[1:])
        if "weight" in labels:
            labels["weight"] = float(labels["weight"])
            check_weight(labels["weight"])
        return NamedSource(matched["name"], (matched["files"],), **labels)

    def from_file(self, path: Path, others: Iterable[str]) -> tuple[list[NamedSource], Any]:
        """The sources of a TOML file, and what it says beside them; a project's may be one.

        Args:
            path: the file; the files it names are relative to it.
            others: members that it may have beside its tables.

        Raises:
            InvalidOption: not such a file.
        """
        content = read_settings(path, partial(self.unusable, path), (self.table, *others))
        return self.from_tables(content.pop(self.table, None), path), content

    def from_tables(self, tables: Any, path: Path) -> list[NamedSource]:
        """The sources that the tables of a file say; errors as `from_file`."""
        if not isinstance(tables, list) or not tables:
            raise self.unusable(path, f"it has no [[{self.table}]]")
        return [self._from_table(table, path) for table in tables]

    def joined(self, sources: Iterable[NamedSource]) -> tuple[NamedSource, ...]:
        """Sources of one name as one source with all their files.

        Raises:
            InvalidOption: one name with different labels.
        """
        found: dict[str, NamedSource] = {}
        for source in sources:
            known = found.get(source.name, replace(source, files=()))
            if replace(known, files=()) != replace(source, files=()):
                raise InvalidOption(
                    f"the {self.what} {source.name} was given twice, with different labels",
                    f"sources of one name are one source, with the same {', '.join(self.labels)}",
                    "give the second one another name",
                )
            found[source.name] = replace(source, files=known.files + source.files)
        return tuple(found.values())

    def unusable(self, path: Path, reason: str) -> InvalidOption:
        """The refusal of a file."""
        return InvalidOption(
            f"the {self.what}s in {path} cannot be used: {reason}", self.accepted, f"mend {path}"
        )

    def _matched(self, spelling: str) -> re.Match[str]:
        labels = "|".join(f":{label}={_VALUES[label]}" for label in self.labels)
        pattern = rf"(?P<name>{_WORD})(?P<labels>(?:{labels})*)=(?P<files>.+)"
        matched = re.fullmatch(pattern, spelling, re.DOTALL)
        if matched is None or matched["name"] == ALL:
            raise InvalidOption(f"{spelling!r} names no {self.what}", self.accepted, self.example)
        return matched

    def _from_table(self, table: Any, path: Path) -> NamedSource:
        named = f"a table [[{self.table}]]"
        known = ("name", "files", *self.labels)
        if isinstance(table, dict) and (unknown := sorted(table.keys() - {*known})):
            said = (f"{name}{likely(name, known)}" for name in unknown)
            raise self.unusable(path, f"{named} has {', '.join(said)}")
        if not isinstance(table, dict) or not {"name", "files"} <= table.keys():
            raise self.unusable(path, f"{named} lacks its name or its files")
        files = [table["files"]] if isinstance(table["files"], str) else table["files"]
        if not isinstance(files, list) or not files or not all(isinstance(f, str) for f in files):
            raise self.unusable(path, f"the files of {table['name']!r} are {table['files']!r}")
        labels = {label: table[label] for label in self.labels if label in table}
        weight = labels.pop("weight", 1.0)
        if isinstance(weight, bool) or not isinstance(weight, int | float):
            raise self.unusable(path, f"the weight of {table['name']!r} is {weight!r}")
        check_weight(weight)
        texts = {"name": table["name"], **labels}
        if not all(
            isinstance(text, str) and re.fullmatch(_VALUES.get(label, _WORD), text)
            for label, text in texts.items()
        ):
            raise self.unusable(path, f"{', '.join(map(repr, texts.values()))} cannot name a slice")
        if table["name"] == ALL:
            raise self.unusable(path, f"{ALL!r} is the name of all sources together")
        absolute = tuple(
            one if is_url(one) else os.path.abspath(path.parent / one) for one in files
        )
        return NamedSource(table["name"], absolute, weight=float(weight), **labels)


def files_of_each(
    sources: Sequence[NamedSource],
) -> tuple[list[tuple[SourceFile, ...]], SkippedFiles]:
    """The files of each source, and what the searches for them skipped; errors as `found`."""
    return search_each([one.searched for one in sources])


def is_file(spelling: str) -> bool:
    """Whether a TOML file is named rather than a source."""
    return spelling.endswith(".toml") and "=" not in spelling


def decimal(weight: float) -> str:
    """A weight as people type it: ``2``, ``0.5``, ``0.000001``."""
    return f"{weight:.6f}".rstrip("0").rstrip(".")


def check_weight(weight: float) -> None:
    """Refuse a weight that counts cannot have; NumPy is loaded when there is one."""
    from bpeline.tokenizer_core.counting import millionths

    millionths(weight)
