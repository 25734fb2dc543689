"""Many vocab sizes, split patterns and variants side by side; nothing is registered.

The merges of byte-level BPE are a prefix order, so the largest size of a pattern is trained and
serves the others; other algorithms learn every size. Counts and what was learned stay in the
workspace, so training the one that was chosen takes no time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bpeline.flows.requests import (
    BYTE_BPE,
    PLAIN,
    VARIANTS,
    TrainingRequest,
    choices_of,
)
from bpeline.flows.running import RECORD
from bpeline.flows.steps import MOST_TRIALS, prepared, set_up_evaluation, sweeping, try_sizes
from bpeline.flows.sweep_record import Combination, Sweep, record_sweep
from bpeline.registry.records import CorpusInput
from bpeline.tokenizer_core.companions import kind_of
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.evaluation import NamedShape


def sweep(
    paths: Sequence[str],
    name: str,
    vocab_sizes: Sequence[int],
    patterns: Sequence[str] = (),
    workspace: str | None = None,
    model_shape: NamedShape | None = None,
    variants: Sequence[str] = (),
    **parameters: Any,
) -> Sweep:
    """Measure every size with every pattern and variant, and record it in MLflow.

    Args:
        paths, name, workspace: as for `train_tokenizer`.
        vocab_sizes: numbers of ids.
        patterns: split patterns: names or regexes; that of the algorithm when there are none.
        model_shape: also say what text costs this model.
        variants: names of `VARIANTS`; ``plain`` alone when there are none.
        parameters: others of `train_tokenizer`: algorithm, special_tokens, held_out, evaluation …

    Raises:
        BpelineError: what was asked for, read or written cannot be; the workspace stays good.
    """
    algorithm = parameters.get("algorithm", BYTE_BPE)
    choices_of(algorithm)  # refuses what there is none of
    sizes, patterns = sorted(set(vocab_sizes), reverse=True), list(dict.fromkeys(patterns))
    patterns = patterns or [kind_of(algorithm).default_pattern]
    variants = list(dict.fromkeys(variants)) or [PLAIN]
    if unknown := [one for one in variants if one not in VARIANTS]:
        raise InvalidOption(
            f"there is no variant {unknown[0]!r}", ", ".join(VARIANTS), "variants=['plain']"
        )
    if not sizes or len(sizes) * len(patterns) * len(variants) > MOST_TRIALS:
        raise InvalidOption(
            f"{len(sizes)} sizes, {len(patterns)} patterns and {len(variants)} variants were asked "
            "for",
            f"at least one of each, and {MOST_TRIALS} combinations at most",
            "type `--sizes 8000,16000,32000 --pattern gpt2`",
        )
    told = {**parameters, "paths": list(paths), "name": name}
    requests = [
        (
            pattern,
            variant,
            [
                TrainingRequest.checked(
                    **{**told, **VARIANTS[variant]}, pattern=pattern, vocab_size=size
                )
                for size in sizes
            ],
        )
        for pattern in patterns
        for variant in variants
    ]
    first = requests[0][2][0]
    varied = {"vocab_size": sizes, "pattern": patterns}
    if variants != [PLAIN]:
        varied["variant"] = variants
    with sweeping(first, varied, workspace) as run:
        with prepared(run.registry.tracker) as preparing:
            setup = set_up_evaluation(first, run.registry)
            run.note(setup.skipped_remark)
            combinations: list[Combination] = []
            inputs: list[CorpusInput] = []
            for pattern, variant, all_sizes in requests:
                preparing.join()
                trials, read = try_sizes(run, all_sizes, setup)
                combinations += (Combination.of(trial, pattern, variant) for trial in trials)
                if not inputs and trials[0].evaluated.warning:
                    run.note(trials[0].evaluated.warning)
                inputs = inputs or read
                # What the first pattern held out is what the others are measured on, too.
                setup = replace(setup, made=trials[0].evaluated.made, replaceable=False)
        if model_shape is not None:
            combinations = [one.costing(model_shape) for one in combinations]
            run.note(f"FLOPs are of {model_shape}")
        done = Sweep(name, run.id, tuple(combinations), notes=tuple(run.notes), model=model_shape)
        with run.step(RECORD) as outcome:
            done = record_sweep(done, first, inputs, run.registry)
            outcome(f"{len(combinations)} runs in MLflow")
        return done
