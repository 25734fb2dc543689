"""Frequency BPE's three files: freqs.json, vocab_to_idx.json and idx_to_vocab.json.

A fourth one of ours, bpeline.json, holds the split pattern, the marks and how sentences are found.

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
    nothing_left_out,
    plain_bytes,
    read_plain_vocab,
    refuse_other_algorithms,
    vocab_json_of_text,
)
from bpeline.tokenizer_core.splitting import SplitPattern
from bpeline.tokenizer_core.vocabulary import TokenizerSpec, shown

FREQUENCIES, IDS, TOKENS = "freqs.json", "vocab_to_idx.json", "idx_to_vocab.json"
SETTINGS = "bpeline.json"


def save(tokenizer: TokenizerParts, path: Path) -> None:
    """Write the files into a directory.

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
    marks = replace(algorithm, frequencies=()).described()
    settings = {"pattern": tokenizer.spec.pattern.as_record(), "algorithm": marks}
    DURABLE.write(path / SETTINGS, json_text(settings, indent=0))


left_out = nothing_left_out


def load(
    path: Path,
    *,
    sentences: str | None = None,
    algorithm: FrequencyBpe | None = None,
    pattern: SplitPattern | str | None = None,
) -> TokenizerSpec:
    """Read the files of a directory.

    What is not given is read from ``bpeline.json``, which files of other programs do not have.

    Args:
        path: the directory.
        sentences: how sentences are found: ``none``, ``lines``, or a name of `Punkt`.
        algorithm: the marks, where they are not the usual ones; its frequencies are not used.
        pattern: the split pattern.

    Raises:
        MissingSource: a file is missing.
        InvalidTokenizer: malformed, files that contradict each other, or neither argument nor file
            says how text is cut.
        InvalidOption: sentences by a library that is not installed.
    """
    pattern, marks = _settings(path, pattern, sentences, algorithm)
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


def _settings(
    path: Path,
    pattern: SplitPattern | str | None,
    sentences: str | None,
    marks: FrequencyBpe | None,
) -> tuple[SplitPattern | str, FrequencyBpe]:
    """The split pattern and the marks: as given, else as the file of ours says."""
    if (path / SETTINGS).exists() and (pattern is None or marks is None):
        record = json_of(read_bounded(path / SETTINGS), path / SETTINGS)
        if not isinstance(record, dict) or not isinstance(record.get("algorithm"), dict):
            refuse(path / SETTINGS, "does not say how text is cut")
        described = {name: value for name, value in record["algorithm"].items() if name != "name"}
        if (own := FrequencyBpe.of_description(described)) is None:
            refuse(path / SETTINGS, "describes marks of another algorithm")
        for text in (own.end_of_word, own.unknown, own.line_begin, own.line_end, *own.punkt_tables):
            plain_bytes(text, path / SETTINGS)
        pattern = SplitPattern.from_record(record.get("pattern")) if pattern is None else pattern
        marks = marks or own
    if marks is None and sentences is not None:
        marks = FrequencyBpe()
    if pattern is None or marks is None:
        refuse(
            path,
            f"does not say how text is cut into sentences and words: there is no {SETTINGS}",
            "a split pattern, and sentences by punkt, by lines or none",
            f"say which, wherever a command takes a tokenizer: {path},sentences=punkt,"
            'pattern=wordpunct; and Tokenizer.load(PATH, pattern="wordpunct", sentences="punkt")',
        )
    return pattern, marks if sentences is None else marks.with_sentences(sentences)


def _frequencies(given: Any, path: Path) -> dict[str, int]:
    if not isinstance(given, dict):
        refuse(path, "holds no frequencies", "an object of token → frequency")
    for token, frequency in given.items():
        if type(frequency) is not int or frequency < 1:
            refuse(path, f"gives {shown(token)} the frequency {shown(frequency)}")
    return given
