"""Word counts: distinct words with counts and first positions; as Arrow tables."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.digests import canonical_json, digest_of_bytes
from bpeline.tokenizer_core.errors import InvalidOption, OutOfRange, WrongKind, wrap_errors
from bpeline.tokenizer_core.text import utf8_of

if TYPE_CHECKING:
    from bpeline.tokenizer_core.splitting import SplitPattern

COUNT_LIMIT = 2**63 - 1  # counts are int64
_ROWS_AT_A_TIME = 1 << 16

WORD, COUNT, POSITION = "word", "count", "first_position"
PATTERN = b"bpeline.pattern"  # key in the metadata of a schema


def _parsed(pattern: SplitPattern | str | None = None) -> SplitPattern:
    from bpeline.tokenizer_core.splitting import SplitPattern

    return SplitPattern.parse("gpt2" if pattern is None else pattern)


def _word_of(word: object) -> bytes:
    if isinstance(word, bytes):
        return word
    if not isinstance(word, str):
        raise WrongKind(
            f"{word!r:.80} is not a word", "expected text or its UTF-8", 'write ("low", 5)'
        )
    return utf8_of(word)


def _is_whole(count: object) -> bool:
    return isinstance(count, int | np.integer) and not isinstance(count, bool)


_FEWEST_FOR_DIGITS = 1 << 12  # positions; for fewer, NumPy is fast enough

_SEARCHED = 1 << 17  # bytes searched at a time, so that the copy stays in the cache

_BLOCK = 1 << 22  # bytes gathered at a time, so that the index array has at most 32 MiB


@dataclass(frozen=True, slots=True, eq=False)
class WordCounts:
    """Distinct words with int64 counts, in any order of rows.

    Attributes:
        word_bytes: uint8, all words one after the other.
        offsets: int64 ``[n + 1]``; word ``i`` is ``word_bytes[offsets[i]:offsets[i + 1]]``.
        counts: int64 ``[n]``.
        first_positions: int64 ``[n]``, distinct; a smaller one occurred earlier in the corpus.
            Counted files give byte positions in the corpus, `from_mapping` gives 0, 1, 2, …
        pattern: the split pattern that made the words.
    """

    word_bytes: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    counts: NDArray[np.int64]
    first_positions: NDArray[np.int64]
    pattern: SplitPattern = field(default_factory=_parsed)

    def __post_init__(self) -> None:
        for name in ("word_bytes", "offsets", "counts", "first_positions"):
            checks.instance(name, getattr(self, name), np.ndarray)
        checks.instance("pattern", self.pattern, "SplitPattern")
        rows = len(self.counts)
        if (len(self.offsets), len(self.first_positions)) != (rows + 1, rows):
            raise InvalidOption(
                f"{rows} counts, {len(self.offsets)} offsets and {len(self.first_positions)} first "
                "positions do not match",
                "expected a count and a position for each word, and one offset more",
                "use WordCounts.from_pairs or WordCounts.from_mapping",
            )

    @classmethod
    def from_mapping(
        cls, words: Mapping[bytes, int], pattern: SplitPattern | str | None = None
    ) -> WordCounts:
        """Create word counts from ``{word: count}``, in the order of the mapping.

        Raises:
            InvalidOption: an empty word, or a count that is not in 1 … 2⁶³ − 1.
        """
        if not isinstance(words, Mapping):
            raise WrongKind(
                f"words are {words!r:.80}",
                "expected a mapping from bytes to whole numbers",
                'write {b"low": 5}, or use WordCounts.from_pairs',
            )
        for word, count in words.items():
            if not isinstance(word, bytes) or not word:
                raise InvalidOption(
                    f"{word!r} is not a word",
                    "expected non-empty bytes",
                    'encode text first: {"low".encode(): 5}',
                )
            if (type(count) is not int and not _is_whole(count)) or not 0 < count <= COUNT_LIMIT:
                raise InvalidOption(
                    f"the word {word[:40]!r} has the count {count!r}",
                    f"expected a whole number from 1 to {COUNT_LIMIT}",
                    "leave out words that do not occur",
                )
        number = len(words)
        offsets = np.zeros(number + 1, np.int64)
        np.cumsum(np.fromiter(map(len, words), np.int64, number), out=offsets[1:])
        return cls(
            np.frombuffer(bytearray(b"".join(words)), np.uint8),
            offsets,
            np.fromiter(words.values(), np.int64, number),
            np.arange(number, dtype=np.int64),
            _parsed(pattern),
        )

    @classmethod
    def from_pairs(
        cls,
        pairs: Iterable[tuple[str | bytes, int]],
        pattern: SplitPattern | str | None = None,
    ) -> WordCounts:
        """Create word counts from (word, count) pairs; equal words are added up.

        Words are text or UTF-8, in order of first occurrence. The pattern is ``gpt2`` by default.

        Raises:
            InvalidOption: as for `from_mapping`, and for sums beyond 2⁶³ − 1.
        """
        checks.iterable("pairs", pairs, "pairs")
        words: dict[bytes, int] = {}
        for pair in pairs:
            try:
                word, count = pair
            except (TypeError, ValueError):
                raise WrongKind(
                    f"{pair!r} is not a word and its count",
                    "expected pairs of a word, as text or UTF-8, and a whole number",
                    'write [("low", 5)], or list(counts.items()) of a mapping',
                ) from None
            key = word if type(word) is bytes else _word_of(word)
            if (type(count) is not int and not _is_whole(count)) or count < 1:
                raise InvalidOption(
                    f"the word {word[:40]!r} has the count {count!r}",
                    f"expected a whole number from 1 to {COUNT_LIMIT}",
                    "leave out words that do not occur",
                )
            words[key] = words.get(key, 0) + int(count)
        return cls.from_mapping(words, pattern)

    @classmethod
    def from_arrow(cls, data: Any, pattern: SplitPattern | str | None = None) -> WordCounts:
        """Create word counts from Arrow data; equal words are added up.

        Args:
            data: any object that exports an Arrow stream: tables of pyarrow, polars, DuckDB,
                pandas. It has columns ``word`` (strings or binary) and ``count``, and may have
                ``first_position``, which otherwise is the row number.
            pattern: the split pattern that made the words; by default the one in the schema's
                metadata (see `to_arrow`), or else ``gpt2``.

        Raises:
            InvalidOption: no such columns, null, a count that is not in 1 … 2⁶³ − 1.
            InvalidPattern: the pattern cannot be used.
            LibraryFailed: pyarrow cannot read the data.
        """
        batches, named = columns_of(data)
        parsed = _parsed(named if pattern is None else pattern)
        parts = [cls(*columns, parsed) for columns in batches]
        if not parts:
            return cls.empty(parsed)
        counts = concatenated(parts)
        # Other programs may write several rows for a word, as partial sums.
        words = counts.words()
        if len(set(words)) == len(words):
            return counts
        return cls.from_pairs(
            counts.take(order_of_positions(counts.first_positions)).items(), parsed
        )

    def to_arrow(self) -> Any:
        """Return a `pyarrow.Table` of ``word``, ``count`` and ``first_position``.

        Words are large_binary, the others int64; all share memory with these arrays. The schema's
        metadata names the split pattern.
        """
        columns = Columns(self.word_bytes, self.offsets, self.counts, self.first_positions)
        return arrow_of(columns, self.pattern.name or self.pattern.regex)

    @classmethod
    def empty(cls, pattern: SplitPattern | str | None = None) -> WordCounts:
        """Create counts without a single word."""
        return cls.from_mapping({}, pattern)

    def __len__(self) -> int:
        return len(self.counts)

    def __repr__(self) -> str:
        return f"<WordCounts: {len(self)} words, {self.total} occurrences>"

    def words(self) -> list[bytes]:
        """Return the words in the order of the rows."""
        content = self.word_bytes.tobytes()
        ends = self.offsets.tolist()
        return [content[a:b] for a, b in itertools.pairwise(ends)]

    def items(self) -> Iterator[tuple[bytes, int]]:
        """Return (word, count) in the order of the rows."""
        return zip(self.words(), self.counts.tolist(), strict=True)

    def words_with(self, texts: Sequence[str]) -> list[bytes | None]:
        """Return for each text the first word that contains it, or None."""
        texts = checks.texts("texts", texts)
        sought = [text.encode() for text in texts]
        matches: list[bytes | None] = [None] * len(sought)
        more = max(map(len, sought), default=1) - 1
        for begin in range(0, len(self.word_bytes), _SEARCHED):
            content = self.word_bytes[begin : begin + _SEARCHED + more].tobytes()
            for number, text in enumerate(sought):
                at = content.find(text) if matches[number] is None else -1
                while at >= 0 and matches[number] is None:
                    row = int(np.searchsorted(self.offsets, begin + at, side="right")) - 1
                    first, last = self.offsets[row : row + 2].tolist()
                    if begin + at + len(text) <= last:
                        matches[number] = self.word_bytes[first:last].tobytes()
                    at = content.find(text, at + 1)
        return matches

    def to_mapping(self) -> dict[bytes, int]:
        """Return ``{word: count}`` in the order of the rows."""
        return dict(self.items())

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Bytes of each word, int64 ``[n]``."""
        return np.diff(self.offsets)

    @property
    def total(self) -> int:
        """Occurrences of all words together; exact beyond 2⁶³."""
        if int(self.counts.max(initial=0)) * len(self) <= COUNT_LIMIT:
            return int(self.counts.sum())
        return sum(self.counts.tolist())

    @property
    def total_bytes(self) -> int:
        """Bytes of all occurrences, Σ count · length; exact beyond 2⁶³."""
        total = 0
        for begin in range(0, len(self), _ROWS_AT_A_TIME):
            counts = self.counts[begin : begin + _ROWS_AT_A_TIME]
            lengths = np.diff(self.offsets[begin : begin + _ROWS_AT_A_TIME + 1])
            if int(counts.max()) * int(lengths.max()) * len(counts) <= COUNT_LIMIT:
                total += int(np.dot(counts, lengths))
            else:
                total += sum(map(int.__mul__, counts.tolist(), lengths.tolist()))
        return total

    def take(self, order: NDArray[np.int64]) -> WordCounts:
        """Return the rows ``order`` (int64 indices), in that order, or raise `OutOfRange`."""
        checks.instance("order", order, np.ndarray)
        whole = order.ndim == 1 and (order.dtype.kind in "iu" or not order.size)
        if not whole or (order.size and not 0 <= order.min() <= order.max() < len(self)):
            raise OutOfRange(
                f"rows {order!r} were requested, of {len(self)}",
                "expected an array of row numbers, which begin with 0",
                "for a mask, use np.flatnonzero(mask)",
            )
        word_bytes, offsets = gather_words(self.word_bytes, self.offsets, order)
        return WordCounts(
            word_bytes, offsets, self.counts[order], self.first_positions[order], self.pattern
        )

    def between(self, begin: int, end: int) -> WordCounts:
        """Return the rows from ``begin`` to before ``end``, as views."""
        begin = checks.whole_number("begin", begin)
        end = checks.whole_number("end", end)
        if not 0 <= begin <= min(end, len(self)):
            raise OutOfRange(
                f"rows {begin} to {end} were requested, of {len(self)}",
                "expected the number of a row, and that of a later one",
                f"for all rows, use counts.between(0, {len(self)})",
            )
        offsets = self.offsets[begin : min(end, len(self)) + 1]
        return WordCounts(
            self.word_bytes[offsets[0] : offsets[-1]],
            offsets - offsets[0],
            self.counts[begin:end],
            self.first_positions[begin:end],
            self.pattern,
        )

    def sorted(self) -> WordCounts:
        """Return the counts with rows sorted by the bytes of the words."""
        order = sorted(range(len(self)), key=self.words().__getitem__)
        return self.take(np.array(order, np.int64))

    def in_order_of_sight(self) -> WordCounts:
        """Return the counts with rows sorted by first position."""
        if np.all(self.first_positions[1:] > self.first_positions[:-1]):
            return self
        return self.take(order_of_positions(self.first_positions))

    def at_least(self, min_word_count: int) -> WordCounts:
        """Return the rows whose count is ``min_word_count`` or more."""
        min_word_count = checks.whole_number("min_word_count", min_word_count)
        if not len(self) or int(self.counts.min()) >= min_word_count:
            return self
        return self.take(np.flatnonzero(self.counts >= min_word_count).astype(np.int64))

    def shifted(self, distance: int) -> WordCounts:
        """Return the counts with ``distance`` added to first positions, without a copy."""
        distance = checks.whole_number("distance", distance)
        return replace(self, first_positions=self.first_positions + np.int64(distance))

    @property
    def digest(self) -> str:
        """SHA-256 of what training can see: words, counts, order of occurrence, pattern.

        Independent of the order of rows and the scale of positions, and so of how a corpus was cut.
        """
        rows = self.in_order_of_sight()
        if np.any(rows.first_positions[1:] == rows.first_positions[:-1]):
            rows = self.sorted().in_order_of_sight()  # not from a text: words decide
        head = canonical_json({"words": len(self), "pattern": self.pattern.digest, "format": 2})
        return digest_of_bytes(
            head,
            np.ascontiguousarray(rows.word_bytes),
            np.ascontiguousarray(rows.offsets, "<i8"),
            np.ascontiguousarray(rows.counts, "<i8"),
        )


def concatenated(parts: Sequence[WordCounts]) -> WordCounts:
    """Concatenate the rows of parts (at least one, of one pattern) without adding up."""
    if len(parts) == 1:
        return parts[0]
    ends = np.cumsum([len(part.word_bytes) for part in parts])
    shifts = ends - [len(part.word_bytes) for part in parts]
    zero = np.zeros(1, np.int64)
    return WordCounts(
        np.concatenate([part.word_bytes for part in parts]),
        np.concatenate(
            [zero, *(part.offsets[1:] + at for part, at in zip(parts, shifts, strict=True))]
        ),
        np.concatenate([part.counts for part in parts]),
        np.concatenate([part.first_positions for part in parts]),
        parts[0].pattern,
    )


def order_of_positions(positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a stable argsort of int64 ``[n]``.

    A radix sort if a position and a row number fit 64 bits together: several times faster than
    NumPy's sorts of random numbers.
    """
    number = len(positions)
    bits = number.bit_length()
    if (
        number < _FEWEST_FOR_DIGITS
        or int(positions.min()) < 0
        or (length := int(positions.max()).bit_length()) + bits > 63
    ):
        return np.argsort(positions, kind="stable").astype(np.int64)
    from bpeline.tokenizer_core.kernels.memory.pages import in_pages

    keys = in_pages(number, np.int64)
    np.left_shift(positions, np.int64(bits), out=keys)
    for begin in range(0, number, _ROWS_AT_A_TIME):
        end = min(begin + _ROWS_AT_A_TIME, number)
        keys[begin:end] |= np.arange(begin, end, dtype=np.int64)
    keys = sorted_keys(keys, bits, length, in_pages(number, np.int64))
    keys &= np.int64((1 << bits) - 1)
    return keys


def sorted_keys(
    keys: NDArray[np.int64], begin: int, bits: int, other: NDArray[np.int64], least: int = 0
) -> NDArray[np.int64]:
    """Sort numbers by ``bits`` bits of their excess over ``least``, from ``begin`` on.

    Overwrites ``keys`` and ``other``, which are equally long, and returns one of them.
    """
    from bpeline.tokenizer_core.kernels.counting.word_rows import DIGIT_BITS, sort_by_digit

    passes = -(-bits // DIGIT_BITS)
    digit = -(-bits // max(passes, 1))  # fewer places stay closer together
    places = np.empty(1 << digit, np.int64)
    for shift in range(begin, begin + passes * digit, max(digit, 1)):
        sort_by_digit(keys, other, least, shift, places)
        keys, other = other, keys
    return keys


def gather_words(
    word_bytes: NDArray[np.uint8], offsets: NDArray[np.int64], order: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Copy the words ``order`` to a new byte array; also return its offsets."""
    begins = offsets[order]
    lengths = offsets[order + 1] - begins
    gathered_offsets = np.zeros(len(order) + 1, np.int64)
    np.cumsum(lengths, out=gathered_offsets[1:])
    gathered = np.empty(int(gathered_offsets[-1]), np.uint8)
    row = 0
    while row < len(order):
        begin = gathered_offsets[row]
        stop = int(np.searchsorted(gathered_offsets, begin + _BLOCK, side="right")) - 1
        if stop <= row:  # one word longer than a block
            gathered[begin : begin + lengths[row]] = word_bytes[
                begins[row] : begins[row] + lengths[row]
            ]
            row += 1
            continue
        size = gathered_offsets[stop] - begin
        sources = np.arange(size, dtype=np.int64)
        sources += np.repeat(
            begins[row:stop] - (gathered_offsets[row:stop] - begin), lengths[row:stop]
        )
        np.take(word_bytes, sources, out=gathered[begin : begin + size])
        row = stop
    return gathered, gathered_offsets


class Columns(NamedTuple):
    """Rows in the arrays of `WordCounts`; words may be repeated."""

    word_bytes: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    counts: NDArray[np.int64]
    first_positions: NDArray[np.int64]


def arrow_of(columns: Columns, pattern: str) -> Any:
    """Return a `pyarrow.Table` over the arrays."""
    import pyarrow

    rows = len(columns.counts)
    buffers = [None, pyarrow.py_buffer(columns.offsets), pyarrow.py_buffer(columns.word_bytes)]
    words = pyarrow.Array.from_buffers(pyarrow.large_binary(), rows, buffers)
    numbers = [
        pyarrow.Array.from_buffers(
            pyarrow.int64(), rows, [None, pyarrow.py_buffer(np.ascontiguousarray(column))]
        )
        for column in (columns.counts, columns.first_positions)
    ]
    batch = pyarrow.RecordBatch.from_arrays([words, *numbers], names=[WORD, COUNT, POSITION])
    return pyarrow.Table.from_batches([batch]).replace_schema_metadata({PATTERN: pattern.encode()})


def columns_of(data: Any) -> tuple[list[Columns], str | None]:
    """Read the batches of an Arrow stream and the split pattern in its schema."""
    import pyarrow

    with wrap_errors("pyarrow", "reading Arrow data"):
        if not hasattr(data, "__arrow_c_stream__") and not hasattr(data, "__arrow_c_array__"):
            raise InvalidOption(
                f"{type(data).__name__} exports no Arrow data",
                "expected a table of pyarrow, polars, DuckDB (`relation.arrow()`) or pandas 3",
                "convert it to a pyarrow.Table first, or use WordCounts.from_pairs",
            )
        if isinstance(data, pyarrow.RecordBatch):
            return [_columns_of_batch(data, 0)], _pattern_of_schema(data.schema)
        batches, rows = [], 0
        reader = pyarrow.RecordBatchReader.from_stream(data)
        for batch in reader:
            batches.append(_columns_of_batch(batch, rows))
            rows += batch.num_rows
        return batches, _pattern_of_schema(reader.schema)


def _pattern_of_schema(schema: Any) -> str | None:
    named = (schema.metadata or {}).get(PATTERN)
    return None if named is None else str(named, "utf-8", "replace")


def _columns_of_batch(batch: Any, rows: int) -> Columns:
    import pyarrow

    missing = [name for name in (WORD, COUNT) if name not in batch.schema.names]
    if missing:
        raise InvalidOption(
            f"there is no column {missing[0]!r}, but {', '.join(batch.schema.names)}",
            "expected columns word (string or binary) and count (whole numbers)",
            "rename them, for example SELECT token AS word, n AS count",
        )
    named = {name: batch.column(name) for name in (WORD, COUNT)}
    named[POSITION] = batch.column(POSITION) if POSITION in batch.schema.names else None
    for name, column in named.items():
        if column is not None and column.null_count:
            raise InvalidOption(
                f"the column {name!r} has {column.null_count} nulls",
                "expected a word and a count in each row",
                "leave out these rows",
            )
    if not pyarrow.types.is_integer(named[COUNT].type):
        raise InvalidOption(
            f"counts are {named[COUNT].type}",
            "expected whole numbers",
            "CAST(count AS BIGINT)",
        )
    words = named[WORD].cast(pyarrow.large_binary())
    _, offsets, content = words.buffers()
    ends = np.frombuffer(offsets, np.int64)[words.offset : words.offset + len(words) + 1]
    counts = np.asarray(named[COUNT].cast(pyarrow.int64()).to_numpy(zero_copy_only=False))
    if len(counts) and (int(counts.min()) < 1 or bool(np.any(ends[1:] == ends[:-1]))):
        raise InvalidOption(
            "a word is empty, or a count is below 1",
            "expected non-empty words, and counts from 1 to 2⁶³ − 1",
            "leave out these rows: WHERE count > 0 AND word != ''",
        )
    positions = (
        np.arange(rows, rows + len(counts))
        if named[POSITION] is None
        else named[POSITION].cast(pyarrow.int64()).to_numpy(zero_copy_only=False)
    )
    values = np.frombuffer(content, np.uint8) if content is not None else np.empty(0, np.uint8)
    begin = int(ends[0]) if len(ends) else 0
    return Columns(
        np.array(values[begin : int(ends[-1])]),
        np.array(ends - begin, np.int64),
        np.array(counts, np.int64),
        np.array(positions, np.int64),
    )
