"""Arguments of wrong kinds, given to flows from Python: refused before anything is read."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flow_calls import import_tokenizer, train_tokenizer

from bpeline.flows import evaluation
from bpeline.flows.deriving import extension_parameters, prune, rename, superword_parameters
from bpeline.flows.encode_dataset import encode_dataset
from bpeline.flows.recertify import recertify
from bpeline.flows.requests import DatasetRequest, ImportRequest, TrainingRequest
from bpeline.flows.requests.derived_requests import (
    ExtensionRequest,
    PruneRequest,
    RenameRequest,
    SuperwordsRequest,
)
from bpeline.flows.requests.flow_requests import DriftRequest, GarbageRequest, RecertifyRequest
from bpeline.flows.requests.request import Request
from bpeline.flows.sweep import sweep
from bpeline.flows.verify_version import verify_version
from bpeline.flows.watch_drift import watch_drift
from bpeline.tokenizer_core.errors import BpelineError, InvalidOption, WrongKind

ODD = (3, math.nan, True, "text", "\ud800", b"text", [3], {"a": 1}, {"q"}, np.arange(2), object())
REQUESTS: dict[type[Request], dict[str, Any]] = {
    TrainingRequest: {"paths": ["a.txt"], "name": "n"},
    ImportRequest: {"file": "a.json", "name": "n"},
    DriftRequest: {"name": "n", "paths": ["a.txt"]},
    DatasetRequest: {"reference": "n/1", "paths": ["a.txt"]},
    GarbageRequest: {},
    RecertifyRequest: {},
    ExtensionRequest: {"reference": "n/1", "vocab_size": 300},
    SuperwordsRequest: {"reference": "n/1", "vocab_size": 300},
    PruneRequest: {"reference": "n/1", "output": "plan.json"},
    RenameRequest: {"reference": "n/1", "names": {"a": "b"}},
}


@pytest.mark.parametrize("model", REQUESTS)
def test_a_parameter_of_another_type_is_refused(model: type[Request]) -> None:
    """Whatever a request accepts has the type of its field; all else is an error of ours."""
    for name in model.model_fields:
        for value in ODD:
            try:
                request = model.checked(**{**REQUESTS[model], name: value})
            except BpelineError as error:
                refusal = error
            else:
                accepted = getattr(request, name)
                assert not isinstance(value, (bytes, set, np.ndarray))
                assert type(value) is not object
                assert isinstance(value, bool) == isinstance(accepted, bool)
                alone = name in model.one_for_many
                assert alone or isinstance(value, str) == isinstance(accepted, str)
                assert value is not math.nan
                continue
            assert refusal.next_step
            if isinstance(refusal, WrongKind):
                assert name in str(refusal).replace("-", "_"), (name, value)


def test_numbers_of_numpy_and_paths_are_taken() -> None:
    asked = TrainingRequest.checked(
        paths=[Path("a.txt")], name="n", vocab_size=np.int64(600), held_out=np.float32(0.5)
    )
    assert asked == TrainingRequest.checked(paths=["a.txt"], name="n", vocab_size=600, held_out=0.5)
    assert type(asked.vocab_size) is int


def test_a_string_is_no_list_of_its_characters() -> None:
    for name in ("paths", "special_tokens", "required_tokens", "include"):
        with pytest.raises(WrongKind) as refused:
            TrainingRequest.checked(**{**REQUESTS[TrainingRequest], name: "abc"})
        assert f"{name}=['abc']" in refused.value.next_step


def test_what_is_wrong_in_a_list_is_named() -> None:
    with pytest.raises(InvalidOption, match=r"special.tokens.*3"):
        TrainingRequest.checked(**REQUESTS[TrainingRequest], special_tokens=["a", 3])


def test_the_word_for_a_size_that_is_chosen_is_taken() -> None:
    chosen = {"vocab_size": "auto", "model_shape": "llama-3.2-1b"}
    assert TrainingRequest.checked(**REQUESTS[TrainingRequest], **chosen).chooses_size
    with pytest.raises(InvalidOption, match="vocab-size"):
        TrainingRequest.checked(**REQUESTS[TrainingRequest], vocab_size="large")


# Function → what it is given by name, none of which it takes.
REFUSED: dict[Callable[..., Any], dict[str, object]] = {
    train_tokenizer: {"paths": "a.txt", "name": 3, "vocab_size": "32000", "special_tokens": "x"},
    import_tokenizer: {"file": 3, "name": None},
    encode_dataset.fn: {"reference": 3, "paths": "a.txt", "threads": "2"},
    watch_drift.fn: {"name": 3, "paths": "a.txt"},
    recertify.fn: {"versions": "news"},
    sweep: {
        "paths": "a.txt",
        "name": 3,
        "vocab_sizes": 300,
        "patterns": "gpt2",
        "weights": {"a": 1.0},
        "temperatures": 0.5,
    },
    prune: {"reference": 3, "output": None, "paths": "a.txt", "min_count": "3"},
    rename: {"reference": 3, "names": ["a"]},
    verify_version: {"reference": 3, "reuse_counts": "no"},
    extension_parameters: {"reference": 3, "vocab_size": None, "paths": "a.txt"},
    superword_parameters: {"reference": 3, "vocab_size": 2.5, "cuts": "words"},
    evaluation.list_sets: {"name": 3},
    evaluation.evaluate_registered: {"reference": 3},
    evaluation.set_from: {"name": 3, "sources": "a.txt", "by": None},
}


@pytest.mark.parametrize("function", REFUSED, ids=lambda one: one.__name__)
def test_what_is_of_the_wrong_kind_is_refused(
    function: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    usual: dict[str, object] = {"paths": ["a.txt"], "sources": ["a.txt"], "vocab_sizes": [300]}
    needed = {
        one.name: usual.get(one.name, "n")
        for one in inspect.signature(function).parameters.values()
        if one.default is inspect.Parameter.empty
    }
    for name, value in REFUSED[function].items():
        with pytest.raises(BpelineError) as refused:
            function(**{**needed, name: value})
        assert refused.value.next_step
        assert name in str(refused.value), name
    assert list(tmp_path.iterdir()) == []


@pytest.mark.night
def test_forms_offer_words_and_show_what_descriptions_say() -> None:
    """Prefect validates by the form's schema, and reads descriptions as Markdown."""
    from prefect.utilities.callables import parameter_schema
    from prefect.utilities.schema_tools.validation import is_valid

    from bpeline.flows.train_tokenizer import train_tokenizer as flow

    schema = parameter_schema(flow).model_dump()
    form = schema["definitions"]["TrainingRequest"]["properties"]
    assert [one["title"] for one in form["vocab_size"]["anyOf"]] == ["number", "auto"]
    assert form["vocab_size"]["default"] == 32_000
    assert form["rules"]["type"] == "string"
    assert all(one.get("default", "") is not None for one in form.values())
    given = {"paths": ["a.txt"], "name": "news"}
    for value, is_fine in ((8_000, True), ("auto", True), ("many", False), (None, False)):
        assert is_valid({"request": {**given, "vocab_size": value}}, schema) is is_fine
    chosen = {**given, "vocab_size": "auto", "model_shape": "llama-3.2-1b", "rules": ""}
    request = flow.validate_parameters({"request": chosen})["request"]
    assert request == TrainingRequest.checked(**{**chosen, "rules": None})
    assert r"\<|endoftext|>" in form["roles"]["description"]
    dataset = parameter_schema(encode_dataset).model_dump()["properties"]
    for described in (form, dataset):
        assert r"'\*.rst' or 'notes/\*.log'" in described["include"]["description"]
    assert dataset["pack"]["type"] == "integer"
    assert all(one.get("default", "") is not None for one in dataset.values())
    library = parameter_schema(recertify).properties["library"]
    assert "`pip install --target FOLDER`" in library["description"]
