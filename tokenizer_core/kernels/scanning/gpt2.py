"""Pre-token starts of the pattern `gpt2`, 64 bytes at a time.

With letters L, numbers N, white space W (S is U+0020) and others O, the pattern is equivalent to
these rules. A pre-token starts

- at the first character of a run of L, N or O, unless S is before it;
- at the first character of a run of W;
- at the last character of a run of W, unless the span ends there;
- after a contraction (an apostrophe that starts a pre-token, and s, d, m, t, ll, ve or re) instead
  of after its apostrophe.
"""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.memory.addresses import (
    load_u8,
    mark,
    mask_apostrophes,
    mask_spaces,
    trailing_zeros,
)
from bpeline.tokenizer_core.kernels.memory.types import I64, U64, I64Rows, U8s, U64s
from bpeline.tokenizer_core.kernels.scanning.characters import (
    is_ascii_digit,
    is_ascii_letter,
    is_ascii_other,
    is_ascii_white,
)
from bpeline.tokenizer_core.kernels.scanning.masks import (
    class_masks,
    contraction_width,
    gpt2_starts,
    is_ascii_around,
    mark_last_white,
)

_0 = np.uint64(0)
_1 = np.uint64(1)
_6 = np.uint64(6)
_63 = np.uint64(63)
_ALL = ~np.uint64(0)


@kernel
def mark_contractions(
    base: I64, block: I64, end: I64, apostrophes: U64, marks: U64, starts: U64s
) -> tuple[U64, U64]:
    """Apply contractions at ``apostrophes``, which start pre-tokens.

    Returns the marks of the block without those after these apostrophes, and whether the first byte
    of the next block starts no pre-token. Starts after contractions are set in the bitmap.
    """
    suppressed = _0
    while apostrophes:
        k = trailing_zeros(apostrophes)
        apostrophes &= apostrophes - _1
        width = contraction_width(base + block + k, np.uint8(0))
        stop = block + k + width
        if width and stop <= end:
            marks &= ~((_1 << np.uint64(k)) << _1)
            suppressed = (np.uint64(k) + _1) >> _6
            if stop < end:
                mark(starts, stop)
    return marks, suppressed


@kernel
def mark_ascii_blocks(
    base: I64, block: I64, end: I64, suppressed: U64, starts: U64s
) -> tuple[I64, U64]:
    """Mark blocks of ASCII up to the last block of the span.

    ``block`` is at least two bytes after the start of the span; ``suppressed``: whether its first
    byte is part of a contraction. Returns both for the first block that is not done.
    """
    while block + 64 < end and is_ascii_around(base + block):
        marks, apostrophes = gpt2_starts(base + block)
        marks &= ~suppressed
        marks, suppressed = mark_contractions(base, block, end, apostrophes & marks, marks, starts)
        starts[np.uint64(block) >> _6] |= marks
        block += 64
    return block, suppressed


@kernel
def mark_span(base: I64, begin: I64, end: I64, table: I64, starts: U64s) -> None:
    letters_before = numbers_before = others_before = spaces_before = white_before = _0
    straddling = (_0, _0, _0)
    suppressed = continued = _0
    block = begin & ~np.int64(63)
    valid = _ALL << np.uint64(begin & np.int64(63))
    while block < end:
        if block >= begin + 2 and continued == _0:
            first = block
            block, suppressed = mark_ascii_blocks(base, block, end, suppressed, starts)
            if block > first:
                if white_before and not is_ascii_white(load_u8(base + first)):
                    mark(starts, first - 1)
                before = load_u8(base + block - 1)
                letters_before = np.uint64(is_ascii_letter(before))
                numbers_before = np.uint64(is_ascii_digit(before))
                spaces_before = np.uint64(before == 0x20)
                white_before = np.uint64(is_ascii_white(before))
                others_before = np.uint64(is_ascii_other(before))
        if end - block < 64:
            valid &= _ALL >> np.uint64(64 - (end - block))
        address = base + block
        letters, numbers, white, _, _, _, continued, straddling = class_masks(
            address, valid, straddling, table
        )
        others = valid & ~(letters | numbers | white)
        spaces = mask_spaces(address) & valid

        marks = letters & ~((letters << _1) | letters_before)
        marks |= numbers & ~((numbers << _1) | numbers_before)
        marks |= others & ~((others << _1) | others_before)
        marks &= ~((spaces << _1) | spaces_before)
        after_white = (white << _1) | white_before
        marks |= white & ~after_white
        ended = valid & ~white & after_white  # the character before is the last of its run
        last_white = ended >> _1
        marks |= last_white & ~continued
        if (last_white & continued) | (ended & _1):
            mark_last_white(base, block, last_white & continued, ended & _1, starts)
        marks &= ~suppressed
        apostrophes = mask_apostrophes(address) & marks
        marks, suppressed = mark_contractions(base, block, end, apostrophes, marks, starts)
        starts[np.uint64(block) >> _6] |= marks

        letters_before = letters >> _63
        numbers_before = numbers >> _63
        others_before = others >> _63
        spaces_before = spaces >> _63
        white_before = white >> _63
        valid = _ALL
        block += 64


@entry_kernel
def mark_gpt2(text: U8s, size: I64, spans: I64Rows, table: U8s, starts: U64s) -> bool:
    """Set the bits of ``starts`` where pre-tokens start; other bits stay.

    Returns False at the first span that is not within the text.

    Args:
        text: uint8, UTF-8 with `PADDING` readable bytes after the first ``size``.
        spans: int64 [n, 2], half-open byte ranges between characters.
        table: uint8, `class_table`.
        starts: uint64 [size // 64 + 2].
    """
    base = text.ctypes.data
    for i in range(spans.shape[0]):
        begin, end = spans[i, 0], spans[i, 1]
        if begin < 0 or end < begin or end > size:
            return False
        mark_span(base, begin, end, table.ctypes.data, starts)
    return True
