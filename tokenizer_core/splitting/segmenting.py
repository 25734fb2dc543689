"""Segmenters at work: text in, lengths of segments out; the one door to jieba and Sudachi.

Runs in processes of its own (`regex_worker`), where these libraries may take the memory of their
dictionaries, and where nothing that another part of a program told them can change what they do.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from bpeline.tokenizer_core.splitting.segmenters import JIEBA_BLOCKS, LINES

Lengths = Callable[[str], Iterable[int]]

# jieba takes as long for an English word as for a Chinese one, and there are fewer of them.
_BLOCKS_REMEMBERED = 1 << 16
_LONGEST_REMEMBERED = 64
# Sudachi refuses more than 49,149 bytes, and more than 65,535 once normalized, which makes one
# character of three bytes up to 33.
_LONGEST_LINE = 1024
_LINE = re.compile(LINES)
_END_OF_SENTENCE = re.compile(r"[。．！？!?]+[」』）)]*")
_PAUSE = re.compile(r"[、，,;；:：\s]+")


def segmenter_named(name: str) -> Lengths:
    """What turns text into the lengths of its segments, which cover it, in characters.

    Args:
        name: one of `tokenizer_core.splitting.segmenters.SEGMENTERS`.

    Raises:
        ImportError, OSError: a library or its dictionary cannot be found.
    """
    if name.startswith("jieba"):
        return _jieba(hmm=name == "jieba")
    return _sudachi(shortest=name == "sudachi-a")


def _jieba(hmm: bool) -> Lengths:
    import jieba

    # By itself it would read its dictionary from a file in the directory for temporary files,
    # which anybody may have put there, and write one.
    tokenizer = jieba.Tokenizer()
    directory = Path(jieba.__file__).parent
    with (directory / "dict.txt").open("rb") as dictionary:
        tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(dictionary)
    tokenizer.initialized = True
    blocks = re.compile(JIEBA_BLOCKS)

    @functools.lru_cache(maxsize=_BLOCKS_REMEMBERED)
    def remembered(block: str) -> list[int]:
        return [len(segment) for segment in tokenizer.cut(block, HMM=hmm)]

    def lengths(text: str) -> Iterator[int]:
        for block in blocks.findall(text):
            if len(block) == 1:
                yield 1
            elif block.isascii() and len(block) <= _LONGEST_REMEMBERED:
                yield from remembered(block)
            else:
                yield from map(len, tokenizer.cut(block, HMM=hmm))

    return lengths


def _sudachi(shortest: bool) -> Lengths:
    from sudachipy import Dictionary, SplitMode

    mode = SplitMode.A if shortest else SplitMode.C
    tokenizer = Dictionary(dict="core").tokenizer(mode=mode)

    def lengths(text: str) -> Iterator[int]:
        for line in _LINE.findall(text):
            if line[0] in "\r\n":
                yield len(line)
                continue
            for part in parts_of_line(line):
                begin = 0
                # A character may become several, whose morphemes but one are empty.
                for end in [morpheme.end() for morpheme in tokenizer.tokenize(part)]:
                    if end > begin:
                        yield end - begin
                        begin = end

    return lengths


def parts_of_line(line: str, longest: int = _LONGEST_LINE) -> Iterator[str]:
    """A line in parts that can be segmented: behind a sentence, else a pause, else anywhere.

    Args:
        line: without line ends.
        longest: characters of a part.
    """
    begin = 0
    while len(line) - begin > longest:
        window = line[begin : begin + longest]
        ends = [found.end() for found in _END_OF_SENTENCE.finditer(window)]
        ends = ends or [found.end() for found in _PAUSE.finditer(window)]
        end = begin + (ends[-1] if ends else longest)
        yield line[begin:end]
        begin = end
    yield line[begin:]
