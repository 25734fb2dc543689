"""The tokens of a finished tokenizer are counted in the training words and screened for data."""

from __future__ import annotations

from dataclasses import dataclass

from flows.combine_counts import CountedWords
from flows.learn import Learned
from flows.steps import step
from flows.training_request import TrainingRequest
from registry.screening import ONE_CHUNK, Screening, screen
from registry.word_count_store import WordCountStore
from registry.workspace import Workspace
from tokenizer_core.token_use import TokenUse, token_use


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
        if ONE_CHUNK not in self.screening.metrics:
            return said
        return f"{said}, {len(self.screening.one_chunk):,} come from one chunk alone"


@step(name="screen tokens")
def screen_tokens(
    learned: Learned, words: CountedWords, request: TrainingRequest, workspace: Workspace
) -> ScreenedTokens:
    """Count tokens in the words trained on, and screen them.

    Raises:
        CorruptFile: counts are damaged; the step before makes them anew.
    """
    tokenizer = learned.tokenizer(request)
    use = token_use(tokenizer, WordCountStore(workspace).open_table(words.table))
    return ScreenedTokens(use, screen(tokenizer, use, workspace, words.shards))
