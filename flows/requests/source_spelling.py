"""Parse named sources, on the command line and in TOML files.

    english=en/*.txt
    german:language=de:domain=news:weight=2=de/*.txt

Training and evaluation use one spelling; `SourceKind` has their labels and table names.
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
    """A named source.

    Attributes:
        name: also the name of its slice.
        files: paths, directories or globs.
        language, domain: labels, which are slices, too.
        weight: factor on its counts.
        text_field: its field of JSON lines, or column, if different from the others.
    """

    name: str
    files: tuple[str, ...]
    language: str | None = None
    domain: str | None = None
    weight: float = 1.0
    text_field: str | None = None

    def found(self) -> list[SourceFile]:
        """Find its files; errors as `find_source_files`."""
        return find_source_files(self.searched)

    @property
    def searched(self) -> list[Source]:
        return [Source(files, self.name) for files in self.files]

    def spelt(self) -> list[str]:
        """Its spelling as options, one for each of its files."""
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
    """A use of sources: allowed labels, the name of its tables in TOML files, texts for errors.

    Attributes:
        what: the noun in errors, such as ``evaluation source``.
        file: how a TOML file is given, for errors.
    """

    what: str
    table: str
    labels: tuple[str, ...]
    example: str
    file: str = "a .toml file"

    @property
    def accepted(self) -> str:
        """The second part of errors."""
        return (
            f"expected NAME=FILES, NAME:language=de:domain=news=FILES, or {self.file} with "
            f"tables [[{self.table}]]; labels are {', '.join(self.labels)}; names and labels have "
            "letters, digits, '_' and '-'"
        )

    def absolute(self, spelling: str) -> str:
        """Make the paths absolute; raises `InvalidOption` for an invalid spelling."""
        if is_file(spelling):
            return os.path.abspath(spelling)
        matched = self._matched(spelling)
        return f"{matched['name']}{matched['labels']}={absolute_name(matched['files'])}"

    def from_text(self, spelling: str) -> NamedSource:
        """Parse a typed source; errors as `absolute`."""
        matched = self._matched(spelling)
        labels: dict[str, Any] = dict(
            label.split("=") for label in matched["labels"].split(":")[1:]
        )
        if "weight" in labels:
            labels["weight"] = float(labels["weight"])
            check_weight(labels["weight"])
        return NamedSource(matched["name"], (matched["files"],), **labels)

    def from_file(self, path: Path, others: Iterable[str]) -> tuple[list[NamedSource], Any]:
        """Read the sources of a TOML file, with paths relative to it, and its ``others`` keys.

        Raises:
            InvalidOption: the file is invalid.
        """
        content = read_settings(path, partial(self.unusable, path), (self.table, *others))
        return self.from_tables(content.pop(self.table, None), path), content

    def from_tables(self, tables: Any, path: Path) -> list[NamedSource]:
        """Parse the tables of a file; errors as `from_file`."""
        if not isinstance(tables, list) or not tables:
            raise self.unusable(path, f"it has no [[{self.table}]]")
        return [self._from_table(table, path) for table in tables]

    def joined(self, sources: Iterable[NamedSource]) -> tuple[NamedSource, ...]:
        """Join sources with one name; raises `InvalidOption` if their labels differ."""
        by_name: dict[str, NamedSource] = {}
        for source in sources:
            earlier = by_name.get(source.name, replace(source, files=()))
            if replace(earlier, files=()) != replace(source, files=()):
                raise InvalidOption(
                    f"the {self.what} {source.name} was given twice, with different labels",
                    f"expected the same {', '.join(self.labels)} for sources with one name",
                    "give the second one another name",
                )
            by_name[source.name] = replace(source, files=earlier.files + source.files)
        return tuple(by_name.values())

    def unusable(self, path: Path, reason: str) -> InvalidOption:
        return InvalidOption(
            f"the {self.what}s in {path} cannot be used: {reason}", self.accepted, f"edit {path}"
        )

    def _matched(self, spelling: str) -> re.Match[str]:
        labels = "|".join(f":{label}={_VALUES[label]}" for label in self.labels)
        pattern = rf"(?P<name>{_WORD})(?P<labels>(?:{labels})*)=(?P<files>.+)"
        matched = re.fullmatch(pattern, spelling, re.DOTALL)
        if matched is None or matched["name"] == ALL:
            raise InvalidOption(f"{spelling!r} names no {self.what}", self.accepted, self.example)
        return matched

    def _from_table(self, table: Any, path: Path) -> NamedSource:
        table_name = f"a table [[{self.table}]]"
        known_keys = ("name", "files", *self.labels)
        if isinstance(table, dict) and (unknown := sorted(table.keys() - {*known_keys})):
            unknown_names = (f"{name}{likely(name, known_keys)}" for name in unknown)
            raise self.unusable(path, f"{table_name} has {', '.join(unknown_names)}")
        if not isinstance(table, dict) or not {"name", "files"} <= table.keys():
            raise self.unusable(path, f"{table_name} lacks its name or its files")
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
            file if is_url(file) else os.path.abspath(path.parent / file) for file in files
        )
        return NamedSource(table["name"], absolute, weight=float(weight), **labels)


def files_of_each(
    sources: Sequence[NamedSource],
) -> tuple[list[tuple[SourceFile, ...]], SkippedFiles]:
    """The files of each source, and the skipped files; errors as `NamedSource.found`."""
    return search_each([source.searched for source in sources])


def is_file(spelling: str) -> bool:
    """Whether this is a TOML file rather than a source."""
    return spelling.endswith(".toml") and "=" not in spelling


def decimal(weight: float) -> str:
    """Format a weight: ``2``, ``0.5``, ``0.000001``."""
    return f"{weight:.6f}".rstrip("0").rstrip(".")


def check_weight(weight: float) -> None:
    """Raise `InvalidOption` for an invalid weight."""
    from bpeline.tokenizer_core.counting import millionths

    millionths(weight)
