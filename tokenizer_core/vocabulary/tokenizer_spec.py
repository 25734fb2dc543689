"""What a tokenizer does, as one value: vocab, merges, special tokens, pattern, algorithm, digest.

File formats read it and training makes it; `Tokenizer` is built from it. Encodes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.digests import canonical_json, digest_of_bytes
from bpeline.tokenizer_core.errors import InvalidOption, InvalidTokenizer
from bpeline.tokenizer_core.splitting import SplitPattern
from bpeline.tokenizer_core.vocabulary.algorithm import BYTE_BPE, Algorithm, ByteBpe
from bpeline.tokenizer_core.vocabulary.merge_list import Merge, MergeIds, MergeList
from bpeline.tokenizer_core.vocabulary.vocab_rules import check_tokens, check_vocab, merge_ids


@dataclass(frozen=True, eq=False)
class TokenizerSpec:
    """Vocab, merges, special tokens, pattern and algorithm that fit together; see `checked`.

    Two of them do the same when their digests are equal.

    Attributes:
        vocab: id → bytes, special tokens included; a read-only view.
        merges: pairs of bytes in order of rank.
        special_tokens: token → id.
        pattern: how text is cut into pre-tokens.
        algorithm: what turns pre-tokens into ids.
        ignore_merges: whether a pre-token that is in the vocab is one token regardless of merges.
        ids: token → id, special tokens left out.
        merge_ids: int64 ``[n_merges]`` three times: ids of left and right parts and of results.
        byte_ids: int64 ``[256]``: the id of each byte; empty where symbols are characters.
        remarks: what the file it was read from does besides, and it does not; for people, no part
            of the digest, and not kept in files.
    """

    vocab: Mapping[int, bytes]
    merges: Sequence[Merge]
    special_tokens: Mapping[str, int]
    pattern: SplitPattern
    algorithm: Algorithm
    ignore_merges: bool
    ids: Mapping[bytes, int]
    merge_ids: MergeIds
    byte_ids: NDArray[np.int64]
    remarks: tuple[str, ...] = ()

    @classmethod
    def checked(
        cls,
        vocab: Mapping[int, bytes],
        merges: Sequence[Merge],
        special_tokens: Mapping[str, int] | Sequence[str] = (),
        pattern: SplitPattern | str | None = None,
        *,
        algorithm: Algorithm = BYTE_BPE,
        ignore_merges: bool = False,
        remarks: Iterable[str] = (),
    ) -> TokenizerSpec:
        """The value of these parts, once they are known to fit together.

        Args:
            vocab, merges, special_tokens, pattern, algorithm, ignore_merges: see `Tokenizer`.
            remarks: see the attributes.

        Raises:
            InvalidTokenizer: vocab, merges and special tokens contradict each other, or the
                algorithm.
            InvalidSpecialToken: an empty or duplicate special token.
            InvalidPattern, InvalidOption: the pattern cannot be used, or ``ignore_merges`` belongs
                to another algorithm.
        """
        parsed = SplitPattern.parse(pattern or algorithm.default_pattern)
        if isinstance(algorithm, ByteBpe):
            specials, ids, byte_ids, numbers = check_vocab(vocab, merges, special_tokens)
            kept = dict(vocab)
            pairs: Sequence[Merge] = MergeList(kept, *numbers)
        else:
            _refuse_foreign_parts(algorithm, merges, ignore_merges)
            ids, specials = check_tokens(vocab, special_tokens)
            kept, pairs = dict(vocab), [(left, right) for left, right in merges]
            numbers, byte_ids = merge_ids(ids, pairs), np.empty(0, np.int64)
        view = MappingProxyType(kept)
        parts = view, pairs, specials, parsed, algorithm, ignore_merges, ids, numbers, byte_ids
        return cls(*parts, tuple(remarks))

    @property
    def vocab_size(self) -> int:
        """Number of tokens: bytes or characters, merges and special tokens."""
        return len(self.vocab)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the behaviour: pattern, special tokens, ids, merges. Equal digests, equal ids.

        How the merges were learned (tie-break, corpus) is no part of it.
        """
        ids = np.array(sorted(self.vocab), np.dtype("<i8"))
        tokens = [self.vocab[id_] for id_ in ids.tolist()]
        head: dict[str, Any] = {
            "format": 1,
            "normalizer": None,
            "pattern": self.pattern.digest,
            "special_tokens": self.special_tokens,
            "ignore_merges": self.ignore_merges,
            "tokens": len(tokens),
            "merges": len(self.merges),
        }
        if self.algorithm != BYTE_BPE:
            head["algorithm"] = self.algorithm.described()
        lengths = np.fromiter(map(len, tokens), np.dtype("<i8"), len(tokens))
        left, right, _ = (part.astype("<i8") for part in self.merge_ids)
        return digest_of_bytes(canonical_json(head), ids, lengths, b"".join(tokens), left, right)


def _refuse_foreign_parts(
    algorithm: Algorithm, merges: Sequence[Merge], ignore_merges: bool
) -> None:
    """Refuse what only other algorithms have."""
    if ignore_merges:
        raise InvalidOption(
            f"ignore_merges was asked for with {algorithm.name}",
            "it is a flag of byte-level BPE",
            "leave it out",
        )
    if merges and not algorithm.has_merges:
        raise InvalidTokenizer(
            f"{len(merges)} merges were given for {algorithm.name}, which has none",
            "merges belong to byte-bpe and char-bpe",
            "leave the merges out: merges=[]",
        )
