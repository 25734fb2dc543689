"""Which texts a tokenizer is evaluated on: named sources with labels, typed or from a TOML file.

Knows how they are spelt and which files they mean; reads no text.

    english=heldout/en/*.txt
    german:language=de:domain=news=heldout/de/*.txt
    evaluation.toml

A TOML file holds tables ``[[evaluation]]`` with ``name``, ``files`` (relative to it), and perhaps
``language`` and ``domain``; ``parallel = true`` above them says that all languages say the same.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizer_core.corpus import Source, SourceFile, find_source_files
from tokenizer_core.errors import InvalidOption
from tokenizer_core.metric_names import ALL, LABELS

LARGEST_FILE = 1 << 20  # bytes
_WORD = r"[A-Za-z0-9_-]{1,64}"
_SPELLING = re.compile(
    rf"(?P<name>{_WORD})(?P<labels>(?::(?:{'|'.join(LABELS)})={_WORD})*)=(?P<files>.+)", re.DOTALL
)
_ACCEPTED = (
    "accepted are NAME=FILES, NAME:language=de:domain=news=FILES, and a .toml file with tables "
    "[[evaluation]]; names and labels are of letters, digits, '_' and '-'"
)
_EXAMPLE = "type `--eval 'english=heldout/*.txt'`"


@dataclass(frozen=True, slots=True)
class EvaluationSource:
    """One named text.

    Attributes:
        name: what its slice is called.
        files: paths, directories or globs.
        language, domain: labels, which make slices too.
    """

    name: str
    files: tuple[str, ...]
    language: str | None = None
    domain: str | None = None

    def found(self) -> list[SourceFile]:
        """The files it means.

        Raises:
            MissingSource, UnreadableSource: see `find_source_files`.
        """
        return find_source_files([Source(files, self.name) for files in self.files])


@dataclass(frozen=True, slots=True)
class EvaluationSources:
    """Everything to evaluate on; nothing when there are no sources.

    Attributes:
        sources: names differ.
        parallel: the texts of all languages say the same.
    """

    sources: tuple[EvaluationSource, ...] = ()
    parallel: bool = False


def absolute(spelling: str) -> str:
    """The same with absolute paths, so that a run can be continued from any directory.

    Raises:
        InvalidOption: not one of the accepted spellings.
    """
    if _is_file(spelling):
        return os.path.abspath(spelling)
    matched = _matched(spelling)
    return f"{matched['name']}{matched['labels']}={os.path.abspath(matched['files'])}"


def evaluation_sources(spellings: Iterable[str]) -> EvaluationSources:
    """What was typed, with the tables of TOML files in their places.

    Sources of one name are one source with all their files.

    Raises:
        InvalidOption: not an accepted spelling, or one name with different labels.
    """
    sources: dict[str, EvaluationSource] = {}
    parallel = False
    for spelling in spellings:
        if _is_file(spelling):
            listed, says_parallel = _from_file(Path(spelling))
            parallel |= says_parallel
        else:
            listed = [_from_text(spelling)]
        for source in listed:
            known = sources.get(source.name)
            sources[source.name] = source if known is None else _joined(known, source)
    return EvaluationSources(tuple(sources.values()), parallel)


def _is_file(spelling: str) -> bool:
    return spelling.endswith(".toml") and "=" not in spelling


def _matched(spelling: str) -> re.Match[str]:
    matched = _SPELLING.fullmatch(spelling)
    if matched is None or matched["name"] == ALL:
        raise InvalidOption(f"{spelling!r} names no evaluation source", _ACCEPTED, _EXAMPLE)
    return matched


def _from_text(spelling: str) -> EvaluationSource:
    matched = _matched(spelling)
    labels = dict(label.split("=") for label in matched["labels"].split(":")[1:])
    return EvaluationSource(matched["name"], (matched["files"],), **labels)


def _from_file(path: Path) -> tuple[list[EvaluationSource], bool]:
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise ValueError(f"it is larger than {LARGEST_FILE} bytes")
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # TOML's and UTF-8's errors are ValueErrors
        raise _unusable(path, str(error)) from error
    parallel, tables = content.pop("parallel", False), content.pop("evaluation", None)
    if content or not isinstance(tables, list) or not tables or not isinstance(parallel, bool):
        raise _unusable(path, f"it has {', '.join(content) or 'no [[evaluation]]'}")
    return [_from_table(table, path) for table in tables], parallel


def _from_table(table: Any, path: Path) -> EvaluationSource:
    if not isinstance(table, dict) or not {"name", "files"} <= table.keys():
        raise _unusable(path, "a table [[evaluation]] lacks its name or its files")
    unknown = table.keys() - {"name", "files", *LABELS}
    if unknown:
        raise _unusable(path, f"a table [[evaluation]] has {', '.join(sorted(unknown))}")
    files = [table["files"]] if isinstance(table["files"], str) else table["files"]
    texts = [table["name"], *(table[label] for label in LABELS if label in table)]
    if not isinstance(files, list) or not files or not all(isinstance(one, str) for one in files):
        raise _unusable(path, f"the files of {table['name']!r} are {table['files']!r}")
    if not all(isinstance(one, str) and re.fullmatch(_WORD, one) for one in texts):
        raise _unusable(path, f"{', '.join(map(repr, texts))} cannot name a slice")
    if table["name"] == ALL:
        raise _unusable(path, f"{ALL!r} is the name of all sources together")
    return EvaluationSource(
        table["name"],
        tuple(os.path.abspath(path.parent / one) for one in files),
        table.get("language"),
        table.get("domain"),
    )


def _joined(known: EvaluationSource, more: EvaluationSource) -> EvaluationSource:
    if (known.language, known.domain) != (more.language, more.domain):
        raise InvalidOption(
            f"the evaluation source {known.name} was given twice, with different labels",
            "sources of one name are one source, with the same language and domain",
            "give the second one another name",
        )
    return EvaluationSource(known.name, known.files + more.files, known.language, known.domain)


def _unusable(path: Path, reason: str) -> InvalidOption:
    return InvalidOption(f"the evaluation sources in {path} cannot be used: {reason}", _ACCEPTED,
                         f"mend {path}")  # fmt: skip
