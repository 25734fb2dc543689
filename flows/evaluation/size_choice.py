"""Choice of the vocab size with the lowest cost for a model, from one training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bpeline.flows.counting import CorpusPlan, CountedWords
from bpeline.flows.evaluation.new_versions import texts_to_measure
from bpeline.flows.evaluation.setup import EvaluationSetup
from bpeline.flows.learning import Learned, initial_merges, learn_unwatched
from bpeline.flows.requests import LARGEST_VOCAB, TrainingRequest
from bpeline.registry.opening import Registry
from bpeline.tokenizer_core.counting import count_texts
from bpeline.tokenizer_core.errors import EmptyCorpus
from bpeline.tokenizer_core.evaluation import (
    MULTIPLE,
    CheapestSize,
    EvaluationText,
    NamedShape,
    bytes_per_token_at,
    cheapest_size,
    sizes_between,
)

LITTLE = 0.01  # relative difference in cost that does not matter


@dataclass(frozen=True, slots=True)
class SizeChoice:
    """The vocab size chosen for a model, with the costs of all sizes.

    Attributes:
        largest: the largest size requested; the corpus may have too few pairs for it.
    """

    model: NamedShape
    found: CheapestSize
    largest: int
    measured_on: str
    set_digest: str

    @property
    def size(self) -> int:
        """The chosen size."""
        return self.found.best.vocab_size

    @property
    def reached(self) -> int:
        """The largest size that was trained."""
        return self.found.costs[-1].vocab_size

    @property
    def at_edge(self) -> str:
        """A note if the cheapest size is at an end of the range, else empty."""
        if self.found.at_edge == "smallest":
            return "the cheapest is the smallest size considered"
        if self.found.at_edge and self.reached < self.largest:
            return (
                f"the cheapest is the largest size that the corpus allows: no pair is left for "
                f"{self.largest:,} ids"
            )
        if self.found.at_edge:
            return (
                "the cheapest is the largest size considered: a larger one may cost "
                f"less (`--largest-size {min(2 * self.largest, LARGEST_VOCAB)}`)"
            )
        return ""

    @property
    def said(self) -> str:
        """Summary of the choice in one sentence."""
        best, (low, high) = self.found.best, self.found.near(LITTLE)
        summary = (
            f"{self.size:,} ids, of {self.found.costs[0].vocab_size:,} to {self.reached:,}: a byte "
            f"costs {self.model.title} {best.flops_per_byte / 1e6:,.1f} MFLOPs"
        )
        if low < high:
            summary += f"; {low:,} to {high:,} ids cost at most {LITTLE:.0%} more"
        return f"{summary}; {self.at_edge}" if self.at_edge else summary

    @property
    def metrics(self) -> dict[str, float]:
        """Costs of the chosen size, by metric name."""
        return self.model.figures(self.size, self.found.best.bytes_per_token)

    def curves_of(
        self, curve: Sequence[tuple[int, float]]
    ) -> dict[str, tuple[tuple[int, float], ...]]:
        """Return the costs of smaller sizes: metric name → (vocab size, value)."""
        costs = [(size, self.model.figures(size, value)) for size, value in curve]
        return {name: tuple((size, of[name]) for size, of in costs) for name in self.metrics}

    @property
    def params(self) -> dict[str, Any]:
        """Parameters of the choice for MLflow."""
        return {
            "chosen_vocab_size": self.size,
            "chosen_for": str(self.model),
            "chosen_from": f"{self.found.costs[0].vocab_size} to {self.reached}",
        }

    def as_record(self) -> dict[str, Any]:
        """Return the choice as JSON values, see `registry.evaluation.measured`."""
        low, high = self.found.near(LITTLE)
        return {
            "vocab_size": self.size,
            "said": self.said,
            "at_edge": self.found.at_edge or None,
            "model": self.model.as_dict(),
            "smallest": self.found.costs[0].vocab_size,
            "largest": self.largest,
            "reached": self.reached,
            "near": [low, high],
            "near_share": LITTLE,
            "set": self.set_digest or None,
            "measured_on": self.measured_on,
            "curve": [
                [cost.vocab_size, cost.bytes_per_token, cost.flops_per_byte]
                for cost in self.found.shown
            ],
        }


@dataclass(frozen=True, slots=True)
class Sized:
    """The merges and request at the final size; no ``choice`` if it was requested."""

    request: TrainingRequest
    learned: Learned
    choice: SizeChoice | None = None

    @property
    def outcome(self) -> str:
        return "" if self.choice is None else self.choice.said


def choose_size(
    learned: Learned,
    words: CountedWords,
    plan: CorpusPlan,
    setup: EvaluationSetup,
    request: TrainingRequest,
    registry: Registry,
) -> Sized:
    """Choose the cheapest size within one training, measured on the evaluation texts."""
    measured = texts_to_measure(words, plan, setup, request, registry, adopts=False)
    initial, _ = (
        (None, None) if request.transition_size else initial_merges(request, registry.workspace)
    )
    smallest = request.smallest_size_after(0 if initial is None else len(initial))
    cheapest = _cheapest(learned, measured.texts, request, smallest)
    made = measured.on.made
    choice = SizeChoice(
        request.model,
        cheapest,
        request.vocab_size,
        str(measured.on),
        "" if made is None else made.digest,
    )
    decided = request.of_size(choice.size)
    if request.transition_size:
        return Sized(decided, learn_unwatched(words, decided, registry.workspace), choice)
    merges = min(decided.merges, learned.merges)
    shortened = replace(learned, merges=merges, wanted=merges, resumed=min(learned.resumed, merges))
    return Sized(decided, shortened, choice)


def _cheapest(
    learned: Learned, texts: list[EvaluationText], request: TrainingRequest, smallest: int
) -> CheapestSize:
    """Return the cost of every size, including reserved ids; the last uses all merges."""
    bare, rounded = learned.without_slots(request), request.round_to
    documents = (document.decode() for text in texts for document in text.documents)
    counts = count_texts(documents, bare.pattern, tuple(bare.special_tokens))
    if not (size := counts.total_bytes):
        raise EmptyCorpus(
            "there is no word in the texts that determine the cheapest size",
            "expected texts of --eval, or a corpus with held-out text",
            "name text with `--eval 'text=heldout.txt'`, or a size with `--vocab-size 32000`",
        )
    most = -(-(bare.vocab_size + request.reserve) // rounded) * rounded
    sizes = sizes_between(min(smallest, most), most, rounded if rounded > 1 else MULTIPLE)
    merged = [min(ids - request.reserve, bare.vocab_size) for ids in sizes]
    curve = bytes_per_token_at(bare, size, bare.merge_gains(counts), merged)
    values = (value for _, value in curve)
    return cheapest_size(request.model.shape, list(zip(sizes, values, strict=True)))
