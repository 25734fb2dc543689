"""`candidate` is what was trained last, whatever clocks say and whenever it arrives.

But a tokenizer that is only made again takes it from no version that was registered later.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from wrong_clock import wrong_clock

from bpeline.registry import publish_outbox, publish_version
from bpeline.registry.catalogue import utc_now
from bpeline.registry.opening import Registry
from bpeline.registry.records.publication import Publication
from bpeline.tokenizer_core.errors import RegistryUnreachable

pytestmark = [pytest.mark.night, pytest.mark.fake_mlflow]

WORDS = (b"the", b"and", b"there", b"the", b"other", b"and")  # two are trained twice


def test_the_last_training_is_the_candidate(
    registry: Registry,
    disconnected: Registry,
    made: Callable[..., Publication],
    seed: int,
) -> None:
    chance = random.Random(seed)
    late = {chance.randrange(1, len(WORDS) - 1) for _ in range(3)}
    numbers: dict[bytes, int] = {}
    trained = {word: turn for turn, word in enumerate(WORDS)}  # last
    expected = b""
    digests = {}
    with wrong_clock(seed):
        for turn, word in enumerate(WORDS):
            now = utc_now()
            publication = replace(made(word, run_id=f"run-{turn}"), started_at=now, created_at=now)
            digests[word] = publication.digest
            if turn in late:
                with pytest.raises(RegistryUnreachable):
                    publish_version(disconnected, publication)
                continue
            publish_version(registry, publication)
            if word not in numbers or numbers[word] > numbers[expected]:
                expected = word
            numbers.setdefault(word, len(numbers) + 1)
            assert candidate(registry) == digests[expected], f"training {turn} --seed {seed}"
        publish_outbox(registry)
    for turn in sorted(late):
        word = WORDS[turn]
        if word not in numbers and trained[word] > trained[expected]:
            expected = word
        numbers.setdefault(word, len(numbers) + 1)
    assert candidate(registry) == digests[expected], f"--seed {seed}"


def candidate(registry: Registry) -> str:
    found = registry.tracker.version_of_alias("news", "candidate")
    return "" if found is None else found.digest
