"""The vocab of a JSON file found and read where it stands: names and ids; knows no merges.

Read are names in GPT-2's printable characters, written as themselves, and ids as they usually are.
Names of other characters, which few added tokens have, are pointed out; all else is left to a
parser that knows all of JSON, and so is what is no JSON at all.
"""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.memory.types import I64, I64Rows, I64s, ReadOnlyU8s, U8s, U16s
from bpeline.tokenizer_core.kernels.scanning.json_merges import (
    BEGIN,
    BEGUN,
    COLON,
    COMMA,
    END,
    ENDED,
    ESCAPE,
    NO_BYTE,
    QUOTE,
    SLASH,
    behind_space,
    find_in_model,
    is_at,
)

VOCAB = np.frombuffer(b'"vocab"', np.uint8)
OTHERS = 2  # in `place`, behind BEGIN and END
OTHER_BEGIN, OTHER_END, OTHER_ID = 0, 1, 2  # columns of `others`
DIGIT_0, DIGIT_9 = np.uint8(ord("0")), np.uint8(ord("9"))
_DIGITS = 8  # of an id, at most


@kernel
def read_name(
    text: ReadOnlyU8s, at: I64, bytes_of: U16s, names: U8s, written: I64
) -> tuple[I64, I64]:
    """Read a string whose first quote stands at a place.

    Returns:
        The place behind it, or −1 where it does not end; and how many bytes were written to
        ``names``, 0 where it is empty or written otherwise than usual.
    """
    at += 1
    size = np.int64(0)
    usual = True
    while at < len(text):
        byte = text[at]
        if byte == QUOTE:
            return np.int64(at + 1), size if usual else np.int64(0)
        point = np.int64(byte)
        if byte == ESCAPE:
            at += 1
            if at == len(text):
                break
            usual &= text[at] == QUOTE or text[at] == ESCAPE or text[at] == SLASH
            point = np.int64(text[at])
        elif byte >= 0x80:
            if 0xC2 <= byte < 0xE0 and at + 1 < len(text) and text[at + 1] & 0xC0 == 0x80:
                at += 1
                point = (point & 0x1F) << 6 | np.int64(text[at] & 0x3F)
            else:
                point = np.int64(len(bytes_of))
        if point >= len(bytes_of) or bytes_of[point] == NO_BYTE:
            usual = False
        elif usual:
            names[written + size] = bytes_of[point]
            size += 1
        at += 1
    return np.int64(-1), np.int64(0)


@kernel
def read_id(text: ReadOnlyU8s, at: I64) -> tuple[I64, I64]:
    """Read a whole number of few digits: the place behind it, or −1 where it is none; and it."""
    begin, number = at, np.int64(0)
    while at < len(text) and DIGIT_0 <= text[at] <= DIGIT_9:
        number = 10 * number + np.int64(text[at] - DIGIT_0)
        at += 1
        if at - begin > _DIGITS:
            return np.int64(-1), number
    if at == begin or (text[begin] == DIGIT_0 and at > begin + 1):
        return np.int64(-1), number
    return np.int64(at), number


@entry_kernel
def spell_vocab(
    text: ReadOnlyU8s,
    in_model: bool,
    bytes_of: U16s,
    names: U8s,
    lengths: I64s,
    ids: I64s,
    others: I64Rows,
    place: I64s,
) -> I64:
    """Find a vocab and read its names and ids.

    Args:
        text: JSON.
        in_model: whether the vocab is in the object ``model``, or is the whole text.
        bytes_of: the byte that each code point stands for, or `NO_BYTE`; for all beyond as well.
        names: uint8, as long as the text: receives the names joined.
        lengths, ids: int64, as many as there may be: receive how long each is, and its id.
        others: int64 ``[m, 3]``: receives where the string of a name that is written otherwise
            begins and ends, and its id.
        place: int64 ``[3]``: receives where the object begins and ends, and how many others there
            are.

    Returns:
        How many names there are beside the others; 0 where a parser has to read all.
    """
    at = find_in_model(text, VOCAB, BEGUN) if in_model else behind_space(text, np.int64(0))
    if at < 0 or not is_at(text, at, BEGUN):
        return np.int64(0)
    place[BEGIN] = at
    number, written, other = np.int64(0), np.int64(0), np.int64(0)
    while True:
        begin = behind_space(text, at + 1)
        if not is_at(text, begin, QUOTE):
            return np.int64(0)
        at, size = read_name(text, begin, bytes_of, names, written)
        if at < 0:
            return np.int64(0)
        end = at
        at = behind_space(text, at)
        if not is_at(text, at, COLON):
            return np.int64(0)
        at, id_ = read_id(text, behind_space(text, at + 1))
        if at < 0:
            return np.int64(0)
        if size > 0:
            if number == len(ids):
                return np.int64(0)
            lengths[number], ids[number] = size, id_
            number += 1
            written += size
        else:
            if other == len(others):
                return np.int64(0)
            others[other, OTHER_BEGIN], others[other, OTHER_END] = begin, end
            others[other, OTHER_ID] = id_
            other += 1
        at = behind_space(text, at)
        if is_at(text, at, ENDED):
            place[END], place[OTHERS] = at + 1, other
            return number
        if not is_at(text, at, COMMA):
            return np.int64(0)
