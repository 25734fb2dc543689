"""Many vocab sizes and split patterns measured side by side; nothing is registered.

The merges of byte-level BPE are a prefix order, so the largest size of a pattern is trained and
serves the others; other algorithms learn every size. Counts and what was learned stay in the
workspace, so training the one that was chosen takes no time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from bpeline.flows.requests import BYTE_BPE, CHAMPION, TrainingRequest, choices_of
from bpeline.flows.running import (
    COMBINE_COUNTS,
    COUNT_WORDS,
    EVALUATE,
    LEARN_MERGES,
    PLAN_CHUNKS,
    RECORD,
    progress,
)
from bpeline.flows.steps import (
    Evaluated,
    TrainingRun,
    combine_counts,
    corpus_inputs,
    count_words,
    curves_of,
    evaluate,
    evaluation_inputs,
    learn,
    metrics_of,
    plan_chunks,
    prepared,
    set_up_evaluation,
)
from bpeline.flows.sweep_record import Combination, Sweep
from bpeline.registry.opening import open_registry
from bpeline.tokenizer_core.algorithms import ALGORITHMS
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.evaluation import ALL, BYTES_PER_TOKEN

if TYPE_CHECKING:
    from bpeline.registry.records import CorpusInput

SWEEP = "sweep"  # the member of a run's configuration that says it is one
MOST_COMBINATIONS = 200


def sweep(
    paths: Sequence[str],
    name: str,
    vocab_sizes: Sequence[int],
    patterns: Sequence[str] = (),
    workspace: str | None = None,
    **parameters: Any,
) -> Sweep:
    """Measure every size with every pattern, and record it in MLflow.

    Args:
        paths, name, workspace: as for `train_tokenizer`.
        vocab_sizes: numbers of ids.
        patterns: split patterns: names or regexes; that of the algorithm when there are none.
        parameters: others of `train_tokenizer`: algorithm, special_tokens, held_out, evaluation …

    Raises:
        BpelineError: what was asked for, read or written cannot be; the workspace stays good.
    """
    algorithm = parameters.get("algorithm", BYTE_BPE)
    choices_of(algorithm)  # refuses what there is none of
    usual = ALGORITHMS[algorithm].default_pattern
    sizes, patterns = sorted(set(vocab_sizes), reverse=True), list(dict.fromkeys(patterns))
    patterns = patterns or [usual]
    if not sizes or len(sizes) * len(patterns) > MOST_COMBINATIONS:
        raise InvalidOption(
            f"{len(sizes)} sizes and {len(patterns)} patterns were asked for",
            f"at least one of each, and {MOST_COMBINATIONS} combinations at most",
            "type `--sizes 8000,16000,32000 --pattern gpt2`",
        )
    requests = [
        _request(paths, name, pattern, size, parameters) for pattern in patterns for size in sizes
    ]
    asked = {"vocab_size": sizes, "pattern": patterns}
    with sweeping(requests[0], asked, workspace) as run:
        with prepared(run.registry.tracker) as preparing:
            if len(patterns) > 1 and not requests[0].evaluation:
                run.note(
                    "which sections are held out depends on the split pattern a little: name a "
                    "text with --eval to compare patterns on the very same one"
                )
            combinations: list[Combination] = []
            inputs: list[CorpusInput] = []
            for number in range(0, len(requests), len(sizes)):
                preparing.join()
                found, read = _of_pattern(run, requests[number : number + len(sizes)])
                combinations += found
                inputs = inputs or read
        done = Sweep(name, run.id, tuple(combinations))
        with run.step(RECORD) as outcome:
            from bpeline.flows.sweep_record import record_sweep

            done = record_sweep(done, requests[0], inputs, run.registry)
            outcome(f"{len(combinations)} runs in MLflow")
        return done


def _request(
    paths: Sequence[str], name: str, pattern: str, size: int, parameters: dict[str, Any]
) -> TrainingRequest:
    return TrainingRequest.checked(
        **parameters, paths=list(paths), name=name, pattern=pattern, vocab_size=size
    )


def _of_pattern(
    run: TrainingRun, requests: Sequence[TrainingRequest]
) -> tuple[list[Combination], list[CorpusInput]]:
    """All sizes of one pattern, the largest first: it is trained and serves the others."""
    largest, workspace = requests[0], run.workspace
    setup = set_up_evaluation(largest, workspace)
    with run.step(PLAN_CHUNKS) as outcome:
        plan = plan_chunks(largest, run.registry)
        outcome(f"{largest.pattern}: {plan.outcome}")
    with run.step(COUNT_WORDS, plan.bytes_to_read, "bytes") as outcome:
        corpus = count_words(plan, largest, run.registry)
        outcome(corpus.outcome)
    with run.step(COMBINE_COUNTS) as outcome:
        words = combine_counts(corpus, largest, run.registry, run.id)
        outcome(words.outcome)
    inputs = corpus_inputs(plan, corpus, words, largest)
    found: dict[int, Combination] = {}
    for request in requests:
        with run.step(LEARN_MERGES, request.merges_shown, "merges") as outcome:
            learned = learn(words, request, workspace)
            outcome(learned.outcome)
        with run.step(EVALUATE) as outcome:
            evaluated = evaluate(learned, words, plan, setup, request, run.registry)
            outcome(f"{evaluated.report.vocab_size:,} ids: {evaluated.outcome}")
        digest = learned.tokenizer(request).digest
        combination = _combination(request, evaluated, digest)
        found.setdefault(combination.vocab_size, combination)
        inputs = [*inputs, *(one for one in evaluation_inputs(evaluated) if one not in inputs)]
    return sorted(found.values(), key=lambda one: one.vocab_size), inputs


def _combination(request: TrainingRequest, evaluated: Evaluated, digest: str) -> Combination:
    champion = evaluated.evaluation.opponents.get(CHAMPION)
    return Combination(
        request.pattern,
        evaluated.report.vocab_size,
        metrics_of(evaluated),
        {BYTES_PER_TOKEN: evaluated.report.curve, **curves_of(evaluated)},
        None if champion is None else champion.changes[ALL].value,
        evaluated.record(digest),
    )


@contextmanager
def sweeping(
    request: TrainingRequest, varied: Mapping[str, Any], workspace: str | None
) -> Iterator[TrainingRun]:
    """Hold the workspace; the row in the catalogue is no training that could be continued.

    Args:
        request: one of those that are measured.
        varied: its members that vary, with all their values.
        workspace: as for `train_tokenizer`.
    """
    registry = open_registry(workspace)
    asked = {**request.as_config(), **varied}
    with registry.workspace.lock(f"sweeping {request.name!r}") as held:
        row = registry.catalogue.start_run(request.name, {SWEEP: asked})
        run = TrainingRun(row.id, request, registry, progress.current(), held.doing)
        try:
            yield run
        except BaseException as error:
            registry.catalogue.fail_run(row.id, str(error) or type(error).__name__)
            raise
        registry.catalogue.finish_run(row.id)
