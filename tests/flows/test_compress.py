"""``bpeline compress``: a file comes back, and mistakes lose nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from bpeline.flows.cli.compress import compress
from bpeline.tokenizer_core.algorithms import byte_pair_compression as compression

Command = Callable[..., Result]


def test_a_file_comes_back(bpeline: Command, tmp_path: Path) -> None:
    content = b"low lower newest \x00\xff" * 500
    (tmp_path / "book.txt").write_bytes(content)
    packed = bpeline("compress", "book.txt", "--json")
    figures = json.loads(packed.stdout)
    assert figures["bytes"] == len(content)
    assert figures["compressed_bytes"] == (tmp_path / "book.txt.bpec").stat().st_size
    assert figures["ratio"] == figures["compressed_bytes"] / len(content) < 0.5
    (tmp_path / "book.txt").unlink()
    assert bpeline("compress", "--expand", "book.txt.bpec").exit_code == 0
    assert (tmp_path / "book.txt").read_bytes() == content


def test_nothing_is_overwritten_and_damage_writes_nothing(bpeline: Command, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abababab")
    assert bpeline("compress", "a", "-o", "b", "--block-bytes", "3").exit_code == 0
    packed = (tmp_path / "b").read_bytes()
    again = bpeline("compress", "a", "-o", "b")
    assert again.exit_code == 2
    assert (tmp_path / "b").read_bytes() == packed
    (tmp_path / "damaged.bpec").write_bytes(packed[:-1])
    refused = bpeline("compress", "--expand", "damaged.bpec")
    assert refused.exit_code == 1
    assert not (tmp_path / "damaged").exists()
    assert bpeline("compress", "--expand", "b").exit_code == 2  # no name for what it expands to
    assert bpeline("compress", "--expand", "nowhere.bpec").exit_code == 2
    assert bpeline("compress", "a", "--threshold", "1").exit_code == 2


def test_the_defaults_shown_are_those_of_the_library() -> None:
    defaults = {option.name: option.default for option in compress.params}
    assert defaults["block_bytes"] == compression.BLOCK_BYTES
    assert defaults["threshold"] == compression.THRESHOLD
