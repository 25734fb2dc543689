"""``bpeline train`` and ``bpeline resume``."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import click

from bpeline.flows.cli.commands import (
    SIZE,
    answer,
    command,
    echo_json,
    project_for,
    project_is_named,
    project_option,
)
from bpeline.flows.cli.request_options import options_of, settings_option, with_settings
from bpeline.flows.cli.text_arguments import with_standard_input
from bpeline.flows.requests import (
    BYTE_BPE,
    ENCODINGS,
    OPTIONS,
    PARTS,
    SCORES,
    WORD_SENTENCES,
    ImportRequest,
    TrainingRequest,
)
from bpeline.flows.wording import as_typed
from bpeline.registry.environment import addresses, find_project
from bpeline.tokenizer_core.errors import BpelineError, InvalidOption, RegistryError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bpeline.flows.importing import ImportSummary
    from bpeline.flows.publishing import TrainingSummary
    from bpeline.flows.train_languages import LanguagesSummary
    from bpeline.registry.catalogue import Run


@command(
    "bpeline train --demo",
    "bpeline train                                      # the project in bpeline.toml",
    "bpeline train corpus/ --name news --vocab-size 32000 --special-token '<|endoftext|>'",
    "bpeline train --source 'en=en/*.txt' --source 'de:weight=2=de/*.txt' --name two",
    "bpeline train corpus/ --name words --algorithm wordpiece --set options.score=gain",
    "zstdcat corpus.txt.zst | bpeline train - --name news",
    usual=(
        "name", "vocab_size", "model_shape", "pattern", "algorithm", "merges", "special_tokens",
        "min_count", "forbid", "reserve", "sources", "temperature", "text_field",
        "deduplicate", "held_out", "evaluation", "baselines", "rules", "workers", "settings",
        "dry_run", "show_steps", "demo",
    ),
)  # fmt: skip
@click.argument("paths", nargs=-1)
@project_option
@options_of(
    TrainingRequest,
    {
        "vocab_size": {"type": SIZE, "metavar": "NUMBER|auto"},
        "model_shape": {"metavar": "NAME|FILE"},
        "special_tokens": {"option": "--special-token"},
        "roles": {"option": "--role", "metavar": "ROLE=TOKEN"},
        "required_tokens": {"option": "--required-token"},
        "forbid": {"metavar": "NAME|REGEX"},
        "forbid_from": {"metavar": "REF"},
        "forbidden_tokens": {"option": "--forbidden-token"},
        "tie_break": {"type": str},  # the algorithm checks the value
        "sources": {"option": "--source", "metavar": "NAME=FILES"},
        "evaluation": {"option": "--eval", "metavar": "NAME=FILES"},
        "baselines": {"option": "--baseline", "metavar": "[NAME=]REF"},
        "rules": {"type": click.Path(dir_okay=False)},
        "counts": {"metavar": "FILES"},
        "count_columns": {"metavar": "WORD,COUNT"},
        "workers": {"option": "--threads"},
        "engine": {"metavar": "local|dask|ADDRESS"},
    },
    but=("paths", "options", "extends", "continued_ids", "transition_size", "text_form"),
)
@click.option(
    "--required-list",
    multiple=True,
    type=click.Path(dir_okay=False),
    help="File of texts that become tokens, one per line with its spaces. Repeatable.",
)
@click.option(
    "--forbid-list",
    multiple=True,
    type=click.Path(dir_okay=False),
    help="File of forbidden tokens, one per line with its spaces. Repeatable.",
)
@click.option("--merges", type=int, help="Number of merges, instead of --vocab-size.")
@click.option(
    "--end-of-word", help="With char-bpe and frequency-bpe: end-of-word mark.  [default: </w>]"
)
@click.option(
    "--joined",
    is_flag=True,
    default=None,
    help="With char-bpe: attach the end-of-word mark to the last character.",
)
@click.option("--unknown", help="Unknown token, <unk> for char-bpe and [UNK] for wordpiece.")
@click.option(
    "--encoding",
    type=click.Choice(list(ENCODINGS)),
    help="With char-bpe: apply merges in order, or the longest token first; greedy-trained keeps "
    "the splits of training for the words of the corpus.  [default: merges]",
)
@click.option(
    "--score",
    type=click.Choice(list(SCORES)),
    help="With wordpiece: score of a pair; likelihood is for small corpora.  [default: ratio]",
)
@click.option(
    "--continuation", help="With wordpiece: prefix of tokens inside words.  [default: ##]"
)
@click.option("--max-word-characters", type=int, help="With wordpiece: longer words are unknown.")
@click.option(
    "--sentences",
    metavar="punkt|punkt:LANGUAGE|lines|none",
    help="With frequency-bpe: sentence splitter; punkt:english or punkt:DIRECTORY uses tables of "
    "NLTK's punkt_tab.  [default: punkt]",
)
@click.option(
    "--word-sentences",
    type=click.Choice(list(WORD_SENTENCES)),
    help="With frequency-bpe and punkt: count words in each sentence or in the whole text.  "
    "[default: sentences]",
)
@click.option(
    "--parts",
    type=click.Choice(list(PARTS)),
    help="With frequency-bpe: none gives parts of longer tokens no ids and encodes them as "
    "unknown.  [default: all]",
)
@click.option(
    "--min-sentence-characters",
    type=int,
    metavar="N",
    help="With frequency-bpe: leave shorter sentences out of encoded texts.  [default: 1]",
)
@click.option(
    "--joint",
    multiple=True,
    metavar="LANGUAGE=PATH",
    help="Instead of PATHS: train one tokenizer on these languages and compare it with separate "
    "ones. Repeatable.",
)
@click.option(
    "--separate",
    multiple=True,
    metavar="LANGUAGE=PATH",
    help="Instead of PATHS: train a tokenizer NAME-LANGUAGE for each language and compare them "
    "with a joint one. Repeatable.",
)
@click.option("--dry-run", is_flag=True, help="Show what is cached and what would be read.")
@click.option("--show-steps", is_flag=True, help="Print each merge; register nothing.")
@settings_option
@click.option("--demo", is_flag=True, help="Train on the Python standard library's source text.")
def train(
    paths: tuple[str, ...],
    demo: bool,
    dry_run: bool,
    show_steps: bool,
    merges: int | None,
    joint: tuple[str, ...],
    separate: tuple[str, ...],
    required_list: tuple[str, ...],
    forbid_list: tuple[str, ...],
    settings: tuple[str, ...],
    as_json: bool,
    **given: Any,
) -> None:
    """Train a tokenizer on PATHS and register it.

    PATHS are files, directories, globs or URLs of text, .jsonl, .csv, .tsv, .json, .parquet or
    .arrow, compressed or not; one .toml file of named sources; or "-" for standard input. Without
    PATHS, bpeline.toml in this or a parent directory is used. Options override it.

    Run the same command again to continue after an interruption.
    """
    given = with_settings(TrainingRequest, given, settings)
    paths = given.pop("paths", paths)
    parameters = {key: value for key, value in given.items() if value not in (None, ())}
    options = parameters.pop("options", {})
    options |= {name: parameters.pop(name) for name in OPTIONS if name in parameters}
    parameters["options"] = options
    for name, lists in (("required_tokens", required_list), ("forbidden_tokens", forbid_list)):
        if lists:
            from bpeline.tokenizer_core.training import read_token_list

            tokens = (token for path in lists for token in read_token_list(path))
            parameters[name] = [*given[name], *tokens]
    project_given = project_is_named()
    other_corpus = bool(paths or demo or show_steps or given["sources"] or given["counts"])
    if project_given and (demo or show_steps or joint or separate):
        raise InvalidOption(
            "--project was given together with --demo, --show-steps, --joint or --separate",
            "expected PATHS or the corpus of the project",
            "leave out --project",
        )
    if bool(joint) + bool(separate) + other_corpus > 1:
        raise InvalidOption(
            "--joint or --separate was given together with another corpus",
            "expected either PATHS (or --demo, or --show-steps), or --joint, or --separate",
            "leave out all but one of them",
        )
    if show_steps:
        from bpeline.flows.cli.steps import show_steps as show

        show(paths, parameters, merges, as_json)
        return
    if demo:
        _add_demo(parameters, paths)
    elif paths:
        parameters["paths"] = paths
    elif joint or separate or other_corpus:
        parameters["paths"] = ()
    if joint or separate:
        if (path := find_project()) is not None:
            click.echo(f"note: {path} is not used with --joint and --separate", err=True)
    elif project := project_for(parameters.get("name"), needed=not other_corpus):
        parameters = project.with_typed(parameters)
    if paths:
        field = parameters.get("text_field", "text")
        parameters["paths"] = with_standard_input(paths, field)
    if "name" not in parameters:
        raise InvalidOption(
            "the tokenizer has no name",
            "expected a name to register under, such as news or news-32k",
            "add `--name news`, or type `bpeline train --demo`",
        )
    if merges is not None:
        if given["vocab_size"] is not None:
            raise InvalidOption(
                "--vocab-size and --merges were both given",
                "expected one of them",
                "leave one of them out",
            )
        if merges < 0:
            raise InvalidOption(
                f"--merges is {merges}", "expected a whole number from 0", "type `--merges 31744`"
            )
        if parameters.get("algorithm", BYTE_BPE) == BYTE_BPE:
            parameters["vocab_size"] = 256 + len(parameters.get("special_tokens", ())) + merges
        else:
            parameters["options"] = {**parameters.get("options", {}), "merges": merges}
    if paths:
        TrainingRequest.checked(**parameters)  # report other errors before missing files
        _refuse_missing(paths)
    if joint or separate:
        from bpeline.flows.train_languages import train_languages

        del parameters["paths"]
        name, languages = parameters.pop("name"), _languages_of(joint or separate)
        choice: Literal["joint", "separate"] = "joint" if joint else "separate"
        summary = train_languages(languages, choice, name, run_training, **parameters)
        print_summary(summary, as_json)
    elif dry_run:
        print_plan(parameters, as_json)
    else:
        print_summary(run_training(parameters), as_json)


def print_plan(parameters: dict[str, Any], as_json: bool) -> None:
    """Print what a training with these parameters would do."""
    from bpeline.flows.evaluation import with_forbidden_tokens
    from bpeline.flows.trainings import plan_training

    request, remark = with_forbidden_tokens(
        TrainingRequest.checked(**parameters), addresses().workspace
    )
    planned = plan_training(request, addresses().home)
    if remark:
        planned = replace(planned, notes=(*planned.notes, remark))
    answer(as_json, planned.as_dict(), [as_typed(planned.as_text())])


def _refuse_missing(paths: Sequence[str]) -> None:
    """Report missing files early: importing the readers takes seconds."""
    for path in paths:
        is_plain_path = path != "-" and not path.endswith(".toml") and not set(path) & set(":*?[")
        if is_plain_path and not os.path.lexists(os.path.expanduser(path)):
            from bpeline.tokenizer_core.corpus import Source, find_source_files

            find_source_files([Source(path)])


def _languages_of(named: Sequence[str]) -> dict[str, list[str]]:
    """Parse ``LANGUAGE=PATH`` into language → paths, in order."""
    languages: dict[str, list[str]] = {}
    for spelling in named:
        language, equals, path = spelling.partition("=")
        if not (language and equals and path):
            raise InvalidOption(
                f"{spelling!r} is not LANGUAGE=PATH",
                "expected a name, '=', and a file, directory or glob",
                "type `--joint src=corpus.src --joint tgt=corpus.tgt`",
            )
        languages.setdefault(language, []).append(path)
    return languages


def _add_demo(parameters: dict[str, Any], paths: tuple[str, ...]) -> None:
    from bpeline.flows.requests import DEMO, DEMO_HELD_OUT, DEMO_NAME, DEMO_VOCAB_SIZE

    if paths:
        raise InvalidOption(
            "--demo was given together with paths",
            "expected one of them: --demo has its own corpus",
            "leave out one of them",
        )
    parameters["paths"] = [DEMO]
    parameters.setdefault("name", DEMO_NAME)
    if "largest_size" not in parameters:
        parameters.setdefault("vocab_size", DEMO_VOCAB_SIZE)
    parameters.setdefault("held_out", DEMO_HELD_OUT)


@command("bpeline resume", "bpeline resume --list", "bpeline resume 4f1c09ab77d2")
@click.argument("run", required=False)
@click.option("--list", "only_list", is_flag=True, help="Only list unfinished runs.")
def resume(run: str | None, only_list: bool, as_json: bool) -> None:
    """Publish waiting versions and continue an unfinished RUN.

    Without RUN, the newest one is continued. Also finishes deletions that were interrupted or that
    waited for MLflow.
    """
    from bpeline.flows.resume import (
        delete_waiting,
        publish_waiting,
        unfinished_run,
        unfinished_runs,
    )

    if only_list:
        _show_runs(unfinished_runs(), as_json)
        return
    published = publish_waiting()
    deleted, deletion_error = [], None
    try:
        deleted = delete_waiting()
    except RegistryError as error:  # reported below, so that a run can continue anyway
        deletion_error = error
    chosen = unfinished_run(run, failed_too=not published)
    if not as_json:
        for version in published:
            click.echo(f"published {version.reference}  {version.link}")
        for tombstone in deleted:
            click.echo(f"deleted {tombstone.reference}")
    if deletion_error is not None:
        if chosen is None:
            raise deletion_error
        click.echo(f"note: {deletion_error.happened}", err=True)
    if chosen is not None:
        rules = chosen.config.get("rules")
        rules_text = f"; promotion rules: {rules}" if rules else ""
        click.echo(f"continuing run {chosen.id} ({chosen.name}){rules_text}", err=True)
        try:
            summary = run_training(dict(chosen.config))
        except BpelineError as error:
            _say_where_options_go(error)
            raise
        print_summary(summary, as_json)
    elif as_json:
        echo_json(
            {
                "published": [version.reference for version in published],
                "deleted": [version.reference for version in deleted],
            }
        )
    elif not published and not deleted:
        click.echo("nothing to resume: there is no unfinished run, and the outbox is empty")


def _say_where_options_go(error: BpelineError) -> None:
    """Add to advice with options that they belong to the training's command."""
    outside_of_commands = re.sub(r"`\w[^`]*`", "", error.next_step)
    if re.search(r"--[a-z]", outside_of_commands):
        error.next_step += (
            "; `bpeline resume` has no such option: run the training command again with it, which "
            "also continues"
        )


def _show_runs(runs: Sequence[Run], as_json: bool) -> None:
    lines = [] if runs else ["no run is unfinished"]
    for run in runs:
        reason = run.error.splitlines()[0] if run.error else f"last step: {run.step}"
        lines.append(f"{run.id}  {run.state:<11}  {run.name:<16}  {run.started_at[:16]}  {reason}")
    answer(as_json, [run.as_values() for run in runs], lines)


def run_training(parameters: dict[str, Any]) -> Any:
    """Run a training, or an import if there is a ``file``; return its summary."""
    from bpeline.flows.python_api import run_request

    request = ImportRequest if "file" in parameters else TrainingRequest
    return run_request(request.checked(**parameters))


def print_summary(
    summary: TrainingSummary | ImportSummary | LanguagesSummary, as_json: bool
) -> None:
    """Print a summary, and set the exit code if the promotion was refused or not judged."""
    answer(as_json, summary.as_dict(), [summary.as_text()])
    promotion = getattr(summary, "promotion", None)  # not for several languages
    if promotion is not None and not promotion.promoted:
        click.get_current_context().exit(promotion.exit_code)
