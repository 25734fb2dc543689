"""Flows called as the commands call them where there is no Prefect server: by their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bpeline.flows.import_tokenizer import import_tokenizer as import_flow
from bpeline.flows.importing import ImportSummary
from bpeline.flows.publishing import TrainingSummary
from bpeline.flows.requests import ImportRequest, TrainingRequest
from bpeline.flows.train_tokenizer import train_tokenizer as training_flow


def train_tokenizer(
    paths: Sequence[str] = (),
    name: str | None = None,
    vocab_size: int | str | None = None,
    pattern: str | None = None,
    *,
    workspace: str | None = None,
    **more: Any,
) -> TrainingSummary:
    """Train; what is left out has its usual value."""
    asked = {"paths": paths, "name": name, "vocab_size": vocab_size, "pattern": pattern, **more}
    return training_flow.fn(TrainingRequest.checked(**asked), workspace)


def import_tokenizer(
    file: str, name: str, *, workspace: str | None = None, **more: Any
) -> ImportSummary:
    """Import a tokenizer."""
    return import_flow.fn(ImportRequest.checked(file=file, name=name, **more), workspace)
