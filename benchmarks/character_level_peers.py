"""Peers that learn over characters: measured for orientation, never compared merge by merge."""

from __future__ import annotations

import os
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.captured_output import silenced_output
from benchmarks.documents import SEPARATOR
from benchmarks.stopwatch import Stopwatch

_LONGEST_LINE = 1 << 30  # SentencePiece leaves out lines over 4,192 bytes unless told otherwise


def sentencepiece(
    path: Path, vocab_size: int, threads: int, watch: Stopwatch
) -> list[tuple[bytes, ...]]:
    library: Any = import_module("sentencepiece")

    with tempfile.TemporaryDirectory() as directory:
        with watch.phase():
            library.SentencePieceTrainer.train(
                input=os.fspath(path),
                model_prefix=os.path.join(directory, "model"),
                model_type="bpe",
                vocab_size=vocab_size,
                num_threads=threads,
                byte_fallback=True,
                character_coverage=0.9995,
                normalization_rule_name="identity",
                max_sentence_length=_LONGEST_LINE,
                input_sentence_size=0,
                control_symbols=[SEPARATOR],
                hard_vocab_limit=False,
                minloglevel=2,
            )
        model = library.SentencePieceProcessor(model_file=os.path.join(directory, "model.model"))
        size = model.get_piece_size()
        pieces = [
            model.id_to_piece(token)
            for token in range(size)
            if not (model.is_byte(token) or model.is_control(token) or model.is_unknown(token))
        ]
    return [(piece.encode(),) for piece in pieces if len(piece) > 1]


def youtokentome(
    path: Path, vocab_size: int, threads: int, watch: Stopwatch
) -> list[tuple[bytes, ...]]:
    library: Any = import_module("youtokentome")

    with tempfile.TemporaryDirectory() as directory:
        model = os.path.join(directory, "model")
        with watch.phase(), silenced_output():
            library.BPE.train(
                data=os.fspath(path),
                model=model,
                vocab_size=vocab_size,
                coverage=0.9995,
                n_threads=threads,
            )
        pieces = library.BPE(model=model).vocab()
    return [(piece.encode(),) for piece in pieces if len(piece) > 1]
