"""The cache of encoded words, and the table of words that are a single token."""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.memory.addresses import (
    add_and_tell,
    copy_sixteen,
    load_acquire,
    load_u16,
    load_u32,
    load_u64,
    store_release,
    store_u16,
    store_u32,
    store_u64,
    take_if_zero,
)
from bpeline.tokenizer_core.kernels.memory.pages import LINE
from bpeline.tokenizer_core.kernels.memory.records import Record, record_at
from bpeline.tokenizer_core.kernels.memory.types import I64, U64, I64s, Int, U8s, U64s
from bpeline.tokenizer_core.kernels.tables.hashing import ONE, ZERO, HashKey, key_in, mix
from bpeline.tokenizer_core.kernels.tables.word_keys import (
    ENTRY,
    HIGH,
    LOW,
    TAKEN,
    VALUE,
    copy_entry,
    find_entry,
    put_entry,
    same_bytes,
    table_shift,
    word_key,
)
from bpeline.tokenizer_core.kernels.tables.word_queue import LONG_HASH, queue_hash

_ADDRESS, _NUMBER, _BITS = np.int64, np.int64, np.uint64

WORKSPACE = np.dtype(
    [
        # Merges, shared by all threads. If trie is 0 they are not proper, and words are merged.
        ("byte_ids", _ADDRESS),  # uint32 [256]: the id of each byte, for merging
        ("pairs", _ADDRESS),  # the table of `keep_merges`, or that of `table_of_merges`
        ("pair_shift", _BITS),
        ("tokens", _ADDRESS),  # ids, lengths, parts, …: see `token_tables`
        ("trie", _ADDRESS),  # see `token_trie`; or 0
        ("whole", _ADDRESS),  # the table of `fill_whole_words`, or 0
        ("whole_shift", _BITS),
        ("whole_text", _ADDRESS),  # the bytes of these words
        # The cache, shared by all threads. All of its tables are replaced at once.
        ("cache", _ADDRESS),  # entries of short words
        ("cache_slots", _BITS),  # mask of a hash: the byte offset where a search begins
        ("cache_end", _ADDRESS),  # end of the entries; equal to `cache` if nothing is cached
        ("cache_used", _ADDRESS),  # int64: words in the table
        ("cache_limit", _NUMBER),  # words it may hold
        ("long", _ADDRESS),  # slots of longer words: where their records are; fields as above
        ("long_slots", _BITS),
        ("long_end", _ADDRESS),
        ("long_used", _ADDRESS),
        ("long_limit", _NUMBER),
        ("arena", _ADDRESS),  # records of long words, and ids of words that have many
        ("arena_bytes", _NUMBER),
        ("arena_used", _ADDRESS),  # int64: bytes in use
        # Memory of one thread.
        ("queue", _ADDRESS),  # see `word_queue`
        ("scratch", _ADDRESS),  # for `encode_by_backtracking` or `merge_word`
        ("longest", _NUMBER),  # bytes of the longest word for which scratch is enough
        # The `HashKey` of all tables.
        ("key_low", _BITS),
        ("key_high", _BITS),
    ]
)

workspace_at = record_at(WORKSPACE)


@kernel
def key_of(workspace: Record) -> HashKey:
    return HashKey(workspace.key_low, workspace.key_high)


IDS, COUNT = 16, 28  # byte offsets in an entry
INLINE_IDS = 3  # ids that an entry holds
IN_ARENA = np.uint64(1 << 63)  # bit of high that is flipped if the ids are in the arena
THE_REST = np.uint64((1 << 63) - 1)
LENGTH_BITS = np.uint64(60)  # bits of high from here on are 0 if the ids are in the entry
LONGEST_KEPT = 512  # bytes; longer words hardly occur again
ROOM = INLINE_IDS + 1  # ids that may be written after the last one
LONG_PLACE = 8  # bytes of a slot for longer words; searches begin at even slots
RECORD_IDS = 4  # offset of the ids in a record, after the length and at `RECORD_COUNT` their count
RECORD_COUNT = 2
LARGEST_RECORD = RECORD_IDS + LONGEST_KEPT + 4 * LONGEST_KEPT + 16  # bytes in the arena
FIRST_RECORD = 16  # no record is at 0, so that the slot of a record is never 0
# A slot of a longer word: 31 upper bits of the low part of its key above the place of its record. A
# search starts from the lowest of these bits.
HASH_KEPT, IN_FOURS = np.uint64(((1 << 31) - 1) << 32), np.uint64((1 << 32) - 1)


@kernel
def is_full(workspace: Record) -> bool:
    """Whether a larger or empty cache should replace this one.

    A full cache still works: `has_room` keeps a quarter of it empty, so searches end.
    """
    used = np.int64(load_u64(workspace.cache_used))
    long = np.int64(load_u64(workspace.long_used))
    return bool(used >= workspace.cache_limit or long >= workspace.long_limit)


@kernel
def is_in_arena(high: U64) -> bool:
    return bool(high >> LENGTH_BITS != ZERO)


@kernel
def copy_ids(source: I64, target: I64, count: I64) -> None:
    """Copy uint32 ids four at a time: up to 3 ids after ``count`` are overwritten."""
    for i in range(0, count, 4):
        copy_sixteen(source + 4 * i, target + 4 * i)


@kernel
def next_entry(entry: I64, home: I64) -> I64:
    """Where a search continues: the other entry of the cache line, then the next line.

    The result may be beyond the table; then wrap it around.
    """
    other = entry ^ ENTRY
    return other if (entry ^ home) & ENTRY == 0 else other + 2 * ENTRY


@kernel
def find_word(workspace: Record, entry: I64, low: U64, high: U64) -> tuple[I64, bool]:
    """A short word's entry and True, or an empty entry where it belongs and False.

    Another thread may fill the empty entry meanwhile, so it is not read again. ``entry`` is where
    the search begins.
    """
    home, end = entry, workspace.cache_end
    while True:
        entry_high = load_acquire(entry + HIGH)
        if entry_high == ZERO:
            return entry, False
        if (entry_high ^ high) & THE_REST == ZERO and load_u64(entry + LOW) == low:
            return entry, True
        entry = next_entry(entry, home)
        if entry >= end:
            entry += workspace.cache - end


@kernel
def copy_found(workspace: Record, entry: I64, target: I64) -> I64:
    count = np.int64(load_u32(entry + COUNT))
    if not is_in_arena(load_u64(entry + HIGH)):
        copy_ids(entry + IDS, target, count)
        return count
    ids = workspace.arena + np.int64(load_u64(entry + IDS))
    copy_ids(ids, target, count)
    return count


@kernel
def has_room(used: I64, limit: I64) -> bool:
    """Count one more word of a table; returns whether it may be added."""
    return bool(add_and_tell(used, np.int64(1)) < limit + (limit >> 1))


@kernel
def room_in_arena(workspace: Record, size: I64) -> I64:
    """Reserve bytes of the arena for this thread; returns their offset, or −1."""
    place = add_and_tell(workspace.arena_used, size)
    if place + LARGEST_RECORD <= workspace.arena_bytes:
        return place
    limit = workspace.cache_limit
    store_u64(workspace.cache_used, np.uint64(limit + (limit >> 1)))  # mark the cache as full
    return np.int64(-1)


@kernel
def remember(workspace: Record, entry: I64, low: U64, high: U64, ids: I64, count: I64) -> None:
    """Store a short word in an empty entry, unless another thread takes it first."""
    if not has_room(workspace.cache_used, workspace.cache_limit):
        return
    if count <= INLINE_IDS:
        if not take_if_zero(entry + HIGH, TAKEN):
            return
        store_u64(entry + IDS, load_u64(ids))
        store_u32(entry + IDS + 8, load_u32(ids + 8))
    else:
        # Ids are copied 16 bytes at a time.
        place = room_in_arena(workspace, (4 * count + 15) & ~15)
        if place < 0 or not take_if_zero(entry + HIGH, TAKEN):
            return
        copy_ids(ids, workspace.arena + place, count)
        store_u64(entry + IDS, np.uint64(place))
        high ^= IN_ARENA
    store_u32(entry + COUNT, np.uint32(count))
    store_u64(entry + LOW, low)
    store_release(entry + HIGH, high)


@kernel
def next_long(at: I64, home: I64) -> I64:
    """Where a search for a longer word continues: see `next_entry`."""
    other = (at & ~(LINE - 1)) | ((at + LONG_PLACE) & (LINE - 1))
    return other if (other ^ home) & (LINE - 1) != 0 else other + LINE


@kernel
def kept_of(low: U64) -> U64:
    """The bits of a longer word's key that its slot stores."""
    return (low >> ONE) & HASH_KEPT


@kernel
def find_long(workspace: Record, at: I64, low: U64, word: I64, length: I64) -> tuple[I64, bool]:
    """A longer word's record and True, or the address of an empty slot and False.

    ``at`` is where the search begins, ``low`` the low part of the word's key.
    """
    hash_bits = kept_of(low)
    home, end = at, workspace.long_end
    while True:
        slot = load_acquire(at)
        if slot == ZERO:
            return at, False
        if slot & HASH_KEPT == hash_bits:
            record = workspace.arena + 4 * np.int64(slot & IN_FOURS)
            if np.int64(load_u16(record)) == length:
                begin = record + RECORD_IDS + 4 * np.int64(load_u16(record + RECORD_COUNT))
                if same_bytes(begin, word, length):
                    return record, True
        at = next_long(at, home)
        if at >= end:
            at += workspace.long - end


@kernel
def copy_record(record: I64, target: I64) -> I64:
    count = np.int64(load_u16(record + RECORD_COUNT))
    copy_ids(record + RECORD_IDS, target, count)
    return count


@kernel
def remember_long(
    workspace: Record, at: I64, low: U64, word: I64, length: I64, ids: I64, count: I64
) -> None:
    """Store a longer word in an empty slot, unless another thread takes it first."""
    if not has_room(workspace.long_used, workspace.long_limit):
        return
    word_offset = RECORD_IDS + 4 * count
    place = room_in_arena(workspace, (word_offset + length + 3) & ~3)
    if place < 0:
        return
    record = workspace.arena + place
    store_u16(record, np.uint16(length))
    store_u16(record + RECORD_COUNT, np.uint16(count))
    copy_ids(ids, record + RECORD_IDS, count)  # also overwrites 12 bytes where the word will be
    for begin in range(0, length - 16, 16):
        copy_sixteen(word + begin, record + word_offset + begin)
    copy_sixteen(word + length - 16, record + word_offset + length - 16)
    take_if_zero(at, kept_of(low) | np.uint64(place >> 2))


@entry_kernel
def move_kept(table: U64s, larger: U64s, hash_key: U64s) -> I64:
    """Copy all short words of a table to a larger, zeroed one; returns how many.

    Other threads may add words meanwhile; these are copied or lost.
    """
    entry, end = np.int64(table.ctypes.data), np.int64(table.ctypes.data) + 8 * table.size
    target, key = np.int64(larger.ctypes.data), key_in(hash_key)
    slots = np.uint64(8 * larger.size - ENTRY)
    number = np.int64(0)
    while entry < end:
        high = load_acquire(entry + HIGH)
        if high > TAKEN:
            own = high ^ IN_ARENA if is_in_arena(high) else high
            home = place = np.int64(queue_hash(load_u64(entry + LOW), own, key) & slots)
            while load_u64(target + place + HIGH) != ZERO:
                place = next_entry(place, home) & np.int64(slots)
            copy_entry(entry, target + place)
            number += 1
        entry += ENTRY
    return number


@entry_kernel
def move_long(table: U64s, larger: U64s) -> I64:
    """`move_kept` for longer words, by the hash bits in their slots."""
    at, end = np.int64(table.ctypes.data), np.int64(table.ctypes.data) + 8 * table.size
    target, bytes_ = np.int64(larger.ctypes.data), np.int64(8 * larger.size)
    slots = np.uint64(bytes_ - 2 * LONG_PLACE)
    number = np.int64(0)
    while at < end:
        slot = load_acquire(at)
        if slot != ZERO:
            home = place = np.int64(((slot << ONE) >> LONG_HASH) & slots)
            while load_u64(target + place) != ZERO:
                place = next_long(place, home) & (bytes_ - 1)
            store_u64(target + place, slot)
            number += 1
        at += LONG_PLACE
    return number


@entry_kernel
def fill_whole_words(words: U8s, ends: I64s, ids: I64s, table: U64s, hash_key: U64s) -> I64:
    """Put words into a table; returns how many are distinct. The last of equals wins.

    ``words`` are joined and followed by readable bytes; ``table`` is uint64 ``[4 · 2^b]``, zero, at
    most half full: see `word_keys`.
    """
    key = key_in(hash_key)
    shift = table_shift(table)
    text = words.ctypes.data
    begin, different = np.int64(0), np.int64(0)
    for i in range(len(ends)):
        low, high = word_key(text + begin, ends[i] - begin, key)
        mixed = mix(low, high, key)
        entry = find_entry(table.ctypes.data, shift, low, high, mixed, text, text + begin)
        different += load_u64(entry + HIGH) == ZERO
        put_entry(entry, low, high, np.uint64(ids[i]), np.uint64(begin))
        begin = ends[i]
    return different


@kernel
def word_id(table: Int, shift: U64, key: HashKey, words: Int, word: I64, length: I64) -> I64:
    """The id of a word in a table, or −1; ``words`` is the address of its words."""
    low, high = word_key(word, length, key)
    entry = find_entry(table, shift, low, high, mix(low, high, key), words, word)
    if load_u64(entry + HIGH) == ZERO:
        return np.int64(-1)
    return np.int64(load_u64(entry + VALUE))


@entry_kernel
def find_whole_words(
    text: U8s, begins: I64s, ends: I64s, words: U8s, table: U64s, hash_key: U64s, ids: I64s
) -> None:
    """Look up words of a text by byte range, see `fill_whole_words`; ids may be −1.

    No range is empty; ``text`` is followed by 16 readable bytes.
    """
    key = key_in(hash_key)
    entries, shift, place = table.ctypes.data, table_shift(table), words.ctypes.data
    base = text.ctypes.data
    for i in range(len(begins)):
        length = ends[i] - begins[i]
        ids[i] = word_id(entries, shift, key, place, base + begins[i], length)


@entry_kernel
def find_joined_words(
    left: I64s,
    right: I64s,
    begins: I64s,
    lengths: I64s,
    ids: I64s,
    numbers: I64s,
    room: U8s,
    words: U8s,
    table: U64s,
    hash_key: U64s,
    found: I64s,
) -> None:
    """Look up the concatenations of pairs of words of a table.

    Successive merges mostly create successive tokens, so the next token is compared first.

    Args:
        left, right: int64 ``[n]``: numbers of words of the table.
        begins, lengths, ids: int64: begin, bytes and id of each word of the table.
        numbers: int64: id → number.
        room: uint8, scratch for the longest two words, with 16 readable bytes more.
        words, table, hash_key: as in `fill_whole_words`, filled.
        found: int64 ``[n]``: receives the ids, or −1.
    """  # fmt: skip
    key = key_in(hash_key)
    entries, shift, place = table.ctypes.data, table_shift(table), words.ctypes.data
    expected = np.int64(0)
    for i in range(len(left)):
        length = np.int64(0)
        for number in (left[i], right[i]):
            for at in range(begins[number], begins[number] + lengths[number]):
                room[length] = words[at]
                length += 1
        same = np.int64(0)
        if expected < len(lengths) and lengths[expected] == length:
            begin = begins[expected]
            while same < length and words[begin + same] == room[same]:
                same += 1
        if same == length:
            found[i] = ids[expected]
        else:
            found[i] = word_id(entries, shift, key, place, room.ctypes.data, length)
            if found[i] < 0:
                continue
            expected = numbers[found[i]]
        expected += 1


@kernel
def whole_word(workspace: Record, word: I64, length: I64) -> I64:
    table, shift = workspace.whole, workspace.whole_shift
    return word_id(table, shift, key_of(workspace), workspace.whole_text, word, length)
