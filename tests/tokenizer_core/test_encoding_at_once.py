"""Encoding by many threads, forked and spawned processes at once: always the ids of one alone."""

from __future__ import annotations

import multiprocessing
import os
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from bpeline.tokenizer_core.tokenizer import Tokenizer

MakeTokenizer = Callable[..., Tokenizer]


@pytest.fixture(scope="module")
def texts(fuzz_texts: list[str]) -> list[str]:
    random_ = random.Random(37)
    long = ["".join(random_.choices(fuzz_texts, k=400)) for _ in range(20)]
    return fuzz_texts[:2_000] + long


@pytest.fixture(scope="module")
def crowded(trained: MakeTokenizer) -> Tokenizer:
    """A tokenizer whose cache is so small that it is always being emptied."""
    tokenizer = trained("gpt2")
    return Tokenizer(
        tokenizer.vocab, tokenizer.merges, tokenizer.special_tokens, "gpt2", cache_words=64
    )


@contextmanager
def threads_that_encode(tokenizer: Tokenizer, texts: list[str], number: int) -> Iterator[None]:
    stop = threading.Event()

    def encode() -> None:
        while not stop.is_set():
            for text in texts[:200]:
                tokenizer.encode(text)

    threads = [threading.Thread(target=encode) for _ in range(number)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.mark.night
def test_many_threads_on_one_tokenizer_give_the_ids_of_one(
    crowded: Tokenizer, texts: list[str]
) -> None:
    expected = [crowded.encode(text) for text in texts]

    def encode_shuffled(seed: int) -> bool:
        random_ = random.Random(seed)
        order = list(range(len(texts)))
        random_.shuffle(order)
        return all(
            crowded.encode(texts[i]) == expected[i]
            and crowded.encode_to_numpy(texts[i]).tolist() == expected[i]
            for i in order
        )

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(encode_shuffled, range(16)))
    assert len(crowded.encoder._idle) <= 9


@pytest.mark.night
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_encodes_while_threads_of_the_parent_do(
    crowded: Tokenizer, texts: list[str]
) -> None:
    expected = [crowded.encode(text) for text in texts]
    with threads_that_encode(crowded, texts, 3):
        for _ in range(5):
            child = os.fork()
            if child == 0:
                equal = all(
                    crowded.encode(text) == ids for text, ids in zip(texts, expected, strict=True)
                )
                os._exit(0 if equal else 1)
            _, status = os.waitpid(child, 0)
            assert os.waitstatus_to_exitcode(status) == 0


def _encode_all(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    return tokenizer.encode_batch(texts, threads=2)


@pytest.mark.night
def test_a_spawned_process_takes_a_tokenizer_along(crowded: Tokenizer, texts: list[str]) -> None:
    spawning = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawning) as pool:
        assert pool.submit(_encode_all, crowded, texts).result() == crowded.encode_batch(texts)
