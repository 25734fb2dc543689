"""Evaluation of new tokenizers on held-out documents, with their opponents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from bpeline.flows.counting import CorpusPlan, CountedWords
from bpeline.flows.evaluation.evaluated import (
    HELD_OUT,
    TRAINING,
    Evaluated,
    MeasuredOn,
    MeasuredTexts,
    TrainedTokens,
)
from bpeline.flows.evaluation.setup import EvaluationSetup
from bpeline.flows.learning import Learned, learn_merges
from bpeline.flows.requests import (
    ORDINARY,
    UNRESTRICTED,
    WORDS_ALONE,
    ImportRequest,
    TrainingRequest,
    load_baselines,
)
from bpeline.flows.running import progress
from bpeline.registry.aliases import present_version
from bpeline.registry.evaluation import MeasuredSource, compare_evaluated, measure_anew
from bpeline.registry.evaluation_sets import (
    BY_TRAINING,
    EvaluationSet,
    Text,
    as_set,
    keep_measurement,
    keep_set,
    measurements_of,
    read_set,
    texts_of,
)
from bpeline.registry.loading import ResolvedVersion, load_tokenizer, load_version
from bpeline.registry.opening import Registry
from bpeline.registry.records import CHAMPION, DevelopmentText
from bpeline.registry.versions import Lineage
from bpeline.registry.word_counts import WordCountStore
from bpeline.tokenizer_core.corpus import (
    ChunkGroup,
    ReadOptions,
    SourceFile,
    documents_between,
    new_documents,
    read_chunks,
)
from bpeline.tokenizer_core.derived import of_size, slots_of
from bpeline.tokenizer_core.digests import DocumentDigest
from bpeline.tokenizer_core.errors import CorruptFile, EmptyCorpus, InvalidTokenizer, RegistryError
from bpeline.tokenizer_core.evaluation import (
    Evaluation,
    EvaluationText,
    MadeTokens,
    Robustness,
    evaluate_texts,
    has_curve,
    may_be_perturbed,
    measure_robustness,
    robustness_by_language,
    token_usage,
    token_use,
)
from bpeline.tokenizer_core.tokenizer import Tokenizer

MOST_HELD_OUT = 8 << 20  # bytes evaluated on; a larger text is sampled evenly
MOST_TRAINING = 1 << 20  # bytes from the beginning of the corpus if nothing was held out

_Champion = tuple[ResolvedVersion, Tokenizer] | None


def texts_to_measure(
    words: CountedWords,
    plan: CorpusPlan,
    setup: EvaluationSetup,
    request: TrainingRequest,
    registry: Registry,
    *,
    adopts: bool,
) -> MeasuredTexts:
    """Return the evaluation set of the name, else held-out text, else training text.

    Args:
        adopts: whether held-out text becomes the set of a name that has none.
    """
    store = WordCountStore(registry.workspace)
    own = setup.given or tuple(_held_out(words, request, store))
    made, number = _the_set(setup, own, words, request, registry, adopts)
    if made is not None:
        texts = texts_of(registry.workspace, made)
    else:
        texts = [_as_evaluated(text) for text in own or [_training_text(plan)]]
    on = MeasuredOn(made, number, made is not None or bool(own))
    return MeasuredTexts(on, texts, own)


def evaluate(
    learned: Learned,
    words: CountedWords,
    plan: CorpusPlan,
    setup: EvaluationSetup,
    request: TrainingRequest,
    registry: Registry,
    *,
    adopts: bool = True,
    beside: Mapping[str, Tokenizer] | None = None,
) -> Evaluated:
    """Measure on the evaluation set of the name, which its first training creates.

    Without ``--eval``, held-out documents become the set; without these, training text is used. The
    champion and the baselines are measured on the same documents; a champion that cannot be loaded
    is noted and left out. To show their cost, trainings with token rules or ``--parity`` are also
    compared with the same training without them, and superwords with the words alone, if these
    have as many ids.

    Args:
        adopts: whether the set becomes that of the name and measurements are kept; not for trials.
        beside: label → another tokenizer to compare with.
    """
    workspace = registry.workspace
    tokenizer = learned.tokenizer(request)
    champion, others, references = _opponents(registry, request)
    for label, other in (beside or {}).items():
        others[label] = other
        references[label] = other.digest[:8]
    if request.token_rules:
        free = request.without_token_rules
        others[UNRESTRICTED] = learn_merges(words, free, workspace).tokenizer(free)
        references[UNRESTRICTED] = f"the same training without: {request.token_rules}"
    if request.serves_alike:
        plain = request.without_parity
        others[ORDINARY] = learn_merges(words, plain, workspace).tokenizer(plain)
        references[ORDINARY] = "the same training without --parity"
    if request.transition_size:
        words_before = load_tokenizer(request.extends, workspace)
        if not slots_of(words_before) and words_before.vocab_size >= request.learned_size:
            others[WORDS_ALONE] = of_size(words_before, request.learned_size)
            references[WORDS_ALONE] = "the tokenizer of the same size without superwords"
    measuring = texts_to_measure(words, plan, setup, request, registry, adopts=adopts)
    evaluated = _evaluated(
        tokenizer, champion, others, references, measuring, setup, request, registry,
        keeps=adopts, lossless=request.over_bytes, development=learned.development,
    )  # fmt: skip
    trained_on = WordCountStore(workspace).open_table(words.table)
    made_tokens = MadeTokens.of(tokenizer, trained_on)
    use = token_use(tokenizer, trained_on, made_tokens)
    usage = token_usage(tokenizer, use) if has_curve(tokenizer) else None
    looked_into = setup.made is not None and words.looked_into(plan.reading)
    return replace(
        evaluated,
        trained=TrainedTokens(made=made_tokens, use=use, usage=usage),
        left_out=setup.made.digest if setup.made is not None and looked_into else "",
    )


def evaluate_imported(
    tokenizer: Tokenizer, setup: EvaluationSetup, request: ImportRequest, registry: Registry
) -> Evaluated | None:
    """Measure an imported tokenizer; None without an evaluation set and given texts.

    Unlike in `evaluate`, lossy decoding is reported as a figure instead of an error.
    """
    workspace = registry.workspace
    if setup.made is None and not setup.given:
        return None
    champion, others, references = _opponents(registry, request)
    made, number = setup.made, 0
    if made is not None:
        made, number = _adopted(made, setup.number, request.name, registry)
        texts = texts_of(workspace, made)
    else:
        texts = [_as_evaluated(one) for one in setup.given]
    measuring = MeasuredTexts(MeasuredOn(made, number, held_out=True), texts, setup.given)
    return _evaluated(
        tokenizer, champion, others, references, measuring, setup, request, registry, keeps=True
    )


def _evaluated(
    tokenizer: Tokenizer,
    champion: _Champion,
    others: Mapping[str, Tokenizer],
    references: Mapping[str, str],
    measuring: MeasuredTexts,
    setup: EvaluationSetup,
    request: TrainingRequest | ImportRequest,
    registry: Registry,
    *,
    keeps: bool,
    lossless: bool = False,
    development: tuple[DevelopmentText, ...] = (),
) -> Evaluated:
    """Measure a tokenizer and its opponents."""
    texts, made = measuring.texts, measuring.on.made
    evaluation, measured = evaluate_texts(tokenizer, others, texts, setup.parallel)
    report = evaluation.report
    if report.roundtrip_failures and lossless:
        raise InvalidTokenizer(
            f"{report.roundtrip_failures} of {report.documents:,} documents "
            "were changed by encoding and decoding",
            "expected every document unchanged: this is a defect of bpeline",
            "report it; nothing was published",
        )
    if made is not None and keeps:
        which = {"": (tokenizer.digest, tokenizer.vocab_size)}
        if champion is not None:
            which[CHAMPION] = (champion[0].digest, champion[1].vocab_size)
        for measurement in measurements_of(evaluation, measured, made, which):
            keep_measurement(registry.workspace, measurement)
    robustness, languages = _robustness(
        tokenizer, champion, texts if made is not None and keeps else ()
    )
    comparison = None
    if champion is not None:
        compared = compare_evaluated(
            (str(champion[0]), champion[1], measured[CHAMPION]),
            (f"{request.name} (new)", tokenizer, measured[""]),
            evaluation,
            CHAMPION,
            str(measuring.on),
        )
        before = Lineage.of(registry, champion[0]).development
        comparison = replace(compared, development=(before, development))
    return Evaluated(
        tokenizer=tokenizer,
        on=measuring.on,
        sources=_sources(texts, made),
        evaluation=evaluation,
        references=references,
        parallel=setup.parallel,
        comparison=comparison,
        new=_on_new_text(tokenizer, champion, measuring.own, made, texts),
        robustness=robustness,
        languages=languages,
        remark=setup.remark,
    )


def _opponents(
    registry: Registry, request: TrainingRequest | ImportRequest
) -> tuple[_Champion, dict[str, Tokenizer], dict[str, str]]:
    """Return the champion, all opponents by label, and their names."""
    others = load_baselines(request.baselines, registry.workspace.root)
    references = dict(baseline.split("=", 1) for baseline in request.baselines)
    champion = _champion(registry, request.name)
    if champion is not None:
        others = {CHAMPION: champion[1], **others}
        references = {CHAMPION: str(champion[0]), **references}
    return champion, others, references


def _the_set(
    setup: EvaluationSetup,
    own: Sequence[Text],
    words: CountedWords,
    request: TrainingRequest,
    registry: Registry,
    adopts: bool,
) -> tuple[EvaluationSet | None, int]:
    """Return the evaluation set and its number; held-out text may replace it."""
    made, number = setup.made, setup.number
    if setup.replaceable and own:
        held_out, documents = as_set(own, shards=words.shards, parallel=setup.parallel)
        if held_out.texts and (made is None or not held_out.provisional):
            keep_set(registry.workspace, held_out, documents)
            made = held_out
    if made is None:
        return None, 0
    return _adopted(made, number, request.name, registry) if adopts else (made, number)


def _adopted(
    made: EvaluationSet, number: int, name: str, registry: Registry
) -> tuple[EvaluationSet, int]:
    """Make a set that of a name; return the name's set and its number."""
    named = registry.catalogue.give_evaluation_set(
        name, made.digest, instead_of=number, by=BY_TRAINING,
        reason="the first" if not number else "the one before was provisional",
    )  # fmt: skip
    if named.digest != made.digest:  # another training of the name was faster
        made = read_set(registry.workspace, named.digest)
    if number and named.number != number:
        _measure_others_anew(registry, name)
    return made, named.number


def _measure_others_anew(registry: Registry, name: str) -> None:
    """Measure the versions with an alias on the set that replaced a provisional one."""
    try:
        measured = measure_anew(registry, name)
    except (RegistryError, CorruptFile) as error:
        progress.current().note(
            f"the versions of {name} were not measured on its new evaluation set: "
            f"{error.happened}; type `bpeline evaluate {name}`"
        )
    else:
        versions = ", ".join(str(version.version) for version in measured)
        progress.current().note(f"{name} has a new evaluation set; measured on it: {versions}")


def _as_evaluated(text: Text) -> EvaluationText:
    return EvaluationText(text.name, text.documents, text.language, text.domain)


def _on_new_text(
    tokenizer: Tokenizer,
    champion: _Champion,
    own: Sequence[Text],
    made: EvaluationSet | None,
    texts: Sequence[EvaluationText],
) -> Evaluation | None:
    """Evaluate tokenizer and champion on this training's text outside ``texts``."""
    if made is None:
        return None
    known = {document for text in texts for document in text.documents}
    new = []
    for text in own:
        documents = [item for item in text.documents if item not in known]
        documents = new_documents(documents, list(known)) if documents else []
        if documents:
            new.append(EvaluationText(text.name, documents, text.language, text.domain))
    others = {} if champion is None else {CHAMPION: champion[1]}
    try:
        return evaluate_texts(tokenizer, others, new)[0] if new else None
    except EmptyCorpus:  # a text without a word
        return None


def _robustness(
    tokenizer: Tokenizer,
    champion: _Champion,
    texts: Sequence[EvaluationText],
) -> tuple[Robustness | None, Mapping[str, Robustness]]:
    """Measure both on perturbed texts, overall and by language."""
    if not may_be_perturbed(tokenizer):
        return None, {}
    others = {CHAMPION: champion[1]} if champion and may_be_perturbed(champion[1]) else {}
    documents = (document for text in texts for document in text.documents)
    try:
        overall = measure_robustness(tokenizer, others, documents)
    except EmptyCorpus:  # no word in what is perturbed
        return None, {}
    return overall, robustness_by_language(tokenizer, others, texts)


def _training_text(plan: CorpusPlan) -> Text:
    return Text(TRAINING, list(_first_documents(plan.files, plan.reading)))


def _sources(
    texts: Sequence[EvaluationText], made: EvaluationSet | None
) -> tuple[MeasuredSource, ...]:
    if made is not None:
        return tuple(
            MeasuredSource(one.name, one.files, one.language, one.domain, one.digest,
                           one.documents, one.bytes)
            for one in made.texts
        )  # fmt: skip
    measured = []
    for text in texts:
        content = DocumentDigest.of(text.documents)
        measured.append(
            MeasuredSource(text.name, (), text.language, text.domain, content.digest,
                           content.documents, content.bytes)
        )  # fmt: skip
    return tuple(measured)


def _held_out(
    words: CountedWords, request: TrainingRequest, store: WordCountStore
) -> Iterator[Text]:
    """Yield the held-out text of all, or about the same amount from each named source."""
    if not request.sources:
        documents = store.held_out_documents(words.shards, MOST_HELD_OUT)
        if documents:
            yield Text(HELD_OUT, documents)
    for source in request.named_sources:
        room = MOST_HELD_OUT // len(words.shards_of)
        documents = store.held_out_documents(words.shards_of[source.name], room)
        if documents:
            yield Text(source.name, documents, source.language, source.domain)


def _champion(registry: Registry, name: str) -> _Champion:
    """Return the champion, or None if there is none or it cannot be loaded."""
    try:
        version = present_version(registry, name, CHAMPION)
        return None if version is None else (version, load_version(registry, version))
    except (RegistryError, CorruptFile, InvalidTokenizer) as error:
        progress.current().note(f"not compared with {name}@{CHAMPION}: {error.happened}")
        return None


def _first_documents(files: Iterable[SourceFile], reading: ReadOptions) -> Iterator[bytes]:
    """Yield documents from the beginning of the corpus, `MOST_TRAINING` bytes."""
    room = MOST_TRAINING
    for file in files:
        chunks = read_chunks(ChunkGroup(file), reading.of_source(file.source), MOST_TRAINING)
        for _, text in chunks:
            for begin, end in documents_between(text, reading.special_bytes)[0].tolist():
                document = text.text.bytes(begin, min(end, begin + room))
                yield document.decode(errors="ignore").encode()  # drops a partial character
                room -= end - begin
                if room <= 0:
                    return
            break
