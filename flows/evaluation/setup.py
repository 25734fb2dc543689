"""What an evaluation needs, looked at before hours of training: texts, baselines, promotion rules.

A name has an evaluation set, on which all of its versions are measured. Its first training makes it
of the texts that were given, else of what is held out; one that is too small is replaced by the
first that is not. Afterwards only `bpeline evaluate NAME --set-from` changes it.
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
    """What was asked for and is there.

    Attributes:
        made: the evaluation set to measure on; None where it is made of what will be held out.
        number: of the set the name has, 0 when it has none; ``made`` takes its place when that is
            another one.
        given: texts of ``--eval`` that are not the set: measured apart from it.
        parallel: whether the texts of all languages say the same.
        promotion_rules: what must hold before ``champion`` moves; None without ``--rules``.
        replaceable: whether held-out documents may become the set.
        remark: why versions are not measured on what was asked for; empty as a rule.
        skipped: what the searches for the texts of ``--eval`` met and did not read.
        skipped_development: likewise of ``--parity-dev``.
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
        """One line for people; empty where every file was read."""
        of_both = not_evaluated(self.skipped), not_measured_on(self.skipped_development)
        return "; ".join(filter(None, of_both))

    def left_out(self, left_out_rule: int) -> DecontaminationSet | None:
        """What a training must not read; see `Run.left_out_rule`."""
        return None if self.made is None else replace(self.made.left_out, rule=left_out_rule)


def set_up_evaluation(
    request: TrainingRequest | ImportRequest, registry: Registry
) -> EvaluationSetup:
    """Read the texts that were given, recall the set of the name, load every baseline once.

    Raises:
        MissingSource, UnreadableSource: see `evaluation_files` and `development_files`.
        EmptyCorpus: an evaluation source without a document.
        UnknownVersion, CorruptFile, InvalidTokenizer: a baseline cannot be loaded.
        InvalidOption: rules that cannot be read, or of a slice that nothing is measured on.
    """
    workspace = registry.workspace
    asked = evaluation_sources(request.evaluation)
    found, skipped = evaluation_files(request)
    development = SkippedFiles()
    if isinstance(request, TrainingRequest):
        development = development_files(request)
    load_baselines(request.baselines, workspace.root)
    promotion_rules = None if request.rules is None else read_rules(Path(request.rules))
    texts = tuple(
        _text(source, files, request) for source, files in zip(asked.sources, found, strict=True)
    )
    named = registry.catalogue.evaluation_set(request.name)
    setup = EvaluationSetup(
        None, 0, texts, asked.parallel, promotion_rules, replaceable=not texts, skipped=skipped,
        skipped_development=development,
    )  # fmt: skip
    if named is not None and not has_set(workspace, named.digest):
        remark = (
            f"the documents of evaluation set {named.digest[:8]} of {request.name} are not in this "
            "workspace: this version is measured on texts of its own, which no rule judges it by"
        )
        setup = replace(setup, number=named.number, remark=remark, replaceable=False)
    elif named is not None:
        kept = read_set(workspace, named.digest)
        setup = replace(setup, made=kept, number=named.number, parallel=kept.parallel,
                        replaceable=kept.provisional and not texts)  # fmt: skip
    if isinstance(request, TrainingRequest) and request.counts:
        _require_text(setup, request)
    if texts and not setup.remark:
        setup = _with_given(setup, texts, asked.parallel, request, registry)
    _check_slices(setup, request)
    return setup


def _require_text(setup: EvaluationSetup, request: TrainingRequest) -> None:
    """Refuse a training on word counts, of which no text can be held out, without any text.

    Raises:
        InvalidOption: there is none to measure on.
    """
    if setup.made is None and not setup.given:
        raise InvalidOption(
            f"there is no text to measure {request.name} on: word counts hold no documents",
            "texts of --eval, or a name that has an evaluation set",
            "add `--eval 'text=heldout.txt'`, text that the counts were not made of",
        )


def evaluation_files(
    request: TrainingRequest | ImportRequest,
) -> tuple[list[tuple[SourceFile, ...]], SkippedFiles]:
    """The files of each source of ``--eval``, and what is not read.

    Raises:
        MissingSource, UnreadableSource: see `search_each`, and `SkippedFiles.refuse` where a
            training is strict.
    """
    found, skipped = files_of_each(evaluation_sources(request.evaluation).sources)
    if isinstance(request, TrainingRequest) and request.strict:
        skipped.refuse()
    return found, skipped


def development_files(request: TrainingRequest) -> SkippedFiles:
    """Find the files of ``parity_dev``, which are read after counting; what is not read of them.

    Raises:
        MissingSource, UnreadableSource: as `evaluation_files`.
    """
    _, skipped = files_of_each(request.development_sources)
    if request.strict:
        skipped.refuse()
    return skipped


def not_evaluated(skipped: SkippedFiles) -> str:
    """What was skipped of ``--eval``, apart from the same words about the corpus."""
    return f"of --eval: {skipped.remark}" if skipped.remark else ""


def not_measured_on(skipped: SkippedFiles) -> str:
    """What was skipped of ``--parity-dev``, likewise."""
    return f"of --parity-dev: {skipped.remark}" if skipped.remark else ""


def _with_given(
    setup: EvaluationSetup,
    texts: tuple[Text, ...],
    parallel: bool,
    request: TrainingRequest | ImportRequest,
    registry: Registry,
) -> EvaluationSetup:
    """Texts that were given become the set of a name that has none, or a provisional one."""
    given, documents = as_set(texts, parallel=parallel)
    workspace = registry.workspace
    if setup.made is not None and is_of_the_same(workspace, setup.made, given, documents):
        return replace(setup, given=())
    if setup.made is not None and not (setup.made.provisional and not given.provisional):
        remark = (
            f"the texts of --eval are not those of {request.name}'s {setup.made}: they are "
            f"measured apart; `bpeline evaluate {request.name} --set-from FILES` changes the set"
        )
        return replace(setup, remark=remark)
    keep_set(workspace, given, documents)
    return replace(setup, made=given, given=(), parallel=parallel)


def _text(
    source: NamedSource, files: tuple[SourceFile, ...], request: TrainingRequest | ImportRequest
) -> Text:
    documents = list(evaluation_documents(files, request.evaluation_reading))
    if not documents:
        raise EmptyCorpus(
            f"the evaluation source {source.name} has no document",
            "each has at least one",
            "name files that hold text",
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
                f"slices of the evaluation set are {', '.join(sorted(slices))}",
                "name its text: `--eval 'NAME=FILES'`, or for a name that has a set "
                f"`bpeline evaluate {request.name} --set-from 'NAME=FILES'`",
            )


def left_out_for(
    name: str, catalogue: Catalogue, workspace: Workspace, left_out_rule: int
) -> DecontaminationSet | None:
    """What trainings of a name must not read, as far as it is known without reading any text."""
    named = catalogue.evaluation_set(name)
    if named is None or not has_set(workspace, named.digest):
        return None
    return replace(read_set(workspace, named.digest).left_out, rule=left_out_rule)
