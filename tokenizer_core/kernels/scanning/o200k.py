"""Pre-token starts of `o200k` and `tekken`, 64 bytes at a time.

With capitals U (upper and title case), small letters L, caseless letters C, combining marks M,
numbers N, white space W (S is U+0020, R a line feed or carriage return, X any other W) and others
O, the pattern is equivalent to these rules:

- Two or more O, or S and O, are *punctuation*, which includes every O and M after them. Everywhere
  else M is a C, and U, L and C form words.
- R directly after punctuation or a single O belongs to it, with every R and slash that follows
  (*absorbed*); the next character counts as if it came after a number. Below, R, W and O are those
  that are not absorbed.
- A contraction directly after a word belongs to it (*glued*; not with `tekken`, and not after
  another contraction): its letters are in no word, and the next character counts as if it came
  after a number.
- A pre-token starts at the first character of a run of O, unless S is before it.
- One starts at the first character of a word, unless X or a single O without S is before it.
- Within a word one starts at a U after L, or after C that follow L; else at the first of several U
  after C if they end the word.
- One starts at the first, fourth, seventh … character of a run of N; with `tekken` at each.
- One starts at the first character of a run of W, after its last R, and at its last character if
  that is an X, unless the span ends there.
"""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.memory.addresses import (
    mask_apostrophes,
    mask_ascii_capitals,
    mask_ascii_letters,
    mask_carriage_returns,
    mask_line_feeds,
    mask_slashes,
    mask_spaces,
    trailing_zeros,
)
from bpeline.tokenizer_core.kernels.memory.types import I64, U64, I64Rows, U8s, U64s
from bpeline.tokenizer_core.kernels.scanning.masks import (
    class_masks,
    contraction_width,
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
def _through(runs: U64, seeds: U64) -> U64:
    """Extend each of ``seeds``, bits of ``runs``, to the end of its run.

    Adding a bit to a run of ones clears the run from there on.
    """
    return (runs & ~(runs + seeds)) | seeds


@kernel
def mark_span(
    base: I64, begin: I64, end: I64, table: I64, starts: U64s, digits: I64, contracts: bool
) -> None:
    words_before = numbers_before = others_before = together_before = spaces_before = _0
    white_before = blank_before = newline_before = absorbed_before = _0
    single_before = joins_before = lowered_before = caseless_before = _0
    straddling = (_0, _0, _0)
    glued_after = _0
    in_group = np.int64(0)
    pending_blanks = pending_capitals = _NOWHERE
    block = begin & ~np.int64(63)
    valid = _ALL << np.uint64(begin & np.int64(63))
    while block < end:
        if end - block < 64:
            valid &= _ALL >> np.uint64(64 - (end - block))
        address = base + block
        letters, numbers, white, combining, upper, lower, continued, straddling = class_masks(
            address, valid, straddling, table
        )
        capitals = mask_ascii_capitals(address) & valid
        lower |= mask_ascii_letters(address) & valid & ~capitals
        upper |= capitals
        others = valid & ~(letters | numbers | white | combining)
        spaces = mask_spaces(address) & valid
        newlines = (mask_line_feeds(address) | mask_carriage_returns(address)) & valid
        blanks = white & ~newlines
        after_spaces = (spaces << _1) | spaces_before

        # Which O are absorbed depends on the M before them, which depend on the O before them.
        # Each iteration settles at least one more stretch from the left.
        tails = newlines | (mask_slashes(address) & others)
        absorbed, together = _ALL, _0
        punctuation = others
        while True:
            previous = absorbed
            seeds = newlines & ((punctuation << _1) | others_before)
            absorbed = _through(tails, seeds | (tails & absorbed_before))
            single = others & ~absorbed
            run = single | combining
            seeds = single & ~continued & ((single << _1) | others_before | after_spaces)
            together = _through(run, seeds | (run & together_before))
            punctuation = single | (together & combining)
            if not combining or absorbed == previous:
                break
        white &= ~absorbed
        newlines &= ~absorbed

        words = (letters | combining) & ~(together | glued_after)
        glued = glued_after
        glued_after = _0
        if contracts:
            apostrophes = mask_apostrophes(address) & ((words << _1) | words_before) & valid
            if apostrophes:
                more, glued_after = _glued(address, end - block, apostrophes)
                glued |= more
                words &= ~glued
                punctuation &= ~glued

        marks = punctuation & ~((punctuation << _1) | others_before | after_spaces)
        single = whole_characters(marks, single_before, punctuation & continued)
        joins = blanks | single
        marks |= words & ~((words << _1) | words_before | (joins << _1) | joins_before)

        capitals = upper & words
        small = lower & words
        caseless = words & ~(capitals | small)
        lowered = small
        if caseless:
            lowered |= _through(caseless, caseless & ((small << _1) | lowered_before))
        marks |= capitals & ((lowered << _1) | lowered_before)
        caseless &= ~lowered
        capitals_begin = capitals & ((caseless << _1) | caseless_before)
        if capitals_begin or pending_capitals >= 0:
            refuted, pending_capitals = refuted_runs(
                block, capitals, capitals_begin, words & ~capitals, pending_capitals, starts
            )
            marks |= capitals_begin & ~refuted

        after_white = (white << _1) | white_before
        marks |= white & ~after_white
        ended = valid & ~white & after_white  # the character before is the last of its run
        last_blank = (ended >> _1) & blanks
        marks |= last_blank & ~continued
        if (last_blank & continued) | (ended & blank_before):
            mark_last_white(base, block, last_blank & continued, ended & blank_before, starts)
        blanks_begin = blanks & ((newlines << _1) | newline_before)
        if blanks_begin or pending_blanks >= 0:
            refuted, pending_blanks = refuted_runs(
                block, blanks, blanks_begin, newlines, pending_blanks, starts
            )
            marks |= blanks_begin & ~refuted

        numbers_begin, in_group = number_begins(
            numbers, numbers_before, continued, digits, in_group
        )
        starts[np.uint64(block) >> _6] |= marks | numbers_begin

        words_before = words >> _63
        numbers_before = numbers >> _63
        others_before = punctuation >> _63
        together_before = together >> _63
        spaces_before = spaces >> _63
        white_before = white >> _63
        blank_before = blanks >> _63
        newline_before = newlines >> _63
        absorbed_before = absorbed >> _63
        single_before = single >> _63
        joins_before = joins >> _63
        lowered_before = lowered >> _63
        caseless_before = caseless >> _63
        valid = _ALL
        block += 64


@kernel
def _glued(address: I64, size: I64, apostrophes: U64) -> tuple[U64, U64]:
    """The bytes of contractions after words: in this block and in the next."""
    glued = after = _0
    while apostrophes:
        k = trailing_zeros(apostrophes)
        apostrophes &= apostrophes - _1
        width = contraction_width(address + k, np.uint8(0x20))
        if width and k + width <= size and not ((glued << _1) >> np.uint64(k)) & _1:
            ones = (_1 << np.uint64(width)) - _1
            glued |= ones << np.uint64(k)
            after = (ones >> _1) >> (_63 - np.uint64(k))
    return glued, after


@entry_kernel
def mark_o200k(
    text: U8s, size: I64, spans: I64Rows, table: U8s, starts: U64s, digits: I64, contracts: bool
) -> bool:
    """Set the bits of ``starts`` where pre-tokens start; see `mark_gpt2`.

    Args:
        digits: numbers per pre-token: 3 (o200k) or 1 (tekken).
        contracts: whether contractions belong to the word before (o200k).
    """
    base = text.ctypes.data
    for i in range(spans.shape[0]):
        begin, end = spans[i, 0], spans[i, 1]
        if begin < 0 or end < begin or end > size:
            return False
        mark_span(base, begin, end, table.ctypes.data, starts, digits, contracts)
    return True
