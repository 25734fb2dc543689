"""Parity-aware BPE: each merge improves the language with the worst compression.

Implements the base, window and hybrid variants of Foroutan, Meister et al. 2025 (arXiv 2508.04796);
`tokenizer_core.reference.train_parity` is the same in plain Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.counting import WordCounts, combine_word_counts
from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.errors import EmptyCorpus, InvalidOption
from bpeline.tokenizer_core.merging import (
    Checkpoint,
    CheckpointPolicy,
    LearnedMerges,
    OnProgress,
    ParityEngine,
    ParityRule,
    PrunedWords,
    byte_words,
    learn_with,
    prune,
    validate_options,
)
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.training import bpe
from bpeline.tokenizer_core.vocabulary import byte_order, validate_special_tokens, vocab_from_merges

_ALGORITHM = "parity-bpe 2"  # increase when the same settings learn other merges
TIE_BREAKS = ("smallest-ids", "greatest-bytes")


def parity_digest(
    languages: Mapping[str, WordCounts],
    rule: ParityRule,
    development: Mapping[str, WordCounts] | None,
    **options: Any,
) -> str:
    """Digest of the settings that decide which merges are learned."""
    measured = development or {}
    return digest_of(
        {
            "algorithm": _ALGORITHM,
            "settings": bpe.settings_digest(**options),
            "rule": asdict(rule),
            "languages": [[name, counts.digest] for name, counts in languages.items()],
            "development": [[name, measured[name].digest] for name in languages if measured],
        }
    )


def learn_parity_merges(
    languages: Mapping[str, WordCounts],
    merges: int,
    rule: ParityRule = ParityRule(),  # noqa: B008 - a frozen value
    *,
    development: Mapping[str, WordCounts] | None = None,
    together: WordCounts | None = None,
    tie_break: str = "smallest-ids",
    min_count: int = 2,
    min_word_count: int = 1,
    max_token_bytes: int | None = None,
    given: NDArray[np.int32] | None = None,
    resume_from: Path | str | Checkpoint | None = None,
    checkpoint: Path | str | None = None,
    checkpoint_every: int = 1000,
    on_progress: OnProgress | None = None,
) -> LearnedMerges:
    """Learn up to ``merges`` merges, each for the language with the worst compression.

    As in `bpe.learn_merges`, fewer merges are the first ones of more. The count of a merge is that
    of its pair in all languages together.

    Args:
        languages: the words of each language, by name; ties go to the first.
        development: words of texts to measure on, by the same names, ideally with the same content
            in each language; None: see `ParityEngine`.
        together: the sum of all languages, for the digest in checkpoints; None: computed.
        min_count: pairs that are rarer in the chosen language are not merged.
        min_word_count: words that are rarer in their language are left out, also of the first
            ``rule.global_merges``.
        tie_break: ``smallest-ids`` or ``greatest-bytes``.
        others: as for `bpe.learn_merges`.

    Raises:
        InvalidOption: fewer than two languages, names or ratios that do not match them, numbers
            out of range; or as `bpe.learn_merges`.
        EmptyCorpus: a language without words.
        CorpusError, CorruptFile, DiskFull: as `bpe.learn_merges`.
    """
    validate_options(
        merges, tie_break, min_count, min_word_count, max_token_bytes, checkpoint_every
    )
    _validate(languages, rule, development, tie_break)
    pruned = {name: prune(counts, min_word_count) for name, counts in languages.items()}
    settings = ""
    if resume_from is not None or checkpoint is not None:
        if together is None:
            together = combine_word_counts(list(languages.values()))
        settings = parity_digest(
            languages,
            rule,
            development,
            tie_break=tie_break,
            min_count=min_count,
            min_word_count=min_word_count,
            max_token_bytes=max_token_bytes,
            given=given,
        )
    words = partial(byte_words, tie_break=tie_break)
    engine = partial(
        ParityEngine,
        [words(counts) for counts, _ in pruned.values()],
        rule,
        development=[words(development[name]) for name in languages] if development else None,
        tie_break=tie_break,
        min_count=min_count,
        max_length=bpe.longest_token(max_token_bytes),
        given=0 if given is None else len(given),
    )
    left_out = [removed for _, removed in pruned.values()]
    return learn_with(
        engine,
        merges,
        together,
        settings,
        CheckpointPolicy(resume_from, checkpoint, checkpoint_every, on_progress),
        given=given,
        pruned=PrunedWords(
            sum(removed.words for removed in left_out),
            sum(removed.occurrences for removed in left_out),
        ),
    )


def _validate(
    languages: Mapping[str, WordCounts],
    rule: ParityRule,
    development: Mapping[str, WordCounts] | None,
    tie_break: str,
) -> None:
    if len(languages) < 2:
        raise InvalidOption(
            f"{len(languages)} language was given",
            "expected two languages or more, each with its word counts",
            "name them: learn_parity_merges({'en': counts, 'de': counts}, merges)",
        )
    patterns = {counts.pattern.digest for counts in (*languages.values(),)}
    patterns |= {counts.pattern.digest for counts in (development or {}).values()}
    if len(patterns) > 1:
        raise InvalidOption(
            "the word counts of the languages have different split patterns",
            "expected one pattern, that of the tokenizer",
            "count the words again with the same pattern=…",
        )
    if development is not None and development.keys() != languages.keys():
        odd = sorted(development.keys() ^ languages.keys())
        raise InvalidOption(
            f"development texts or training words are missing for {odd}",
            f"expected development texts for each language: {', '.join(languages)}",
            "name the same languages in both",
        )
    empty = [
        f"{kind} {name}"
        for kind, counts_by_name in (
            ("language", languages),
            ("development texts of", development or {}),
        )
        for name, counts in counts_by_name.items()
        if not len(counts)
    ]
    if empty:
        raise EmptyCorpus(
            f"there are no words in the {empty[0]}",
            "expected some text for each language",
            "leave that language out",
        )
    if tie_break not in TIE_BREAKS:
        raise InvalidOption(
            f"the tie-break {tie_break} depends on positions in one corpus",
            ", ".join(TIE_BREAKS),
            f"leave it out: {TIE_BREAKS[0]}",
        )
    ratios_fit = len(rule.ratios) in (0, len(languages)) and min(rule.ratios, default=1) > 0
    if rule.alpha < 1 or not ratios_fit:
        raise InvalidOption(
            f"this rule is invalid: {rule}",
            "expected an alpha of at least 1, and ratios above 0 for all languages or none",
            "ParityRule(window=100, alpha=2.0)",
        )
    if rule.ratios and development is not None:
        raise InvalidOption(
            "there are both ratios and development texts",
            "expected one of them",
            "leave ratios out",
        )


def train_parity_bpe(
    languages: Mapping[str, WordCounts],
    vocab_size: int,
    rule: ParityRule = ParityRule(),  # noqa: B008 - a frozen value
    *,
    development: Mapping[str, WordCounts] | None = None,
    special_tokens: Sequence[str] = (),
    tie_break: str = "smallest-ids",
    min_count: int = 2,
    min_word_count: int = 1,
    max_token_bytes: int | None = None,
    on_progress: OnProgress | None = None,
) -> Tokenizer:
    """Train a byte-level BPE tokenizer with about equal compression of all languages.

    The result encodes and exports like any byte-level BPE tokenizer. For arguments and errors see
    `learn_parity_merges` and `train_bpe`.

    Examples:
        >>> from bpeline import count_texts
        >>> words = {"en": count_texts(["a tall tale " * 9], "gpt2"),
        ...          "de": count_texts(["ein langes lied"], "gpt2")}
        >>> tokenizer = train_parity_bpe(words, 262, min_count=1)
        >>> [left + right for left, right in tokenizer.merges][:2]
        [b'al', b' l']
    """
    word_counts = partial(checks.instance, kind=WordCounts)
    checks.mapping("languages", languages, word_counts, "word counts")
    if development is not None:
        checks.mapping("development", development, word_counts, "word counts")
    checks.instance("rule", rule, ParityRule)
    checks.function("on_progress", on_progress)
    specials = validate_special_tokens(checks.texts("special_tokens", special_tokens))
    merges = bpe.merges_for(vocab_size, specials)
    for counts in languages.values():
        counts.pattern.require_every_byte()
        bpe.refuse_special_tokens_in_words(specials, counts)
    learned = learn_parity_merges(
        languages,
        merges,
        rule,
        development=development,
        tie_break=tie_break,
        min_count=min_count,
        min_word_count=min_word_count,
        max_token_bytes=max_token_bytes,
        on_progress=on_progress,
    )
    numbered = vocab_from_merges(learned.left, learned.right, byte_order(tie_break), specials)
    pattern = next(iter(languages.values())).pattern
    return Tokenizer(numbered.vocab, numbered.merges, numbered.special_tokens, pattern=pattern)
