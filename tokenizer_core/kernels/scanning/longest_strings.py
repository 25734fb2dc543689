"""Which of some strings is the longest at each place of a text, in linear time; no meaning.

An Aho–Corasick automaton of the strings read from right to left: where it has come to a place, the
longest string that ends there in its direction is the longest that begins there in the text's.
"""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.memory.types import I64, I32Rows, I32s, I64Rows, I64s, U8s

_LABEL, _CHILD, _SIBLING, _FALLBACK, _STRING = 0, 1, 2, 3, 4  # columns of a state
COLUMNS = 5


@kernel
def _child(states: I32Rows, state: I64, byte: I64) -> I64:
    """The state after one more byte, or 0."""
    child = np.int64(states[state, _CHILD])
    while child != 0 and states[child, _LABEL] != byte:
        child = np.int64(states[child, _SIBLING])
    return child


@kernel
def _after(states: I32Rows, state: I64, byte: I64) -> I64:
    """The state of the longest end of what was read that begins a string, from right to left."""
    child = _child(states, state, byte)
    while child == 0 and state != 0:
        state = np.int64(states[state, _FALLBACK])
        child = _child(states, state, byte)
    return child


@entry_kernel
def read_from_right(sought: U8s, offsets: I64s, states: I32Rows, queue: I32s) -> I64:
    """Make the automaton; returns how many states it has.

    Args:
        sought, offsets: distinct strings, as of `find_specials`.
        states: int32 ``[len(sought) + 1, COLUMNS]``, receives the automaton.
        queue: int32 ``[len(sought) + 1]``, scratch.
    """
    states[0] = 0
    states[0, _STRING] = -1
    number = np.int64(1)
    for string in range(len(offsets) - 1):
        state = np.int64(0)
        for place in range(offsets[string + 1] - 1, offsets[string] - 1, -1):
            child = _child(states, state, np.int64(sought[place]))
            if child == 0:
                child = number
                number += 1
                states[child, _LABEL] = sought[place]
                states[child, _CHILD] = 0
                states[child, _SIBLING] = states[state, _CHILD]
                states[child, _FALLBACK] = 0
                states[child, _STRING] = -1
                states[state, _CHILD] = child
            state = child
        states[state, _STRING] = string
    # Shorter ones first: each falls back to a shorter one.
    queue[0] = 0
    done, waiting = np.int64(0), np.int64(1)
    while done < waiting:
        state = np.int64(queue[done])
        done += 1
        child = np.int64(states[state, _CHILD])
        while child != 0:
            if state != 0:
                fallback = np.int64(states[state, _FALLBACK])
                fallback = _after(states, fallback, np.int64(states[child, _LABEL]))
                states[child, _FALLBACK] = fallback
                if states[child, _STRING] < 0:
                    states[child, _STRING] = states[fallback, _STRING]
            queue[waiting] = child
            waiting += 1
            child = np.int64(states[child, _SIBLING])
    return number


@entry_kernel
def find_longest(
    text: U8s,
    begin: I64,
    window: I64,
    end: I64,
    longest: I64,
    states: I32Rows,
    offsets: I64s,
    strings: I32s,
    found: I64Rows,
) -> tuple[I64, I64]:
    """Find strings that begin in [begin, window), as `find_specials` does.

    Args:
        end: where the text ends: a string that goes on after it is none.
        longest: bytes of the longest string.
        states: of `read_from_right`. offsets: as it was given.
        strings: int32 ``[window - begin]``, scratch.
        found: int64 ``[window - begin, 3]``, receives begin, end and index of each.

    Returns:
        How many were found; where to go on: at ``window``, or where the last one ends.
    """
    state = np.int64(0)
    for place in range(min(end, window + longest) - 1, begin - 1, -1):
        state = _after(states, state, np.int64(text[place]))
        if place < window:
            strings[place - begin] = states[state, _STRING]
    count, place = np.int64(0), begin
    while place < window:
        string = np.int64(strings[place - begin])
        if string < 0:
            place += 1
            continue
        found[count, 0] = place
        place += offsets[string + 1] - offsets[string]
        found[count, 1] = place
        found[count, 2] = string
        count += 1
    return count, place
