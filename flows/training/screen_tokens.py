"""The tokens of a finished tokenizer are screened for personal data."""

from __future__ import annotations

from dataclasses import dataclass, replace

from flows.evaluation.evaluate import Evaluated
from flows.steps import step
from flows.training.combine_counts import CountedWords
from flows.training.plan_chunks import CorpusPlan
from flows.training.training_request import TrainingRequest
from registry.screening import ONE_DOCUMENT, Screening, TrainedOn, screen
from registry.word_counts.corpus_record import corpus_record
from registry.word_counts.mixtures import as_counted
from registry.word_counts.store import WordCountStore
from registry.workspace.workspace import Workspace
from tokenizer_core.errors import CorruptFile
from tokenizer_core.evaluation.made_tokens import MadeTokens
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
    words: CountedWords,
    plan: CorpusPlan,
    evaluated: Evaluated,
    request: TrainingRequest,
    workspace: Workspace,
) -> ScreenedTokens:
    """Screen the tokens.

    Args:
        plan: of the files whose words were counted.
        evaluated: the tokenizer, and its tokens in the words trained on.

    Raises:
        CorruptFile: counts are damaged; the step before makes them anew.
    """
    tokenizer = evaluated.tokenizer
    store = WordCountStore(workspace)
    weighted = store.open_table(words.table)
    files = corpus_record(workspace, words.corpus_digest) or ()
    unchanged = {file.path: file for file in plan.files}
    use, made = evaluated.use, evaluated.made
    trained = TrainedOn(weighted, use, files, request.reading, unchanged=unchanged, made=made)
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
