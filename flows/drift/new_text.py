"""New text, counted and sampled by slice, with the same cache as training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bpeline.flows.counting import CorpusPlan, CountedCorpus
from bpeline.flows.requests import EVALUATION, NamedSource, TrainingRequest, evaluation_sources
from bpeline.registry.catalogue import FileReading
from bpeline.registry.word_counts import ShardRef, TableHandle, WordCountStore
from bpeline.registry.workspace import Workspace
from bpeline.tokenizer_core.corpus import SourceFile, search_each
from bpeline.tokenizer_core.counting import sample_documents
from bpeline.tokenizer_core.errors import EmptyCorpus, InvalidOption
from bpeline.tokenizer_core.evaluation import ALL, LABELS, TextSample, sample_of
from bpeline.tokenizer_core.urls import absolute_name

MOST_SAMPLED = 4 << 20  # bytes of each slice: about 1,000 sections
UNNAMED = "unnamed"  # source of plain paths


@dataclass(frozen=True, slots=True)
class NewText:
    """New text as named sources; plain paths form the source `UNNAMED`."""

    sources: tuple[NamedSource, ...]

    @classmethod
    def asked(cls, paths: Sequence[str], sources: Sequence[str]) -> NewText:
        """Create from paths, and from sources in the syntax of ``--eval``."""
        named = evaluation_sources([EVALUATION.absolute(source) for source in sources]).sources
        if paths:
            files = tuple(map(absolute_name, paths))
            named = (NamedSource(UNNAMED, files), *named)
        if not named:
            raise InvalidOption(
                "no new text was named",
                "expected files, directories and globs, or named sources: NAME=FILES",
                "type `bpeline drift news@champion new/*.txt`",
            )
        return cls(named)

    @property
    def paths(self) -> list[str]:
        """All paths, in order."""
        return [path for source in self.sources for path in source.files]

    @property
    def slices(self) -> dict[str, tuple[NamedSource, ...]]:
        """Slices by name, as in an evaluation: ``all``, the named sources, and the labels."""
        slices_found: dict[str, tuple[NamedSource, ...]] = {ALL: self.sources}
        for source in self.sources:
            if source.name != UNNAMED:
                slices_found[source.name] = (source,)
        for kind in LABELS:
            for source in self.sources:
                label = getattr(source, kind)
                if label is not None:
                    name = f"{kind}:{label}"
                    slices_found[name] = (*slices_found.get(name, ()), source)
        return slices_found


@dataclass(frozen=True, slots=True)
class CountedSlice:
    """The word counts of one slice, and its files with their text sizes in bytes."""

    table: TableHandle
    bytes: int
    files: tuple[tuple[SourceFile, int], ...]


def combine_slices(
    text: NewText,
    plan: CorpusPlan,
    corpus: CountedCorpus,
    workspace: Workspace,
    include: Sequence[str] = (),
) -> dict[str, CountedSlice]:
    """Add up the counts of the chunks for every slice."""
    readings = {
        file.state: (file, reading, keys)
        for file, reading, keys in zip(plan.files, corpus.readings, corpus.keys, strict=True)
    }
    return {
        name: _combined(
            name,
            [readings[file.state] for file in _files(sources, include)],
            WordCountStore(workspace),
        )
        for name, sources in text.slices.items()
    }


def _files(sources: Sequence[NamedSource], include: Sequence[str]) -> list[SourceFile]:
    """Return each file once, even if several sources name it."""
    named = (source_files for source in sources for source_files in source.searched)
    searches = [[replace(source_files, include=tuple(include))] for source_files in named]
    return list({file.state: file for found in search_each(searches)[0] for file in found}.values())


def _combined(
    name: str,
    readings: Sequence[tuple[SourceFile, FileReading, Sequence[str]]],
    store: WordCountStore,
) -> CountedSlice:
    refs, files, base = [], [], 0
    for file, reading, keys in readings:
        for chunk, key in zip(reading.chunks, keys, strict=True):
            refs.append(ShardRef(key, position_base=base + chunk.begin))
        size = reading.chunks[-1].end if reading.chunks else 0
        files.append((file, size))
        base += size
    seen = store.statistics([ref.key for ref in refs])
    if not seen.words:
        raise EmptyCorpus(
            f"there is not a single word in {'the new text' if name == ALL else name}",
            "expected files with text besides special tokens and documents of the evaluation set",
            "check the files that were named",
        )
    return CountedSlice(store.combine(refs), seen.bytes_counted, tuple(files))


def sample_slices(
    slices: Mapping[str, CountedSlice], request: TrainingRequest
) -> dict[str, TextSample]:
    """Sample documents of every slice evenly, read as for training, none held out."""
    reading = request.evaluation_reading
    return {
        name: sample_of(
            list(sample_documents(part.files, reading, MOST_SAMPLED)), request.reading.pattern
        )
        for name, part in slices.items()
    }
