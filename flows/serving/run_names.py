"""Names of runs in Prefect: from the request at first, then from the result."""

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
    request = _request(parameters)
    name, size = request["name"], request.get("vocab_size", USUAL_VOCAB)
    if largest := request.get("largest_size"):
        size = f"auto to {largest}"
    which = f"{reference} ({size})" if reference else f"{name}-{size}"
    if merges := (request.get("options") or {}).get("merges"):
        which = f"{reference or name} ({merges} merges)"
    paths = request.get("paths") or request.get("counts") or ()
    return f"{which} from {corpus(paths, request.get('sources') or ())}"


def importing(parameters: Mapping[str, Any], reference: str = "") -> str:
    """``llama3 from tokenizer.json``, then ``llama3/1 from tokenizer.json``."""
    request = _request(parameters)
    return f"{reference or request['name']} from {os.path.basename(request['file'])}"


def watching(parameters: Mapping[str, Any], outcome: str = "") -> str:
    """``news@champion on new/``, then ``news/3 (champion): not drifted, on new/``."""
    watched = f"{outcome}," if outcome else f"{parameters['name']}@{parameters['alias']}"
    return f"{watched} on {corpus(parameters['paths'], parameters['sources'])}"


def encoding(parameters: Mapping[str, Any], reference: str = "") -> str:
    """``news@champion on corpus/``, then ``news/3 on corpus/``."""
    return f"{reference or parameters['reference']} on {corpus(parameters['paths'])}"


def collecting(parameters: Mapping[str, Any], outcome: str = "") -> str:
    """``leftovers of 30 days``, then ``…: 3 leftovers removed, 2.1 MB``."""
    title = f"leftovers of {parameters['days']:g} days"
    return f"{title}: {outcome}" if outcome else title


def recertifying(parameters: Mapping[str, Any], outcome: str = "") -> str:
    """``exports of news``, then ``exports of news: 3 exports with equal ids``."""
    title = f"exports of {', '.join(parameters['versions']) or 'all names'}"
    return f"{title}: {outcome}" if outcome else title


def requested(parameters: Mapping[str, Any]) -> str:
    """Return the name of the tokenizer in a request."""
    return str(_request(parameters)["name"])


def tokenizer(parameters: Mapping[str, Any]) -> str:
    """Return the name of the tokenizer for flows without a request; may be empty."""
    named = parameters.get("name") or parameters.get("reference") or ""
    return re.split("[@/]", str(named))[0]


def _request(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request, as stored on the server or as passed to the flow."""
    return dict(parameters["request"])


def corpus(paths: Sequence[str], sources: Sequence[str] = ()) -> str:
    """``corpus/``, ``de/*.txt and 2 more``, ``en``."""
    labels = list(map(_label_of, paths))
    with suppress(BpelineError):  # the flow itself reports errors in sources
        labels += [source.name for source in corpus_sources(sources)]
    if len(labels) > 1:
        return f"{labels[0]} and {len(labels) - 1} more"
    return labels[0] if labels else "nothing"


def _label_of(path: str) -> str:
    """Return the distinctive end of a path; a URL is kept whole."""
    if path == DEMO or "://" in path:
        return path
    parent, name = os.path.split(path.rstrip("/"))
    if path.endswith("/"):
        name += "/"
    return os.path.join(os.path.basename(parent), name) if set(name) & set("*?[") else name
