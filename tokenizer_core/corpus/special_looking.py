"""Text that looks like a special token, whoever's it is: found, counted, taken out of documents."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import dataclass

from bpeline.tokenizer_core.corpus.source_bytes import open_source
from bpeline.tokenizer_core.corpus.sources import SourceFile
from bpeline.tokenizer_core.errors import CorpusError

_LOOKED_INTO = 16  # files, evenly spread
_BEGINNING = 1 << 20  # bytes of each
_MANY = 10  # fewer may be a text about them

# The spellings of control tokens in public tokenizers: `<|endoftext|>`, `<s>`, `</s>`, `<pad>`,
# `<unk>`, `<mask>`, `<bos>`, `<eos>`, `[INST]`, `[/INST]`, `[CLS]`, `[SEP]`, `[PAD]`, `[MASK]`,
# `[UNK]`, `<start_of_turn>`, `<end_of_turn>`.
_SPECIAL_LOOKING = re.compile(
    rb"<\|[A-Za-z0-9_.:-]{1,40}\|>|</?s>|<(?:pad|unk|mask|bos|eos|start_of_turn|end_of_turn)>"
    rb"|\[/?INST\]|\[(?:CLS|SEP|PAD|MASK|UNK)\]"
)


def count_special_looking(text: bytes) -> Counter[str]:
    """How often each of them occurs in a text.

    Example:
        >>> count_special_looking(b"one<|endoftext|>two<|endoftext|>")
        Counter({'<|endoftext|>': 2})
    """
    return Counter(one.decode() for one in _SPECIAL_LOOKING.findall(text))


def without_special_looking(document: bytes) -> list[bytes]:
    """What stands between them, without empty pieces.

    Example:
        >>> without_special_looking(b"one<|endoftext|>two</s>")
        [b'one', b'two']
    """
    return [piece for piece in _SPECIAL_LOOKING.split(document) if piece]


@dataclass(frozen=True, slots=True)
class SpecialLooking:
    """Special-looking text that occurs many times where files begin.

    Attributes:
        counts: spelling → occurrences, the most frequent first; at least ten of each.
        files, bytes: how many were looked into, and how much of them together.
    """

    counts: dict[str, int]
    files: int
    bytes: int


def look_for_special(files: Sequence[SourceFile], known: Collection[str]) -> SpecialLooking:
    """Look for special tokens that nobody registered, in the first 1 MiB of 16 files at most.

    A file that cannot be read holds none here: whoever reads it whole says so. Nor does a file of
    records: its documents end by themselves, and decoding them takes a process.

    Args:
        files: as `find_source_files` found them.
        known: spellings that are special tokens, or separators.
    """
    found: Counter[str] = Counter()
    looked, size = 0, 0
    files = [file for file in files if not file.is_of_records]
    for file in files[:: -(-len(files) // _LOOKED_INTO) or 1]:
        try:
            with closing(open_source(file, 0)) as source:
                beginning = source.peek(0, _BEGINNING)
        except CorpusError:
            continue
        looked, size = looked + 1, size + len(beginning)
        found += count_special_looking(beginning)
    many = {one: count for one, count in found.most_common() if count >= _MANY and one not in known}
    return SpecialLooking(many, looked, size)
