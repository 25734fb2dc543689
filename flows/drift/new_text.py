"""New text becomes word counts and samples, slice by slice, through the cache training uses."""

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
UNNAMED = "unnamed"  # what was given as paths alone, beside named sources


@dataclass(frozen=True, slots=True)
class NewText:
    """What is to be compared: named texts; paths alone are one of the name `UNNAMED`."""

    sources: tuple[NamedSource, ...]

    @classmethod
    def asked(cls, paths: Sequence[str], sources: Sequence[str]) -> NewText:
        """From paths, and sources in the spelling of ``--eval``.

        Raises:
            InvalidOption: a source that is misspelt, or nothing at all.
        """
        named = evaluation_sources([EVALUATION.absolute(one) for one in sources]).sources
        if paths:
            files = tuple(map(absolute_name, paths))
            named = (NamedSource(UNNAMED, files), *named)
        if not named:
            raise InvalidOption(
                "no new text was named",
                "files, directories and globs, or named sources: NAME=FILES",
                "type `bpeline drift news@champion new/*.txt`",
            )
        return cls(named)

    @property
    def paths(self) -> list[str]:
        """Everything that was named, in order."""
        return [path for source in self.sources for path in source.files]

    @property
    def slices(self) -> dict[str, tuple[NamedSource, ...]]:
        """``all``, the named sources, and those of one label together; none that is ``all`` again.

        Slices are called as those of an evaluation.
        """
        found: dict[str, tuple[NamedSource, ...]] = {ALL: self.sources}
        for source in self.sources:
            if source.name != UNNAMED:
                found[source.name] = (source,)
        for kind in LABELS:
            for source in self.sources:
                label = getattr(source, kind)
                if label is not None:
                    name = f"{kind}:{label}"
                    found[name] = (*found.get(name, ()), source)
        return found


@dataclass(frozen=True, slots=True)
class CountedSlice:
    """The words of one slice, and its files with the bytes of their text, decompressed."""

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
    """Add the chunks' counts up for every slice.

    Args:
        include: what the plan searched for beside the usual kinds of files.

    Raises:
        EmptyCorpus: a slice without a word.
        CorruptFile: counts are damaged; they are forgotten and can be counted again.
    """
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
    """Every file once, whichever sources name it."""
    named = (one for source in sources for one in source.searched)
    searches = [[replace(one, include=tuple(include))] for one in named]
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
            "files with some text beside special tokens and documents of the evaluation set",
            "look at the files that were named",
        )
    return CountedSlice(store.combine(refs), seen.bytes_counted, tuple(files))


def sample_slices(
    slices: Mapping[str, CountedSlice], request: TrainingRequest
) -> dict[str, TextSample]:
    """Documents of every slice, evenly spread; as training would read them, none held out.

    Raises:
        CorpusError: a file that cannot be read as declared.
    """
    reading = request.evaluation_reading
    return {
        name: sample_of(
            list(sample_documents(one.files, reading, MOST_SAMPLED)), request.reading.pattern
        )
        for name, one in slices.items()
    }
