"""Comparison of many vocab sizes, split patterns, variants and mixtures.

With byte-level BPE only the largest size of a pattern is trained, because smaller sizes are its
prefixes; other algorithms train every size. Counts and results are cached, so training the chosen
combination takes no time. A mixture has other weights of the named sources or another temperature;
all mixtures use the same counts. Nothing is registered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bpeline.flows.deriving import across_spaces
from bpeline.flows.evaluation import set_up_evaluation
from bpeline.flows.learning import keep_words
from bpeline.flows.requests import (
    BYTE_BPE,
    PLAIN,
    SUPERBPE,
    VARIANTS,
    TrainingRequest,
    choices_of,
    decimal,
    is_version,
    transition_size,
    with_weights,
)
from bpeline.flows.running import steps
from bpeline.flows.sweep_record import (
    MOST_TRIALS,
    Combination,
    Sweep,
    record_sweep,
    refuse_choice,
    try_sizes,
)
from bpeline.flows.trainings import prepared, training_run
from bpeline.registry.loading import resolve
from bpeline.registry.opening import open_registry
from bpeline.registry.records import CorpusInput, parse_registered, validate_name
from bpeline.registry.versions import Lineage
from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.evaluation import NamedShape
from bpeline.tokenizer_core.plugins import kind_of
from bpeline.tokenizer_core.tokenizer import Tokenizer

_HOW = {"workers", "table_memory", "rules"}  # parameters of a version that are not reused


def sweep(
    paths: Sequence[str | Path],
    name: str | None = None,
    vocab_sizes: Sequence[int] = (),
    patterns: Sequence[str] = (),
    workspace: str | None = None,
    model_shape: NamedShape | None = None,
    variants: Sequence[str] = (),
    weights: Sequence[Mapping[str, float]] = (),
    temperatures: Sequence[float] = (),
    **parameters: Any,
) -> Sweep:
    """Measure all sizes with all patterns, variants and mixtures; record in MLflow.

    Args:
        paths, name, workspace: as for `train_tokenizer`. To compare mixtures, a registered version
            with named sources can replace the corpus; it also provides defaults for name, size,
            pattern and other parameters.
        variants: names in `VARIANTS`; ``plain`` if empty. ``superbpe`` also adds the plain
            variant, which provides nine tenths of its ids.
        weights: source → weight, for each mixture; other sources keep their weights.
        parameters: others of `train_tokenizer`: algorithm, special_tokens, held_out, evaluation …
    """
    paths = checks.rows("paths", paths, "paths")
    if name is not None:
        validate_name(name)
    sizes_asked = checks.rows("vocab_sizes", vocab_sizes, "whole numbers")
    vocab_sizes = [checks.whole_number("an item of vocab_sizes", item) for item in sizes_asked]
    patterns, variants = checks.texts("patterns", patterns), checks.texts("variants", variants)
    weights = [
        checks.mapping("an item of weights", item, checks.number, "numbers")
        for item in checks.rows("weights", weights, "mappings")
    ]
    temperatures = [
        checks.number("an item of temperatures", item)
        for item in checks.rows("temperatures", temperatures, "numbers")
    ]
    refuse_choice(parameters)
    common = {key: value for key, value in parameters.items() if value is not None}
    common |= {"paths": list(map(str, paths))} | ({} if name is None else {"name": name})
    if (weights or temperatures) and is_version(common["paths"]):
        common = _request_of(common.pop("paths")[0], workspace) | common
    algorithm = common.get("algorithm", BYTE_BPE)
    choices_of(algorithm)  # raises for an unknown algorithm
    sizes = sorted(set(vocab_sizes or [common.get("vocab_size", 0)]) - {0}, reverse=True)
    usual_pattern = common.get("pattern", kind_of(algorithm).default_pattern)
    patterns = list(dict.fromkeys(patterns)) or [usual_pattern]
    variants = list(dict.fromkeys(variants)) or [PLAIN]
    if unknown := [item for item in variants if item not in VARIANTS]:
        raise InvalidOption(
            f"there is no variant {unknown[0]!r}", ", ".join(VARIANTS), "variants=['plain']"
        )
    mixtures = 1 + len(weights) + len(temperatures)
    if not sizes or len(sizes) * len(patterns) * len(variants) * mixtures > MOST_TRIALS:
        raise InvalidOption(
            f"{len(sizes)} sizes, {len(patterns)} patterns, {len(variants)} variants and "
            f"{mixtures} mixtures were requested",
            f"expected at least one of each, and at most {MOST_TRIALS} combinations",
            "type `--sizes 8000,16000,32000 --pattern gpt2`",
        )
    if SUPERBPE in variants:
        if algorithm != BYTE_BPE:
            raise InvalidOption(
                f"the variant {SUPERBPE} was requested for {algorithm}",
                f"expected {BYTE_BPE}, whose merges superwords continue",
                f"leave out --algorithm, or --variant {SUPERBPE}",
            )
        variants = [PLAIN, *(item for item in variants if item != PLAIN)]  # it provides the words
    plans = _Asked(common, tuple(sizes)).with_mixtures(patterns[0], weights, temperatures)
    for pattern in patterns:
        for variant in variants:
            plans.requests(pattern, variant)  # raises now for what cannot be trained later
    requests = {title: of_sizes[0] for title, of_sizes in plans.requests(patterns[0]).items()}
    first = next(iter(requests.values()))
    varied: dict[str, Any] = {"vocab_size": sizes, "pattern": patterns}
    if variants != [PLAIN]:
        varied["variant"] = variants
    if len(requests) > 1:
        varied["mixtures"] = list(requests)
    with training_run(first, workspace, sweep=varied) as run:
        with prepared(run.registry.tracker) as preparing:
            setup = set_up_evaluation(first, run.registry)
            run.note(setup.skipped_remark)
            combinations: list[Combination] = []
            inputs: list[CorpusInput] = []
            for pattern in patterns:
                words: dict[str, Tokenizer] = {}
                for variant in variants:
                    preparing.join()
                    title = pattern if variant == PLAIN else f"{pattern} {variant}"
                    trials_of, inputs_read = try_sizes(
                        run, plans.requests(pattern, variant, words), setup, title
                    )
                    for mixture, trials in trials_of.items():
                        combinations += (
                            Combination.of(trial, pattern, variant, mixture) for trial in trials
                        )
                        if variant == PLAIN and SUPERBPE in variants:
                            words[mixture] = trials[-1].evaluated.tokenizer
                            keep_words(words[mixture], run.workspace)
                    evaluated = next(iter(trials_of.values()))[0].evaluated
                    if not inputs and evaluated.warning:
                        run.note(evaluated.warning)
                    inputs = inputs or inputs_read
                    # The first pattern's held-out text becomes the texts of the others too.
                    setup = replace(setup, made=evaluated.made, replaceable=False)
        if model_shape is not None:
            combinations = [item.costing(model_shape) for item in combinations]
            run.note(f"FLOPs are for {model_shape}")
        notes = tuple(run.notes)
        result = Sweep(first.name, run.id, tuple(combinations), notes=notes, model=model_shape)
        with run.step(steps.RECORD) as outcome:
            result = record_sweep(result, requests, inputs, run.registry)
            outcome(f"{len(combinations)} runs in MLflow")
        return result


def _request_of(reference: str, workspace: str | None) -> dict[str, Any]:
    """Return the training request of a version with named sources."""
    parsed = parse_registered(reference)
    registry = open_registry(workspace, make=False)
    lineage = Lineage.of(registry, resolve(registry, parsed))
    if not lineage.request.get("sources"):
        raise InvalidOption(
            f"{lineage.version} was not trained on named sources",
            "expected a version that was, or a corpus file that names its sources",
            "type `bpeline sweep corpus.toml --weights de=2 --temperatures 2,5 --sizes 32000`",
        )
    return {key: value for key, value in lineage.request.items() if key not in _HOW}


@dataclass(frozen=True, slots=True)
class _Asked:
    """The parameters of the trainings of a sweep.

    Attributes:
        sizes: the largest first.
        mixtures: title → its own parameters; the current mixture first.
    """

    common: Mapping[str, Any]
    sizes: tuple[int, ...]
    mixtures: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"": {}})

    def with_mixtures(
        self, pattern: str, weights: Sequence[Mapping[str, float]], temperatures: Sequence[float]
    ) -> _Asked:
        """Return the same with mixtures to compare, if there are any."""
        present = self.requests(pattern)[""][0]
        if not weights and not temperatures:
            return self
        named = {"paths": [], "sources": present.sources, "temperature": present.temperature}
        mixtures: dict[str, Mapping[str, Any]] = {"as it is": {}}
        for new_weights in weights:
            changed = with_weights(present.named_sources, new_weights)
            title = " ".join(f"{name}={decimal(weight)}" for name, weight in new_weights.items())
            spelt = tuple(spelling for source in changed for spelling in source.spelt())
            mixtures[title] = {**named, "sources": spelt}
        for temperature in temperatures:
            if temperature != present.temperature:
                mixtures[f"T={decimal(temperature)}"] = {**named, "temperature": temperature}
        if len(mixtures) == 1:
            raise InvalidOption(
                "the only mixture to compare is the current one",
                "expected other weights of sources, or another temperature",
                "type `--weights de=2,en=1 --weights de=4 --temperatures 2,5`",
            )
        return replace(self, mixtures=mixtures)

    def requests(
        self, pattern: str, variant: str = PLAIN, words: Mapping[str, Tokenizer] | None = None
    ) -> dict[str, list[TrainingRequest]]:
        """Return a request for each size, by mixture."""
        requests: dict[str, list[TrainingRequest]] = {}
        for title, mixture in self.mixtures.items():
            requests[title] = []
            for size in self.sizes:
                own: dict[str, Any] = {"pattern": pattern, "vocab_size": size}
                if variant == SUPERBPE and words:
                    plain = words[title]
                    transition = min(transition_size(size), plain.vocab_size)
                    own |= across_spaces(plain, transition)
                parameters = {**self.common, **mixture, **VARIANTS[variant], **own}
                requests[title].append(TrainingRequest.checked(**parameters))
        return requests
