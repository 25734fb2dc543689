"""Arguments of wrong kinds at every public door of the core: refused by name, or harmless."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bpeline
from bpeline import SplitPattern, TokenShards, count_texts, count_words
from bpeline.tokenizer_core.algorithms import compress, expand, greedy_longest
from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.derived import (
    DropoutEncoding,
    RestrictedEncoding,
    of_size,
    plan_pruning,
    rename_special_tokens,
    token_counts,
    with_reserved_slots,
)
from bpeline.tokenizer_core.encoding.decoding import DecodeStream
from bpeline.tokenizer_core.errors import BpelineError, InvalidOption, OutOfRange, WrongKind
from bpeline.tokenizer_core.evaluation import compare_choices
from bpeline.tokenizer_core.shards import pack_shards
from bpeline.tokenizer_core.splitting import pre_tokens
from bpeline.tokenizer_core.tokenizer import Tokenizer

TEXT = "low lower lowest " * 20


@dataclass(frozen=True, eq=False)
class Kind:
    """Values for parameters of one kind; none of them may cause an internal error."""

    wrong: tuple[object, ...]  # refused
    odd: tuple[object, ...] = (None,)  # refused or accepted


WORD = Kind((3, b"text", ["text"]), (None, "", "a\0b", "\ud800"))
ENCODED = Kind((3, ["text"], None), (b"text", "", "a\0b", "\ud800"))
CHOICE = Kind((3, True, "neither"), (None, ""))
NUMBER = Kind(("3", True, 2.5), (None, -1, 2**70))
SHARE = Kind(("0.5", True, math.nan), (None, 2.5, 2**70))
FLAG = Kind(("true", 3, []))
PATH = Kind((3, True, "a\0b"), (None, "", Path("missing"), b"missing"))
PATHS = Kind((3, True, ["x", None]), (None, [], {"a": 1}, Path("missing"), b"missing"))
WORDS = Kind((3, True, [None]), (None, "text", b"text", {"a": 1}))
TEXTS = Kind((3, "text", {"a": 1}), (None, [], {"q"}))
IDS = Kind((3, "text", ["x", None]), (None, np.array([0.5]), [2**70]))
ARRAY = Kind((3, "text", [3]), (None, np.array([0.5])))
VALUE = Kind((3, "text", object()))
FUNCTION = Kind((3, "text", []))

# Kind → parameters of this name, and below those of single functions that are of another kind.
PARAMETERS = {
    name: kind
    for kind, names in {
        WORD: """continuation end_of_text end_of_word id_field name on_special pattern regex
            revision text_field unknown""",
        ENCODED: "text token",
        CHOICE: """algorithm characters cut_side cuts dtype errors format invalid_utf8 pad_side
            parts score sentences special_ids text_form tie_break word_sentences""",
        NUMBER: """begin block_bytes cache_words checkpoint_every chunk_bytes distance end
            global_merges id_ length max_length max_token_bytes max_tokens max_word_characters
            merges min_count min_sentence_characters min_word_count number pad_id pad_to reserve
            round_to seed shard shard_bytes shard_tokens threads threshold transition_size
            vocab_size window workers""",
        SHARE: "alpha dropout",
        FLAG: "add_special_tokens as_trained deduplicate drop_unreachable ignore_merges joined",
        PATH: "checkpoint folder out path resume_from",
        PATHS: "paths",
        WORDS: """forbid forbidden_tokens required_tokens separator special_tokens texts
            allowed_special""",
        TEXTS: "chunks_of_text documents pairs",
        IDS: "batch ids order ratios",
        ARRAY: "first_positions offsets word_bytes",
        VALUE: """base content counts data development joint languages lines names passages record
            rule rules separate shards spec steps tokenizer vocab words""",
        FUNCTION: "on_counting on_progress on_shard write",
    }.items()
    for name in names.split()
}  # fmt: skip
OTHERWISE = {
    "SplitPattern(sentences)": VALUE,
    "SplitPattern.parts(text)": WORD,
    "SplitPattern.within(sentences)": VALUE,
    "Tokenizer(merges)": VALUE,
    "WordCounts(counts)": ARRAY,
    "WordCounts(pattern)": VALUE,
    "count_texts(texts)": TEXTS,
    "load_ranks(special_tokens)": VALUE,
    "pre_tokens(text)": WORD,
    **{f"Tokenizer.{name}(texts)": TEXTS for name in ("encode_batch", "encode_padded")},
    "train_from_iterator(texts)": TEXTS,
}


CORE = "bpeline.tokenizer_core"


def public() -> dict[str, Callable[..., Any]]:
    """The functions of the core that users call, and the methods of its classes."""
    named = [getattr(bpeline, name) for name in bpeline.__all__]
    found = {one.__name__: one for one in named if one.__module__.startswith(CORE)}
    return found | {
        f"{made.__name__}.{name}": method
        for made in filter(inspect.isclass, found.values())
        for name, method in inspect.getmembers(made, callable)
        if not name.startswith("_") and name in vars(made)
    }


# Those that only their rooms give, and the documentation names.
DOCUMENTED = (
    pre_tokens, compare_choices, token_counts, of_size, plan_pruning, rename_special_tokens,
    with_reserved_slots, DropoutEncoding, RestrictedEncoding, greedy_longest, compress, expand,
    pack_shards,
)  # fmt: skip


def load_ranks(pattern: str = "gpt2", special_tokens: Any = None) -> Tokenizer:
    return Tokenizer.load("ranks.tiktoken", pattern=pattern, special_tokens=special_tokens)


DOORS = (
    public()
    | {one.__name__: one for one in DOCUMENTED}
    | {"DecodeStream.feed": DecodeStream.feed, "load_ranks": load_ranks}
)


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What the doors accept, by parameter; in a directory with corpus.txt."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("doors"))
        Path("corpus.txt").write_text(TEXT)
        yield _right()


def _right() -> dict[str, Any]:
    counts = bpeline.count_texts([TEXT])
    tokenizer = bpeline.train_bpe(counts, 262)
    tokenizer.save("saved")
    tokenizer.save("ranks.tiktoken", "tiktoken")
    shards = tokenizer.encode_files("corpus.txt", "tokens")
    gpt2 = SplitPattern.named("gpt2")
    return {
        "SplitPattern.self": gpt2,
        "TokenShards.self": shards,
        "Tokenizer.self": tokenizer,
        "WordCounts.self": counts,
        "DecodeStream.self": tokenizer.decode_stream(),
        "TokenShards.parts(self)": pack_shards(shards, "packed", 4),
        "TokenShards.file(record)": shards.records[0].files[0],
        "TokenShards(path)": "tokens",
        "Tokenizer.save(path)": "saved-again",
        "pack_shards(out)": "packed",
        "SplitPattern.within(sentences)": None,
        "train_frequency_bpe(word_sentences)": "text",
        "Tokenizer(merges)": [],
        "WordCounts(counts)": counts.counts,
        "RestrictedEncoding(counts)": token_counts(tokenizer, counts),
        "expand(content)": compress(b"abc" * 9),
        "greedy_longest(tokenizer)": bpeline.train_char_bpe(counts, 5),
        "of_size(vocab_size)": 258,
        "rename_special_tokens(tokenizer)": bpeline.train_bpe(counts, 262, special_tokens=["<s>"]),
        "rename_special_tokens(names)": {"<s>": "<t>"},
        "train_wordpiece(vocab_size)": 20,
        "compare_choices(words)": {"a": counts},
        "WordCounts.from_mapping(words)": {b"low": 1},
        "WordCounts.words_with(texts)": ["l"],
        "SplitPattern.named(name)": "gpt2",
        "Tokenizer.from_pretrained(name)": "saved",
        "base": tokenizer, "batch": [[66]], "begin": 0, "chunks_of_text": [TEXT],
        "content": b"abc" * 9, "counts": counts, "data": counts.to_arrow(), "distance": 1,
        "documents": [TEXT], "drop_unreachable": True, "dropout": 0.1, "end": 2,
        "first_positions": counts.first_positions, "folder": "fetched", "id_": 66, "ids": [66],
        "joint": tokenizer, "languages": {"a": counts, "b": counts}, "length": 4,
        "lines": count_texts([TEXT], bpeline.superword_lines()), "max_tokens": 3, "merges": 5,
        "min_count": 1, "min_word_count": 2, "number": 0, "offsets": counts.offsets,
        "order": np.array([0]), "out": "written", "pad_id": 0, "pairs": [("low", 1)],
        "path": "saved", "paths": ["corpus.txt"], "pattern": "gpt2", "record": gpt2.as_record(),
        "regex": r"\w+|\W", "reserve": 2, "sentences": "none", "separate": {"a": tokenizer},
        "shard": 0, "shards": shards, "spec": tokenizer.spec, "steps": [], "text": TEXT,
        "texts": [TEXT], "threshold": 2, "token": "l", "tokenizer": tokenizer,
        "transition_size": 258, "vocab": {i: bytes([i]) for i in range(256)}, "vocab_size": 262,
        "word_bytes": counts.word_bytes, "words": counts,
    }  # fmt: skip


def parameters(door: str) -> dict[str, inspect.Parameter]:
    found = inspect.signature(DOORS[door]).parameters
    return {name: one for name, one in found.items() if one.kind is not one.VAR_KEYWORD}


def given_to(door: str, right: dict[str, Any]) -> dict[str, Any]:
    """What a door needs to be called."""
    given = {}
    for name, parameter in parameters(door).items():
        if name == "self":
            of_class = right[f"{door.partition('.')[0]}.self"]
            given[name] = right.get(f"{door}(self)", of_class)
        elif f"{door}({name})" in right:
            given[name] = right[f"{door}({name})"]
        elif parameter.default is parameter.empty:
            given[name] = right[name]
        elif type(parameter.default) is int:
            given[name] = parameter.default
    return given


def is_named(parameter: str, value: Any, message: str) -> bool:
    """Whether a refusal names the parameter, or else what was passed."""
    value = value[0] if isinstance(value, list) and value else value
    facts = (parameter, parameter.replace("_", "-"), str(value), f"type {type(value).__name__}")
    return any(fact in message for fact in facts)


@pytest.mark.parametrize("door", DOORS)
def test_what_is_of_the_wrong_kind_is_refused(right: dict[str, Any], door: str) -> None:
    given = given_to(door, right)
    whole = {name: np.int64(one) for name, one in given.items() if type(one) is int}
    DOORS[door](**given | whole)  # numbers may be those of NumPy
    for name in parameters(door):
        if name == "self":
            continue
        kind = OTHERWISE.get(f"{door}({name})") or PARAMETERS[name]
        for number, value in enumerate((*kind.wrong, *kind.odd)):
            call = f"{door}({name}={value!r:.40})"
            try:
                refusal = refused(DOORS[door], given | {name: value})
            except Exception as error:
                raise AssertionError(call) from error
            assert refusal is None or refusal.next_step, call
            if number < len(kind.wrong):
                assert refusal, f"{call} is accepted"
                assert is_named(name, value, str(refusal)), call


def refused(door: Callable[..., Any], given: dict[str, Any]) -> BpelineError | None:
    try:
        door(**given)
    except BpelineError as error:
        return error
    return None


def test_ids_are_no_text_and_keys_are_no_texts(right: dict[str, Any]) -> None:
    tokenizer = Tokenizer.load("saved")
    for wrong in ("BC", b"BC", {66: 1}, {66}):
        with pytest.raises(WrongKind):
            tokenizer.decode(wrong)  # type: ignore[arg-type]
    with pytest.raises(WrongKind):
        tokenizer.encode_batch({"train": [TEXT]})
    with pytest.raises(WrongKind):
        bpeline.evaluate(tokenizer, {"train": [TEXT]})


@pytest.mark.parametrize("pair", [([1], 2), (None, 2), ("low", True), ("low", 1.0), ("low", "1")])
def test_pairs_are_words_and_whole_numbers(pair: tuple[Any, Any]) -> None:
    with pytest.raises(InvalidOption):
        WordCounts.from_pairs([pair])
    with pytest.raises(InvalidOption):
        WordCounts.from_mapping({b"low": pair[1]} if pair[0] == "low" else {3: 2})  # type: ignore[dict-item]
    numbers = WordCounts.from_pairs([("low", np.int64(2)), (b"low", 1)])
    assert numbers.to_mapping() == WordCounts.from_mapping({b"low": np.int64(3)}).to_mapping()  # type: ignore[dict-item]


def test_a_wrong_kind_is_a_type_error_too(right: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        Tokenizer.load("saved").encode(3)  # type: ignore[arg-type]
    with pytest.raises(IndexError):
        TokenShards("tokens")[7]


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"vocab_size": "32000"}, "vocab_size=32000"),
        ({"vocab_size": 1e5}, "vocab_size=100000"),
        ({"special_tokens": "ab"}, "special_tokens=['ab']"),
        ({"checkpoint": b"a"}, "checkpoint='a'"),
        ({"special_tokens": ["a", 3]}, "3"),
        ({"min_cuont": 3}, "min_count"),
    ],
)
def test_what_was_meant_is_said(given: dict[str, Any], meant: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        bpeline.train_from_iterator([TEXT], **{"vocab_size": 262, **given})
    assert meant in str(refused.value)


def test_a_row_that_is_not_there_is_out_of_range(right: dict[str, Any]) -> None:
    counts = count_texts([TEXT])
    for begin, end in ((3, 2), (-1, 2), (9, 12)):
        with pytest.raises(OutOfRange):
            counts.between(begin, end)
    for order in ([-1], [9]):
        with pytest.raises(OutOfRange):
            counts.take(np.array(order))
    with pytest.raises(OutOfRange):
        counts.take(np.array([True, False]))


def test_false_is_no_number_of_a_shard_that_was_read(right: dict[str, Any]) -> None:
    shards = TokenShards("tokens")
    for read in (shards.shard, shards.index):
        read(0)
        with pytest.raises(WrongKind):
            read(False)


def test_options_of_a_training_are_refused_before_anything_is_counted() -> None:
    def texts() -> Iterator[str]:
        raise AssertionError
        yield ""

    with pytest.raises(InvalidOption, match="min_cuont"):
        bpeline.train_from_iterator(texts(), 300, min_cuont=3)
    with pytest.raises(WrongKind, match="min_count"):
        bpeline.train_from_iterator(texts(), 300, min_count="3")


TRAINERS: dict[str, dict[str, Any]] = {
    "train_bpe": {"vocab_size": 262},
    "train_char_bpe": {"merges": 5},
    "train_frequency_bpe": {"merges": 5, "sentences": "none"},
    "train_wordpiece": {"vocab_size": 20},
}


@pytest.mark.parametrize("name", TRAINERS)
def test_a_checkpoint_may_be_named_by_a_string(tmp_path: Path, name: str) -> None:
    counts = count_texts([TEXT])
    train, given = getattr(bpeline, name), TRAINERS[name]
    kept = tmp_path / "kept"
    trained = train(counts, **given, checkpoint=str(kept))
    assert kept.exists()
    assert train(counts, **given, resume_from=str(kept)).digest == trained.digest


def test_numbers_of_threads_may_be_those_of_numpy(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("low lower lowest")
    of_files = count_words(tmp_path / "a.txt", "gpt2", workers=np.int64(2))  # type: ignore[arg-type]
    of_texts = count_texts(["low lower lowest"], "gpt2", workers=np.int64(2))  # type: ignore[arg-type]
    assert (
        of_files.to_mapping() == of_texts.to_mapping() == {b"low": 1, b" lower": 1, b" lowest": 1}
    )
