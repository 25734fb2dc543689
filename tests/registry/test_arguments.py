"""Arguments of wrong kinds at the doors of the registry: refused before anything is opened."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from bpeline import registry
from bpeline.registry.opening import Registry
from bpeline.registry.records.publication import Publication
from bpeline.tokenizer_core.errors import BpelineError

# Values that are refused → parameters of this name.
REFUSED: tuple[tuple[tuple[object, ...], str], ...] = (
    ((3, True, b"news", "\ud800"), "alias by chat_template expect_digest name reason separator"),
    ((3, True, b"news"), "reference"),
    ((3, True, b"news", "\ud800"), "catalogue_url text_field tracking_uri"),
    ((3, b"a", "a\0b"), "first path second"),
    ((3, ["a"], "", object()), "workspace"),
    (("3", True, 2.5, 2**70), "shown"),
    (("true", 1, None), "force lock make"),
    (("text", 3, True), "on roles texts"),
    (("rule", 3, []), "rules"),
    (("text", 3, None), "format"),
    (("text", 3, None), "publication registry"),
)
KINDS = {name: values for values, names in REFUSED for name in names.split()}
NEEDED = {
    "reference": "news/1",
    "name": "news",
    "first": "news/1",
    "second": "news/2",
    "path": "made.json",
    "format": "hf",
    "registry": Registry.__new__(Registry),
    "publication": Publication.__new__(Publication),
}
MADE_BY_THESE = {"CorpusInput", "Publication", "PublishedVersion", "Registry"}


PUBLIC = sorted(set(registry.__all__) - MADE_BY_THESE)


@pytest.mark.parametrize("function", PUBLIC)
def test_what_is_of_the_wrong_kind_is_refused(
    function: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    call = getattr(registry, function)
    found = inspect.signature(call).parameters
    needed = {name: NEEDED[name] for name, one in found.items() if one.default is one.empty}
    for name in found:
        for value in KINDS[name]:
            with pytest.raises(BpelineError) as refused:
                call(**{**needed, name: value})
            assert refused.value.next_step
            assert name in str(refused.value), value
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("reference", ["", "news", "news@", "@x", "a b", "news/0", "\x00"])
def test_a_reference_that_names_nothing_is_refused(reference: str, tmp_path: Path) -> None:
    with pytest.raises(BpelineError) as refused:
        registry.load_tokenizer(reference, tmp_path)
    assert refused.value.next_step
