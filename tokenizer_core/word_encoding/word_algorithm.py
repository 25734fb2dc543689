"""Word algorithms over characters: encode, decode, and build kernel tables.

Alphabets, merges and tries are rows of one table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core import encoding
from bpeline.tokenizer_core.encoding import Decoder, DecodeStream
from bpeline.tokenizer_core.errors import InvalidTokenizer
from bpeline.tokenizer_core.kernels.encoding import superword_merges, token_tables
from bpeline.tokenizer_core.kernels.encoding.encode_word import WAITING_SCRATCH
from bpeline.tokenizer_core.kernels.tables.hashing import HASH_KEY
from bpeline.tokenizer_core.kernels.tables.pair_tables import NO_MERGE, fill_merges
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.tokenizer_spec import TokenizerSpec
from bpeline.tokenizer_core.vocabulary import shown

RETRAIN = "train again, or load the files the vocab came from with Tokenizer.load(PATH)"
_LINE_BREAKS = re.compile(rb" ?\n+")
_GAPS = b" \n"  # separators of words; stripped at both ends of a text

Merge = tuple[str, str]
Row = tuple[int, int, int, int]  # left, right, rank, result
LEFTMOST, EVERYWHERE = 0, 1  # where a merge is applied before ranks are compared again


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """The tokens of words."""

    ids: NDArray[np.uint32]  # uint32: tokens of all words, in order
    ends: NDArray[np.uint32]  # uint32: end of each piece in its word, in bytes
    edges: NDArray[np.int64]  # int64 ``[n + 1]``: word i has the pieces ``edges[i]:edges[i + 1]``


@dataclass(frozen=True, slots=True, eq=False)
class WordAlgorithm:
    """Encodes words independently of each other by a kernel."""

    # Arguments: text, places, lengths, ``known``, scratch memory if any, and the arrays of `Pieces`
    kernel: Callable[..., None]
    known: tuple[Any, ...]  # tables of the kernel
    scratch: int = 0  # bytes of scratch memory per symbol of the longest word
    more: int = 0  # maximum pieces of a word beyond its bytes plus one

    def pieces_of(
        self, text: Text, places: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> Pieces:
        """Encode words with these begins and lengths (bytes, at least 1): int64 ``[n]``."""
        room = int(lengths.sum()) + (1 + self.more) * len(lengths)
        ids, ends = np.empty(room, np.uint32), np.empty(room, np.uint32)
        edges = np.empty(len(lengths) + 1, np.int64)
        scratch = []
        if self.scratch:
            symbols = int(lengths.max(initial=0)) + 2  # maximum over all kernels
            scratch.append(np.empty(self.scratch * symbols // 8 + 1, np.uint64))
        self.kernel(text.data, places, lengths, *self.known, *scratch, ids, ends, edges)
        return Pieces(ids[: edges[-1]], ends[: edges[-1]], edges)


def by_rank(
    ids: Mapping[str, int],
    merges: Sequence[Merge],
    unknown: int,
    end_of_word: str,
    joined: bool = False,
) -> WordAlgorithm:
    """Merge the pair of lowest rank everywhere; ``joined``: see `CharacterBpe`."""
    rows = [
        (ids[left], ids[right], rank, ids[left + right])
        for rank, (left, right) in enumerate(merges)
    ]
    alphabet = alphabet_rows(ids, end_of_word, joined)
    marking = superword_merges.JOINED if joined else superword_merges.OWN_SYMBOL
    return merged_rows(alphabet + rows, marking, EVERYWHERE, unknown)


def merged_rows(rows: list[Row], marking: int, places: int, unknown: int) -> WordAlgorithm:
    """Build merges over characters from rows of an alphabet and of merges.

    Args:
        marking: how the end of a word is marked, see `merge_characters`.
        places: `LEFTMOST` or `EVERYWHERE`.
        unknown: id of characters that are not tokens.
    """
    known = marking, places, *symbol_table(rows), unknown
    return WordAlgorithm(superword_merges.merge_characters, known, WAITING_SCRATCH)


def symbol_table(rows: list[Row]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the table of rows and its hash key; the first duplicate counts."""
    slots = np.full(2 << max(4, (2 * len(rows)).bit_length()), NO_MERGE, np.uint64)
    left, right, ranks, results = np.array(rows, np.int64).reshape(-1, 4).T.copy()
    fill_merges(left, right, ranks, results, slots, HASH_KEY)
    return slots, HASH_KEY


def spellings_of(token: str, end_of_word: str) -> list[list[int]]:
    """Return `characters_of`, and the plain characters if the mark is one character."""
    spelled = [characters_of(token, end_of_word)]
    if len(end_of_word) == 1 and token.endswith(end_of_word):
        spelled.append(list(map(ord, token)))
    return spelled


def characters_of(token: str, end_of_word: str) -> list[int]:
    """Return the characters of a token as numbers; an end-of-word mark is one number."""
    if end_of_word and token.endswith(end_of_word):
        return [*map(ord, token.removesuffix(end_of_word)), token_tables.END]
    return list(map(ord, token))


def alphabet_rows(ids: Mapping[str, int], end_of_word: str, joined: bool) -> list[Row]:
    """Return rows from characters (``joined``: also final ones) to tokens."""
    rows = []
    for token, id_ in ids.items():
        characters = characters_of(token, end_of_word)
        if token == end_of_word and len(token) == 1:
            rows.append((token_tables.INSIDE, ord(token), 0, id_))
        if len(characters) == 1:
            rows.append((token_tables.INSIDE, characters[0], 0, id_))
        elif joined and len(characters) == 2 and characters[1] == token_tables.END:
            rows.append((token_tables.LAST, characters[0], 0, id_))
    return rows


def trie_rows(tokens: Iterable[tuple[list[int], bool, int]]) -> list[Row]:
    """Build a trie from (characters, continues a word, rank) of each token."""
    children: dict[tuple[int, int], int] = {}
    ranks: dict[tuple[int, int], int] = {}
    nodes = token_tables.INNER_ROOT + 1
    for characters, goes_on, rank in tokens:
        node = token_tables.INNER_ROOT if goes_on else token_tables.ROOT
        step = (node, 0)
        for character in characters:
            step = (node, character)
            node = children.get(step, 0)
            if not node:
                node = children[step] = nodes
                nodes += 1
        ranks[step] = rank
    return [
        (node, character, ranks.get((node, character), token_tables.NO_TOKEN), child)
        for (node, character), child in children.items()
    ]


@dataclass(frozen=True, slots=True)
class SpelledTokens:
    """Tokens and merges of a spec as text, for the tables of an algorithm."""

    ids: dict[str, int]  # token → id, without marks
    merges: list[tuple[str, str]]  # by rank
    marks: dict[str, int]  # attribute of the algorithm → id of the token that it names
    whole: frozenset[int]  # ids of special tokens and marks, which are whole words
    gap: bytes  # separator of words: a space, or empty where words include their spaces


def spelled_tokens(spec: TokenizerSpec, marks: Sequence[str] = ("unknown",)) -> SpelledTokens:
    """Return a spec as text, with the ids of the tokens in ``marks``."""
    mark_ids = {name: _id_of_mark(spec, name) for name in marks}
    hidden = set(mark_ids.values())
    ids = {_text(token): id_ for token, id_ in spec.ids.items() if id_ not in hidden}
    merges = [(left.decode(), right.decode()) for left, right in spec.merges]
    whole = frozenset([*spec.special_tokens.values(), *hidden])
    return SpelledTokens(ids, merges, mark_ids, whole, b" " if spec.pattern.drops_gaps else b"")


def _id_of_mark(spec: TokenizerSpec, name: str) -> int:
    mark = getattr(spec.algorithm, name)
    id_ = spec.special_tokens.get(mark, spec.ids.get(mark.encode()))
    if id_ is None:
        raise InvalidTokenizer(
            f"the vocab lacks {shown(mark)}, the {name} token of {spec.algorithm.name}",
            "expected a token for each mark of the algorithm",
            f"add it to the vocab, or choose another one: {name}=...",
        )
    return id_


def _text(token: bytes) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise InvalidTokenizer(
            f"the token {shown(token)} is not UTF-8",
            "expected tokens of whole characters",
            RETRAIN,
        ) from None


class WordDecoder(Decoder):
    """Joins the texts of tokens.

    Args:
        shown: id → text; b"" for marks that are not shown.
        spaced: whether words include a separating space, which is stripped at both ends.
    """

    def __init__(self, shown: Mapping[int, bytes], spaced: bool) -> None:
        super().__init__(shown)
        self.spaced = spaced
        self._silent = frozenset(id_ for id_, content in shown.items() if not content)

    def text(self, ids: Iterable[int] | NDArray[Any], errors: encoding.OnInvalid) -> str:
        encoding.check_errors(errors)
        return str(self._joined(ids), "utf-8", errors)

    def _joined(self, ids: Iterable[int] | NDArray[Any]) -> bytes:
        content = self.decode_raw(ids)
        return _one_gap(content.strip(_GAPS)) if self.spaced else content

    def decode_raw(self, ids: Iterable[int] | NDArray[Any]) -> bytes:
        """Like `decode`, without stripping spaces at both ends."""
        if self._silent:
            if isinstance(ids, np.ndarray):
                encoding.refuse_other_arrays(ids)
            if isinstance(ids, np.ndarray) and ids.dtype.kind in "iu":
                ids = ids[~np.isin(ids, list(self._silent))]
            else:
                ids = [id_ for id_ in self.known(encoding.list_of(ids)) if id_ not in self._silent]
        return bytes(super()._joined(ids))

    def stream(self, errors: encoding.OnInvalid = "replace") -> DecodeStream:
        return WordStream(self, errors) if self.spaced else super().stream(errors)


class WordStream(DecodeStream):
    """Decodes ids one at a time; spaces are held back until the next word."""

    def __init__(self, decoder: WordDecoder, errors: encoding.OnInvalid = "replace") -> None:
        super().__init__(decoder, errors)
        self._raw = decoder
        self._held = b""
        self._begun = False

    def feed(self, id_: int) -> str:
        content = self._held + self._raw.decode_raw([id_])
        whole = content.rstrip(_GAPS)
        self._held = content[len(whole) :]
        if not self._begun:
            whole = whole.lstrip(_GAPS)
        self._begun = self._begun or bool(whole)
        return self._characters.decode(_one_gap(whole))

    def flush(self) -> str:
        self._held, self._begun = b"", False
        return super().flush()


def _one_gap(content: bytes) -> bytes:
    """Replace each line break, with the marks and the space around it, by one."""
    return _LINE_BREAKS.sub(b"\n", content) if b"\n" in content else content


def without_ends(
    vocab: Mapping[int, bytes], end_of_word: str, tokens: SpelledTokens, joined: bool = False
) -> dict[int, bytes]:
    """Return the text of each token, where some tokens end in the end-of-word mark.

    With ``joined``, the mark is part of final characters, so the mark alone is text.
    """
    end = end_of_word.encode()
    return {
        id_: token[: -len(end)] + tokens.gap
        if token.endswith(end) and id_ not in tokens.whole and not (joined and token == end)
        else token
        for id_, token in vocab.items()
    }
