"""One `bpeline serve` for all tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from published import copied, made_once, make_workspace
from served import Served, serving


@pytest.fixture(scope="package")
def served(
    tmp_path_factory: pytest.TempPathFactory,
    find_originals: Callable[[], Path],
    english_and_code: str,
    warm: Path,
) -> Iterator[Served]:
    """``bpeline serve --deploy``, with a small corpus beside its workspace; one for all files."""
    folder = tmp_path_factory.mktemp("served")
    copied(made_once(find_originals() / "empty", make_workspace), folder / "home")
    (folder / "corpus").mkdir()
    pieces = [english_and_code[at : at + 800] for at in range(0, 80_000, 800)]
    (folder / "corpus" / "documents.txt").write_text("<|end|>".join(pieces), encoding="utf-8")
    with serving(folder, folder / "home", warm / "bpeline") as served:
        yield served
