"""Screening of tokens for personal data, and forbidding what it finds."""

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
    """Write out the findings that ``forbid_from`` names; return a note about them too.

    The kept request then means the same after an alias moves or the version is deleted.
    """
    if not request.forbid_from:
        return request, ""
    registry = open_registry(workspace, make=False)
    kinds_forbidden, tokens, notes = list(request.forbid), list(request.forbidden_tokens), []
    for reference in request.forbid_from:
        version = resolve(registry, parse_registered(reference))
        tokenizer = load_version(registry, version)
        stored = kept_screening(evaluation_of(registry, version), tokenizer)
        screening = screen(tokenizer, registry.workspace) if stored is None else stored
        kinds = sorted({suspicion.kind for suspicion in screening.suspicions})
        spellings = [spelling_of(tokenizer.vocab[id_]) for id_ in screening.one_document]
        kinds_forbidden += kinds
        tokens += spellings
        notes.append(
            f"{version}: {_described(screening, kinds, len(spellings), stored is not None)}"
        )
    changes = {"forbid": kinds_forbidden, "forbidden_tokens": tokens, "forbid_from": ()}
    parameters = {name: getattr(request, name) for name in request.model_fields_set} | changes
    note = f"forbidden, as found by screening {'; '.join(notes)}"
    return TrainingRequest.checked(**parameters), note


def _described(found: Screening, kinds: Sequence[str], alone: int, is_kept: bool) -> str:
    summary = f"{' and '.join(kinds) or 'no kind of personal data'}"
    if found.unread or not (is_kept and found.chunks):
        return f"{summary}; tokens from a single document are not known for all of it"
    return f"{summary}, {counted(alone, 'token')} of one document"


@dataclass(frozen=True, slots=True)
class ScreenedTokens:
    """The counts of tokens in the words trained on, and the suspicious tokens."""

    use: TokenUse
    screening: Screening

    @property
    def outcome(self) -> str:
        summary = f"{len(self.screening.suspicions):,} tokens look like personal data"
        if ONE_DOCUMENT in self.screening.metrics:
            return f"{summary}, {len(self.screening.one_document):,} come from one document alone"
        unread = len(self.screening.unread)
        return (
            f"{summary}; {unread:,} come from one chunk that cannot be read" if unread else summary
        )


def screen_tokens(
    words: CountedWords,
    plan: CorpusPlan,
    corpus: CountedCorpus,
    evaluated: Evaluated,
    workspace: Workspace,
) -> ScreenedTokens:
    """Screen the tokens of a trained tokenizer."""
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
    if any(source.weight != 1 for source in words.sources):
        # Chunks have unweighted counts, so they can only be compared with unweighted words.
        counted = as_counted(store, [source.table_key for source in words.sources if source.weight])
        made = MadeTokens.of(tokenizer, counted)
        use_of_counted = token_use(tokenizer, counted, made)
        trained = replace(trained, words=counted, use=use_of_counted, made=made)
    try:
        return ScreenedTokens(use, screen(tokenizer, workspace, trained))
    except CorruptFile:  # a shard that was not read since its table was written
        store.forget_damaged(words.shards)
        raise
