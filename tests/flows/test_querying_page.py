"""docs/querying.md: each of its questions, as it stands there, answers what plain Python does."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import Result

from bpeline.flows import cli
from bpeline.registry import load_tokenizer
from bpeline.registry.querying import layout
from bpeline.tokenizer_core.splitting.pretokenization import pre_tokens
from bpeline.tokenizer_core.tokenizer import Tokenizer

pytestmark = pytest.mark.fake_mlflow

PAGE = Path(cli.__file__).parents[2] / "docs" / "querying.md"
QUESTIONS = re.findall(r"^\*\*(.+?)\*\*.*?^```sql\n(.+?)^```", PAGE.read_text(), re.M | re.S)
Row = dict[str, Any]
Ask = Callable[[str], list[Row]]


@pytest.fixture(scope="module")
def trained(folder_after: Callable[..., Path]) -> Path:
    """``news/1`` and ``news/2``, of two sources that have words in common."""
    return folder_after(begin="two sources")


@pytest.fixture
def ask(here: Path) -> Ask:
    """The answer to the question that begins like this."""
    from click.testing import CliRunner

    from bpeline.flows.cli.main import cli as command

    def asked(beginning: str) -> list[Row]:
        (statement,) = (sql for title, sql in QUESTIONS if title.startswith(beginning))
        answer: Result = CliRunner().invoke(command, ["sql", statement, "--json"])
        assert answer.exit_code == 0, answer.output
        rows: list[Row] = json.loads(answer.stdout)
        assert rows, "the example says nothing about this corpus"
        return rows

    return asked


def words_of(name: str) -> Counter[str]:
    return Counter(pre_tokens(Path(name).read_text(encoding="utf-8"), "gpt2"))


def trained_on() -> Counter[str]:
    return words_of("english.txt") + words_of("german.txt") + words_of("german.txt")


def use_of(tokenizer: Tokenizer, words: Counter[str]) -> Counter[int]:
    use: Counter[int] = Counter()
    for word, count in words.items():
        for id_ in tokenizer.encode(word):
            use[id_] += count
    return use


def made_by(tokenizer: Tokenizer, words: Counter[str]) -> Counter[int]:
    """How often each token of a merge comes about."""
    made: Counter[int] = Counter()
    for word, count in words.items():
        for one in tokenizer.explain(word):
            for merge in one.merges:
                made[tokenizer.token_to_id(merge.left + merge.right)] += count
    return made


def ordered(rows: Iterable[tuple[Any, ...]], most: int | None = None) -> list[tuple[Any, ...]]:
    """By the last value, falling, then by the first."""
    return sorted(rows, key=lambda row: (-row[-1], row[0]))[:most]


def values(rows: list[Row], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


def test_there_are_ten() -> None:
    assert len(QUESTIONS) == len({title for title, _ in QUESTIONS}) == 10


def test_words_of_more_than_four_tokens(ask: Ask) -> None:
    tokenizer = load_tokenizer("news/2")
    lengths = {word: len(tokenizer.encode(word)) for word in trained_on()}
    expected = [
        (word, count, lengths[word], count * (lengths[word] - 1))
        for word, count in trained_on().items()
        if lengths[word] > 4
    ]
    rows = values(ask("Which words take"), "word", "count", "tokens", "more_than_one_each")
    assert rows == ordered(expected, 20)


def test_which_source_a_token_comes_from(ask: Ask) -> None:
    tokenizer = load_tokenizer("news/2")
    of = {
        "english": use_of(tokenizer, words_of("english.txt")),
        "german": use_of(tokenizer, words_of("german.txt")),
    }
    expected = [
        (id_, source, use[id_])
        for source, use in of.items()
        for id_ in use
        if use[id_] >= 0.99 * (of["english"][id_] + of["german"][id_])
    ]
    rows = values(ask("Which source"), "id", "source", "occurrences")
    assert rows == ordered(expected)
    assert {source for _, source, _ in rows} == set(of)


def test_what_would_be_dropped(ask: Ask) -> None:
    words = trained_on()
    rare = [count for count in words.values() if count < 2]
    total = words.total()
    kept, dropped = total - sum(rare), sum(rare)
    assert values(ask("What would"), "dropped", "words", "occurrences", "percent") == [
        (False, len(words) - len(rare), kept, round(100 * kept / total, 3)),
        (True, len(rare), dropped, round(100 * dropped / total, 3)),
    ]


def test_shared_words(ask: Ask) -> None:
    english, german = words_of("english.txt"), words_of("german.txt")
    shared = [(word, english[word], german[word]) for word in english.keys() & german.keys()]
    expected = sorted(shared, key=lambda row: (-min(row[1:]), row[0]))[:50]
    assert values(ask("Which words do two"), "word", "english", "german") == expected


def test_words_split_in_another_way(ask: Ask) -> None:
    first, second = load_tokenizer("news/1"), load_tokenizer("news/2")
    expected = []
    for word, count in trained_on().items():
        before, after = len(first.encode(word)), len(second.encode(word))
        if before != after:
            expected.append((word, count, before, after, count * (before - after)))
    rows = values(ask("Which words are split"), "word", "count", "before", "after", "saved")
    assert rows == ordered(expected, 50)


def test_unused_tokens(ask: Ask) -> None:
    tokenizer = load_tokenizer("news/2")
    used, made = use_of(tokenizer, trained_on()), made_by(tokenizer, trained_on())
    unused = [id_ for id_ in tokenizer.vocab if not used[id_] and not tokenizer.is_special(id_)]
    rows = ask("Which tokens does no")
    ranks = {row["id"]: row["made"] for row in rows if row["rank"] is not None}
    assert ranks == {id_: made[id_] for id_ in ranks}
    assert sorted(row["id"] for row in rows) == sorted(unused)


def test_steps_to_longer_tokens(ask: Ask) -> None:
    tokenizer = load_tokenizer("news/2")
    used, made = use_of(tokenizer, trained_on()), made_by(tokenizer, trained_on())
    expected = [(id_, used[id_], made[id_]) for id_ in made if used[id_] < made[id_] / 10]
    assert values(ask("Which tokens are mostly"), "id", "count", "made") == ordered(expected)


def test_tokens_of_one_word(ask: Ask) -> None:
    tokenizer = load_tokenizer("news/2")
    words_with: dict[int, list[str]] = {}
    for word in trained_on():
        for id_ in set(tokenizer.encode(word)):
            words_with.setdefault(id_, []).append(word)
    merged = set(tokenizer.merge_ids[2].tolist())
    counts = trained_on()
    expected = [
        (id_, words[0], counts[words[0]])
        for id_, words in words_with.items()
        if len(words) == 1 and id_ in merged
    ]
    assert values(ask("Which tokens were"), "id", "word", "count") == ordered(expected)


def test_tokens_of_a_word_in_each_source(ask: Ask) -> None:
    tokenizer = load_tokenizer("news/2")
    expected = []
    for source, file in (("english", "english.txt"), ("german", "german.txt")):
        words = words_of(file)
        tokens = sum(count * len(tokenizer.encode(word)) for word, count in words.items())
        size = sum(count * len(word.encode()) for word, count in words.items())
        expected.append((source, tokens / words.total(), size / tokens))
    assert values(ask("How many"), "source", "tokens_per_word", "bytes_per_token") == expected


def test_new_tokens(ask: Ask) -> None:
    first, second = load_tokenizer("news/1"), load_tokenizer("news/2")
    use = use_of(second, trained_on())
    known = set(first.vocab.values())
    new = [(id_, use[id_]) for id_, token in second.vocab.items() if token not in known]
    assert values(ask("Which tokens are new"), "id", "count") == ordered(new)


def test_the_page_lists_every_column() -> None:
    listed = {
        name: columns.split(", ")
        for name, columns in re.findall(
            r"^\| `(\w+)[^|]*\|[^|]*\| (.+) \|$", PAGE.read_text(), re.M
        )
    }
    assert {"tokens", "splits", "versions", "runs"} <= listed.keys()
    with duckdb.connect() as connection:
        connection.execute(layout.LAYOUT)
        for name, columns in listed.items():
            parameters = {"words_of_source": "('a', 'b')"}
            tables = ("versions", "sources", "chunks", "runs")
            call = "" if name in tables else parameters.get(name, "('a')")
            described = connection.execute(f"DESCRIBE FROM {name}{call}").fetchall()
            assert [row[0] for row in described] == columns, name
