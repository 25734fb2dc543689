"""What if sources counted more or less: weights and temperatures side by side, nothing registered.

Words are counted once; each choice costs the weighted sum, the merges and the measuring.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bpeline.flows.mixtures_record import Choice, Mixtures, record_mixtures
from bpeline.flows.requests import PRESENT
from bpeline.flows.running import COMBINE_COUNTS, RECORD
from bpeline.flows.steps import (
    combine_counts,
    corpus_inputs,
    count_once,
    evaluation_inputs,
    prepared,
    refuse_choice,
    requests_of_mixtures,
    set_up_evaluation,
    sweeping,
    try_out,
)
from bpeline.registry.records import CorpusInput
from bpeline.tokenizer_core.arguments import checked
from bpeline.tokenizer_core.tokenizer import Tokenizer


@checked
def compare_mixtures(
    corpus: str,
    weights: Sequence[Mapping[str, float]] = (),
    temperatures: Sequence[float] = (),
    workspace: str | None = None,
    **parameters: Any,
) -> Mixtures:
    """Train with every choice of weights and every temperature, and measure each slice of the text.

    Args:
        corpus: a corpus file, or a registered version that was trained on named sources.
        weights: source → weight, for each choice; sources left out keep their weights.
        temperatures: each is a choice of its own, with the weights as they are.
        workspace, parameters: as for `train_tokenizer`: name, vocab_size, held_out, evaluation …
            Those of a version are its own, unless given.

    Raises:
        InvalidOption: no choice at all or too many, a source that is not there, a version that was
            trained on files without names.
        BpelineError: what was asked for, read or written cannot be; the workspace stays good.
    """
    refuse_choice(parameters)
    requests = requests_of_mixtures(corpus, weights, temperatures, workspace, parameters)
    first = next(iter(requests.values()))
    varied = {"sources": [list(one.sources) for one in requests.values()], "mixtures": [*requests]}
    with sweeping(first, varied, workspace) as run:
        with prepared(run.registry.tracker) as preparing:
            setup = set_up_evaluation(first, run.registry)
            run.note(setup.skipped_remark)
            plan, counted = count_once(run, first, setup)
            preparing.join()
            choices: list[Choice] = []
            first_one: dict[str, Tokenizer] = {}
            inputs: list[CorpusInput] = []
            for title, request in requests.items():
                with run.step(COMBINE_COUNTS) as outcome:
                    words = combine_counts(counted, request, run.registry, run.id)
                    outcome(f"{title}: {words.outcome}")
                trial = try_out(run, words, plan, setup, request, beside=first_one)
                first_one = first_one or {PRESENT: trial.evaluated.tokenizer}
                choices.append(Choice.of(title, trial))
                if not inputs:
                    inputs += corpus_inputs(plan, counted, words, request)
                    inputs += evaluation_inputs(trial.evaluated)
                    if trial.evaluated.warning:
                        run.note(trial.evaluated.warning)
        done = Mixtures(first.name, run.id, trial.vocab_size, tuple(choices))
        with run.step(RECORD) as outcome:
            done = record_mixtures(done, requests, inputs, run.registry)
            outcome(f"{len(choices)} runs in MLflow")
        return done
