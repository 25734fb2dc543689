"""What is taken of a machine where nobody says how much."""

from __future__ import annotations

from pathlib import Path

import pytest

from bpeline.tokenizer_core import machine
from bpeline.tokenizer_core.machine import machine_memory


def test_the_memory_of_a_container_is_less_than_that_of_its_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(machine, "_LIMIT_OF_A_CONTAINER", limit)
    whole = machine_memory()
    assert whole > 1 << 28
    for said, expected in (("max\n", whole), ("536870912\n", 1 << 29), (f"{whole * 2}\n", whole)):
        limit.write_text(said)
        assert machine_memory() == expected
