"""A page that steps through what an algorithm did, with the keyboard: training, compression, words.

Knows frames alone; what each of them shows its caller has gathered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bpeline.flows.pages.rendering import render

if TYPE_CHECKING:
    from bpeline.tokenizer_core.algorithms import CompressionStep, VisibleStep
    from bpeline.tokenizer_core.word_encoding import ExplainedWord

_MOST_WORDS, _MOST_TOKENS, _MOST_PAIRS = 60, 300, 40  # of each frame; the command prints all


@dataclass(frozen=True, slots=True)
class Row:
    """Tokens in a line, and what is said behind them."""

    tokens: tuple[str, ...]
    said: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a frame.

    Attributes:
        title: above it.
        rows: lines of tokens.
        flowing: whether the rows stand one behind the other.
        more: how many rows are left out.
    """

    title: str
    rows: tuple[Row, ...]
    flowing: bool = False
    more: int = 0


@dataclass(frozen=True, slots=True)
class Frame:
    """What the page shows at a time.

    Attributes:
        title: what happened.
        marked: the token it happened to, marked wherever it stands.
        parts: what there is then.
    """

    title: str
    marked: str
    parts: tuple[Part, ...]


def stepping_page(title: str, frames: Sequence[Frame]) -> str:
    """The whole page."""
    return render("stepping.html", {"title": title, "heading": title, "frames": frames})


def training_frames(steps: Sequence[VisibleStep]) -> list[Frame]:
    """A frame for each merge, and one before the first."""
    frames = []
    for step in steps:
        title, made = "Before the first merge", ""
        if step.merge is not None:
            left, right, made = step.merge
            title = f"Merge {step.number}: {left} + {right} → {made}, {step.times}"
        words = [Row(symbols, f"× {count:,}") for symbols, count in step.words]
        tokens = [Row((token,), f"{count:,}") for token, count in step.tokens.items()]
        pairs = []
        for pair in step.best_pairs:
            count, score = step.pairs[pair], step.scores[pair]
            said = f"{count:,}" if score == count else f"{count:,}, score {score:.4g}"
            pairs.append(Row(pair, said))
        frames.append(
            Frame(
                title,
                made,
                (
                    _part(f"Words ({len(words):,})", words, _MOST_WORDS),
                    _part("Pairs, the best first", pairs, _MOST_PAIRS, flowing=True),
                    _part(f"Tokens ({len(tokens):,})", tokens, _MOST_TOKENS, flowing=True),
                ),
            )
        )
    return frames


def compression_frames(steps: Sequence[CompressionStep]) -> list[Frame]:
    """A frame for each pair that is replaced, and one before the first of each block."""
    frames = []
    for step in steps:
        title = f"Block {step.block}"
        if step.number:
            title += f", step {step.number}: {step.pair} → {step.code}, {step.times}"
        pairs = [Row((pair,), f"{count:,}") for pair, count in step.pairs.items()]
        table = [Row((code,), f"= {pair}") for code, pair in step.table.items()]
        content = Part(f"{len(step.content):,} bytes", (Row(tuple(step.content)),))
        parts = (
            content,
            _part("New bytes", table, _MOST_TOKENS, flowing=True),
            _part("Pairs, the most frequent first", pairs, _MOST_PAIRS, flowing=True),
        )
        frames.append(Frame(title, step.code, parts))
    return frames


def word_frames(words: Sequence[ExplainedWord]) -> list[Frame]:
    """A frame for each decision about a word, between the word and its tokens."""
    frames = []
    for word in words:
        frames.append(Frame(f"{word.word}", "", (Part("Word", (Row(tuple(word.word)),)),)))
        for number, step in enumerate(word.steps, 1):
            taken = Part("Taken", (Row(step.takes),), flowing=True)
            after = Part("Word", (Row(step.symbols),))
            marked = "".join(step.takes) if len(step.takes) > 1 else step.takes[0]
            title = f"{word.word}, step {number}: {step.why}"
            frames.append(Frame(title, marked, (taken, after)))
        ids = [Row((t,), str(i)) for t, i in zip(word.tokens, word.ids, strict=True)]
        frames.append(
            Frame(f"{word.word}: tokens and ids", "", (Part("Tokens", tuple(ids), flowing=True),))
        )
    return frames


def _part(title: str, rows: Sequence[Row], most: int, flowing: bool = False) -> Part:
    return Part(title, tuple(rows[:most]), flowing, max(len(rows) - most, 0))
