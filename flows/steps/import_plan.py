"""What an import would do: reads the tokenizer, writes nothing."""

from __future__ import annotations

from pathlib import Path

from bpeline.flows.requests import ImportRequest, evaluation_sources
from bpeline.flows.steps.importing import read_files
from bpeline.flows.steps.training_plan import alias_moves, registered_as
from bpeline.flows.wording import counted, megabytes
from bpeline.registry.catalogue import Catalogue
from bpeline.registry.opening import open_registry
from bpeline.registry.workspace import Workspace


def plan_import(request: ImportRequest, home: Path) -> dict[str, str]:
    """What would be read, measured and registered: title → sentence.

    Args:
        request: what is asked for.
        home: the directory of the workspace, which need not be there.

    Raises:
        MissingSource, InvalidTokenizer, InvalidPattern, InvalidOption: it cannot be read.
    """
    read = read_files(request)
    tokenizer = read.tokenizer
    catalogue = None
    if Workspace.is_at(home):
        catalogue = open_registry(home, make=False).catalogue
    known = registered_as(catalogue, request.name, tokenizer.digest)
    return {
        "file": f"{read.imported.path} ({read.outcome})",
        "files kept": ", ".join(f"{one.name} ({megabytes(one.bytes)})" for one, _ in read.files),
        "algorithm": tokenizer.algorithm.name,
        "pattern": tokenizer.pattern.name or tokenizer.pattern.regex,
        "normalizer": tokenizer.spec.normalizer_name,
        **({"read so": "; ".join(read.imported.remarks)} if read.imported.remarks else {}),
        "measured on": _measured_on(catalogue, request),
        "registered": f"nothing new: {known} is this tokenizer" if known else "a new version",
        "aliases": alias_moves(request.rules, known),
    }


def _measured_on(catalogue: Catalogue | None, request: ImportRequest) -> str:
    named = None if catalogue is None else catalogue.evaluation_set(request.name)
    sources = len(evaluation_sources(request.evaluation).sources)
    if named is not None:
        return f"evaluation set {named.digest[:8]} of {request.name}"
    if sources:
        return f"{counted(sources, 'source')} of text, which become the set of {request.name}"
    return "not measured: give --eval"
