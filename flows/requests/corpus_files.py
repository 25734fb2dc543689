"""Files that name the sources of a corpus and of an evaluation, and the demo corpus."""

from __future__ import annotations

import json
import os
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bpeline.flows.requests.source_spelling import NamedSource, SourceKind, check_weight, is_file
from bpeline.tokenizer_core.bounded_files import read_file
from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import InvalidOption, MissingSource
from bpeline.tokenizer_core.evaluation import LABELS

if TYPE_CHECKING:
    from bpeline.registry.workspace import Workspace

CORPUS = SourceKind(
    "source",
    "source",
    ("language", "domain", "weight", "text_field"),
    "type `--source 'german:language=de:weight=2=de/*.txt'`",
    "in place of paths a .toml file",
)


def corpus_sources(spellings: Iterable[str]) -> tuple[NamedSource, ...]:
    """The sources that were typed; those of one name are one source with all their files.

    Raises:
        InvalidOption: not an accepted spelling, or one name with different labels.
    """
    return CORPUS.joined(CORPUS.from_text(spelling) for spelling in spellings)


def read_corpus_file(path: Path) -> tuple[list[str], float | None]:
    """The sources of a corpus file as one would type them, and its temperature.

    Raises:
        InvalidOption: not such a file.
    """
    sources, others = CORPUS.from_file(path, {"temperature"})
    temperature = others.get("temperature")
    if isinstance(temperature, bool) or not isinstance(temperature, int | float | None):
        raise CORPUS.unusable(path, f"the temperature is {temperature!r}")
    spelt = [one for source in CORPUS.joined(sources) for one in source.spelt()]
    return spelt, None if temperature is None else float(temperature)


def is_version(paths: Sequence[str]) -> bool:
    """Whether a sweep of mixtures was given a version, whose sources it weighs, and no files."""
    return len(paths) == 1 and not is_file(paths[0])


def with_weights(
    sources: Sequence[NamedSource], weights: Mapping[str, float]
) -> tuple[NamedSource, ...]:
    """The same sources with other weights; those that are not named keep theirs.

    Raises:
        InvalidOption: no sources, one that is not there, or an impossible weight.
    """
    names = [source.name for source in sources]
    if not names:
        raise InvalidOption(
            "the corpus has no named sources",
            "a corpus file or `--source` options, or a version that was trained on named sources",
            "type `bpeline sweep corpus.toml --weights de=2 --sizes 32000`",
        )
    for name, weight in weights.items():
        if name not in names:
            raise InvalidOption(
                f"there is no source {name} to be weighed",
                f"the sources are {', '.join(names)}",
                f"type `--weights {names[0]}=2`",
            )
        check_weight(weight)
    return tuple(replace(one, weight=weights.get(one.name, one.weight)) for one in sources)


def check_temperature(temperature: float, sources: Sequence[NamedSource]) -> None:
    """Refuse a temperature that is impossible or has nothing to change.

    Raises:
        InvalidOption: such a temperature.
    """
    from bpeline.tokenizer_core.counting import weights_at

    weights_at([], [], temperature)
    if temperature != 1 and len(sources) < 2:
        raise InvalidOption(
            f"the temperature is {temperature}, and the corpus has no two named sources",
            "a temperature changes the shares of named sources",
            "name them: `--source 'en=en/*.txt' --source 'de=de/*.txt'`",
        )


EVALUATION = SourceKind(
    "evaluation source", "evaluation", LABELS, "type `--eval 'english=heldout/*.txt'`"
)


@dataclass(frozen=True, slots=True)
class EvaluationSources:
    """Everything to evaluate on; nothing when there are no sources.

    Attributes:
        sources: names differ.
        parallel: the texts of all languages say the same.
    """

    sources: tuple[NamedSource, ...] = ()
    parallel: bool = False


def evaluation_sources(spellings: Iterable[str]) -> EvaluationSources:
    """What was typed, with the tables of TOML files in their places.

    Sources of one name are one source with all their files.

    Raises:
        InvalidOption: not an accepted spelling, or one name with different labels.
    """
    sources: list[NamedSource] = []
    parallel = False
    for spelling in spellings:
        if is_file(spelling):
            listed, others = EVALUATION.from_file(Path(spelling), {"parallel"})
            said = others.get("parallel", False)
            if not isinstance(said, bool):
                refused = f"parallel is {said!r}, not true or false"
                raise EVALUATION.unusable(Path(spelling), refused)
            sources += listed
            parallel |= said
        else:
            sources.append(EVALUATION.from_text(spelling))
    return EvaluationSources(EVALUATION.joined(sources), parallel)


def is_named(spelling: str) -> bool:
    """Whether sources are named, here or in a TOML file; a file with `=` in its name is not."""
    return spelling.endswith(".toml") or ("=" in spelling and not os.path.lexists(spelling))


DEMO = "python:stdlib"
DEMO_NAME = "demo"
DEMO_VOCAB_SIZE = 8_000
DEMO_HELD_OUT = 0.02  # enough for `bpeline drift` to judge by

_NOT_OURS = {"site-packages", "dist-packages", "__pycache__"}


def with_demo(paths: Iterable[str], workspace: Workspace) -> list[str]:
    """Paths in which `DEMO` has become the file that it stands for."""
    return [str(demo_corpus(workspace)) if path == DEMO else path for path in paths]


def demo_corpus(workspace: Workspace) -> Path:
    """Gather the standard library's modules into one .jsonl file, one module per document.

    The file is named after the modules' sizes and times, so a second run finds it without reading
    any. Modules that are not UTF-8 (they test the parser) are left out.

    Raises:
        MissingSource: this Python has no readable library, as some minimal images.
    """
    modules = list(_modules())
    path = _place(modules, workspace)
    if not path.is_file():
        lines = list(_lines(modules))
        if not lines:
            raise MissingSource(
                "this Python comes without the source text of its standard library",
                "the demo's corpus is that source text",
                "name a corpus of your own: `bpeline train corpus.txt --name news`",
            )
        DURABLE.write(path, b"".join(lines))
    return path


def demo_place(workspace: Workspace) -> tuple[Path, int]:
    """Where the demo's corpus is or would be, and how many bytes its modules have; writes none."""
    modules = list(_modules())
    return _place(modules, workspace), sum(status.st_size for _, _, status in modules)


def _place(modules: list[tuple[str, str, os.stat_result]], workspace: Workspace) -> Path:
    key = digest_of([[name, status.st_size, status.st_mtime_ns] for name, _, status in modules])
    return workspace.run_directory("demo-corpus") / f"python-stdlib-{key[:16]}.jsonl"


def _modules() -> Iterator[tuple[str, str, os.stat_result]]:
    """Name, path and state of every module, sorted by path."""
    library = sysconfig.get_path("stdlib")
    found = []
    for parent, directories, names in os.walk(library):
        directories[:] = [name for name in directories if name not in _NOT_OURS]
        found += [os.path.join(parent, name) for name in names if name.endswith(".py")]
    for path in sorted(found, key=lambda path: path.split(os.sep)):
        yield os.path.relpath(path, library).replace(os.sep, "/"), path, os.stat(path)


def _lines(modules: list[tuple[str, str, os.stat_result]]) -> Iterator[bytes]:
    for name, path, _ in modules:
        try:
            text = read_file(path).decode()
        except (UnicodeDecodeError, OSError):
            continue
        yield json.dumps({"file": name, "text": text}, ensure_ascii=False).encode() + b"\n"
