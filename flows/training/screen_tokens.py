"""The tokens of a finished tokenizer are counted in the training words and screened for data."""

from __future__ import annotations

from dataclasses import dataclass, replace

from flows.steps import step
from flows.training.combine_counts import CountedWords
from flows.training.learn import Learned
from flows.training.training_request import TrainingRequest
from registry.screening import ONE_DOCUMENT, Screening, TrainedOn, screen
from registry.word_counts.corpus_record import corpus_record
from registry.word_counts.mixtures import as_counted
from registry.word_counts.store import WordCountStore
from registry.workspace.workspace import Workspace
from tokenizer_core.errors import CorruptFile
from tokenizer_core.evaluation.token_use import TokenUse, token_use


@dataclass(frozen=True, slots=True)
class ScreenedTokens:
    """What the training words say of the vocab.

    Attributes:
        use: how often tokens occur in them.
        screening: what looks like personal data.
    """

    use: TokenUse
    screening: Screening

    @property
    def outcome(self) -> str:
        said = f"{len(self.screening.suspicions):,} tokens look like personal data"
        if ONE_DOCUMENT in self.screening.metrics:
            return f"{said}, {len(self.screening.one_document):,} come from one document alone"
        unread = len(self.screening.unread)
        return f"{said}; {unread:,} come from one chunk that cannot be read" if unread else said


@step(name="screen tokens")
def screen_tokens(
    learned: Learned, words: CountedWords, request: TrainingRequest, workspace: Workspace
) -> ScreenedTokens:
    """Count tokens in the words trained on, and screen them.

    Raises:
        CorruptFile: counts are damaged; the step before makes them anew.
    """
    tokenizer = learned.tokenizer(request)
    store = WordCountStore(workspace)
    weighted = store.open_table(words.table)
    use = token_use(tokenizer, weighted)
    files = corpus_record(workspace, words.corpus_digest) or ()
    trained = TrainedOn(weighted, use, files, request.reading)
    if any(one.weight != 1 for one in words.sources):
        # Chunks hold what occurs in them: with what was counted they can be compared.
        counted = as_counted(store, [one.table_key for one in words.sources if one.weight])
        trained = replace(trained, words=counted, use=token_use(tokenizer, counted))
    try:
        return ScreenedTokens(use, screen(tokenizer, workspace, trained))
    except CorruptFile:  # of a shard that nobody has read since its table was made
        store.forget_damaged(words.shards)
        raise
