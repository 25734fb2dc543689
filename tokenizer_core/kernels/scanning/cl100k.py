"""Pre-token starts of `cl100k` and its relatives, 64 bytes at a time.

With letters L, numbers N, white space W (S is U+0020, R a line feed or carriage return, X any other
W) and others O, the pattern is equivalent to these rules:

- R directly after a run of O belongs to that run (*absorbed*); the next character counts as if it
  came after a letter. Below, R and W are those that are not absorbed.
- A pre-token starts at the first character of a run of O, unless S is before it.
- One starts at the first character of a run of L, unless X is before it, or a run of O that is a
  single character without S before it: those join the letters.
- One starts at the first, fourth, seventh … character of a run of N.
- One starts at the first character of a run of W and, unless the span ends with that run, after its
  last R, and at its last character if that is an X.
- One starts after a contraction whose apostrophe starts a pre-token.

`llama3` differs if a span ends with white space: a pre-token still starts after its last R.
`qwen2` is `llama3` with a pre-token at each character of N; `qwen3.5` is `qwen2` with combining
marks as L.
"""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.memory.addresses import (
    load_u8,
    mark,
    mask_apostrophes,
    mask_carriage_returns,
    mask_line_feeds,
    mask_spaces,
    trailing_zeros,
    unmark,
)
from bpeline.tokenizer_core.kernels.memory.types import I64, U64, I64Rows, U8s, U64s
from bpeline.tokenizer_core.kernels.scanning.characters import (
    is_ascii_letter,
    is_ascii_other,
    is_ascii_white,
)
from bpeline.tokenizer_core.kernels.scanning.masks import (
    cl100k_starts,
    class_masks,
    contraction_width,
    is_ascii_around,
    mark_last_white,
    number_begins,
    refuted_runs,
    whole_characters,
)

_0 = np.uint64(0)
_1 = np.uint64(1)
_6 = np.uint64(6)
_63 = np.uint64(63)
_ALL = ~np.uint64(0)
_NOWHERE = np.int64(-1)


@kernel
def absorbed_among(newlines: U64, behind_others: U64) -> U64:
    """The newlines of runs whose first byte is in ``behind_others``."""
    # Adding its first bit to a run of ones clears the run.
    return newlines & ~(newlines + behind_others)


@kernel
def mark_ascii_blocks(
    base: I64,
    block: I64,
    end: I64,
    starts: U64s,
    digits: I64,
    absorbed_before: U64,
    numbers_before: U64,
    in_group: I64,
    pending: I64,
) -> tuple[I64, U64, U64, I64, I64]:
    """Mark blocks of ASCII up to the last block of the span, see `gpt2`.

    Returns the first block that is not done, and the last four arguments for it.
    """
    while block + 64 < end and is_ascii_around(base + block):
        masks = cl100k_starts(base + block)
        marks, whites_begin, after_newline, blanks, newlines, after_others, numbers = masks[:7]
        absorbed = absorbed_among(newlines, after_others | (newlines & absorbed_before))
        after_absorbed = (absorbed << _1) | absorbed_before
        marks |= (whites_begin & ~absorbed) | (after_newline & after_absorbed)
        numbers_begin, in_group = number_begins(numbers, numbers_before, _0, digits, in_group)
        marks |= numbers_begin
        begin = after_newline & ~after_absorbed
        if begin or pending >= 0:
            # There is no blank before an absorbed newline.
            refuted, pending = refuted_runs(block, blanks, begin, newlines, pending, starts)
            marks |= begin & ~refuted
        _mark_contractions(base, block, end, masks[7] & marks, starts)
        starts[np.uint64(block) >> _6] |= marks
        absorbed_before = absorbed >> _63
        numbers_before = numbers >> _63
        block += 64
    return block, absorbed_before, numbers_before, in_group, pending


@kernel
def mark_span(
    base: I64,
    begin: I64,
    end: I64,
    table: I64,
    starts: U64s,
    digits: I64,
    keeps_end: bool,
    marks_join: bool,
) -> None:
    letters_before = numbers_before = others_before = spaces_before = _0
    white_before = blank_before = newline_before = absorbed_before = _0
    single_before = joins_before = continued = _0
    straddling = (_0, _0, _0)
    in_group = np.int64(0)
    pending = _NOWHERE
    block = begin & ~np.int64(63)
    valid = _ALL << np.uint64(begin & np.int64(63))
    while block < end:
        if block >= begin + 2 and continued == _0:
            first = block
            block, absorbed_before, numbers_before, in_group, pending = mark_ascii_blocks(
                base,
                block,
                end,
                starts,
                digits,
                absorbed_before,
                numbers_before,
                in_group,
                pending,
            )
            if block > first:
                if blank_before and not is_ascii_white(load_u8(base + first)):
                    mark(starts, first - 1)
                before, earlier = load_u8(base + block - 1), load_u8(base + block - 2)
                letters_before = np.uint64(is_ascii_letter(before))
                others_before = np.uint64(is_ascii_other(before))
                spaces_before = np.uint64(before == 0x20)
                newline_before = np.uint64(before == 0x0A or before == 0x0D) & ~absorbed_before
                white_before = np.uint64(is_ascii_white(before)) & ~absorbed_before
                blank_before = white_before & ~newline_before
                stands_alone = not is_ascii_other(earlier) and earlier != 0x20
                single_before = others_before & np.uint64(stands_alone)
                joins_before = blank_before | single_before
        span_end = _0  # the bit after the span's last byte, if it is in this block
        if end - block < 64:
            span_end = _1 << np.uint64(end - block)
            valid &= span_end - _1
            if not keeps_end:
                span_end = _0
        address = base + block
        letters, numbers, white, combining, _, _, continued, straddling = class_masks(
            address, valid, straddling, table
        )
        if marks_join:
            letters |= combining
        others = valid & ~(letters | numbers | white)
        spaces = mask_spaces(address) & valid
        newlines = (mask_line_feeds(address) | mask_carriage_returns(address)) & valid
        blanks = white & ~newlines

        after_others = (others << _1) | others_before
        absorbed = absorbed_among(newlines, newlines & (after_others | absorbed_before))
        white &= ~absorbed
        newlines &= ~absorbed

        marks = others & ~(after_others | (spaces << _1) | spaces_before)
        single = whole_characters(marks, single_before, others & continued)
        joins = blanks | single
        marks |= letters & ~((letters << _1) | letters_before | (joins << _1) | joins_before)

        after_white = (white << _1) | white_before
        marks |= white & ~after_white
        ended = valid & ~white & after_white  # the character before is the last of its run
        last_blank = (ended >> _1) & blanks
        marks |= last_blank & ~continued
        if (last_blank & continued) | (ended & blank_before):
            mark_last_white(base, block, last_blank & continued, ended & blank_before, starts)

        numbers_begin, in_group = number_begins(
            numbers, numbers_before, continued, digits, in_group
        )
        marks |= numbers_begin

        blanks_begin = blanks & ((newlines << _1) | newline_before)
        if blanks_begin or pending >= 0:
            # Unless a newline or the end of the span follows: then a later newline is the last of
            # the white space, or all of it is one pre-token.
            refuted, pending = refuted_runs(
                block, blanks, blanks_begin, newlines | span_end, pending, starts
            )
            marks |= blanks_begin & ~refuted

        _mark_contractions(base, block, end, mask_apostrophes(address) & marks, starts)
        starts[np.uint64(block) >> _6] |= marks

        letters_before = letters >> _63
        numbers_before = numbers >> _63
        others_before = others >> _63
        spaces_before = spaces >> _63
        white_before = white >> _63
        blank_before = blanks >> _63
        newline_before = newlines >> _63
        absorbed_before = absorbed >> _63
        single_before = single >> _63
        joins_before = joins >> _63
        valid = _ALL
        block += 64
    if pending >= 0 and keeps_end:
        unmark(starts, pending)


@kernel
def _mark_contractions(base: I64, block: I64, end: I64, apostrophes: U64, starts: U64s) -> None:
    while apostrophes:
        k = trailing_zeros(apostrophes)
        apostrophes &= apostrophes - _1
        width = contraction_width(base + block + k, np.uint8(0x20))
        if width and block + k + width < end:
            mark(starts, block + k + width)


@entry_kernel
def mark_cl100k(
    text: U8s,
    size: I64,
    spans: I64Rows,
    table: U8s,
    starts: U64s,
    digits: I64,
    keeps_end: bool,
    marks_join: bool,
) -> bool:
    """Set the bits of ``starts`` where pre-tokens start; see `mark_gpt2`.

    Args:
        digits: numbers per pre-token: 3 (cl100k, llama3) or 1 (qwen2).
        keeps_end: whether white space that ends a span is one pre-token (cl100k).
        marks_join: whether combining marks are letters (qwen3.5).
    """
    base = text.ctypes.data
    for i in range(spans.shape[0]):
        begin, end = spans[i, 0], spans[i, 1]
        if begin < 0 or end < begin or end > size:
            return False
        mark_span(base, begin, end, table.ctypes.data, starts, digits, keeps_end, marks_join)
    return True
