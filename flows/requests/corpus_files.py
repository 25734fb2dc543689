"""Sources of a corpus or an evaluation, corpus files, and the demo corpus."""

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
    """Parse typed sources; joins those with one name. Errors as `SourceKind.from_text`."""
    return CORPUS.joined(CORPUS.from_text(spelling) for spelling in spellings)


def read_corpus_file(path: Path) -> tuple[list[str], float | None]:
    """Read a corpus file: its sources, spelt as options, and its temperature."""
    sources, other_keys = CORPUS.from_file(path, {"temperature"})
    temperature = other_keys.get("temperature")
    if isinstance(temperature, bool) or not isinstance(temperature, int | float | None):
        raise CORPUS.unusable(path, f"the temperature is {temperature!r}")
    spellings = [spelling for source in CORPUS.joined(sources) for spelling in source.spelt()]
    return spellings, None if temperature is None else float(temperature)


def is_version(paths: Sequence[str]) -> bool:
    """Whether the argument of a sweep is a version instead of files."""
    return len(paths) == 1 and not is_file(paths[0])


def with_weights(
    sources: Sequence[NamedSource], weights: Mapping[str, float]
) -> tuple[NamedSource, ...]:
    """The sources with new weights; raises `InvalidOption` for unknown sources."""
    names = [source.name for source in sources]
    if not names:
        raise InvalidOption(
            "the corpus has no named sources",
            "expected a corpus file, `--source` options, or a version trained on named sources",
            "type `bpeline sweep corpus.toml --weights de=2 --sizes 32000`",
        )
    for name, weight in weights.items():
        if name not in names:
            raise InvalidOption(
                f"there is no source {name}",
                f"expected one of {', '.join(names)}",
                f"type `--weights {names[0]}=2`",
            )
        check_weight(weight)
    return tuple(
        replace(source_, weight=weights.get(source_.name, source_.weight)) for source_ in sources
    )


def check_temperature(temperature: float, sources: Sequence[NamedSource]) -> None:
    """Raise `InvalidOption` for an invalid temperature, or one without two named sources."""
    from bpeline.tokenizer_core.counting import weights_at

    weights_at([], [], temperature)
    if temperature != 1 and len(sources) < 2:
        raise InvalidOption(
            f"the temperature is {temperature}, and the corpus has no two named sources",
            "expected two or more named sources, whose shares the temperature changes",
            "name them: `--source 'en=en/*.txt' --source 'de=de/*.txt'`",
        )


EVALUATION = SourceKind(
    "evaluation source", "evaluation", LABELS, "type `--eval 'english=heldout/*.txt'`"
)


@dataclass(frozen=True, slots=True)
class EvaluationSources:
    """The texts to evaluate on; may be empty.

    Attributes:
        sources: with different names.
        parallel: whether the texts are translations of each other.
    """

    sources: tuple[NamedSource, ...] = ()
    parallel: bool = False


def evaluation_sources(spellings: Iterable[str]) -> EvaluationSources:
    """Parse typed evaluation sources and TOML files of them; joins those with one name."""
    sources: list[NamedSource] = []
    parallel = False
    for spelling in spellings:
        if is_file(spelling):
            file_sources, other_keys = EVALUATION.from_file(Path(spelling), {"parallel"})
            parallel_value = other_keys.get("parallel", False)
            if not isinstance(parallel_value, bool):
                refused = f"parallel is {parallel_value!r}, not true or false"
                raise EVALUATION.unusable(Path(spelling), refused)
            sources += file_sources
            parallel |= parallel_value
        else:
            sources.append(EVALUATION.from_text(spelling))
    return EvaluationSources(EVALUATION.joined(sources), parallel)


def is_named(spelling: str) -> bool:
    """Whether this is NAME=FILES or a TOML file; an existing file with `=` in its name is not."""
    return spelling.endswith(".toml") or ("=" in spelling and not os.path.lexists(spelling))


DEMO = "python:stdlib"
DEMO_NAME = "demo"
DEMO_VOCAB_SIZE = 8_000
DEMO_HELD_OUT = 0.02  # enough for `bpeline drift`

_NOT_OURS = {"site-packages", "dist-packages", "__pycache__"}


def with_demo(paths: Iterable[str], workspace: Workspace) -> list[str]:
    """Replace `DEMO` in paths by the file of the demo corpus."""
    return [str(demo_corpus(workspace)) if path == DEMO else path for path in paths]


def demo_corpus(workspace: Workspace) -> Path:
    """Write the modules of the standard library to one .jsonl file, one document each.

    The file name depends on sizes and times of the modules, so a second run reuses the file.
    Modules that are not UTF-8 are left out. Minimal images may have no source: `MissingSource`.
    """
    modules = list(_modules())
    path = _place(modules, workspace)
    if not path.is_file():
        lines = list(_lines(modules))
        if not lines:
            raise MissingSource(
                "this Python has no source text of its standard library",
                "expected that source text, which is the corpus of the demo",
                "name your own corpus: `bpeline train corpus.txt --name news`",
            )
        DURABLE.write(path, b"".join(lines))
    return path


def demo_place(workspace: Workspace) -> tuple[Path, int]:
    """The path of the demo corpus, and the bytes of its modules; writes nothing."""
    modules = list(_modules())
    return _place(modules, workspace), sum(status.st_size for _, _, status in modules)


def _place(modules: list[tuple[str, str, os.stat_result]], workspace: Workspace) -> Path:
    key = digest_of([[name, status.st_size, status.st_mtime_ns] for name, _, status in modules])
    return workspace.run_directory("demo-corpus") / f"python-stdlib-{key[:16]}.jsonl"


def _modules() -> Iterator[tuple[str, str, os.stat_result]]:
    library = sysconfig.get_path("stdlib")
    paths = []
    for parent, directories, names in os.walk(library):
        directories[:] = [name for name in directories if name not in _NOT_OURS]
        paths += [os.path.join(parent, name) for name in names if name.endswith(".py")]
    for path in sorted(paths, key=lambda path: path.split(os.sep)):
        yield os.path.relpath(path, library).replace(os.sep, "/"), path, os.stat(path)


def _lines(modules: list[tuple[str, str, os.stat_result]]) -> Iterator[bytes]:
    for name, path, _ in modules:
        try:
            text = read_file(path).decode()
        except (UnicodeDecodeError, OSError):
            continue
        yield json.dumps({"file": name, "text": text}, ensure_ascii=False).encode() + b"\n"
