"""What a place for shards holds from before: whose tokens, of which files, and what is not lost.

Reads manifests, records and the names of files; no ids.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass

from bpeline.tokenizer_core.bounded_files import parse_json, read_bounded
from bpeline.tokenizer_core.errors import InvalidOption, InvalidTokenizer, MissingSource
from bpeline.tokenizer_core.shards.document_index import SOURCES_BYTES, SOURCES_SUFFIX
from bpeline.tokenizer_core.shards.files_of_shards import ShardFiles
from bpeline.tokenizer_core.shards.token_shards import ShardRecord, read_manifest

_MOST_READ = 256  # shards that are gone, of which files are named: of a store, a request each


@dataclass(frozen=True, slots=True)
class EarlierShards:
    """Shards with a manifest.

    Attributes:
        files: where they lie.
        tokenizer: the digest of the one whose tokens they are.
        packed: whether they are packed sequences.
        records: of those whose record is sound.
    """

    files: ShardFiles
    tokenizer: str
    packed: bool
    records: tuple[ShardRecord, ...]

    @classmethod
    def at(cls, files: ShardFiles) -> EarlierShards | None:
        """What is there; None without a manifest.

        Raises:
            CorruptFile, InvalidTokenizer: see `read_manifest`.
        """
        try:
            manifest = read_manifest(files)
        except MissingSource:
            return None
        shards = manifest.get("shards")
        records = map(ShardRecord.of, shards if isinstance(shards, list) else [])
        return cls(
            files,
            str(manifest["tokenizer"]),
            "packed" in manifest,
            tuple(record for record in records if record is not None),
        )

    def require_the_same(self, tokenizer: str, named: Set[str]) -> None:
        """Refuse to write what would take the place of other tokens than a job's own.

        Args:
            tokenizer: the digest of the job's.
            named: the paths of its files.

        Raises:
            InvalidOption: the tokens are of another tokenizer, packed, or of other files alone.
        """
        place = self.files.location
        if self.tokenizer != tokenizer:
            raise InvalidOption(
                f"{place} holds the tokens of another tokenizer, {self.tokenizer[:12]}",
                f"an empty directory, or one with tokens of this tokenizer, {tokenizer[:12]}",
                "name another directory",
            )
        if self.packed:
            raise InvalidOption(
                f"{place} holds packed sequences",
                "an empty directory, or one with the documents of the same files",
                "name another directory",
            )
        other = ""
        for path in self._paths(self.records):
            if path is None or path in named:
                return
            other = path
        if other:
            raise InvalidOption(
                f"{place} holds the tokens of other files, such as {other}, and of none that are "
                "named now",
                "an empty directory, or one with tokens of the same files, to which some were "
                "added or of which some are gone",
                "name another directory, or all files; or remove this one",
            )

    def say_what_is_gone(self, records: Iterable[ShardRecord], named: Set[str]) -> None:
        """Warn of files whose tokens are among none of the new ``records``."""
        kept = {record.name for record in records}
        gone = [record for record in self.records if record.name not in kept]
        paths = {path for path in self._paths(gone[:_MOST_READ]) if path is not None}
        paths -= named
        if paths:
            first = ", ".join(sorted(paths)[:3])
            warnings.warn(
                f"the tokens of what is not named any more go from {self.files.location}: those of "
                f"{first}{' and others' if len(paths) > 3 else ''}",
                stacklevel=2,
            )

    def _paths(self, records: Sequence[ShardRecord]) -> Iterator[str | None]:
        """The paths of the files in shards, one by one; None where that cannot be told."""
        for record in records:
            names = [one.name for one in record.files if one.name.endswith(SOURCES_SUFFIX)]
            if not names:  # of a format version without an index
                yield None
            for name in names:
                try:
                    lines = read_bounded(self.files.path(name), SOURCES_BYTES).splitlines()
                    paths = [str(parse_json(line)["path"]) for line in lines]
                except (MissingSource, InvalidTokenizer, ValueError, KeyError, TypeError):
                    yield None
                else:
                    yield from paths
                self.files.forget(name)
