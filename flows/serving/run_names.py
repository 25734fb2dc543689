"""What runs are called in Prefect: first what was asked for, then the version it was about."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from bpeline.flows.requests import DEMO, USUAL_VOCAB, corpus_sources
from bpeline.tokenizer_core.errors import BpelineError


def training(parameters: Mapping[str, Any], reference: str = "") -> str:
    """``news-32000 from corpus/``, then ``news/3 (32000) from corpus/``."""
    asked = _request(parameters)
    name, size = asked["name"], asked.get("vocab_size", USUAL_VOCAB)
    if largest := asked.get("largest_size"):
        size = f"auto to {largest}"
    which = f"{reference} ({size})" if reference else f"{name}-{size}"
    if merges := (asked.get("options") or {}).get("merges"):
        which = f"{reference or name} ({merges} merges)"
    paths = asked.get("paths") or asked.get("counts") or ()
    return f"{which} from {corpus(paths, asked.get('sources') or ())}"


def importing(parameters: Mapping[str, Any], reference: str = "") -> str:
    """``llama3 from tokenizer.json``, then ``llama3/1 from tokenizer.json``."""
    asked = _request(parameters)
    return f"{reference or asked['name']} from {os.path.basename(asked['file'])}"


def watching(parameters: Mapping[str, Any], outcome: str = "") -> str:
    """``news@champion beside new/``, then ``news/3 (champion): not drifted, …``."""
    watched = f"{outcome}," if outcome else f"{parameters['name']}@{parameters['alias']}"
    return f"{watched} beside {corpus(parameters['paths'], parameters['sources'])}"


def encoding(parameters: Mapping[str, Any], reference: str = "") -> str:
    """``news@champion on corpus/``, then ``news/3 on corpus/``."""
    return f"{reference or parameters['reference']} on {corpus(parameters['paths'])}"


def collecting(parameters: Mapping[str, Any], outcome: str = "") -> str:
    """``leftovers of 30 days``, then ``leftovers of 30 days: 3 leftovers removed, 2.1 MB``."""
    asked = f"leftovers of {parameters['days']:g} days"
    return f"{asked}: {outcome}" if outcome else asked


def recertifying(parameters: Mapping[str, Any], outcome: str = "") -> str:
    """``exports of news``, then ``exports of news: 3 exports read alike``."""
    asked = f"exports of {', '.join(parameters['versions']) or 'all names'}"
    return f"{asked}: {outcome}" if outcome else asked


def requested(parameters: Mapping[str, Any]) -> str:
    """The name of the tokenizer that a request is about."""
    return str(_request(parameters)["name"])


def tokenizer(parameters: Mapping[str, Any]) -> str:
    """The name of the tokenizer that other flows are about; empty where they are about none."""
    named = parameters.get("name") or parameters.get("reference") or ""
    return re.split("[@/]", str(named))[0]


def _request(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked for, as the server keeps it or as the flow is given it."""
    return dict(parameters["request"])


def corpus(paths: Sequence[str], sources: Sequence[str] = ()) -> str:
    """``corpus/``, ``de/*.txt and 2 more``, ``en``."""
    labels = list(map(_label_of, paths))
    with suppress(BpelineError):  # the flow itself says what is wrong with them
        labels += [source.name for source in corpus_sources(sources)]
    if len(labels) > 1:
        return f"{labels[0]} and {len(labels) - 1} more"
    return labels[0] if labels else "nothing"


def _label_of(path: str) -> str:
    """The end of a path, as far as it tells corpora apart; a URL is shown whole."""
    if path == DEMO or "://" in path:
        return path
    parent, name = os.path.split(path.rstrip("/"))
    if path.endswith("/"):
        name += "/"
    return os.path.join(os.path.basename(parent), name) if set(name) & set("*?[") else name
