"""Every algorithm goes through the whole chain: counted, trained, measured, registered, used."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from segmented_texts import CHINESE, text_of

from bpeline import flows
from bpeline.flows.learning.algorithms import (
    continuation_settings,
    superword_settings,
    token_settings,
)
from bpeline.flows.requests import TrainingRequest
from bpeline.flows.running import StepKind, steps
from bpeline.flows.trainings.run import TrainingRun
from bpeline.registry import load_tokenizer
from bpeline.tokenizer_core import Tokenizer, count_words
from bpeline.tokenizer_core.algorithms.character_bpe import train_char_bpe
from bpeline.tokenizer_core.algorithms.frequency_bpe import train_frequency_bpe
from bpeline.tokenizer_core.algorithms.greedy import greedy_longest
from bpeline.tokenizer_core.algorithms.wordpiece import train_wordpiece
from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.formats.known import format_named
from bpeline.tokenizer_core.shards.token_shards import TokenShards

pytestmark = pytest.mark.fake_mlflow

Command = Callable[..., Result]
TOY = ["low"] * 5 + ["lower"] * 2 + ["newest"] * 6 + ["widest"] * 3


def by_character_bpe(files: list[str]) -> Tokenizer:
    counts = count_words(files, "whitespace")
    return train_char_bpe(counts, 150, end_of_word="·", special_tokens=["<|end|>"])


def by_joined_character_bpe(files: list[str]) -> Tokenizer:
    counts = count_words(files, "whitespace")
    return train_char_bpe(counts, 150, joined=True, tie_break="greatest-bytes", min_count=3)


def by_greedy_longest(files: list[str]) -> Tokenizer:
    counts = count_words(files, "whitespace")
    return greedy_longest(train_char_bpe(counts, 150), counts)


def by_wordpiece(files: list[str]) -> Tokenizer:
    return train_wordpiece(count_words(files, "wordpunct"), 500, score="gain", min_word_count=2)


def by_frequency_bpe(files: list[str]) -> Tokenizer:
    counts = count_words(files, "wordpunct")
    return train_frequency_bpe(counts, 150, min_word_count=2, sentences="lines")


CASES = {
    "char-bpe": (
        ["--merges", "150", "--end-of-word", "·", "--special-token", "<|end|>"],
        by_character_bpe,
    ),
    "char-bpe, joined": (
        ["--merges", "150", "--joined", "--tie-break", "greatest-bytes", "--min-count", "3"],
        by_joined_character_bpe,
    ),
    "char-bpe, greedy": (["--merges", "150", "--encoding", "greedy"], by_greedy_longest),
    "wordpiece": (
        ["--vocab-size", "500", "--score", "gain", "--min-word-count", "2"],
        by_wordpiece,
    ),
    "frequency-bpe": (
        ["--merges", "150", "--min-word-count", "2", "--sentences", "lines"],
        by_frequency_bpe,
    ),
}


@pytest.mark.night
@pytest.mark.parametrize("case", CASES)
def test_the_command_line_trains_what_the_library_trains(
    case: str, corpus: Path, bpeline: Command, tmp_path: Path
) -> None:
    options, train = CASES[case]
    algorithm = case.split(",", maxsplit=1)[0]
    begin = ["train", "corpus", "--name", "words", "--algorithm", algorithm, "--held-out", "0"]
    shown = bpeline(*begin, *options, "--json")
    assert shown.exit_code == 0, shown.output
    summary = json.loads(shown.stdout)
    expected = train([str(path) for path in sorted(corpus.iterdir())])
    loaded = load_tokenizer("words@candidate")
    assert summary["digest"] == loaded.digest == expected.digest
    assert summary["vocab_size"] == expected.vocab_size
    metrics = summary["metrics"]
    assert 0 <= metrics["vocabulary/unknown_rate"] < 0.2
    assert "vocabulary/unreachable_tokens" not in metrics
    assert metrics["evaluated/tokens"] > metrics["evaluated/words"]
    again = json.loads(bpeline(*begin, *options, "--json").stdout)
    assert (again["version"], again["newly_registered"]) == (1, False)
    text = "the value of self"
    ids = bpeline("encode", "words@candidate", text).stdout.split()
    assert list(map(int, ids)) == expected.encode(text)
    assert bpeline("decode", "words/1", *ids).stdout.strip("\n") == expected.decode(
        list(map(int, ids))
    )
    details = json.loads(bpeline("show", "words/1", "--json").stdout)
    assert details["parameters"]["algorithm"] == algorithm
    exported = {path.name for path in Path(summary["directory"]).iterdir()}
    assert ("tokenizer.json" in exported) is (algorithm == "wordpiece")
    assert not [name for name in exported if name.endswith(".tiktoken")]
    formats = {"char-bpe, joined": "subword-nmt", "wordpiece": "wordpiece",
               "frequency-bpe": "frequency-bpe"}  # fmt: skip
    if case in formats:
        foreign = bpeline("export", "words/1", "--format", formats[case], "--output", "foreign")
        assert foreign.exit_code == 0, foreign.output
        told_apart = "tell its reader: pattern = 'w" in foreign.stdout
        assert told_apart is (case != "frequency-bpe")  # whose fourth file says it
        told = format_named(formats[case]).left_out(expected)
        read = Tokenizer.load(Path("foreign"), formats[case], **told)  # type: ignore[arg-type]
        assert read.decode(read.encode(text)) == expected.decode(expected.encode(text))
        assert len(read.encode(text)) == len(expected.encode(text))


@pytest.mark.night
def test_versions_of_two_algorithms_are_compared(corpus: Path, bpeline: Command) -> None:
    begin = ["train", "corpus", "--name", "news", "--held-out", "0"]
    for options in (
        ["--vocab-size", "400"],
        ["--algorithm", "frequency-bpe", "--merges", "100", "--sentences", "lines"],
        ["--algorithm", "char-bpe", "--vocab-size", "400"],
    ):
        shown = bpeline(*begin, *options)
        assert shown.exit_code == 0, shown.output
    for first, second in ((1, 2), (2, 1), (2, 3), (3, 1)):
        compared = bpeline(
            "compare", f"news/{first}", f"news/{second}", "--eval", "corpus/part-0.txt", "--json"
        )
        assert compared.exit_code == 0, compared.output
        assert json.loads(compared.stdout)


@pytest.mark.night
def test_a_training_goes_on_behind_the_step_it_finished(
    corpus: Path, bpeline: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["train", "corpus", "--name", "words", "--algorithm", "wordpiece",
               "--vocab-size", "400"]  # fmt: skip
    begun = TrainingRun.step

    def killed_at_evaluation(run: TrainingRun, kind: StepKind, *more: object) -> object:
        if kind == steps.EVALUATE:
            raise KeyboardInterrupt
        return begun(run, kind, *more)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(TrainingRun, "step", killed_at_evaluation)
        assert bpeline(*command).exit_code != 0
    went_on = bpeline("resume")
    assert went_on.exit_code == 0, went_on.output
    assert "all learned before" in went_on.output
    assert load_tokenizer("words/1").vocab_size == 400


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--end-of-word", "_"], "--end-of-word does not apply to the algorithm byte-bpe"),
        (["--pattern", "whitespace"], "drops the text between"),
        (["--algorithm", "wordpiece", "--merges", "5"], "--merges does not apply"),
        (["--algorithm", "wordpiece", "--tie-break", "first-seen"], "--tie-break does not apply"),
        (["--algorithm", "char-bpe", "--required-token", " a"], "--required-token does not apply"),
        (["--algorithm", "char-bpe", "--vocab-size", "9"], "no room for"),
        (["--algorithm", "wordpiece", "--encoding", "greedy"], "--encoding does not apply"),
        (
            ["--algorithm", "frequency-bpe", "--special-token", "<s>"],
            "--special-token does not apply",
        ),
        (["--algorithm", "frequency-bpe", "--show-steps", "--joined"], "--joined does not apply"),
    ],
)
def test_options_of_other_algorithms_are_refused(
    options: list[str], said: str, corpus: Path, bpeline: Command
) -> None:
    refused = bpeline("train", "corpus", "--name", "words", *options)
    assert refused.exit_code != 0
    assert said in str(refused.exception) or said in refused.output


def test_steps_can_be_shown_instead_of_training(bpeline: Command, tmp_path: Path) -> None:
    (tmp_path / "toy.txt").write_text(" ".join(TOY), encoding="utf-8")
    options = ["toy.txt", "--algorithm", "char-bpe", "--end-of-word", "_", "--merges", "10"]
    shown = bpeline("train", *options, "--show-steps")
    assert shown.exit_code == 0, shown.output
    assert "e + s = es" in shown.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["toy.txt"]


@pytest.fixture
def documented_files(tmp_path: Path) -> None:
    """What the examples of the documentation name, beside the corpus."""
    contents = {
        "toy.txt": " ".join(TOY),
        "tokens.txt": "errrr</w>\ntain</w>\nmoun\nest</w>\nhigh\nthe</w>\na</w>\n",
        "text.en": "the lower house saw newer water " * 60,
        "text.de": "das haus sah neues wasser und den lower " * 60,
        "chinese.txt": text_of(CHINESE, 300),
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content, encoding="utf-8")


@pytest.mark.night
@pytest.mark.usefixtures("documented_files")
def test_the_examples_of_the_documentation_run(corpus: Path, bpeline: Command) -> None:
    document = (Path(flows.__file__).parents[1] / "docs" / "algorithms.md").read_text()
    blocks = re.findall(r"```(\w+)\n(.*?)```", document, flags=re.DOTALL)
    assert {language for language, _ in blocks} == {"console", "python"}
    installed = all(find_spec(name) is not None for name in ("jieba", "sudachipy"))
    namespace = {"__name__": "documentation"}
    for language, body in blocks:
        if "jieba" in body and not installed:
            continue
        if language == "python":
            exec(compile(body, "docs/algorithms.md", "exec"), namespace)
            continue
        for line in body.splitlines():
            shown = bpeline(*shlex.split(line.removeprefix("$ bpeline ")))
            assert shown.exit_code == 0, shown.output


@pytest.mark.night
def test_files_are_encoded_sentence_by_sentence(
    corpus: Path, bpeline: Command, tmp_path: Path
) -> None:
    train = ["train", "corpus", "--name", "marked", "--algorithm", "frequency-bpe"]
    trained = bpeline(*train, "--sentences", "lines", "--merges", "50", "--held-out", "0")
    assert trained.exit_code == 0, trained.output
    shards = bpeline("encode", "marked/1", "corpus", "-o", "tokens", "--json")
    assert shards.exit_code == 0, shards.output
    tokenizer = load_tokenizer("marked/1")
    expected = [tokenizer.encode(path.read_text()) for path in sorted(corpus.iterdir())]
    assert [ids.tolist() for ids in TokenShards(tmp_path / "tokens")] == expected
    assert json.loads(shards.stdout)["documents"] == len(expected)


@pytest.mark.parametrize(
    ("settings_of", "options", "digest"),
    [
        (
            token_settings,
            {"algorithm": "wordpiece", "special_tokens": ["[UNK]"]},
            "2e3334c712705b50",
        ),
        (token_settings, {"algorithm": "char-bpe", "min_word_count": 2}, "c507b3d53d1eadca"),
        (continuation_settings, {}, "032fd9ffa51b032c"),
        (superword_settings, {}, "a0ef6a72536d0cb6"),
    ],
)
def test_kept_tokenizers_are_found_in_workspaces_of_earlier_releases(
    settings_of: Callable[[TrainingRequest], object],
    options: dict[str, Any],
    digest: str,
    tmp_path: Path,
) -> None:
    request = TrainingRequest.checked(paths=[tmp_path], name="news", vocab_size=600, **options)
    assert digest_of(settings_of(request)).startswith(digest)
