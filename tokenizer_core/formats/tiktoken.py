"""tiktoken's rank file: one line per token, base64 of its bytes and its id."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.bounded_files import read_bounded, refuse
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.encoding import (
    BytePairEncoder,
    PreparedEncoder,
    TokenizerParts,
    tokens_not_made_by_merges,
)
from bpeline.tokenizer_core.errors import InvalidTokenizer
from bpeline.tokenizer_core.formats.json_tokens import refuse_other_algorithms
from bpeline.tokenizer_core.formats.ranks import (
    merges_of_ranks,
    pipeline_of,
    published_as,
    refuse_unnamed_pattern,
)
from bpeline.tokenizer_core.splitting import SplitPattern
from bpeline.tokenizer_core.tokenizer_spec import ByteBpe, TokenizerSpec
from bpeline.tokenizer_core.vocabulary import MAX_ID, MAX_TOKEN_BYTES, shown

_MOST_DIGITS = 9  # of a rank


def save(tokenizer: TokenizerParts, path: Path) -> None:
    """Write the rank file, without split pattern and special tokens: see `left_out`."""
    ranks = mergeable_ranks(tokenizer)
    left_out(tokenizer)
    lines = [b"%s %d\n" % (base64.b64encode(token), rank) for token, rank in ranks.items()]
    DURABLE.write(path, b"".join(lines))


def mergeable_ranks(tokenizer: TokenizerParts) -> dict[bytes, int]:
    """Token → rank in ascending order; each rank is the token's id.

    tiktoken joins the pair whose *concatenation* has the lowest rank, and ids are ranks. This gives
    our ids if and only if ids ascend with the merges and exactly one merge makes each token;
    otherwise `InvalidTokenizer` is raised. Gaps in the ids are allowed, such as those of special
    tokens with the first ids (leave out ``explicit_n_vocab`` then).
    """
    refuse_other_algorithms(tokenizer, "byte-level BPE", ByteBpe)
    ids = {tokenizer.spec.vocab[id_]: id_ for id_ in tokenizer.spec.vocab}
    results = [ids[left + right] for left, right in tokenizer.spec.merges]
    if any(after <= before for before, after in pairwise(results)):
        raise InvalidTokenizer(
            "the ids of this tokenizer do not ascend with its merges",
            "in tiktoken's format the id of a token is its rank",
            "save it as 'hf' or 'bpeline', which keep both",
        )
    encoder = tokenizer.encoder
    if isinstance(encoder, PreparedEncoder):  # only matches special tokens: others were refused
        encoder = encoder.inner
    if isinstance(encoder, BytePairEncoder) and encoder.has_whole_words:
        raise InvalidTokenizer(
            "this tokenizer has words that no merge produces (ignore_merges)",
            "in tiktoken's format each token is produced by a merge",
            "save it as 'hf' or 'bpeline'",
        )
    specials = tokenizer.spec.special_tokens
    ordinary = {token: ids[token] for token in ids.keys() - {s.encode() for s in specials}}
    for token, id_ in tokens_not_made_by_merges(encoder, ordinary).items():
        raise InvalidTokenizer(
            f"no merges produce the token {shown(token)} (id {id_})",
            "tiktoken would use it nevertheless",
            "save it as 'hf' or 'bpeline'",
        )
    return dict(sorted(ordinary.items(), key=lambda item: item[1]))


def left_out(tokenizer: TokenizerParts) -> dict[str, Any]:
    """``pat_str`` and ``special_tokens`` for ``tiktoken.Encoding``.

    tiktoken drops text between matches, so a user's own regex gets one more alternative that
    matches it. Where one special token is a prefix of another, tiktoken may find either, not always
    the longer one.
    """
    return {
        "pat_str": tokenizer.spec.pattern.regex_for_tiktoken,
        "special_tokens": tokenizer.spec.special_tokens,
    }


def encoding_arguments(tokenizer: TokenizerParts) -> dict[str, Any]:
    """All arguments of ``tiktoken.Encoding`` but the name; errors as for `save`.

    Examples:
        >>> import tiktoken  # doctest: +SKIP
        >>> tiktoken.Encoding("news", **encoding_arguments(tokenizer))  # doctest: +SKIP
    """
    return {**left_out(tokenizer), "mergeable_ranks": mergeable_ranks(tokenizer)}


def load(
    path: Path,
    *,
    pattern: SplitPattern | str | None = None,
    special_tokens: Mapping[str, int] | None = None,
) -> TokenizerSpec:
    """Read a rank file and derive its merges from the ranks.

    The file holds neither split pattern nor special tokens. For published vocabularies
    (`formats.ranks`) both are known, and Qwen's normalizer.

    Args:
        pattern: required unless the vocabulary is published.
        special_tokens: token → id. Default: those of the published vocabulary, else none. GPT-OSS
            has the ranks of o200k_base with other special tokens: pass them.
    """
    vocab = _read_ranks(read_bounded(path).splitlines(), path)
    merges, some_unmade = merges_of_ranks(vocab, path)
    published = published_as(vocab)
    if pattern is None:
        if published is None:
            refuse_unnamed_pattern(path)
        pattern = published.pattern
    if special_tokens is None:
        special_tokens = published.special_tokens if published else {}
    specials = checks.mapping("special_tokens", special_tokens, checks.whole_number, "ids")
    for special, id_ in specials.items():
        if id_ in vocab:
            refuse(path, f"already holds the id {id_} of the special token {special!r}")
        vocab[id_] = special.encode()
    pipeline = pipeline_of(published)
    return TokenizerSpec.checked(
        vocab, merges, specials, pattern, ignore_merges=some_unmade, pipeline=pipeline
    )


def _read_ranks(lines: list[bytes], path: Path) -> dict[int, bytes]:
    halves = [line.partition(b" ") for line in lines if line]
    ranks = [rank for _, _, rank in halves]
    if not all(map(bytes.isdigit, ranks)) or max(map(len, ranks), default=0) > _MOST_DIGITS:
        _refuse_line(lines, path)
    ids = list(map(int, ranks))
    try:
        vocab = dict(zip(ids, [_token_of(encoded) for encoded, _, _ in halves], strict=True))
    except ValueError:
        _refuse_line(lines, path)
    if len(vocab) != len(ids) or max(ids, default=0) > MAX_ID:
        _refuse_line(lines, path)
    return vocab


def _token_of(encoded: bytes) -> bytes:
    token = binascii.a2b_base64(encoded, strict_mode=True)
    if not 0 < len(token) <= MAX_TOKEN_BYTES:
        raise ValueError(encoded)
    return token


def _refuse_line(lines: list[bytes], path: Path) -> NoReturn:
    seen: set[int] = set()
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        encoded, _, rank = line.partition(b" ")
        try:
            _token_of(encoded)
            if not rank.isdigit() or len(rank) > _MOST_DIGITS:
                raise ValueError(rank)
        except ValueError:  # including binascii.Error
            refuse(path, f"is not 'base64 rank' in line {number}")
        if int(rank) in seen or int(rank) > MAX_ID:
            refuse(
                path,
                f"has a repeated or too large id in line {number}",
                f"expected ids up to {MAX_ID}, each once",
            )
        seen.add(int(rank))
    raise AssertionError("every line is sound")
