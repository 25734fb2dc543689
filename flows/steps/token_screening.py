"""The tokens of a finished tokenizer are screened for personal data."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bpeline.flows.requests import TrainingRequest
from bpeline.flows.running import SCREEN_TOKENS, step
from bpeline.flows.steps.chunk_plan import CorpusPlan
from bpeline.flows.steps.combining import CountedWords
from bpeline.flows.steps.counting import CountedCorpus
from bpeline.flows.steps.evaluating import Evaluated
from bpeline.registry.tokens import ONE_DOCUMENT, Screening, TrainedOn, screen
from bpeline.registry.word_counts import WordCountStore, as_counted, corpus_record
from bpeline.registry.workspace import Workspace
from bpeline.tokenizer_core.counting import Copies
from bpeline.tokenizer_core.errors import CorruptFile
from bpeline.tokenizer_core.evaluation import MadeTokens, TokenUse, token_use


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


@step(SCREEN_TOKENS)
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
        unchanged=unchanged, made=made, copies=corpus.copies or Copies(),
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
