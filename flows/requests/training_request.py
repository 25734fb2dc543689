"""What somebody asks of a training, checked before anything is read; knows no file and no flow."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from bpeline.flows.engines import check_engine
from bpeline.flows.requests.algorithm_options import BYTE_BPE, check_options, choices_of, refuse
from bpeline.flows.requests.corpus_files import (
    CORPUS,
    check_temperature,
    corpus_sources,
    is_corpus_file,
    read_corpus_file,
)
from bpeline.flows.requests.demo import DEMO
from bpeline.flows.requests.source_spelling import NamedSource
from bpeline.tokenizer_core.errors import InvalidOption, InvalidSpecialToken
from bpeline.tokenizer_core.urls import absolute_name

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BYTES = 256
LARGEST_VOCAB = 1 << 24
LEAST_TABLE_MEMORY = 2  # MiB
INVALID_UTF8 = ("strict", "replace")
# What says where, how and for whom, and nothing about the tokenizer once words are counted.
_NOT_LEARNED = (
    "paths", "sources", "temperature", "name", "workers", "table_memory", "engine",
    "evaluation", "baselines", "rules",
)  # fmt: skip
# The defaults of the flow's signature: whoever only looks ahead need not import the flow.
_USUAL: Mapping[str, Any] = {
    "vocab_size": 32_000, "pattern": None, "special_tokens": (), "tie_break": None,
    "min_count": None, "max_token_bytes": None, "invalid_utf8": "strict", "held_out": 0.01,
    "text_field": "text", "workers": None, "min_word_count": 1, "required_tokens": (),
    "table_memory": 256, "algorithm": BYTE_BPE, "options": {}, "evaluation": (), "baselines": (),
    "rules": None, "extends": "",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TrainingRequest:
    """The parameters of one training, as the flow's signature explains them.

    ``paths``, ``workers``, ``table_memory`` and ``engine`` say where and how, all others what is
    learned. A corpus is either ``paths`` or ``sources``.
    """

    paths: tuple[str, ...]
    name: str
    vocab_size: int
    pattern: str
    special_tokens: tuple[str, ...]
    tie_break: str
    min_count: int
    min_word_count: int
    max_token_bytes: int | None
    required_tokens: tuple[str, ...]
    invalid_utf8: str
    held_out: float
    text_field: str
    workers: int
    table_memory: int
    algorithm: str = BYTE_BPE
    options: Mapping[str, Any] = field(default_factory=dict)
    evaluation: tuple[str, ...] = ()
    baselines: tuple[str, ...] = ()
    rules: str | None = None
    extends: str = ""
    sources: tuple[str, ...] = ()
    temperature: float = 1.0
    engine: str = "local"

    @classmethod
    def usual(cls, **given: Any) -> TrainingRequest:
        """Make a request of some of a flow's parameters, the others being what they are there.

        Raises:
            BpelineError: see `checked`.
        """
        return cls.checked(**{**_USUAL, **given})

    @classmethod
    def checked(cls, **parameters: Any) -> TrainingRequest:
        """Make a request of a flow's parameters.

        Raises:
            InvalidOption: a name, size, choice or share that is not accepted, or one that means
                nothing to the algorithm.
            InvalidPattern: a split pattern that does not compile.
            InvalidSpecialToken: an empty or duplicate special token, a single byte, a required
                token or part of one.
        """
        from bpeline.registry.references import validate_name
        from bpeline.tokenizer_core.model import validate_special_tokens, validate_tie_break

        # Absolute, so that a run can be continued from any directory.
        _take_sources(parameters)
        parameters["paths"] = tuple(
            path if path == DEMO else absolute_name(path) for path in parameters["paths"]
        )
        parameters["special_tokens"] = validate_special_tokens(parameters["special_tokens"])
        parameters["required_tokens"] = _listed(parameters["required_tokens"])
        _take_evaluation(parameters)
        if parameters["workers"] is None:
            parameters["workers"] = usable_cores()
        _take_the_usual(parameters)
        request = cls(**parameters)
        validate_name(request.name)
        check_engine(request.engine)
        request._check_algorithm()
        request._check_pattern()
        validate_tie_break(request.tie_break)
        request._check_numbers()
        request._check_special_tokens()
        _ = request.given  # refuses impossible required tokens before anything is read
        if request.invalid_utf8 not in INVALID_UTF8:
            raise InvalidOption(
                f"there is no policy {request.invalid_utf8!r} for invalid UTF-8",
                "accepted: strict (an error naming file and offset), replace (U+FFFD)",
                "use --invalid-utf8 replace if some broken bytes do not matter",
            )
        request._check_sources()
        return request

    def _check_sources(self) -> None:
        if bool(self.paths) == bool(self.sources):
            raise InvalidOption(
                "paths and named sources were both given" if self.paths else "no corpus was named",
                "accepted: files, directories and globs of .txt and .jsonl, also .gz and .zst; "
                "or named sources of these, or a corpus file",
                "type `bpeline train corpus.txt --name news`, or `bpeline train --demo`",
            )
        check_temperature(self.temperature, self.named_sources)

    def _check_numbers(self) -> None:
        bytes_ = BYTES if self.over_bytes else 0
        smallest = bytes_ + len(self.special_tokens)
        if not smallest <= self.vocab_size <= LARGEST_VOCAB:
            raise InvalidOption(
                f"a vocabulary of {self.vocab_size:,} was asked for",
                f"accepted: {smallest:,} ({bytes_} bytes and {len(self.special_tokens)} special "
                f"tokens, no merges) to {LARGEST_VOCAB:,}",
                "type `--vocab-size 32000`, or a size in this range",
            )
        for option, value, lowest in (
            ("min-count", self.min_count, 1),
            ("min-word-count", self.min_word_count, 1),
            ("max-token-bytes", self.max_token_bytes, 2),
            ("workers", self.workers, 1),
            ("table-memory", self.table_memory, LEAST_TABLE_MEMORY),
        ):
            if value is not None and value < lowest:
                raise InvalidOption(
                    f"--{option} is {value}",
                    f"accepted: whole numbers from {lowest}",
                    f"type `--{option} {lowest}` or leave it out",
                )
        if not 0 <= self.held_out <= 0.5:
            raise InvalidOption(
                f"--held-out is {self.held_out}",
                "accepted: the share of documents kept for evaluation, from 0 to 0.5",
                "type `--held-out 0.01` or leave it out",
            )

    def _check_pattern(self) -> None:
        from bpeline.tokenizer_core.splitting import SplitPattern

        pattern = SplitPattern.parse(self.pattern)
        if self.over_bytes:
            pattern.require_every_byte()

    def _check_algorithm(self) -> None:
        choices = choices_of(self.algorithm)
        check_options(self.algorithm, self.options)
        if self.tie_break not in choices.tie_breaks and not self.over_bytes:
            refuse(self.algorithm, "tie_break", f"--tie-break {' or '.join(choices.tie_breaks)}")
        if self.special_tokens and not choices.special_tokens:
            refuse(self.algorithm, "special_token", "the marks of its sentences and <pad>")
        for option, value in (
            ("max_token_bytes", self.max_token_bytes),
            ("required_token", self.required_tokens),
            ("extends", self.extends),
        ):
            if value and not self.over_bytes:
                refuse(self.algorithm, option, "any token that merging makes")

    def _check_special_tokens(self) -> None:
        for token in self.special_tokens:
            if len(token.encode()) == 1:
                raise InvalidSpecialToken(
                    f"the special token {token!r} is a single byte, which is a token anyway",
                    "special tokens have two bytes or more",
                    "choose a text that does not occur in documents, such as '<|endoftext|>'",
                )
            if self.over_bytes and _reads_like_bytes(token):
                raise InvalidSpecialToken(
                    f"the special token {token!r} reads like the bytes of an ordinary token in "
                    "vocab.json, where every byte is one printable character",
                    "special tokens are ASCII, or have a character outside of that mapping",
                    "choose a text such as '<|endoftext|>'",
                )

    def as_config(self) -> dict[str, Any]:
        """The request as JSON values; the flow called with them does the same again."""
        config = asdict(self)
        for name, usual in (
            ("extends", ""),
            ("sources", ()),
            ("temperature", 1.0),
            ("engine", "local"),
        ):
            if config[name] == usual:  # runs of before these were there asked for the same
                del config[name]
        listed = {name: list(value) for name, value in config.items() if isinstance(value, tuple)}
        return {**config, **listed, "options": dict(self.options)}

    def same_as(self, config: Mapping[str, Any]) -> bool:
        """Whether a stored configuration asks for the same, whatever workers and memory do it."""
        how = {"workers": None, "table_memory": None, "engine": None}
        return {**self.as_config(), **how} == {**config, **how}

    def learns_as(self, config: Mapping[str, Any]) -> bool:
        """Whether a stored configuration makes the same tokenizer of the same word counts."""
        other = dict.fromkeys(_NOT_LEARNED)
        return {**self.as_config(), **other} == {**config, **other}

    @property
    def reading(self) -> Any:
        """How bytes become counted text (a ``Reading``)."""
        from bpeline.tokenizer_core.corpus import Reading
        from bpeline.tokenizer_core.splitting import SplitPattern

        return Reading(
            pattern=SplitPattern.parse(self.pattern),
            special_tokens=self.special_tokens,
            invalid_utf8=cast(Literal["strict", "replace"], self.invalid_utf8),
            text_field=self.text_field,
            held_out=self.held_out,
            text_fields=tuple(
                (one.name, one.text_field) for one in self.named_sources if one.text_field
            ),
        )

    @property
    def named_sources(self) -> tuple[NamedSource, ...]:
        """The sources of the corpus; none where paths were given."""
        return corpus_sources(self.sources)

    @property
    def evaluation_reading(self) -> Any:
        """How evaluation sources are read: as the corpus, with nothing held out."""
        return replace(self.reading, held_out=0.0, text_fields=())

    @property
    def pattern_remark(self) -> str:
        """What is to be said of a pattern that runs slowly; empty for all others."""
        from bpeline.tokenizer_core.splitting import SplitPattern

        pattern = SplitPattern.parse(self.pattern)
        if pattern.has_kernel:
            return ""
        if pattern.segmenter is not None:
            return (
                f"the split pattern {pattern.name!r} is {pattern.segmenter.shown}, which runs at "
                "1 to 3 MB/s for each process"
            )
        reason = pattern.compiled_by.removeprefix("regex: ")
        return (
            f"the split pattern {pattern.regex!r} runs without a kernel, at 5 to 20 MB/s for each "
            f"process: {reason}"
        )

    @property
    def given(self) -> NDArray[np.int32] | None:
        """The merges of the required tokens (int32 ``[n, 2]``); None when there are none.

        Raises:
            InvalidOption: a token that cannot be required, or too many for the vocabulary.
            InvalidSpecialToken: a special token that is a required one or part of one.
        """
        if not self.required_tokens:
            return None
        from bpeline.tokenizer_core.splitting import SplitPattern
        from bpeline.tokenizer_core.trainers import given_for

        return given_for(
            self.required_tokens,
            SplitPattern.parse(self.pattern),
            self.merges,
            self.special_tokens,
            self.tie_break,
            self.max_token_bytes,
        )

    @property
    def over_bytes(self) -> bool:
        """Whether byte-level BPE is asked for."""
        return self.algorithm == BYTE_BPE

    @property
    def merges(self) -> int:
        """How many merges fill the vocabulary of byte-level BPE."""
        return self.vocab_size - BYTES - len(self.special_tokens)

    @property
    def merges_shown(self) -> int | None:
        """What learning shows its progress against; None where it has no merges to count."""
        return self.merges if self.over_bytes else None


def _take_the_usual(parameters: dict[str, Any]) -> None:
    """Fill in what was left open and depends on the algorithm."""
    from bpeline.tokenizer_core.algorithms import ALGORITHMS

    algorithm = parameters.get("algorithm", BYTE_BPE)
    choices = choices_of(algorithm)
    usual = {
        "pattern": ALGORITHMS[algorithm].default_pattern,
        "tie_break": choices.tie_breaks[0],
        "min_count": choices.min_count,
    }
    for name, value in usual.items():
        if parameters[name] is None:
            parameters[name] = value


def _take_sources(parameters: dict[str, Any]) -> None:
    """Named sources, those of a corpus file among them, with absolute paths."""
    paths, sources = parameters["paths"], list(parameters.get("sources") or ())
    temperature = parameters.get("temperature")
    if is_corpus_file(paths):
        listed, usual = read_corpus_file(Path(paths[0]))
        parameters["paths"], sources = [], listed + sources
        temperature = usual if temperature is None else temperature
    parameters["sources"] = tuple(map(CORPUS.absolute, sources))
    parameters["temperature"] = 1.0 if temperature is None else float(temperature)


def _take_evaluation(parameters: dict[str, Any]) -> None:
    """What is measured on, against what, and what must hold: with absolute paths."""
    from bpeline.flows.requests.baselines import normalized
    from bpeline.flows.requests.evaluation_texts import EVALUATION, evaluation_sources

    parameters["evaluation"] = tuple(map(EVALUATION.absolute, parameters.get("evaluation") or ()))
    evaluation_sources(parameters["evaluation"])  # refuses what cannot be read
    parameters["baselines"] = normalized(parameters.get("baselines") or ())
    if parameters.get("rules"):
        parameters["rules"] = os.path.abspath(parameters["rules"])


def _listed(tokens: Sequence[str]) -> tuple[str, ...]:
    """A list of tokens; one string is one token."""
    return (tokens,) if isinstance(tokens, str) else tuple(tokens)


def usable_cores() -> int:
    """Processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def _reads_like_bytes(token: str) -> bool:
    from bpeline.tokenizer_core.model import from_printable

    try:
        return from_printable(token) != token.encode()
    except KeyError:
        return False
