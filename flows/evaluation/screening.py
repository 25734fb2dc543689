"""Tokens screened for personal data, and findings that a training forbids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bpeline.flows.counting import CorpusPlan, CountedCorpus, CountedWords
from bpeline.flows.evaluation.evaluated import Evaluated
from bpeline.flows.requests import TrainingRequest
from bpeline.flows.wording import counted
from bpeline.registry.evaluation import evaluation_of
from bpeline.registry.loading import load_version, resolve
from bpeline.registry.opening import open_registry
from bpeline.registry.records import parse_registered
from bpeline.registry.tokens import ONE_DOCUMENT, Screening, TrainedOn, kept_screening, screen
from bpeline.registry.word_counts import WordCountStore, as_counted, corpus_record
from bpeline.registry.workspace import Workspace
from bpeline.tokenizer_core.counting import Duplicates
from bpeline.tokenizer_core.errors import CorruptFile
from bpeline.tokenizer_core.evaluation import MadeTokens, TokenUse, token_use
from bpeline.tokenizer_core.training import spelling_of


def with_forbidden_tokens(
    request: TrainingRequest, workspace: str | None
) -> tuple[TrainingRequest, str]:
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


@dataclass(frozen=True, slots=True)
class ScreenedTokens:
    """How often tokens occur in the words trained on, and what looks like personal data."""

    use: TokenUse
    screening: Screening

    @property
    def outcome(self) -> str:
        said = f"{len(self.screening.suspicions):,} tokens look like personal data"
        if ONE_DOCUMENT in self.screening.metrics:
            return f"{said}, {len(self.screening.one_document):,} come from one document alone"
        unread = len(self.screening.unread)
        return f"{said}; {unread:,} come from one chunk that cannot be read" if unread else said


def screen_tokens(
    words: CountedWords,
    plan: CorpusPlan,
    corpus: CountedCorpus,
    evaluated: Evaluated,
    request: TrainingRequest,
    workspace: Workspace,
) -> ScreenedTokens:
    """Screen the tokens.

    Raises:
        CorruptFile: counts are damaged; the step before makes them anew.
    """
    tokenizer = evaluated.tokenizer
    store = WordCountStore(workspace)
    weighted = store.open_table(words.table)
    files = corpus_record(workspace, words.corpus_digest) or ()
    unchanged = {file.path: file for file in plan.files}
    assert evaluated.trained is not None, "it was measured after training"
    use, made = evaluated.trained.use, evaluated.trained.made
    trained = TrainedOn(
        weighted, use, files, plan.reading,
        unchanged=unchanged, made=made, copies=corpus.copies or Duplicates(),
    )  # fmt: skip
    if any(one.weight != 1 for one in words.sources):
        # Chunks hold what occurs in them: with what was counted they can be compared.
        counted = as_counted(store, [one.table_key for one in words.sources if one.weight])
        made = MadeTokens.of(tokenizer, counted)
        use_of_counted = token_use(tokenizer, counted, made)
        trained = replace(trained, words=counted, use=use_of_counted, made=made)
    try:
        return ScreenedTokens(use, screen(tokenizer, workspace, trained))
    except CorruptFile:  # of a shard that nobody has read since its table was made
        store.forget_damaged(words.shards)
        raise
