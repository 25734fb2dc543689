"""The origin of a registered version's token: the words and files that produce it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bpeline.flows.requests import TrainingRequest
from bpeline.registry.versions import Lineage
from bpeline.registry.word_counts import ShardFiles, ShardKeys
from bpeline.tokenizer_core.errors import CorruptFile
from bpeline.tokenizer_core.evaluation import (
    MakingWord,
    TokenUse,
    making_words,
    rows_holding,
    token_use,
)

if TYPE_CHECKING:
    from bpeline.tokenizer_core.tokenizer import Tokenizer

MOST_CHUNKS = 256  # searched for sources


@dataclass(frozen=True, slots=True)
class TokenSource:
    """A chunk in which merges produce a token.

    Attributes:
        path: its file when last read; empty if no file with this chunk is known.
    """

    path: str
    begin: int
    end: int
    made: int


@dataclass(frozen=True, slots=True)
class TokenOrigin:
    """The use of a token in the training text.

    Attributes:
        words: those that produce the token, most frequent first.
        chunks, chunks_read: number of chunks, and of chunks searched.
    """

    use: TokenUse
    words: tuple[MakingWord, ...]
    sources: tuple[TokenSource, ...]
    chunks: int
    chunks_read: int


def token_origin(tokenizer: Tokenizer, lineage: Lineage, id_: int) -> TokenOrigin | None:
    """Return the origin of a token; None if the version's word counts are gone.

    Words that training left out (``min_word_count``) are left out here too.
    """
    counted, request = lineage.words, lineage.request
    if counted is None:
        return None
    words = counted.at_least(request.get("min_word_count") or 1)
    making = making_words(tokenizer, id_, words)
    by_word = {item.word: item.times for item in making}
    places = _places(lineage) if lineage.shards else {}
    sources, read = [], 0
    files = ShardFiles(lineage.registry.workspace)
    for key in lineage.shards[:MOST_CHUNKS]:
        times = _made_in(key, by_word, tokenizer, files, tokenizer.id_to_token(id_))
        if times is None:
            continue
        read += 1
        if times:
            files_of_chunk = places.get(key) or [("", 0, 0)]
            sources += [TokenSource(*place, times) for place in files_of_chunk]
    sources.sort(key=lambda item: -item.made)
    use = token_use(tokenizer, words)
    return TokenOrigin(use, tuple(making), tuple(sources), len(lineage.shards), read)


def _made_in(
    key: str, times: Mapping[bytes, int], tokenizer: Tokenizer, files: ShardFiles, token: bytes
) -> int | None:
    """Return how often a token is produced in a chunk; None if its counts are gone."""
    try:
        counts = files.counts(files.read(key), tokenizer.pattern)
    except CorruptFile:
        return None
    holding = counts.take(rows_holding(token, counts))
    return sum(count * times.get(word, 0) for word, count in holding.items())


def _places(lineage: Lineage) -> dict[str, list[tuple[str, int, int]]]:
    """Return shard → the files that contained its chunk when last read."""
    if not lineage.request:
        return {}
    reading = TrainingRequest.checked(**lineage.request).reading
    options = replace(reading, left_out=lineage.left_out)
    ways = ShardKeys.of_sources(options, ["", *(name for name, _ in options.text_fields)]).values()
    keys_of_digest = {digest: keys for keys in ways for digest in (keys.digest, keys.plain_digest)}
    places: dict[str, list[tuple[str, int, int]]] = {}
    for digest in sorted(keys_of_digest):
        for reading in lineage.registry.catalogue.file_readings(digest):
            for chunk in reading.chunks:
                place = (reading.path, chunk.begin, chunk.end)
                places_of_key = places.setdefault(keys_of_digest[digest].key(chunk.digest), [])
                places_of_key += [place] * (place not in places_of_key)
    return places
