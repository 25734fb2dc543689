"""Text that looks like a special token, whoever's it is: found, counted, taken out of documents."""

from __future__ import annotations

from collections import Counter

import regex

# The spellings of control tokens in public tokenizers: `<|endoftext|>`, `<s>`, `</s>`, `<pad>`,
# `<unk>`, `<mask>`, `<bos>`, `<eos>`, `[INST]`, `[/INST]`, `[CLS]`, `[SEP]`, `[PAD]`, `[MASK]`,
# `[UNK]`, `<start_of_turn>`, `<end_of_turn>`.
_SPECIAL_LOOKING = regex.compile(
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
