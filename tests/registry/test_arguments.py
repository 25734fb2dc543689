"""Arguments of wrong kinds at the doors of the registry: refused before anything is opened."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest

from bpeline import registry
from bpeline.registry.gates import Rules
from bpeline.registry.workspace import Workspace
from bpeline.tokenizer_core.arguments import require_options_of
from bpeline.tokenizer_core.errors import BpelineError

# Kind of parameter → values that are taken, and values that are refused.
TEXT = (("news", ""), (None, 3, True, b"news", ["news"], "\ud800", Path("a")))
NAME = (("news", None), TEXT[1][1:])
PATH = (("news/3", Path("a")), (None, 3, True, b"a", ["a"], "", "a\0b"))
PLACE = ((None, "a", Path("a"), Workspace(Path("a"))), (3, True, b"a", ["a"], "", object()))
FOLDER = (PLACE[0][:3], PLACE[1])
NUMBER = ((3, np.int64(3)), (None, True, 2.5, "3", [3], 2**70))
FLAG = ((True, False, np.True_), (None, 1, "true", []))
TEXTS = (([], ["a"], ("a",)), ("text", 3, True, object()))
FILES = (([], ["a", Path("b")]), ("text", Path("a"), 3, True, ["a", None]))
RULES = ((Rules(()), None), ("rule", 3, ["rule"], [], object()))
FORMAT = (("hf", "bpeline"), (None, 3, "text", ["hf"], Path("hf")))
OPENED: tuple[tuple[object, ...], ...] = ((), (None, "a", 3, Path("a"), object()))
TABLE = {
    "alias_history": {"name": TEXT, "alias": NAME, "workspace": PLACE},
    "promote": {
        "reference": TEXT, "alias": TEXT, "by": TEXT, "reason": TEXT, "workspace": PLACE,
        "rules": RULES, "lock": FLAG, "force": FLAG,
    },
    "rollback": {
        "name": TEXT, "alias": TEXT, "by": TEXT, "reason": TEXT, "workspace": PLACE,
        "force": FLAG,
    },
    "compare_versions": {
        "first": PATH, "second": PATH, "workspace": PLACE, "on": FILES, "text_field": TEXT,
        "separator": NAME, "shown": NUMBER,
    },
    "evaluate": {"reference": TEXT, "workspace": PLACE},
    "export": {"reference": PATH, "path": PATH, "format": FORMAT, "workspace": PLACE},
    "export_version": {
        "reference": PATH, "path": PATH, "format": FORMAT, "workspace": PLACE, "texts": TEXTS,
        "chat_template": TEXT, "roles": TEXTS,
    },
    "load_tokenizer": {"reference": PATH, "workspace": PLACE, "expect_digest": NAME},
    "open_registry": {"workspace": PLACE, "make": FLAG},
    "list_versions": {"name": NAME, "workspace": PLACE},
    "publish_outbox": {"registry": OPENED, "alias": TEXT},
    "publish_version": {"registry": OPENED, "publication": OPENED, "alias": TEXT},
    "configure": {"workspace": FOLDER, "tracking_uri": NAME, "catalogue_url": NAME},
}  # fmt: skip
MADE_BY_THESE = {"CorpusInput", "Publication", "PublishedVersion", "Registry"}


def test_every_public_parameter_is_in_the_table() -> None:
    functions = set(registry.__all__) - MADE_BY_THESE
    assert {
        name: list(inspect.signature(getattr(registry, name)).parameters) for name in functions
    } == {name: list(kinds) for name, kinds in TABLE.items()}


@pytest.mark.parametrize("name", TABLE)
def test_what_is_of_the_wrong_kind_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    call = getattr(registry, name)
    for parameter, (right, wrong) in TABLE[name].items():
        for value in right:
            require_options_of(call, {parameter: value})
        for value in wrong:
            with pytest.raises(BpelineError) as refused:
                call(**{parameter: value})
            assert refused.value.accepted
            assert refused.value.next_step
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("reference", ["", "news", "news@", "@x", "a b", "news/0", "\x00"])
def test_a_reference_that_names_nothing_is_refused(reference: str, tmp_path: Path) -> None:
    with pytest.raises(BpelineError) as refused:
        registry.load_tokenizer(reference, tmp_path)
    assert refused.value.next_step
