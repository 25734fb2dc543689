"""Many vocab sizes, split patterns and variants side by side; nothing is registered.

The merges of byte-level BPE are a prefix order, so the largest size of a pattern is trained and
serves the others; other algorithms learn every size. Counts and what was learned stay in the
workspace, so training the one that was chosen takes no time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bpeline.flows.extend import across_spaces
from bpeline.flows.requests import (
    BYTE_BPE,
    PLAIN,
    SUPERBPE,
    VARIANTS,
    TrainingRequest,
    choices_of,
    transition_size,
)
from bpeline.flows.running import RECORD
from bpeline.flows.steps import (
    MOST_TRIALS,
    keep_words,
    prepared,
    refuse_choice,
    set_up_evaluation,
    sweeping,
    try_sizes,
)
from bpeline.flows.sweep_record import Combination, Sweep, record_sweep
from bpeline.registry.records import CorpusInput
from bpeline.tokenizer_core.arguments import checked
from bpeline.tokenizer_core.companions import kind_of
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.evaluation import NamedShape
from bpeline.tokenizer_core.tokenizer import Tokenizer


@checked
def sweep(
    paths: Sequence[str | Path],
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
        variants: names of `VARIANTS`; ``plain`` alone when there are none. With ``superbpe`` the
            plain one is tried too: it gives nine tenths of the ids.
        parameters: others of `train_tokenizer`: algorithm, special_tokens, held_out, evaluation …

    Raises:
        BpelineError: what was asked for, read or written cannot be; the workspace stays good.
    """
    refuse_choice(parameters)
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
    if SUPERBPE in variants:
        if algorithm != BYTE_BPE:
            raise InvalidOption(
                f"the variant {SUPERBPE} was asked for of {algorithm}",
                f"superwords go on behind the merges of {BYTE_BPE}",
                f"leave out --algorithm, or --variant {SUPERBPE}",
            )
        variants = [PLAIN, *(one for one in variants if one != PLAIN)]  # whose words it begins with
    asked = _Asked({**parameters, "paths": list(map(str, paths)), "name": name}, tuple(sizes))
    for pattern in patterns:
        for variant in variants:
            asked.requests(pattern, variant)  # refuses now what cannot be trained later
    first = asked.requests(patterns[0], variants[0])[0]
    varied = {"vocab_size": sizes, "pattern": patterns}
    if variants != [PLAIN]:
        varied["variant"] = variants
    with sweeping(first, varied, workspace) as run:
        with prepared(run.registry.tracker) as preparing:
            setup = set_up_evaluation(first, run.registry)
            run.note(setup.skipped_remark)
            combinations: list[Combination] = []
            inputs: list[CorpusInput] = []
            for pattern in patterns:
                words = None
                for variant in variants:
                    preparing.join()
                    title = pattern if variant == PLAIN else f"{pattern} {variant}"
                    requests = asked.requests(pattern, variant, words)
                    trials, read = try_sizes(run, requests, setup, title)
                    combinations += (Combination.of(trial, pattern, variant) for trial in trials)
                    if not inputs and trials[0].evaluated.warning:
                        run.note(trials[0].evaluated.warning)
                    inputs = inputs or read
                    # What the first pattern held out is what the others are measured on, too.
                    setup = replace(setup, made=trials[0].evaluated.made, replaceable=False)
                    if variant == PLAIN and SUPERBPE in variants:
                        words = trials[-1].evaluated.tokenizer
                        keep_words(words, run.workspace)
        if model_shape is not None:
            combinations = [one.costing(model_shape) for one in combinations]
            run.note(f"FLOPs are of {model_shape}")
        done = Sweep(name, run.id, tuple(combinations), notes=tuple(run.notes), model=model_shape)
        with run.step(RECORD) as outcome:
            done = record_sweep(done, first, inputs, run.registry)
            outcome(f"{len(combinations)} runs in MLflow")
        return done


@dataclass(frozen=True, slots=True)
class _Asked:
    """What all trainings of a sweep are told, and their sizes, the largest first."""

    told: Mapping[str, Any]
    sizes: tuple[int, ...]

    def requests(
        self, pattern: str, variant: str, words: Tokenizer | None = None
    ) -> list[TrainingRequest]:
        """One for each size.

        Args:
            words: the plain training of the pattern, where it was tried: what superwords follow.

        Raises:
            InvalidOption: a training that cannot be.
        """
        told = {**self.told, **VARIANTS[variant]}
        made = []
        for size in self.sizes:
            own: dict[str, Any] = {"pattern": pattern, "vocab_size": size}
            if variant == SUPERBPE and words is not None:
                known = min(transition_size(size), words.vocab_size)
                own |= across_spaces(words, known)
            made.append(TrainingRequest.checked(**told | own))
        return made
