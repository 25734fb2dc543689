"""What byte-level training compiles after counting, ahead of it: by a process beside this one.

Compiling is three quarters Python, which threads cannot share. Who counts the first corpus of a
machine lets another process compile meanwhile what comes after counting, from the first kernel on.
Who has counted takes part, from the last on. Neither compiles what the other does: a kernel is
compiled by whoever comes first, and the other loads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bpeline.tokenizer_core.another_python import another_python
from bpeline.tokenizer_core.processors import available_processors

_PROGRAM = """
from bpeline.tokenizer_core.ahead import compile_after_counting
compile_after_counting()
"""


@contextmanager
def compiling_ahead() -> Iterator[Callable[[], None]]:
    """Compile in another process what byte-level training needs after counting, if need be.

    Nothing depends on it: what it does not compile is compiled where it is needed. It ends with
    the block, and with this process.

    Yields:
        What takes part in the work, and returns when all of it is done. To be called once, when
        words are counted.
    """
    needed = available_processors() > 1 and _is_needed()
    process = another_python(_PROGRAM) if needed else None
    if process is None:
        yield lambda: None
        return
    try:
        yield _compile_from_the_last
    finally:
        process.kill()
        process.communicate()


def compile_after_counting() -> None:
    """Compile, or load, what byte-level training needs after counting, in the order of its need."""
    from bpeline.tokenizer_core.kernels.compiling.compilation import compile_declared

    compile_declared(*kernels_after_counting())


def _compile_from_the_last() -> None:
    from bpeline.tokenizer_core.kernels.compiling.compilation import are_kept, compile_declared

    for kernel in reversed(kernels_after_counting()):
        if not are_kept(kernel):
            compile_declared(kernel)


def _is_needed() -> bool:
    """Whether one process can compile for the other, and there is something left to compile."""
    from bpeline.tokenizer_core.kernels.compiling.compilation import are_kept, internals_are_known
    from bpeline.tokenizer_core.kernels.compiling.machine_code import cache_directory

    if not internals_are_known() or cache_directory() is None:
        return False
    return not are_kept(*kernels_after_counting())


def kernels_after_counting() -> tuple[Any, ...]:
    """The entry kernels that learning, evaluating and publishing call, in the order of their need.

    Those that counting calls as well are left out.
    """
    from bpeline.tokenizer_core.kernels.counting.token_rows import join_values, mark_rows
    from bpeline.tokenizer_core.kernels.encoding.decode_ids import join_tokens
    from bpeline.tokenizer_core.kernels.encoding.encode_text import encode_spans
    from bpeline.tokenizer_core.kernels.encoding.encode_word import add_gains
    from bpeline.tokenizer_core.kernels.encoding.measure_text import measure_spans
    from bpeline.tokenizer_core.kernels.encoding.token_tables import (
        keep_merges,
        measure_tokens,
        spell_tokens,
    )
    from bpeline.tokenizer_core.kernels.encoding.token_trie import fill_trie
    from bpeline.tokenizer_core.kernels.encoding.whole_words import (
        fill_whole_words,
        find_whole_words,
    )
    from bpeline.tokenizer_core.kernels.encoding.word_cache import move_kept, move_long
    from bpeline.tokenizer_core.kernels.memory.list_filling import fill_lists
    from bpeline.tokenizer_core.kernels.merging.merge_layout import (
        collect_dense_pairs,
        count_dense_pairs,
        lay_out_words,
    )
    from bpeline.tokenizer_core.kernels.merging.merge_queue import queue_new_pairs
    from bpeline.tokenizer_core.kernels.merging.merge_step import learn
    from bpeline.tokenizer_core.kernels.scanning.find_passages import hash_windows
    from bpeline.tokenizer_core.kernels.tables.pair_tables import fill_merges, fill_slots

    return (
        *(lay_out_words, count_dense_pairs, fill_slots, collect_dense_pairs),
        *(queue_new_pairs, learn, measure_tokens, spell_tokens, fill_whole_words),
        *(hash_windows, keep_merges, fill_trie),
        *(encode_spans, move_kept, move_long, measure_spans, join_tokens, fill_merges, add_gains),
        *(join_values, mark_rows),
        *(fill_lists, find_whole_words),
    )
