"""Compiles a regex to an automaton over character classes, or tells why not.

The regex becomes an NFA (Thompson) with prioritized branches. DFA states are ordered lists of its
nodes, cut after the first match (leftmost-first, as in RE2 and Rust's regex-automata). Look-ahead
of one character and the end of the text are resolved when the next class is known.

The automaton also gives the pairs of characters (x, y) between which a text can be divided: in
every state that x leads to, y must make the same move as at the start of a text, and the end of the
text after x must have the same result. Then a pre-token ends between them, attempts that fail at y
fall back as at the end of a text, and the rest is split as if the text began at y.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.kernels.scanning import automaton
from bpeline.tokenizer_core.kernels.scanning.find_passages import find_cut
from bpeline.tokenizer_core.splitting.regex_syntax import (
    CharacterClasses,
    Characters,
    Choice,
    Next,
    Node,
    NotRegular,
    Parts,
    Repeat,
    can_be_empty,
    character_classes,
    parsed,
)
from bpeline.tokenizer_core.text import Text

MOST_NODES = 4096  # of the NFA
MOST_STATES = 4096  # of the DFA
MOST_STEPS = 400_000  # node visits while building the DFA: about 0.2 seconds
MOST_COPIES = 16_384  # parts of the regex with counted repetitions expanded
MOST_SET_SIZE = 1200  # characters in the source of all sets; a set takes about 1 ms
MOST_SWEEPS = 50_000_000  # moves visited by `_settled`

_TOO_LONG = "an automaton that takes too long to make"
_LOOK_UP = 8  # added to the length of each set in MOST_SET_SIZE
_MEMO_BITS = 1 << 29  # 64 MB; longer texts use every 2nd, 4th … byte
_NO_MEMO = np.zeros(0, np.uint64)

_SET, _SPLIT, _NEXT, _ACCEPT = range(4)
_CUT_ROW, _GAP_ROW, _FIRST_ROW = range(3)
_FLAGS = 2 * automaton.STOP  # number of combinations of flags
_MATCH = 0  # accepting node of the NFA
State = tuple[int, ...]

_START, _UNMATCHED = 0, 1  # rows of every automaton


@dataclass(frozen=True, slots=True, eq=False)
class SplitAutomaton:
    """The tables for `mark_by_automaton`.

    Attributes:
        class_of_point: uint8 ``[0x110000]``, the column of each code point.
        moves: uint32 ``[states, columns, 2]``: offset of the next row in bytes, and flags.
        last_line_feed: column of a line feed at the end of its span.
        end: column of the end of the span.
        can_fail: bool ``[columns]``, whether an attempt that begins with this column may find no
            match.
    """

    class_of_point: NDArray[np.uint8]
    moves: NDArray[np.uint32]
    columns: int
    last_line_feed: int
    end: int
    states: int
    can_fail: NDArray[np.bool_]

    @property
    def shape(self) -> NDArray[np.int64]:
        return np.array([self.columns, self.last_line_feed, self.end, self.states], np.int64)

    def mark(
        self,
        text: Text,
        spans: NDArray[np.int64],
        starts: NDArray[np.uint64],
        gaps: NDArray[np.uint64],
    ) -> bool:
        """Set the bits of ``starts`` and ``gaps``; False if a span is outside of the text."""
        shape = self.shape
        progress = np.zeros(automaton.PROGRESS, np.int64)
        progress[automaton.POSITION] = -1
        memo = _NO_MEMO
        while True:
            status = automaton.mark_by_automaton(
                text.data,
                text.size,
                spans,
                self.class_of_point,
                self.moves,
                shape,
                starts,
                gaps,
                memo,
                progress,
            )
            if status in (automaton.DONE, automaton.OUTSIDE):
                return bool(status == automaton.DONE)
            memo = _NO_MEMO
            if status == automaton.NEEDS_MEMO:
                begin, end = spans[progress[automaton.SPAN]].tolist()
                bits = (end - begin + 1) * self.states
                shift = max((bits // _MEMO_BITS).bit_length(), 0)
                progress[automaton.MEMO_SHIFT] = shift
                memo = np.zeros(((((end - begin) >> shift) + 2) * self.states >> 6) + 1, np.uint64)


@functools.lru_cache(maxsize=16)
def split_automaton(pattern: str) -> SplitAutomaton | str:
    """The automaton of a regex that is known to compile, or why there is none."""
    try:
        tree = parsed(pattern)
        return _Determinization(tree).automaton()
    except NotRegular as reason:
        return str(reason)


def _sources_in(node: Node) -> set[str]:
    match node:
        case Characters(source):
            return {source}
        case Next(sources):
            return set(sources)
        case Parts(nodes) | Choice(nodes):
            return set().union(*map(_sources_in, nodes))
        case Repeat(part):
            return _sources_in(part)


class _Nfa:
    """Nodes: (kind, classes as bits of an integer, targets in order of preference)."""

    def __init__(self, tree: Node, sources: list[str], classes: CharacterClasses) -> None:
        self.last_line_feed, self.end = classes.number, classes.number + 1
        line_feed = classes.of_point[ord("\n")]
        self._all = (1 << (classes.number + 2)) - 1
        self._bits = {
            source: sum(1 << class_ for class_ in members)
            | ((line_feed in members) << self.last_line_feed)
            for source, members in zip(sources, classes.members, strict=True)
        }
        self.nodes: list[tuple[int, int, tuple[int, ...]]] = [(_ACCEPT, 0, ())]
        self._copies = 0
        self.start = self._compile(tree, _MATCH)

    def _add(self, kind: int, bits: int, *targets: int) -> int:
        self.nodes.append((kind, bits, targets))
        return len(self.nodes) - 1

    def _compile(self, node: Node, then: int) -> int:
        """Add ``node`` before the node ``then``; return its entry."""
        self._copies += 1  # empty parts add no node but take time
        if self._copies > MOST_COPIES or len(self.nodes) >= MOST_NODES:
            raise NotRegular(f"repetitions that come to more than {MOST_NODES} steps")
        match node:
            case Characters(source):
                return self._add(_SET, self._bits[source], then)
            case Parts(parts):
                for part in reversed(parts):
                    then = self._compile(part, then)
                return then
            case Choice(options):
                return self._add(_SPLIT, 0, *(self._compile(option, then) for option in options))
            case Next(sources):
                bits = node.at_end << self.end | node.at_last_line_feed << self.last_line_feed
                for source in sources:
                    bits |= self._bits[source]
                return self._add(_NEXT, bits ^ self._all if node.negated else bits, then)
            case Repeat():
                return self._repeat(node, then)

    def _repeat(self, node: Repeat, then: int) -> int:
        part, least, most = node.part, node.least, node.most
        leave = then
        if node.kind == "possessive":
            bits = self._one_character(part)
            if bits is not None:
                # A possessive run of a set ends before the first character outside of it.
                leave = self._add(_NEXT, bits ^ self._all, then)
            elif then != _MATCH or can_be_empty(part):
                raise NotRegular("a possessive or atomic group with more behind it")
        if most != least and most != 1 and can_be_empty(part):
            raise NotRegular("a repeated group that can match nothing")
        if most is None:
            entry = self._add(_SPLIT, 0)
            body = self._compile(part, entry)
            self.nodes[entry] = (_SPLIT, 0, self._ordered(node, body, leave))
        else:
            entry = then
            for _ in range(most - least):
                body = self._compile(part, entry)
                entry = self._add(_SPLIT, 0, *self._ordered(node, body, leave))
        for _ in range(least):
            entry = self._compile(part, entry)
        return entry

    def _ordered(self, node: Repeat, body: int, leave: int) -> tuple[int, int]:
        return (leave, body) if node.kind == "lazy" else (body, leave)

    def _one_character(self, node: Node) -> int | None:
        match node:
            case Characters(source):
                return self._bits[source]
            case Choice(options):
                bits = 0
                for option in options:
                    option_bits = self._one_character(option)
                    if option_bits is None:
                        return None
                    bits |= option_bits
                return bits
            case _:
                return None


class _Determinization:
    def __init__(self, tree: Node) -> None:
        sources = sorted(_sources_in(tree))
        if sum(len(source) + _LOOK_UP for source in sources if len(source) > 1) > MOST_SET_SIZE:
            raise NotRegular("sets of characters that take too long to look up")
        classes = character_classes(sources)
        if classes is None:
            raise NotRegular("more kinds of characters than fit a byte")
        self._classes = classes
        self._nfa = _Nfa(tree, sources, classes)
        self._columns = classes.number + 2
        self._steps = 0

    def _step(self, state: State, column: int, starting: bool) -> tuple[State, bool]:
        """The threads after a character of class ``column``, and whether one has matched.

        Threads of lower priority than a match are cut. At the start of an attempt a match would be
        empty and does not count.
        """
        if self._steps > MOST_STEPS:
            raise NotRegular(_TOO_LONG)
        nodes = self._nfa.nodes
        bit = 1 << column
        seen: set[int] = set()
        behind: dict[int, None] = {}
        pending = list(reversed(state))
        while pending:
            number = pending.pop()
            self._steps += 1
            if number in seen:
                continue
            seen.add(number)
            kind, bits, targets = nodes[number]
            if kind == _SET:
                if bits & bit:
                    behind[targets[0]] = None
            elif kind == _ACCEPT:
                if not starting:
                    return tuple(behind), True
            elif kind == _SPLIT or bits & bit:
                pending.extend(reversed(targets))
        return tuple(behind), False

    def automaton(self) -> SplitAutomaton:
        start = (self._nfa.start,)
        rows: dict[State, int] = {}
        steps: list[list[tuple[int, bool]]] = []  # by state and column: next row or -1, matched

        def row_of(state: State) -> int:
            if not state:
                return -1
            if state not in rows:
                if len(rows) == MOST_STATES:
                    raise NotRegular(f"an automaton of more than {MOST_STATES} states")
                rows[state] = len(rows)
            return rows[state]

        def step(state: State, starting: bool = False) -> list[tuple[int, bool]]:
            behind = [self._step(state, column, starting) for column in range(self._columns - 1)]
            at_end = self._step(state, self._nfa.end, starting)[1]
            return [*((row_of(after), matched) for after, matched in behind), (-1, at_end)]

        first = [row for row, _ in step(start, starting=True)]
        waiting = 0
        while waiting < len(rows):
            states = list(rows)[waiting:]
            waiting = len(rows)
            steps.extend(step(state) for state in states)
        return self._assembled(first, steps)

    def _assembled(self, first: list[int], steps: list[list[tuple[int, bool]]]) -> SplitAutomaton:
        columns, end = self._columns, self._nfa.end
        number = len(steps)
        table = np.array(steps, np.int64).reshape(number, columns, 2)
        behind, matched = table[:, :, 0], table[:, :, 1] > 0
        started = np.array(first, np.int64)
        sure = _sure_to_match(behind, matched)

        # Whether unmatched text precedes matters only where an attempt could fail.
        can_fail = np.append(_may_fail(behind, matched), False)[started]  # -1: no attempt
        behind_gap = automaton.CUT | automaton.AFTER_GAP if can_fail.any() else automaton.CUT
        # A move as one number: row × _FLAGS + flags.
        to_first = (started + _FIRST_ROW) * _FLAGS
        gap_row = _GAP_ROW * _FLAGS
        cut = np.where(
            started >= 0, to_first | automaton.CUT, gap_row | automaton.CUT | automaton.GAP
        )
        moves = np.full((number + _FIRST_ROW, columns), automaton.DEAD, np.int64)
        moves[_CUT_ROW] = cut
        moves[_GAP_ROW] = np.where(started >= 0, to_first | behind_gap, gap_row)
        remembered = np.where(matched & ~sure[behind], automaton.ACCEPT, 0)
        moves[_FIRST_ROW:] = np.where(
            behind >= 0,
            (behind + _FIRST_ROW) * _FLAGS | remembered,
            np.where(matched, cut, automaton.DEAD),
        )
        moves[:_FIRST_ROW, end] = automaton.STOP
        moves[_FIRST_ROW:, end] = np.where(matched[:, end], automaton.STOP, automaton.DEAD)

        # Merge equal columns.
        different, first_of, column_of = np.unique(
            moves, axis=1, return_index=True, return_inverse=True
        )
        column_of = column_of.reshape(-1)
        width = different.shape[1]
        rows, flags = np.divmod(different, _FLAGS)
        return SplitAutomaton(
            class_of_point=column_of.astype(np.uint8)[self._classes.of_point],
            moves=np.stack((rows * (width * automaton.MOVE), flags), axis=-1).astype(
                np.uint32, order="C"
            ),
            columns=width,
            last_line_feed=int(column_of[self._nfa.last_line_feed]),
            end=int(column_of[end]),
            states=number + _FIRST_ROW,
            can_fail=can_fail[first_of],
        )


def _sure_to_match(behind: NDArray[np.int64], matched: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """States from which every text leads to a match; earlier matches can be dropped.

    The largest set of states that match or stay in the set for every class.
    """
    goes_on = behind >= 0
    return _settled(
        np.ones(len(behind), np.bool_),
        lambda sure: (matched | (goes_on & sure[behind])).all(axis=1) & sure,
        behind.size,
    )


def _may_fail(behind: NDArray[np.int64], matched: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """States from which some text leads to no match."""
    unmatched = ~matched & (behind >= 0)
    return _settled(
        np.any(~matched & (behind < 0), axis=1),
        lambda fails: fails | (unmatched & fails[behind]).any(axis=1),
        behind.size,
    )


def _settled(
    states: NDArray[np.bool_], sweep: Callable[[NDArray[np.bool_]], NDArray[np.bool_]], moves: int
) -> NDArray[np.bool_]:
    """Apply ``sweep`` until nothing changes."""
    for _ in range(MOST_SWEEPS // max(moves, 1) + 1):
        before, states = states, sweep(states)
        if (states == before).all():
            return states
    raise NotRegular(_TOO_LONG)


@dataclass(frozen=True, slots=True, eq=False)
class CutPairs:
    """Pairs of characters between which every text can be cut.

    Attributes:
        class_of_point: uint8 ``[0x110000]``.
        legal: uint8 ``[classes, classes]``: whether to cut between the first and the second class.
    """

    class_of_point: NDArray[np.uint8]
    legal: NDArray[np.uint8]

    LOOK = 4  # bytes needed on both sides of a position: the longest character

    def first(self, content: bytes | memoryview, begin: int, end: int) -> int:
        """The first legal cut in [begin, end), or -1.

        ``content`` must hold `LOOK` bytes before ``begin`` and from ``end - 1`` on, fewer at the
        ends of the text.
        """
        raw = np.frombuffer(content, np.uint8)
        return int(find_cut(raw, begin, min(end, raw.size), self.class_of_point, self.legal))


@functools.lru_cache(maxsize=16)
def cut_pairs(pattern: str) -> CutPairs | None:
    """The pairs of a regex that is known to compile; None if none is known."""
    tables = split_automaton(pattern)
    if isinstance(tables, str):
        return None
    legal = _legal(tables)
    return CutPairs(tables.class_of_point, legal) if legal.any() else None


@functools.cache
def behind_lines() -> CutPairs:
    """Cuts after line feeds, but not before a byte order mark."""
    other, line_feed, byte_order_mark = range(3)
    classes = np.full(0x110000, other, np.uint8)
    classes[ord("\n")] = line_feed
    classes[0xFEFF] = byte_order_mark
    legal = np.zeros((3, 3), np.uint8)
    legal[line_feed, [other, line_feed]] = 1
    return CutPairs(classes, legal)


def _legal(tables: SplitAutomaton) -> NDArray[np.uint8]:
    columns, end = tables.columns, tables.end
    flags = tables.moves[:, :, 1]
    rows = tables.moves[:, :, 0] // (columns * automaton.MOVE)
    as_at_start = (tables.moves == tables.moves[_START]).all(axis=2) & (flags & automaton.CUT > 0)
    ends = flags[:, end, None]
    # Attempts that fail both on y and at the end fall back alike.
    decided = (as_at_start & (ends == automaton.STOP)) | (
        (flags == automaton.DEAD) & (ends == automaton.DEAD)
    )
    legal = np.zeros((columns, columns), np.uint8)
    for column in range(columns):
        goes_on = (flags[:, column] & (automaton.DEAD | automaton.STOP)) == 0
        behind = rows[goes_on, column].tolist()
        if tables.can_fail[column]:
            behind.append(_UNMATCHED)
        legal[column] = decided[np.unique(np.array(behind, np.int64))].all(axis=0)
    line_feed = tables.class_of_point[ord("\n")]
    if line_feed != tables.last_line_feed:
        legal[line_feed] = 0  # ``$`` also matches before a final line feed
    legal[:, end] = legal[end] = 0
    return legal
