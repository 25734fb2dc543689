"""The examples in docstrings of the public API run."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

FINDER = doctest.DocTestFinder(exclude_empty=True)
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def public() -> dict[str, Any]:
    """Every name that the API reference shows, by its place."""
    packages = [import_module(name) for name in ("bpeline", "bpeline.registry")]
    values = [getattr(package, name) for package in packages for name in package.__all__]
    return {f"{value.__module__}.{value.__qualname__}": value for value in values}


def examples() -> Iterator[doctest.DocTest]:
    """The docstrings with at least one example that is not marked +SKIP."""
    for place, value in public().items():
        names = vars(inspect.getmodule(value))
        for test in FINDER.find(value, place, module=False, globs=dict(names)):
            if not all(doctest.SKIP in example.options for example in test.examples):
                yield test


TESTS = list(examples())


def test_the_reference_has_examples() -> None:
    assert {test.name.rpartition(".")[2] for test in TESTS} >= {
        "Tokenizer", "count_texts", "evaluate", "train_from_iterator", "train_parity_bpe",
    }  # fmt: skip


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.name)
def test_an_example_gives_what_it_shows(test: doctest.DocTest) -> None:
    said: list[str] = []
    doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=said.append)
    assert said == [], "".join(said)
