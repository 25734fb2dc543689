"""A format that refuses a tokenizer names another one, and that one holds it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from bpeline.tokenizer_core import (
    WordCounts,
    count_texts,
    superword_lines,
    train_bpe,
    train_char_bpe,
    train_frequency_bpe,
    train_superbpe,
    train_wordpiece,
)
from bpeline.tokenizer_core.algorithms import greedy_longest
from bpeline.tokenizer_core.errors import InvalidOption, InvalidTokenizer
from bpeline.tokenizer_core.tokenizer import SavedFormat, Tokenizer

TEXTS = ["the end of the world and the end of the day\n"] * 9
OF_CHARACTERS = WordCounts.from_mapping({b"low": 5, b"lower": 2, b"newest": 6}, "whitespace")


def tokenizers() -> dict[str, Tokenizer]:
    words = train_bpe(count_texts(TEXTS, "gpt2"), 290, special_tokens=["<|end|>"])
    lines = count_texts(TEXTS, superword_lines())
    return {
        "words": words,
        "superwords": train_superbpe(words, lines, 300, transition_size=272),
        "another pattern": train_bpe(count_texts(TEXTS, r"\w+|\W+"), 290),
        "WordPiece": train_wordpiece(OF_CHARACTERS, 30),
        "characters": train_char_bpe(OF_CHARACTERS, 6),
        "characters, joined": train_char_bpe(OF_CHARACTERS, 6, joined=True),
        "greedy": greedy_longest(train_char_bpe(OF_CHARACTERS, 6), OF_CHARACTERS, "</u>"),
        "frequency": train_frequency_bpe(OF_CHARACTERS, 6, word_sentences="text"),
    }


@pytest.mark.night
@pytest.mark.filterwarnings("ignore:characters that are in no merge")
def test_what_a_refusal_names_holds_the_tokenizer(tmp_path: Path) -> None:
    refused = 0
    for number, (kind, tokenizer) in enumerate(tokenizers().items()):
        for format in get_args(SavedFormat):
            try:
                tokenizer.save(tmp_path / f"{number} {format}", format)
            except (InvalidOption, InvalidTokenizer) as refusal:
                said = refusal.next_step
            else:
                continue
            refused += 1
            advised = set(re.findall(r"'([a-z0-9-]+)'|--format ([a-z0-9-]+)", said))
            names = {name for pair in advised for name in pair if name}
            assert names, f"{kind} as {format}: {said}"
            for name in names:
                tokenizer.save(tmp_path / f"{number} {format} {name}", name)  # type: ignore[arg-type]
    assert refused > 30
