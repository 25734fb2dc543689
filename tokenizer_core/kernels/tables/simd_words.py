"""The keys and hashes of eight words at a time, by AVX-512; knows no table of words.

For one word they take some thirty instructions. Here the words that begin in 64 bytes of text are
found, cut out, filled up with zeros and hashed side by side, in seven instructions a word.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from bpeline.tokenizer_core.kernels.memory.addresses import (
    BLOCK,
    NO_RESULT,
    filled,
    load_block,
    pointer,
)
from bpeline.tokenizer_core.kernels.memory.simd import HAS_SIMD, by_name, looked_up
from bpeline.tokenizer_core.kernels.tables.hashing import mix
from bpeline.tokenizer_core.kernels.tables.word_keys import INLINE

LANES = 8  # words
PLACES = 2 * BLOCK  # bytes: where each word of a block begins in it, then how long each is

_LONGEST_TOLD = 255  # bytes; the last word of a block may be longer
_KEY = 16  # bytes of a key: low and high
_ROUNDS = 2  # of AES; after them each bit depends on all bits of a key
_EVENS = [0, 8, 2, 10, 4, 12, 6, 14]  # of two vectors of numbers, in turn: the low halves of keys

_I8, _I32, _I64 = map(ir.IntType, (8, 32, 64))
_BYTES = ir.VectorType(_I8, BLOCK)
_BITS = ir.VectorType(ir.IntType(1), BLOCK)
_NUMBERS = ir.VectorType(_I64, LANES)
_PAIR = ir.VectorType(_I64, 2)
_EIGHT_BYTES = ir.VectorType(_I8, LANES)


def _shuffled(builder: Any, vectors: list[Any], places: list[int]) -> Any:
    """What stands at some places of one vector, or of two behind each other."""
    mask = ir.Constant(ir.VectorType(_I32, len(places)), places)
    return builder.shuffle_vector(vectors[0], vectors[-1], mask)


def _in_turn(builder: Any, vector: ir.VectorType, *values: Any) -> Any:
    """A vector of these values, again and again."""
    whole = ir.Constant(vector, ir.Undefined)
    for place, value in enumerate(values):
        whole = builder.insert_element(whole, value, ir.Constant(_I32, place))
    repeated = [place % len(values) for place in range(vector.count)]
    return _shuffled(builder, [whole], repeated)


def _hashed(builder: Any, keys: Any, hash_key: Any) -> Any:
    """The hash of each key in a vector of keys, as its lower half."""
    name = {2: "llvm.x86.aesni.aesenc", LANES: "llvm.x86.aesni.aesenc.512"}[keys.type.count]
    keys = builder.xor(keys, hash_key)
    for _ in range(_ROUNDS):
        keys = by_name(builder, name, keys.type, keys, hash_key)
    return keys


@intrinsic
def _mix_by_aes(_context: Any, low: Any, high: Any, hash_key: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        parts = (builder.extract_value(arguments[2], place) for place in range(2))
        key = _in_turn(builder, _PAIR, *arguments[:2])
        hashed = _hashed(builder, key, _in_turn(builder, _PAIR, *parts))
        return builder.extract_element(hashed, ir.Constant(_I32, 0))

    return types.uint64(types.uint64, types.uint64, hash_key), generate


# ``queue_hash(low, high, key)``: the hash that `queue_eight` goes by, of one key; see `mix`, which
# it is where there is no such SIMD.
queue_hash = _mix_by_aes if HAS_SIMD else mix


@intrinsic
def find_words(_context: Any, starts: Any, stop: Any, places: Any) -> Any:
    """``find_words(starts, stop, places)``: the words that begin in 64 bytes of text.

    Args:
        starts: uint64, where they begin, at least one.
        stop: int64, where the last one ends, counted from the first byte of the block.
        places: int64, address of `PLACES` bytes that receive where they begin and how long they
            are, as far as a byte tells.

    Returns:
        uint64: the numbers of words of more than `INLINE` bytes, and perhaps of some behind the
        last word, as bits.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        starts, stop, places = arguments
        counted = ir.Constant(_BYTES, list(range(BLOCK)))

        def places_of(bits: Any, behind: Any) -> Any:
            name = "llvm.x86.avx512.mask.compress.v64i8"
            return by_name(builder, name, _BYTES, counted, behind, builder.bitcast(bits, _BITS))

        most = ir.Constant(_I64, _LONGEST_TOLD)
        told = builder.select(builder.icmp_unsigned("<", stop, most), stop, most)
        ends = _in_turn(builder, _BYTES, builder.trunc(told, _I8))
        others = builder.and_(starts, builder.sub(starts, ir.Constant(_I64, 1)))
        begins = places_of(starts, filled(0))
        lengths = builder.sub(places_of(others, ends), begins)
        for vector in (begins, lengths):
            builder.store(vector, pointer(builder, places, _BYTES), align=1)
            places = builder.add(places, ir.Constant(_I64, BLOCK))
        return builder.bitcast(builder.icmp_unsigned(">", lengths, filled(INLINE)), _I64)

    return types.uint64(types.uint64, types.int64, types.int64), generate


@intrinsic
def queue_eight(
    _context: Any,
    block: Any,
    places: Any,
    columns: Any,
    column: Any,
    table: Any,
    slots: Any,
    hash_key: Any,
) -> Any:
    """``queue_eight(block, places, columns, column, table, slots, hash_key)``: of eight words.

    What is written of a word of more than `INLINE` bytes, and of none at all, is of no use. Its
    entry is the first of the table: another would be loaded from memory for nothing.

    Args:
        block: int64, address of 64 bytes of text, and 64 more.
        places: int64, address of the first word's place, as of `find_words`.
        columns: int64, address of the first of four columns of numbers, which receive eight each:
            addresses of words, low and high of their keys, addresses of entries.
        column: int64, bytes from one column to the next.
        table: int64, address of a table. slots: uint64, those bits of a hash that say behind how
            many bytes of the table an entry is.
        hash_key: a `HashKey`.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        block, places, columns, column, table, slots, hash_key = arguments
        behind = builder.add(block, ir.Constant(_I64, BLOCK))
        text = load_block(builder, block), load_block(builder, behind)
        lengths_at = builder.add(places, ir.Constant(_I64, BLOCK))
        begins, lengths = (
            builder.load(pointer(builder, at, _EIGHT_BYTES), align=1, typ=_EIGHT_BYTES)
            for at in (places, lengths_at)
        )
        within = ir.Constant(_BYTES, [place % _KEY for place in range(BLOCK)])
        top = ir.Constant(_BYTES, [255 * (place % _KEY == INLINE) for place in range(BLOCK)])
        key = _in_turn(
            builder, _NUMBERS, *(builder.extract_value(hash_key, place) for place in range(2))
        )
        keys, hashes = [], []
        for first in range(2):  # the even ones, then the odd ones
            words = [2 * (place // _KEY) + first for place in range(BLOCK)]
            of_key = _shuffled(builder, [lengths], words)
            at = builder.add(_shuffled(builder, [begins], words), within)
            content = looked_up(builder, at, *text)
            inside = builder.icmp_unsigned("<", within, of_key)
            content = builder.select(inside, content, filled(0))
            content = builder.or_(content, builder.and_(of_key, top))
            keys.append(builder.bitcast(content, _NUMBERS))
            hashes.append(_hashed(builder, keys[-1], key))
        offsets = builder.and_(
            _shuffled(builder, hashes, _EVENS), _in_turn(builder, _NUMBERS, slots)
        )
        short = builder.icmp_unsigned("<=", lengths, ir.Constant(_EIGHT_BYTES, [INLINE] * LANES))
        offsets = builder.select(short, offsets, ir.Constant(_NUMBERS, [0] * LANES))
        for vector in (
            builder.add(builder.zext(begins, _NUMBERS), _in_turn(builder, _NUMBERS, block)),
            _shuffled(builder, keys, _EVENS),
            _shuffled(builder, keys, [place + 1 for place in _EVENS]),
            builder.add(offsets, _in_turn(builder, _NUMBERS, table)),
        ):
            builder.store(vector, pointer(builder, columns, _NUMBERS), align=1)
            columns = builder.add(columns, column)
        return NO_RESULT

    addresses = [types.int64] * 5
    return types.void(*addresses, types.uint64, hash_key), generate
