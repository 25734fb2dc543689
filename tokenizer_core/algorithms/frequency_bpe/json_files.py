"""Frequency BPE's three files: freqs.json, vocab_to_idx.json and idx_to_vocab.json.

Programs that write them with ids for the tokens of their last segmentation alone have none for
characters and merges that only ever became parts of longer tokens. Loaded, those files give the ids
that they hold and no others: what has none is unknown, as in those programs.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from bpeline.tokenizer_core.algorithms import FrequencyBpe
from bpeline.tokenizer_core.bounded_files import json_of, read_bounded, refuse
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.encoding import TokenizerParts
from bpeline.tokenizer_core.formats import (
    json_text,
    pattern_left_out,
    read_plain_vocab,
    refuse_other_algorithms,
    vocab_json_of_text,
)
from bpeline.tokenizer_core.splitting import SplitPattern
from bpeline.tokenizer_core.vocabulary import Sentences, TokenizerSpec, shown

FREQUENCIES, IDS, TOKENS = "freqs.json", "vocab_to_idx.json", "idx_to_vocab.json"


def save(tokenizer: TokenizerParts, path: Path) -> None:
    """Write the three files into a directory.

    Raises:
        InvalidOption: the tokenizer follows another algorithm.
        DiskFull: no space left.
    """
    refuse_other_algorithms(tokenizer, "frequency BPE", FrequencyBpe)
    algorithm = tokenizer.spec.algorithm
    assert isinstance(algorithm, FrequencyBpe)
    tokens = {str(id_): tokenizer.spec.vocab[id_].decode() for id_ in sorted(tokenizer.spec.vocab)}
    DURABLE.write(path / FREQUENCIES, json_text(dict(algorithm.frequencies), indent=0))
    DURABLE.write(path / TOKENS, json_text(tokens, indent=0))
    DURABLE.write(path / IDS, vocab_json_of_text(tokenizer))


def left_out(tokenizer: TokenizerParts) -> dict[str, Any]:
    """Split pattern, how sentences are found, and the marks."""
    assert isinstance(tokenizer.spec.algorithm, FrequencyBpe)
    marks = replace(tokenizer.spec.algorithm, frequencies=())
    return {
        "pattern": pattern_left_out(tokenizer),
        "sentences": marks.sentences,
        "algorithm": marks,
    }


def load(
    path: Path,
    *,
    sentences: Sentences = "punkt",
    algorithm: FrequencyBpe | None = None,
    pattern: SplitPattern | str = "wordpunct",
) -> TokenizerSpec:
    """Read the three files of a directory.

    Args:
        path: the directory.
        sentences: how sentences are found; the files do not say.
        algorithm: the marks, where they are not the usual ones; its frequencies are not used.
        pattern: the split pattern.

    Raises:
        MissingSource: a file is missing.
        InvalidTokenizer: malformed, or files that contradict each other.
        InvalidOption: sentences by a library that is not installed.
    """
    marks = algorithm or FrequencyBpe(sentences=sentences)
    vocab = read_plain_vocab(json_of(read_bounded(path / IDS), path / IDS), path / IDS)
    listed = json_of(read_bounded(path / TOKENS), path / TOKENS)
    if listed != {str(id_): token.decode() for id_, token in vocab.items()}:
        refuse(path / TOKENS, f"contradicts {IDS}", "id → token, the inverse of the other file")
    given = json_of(read_bounded(path / FREQUENCIES), path / FREQUENCIES)
    frequencies = _frequencies(given, path / FREQUENCIES)
    return TokenizerSpec.checked(
        vocab,
        [],
        pattern=pattern,
        algorithm=replace(marks, frequencies=tuple(frequencies.items())),
    )


def _frequencies(given: Any, path: Path) -> dict[str, int]:
    if not isinstance(given, dict):
        refuse(path, "holds no frequencies", "an object of token → frequency")
    for token, frequency in given.items():
        if type(frequency) is not int or frequency < 1:
            refuse(path, f"gives {shown(token)} the frequency {shown(frequency)}")
    return given
