"""Arguments of every wrong kind at every public door of the core: refused by name, or harmless."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pytest
from typing_extensions import TypeAliasType

import bpeline
from bpeline import ParityRule, SplitPattern, TokenShards, count_texts, count_words
from bpeline.tokenizer_core.algorithms import compress, expand, greedy_longest
from bpeline.tokenizer_core.algorithms.superword_bpe.trainer import _beside, superwords_beside
from bpeline.tokenizer_core.arguments import checked, require_options_of
from bpeline.tokenizer_core.arguments.kinds import kinds_of, listed, taken_by
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
from bpeline.tokenizer_core.errors import BpelineError, InvalidOption, OutOfRange, WrongKind
from bpeline.tokenizer_core.evaluation import compare_choices
from bpeline.tokenizer_core.merging.learning import Course
from bpeline.tokenizer_core.shards import pack_shards
from bpeline.tokenizer_core.splitting import pre_tokens
from bpeline.tokenizer_core.tokenizer import Tokenizer

TEXT = "low lower lowest " * 20
Door = tuple[Callable[..., object], dict[str, Any]]

# What is given everywhere. Nothing of it may come out as an error of the inside.
ODD: dict[str, object] = {
    "None": None, "whole": 3, "negative": -1, "float": 2.5, "nan": math.nan, "wide": 2**70,
    "numpy": np.int64(3), "bool": True, "text": "text", "bytes": b"text", "surrogate": "\ud800",
    "nul": "a\0b", "empty": "", "path": Path("missing"), "list": ["x", None], "row": [3],
    "nested": [[1]], "nothing": [], "mapping": {"a": 1}, "set": {"q"}, "object": object(),
    "array": np.arange(2), "floats": np.array([0.5]), "type": bool,
}  # fmt: skip

# Which of it a parameter may take: everything else is refused.
NUMBERS = frozenset({"whole", "negative", "numpy"})
WIDE = NUMBERS | {"wide"}  # where Python's own numbers are taken
SHARES = NUMBERS | {"float"}
TEXTS = frozenset({"text", "nul", "empty"})
ANY_TEXT = TEXTS | {"surrogate"}  # encoded as U+FFFD
PATHS = frozenset({"text", "path"})
CHOICES = frozenset[str]()  # none of it
FLAGS = frozenset({"bool"})
LISTS = frozenset({"nothing", "mapping", "None"})
MANY_TEXTS = frozenset({"nothing", "set"})
IDS = frozenset({"nothing", "row", "array"})
VALUES = frozenset[str]()
FUNCTIONS = frozenset({"type"})


def or_none(kind: frozenset[str]) -> frozenset[str]:
    return kind | {"None"}


POLICY = {"allowed_special": frozenset({"None", "nothing"}), "on_special": frozenset({"text"})}
COURSE = {
    "min_word_count": NUMBERS,
    "min_count": NUMBERS,
    "resume_from": or_none(PATHS),
    "checkpoint": or_none(PATHS),
    "on_progress": or_none(FUNCTIONS),
}
READING = {
    "pattern": TEXTS,
    "special_tokens": LISTS | {"set"},
    "workers": or_none(NUMBERS),
    "invalid_utf8": CHOICES,
    "text_field": TEXTS,
    "text_form": frozenset({"empty"}),
    "sentences": CHOICES,
    "on_progress": or_none(FUNCTIONS),
}
FILES = {
    "paths": PATHS | {"bytes"},
    "threads": or_none(NUMBERS),
    "separator": or_none(TEXTS | LISTS),
    "end_of_text": or_none(TEXTS),
    "invalid_utf8": CHOICES,
    "text_field": TEXTS,
    "on_progress": or_none(FUNCTIONS),
}
PADDED = {
    "max_length": or_none(WIDE),
    "pad_to": or_none(NUMBERS),
    "pad_id": NUMBERS,
    **dict.fromkeys(("pad_side", "cut_side"), CHOICES),
}
DTYPE = {"dtype": frozenset({"numpy"})}
THREADS = {"threads": or_none(NUMBERS)}
ARRAYS = frozenset({"array", "floats"})
BUILT = {
    "vocab": VALUES,
    "merges": frozenset({"nothing"}),
    "special_tokens": LISTS,
    "pattern": or_none(TEXTS),
    "algorithm": VALUES,
    "ignore_merges": FLAGS,
    "cache_words": NUMBERS,
}
TABLE: dict[str, dict[str, frozenset[str]]] = {
    "count_words": {
        **READING,
        "paths": PATHS | {"bytes", "nothing", "set"},
        "chunk_bytes": NUMBERS,
        "deduplicate": FLAGS,
    },
    "count_texts": {**READING, "texts": MANY_TEXTS},
    "train_bpe": {
        **COURSE,
        "counts": VALUES,
        "vocab_size": NUMBERS,
        "special_tokens": LISTS,
        "tie_break": CHOICES,
        "max_token_bytes": or_none(NUMBERS),
        "required_tokens": LISTS,
        "forbid": LISTS | TEXTS,
        "forbidden_tokens": LISTS | TEXTS | {"bytes"},
        "characters": CHOICES,
        "special_ids": CHOICES,
        "threads": or_none(NUMBERS),
    },
    "train_char_bpe": {
        **COURSE,
        "counts": VALUES,
        "merges": NUMBERS,
        "end_of_word": TEXTS,
        "joined": FLAGS,
        "tie_break": CHOICES,
        "unknown": TEXTS,
        "special_tokens": LISTS,
    },
    "train_frequency_bpe": {
        **COURSE,
        "counts": VALUES,
        "merges": NUMBERS,
        "end_of_word": TEXTS,
        "sentences": CHOICES,
        "word_sentences": CHOICES | {"text"},
        "parts": CHOICES,
        "min_sentence_characters": NUMBERS,
    },
    "train_wordpiece": {
        **COURSE,
        "counts": VALUES,
        "vocab_size": NUMBERS,
        "score": CHOICES,
        "continuation": TEXTS,
        "unknown": TEXTS,
        "max_word_characters": NUMBERS,
        "special_tokens": LISTS,
    },
    "train_from_iterator": {
        "texts": MANY_TEXTS,
        "vocab_size": NUMBERS,
        "pattern": TEXTS,
        "special_tokens": LISTS,
        "workers": or_none(NUMBERS),
        "text_field": TEXTS,
        "on_counting": or_none(FUNCTIONS),
    },
    "train_parity_bpe": {
        "languages": VALUES,
        "vocab_size": NUMBERS,
        "rule": VALUES,
        "development": or_none(VALUES),
        "special_tokens": LISTS,
        "tie_break": CHOICES,
        "min_count": NUMBERS,
        "min_word_count": NUMBERS,
        "max_token_bytes": or_none(NUMBERS),
        "on_progress": or_none(FUNCTIONS),
    },
    "train_superbpe": {
        **{name: kind for name, kind in COURSE.items() if name != "min_word_count"},
        "base": VALUES,
        "lines": VALUES,
        "vocab_size": NUMBERS,
        "transition_size": NUMBERS,
        "rules": VALUES,
        "checkpoint_every": NUMBERS,
    },
    "train_superword_bpe": {
        **COURSE,
        "counts": VALUES,
        "vocab_size": NUMBERS,
        "special_tokens": LISTS,
        "tie_break": CHOICES,
        "passages": or_none(VALUES),
    },
    "superword_lines": {"cuts": CHOICES},
    "superword_passages": {"words": TEXTS},
    "evaluate": {"tokenizer": VALUES, "documents": MANY_TEXTS},
    "ParityRule": {
        "window": NUMBERS,
        "alpha": SHARES | {"wide"},
        "global_merges": NUMBERS,
        "ratios": frozenset({"None", "nothing", "row", "array", "floats"}),
    },
    "SplitPattern": {
        "regex": TEXTS,
        "name": or_none(TEXTS),
        "steps": frozenset({"None", "nothing"}),
        "sentences": or_none(VALUES),
    },
    "SplitPattern.named": {"name": TEXTS},
    "SplitPattern.within": {"sentences": or_none(VALUES)},
    "SplitPattern.within_named": {"sentences": CHOICES},
    "SplitPattern.parse": {"pattern": TEXTS},
    "SplitPattern.parts": {"text": TEXTS},
    "SplitPattern.of_steps": {"steps": frozenset({"nothing"})},
    "SplitPattern.from_record": {"record": VALUES},
    "Tokenizer": BUILT,
    "Tokenizer.of_spec": {"spec": VALUES, "cache_words": NUMBERS},
    "Tokenizer.load": {"path": PATHS, "format": or_none(CHOICES)},
    "Tokenizer.save": {"path": PATHS, "format": CHOICES},
    "Tokenizer.encode": {"text": ANY_TEXT, "add_special_tokens": FLAGS, **POLICY},
    "Tokenizer.encode_ordinary": {"text": ANY_TEXT},
    "Tokenizer.encode_to_numpy": {"text": ANY_TEXT | {"bytes"}, **THREADS, **DTYPE, **POLICY},
    "Tokenizer.encode_batch": {
        "texts": MANY_TEXTS,
        "add_special_tokens": FLAGS,
        **THREADS,
        **POLICY,
    },
    "Tokenizer.encode_padded": {"texts": MANY_TEXTS, **PADDED, **THREADS, **DTYPE, **POLICY},
    "Tokenizer.encode_iterable": {"chunks_of_text": MANY_TEXTS, **POLICY},
    "Tokenizer.encode_with_offsets": {"text": ANY_TEXT, **POLICY},
    "Tokenizer.encode_files": {
        **FILES,
        "out": PATHS,
        "id_field": TEXTS,
        "format": TEXTS,
        "shard_bytes": NUMBERS,
        "columns": LISTS | TEXTS,
        "dropout": SHARES,
        "seed": NUMBERS,
        "on_shard": or_none(FUNCTIONS),
    },
    "Tokenizer.encode_files_to_numpy": FILES,
    "Tokenizer.count": {"text": ANY_TEXT | {"bytes"}, **POLICY},
    "Tokenizer.truncate": {"text": ANY_TEXT, "max_tokens": WIDE, **POLICY},
    "Tokenizer.show": {"text": ANY_TEXT, **POLICY},
    "Tokenizer.explain": {"text": ANY_TEXT},
    "Tokenizer.decode": {"ids": IDS, "errors": CHOICES},
    "Tokenizer.decode_bytes": {"ids": IDS},
    "Tokenizer.decode_batch": {"batch": frozenset({"nothing", "nested"}), "errors": CHOICES},
    "Tokenizer.decode_stream": {"errors": CHOICES},
    "Tokenizer.token_to_id": {"token": ANY_TEXT | {"bytes"}},
    "Tokenizer.id_to_token": {"id_": NUMBERS},
    "Tokenizer.is_special": {"id_": WIDE},
    "Tokenizer.merge_gains": {"words": VALUES},
    "WordCounts": {
        **dict.fromkeys(("word_bytes", "offsets", "counts", "first_positions"), ARRAYS),
        "pattern": VALUES,
    },
    "WordCounts.from_pairs": {"pairs": frozenset({"nothing"}), "pattern": or_none(TEXTS)},
    "WordCounts.from_mapping": {"words": VALUES, "pattern": or_none(TEXTS)},
    "WordCounts.from_arrow": {"data": VALUES, "pattern": or_none(TEXTS)},
    "WordCounts.empty": {"pattern": or_none(TEXTS)},
    "WordCounts.at_least": {"min_word_count": NUMBERS},
    "WordCounts.between": {"begin": NUMBERS, "end": NUMBERS},
    "WordCounts.shifted": {"distance": NUMBERS},
    "WordCounts.take": {"order": frozenset({"array"})},
    "WordCounts.words_with": {"texts": frozenset({"nothing", "mapping"})},
    "TokenShards": {"path": PATHS, "format": or_none(VALUES)},
    "TokenShards.fetch": {"folder": PATHS},
    "TokenShards.file": {"record": VALUES},
    "TokenShards.index": {"shard": NUMBERS},
    "TokenShards.shard": {"number": NUMBERS},
    "TokenShards.place": {"number": NUMBERS},
    "TokenShards.parts": {"number": NUMBERS},
}
# Those that only their rooms give, and the documentation names.
DOCUMENTED: dict[str, dict[str, frozenset[str]]] = {
    "pre_tokens": {"text": TEXTS, "pattern": TEXTS},
    "compare_choices": {"words": VALUES, "joint": VALUES, "separate": VALUES},
    "token_counts": {"tokenizer": VALUES, "words": VALUES},
    "of_size": {"tokenizer": VALUES, "vocab_size": NUMBERS},
    "plan_pruning": {
        "tokenizer": VALUES,
        "counts": VALUES,
        "min_count": NUMBERS,
        "drop_unreachable": FLAGS,
    },
    "rename_special_tokens": {"tokenizer": VALUES, "names": VALUES},
    "with_reserved_slots": {"tokenizer": VALUES, "reserve": NUMBERS, "round_to": NUMBERS},
    "DropoutEncoding": {"tokenizer": VALUES, "dropout": SHARES, "seed": NUMBERS},
    "RestrictedEncoding": {"tokenizer": VALUES, "counts": VALUES, "threshold": NUMBERS},
    "greedy_longest": {
        "tokenizer": VALUES,
        "counts": VALUES,
        "unknown": TEXTS,
        "as_trained": FLAGS,
    },
    "compress": {"content": frozenset({"bytes"}), "block_bytes": NUMBERS, "threshold": NUMBERS},
    "expand": {"content": VALUES},
    "load of ranks": {"pattern": TEXTS, "special_tokens": frozenset({"None"})},
    "DecodeStream.feed": {"id_": NUMBERS},
    "pack_shards": {
        "shards": VALUES,
        "out": PATHS,
        "length": NUMBERS,
        "seed": NUMBERS,
        "format": or_none(TEXTS),
        "shard_tokens": NUMBERS,
        "on_shard": or_none(FUNCTIONS),
    },
}
ALL = TABLE | DOCUMENTED
CLASSES = (ParityRule, SplitPattern, TokenShards, Tokenizer, WordCounts)


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Door]]:
    """Name → what is called, and arguments that it accepts; in a directory with corpus.txt."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("doors"))
        Path("corpus.txt").write_text(TEXT)
        yield _doors()


def _doors() -> dict[str, Door]:
    counts = bpeline.count_texts([TEXT])
    tokenizer = bpeline.train_bpe(counts, 262)
    passages = count_texts([TEXT], bpeline.superword_passages())
    lines = count_texts([TEXT], bpeline.superword_lines())
    tokenizer.save("saved")
    tokenizer.encode_files("corpus.txt", "tokens")
    shards, gpt2 = TokenShards("tokens"), SplitPattern.named("gpt2")
    packed = pack_shards(shards, "packed", 4)
    number = iter(range(10**6))

    def encode_files(out: object = None, **how: Any) -> TokenShards:
        place: Any = f"tokens-{next(number)}" if out is TEXT else out
        return tokenizer.encode_files(out=place, **how)

    def pieces(**how: Any) -> list[int]:
        return list(tokenizer.encode_iterable(**how))

    given: dict[str, tuple[Callable[..., object], dict[str, Any]]] = {
        "count_words": (bpeline.count_words, {"paths": ["corpus.txt"]}),
        "count_texts": (bpeline.count_texts, {"texts": [TEXT]}),
        "train_bpe": (bpeline.train_bpe, {"counts": counts, "vocab_size": 262}),
        "train_char_bpe": (bpeline.train_char_bpe, {"counts": counts, "merges": 5}),
        "train_frequency_bpe": (
            bpeline.train_frequency_bpe,
            {"counts": counts, "merges": 5, "word_sentences": "text"},
        ),
        "train_wordpiece": (bpeline.train_wordpiece, {"counts": counts, "vocab_size": 20}),
        "train_from_iterator": (bpeline.train_from_iterator, {"texts": [TEXT], "vocab_size": 262}),
        "train_parity_bpe": (
            bpeline.train_parity_bpe,
            {"languages": {"a": counts, "b": counts}, "vocab_size": 262},
        ),
        "train_superbpe": (
            bpeline.train_superbpe,
            {"base": tokenizer, "lines": lines, "vocab_size": 262, "transition_size": 258},
        ),
        "train_superword_bpe": (
            bpeline.train_superword_bpe,
            {"counts": passages, "vocab_size": 262},
        ),
        "superword_lines": (bpeline.superword_lines, {}),
        "superword_passages": (bpeline.superword_passages, {}),
        "evaluate": (bpeline.evaluate, {"tokenizer": tokenizer, "documents": [TEXT]}),
        "ParityRule": (ParityRule, {}),
        "SplitPattern": (SplitPattern, {"regex": r"\w+|\W"}),
        "SplitPattern.named": (SplitPattern.named, {"name": "gpt2"}),
        "SplitPattern.within": (gpt2.within, {"sentences": None}),
        "SplitPattern.within_named": (gpt2.within_named, {"sentences": "none"}),
        "SplitPattern.parse": (SplitPattern.parse, {"pattern": "gpt2"}),
        "SplitPattern.parts": (gpt2.parts, {"text": "a b"}),
        "SplitPattern.of_steps": (SplitPattern.of_steps, {"steps": []}),
        "SplitPattern.from_record": (SplitPattern.from_record, {"record": gpt2.as_record()}),
        "Tokenizer": (
            Tokenizer,
            {"vocab": {i: bytes([i]) for i in range(256)}, "merges": [], "pattern": None},
        ),
        "Tokenizer.of_spec": (Tokenizer.of_spec, {"spec": tokenizer.spec}),
        "Tokenizer.load": (Tokenizer.load, {"path": "saved"}),
        "Tokenizer.save": (tokenizer.save, {"path": "saved-again"}),
        "Tokenizer.encode_batch": (tokenizer.encode_batch, {"texts": [TEXT]}),
        "Tokenizer.encode_padded": (tokenizer.encode_padded, {"texts": [TEXT], "pad_id": 0}),
        "Tokenizer.encode_iterable": (pieces, {"chunks_of_text": [TEXT]}),
        "Tokenizer.encode_files": (encode_files, {"paths": "corpus.txt", "out": TEXT}),
        "Tokenizer.encode_files_to_numpy": (
            tokenizer.encode_files_to_numpy,
            {"paths": "corpus.txt"},
        ),
        "Tokenizer.truncate": (tokenizer.truncate, {"text": TEXT, "max_tokens": 3}),
        "Tokenizer.decode": (tokenizer.decode, {"ids": [66]}),
        "Tokenizer.decode_bytes": (tokenizer.decode_bytes, {"ids": [66]}),
        "Tokenizer.decode_batch": (tokenizer.decode_batch, {"batch": [[66]]}),
        "Tokenizer.decode_stream": (tokenizer.decode_stream, {}),
        "Tokenizer.token_to_id": (tokenizer.token_to_id, {"token": "l"}),
        "Tokenizer.id_to_token": (tokenizer.id_to_token, {"id_": 66}),
        "Tokenizer.is_special": (tokenizer.is_special, {"id_": 66}),
        "Tokenizer.merge_gains": (tokenizer.merge_gains, {"words": counts}),
        "WordCounts": (
            WordCounts,
            {
                "word_bytes": counts.word_bytes,
                "offsets": counts.offsets,
                "counts": counts.counts,
                "first_positions": counts.first_positions,
            },
        ),
        "WordCounts.from_pairs": (WordCounts.from_pairs, {"pairs": [("low", 1)]}),
        "WordCounts.from_mapping": (WordCounts.from_mapping, {"words": {b"low": 1}}),
        "WordCounts.from_arrow": (WordCounts.from_arrow, {"data": counts.to_arrow()}),
        "WordCounts.empty": (WordCounts.empty, {}),
        "WordCounts.at_least": (counts.at_least, {"min_word_count": 2}),
        "WordCounts.between": (counts.between, {"begin": 0, "end": 2}),
        "WordCounts.shifted": (counts.shifted, {"distance": 1}),
        "WordCounts.take": (counts.take, {"order": np.array([0])}),
        "WordCounts.words_with": (counts.words_with, {"texts": ["l"]}),
        "TokenShards": (TokenShards, {"path": "tokens"}),
        "TokenShards.fetch": (shards.fetch, {"folder": "fetched"}),
        "TokenShards.file": (shards.file, {"record": shards.records[0].files[0]}),
        "TokenShards.index": (shards.index, {"shard": 0}),
        "TokenShards.shard": (shards.shard, {"number": 0}),
        "TokenShards.place": (shards.place, {"number": 0}),
        "TokenShards.parts": (packed.parts, {"number": 0}),
    }
    chars = bpeline.train_char_bpe(counts, 5)
    named = bpeline.train_bpe(counts, 262, special_tokens=["<s>"])
    found = token_counts(tokenizer, counts)
    tokenizer.save("ranks.tiktoken", "tiktoken")

    def load_ranks(**details: Any) -> Tokenizer:
        return Tokenizer.load("ranks.tiktoken", **{"pattern": "gpt2", **details})

    given |= {
        "pre_tokens": (pre_tokens, {"text": TEXT, "pattern": "gpt2"}),
        "compare_choices": (
            compare_choices,
            {"words": {"a": counts}, "joint": tokenizer, "separate": {"a": tokenizer}},
        ),
        "token_counts": (token_counts, {"tokenizer": tokenizer, "words": counts}),
        "of_size": (of_size, {"tokenizer": tokenizer, "vocab_size": 258}),
        "plan_pruning": (
            plan_pruning,
            {"tokenizer": tokenizer, "counts": counts, "min_count": 1, "drop_unreachable": True},
        ),
        "rename_special_tokens": (
            rename_special_tokens,
            {"tokenizer": named, "names": {"<s>": "<t>"}},
        ),
        "with_reserved_slots": (with_reserved_slots, {"tokenizer": tokenizer, "reserve": 2}),
        "DropoutEncoding": (DropoutEncoding, {"tokenizer": tokenizer, "dropout": 0.1}),
        "RestrictedEncoding": (
            RestrictedEncoding,
            {"tokenizer": tokenizer, "counts": found, "threshold": 2},
        ),
        "greedy_longest": (greedy_longest, {"tokenizer": chars, "counts": counts}),
        "compress": (compress, {"content": b"abc" * 9}),
        "expand": (expand, {"content": compress(b"abc" * 9)}),
        "load of ranks": (load_ranks, {}),
        "pack_shards": (pack_shards, {"shards": shards, "out": "packed", "length": 4}),
        "DecodeStream.feed": (tokenizer.decode_stream().feed, {"id_": 66}),
    }
    of_text = ("encode", "encode_ordinary", "encode_to_numpy", "encode_with_offsets", "count",
               "show", "explain")  # fmt: skip
    return given | {
        f"Tokenizer.{name}": (getattr(tokenizer, name), {"text": TEXT}) for name in of_text
    }


def test_every_public_parameter_is_in_the_table() -> None:
    functions: dict[str, Callable[..., object]] = {}
    for name in bpeline.__all__:
        public = getattr(bpeline, name)
        if public.__module__.startswith("bpeline.tokenizer_core"):
            functions[name] = public
    for made in CLASSES:
        for name, method in inspect.getmembers(made, callable):
            if not name.startswith("_") and name in vars(made):
                functions[f"{made.__name__}.{name}"] = method
    parameters = {
        name: {
            one.name
            for one in inspect.signature(function).parameters.values()
            if one.name != "self" and one.kind is not inspect.Parameter.VAR_KEYWORD
        }
        for name, function in functions.items()
    }
    assert {name: names for name, names in parameters.items() if names} == {
        name: set(kinds) for name, kinds in TABLE.items()
    }


@pytest.mark.parametrize("door", ALL)
def test_what_is_of_the_wrong_kind_is_refused(doors: dict[str, Door], door: str) -> None:
    call, given = doors[door]
    call(**given)
    for argument, right in ALL[door].items():
        for name, value in ODD.items():
            try:
                call(**{**given, argument: value})
            except Exception as error:
                typed = isinstance(error, BpelineError) and error.accepted and error.next_step
                if not typed:
                    raise AssertionError(f"{door}({argument}={name}): {error!r}") from error
            else:
                assert name in right, f"{door}({argument}={name}) is taken"


@pytest.mark.parametrize("door", ALL)
def test_whole_numbers_may_be_those_of_numpy(doors: dict[str, Door], door: str) -> None:
    call, given = doors[door]
    usual = {
        name: one.default
        for name, one in inspect.signature(call).parameters.items()
        if type(one.default) is int
    }
    wholes = usual | {name: value for name, value in given.items() if type(value) is int}
    for name, value in wholes.items():
        call(**{**given, name: np.int64(value)})


def test_a_vocabulary_may_be_as_large_as_a_number_of_numpy_says() -> None:
    counts = count_texts([TEXT])
    trained = bpeline.train_bpe(counts, np.int64(262), min_count=np.int32(2))  # type: ignore[arg-type]
    assert trained.digest == bpeline.train_bpe(counts, 262).digest


def test_ids_are_no_text_and_keys_are_no_texts(doors: dict[str, Door]) -> None:
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


def test_a_wrong_kind_is_a_type_error_too(doors: dict[str, Door]) -> None:
    with pytest.raises(TypeError):
        Tokenizer.load("saved").encode(3)  # type: ignore[arg-type]
    with pytest.raises(IndexError):
        TokenShards("tokens")[7]


@checked
def _asked(
    size: int = 1,
    share: float = 0.5,
    names: list[str] | tuple[str, ...] = (),
    joined: bool = False,
    file: Path = Path("a"),
    counted: Mapping[str, int] = {},
) -> tuple[object, ...]:
    return size, share, names, joined, file


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"size": "32000"}, "size=32000"),
        ({"size": 1e5}, "size=100000"),
        ({"size": True}, "size"),
        ({"share": "0.1"}, "share=0.1"),
        ({"share": "0"}, "share=0.0"),
        ({"share": "nan"}, "share"),
        ({"names": "ab"}, "names=['ab']"),
        ({"names": {"b", "a"}}, "names=sorted("),
        ({"joined": "false"}, "joined=False"),
        ({"file": b"a"}, "file='a'"),
    ],
)
def test_what_was_meant_is_said(given: dict[str, Any], told: str) -> None:
    with pytest.raises(WrongKind) as refused:
        _asked(**given)
    assert told in refused.value.next_step


def test_an_item_that_is_wrong_is_named() -> None:
    with pytest.raises(InvalidOption, match=r"\b3\b"):
        _asked(names=[*"abcdefgh", 3])  # type: ignore[list-item]
    many: dict[Any, Any] = {f"word {number}": number for number in range(9)}
    with pytest.raises(InvalidOption, match=r"'9'.*'z'"):
        _asked(counted={**many, "z": "9"})
    with pytest.raises(InvalidOption, match=r"\b7\b"):
        _asked(counted={**many, 7: 9})
    with pytest.raises(InvalidOption, match="surrogate"):
        _asked(names=["\udc00"])


@pytest.mark.parametrize("items", [["a", 3], ["a", "b"], []])
def test_an_iterator_is_what_a_list_of_its_items_is(items: list[Any]) -> None:
    def told(given: object) -> object:
        try:
            return _asked(names=given)  # type: ignore[arg-type]
        except InvalidOption as refused:
            return str(refused)

    assert told(iter(items)) == told(items)
    assert told(iter(items)) != told([3, *items])


def test_a_class_of_a_module_that_is_not_imported_is_checked() -> None:
    names: dict[str, Any] = {"ParityRule": ParityRule, "__name__": "imported_nowhere"}
    exec("class Other(ParityRule): pass", names)
    assert names["Other"](window=3) == names["Other"](3)
    with pytest.raises(WrongKind, match="window"):
        names["Other"](window="3")


def test_what_a_value_of_the_right_type_lacks_is_said() -> None:
    with pytest.raises(InvalidOption, match=r"\b64\b"):
        _asked(size=2**70)
    with pytest.raises(InvalidOption, match="finite"):
        _asked(share=10**400)
    with pytest.raises(InvalidOption, match="paths") as refused:
        count_words("a\0b")
    assert 'paths="file.txt"' in refused.value.next_step


def test_what_is_as_good_is_made_what_the_function_takes() -> None:
    made = _asked(np.int8(3), np.float32(0.5), (n for n in "ab"), np.True_, "b")  # type: ignore[arg-type]
    assert made == (3, 0.5, ["a", "b"], True, Path("b"))
    assert list(map(type, made))[:4] == [int, float, list, bool]
    assert _asked(names=None) == _asked()  # type: ignore[arg-type]


def test_too_many_and_unknown_arguments_are_left_to_python() -> None:
    with pytest.raises(TypeError, match=r"_asked\(\) .*\b7\b"):
        _asked(1, 0.5, (), False, Path("a"), {}, 7)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"_asked\(\) .*'sise'"):
        _asked(sise=3)  # type: ignore[call-arg]
    with pytest.raises(InvalidOption, match="'sise'") as refused:
        require_options_of(_asked, {"sise": 3})
    assert "size" in refused.value.next_step


def test_a_class_that_is_not_imported_is_known_by_its_name() -> None:
    def read(counts: Unimported | None) -> None: ...  # type: ignore[name-defined]

    class Unimported: ...

    class Other: ...

    assert checked(read)(Unimported()) is None
    with pytest.raises(WrongKind, match="Unimported"):
        checked(read)(Other())


T = TypeVar("T")
Rows = TypeAliasType("Rows", list[T], type_params=(T,))
Number = TypeAliasType("Number", int | None)
Name = TypeAliasType("Name", Path | str)
Item = TypeAliasType("Item", T, type_params=(T,))  # type: ignore[misc]
Whole = TypeAliasType("Whole", int, type_params=(T,))


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (Rows[npt.NDArray[np.uint8]], "a list of ndarray"),  # an alias itself since NumPy 2.5
        (Rows[Number], "a list of whole numbers or None"),
        (Rows, "a list"),
        (Number | str, "a whole number, None or a string"),  # type: ignore[operator]
        (Name, "a path"),
        (Item[bytes], "bytes"),
        (Whole[str], "a whole number"),
    ],
)
def test_a_type_alias_is_checked_as_what_it_stands_for(annotation: object, words: str) -> None:
    assert listed(kinds_of(annotation)) == words


def test_an_annotation_that_says_nothing_is_an_error_of_ours() -> None:
    with pytest.raises(NotImplementedError):
        kinds_of("text")
    assert taken_by(kinds_of(int | None), 2) == 2


def test_a_row_that_is_not_there_is_out_of_range(doors: dict[str, Door]) -> None:
    counts = count_texts([TEXT])
    for begin, end in ((3, 2), (-1, 2), (9, 12)):
        with pytest.raises(OutOfRange):
            counts.between(begin, end)
    for order in ([-1], [9]):
        with pytest.raises(OutOfRange):
            counts.take(np.array(order))
    with pytest.raises(OutOfRange):
        counts.take(np.array([True, False]))


def test_false_is_no_number_of_a_shard_that_was_read(doors: dict[str, Door]) -> None:
    shards = TokenShards("tokens")
    for read in (shards.shard, shards.index):
        read(0)
        with pytest.raises(WrongKind):
            read(False)


def test_options_of_a_training_are_refused_before_anything_is_counted() -> None:
    def texts() -> Iterator[str]:
        raise AssertionError
        yield ""

    with pytest.raises(InvalidOption, match="'min_cuont'"):
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


def test_superwords_go_on_from_checkpoints_named_by_strings(tmp_path: Path) -> None:
    first, beside = tmp_path / "first", tmp_path / superwords_beside(Path("first"), "34")
    beside.write_bytes(b"of whole words")
    course = _beside(Course(str(first), str(first)), 34)
    assert course == _beside(Course(first, first), 34)
    assert course.resume_from == course.checkpoint == beside
