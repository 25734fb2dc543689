"""What an evaluation needs, looked at before hours of training: files, baselines, rules."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bpeline.flows.requests import NamedSource, TrainingRequest, evaluation_sources, load_baselines
from bpeline.registry.gates import Rule, read_rules
from bpeline.registry.workspace import Workspace
from bpeline.tokenizer_core.corpus import SourceFile
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.evaluation import ALL, LABELS


@dataclass(frozen=True, slots=True)
class EvaluationSetup:
    """What was asked for and is there.

    Attributes:
        files: the sources to evaluate on with their files; none to evaluate on held-out text.
        parallel: whether the texts of all languages say the same.
        rules: what must hold before ``champion`` moves; None when nobody asked.
    """

    files: tuple[tuple[NamedSource, tuple[SourceFile, ...]], ...]
    parallel: bool
    rules: tuple[Rule, ...] | None


def set_up_evaluation(request: TrainingRequest, workspace: Workspace) -> EvaluationSetup:
    """Find the files, load every baseline once, read the rules.

    Raises:
        MissingSource, UnreadableSource: see `find_source_files`.
        UnknownVersion, CorruptFile, InvalidTokenizer: a baseline cannot be loaded.
        InvalidOption: rules that cannot be read, or of a slice that nothing is measured on.
    """
    asked = evaluation_sources(request.evaluation)
    files = tuple((source, tuple(source.found())) for source in asked.sources)
    load_baselines(request.baselines, workspace.root)
    rules = None if request.rules is None else read_rules(Path(request.rules))
    _check_slices(rules or (), asked.sources or request.named_sources, request)
    return EvaluationSetup(files, asked.parallel, rules)


def _check_slices(
    rules: tuple[Rule, ...], sources: tuple[NamedSource, ...], request: TrainingRequest
) -> None:
    slices = {ALL, *(source.name for source in sources)}
    slices |= {
        f"{kind}:{label}"
        for source in sources
        for kind in LABELS
        if (label := getattr(source, kind)) is not None
    }
    for rule in rules:
        if rule.slice not in slices:
            raise InvalidOption(
                f"{request.rules} has a rule for the slice {rule.slice}, which is not evaluated",
                f"slices of this training are {', '.join(sorted(slices))}",
                "name its text: `--eval 'NAME=FILES'`",
            )
