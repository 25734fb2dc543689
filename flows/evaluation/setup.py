"""The checks and inputs of an evaluation: texts, baselines, promotion rules.

The first training of a name creates its evaluation set from ``--eval``, else from held-out text.
A set that is too small is replaced by the first sufficient one. Later on only
`bpeline evaluate NAME --set-from` changes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from bpeline.flows.requests import (
    ImportRequest,
    NamedSource,
    TrainingRequest,
    evaluation_sources,
    files_of_each,
    load_baselines,
)
from bpeline.registry.catalogue import Catalogue
from bpeline.registry.evaluation import Rules, read_rules
from bpeline.registry.evaluation_sets import (
    EvaluationSet,
    Text,
    as_set,
    has_set,
    is_of_the_same,
    keep_set,
    read_set,
)
from bpeline.registry.opening import Registry
from bpeline.registry.workspace import Workspace
from bpeline.tokenizer_core.corpus import DecontaminationSet, SkippedFiles, SourceFile
from bpeline.tokenizer_core.counting import evaluation_documents
from bpeline.tokenizer_core.errors import EmptyCorpus, InvalidOption
from bpeline.tokenizer_core.evaluation import ALL, LABELS


@dataclass(frozen=True, slots=True)
class EvaluationSetup:
    """The inputs of an evaluation, checked before training.

    Attributes:
        made: the evaluation set; None if held-out text will become it.
        number: number of the name's current set, 0 if none; ``made`` may replace that set.
        given: texts of ``--eval`` that are not the set, measured separately.
        replaceable: whether held-out documents may become the set.
        remark: why the requested texts are not used; usually empty.
    """

    made: EvaluationSet | None
    number: int
    given: tuple[Text, ...]
    parallel: bool
    promotion_rules: Rules | None
    replaceable: bool
    remark: str = ""
    skipped: SkippedFiles = field(default_factory=SkippedFiles)
    skipped_development: SkippedFiles = field(default_factory=SkippedFiles)

    @property
    def skipped_remark(self) -> str:
        """One line on the skipped files, or an empty string."""
        of_both = not_evaluated(self.skipped), not_measured_on(self.skipped_development)
        return "; ".join(filter(None, of_both))

    def left_out(self, left_out_rule: int) -> DecontaminationSet | None:
        """Return the passages that training must not read; see `Run.left_out_rule`."""
        return None if self.made is None else replace(self.made.left_out, rule=left_out_rule)


def set_up_evaluation(
    request: TrainingRequest | ImportRequest, registry: Registry
) -> EvaluationSetup:
    """Read the given texts and the set of the name; check that every baseline loads."""
    workspace = registry.workspace
    parsed = evaluation_sources(request.evaluation)
    files_found, skipped = evaluation_files(request)
    development = SkippedFiles()
    if isinstance(request, TrainingRequest):
        development = development_files(request)
    load_baselines(request.baselines, workspace.root)
    promotion_rules = None if request.rules is None else read_rules(Path(request.rules))
    texts = tuple(
        _text(source, files, request)
        for source, files in zip(parsed.sources, files_found, strict=True)
    )
    named = registry.catalogue.evaluation_set(request.name)
    setup = EvaluationSetup(
        None, 0, texts, parsed.parallel, promotion_rules, replaceable=not texts, skipped=skipped,
        skipped_development=development,
    )  # fmt: skip
    if named is not None and not has_set(workspace, named.digest):
        remark = (
            f"the documents of evaluation set {named.digest[:8]} of {request.name} are not in this "
            "workspace: this version is measured on its own text, which no rule uses"
        )
        setup = replace(setup, number=named.number, remark=remark, replaceable=False)
    elif named is not None:
        stored = read_set(workspace, named.digest)
        setup = replace(setup, made=stored, number=named.number, parallel=stored.parallel,
                        replaceable=stored.provisional and not texts)  # fmt: skip
    if isinstance(request, TrainingRequest) and request.counts:
        _require_text(setup, request)
    if texts and not setup.remark:
        setup = _with_given(setup, texts, parsed.parallel, request, registry)
    _check_slices(setup, request)
    return setup


def _require_text(setup: EvaluationSetup, request: TrainingRequest) -> None:
    """Raise InvalidOption for a training on word counts without evaluation text."""
    if setup.made is None and not setup.given:
        raise InvalidOption(
            f"there is no text to evaluate {request.name} on: word counts contain no documents",
            "expected texts of --eval, or a name that has an evaluation set",
            "add `--eval 'text=heldout.txt'`, with text that was not counted",
        )


def evaluation_files(
    request: TrainingRequest | ImportRequest,
) -> tuple[list[tuple[SourceFile, ...]], SkippedFiles]:
    """Find the files of each source of ``--eval``, and the files that are skipped."""
    files, skipped = files_of_each(evaluation_sources(request.evaluation).sources)
    if isinstance(request, TrainingRequest) and request.strict:
        skipped.refuse()
    return files, skipped


def development_files(request: TrainingRequest) -> SkippedFiles:
    """Find the files of ``parity_dev``, and return those that are skipped."""
    _, skipped = files_of_each(request.development_sources)
    if request.strict:
        skipped.refuse()
    return skipped


def not_evaluated(skipped: SkippedFiles) -> str:
    """Return the remark on files of ``--eval`` that were skipped."""
    return f"of --eval: {skipped.remark}" if skipped.remark else ""


def not_measured_on(skipped: SkippedFiles) -> str:
    """Return the remark on files of ``--parity-dev`` that were skipped."""
    return f"of --parity-dev: {skipped.remark}" if skipped.remark else ""


def _with_given(
    setup: EvaluationSetup,
    texts: tuple[Text, ...],
    parallel: bool,
    request: TrainingRequest | ImportRequest,
    registry: Registry,
) -> EvaluationSetup:
    """Let given texts become the set of a name that has none, or a provisional one."""
    candidate, documents = as_set(texts, parallel=parallel)
    workspace = registry.workspace
    if setup.made is not None and is_of_the_same(workspace, setup.made, candidate, documents):
        return replace(setup, given=())
    if setup.made is not None and not (setup.made.provisional and not candidate.provisional):
        remark = (
            f"the texts of --eval differ from {request.name}'s {setup.made} and are "
            f"measured apart; `bpeline evaluate {request.name} --set-from FILES` changes the set"
        )
        return replace(setup, remark=remark)
    keep_set(workspace, candidate, documents)
    return replace(setup, made=candidate, given=(), parallel=parallel)


def _text(
    source: NamedSource, files: tuple[SourceFile, ...], request: TrainingRequest | ImportRequest
) -> Text:
    documents = list(evaluation_documents(files, request.evaluation_reading))
    if not documents:
        raise EmptyCorpus(
            f"the evaluation source {source.name} has no document",
            "expected at least one document in each source",
            "name files that contain text",
        )
    return Text(source.name, documents, source.language, source.domain, source.files)


def _check_slices(setup: EvaluationSetup, request: TrainingRequest | ImportRequest) -> None:
    sources = setup.made.texts if setup.made is not None else request.named_sources
    slices = {ALL, *(source.name for source in sources)}
    slices |= {
        f"{kind}:{label}"
        for source in sources
        for kind in LABELS
        if (label := getattr(source, kind)) is not None
    }
    for rule in setup.promotion_rules.rules if setup.promotion_rules else ():
        if rule.slice not in slices:
            raise InvalidOption(
                f"{request.rules} has a rule for the slice {rule.slice}, which is not evaluated",
                f"expected a slice of the evaluation set: {', '.join(sorted(slices))}",
                "name its text: `--eval 'NAME=FILES'`, or for a name that has a set "
                f"`bpeline evaluate {request.name} --set-from 'NAME=FILES'`",
            )


def left_out_for(
    name: str, catalogue: Catalogue, workspace: Workspace, left_out_rule: int
) -> DecontaminationSet | None:
    """Return the passages that trainings of a name must not read, if they are known."""
    named = catalogue.evaluation_set(name)
    if named is None or not has_set(workspace, named.digest):
        return None
    return replace(read_set(workspace, named.digest).left_out, rule=left_out_rule)
