"""Where a token of a registered version comes from: the words that paid for it, and their files."""

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

MOST_CHUNKS = 256  # looked at for sources


@dataclass(frozen=True, slots=True)
class TokenSource:
    """A chunk in which a token comes about.

    Attributes:
        path: its file as it was last read; empty where no file with this chunk is known any more.
        begin, end: bytes of the file, decompressed.
        made: how often the token comes about in it.
    """

    path: str
    begin: int
    end: int
    made: int


@dataclass(frozen=True, slots=True)
class TokenOrigin:
    """What the training text says of a token.

    Attributes:
        use: of all tokens, on the words that were trained on.
        words: those in which it comes about, most often first.
        sources: the chunks, likewise.
        chunks, chunks_read: how many there are, and how many of them were looked at.
    """

    use: TokenUse
    words: tuple[MakingWord, ...]
    sources: tuple[TokenSource, ...]
    chunks: int
    chunks_read: int


def token_origin(tokenizer: Tokenizer, lineage: Lineage, id_: int) -> TokenOrigin | None:
    """Where a token comes from; None where the version's word counts are gone.

    Words that training left out (``min_word_count``) are left out here too.

    Raises:
        InvalidOption: a tokenizer of another algorithm than byte-level BPE.
    """
    counted, request = lineage.words, lineage.request
    if counted is None:
        return None
    words = counted.at_least(request.get("min_word_count") or 1)
    making = making_words(tokenizer, id_, words)
    by_word = {one.word: one.times for one in making}
    places = _places(lineage) if lineage.shards else {}
    sources, read = [], 0
    files = ShardFiles(lineage.registry.workspace)
    for key in lineage.shards[:MOST_CHUNKS]:
        made = _made_in(key, by_word, tokenizer, files, tokenizer.id_to_token(id_))
        if made is None:
            continue
        read += 1
        if made:
            at = places.get(key) or [("", 0, 0)]
            sources += [TokenSource(*place, made) for place in at]
    sources.sort(key=lambda one: -one.made)
    use = token_use(tokenizer, words)
    return TokenOrigin(use, tuple(making), tuple(sources), len(lineage.shards), read)


def _made_in(
    key: str, times: Mapping[bytes, int], tokenizer: Tokenizer, files: ShardFiles, token: bytes
) -> int | None:
    """How often a token comes about in a chunk; None when its counts are gone."""
    try:
        counts = files.counts(files.read(key), tokenizer.pattern)
    except CorruptFile:
        return None
    holding = counts.take(rows_holding(token, counts))
    return sum(count * times.get(word, 0) for word, count in holding.items())


def _places(lineage: Lineage) -> dict[str, list[tuple[str, int, int]]]:
    """Shard → the files that held its chunk when they were last read."""
    if not lineage.request:
        return {}
    reading = TrainingRequest.checked(**lineage.request).reading
    how = replace(reading, left_out=lineage.left_out)
    ways = ShardKeys.of_sources(how, ["", *(name for name, _ in how.text_fields)]).values()
    known = {digest: keys for keys in ways for digest in (keys.digest, keys.plain_digest)}
    places: dict[str, list[tuple[str, int, int]]] = {}
    for digest in sorted(known):
        for reading in lineage.registry.catalogue.file_readings(digest):
            for chunk in reading.chunks:
                place = (reading.path, chunk.begin, chunk.end)
                at = places.setdefault(known[digest].key(chunk.digest), [])
                at += [place] * (place not in at)
    return places
