"""Many vocab sizes, split patterns, variants and mixtures side by side; nothing is registered.

The merges of byte-level BPE are a prefix order, so the largest size of a pattern is trained and
serves the others; other algorithms learn every size. Counts and what was learned stay in the
workspace, so training the one that was chosen takes no time. A mixture is other weights of the
named sources, or another temperature: all mixtures are learned from the same counts.
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
from bpeline.flows.running import RECORD
from bpeline.flows.sweeps import (
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
from bpeline.tokenizer_core.companions import kind_of
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.evaluation import NamedShape
from bpeline.tokenizer_core.tokenizer import Tokenizer

_HOW = {"workers", "table_memory", "rules"}  # of a version's request, what is not asked for again


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
    """Measure every size with every pattern, variant and mixture, and record it in MLflow.

    Args:
        paths, name, workspace: as for `train_tokenizer`. Where mixtures are compared, a registered
            version that was trained on named sources may stand for its corpus, and for its name,
            size, pattern and other parameters where these are not given.
        vocab_sizes: numbers of ids.
        patterns: split patterns: names or regexes; that of the algorithm when there are none.
        model_shape: also say what text costs this model.
        variants: names of `VARIANTS`; ``plain`` alone when there are none. With ``superbpe`` the
            plain one is tried too: it gives nine tenths of the ids.
        weights: source → weight, for each mixture; sources left out keep their weights.
        temperatures: each is a mixture of its own, with the weights as they are.
        parameters: others of `train_tokenizer`: algorithm, special_tokens, held_out, evaluation …

    Raises:
        BpelineError: what was asked for, read or written cannot be; the workspace stays good.
    """
    paths = checks.rows("paths", paths, "paths")
    if name is not None:
        validate_name(name)
    sizes_asked = checks.rows("vocab_sizes", vocab_sizes, "whole numbers")
    vocab_sizes = [checks.whole_number("an item of vocab_sizes", one) for one in sizes_asked]
    patterns, variants = checks.texts("patterns", patterns), checks.texts("variants", variants)
    weights = [
        checks.mapping("an item of weights", one, checks.number, "numbers")
        for one in checks.rows("weights", weights, "mappings")
    ]
    temperatures = [
        checks.number("an item of temperatures", one)
        for one in checks.rows("temperatures", temperatures, "numbers")
    ]
    refuse_choice(parameters)
    given = {key: value for key, value in parameters.items() if value is not None}
    given |= {"paths": list(map(str, paths))} | ({} if name is None else {"name": name})
    if (weights or temperatures) and is_version(given["paths"]):
        given = _request_of(given.pop("paths")[0], workspace) | given
    algorithm = given.get("algorithm", BYTE_BPE)
    choices_of(algorithm)  # refuses what there is none of
    sizes = sorted(set(vocab_sizes or [given.get("vocab_size", 0)]) - {0}, reverse=True)
    usual_pattern = given.get("pattern", kind_of(algorithm).default_pattern)
    patterns = list(dict.fromkeys(patterns)) or [usual_pattern]
    variants = list(dict.fromkeys(variants)) or [PLAIN]
    if unknown := [one for one in variants if one not in VARIANTS]:
        raise InvalidOption(
            f"there is no variant {unknown[0]!r}", ", ".join(VARIANTS), "variants=['plain']"
        )
    mixtures = 1 + len(weights) + len(temperatures)
    if not sizes or len(sizes) * len(patterns) * len(variants) * mixtures > MOST_TRIALS:
        raise InvalidOption(
            f"{len(sizes)} sizes, {len(patterns)} patterns, {len(variants)} variants and "
            f"{mixtures} mixtures were asked for",
            f"at least one of each, and {MOST_TRIALS} combinations at most",
            "type `--sizes 8000,16000,32000 --pattern gpt2`",
        )
    if SUPERBPE in variants:
        if algorithm != BYTE_BPE:
            raise InvalidOption(
                f"the variant {SUPERBPE} was asked for of {algorithm}",
                f"superwords are learned after the merges of {BYTE_BPE}",
                f"leave out --algorithm, or --variant {SUPERBPE}",
            )
        variants = [PLAIN, *(one for one in variants if one != PLAIN)]  # whose words it begins with
    asked = _Asked(given, tuple(sizes)).with_mixtures(patterns[0], weights, temperatures)
    for pattern in patterns:
        for variant in variants:
            asked.requests(pattern, variant)  # refuses now what cannot be trained later
    requests = {title: of_sizes[0] for title, of_sizes in asked.requests(patterns[0]).items()}
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
                    tried, read = try_sizes(
                        run, asked.requests(pattern, variant, words), setup, title
                    )
                    for mixture, trials in tried.items():
                        combinations += (
                            Combination.of(trial, pattern, variant, mixture) for trial in trials
                        )
                        if variant == PLAIN and SUPERBPE in variants:
                            words[mixture] = trials[-1].evaluated.tokenizer
                            keep_words(words[mixture], run.workspace)
                    evaluated = next(iter(tried.values()))[0].evaluated
                    if not inputs and evaluated.warning:
                        run.note(evaluated.warning)
                    inputs = inputs or read
                    # What the first pattern held out is what the others are measured on, too.
                    setup = replace(setup, made=evaluated.made, replaceable=False)
        if model_shape is not None:
            combinations = [one.costing(model_shape) for one in combinations]
            run.note(f"FLOPs are of {model_shape}")
        notes = tuple(run.notes)
        done = Sweep(first.name, run.id, tuple(combinations), notes=notes, model=model_shape)
        with run.step(RECORD) as outcome:
            done = record_sweep(done, requests, inputs, run.registry)
            outcome(f"{len(combinations)} runs in MLflow")
        return done


def _request_of(reference: str, workspace: str | None) -> dict[str, Any]:
    """What the training of a version was asked for."""
    parsed = parse_registered(reference)
    registry = open_registry(workspace, make=False)
    lineage = Lineage.of(registry, resolve(registry, parsed))
    if not lineage.request.get("sources"):
        raise InvalidOption(
            f"{lineage.version} was not trained on named sources",
            "a version that was, or a corpus file that names its sources",
            "type `bpeline sweep corpus.toml --weights de=2 --temperatures 2,5 --sizes 32000`",
        )
    return {key: value for key, value in lineage.request.items() if key not in _HOW}


@dataclass(frozen=True, slots=True)
class _Asked:
    """The parameters of the trainings of a sweep.

    Attributes:
        common: those of all.
        sizes: the largest first.
        mixtures: title → the parameters of its own; the present mixture first.
    """

    common: Mapping[str, Any]
    sizes: tuple[int, ...]
    mixtures: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"": {}})

    def with_mixtures(
        self, pattern: str, weights: Sequence[Mapping[str, float]], temperatures: Sequence[float]
    ) -> _Asked:
        """The same with mixtures to compare, where there are any.

        Raises:
            InvalidOption: a source that is not there, or none that differs from the present one.
        """
        present = self.requests(pattern)[""][0]
        if not weights and not temperatures:
            return self
        named = {"paths": [], "sources": present.sources, "temperature": present.temperature}
        mixtures: dict[str, Mapping[str, Any]] = {"as it is": {}}
        for some in weights:
            changed = with_weights(present.named_sources, some)
            title = " ".join(f"{name}={decimal(weight)}" for name, weight in some.items())
            spelt = tuple(spelling for one in changed for spelling in one.spelt())
            mixtures[title] = {**named, "sources": spelt}
        for temperature in temperatures:
            if temperature != present.temperature:
                mixtures[f"T={decimal(temperature)}"] = {**named, "temperature": temperature}
        if len(mixtures) == 1:
            raise InvalidOption(
                "the only mixture to compare is the one that there is",
                "other weights of sources, or another temperature",
                "type `--weights de=2,en=1 --weights de=4 --temperatures 2,5`",
            )
        return replace(self, mixtures=mixtures)

    def requests(
        self, pattern: str, variant: str = PLAIN, words: Mapping[str, Tokenizer] | None = None
    ) -> dict[str, list[TrainingRequest]]:
        """By mixture, one for each size.

        Args:
            words: the plain training of each mixture, where it was tried: what superwords follow.

        Raises:
            InvalidOption: a training that cannot be.
        """
        made: dict[str, list[TrainingRequest]] = {}
        for title, mixture in self.mixtures.items():
            made[title] = []
            for size in self.sizes:
                own: dict[str, Any] = {"pattern": pattern, "vocab_size": size}
                if variant == SUPERBPE and words:
                    plain = words[title]
                    known = min(transition_size(size), plain.vocab_size)
                    own |= across_spaces(plain, known)
                given = {**self.common, **mixture, **VARIANTS[variant], **own}
                made[title].append(TrainingRequest.checked(**given))
        return made
