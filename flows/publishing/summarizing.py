"""Summaries of trainings, and their change against other versions."""

from __future__ import annotations

from dataclasses import dataclass

from bpeline.flows.counting import CorpusPlan, CountedCorpus, CountedWords, as_json, sections_remark
from bpeline.flows.evaluation import (
    Evaluated,
    ScreenedTokens,
    Sized,
    curves_of,
    metrics_of,
)
from bpeline.flows.publishing.summary import TrainingSummary
from bpeline.flows.trainings import TrainingRun
from bpeline.flows.wording import SHOWN_CONFIDENCE, change_text, left_out_text, unmeasured
from bpeline.registry.evaluation import share_to_watch, too_small_to_judge
from bpeline.registry.evaluation_sets import (
    EvaluationSet,
    SetMeasurement,
    kept_measurement,
    parts_of,
)
from bpeline.registry.opening import Registry
from bpeline.registry.word_counts import ShardStatistics
from bpeline.tokenizer_core.evaluation import WELL_USED, Slice, distinct_parts

MOST = 6  # columns: the latest versions

Rows = tuple[tuple[str, ...], ...]


def against_others(registry: Registry, name: str, digest: str, made: EvaluationSet | None) -> Rows:
    """Return a table of changes in tokens by slice, with titles; may be empty."""
    own = None if made is None else kept_measurement(registry.workspace, made, digest)
    if made is None or own is None:
        return ()
    latest = {version.digest: version.number for version in registry.catalogue.registrations(name)}
    others: list[tuple[str, SetMeasurement]] = []
    for other, number in sorted(latest.items(), key=lambda version: -version[1]):
        measurement = None if other == digest else kept_measurement(registry.workspace, made, other)
        if measurement is not None and len(others) < MOST:
            others.append((f"{name}/{number}", measurement))
    if not others:
        return ()
    titles = ("slice", *(reference for reference, _ in others))
    rows = [
        (part.name, *(_change(own, other, part) for _, other in others))
        for part in distinct_parts(parts_of(made))
    ]
    return (titles, *rows)


def _change(own: SetMeasurement, other: SetMeasurement, part: Slice) -> str:
    change = own.change_from(other, part)
    ends = change.intervals.get(SHOWN_CONFIDENCE)
    low, high = (None, None) if ends is None else (100 * end for end in ends)
    return change_text(100 * change.value, low, high)


_MUCH = 0.01  # of the text, left out for the evaluation set


@dataclass(frozen=True, slots=True)
class Trained:
    """The results of a training's steps, before it is published."""

    sized: Sized
    plan: CorpusPlan
    corpus: CountedCorpus
    words: CountedWords
    evaluated: Evaluated
    screened: ScreenedTokens


def summarize(run: TrainingRun, trained: Trained) -> TrainingSummary:
    """Summarize a run before it is published, and report its notes."""
    corpus, words, sized = trained.corpus, trained.words, trained.sized
    evaluated, screened = trained.evaluated, trained.screened
    seen, request, learned, choice = words.seen, sized.request, sized.learned, sized.choice
    # For word counts this is the size of their words as text; documents are unknown.
    text_bytes = seen.bytes_counted if request.counts else corpus.corpus_bytes
    if seen.replaced_utf8:
        run.note(f"{seen.replaced_utf8:,} sequences were not UTF-8 and were read as U+FFFD")
    if copies := corpus.copies_remark:
        run.note(copies)
    reading = trained.plan.reading
    looked_into = words.looked_into(reading)
    left_out = _left_out(seen) if looked_into and not request.counts else {}
    if left_out.get("corpus/left_out_share", 0) > _MUCH:
        whole = ", and every document that contains a part of one"
        note = f"left out of the training: {left_out_text(left_out)} of {request.name}"
        run.note(note + whole * (reading.pattern.cut_pairs is None))
    if corpus.copies is None and (copies := sections_remark(words.copied)):
        run.note(copies)
    if learned.stopped_early:
        reached = f"{evaluated.report.vocab_size:,} of {request.vocab_size:,} ids"
        if "merges" in request.options:
            reached = f"{learned.merges:,} of {learned.wanted:,} merges"
        run.note(
            f"stopped early at {reached}: "
            f"no pair{' whose token is allowed' * bool(request.token_rules)} occurs "
            f"{request.min_count:,} times any more"
        )
    if choice is not None:
        run.note(choice.at_edge)
    if evaluated.warning:
        run.note(evaluated.warning)
    if request.counts:
        run.note(
            "the word counts may contain the texts that it was measured on, so figures may be "
            "optimistic"
        )
    else:
        size = seen.bytes_counted + seen.held_out_bytes
        sample = seen.held_out_documents, seen.held_out_bytes
        advised = share_to_watch(size, seen.documents, reading.pattern.cut_pairs is not None)
        if remark := too_small_to_judge(sample, request.held_out, advised, size):
            run.note(remark)
    measured = metrics_of(evaluated)
    if choice is not None:
        measured.pop(WELL_USED, None)
    if request.serves_alike:
        run.note(_not_measured(unmeasured(measured, as_json(words.sources)), evaluated))
    return TrainingSummary(
        name=request.name,
        run_id=run.id,
        vocab_size=evaluated.report.vocab_size,
        merges=learned.merges,
        files=len(corpus.readings),
        chunks=len(corpus.chunks),
        chunks_reused=corpus.reused,
        corpus_bytes=text_bytes,
        of_counts=bool(request.counts),
        words=words.table.rows,
        word_occurrences=words.table.total,
        evaluated_bytes=evaluated.report.bytes,
        evaluated_on=evaluated.kind,
        measured_on=str(evaluated.on),
        against_others=against_others(
            run.registry, request.name, evaluated.tokenizer.digest, evaluated.made
        ),
        held_out=evaluated.on.held_out,
        metrics={
            **measured,
            **({} if choice is None else choice.metrics),
            **screened.screening.metrics,
            **{f"seconds/{step.replace(' ', '_')}": took for step, took in run.seconds.items()},
            "corpus/bytes": float(text_bytes),
            **({} if request.counts else _of_documents(seen)),
            **left_out,
            "corpus/distinct_words": float(words.table.rows),
            "corpus/words": float(words.table.total),
            "corpus/pruned_distinct_words": float(learned.pruned.words),
            "corpus/pruned_words": float(learned.pruned.occurrences),
            **({} if request.counts else _copies(corpus, words)),
        },
        curve=evaluated.report.curve,
        curves={
            **curves_of(evaluated),
            **({} if choice is None else choice.curves_of(evaluated.report.curve)),
        },
        chosen_size=None if choice is None else choice.as_record(),
        seconds=dict(run.seconds),
        sources=words.sources,
        left_out=left_out_text(left_out) if looked_into else "",
        notes=tuple(run.notes),
    )


def _left_out(seen: ShardStatistics) -> dict[str, float]:
    """Return the amount of text left out for the evaluation set."""
    size, documents = seen.left_out_bytes, seen.left_out_documents
    return {
        "corpus/left_out_bytes": float(size),
        "corpus/left_out_share": size / max(1, size + seen.bytes_counted + seen.held_out_bytes),
        "corpus/left_out_documents": float(documents),
    }


def _not_measured(sources: list[str], evaluated: Evaluated) -> str:
    """Return a note on sources of ``--parity`` without evaluation text; may be empty."""
    if not sources:
        return ""
    why = "none of their documents was held out"
    if evaluated.made is not None:
        why = "the evaluation set has no text of these names or languages"
    return (
        f"parity is not measured for {', '.join(sources)}: {why}. Costs and Gini "
        "coefficient leave them out; hold out more (`--held-out 0.1`), or name text of each "
        f"(`--eval {sources[0]}=FILES`; for a name that has a set, `bpeline evaluate NAME "
        f"--set-from {sources[0]}=FILES`)"
    )


def _of_documents(seen: ShardStatistics) -> dict[str, float]:
    return {
        "corpus/documents": float(seen.documents),
        "corpus/held_out_bytes": float(seen.held_out_bytes),
    }


def _copies(corpus: CountedCorpus, words: CountedWords) -> dict[str, float]:
    """Return what `--deduplicate` left out, or the copies found without it."""
    copies = corpus.copies
    if copies is None:
        shares = {"corpus/copied_chunks_share": corpus.copied_bytes / corpus.corpus_bytes}
        if words.copied.sections:
            shares["corpus/copied_sections_share"] = words.copied.share
        return shares
    return {
        "corpus/copied_documents": float(copies.documents),
        "corpus/copied_bytes": float(copies.text_bytes),
    }
