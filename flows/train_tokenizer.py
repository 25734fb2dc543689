"""The whole chain on one screen: a corpus becomes a registered tokenizer."""

from __future__ import annotations

from typing import Any, Literal

from bpeline.flows.comparisons import comparison_markdown
from bpeline.flows.requests import TrainingRequest
from bpeline.flows.steps import (
    TrainingSummary,
    combine_counts,
    count_words,
    evaluate,
    learn,
    plan_chunks,
    prepared,
    promote_if_better,
    publish,
    screen_tokens,
    set_up_evaluation,
    summarize,
    training_run,
)
from bpeline.tokenizer_core.errors import CorruptFile


def train_tokenizer(
    paths: list[str],
    name: str,
    vocab_size: int = 32_000,
    pattern: str | None = None,
    special_tokens: list[str] | None = None,
    tie_break: Literal["smallest-ids", "greatest-bytes", "first-seen"] | None = None,
    min_count: int | None = None,
    max_token_bytes: int | None = None,
    invalid_utf8: Literal["strict", "replace"] = "strict",
    held_out: float = 0.01,
    text_field: str = "text",
    workers: int | None = None,
    workspace: str | None = None,
    min_word_count: int = 1,
    required_tokens: list[str] | None = None,
    table_memory: int = 256,
    algorithm: Literal["byte-bpe", "char-bpe", "wordpiece", "frequency-bpe"] = "byte-bpe",
    options: dict[str, Any] | None = None,
    evaluation: list[str] | None = None,
    baselines: list[str] | None = None,
    rules: str | None = None,
    extends: str | None = None,
    sources: list[str] | None = None,
    temperature: float | None = None,
    engine: str = "local",
) -> TrainingSummary:
    """Train a tokenizer on a corpus and register it: byte-level BPE, or another algorithm.

    The same call after an interruption continues where it stopped, with the same result.

    Args:
        paths: files, directories and globs of .txt and .jsonl, each also .gz or .zst.
            "python:stdlib" is the Python standard library's own source text. Or one corpus file
            (.toml, see `flows.requests.corpus_files`); empty when ``sources`` are given.
        name: the name to register under: a-z, 0-9, ".", "_" and "-".
        vocab_size: number of ids: special tokens, 256 bytes (or the characters), merges.
        pattern: the split pattern: a name or a regex; that of the algorithm when empty, gpt2 for
            byte-level BPE.
        special_tokens: tokens of their own, which also separate documents.
        tie_break: which of equally frequent pairs is merged: smallest-ids, greatest-bytes or
            first-seen; the usual one of the algorithm when empty.
        min_count: pairs that occur less often are not merged; 2 when empty (1 for frequency-bpe).
        max_token_bytes: the longest token; without a limit when empty.
        invalid_utf8: what happens to bytes that are not UTF-8: strict (an error) or replace.
        held_out: the share of documents kept for evaluation.
        text_field: the field of .jsonl lines that holds the text.
        workers: threads for counting; all cores when empty.
        workspace: its directory; BPELINE_HOME, else .bpeline, when empty.
        min_word_count: words that occur less often in the whole corpus are left out.
        required_tokens: texts that become tokens whatever the corpus holds.
        table_memory: MiB that the words of one thread take at most while it counts; what does not
            fit is added up on disk.
        algorithm: byte-bpe, char-bpe, wordpiece or frequency-bpe.
        options: what the algorithm alone is told, see `algorithm_options`.
        evaluation: texts to evaluate on instead of held-out documents: "english=heldout/*.txt",
            "german:language=de:domain=news=heldout/de/*.txt", or a .toml file of such sources.
        baselines: tokenizers to measure on the same documents: files or registered versions, each
            perhaps named: "gpt2=gpt2/tokenizer.json".
        rules: a .toml file of rules; the new version becomes champion if all hold, and stays
            candidate if one does not. The first version has nothing to be compared with.
        extends: digest of a registered version whose merges come first, see `bpeline extend`.
        sources: instead of paths: named files with labels and weights, for instance
            "german:language=de:domain=news:weight=2=de/*.txt".
        temperature: brings the shares of named sources closer together (above 1) or further
            apart (below), see `source_weights.weights_at`; that of the corpus file, else 1, when
            empty.
        engine: what counts: local (threads), dask (processes of this machine), or the address of a
            Dask scheduler whose workers share the workspace and the corpus: tcp://HOST:PORT.

    Raises:
        BpelineError: what was asked for, read or written cannot be; the workspace stays good.
    """
    request = TrainingRequest.checked(
        paths=paths, name=name, vocab_size=vocab_size, pattern=pattern,
        special_tokens=special_tokens or [], tie_break=tie_break, min_count=min_count,
        max_token_bytes=max_token_bytes, invalid_utf8=invalid_utf8, held_out=held_out,
        text_field=text_field, workers=workers, min_word_count=min_word_count,
        required_tokens=required_tokens or [], table_memory=table_memory,
        algorithm=algorithm, options=options or {}, evaluation=evaluation or [],
        baselines=baselines or [], rules=rules, extends=extends or "", engine=engine,
        sources=sources or [], temperature=temperature,
    )  # fmt: skip
    with training_run(request, workspace) as run, prepared(run.registry.tracker) as preparing:
        if remark := request.pattern_remark:
            run.progress.note(remark)
        setup = set_up_evaluation(request, run.workspace)
        for attempt in run.attempts(after=CorruptFile):
            with attempt:
                with run.step("plan chunks") as outcome:
                    plan = plan_chunks(request, run.workspace)
                    outcome(plan.outcome)
                with run.step("count words", plan.bytes_to_read, "bytes") as outcome:
                    corpus = count_words(plan, run.workspace, request)
                    outcome(corpus.outcome, corpus.bytes_counted)
                with run.step("combine counts") as outcome:
                    words = combine_counts(corpus, request, run.workspace, run.id)
                    outcome(words.outcome, 0 if words.table.reused else corpus.corpus_bytes)
                with run.step("learn merges", request.merges_shown, "merges") as outcome:
                    learned = learn(words, request, run.workspace)
                    outcome(learned.outcome, 0 if learned.resumed else corpus.corpus_bytes)
                preparing.join()
                with run.step("evaluate") as outcome:
                    evaluated = evaluate(learned, words, plan, setup, request, run.workspace)
                    outcome(evaluated.outcome)
                with run.step("screen tokens") as outcome:
                    screened = screen_tokens(words, plan, evaluated, request, run.workspace)
                    outcome(screened.outcome)
        summary = summarize(run, corpus, words, learned, evaluated, screened)
        with run.step("publish") as outcome:
            version = publish(
                summary, learned, plan, corpus, words, evaluated, screened, request, run.workspace
            )
            outcome(version.reference)
        promotion = None
        if setup.rules is not None:
            with run.step("promote") as outcome:
                promotion = promote_if_better(version, setup.rules, run.workspace)
                outcome(promotion.outcome)
        summary = summary.published(version, run.seconds, promotion)
        if evaluated.comparison is not None:
            compared = evaluated.comparison.called(version.reference)
            run.progress.compared(version.reference, comparison_markdown(compared))
        run.progress.summary(summary.reference, summary.as_markdown())
        return summary
