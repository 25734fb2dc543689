"""The model as MLflow loads it: in a clean process, without bpeline, with the same ids."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bpeline.registry import load_tokenizer, publish_version
from bpeline.registry.opening import Registry
from bpeline.registry.records.publication import Publication

TEXTS = ["the other theatre", "", " don't\n\n123 the", "日本語 the 🎉", "<|endoftext|>"]

PROGRAM = """
import json, sys, warnings
import mlflow
mlflow.set_tracking_uri(sys.argv[1])
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    model = mlflow.pyfunc.load_model(sys.argv[2])
texts = json.loads(sys.argv[3])
ids = model.predict(texts)
try:
    model.predict([1, 2])
    refused = False
except mlflow.exceptions.MlflowException:
    refused = True
from bpeline import tokenizer_core
print(json.dumps([ids, tokenizer_core.__file__, "bpeline.registry" in sys.modules, refused]))
"""


@pytest.mark.slow
def test_it_loads_in_a_clean_process_with_the_same_ids(
    registry: Registry, made: Callable[..., Publication], tmp_path: Path
) -> None:
    publication = made(b"the", b" the")
    publish_version(registry, publication)
    arguments = [registry.tracker.settings.uri, "models:/news@candidate", json.dumps(TEXTS)]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, *arguments],
        cwd=elsewhere,
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(elsewhere),
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "DO_NOT_TRACK": "true",
            "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    ids, core, knows_registry, refused = json.loads(done.stdout.splitlines()[-1])
    tokenizer = load_tokenizer("news@candidate")
    assert ids == [tokenizer.encode(text) for text in TEXTS]
    assert str(registry.workspace.mlflow_artifacts) in core, "the core that was logged with it"
    assert not knows_registry
    assert refused
