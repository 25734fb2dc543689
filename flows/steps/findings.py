"""What screening found in registered versions becomes what a training forbids. Screens no text."""

from __future__ import annotations

from collections.abc import Sequence

from bpeline.flows.requests import TrainingRequest
from bpeline.flows.wording import counted
from bpeline.registry.evaluation import evaluation_of
from bpeline.registry.loading import load_version, resolve
from bpeline.registry.opening import open_registry
from bpeline.registry.records import parse_registered
from bpeline.registry.tokens import Screening, kept_screening, screen
from bpeline.tokenizer_core.training import spelling_of


def with_findings(request: TrainingRequest, workspace: str | None) -> tuple[TrainingRequest, str]:
    """The request with the findings that ``forbid_from`` names written out, and a note about them.

    So the request that is kept says what was forbidden: it means the same when an alias has moved
    or the version is gone.

    Args:
        request: returned as it is where it names no version.
        workspace: its directory; None takes the configured one.

    Raises:
        InvalidOption: a reference that is misspelt or a path, or a token that is required as well.
        UnknownVersion: there is no such version.
    """
    if not request.forbid_from:
        return request, ""
    registry = open_registry(workspace, make=False)
    looks, tokens, said = list(request.forbid), list(request.forbidden_tokens), []
    for reference in request.forbid_from:
        version = resolve(registry, parse_registered(reference))
        tokenizer = load_version(registry, version)
        kept = kept_screening(evaluation_of(registry, version), tokenizer)
        found = screen(tokenizer, registry.workspace) if kept is None else kept
        kinds = sorted({one.kind for one in found.suspicions})
        alone = [spelling_of(tokenizer.vocab[id_]) for id_ in found.one_document]
        looks += kinds
        tokens += alone
        said.append(f"{version}: {_described(found, kinds, len(alone), kept is not None)}")
    told = {"forbid": looks, "forbidden_tokens": tokens, "forbid_from": ()}
    parameters = {name: getattr(request, name) for name in request.model_fields_set} | told
    found_in = f"forbidden, as screening found it in {'; '.join(said)}"
    return TrainingRequest.checked(**parameters), found_in


def _described(found: Screening, kinds: Sequence[str], alone: int, is_kept: bool) -> str:
    said = f"{' and '.join(kinds) or 'no kind of personal data'}"
    if found.unread or not (is_kept and found.chunks):
        return f"{said}; which tokens one document alone made is not known of all"
    return f"{said}, {counted(alone, 'token')} of one document"
