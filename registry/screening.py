"""The personal-data screen of a version: its tokens, and which of them one chunk alone gave.

What can be known of documents is what chunks' counts keep: a token met in one chunk only may come
from one document or from a thousand in the same stretch of 64 MiB. Looks at no file of the corpus.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from registry.word_count_shards import ShardFiles
from tokenizer_core.personal_data import KINDS, Suspicion, suspicious_tokens
from tokenizer_core.token_use import met_in_one_part_only

if TYPE_CHECKING:
    from registry.workspace import Workspace
    from tokenizer_core.token_use import TokenUse
    from tokenizer_core.tokenizer import Tokenizer
    from tokenizer_core.word_counts import WordCounts

MOST_CHUNKS = 64  # read at most; about a quarter of a second each

# What MLflow shows and rules of promotion name.
METRIC_OF_KIND = {
    "email": "privacy/email_tokens",
    "key": "privacy/key_tokens",
    "phone": "privacy/phone_tokens",
    "card": "privacy/card_tokens",
}
SUSPICIOUS = "privacy/suspicious_tokens"
ONE_CHUNK = "privacy/one_chunk_tokens"


@dataclass(frozen=True, slots=True)
class Screening:
    """What the screen found.

    Attributes:
        suspicions: tokens that look like personal data, by id.
        chunks: different chunks that the corpus was counted in.
        chunks_read: how many of them were looked at.
        one_chunk: token ids, all of whose occurrences in the corpus lie in one chunk → the key of
            its counts. Empty when the corpus is a single chunk: then it says nothing.
        unmet: tokens that occur in none of the chunks read; 0 unless there are more than
            `MOST_CHUNKS`.
    """

    suspicions: tuple[Suspicion, ...]
    chunks: int
    chunks_read: int
    one_chunk: dict[int, str]
    unmet: int

    @property
    def metrics(self) -> dict[str, float]:
        """Numbers for MLflow and for rules; the one of chunks only where there are several."""
        kinds = Counter(one.kind for one in self.suspicions)
        figures = {METRIC_OF_KIND[kind]: float(kinds[kind]) for kind in KINDS}
        figures[SUSPICIOUS] = float(len(self.suspicions))
        if self.chunks > 1:
            figures[ONE_CHUNK] = float(len(self.one_chunk))
        return figures


def screen(
    tokenizer: Tokenizer, use: TokenUse | None, workspace: Workspace, shards: Sequence[str]
) -> Screening:
    """Screen the tokens of a version.

    Chunks are read in the order of their digests, which is as good as chance, so that tokens of
    one source of many are met early.

    Args:
        tokenizer: special tokens, which somebody chose, are left out.
        use: on the words of all shards together; None looks at the tokens alone.
        workspace: where the shards lie.
        shards: their keys.

    Raises:
        CorruptFile: a shard is missing or damaged.
    """
    ordinary = ((i, token) for i, token in tokenizer.vocab.items() if not tokenizer.is_special(i))
    suspicions = tuple(sorted(suspicious_tokens(ordinary), key=lambda one: one.id))
    keys = sorted(set(shards)) if use is not None else []
    if use is None or len(keys) < 2:
        return Screening(suspicions, len(keys), 0, {}, 0)
    files = ShardFiles(workspace)
    read: list[str] = []

    def parts() -> Iterator[WordCounts]:
        for key in keys[:MOST_CHUNKS]:
            read.append(key)
            yield files.counts(files.read(key), tokenizer.pattern)

    alone, unmet = met_in_one_part_only(tokenizer, use, parts())
    one_chunk = {id_: read[place] for id_, place in alone.items()}
    return Screening(suspicions, len(keys), len(read), one_chunk, unmet)
