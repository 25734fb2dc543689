"""What a report says of a version, gathered; knows no HTML.

A report is made twice over: right after training, of what the run has at hand, and later of what
the registry remembers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.encoding import unreachable_tokens

if TYPE_CHECKING:
    from bpeline.registry.evaluation import VersionComparison
    from bpeline.registry.records import DevelopmentText
    from bpeline.registry.tokens import Screening
    from bpeline.tokenizer_core.evaluation import TokenUse
    from bpeline.tokenizer_core.tokenizer import Tokenizer

_CURVE_POINTS = 80
Curve = Sequence[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class ReportContents:
    """Everything on the page.

    Attributes:
        title: ``news/3``, or the name where there is no number yet.
        tokenizer: the version's.
        screening: what the personal-data screen found.
        facts: what it is and where it comes from, in the order people read it.
        parameters: what was asked for.
        metrics: measured values by name.
        curves: of some metrics, (vocab size, value).
        notes: what people should know of the run.
        sources: the named sources of the corpus, see `SourceStatistics`; none where paths were.
        development: the texts that said which source each merge served; none as a rule.
        use: how often tokens occur in the training corpus; None where its word counts are gone.
        comparison: with another version, that one first.
        comparison_remark: why there is none.
        chosen_size: how the number of ids was chosen, see `registry.measured`; None where it was
            asked for.
        robustness: by kind and language, see `registry.measured.robustness_table`.
    """

    title: str
    tokenizer: Tokenizer
    screening: Screening
    facts: Mapping[str, str]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    curves: Mapping[str, Curve] = field(default_factory=dict)
    notes: Sequence[str] = ()
    sources: Sequence[Mapping[str, Any]] = ()
    development: Sequence[DevelopmentText] = ()
    use: TokenUse | None = None
    comparison: VersionComparison | None = None
    comparison_remark: str = ""
    robustness: Sequence[tuple[Any, ...]] = ()
    chosen_size: Mapping[str, Any] | None = None

    @property
    def reference(self) -> str:
        """What to type to mean the version."""
        return self.title if "/" in self.title else f"{self.title}@candidate"


def merged_ids(tokenizer: Tokenizer) -> NDArray[np.int64]:
    """Ids that are neither special nor a single byte, ascending."""
    vocab = tokenizer.vocab
    ids = np.fromiter(vocab, np.int64, len(vocab))
    longer = ids[np.fromiter(map(len, vocab.values()), np.int64, len(vocab)) > 1]
    return np.setdiff1d(longer, list(tokenizer.special_tokens.values()))


def junk_ids(tokenizer: Tokenizer, use: TokenUse) -> NDArray[np.int64]:
    """Merged tokens that are mostly steps to longer ones, the most so first."""
    junk = use.junk[np.argsort(-use.absorbed[use.junk], kind="stable")]
    return junk[np.isin(junk, merged_ids(tokenizer))]


def unreachable_ids(tokenizer: Tokenizer) -> dict[int, bytes]:
    """Tokens that are text and that encoding their text does not give; empty for words' tokens."""
    if tokenizer.words is not None:
        return {}
    ordinary = {token: i for i, token in tokenizer.vocab.items() if not tokenizer.is_special(i)}
    found = unreachable_tokens(tokenizer.encoder, ordinary)
    return {id_: token for token, id_ in sorted(found.items(), key=lambda one: one[1])}


def training_curve(tokenizer: Tokenizer, use: TokenUse) -> list[tuple[int, float]]:
    """(vocab size, bytes per token) on the training words; empty where nothing merges."""
    merges = len(use.gains)
    if not merges or not use.bytes:
        return []
    without = tokenizer.vocab_size - merges
    tokens_left = use.bytes - np.concatenate(([0], np.cumsum(use.gains)))
    sizes = np.unique(np.geomspace(without, tokenizer.vocab_size, _CURVE_POINTS).astype(np.int64))
    return [(int(size), use.bytes / int(tokens_left[size - without])) for size in sizes]


def saved_by_last(use: TokenUse) -> float:
    """The share of tokens that the last tenth of the merges saves."""
    last = int(len(use.gains) * 0.1)
    tokens = int(use.left.sum())
    saved = int(use.gains[len(use.gains) - last :].sum())
    return saved / (tokens + saved) if tokens else 0.0
