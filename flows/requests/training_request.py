"""The parameters of a training: names, defaults, descriptions and checks.

Forms in Prefect, options of the command line, plans and stored configurations follow from them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, model_validator

from bpeline.flows.engines import check_engine
from bpeline.flows.requests.algorithm_options import BYTE_BPE, check_options, choices_of, refuse
from bpeline.flows.requests.baselines import normalized
from bpeline.flows.requests.corpus_files import (
    CORPUS,
    DEMO,
    EVALUATION,
    check_temperature,
    corpus_sources,
    evaluation_sources,
    read_corpus_file,
)
from bpeline.flows.requests.request import Maybe, Request
from bpeline.flows.requests.source_spelling import NamedSource, is_file
from bpeline.registry.records import validate_name
from bpeline.tokenizer_core.errors import InvalidOption, InvalidSpecialToken, likely
from bpeline.tokenizer_core.evaluation import MODEL_SHAPES, model_shape
from bpeline.tokenizer_core.formats import declared_roles
from bpeline.tokenizer_core.machine import available_processors
from bpeline.tokenizer_core.plugins import kind_of
from bpeline.tokenizer_core.urls import absolute_name

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from bpeline.tokenizer_core.evaluation import NamedShape
    from bpeline.tokenizer_core.training import TokenRules

BYTES = 256
PUNKT = "punkt"
CHUNK_BYTES = 64 << 20  # copied from the core, which is slow to import
LARGEST_VOCAB = (1 << 23) - 1  # limit of the merge kernels
USUAL_VOCAB = 32_000
AUTO = "auto"  # as vocab_size: the cheapest size for a model
SMALLEST_SIZE, LARGEST_SIZE = 1024, 1 << 17  # default range of sizes to try
LEAST_TABLE_MEMORY = 2  # MiB
TieBreak = Literal["smallest-ids", "greatest-bytes", "first-seen"]
Algorithm = Literal["byte-bpe", "char-bpe", "wordpiece", "frequency-bpe"]
_MEASURED_ONE_BY_ONE = {  # why sizes of these algorithms are measured one by one
    "char-bpe": "two merges can produce the same token, so sizes do not correspond to merges",
    "wordpiece": "it takes the longest token that fits, so the encoding of a smaller size does not "
    "follow from that of a larger one",
    "frequency-bpe": "it applies the most frequent merge first, so the encoding of a smaller size "
    "does not follow from that of a larger one",
}
usable_cores = available_processors
OPEN: Any = None  # default that is filled in later, so it is never None in a request
# Parameters that do not change the tokenizer once words are counted.
_NOT_LEARNED = (
    "paths", "sources", "counts", "temperature", "name", "workers", "table_memory", "engine",
    "evaluation", "baselines", "rules", "deduplicate", "include", "strict", "roles", "chunk_bytes",
)  # fmt: skip


# Defaults of the parity parameters.
OF_PARITY: dict[str, Any] = {
    "parity": "off", "parity_dev": (), "parity_window": 100, "parity_alpha": 2.0,
    "parity_global": 0,
}  # fmt: skip
PARITY_TIE_BREAKS = ("smallest-ids", "greatest-bytes")
_FORBIDDEN = ("forbid", "forbidden_tokens", "forbid_from")


class TrainingRequest(Request):
    """The parameters of one training.

    The corpus is one of ``paths``, ``sources`` and ``counts``. Defaults that depend on the
    algorithm or the machine are filled in, so that a request holds no None for them.
    """

    words_for: ClassVar[dict[str, str]] = {"vocab_size": AUTO}
    one_for_many: ClassVar[frozenset[str]] = frozenset({"forbid", "forbidden_tokens"})

    paths: tuple[str, ...] = Field(
        description="files, directories, globs or URLs of text, .jsonl, .csv, .tsv, .json, "
        '.parquet or .arrow, compressed or not; "python:stdlib" is the source of the '
        "Python standard library; or one corpus file (.toml). Empty if sources are "
        "given",
    )
    name: str = Field(description="name to register under: a-z, 0-9, '.', '_' and '-'")
    vocab_size: int = Field(
        default=USUAL_VOCAB,
        description="vocabulary size: special tokens, 256 bytes or the characters, and merges; "
        "auto chooses the cheapest size for the model shape",
    )
    pattern: str = Field(
        default=OPEN,
        description="split pattern: gpt2, cl100k, o200k, llama3, qwen2, whitespace, jieba, … or "
        "a regex; default: that of the algorithm",
    )
    special_tokens: tuple[str, ...] = Field(
        default=(), description="special token, which also separates documents"
    )
    roles: tuple[str, ...] = Field(
        default=(),
        description="role of a special token in exports: 'eos=<|endoftext|>', bos=…, pad=…; or "
        "model_max_length=8192",
    )
    tie_break: TieBreak = Field(
        default=OPEN,
        description="which of equally frequent pairs to merge first: smallest-ids, "
        "greatest-bytes or first-seen; default: that of the algorithm",
    )
    min_count: int = Field(
        default=OPEN,
        description="minimum count of a pair to merge; default: 2, or 1 for frequency-bpe",
    )
    max_token_bytes: Maybe[int] = Field(
        default=None, description="maximum length of a token in bytes; default: no limit"
    )
    invalid_utf8: Literal["strict", "replace", "ignore"] = Field(
        default="strict",
        description="invalid UTF-8: strict raises an error, replace inserts U+FFFD, ignore drops "
        "the bytes",
    )
    include: tuple[str, ...] = Field(
        default=(),
        description="also read matching files as text, such as '*.rst' or 'notes/*.log'",
    )
    strict: bool = Field(
        default=False, description="fail if a directory or glob contains files of unknown types"
    )
    held_out: float = Field(default=0.01, description="share of documents held out for evaluation")
    text_field: str = Field(
        default="text", description="field of .jsonl lines, or column, that holds the text"
    )
    workers: int = Field(
        default=OPEN,
        description="number of threads, or of processes with --engine dask; default: one per core",
    )
    deduplicate: bool = Field(
        default=False,
        description="count exact copies of a document once; reads the text twice",
    )
    min_word_count: int = Field(
        default=1,
        description="minimum count of a word in the whole corpus; rarer words are left out",
    )
    required_tokens: tuple[str, ...] = Field(
        default=(),
        description="text that becomes a token whatever its count, such as ' token'",
    )
    forbid: tuple[str, ...] = Field(
        default=(),
        description="forbid tokens that match: digits (more than three in a row), email, key, "
        "phone, card, chat-marker, or a regex",
    )
    forbidden_tokens: tuple[str, ...] = Field(
        default=(), description="forbid this token; 'hex:20ff' gives its bytes"
    )
    forbid_from: tuple[str, ...] = Field(
        default=(),
        description="forbid the tokens found by screening this version: personal data, and tokens "
        "from a single document",
    )
    characters: Literal["any", "whole", "left-to-right"] = Field(
        default="any",
        description="partial characters in tokens: any (no rule), whole (no token mixes whole and "
        "partial characters), left-to-right (bytes of a character merge from its first byte on)",
    )
    parity: Literal["off", "base", "window"] = Field(
        default="off",
        description="each merge improves the named source (language) with the worst compression: "
        "base, or window, which limits how often a source is chosen",
    )
    parity_dev: tuple[str, ...] = Field(
        default=(),
        description="with parity: texts that measure compression, one for each source, ideally "
        "translations: 'german=dev/de.txt'; default: the sources themselves",
    )
    parity_window: int = Field(
        default=100, description="with parity window: size of the window of recent choices"
    )
    parity_alpha: float = Field(
        default=2.0,
        description="with parity window: skip a source with more than this many times its equal "
        "share of the window",
    )
    parity_global: int = Field(
        default=0, description="with parity: number of first merges learned from all text together"
    )
    chunk_bytes: int = Field(
        default=CHUNK_BYTES,
        description="chunk size in bytes; changes which documents are held out, not word counts",
    )
    table_memory: int = Field(
        default=256,
        description="MiB of memory for the words of one counting thread, at least 2; the rest "
        "goes to disk. Learning needs memory for all distinct words",
    )
    algorithm: Algorithm = Field(
        default=BYTE_BPE,
        description="algorithm to train",
    )
    options: Mapping[str, Any] = Field(
        default={}, description="options of the algorithm, such as score for wordpiece"
    )
    evaluation: tuple[str, ...] = Field(
        default=(),
        description="evaluation texts instead of held-out documents: 'english=heldout/*.txt', "
        "'german:language=de=heldout/de/*.txt', or a .toml file of such sources",
    )
    baselines: tuple[str, ...] = Field(
        default=(),
        description="tokenizer to measure on the same documents: a file or registered version, "
        "'gpt2=gpt2/tokenizer.json'; the champion is always measured",
    )
    rules: Maybe[str] = Field(
        default=None,
        description="file of promotion rules (.toml): the new version becomes champion if all "
        "hold, else it stays candidate",
    )
    extends: str = Field(
        default="",
        description="digest of the registered version that is extended",
    )
    continued_ids: int = Field(
        default=0,
        description="number of ids of an imported version that is extended",
    )
    transition_size: int = Field(
        default=0,
        description="number of ids before superwords begin; 0 for no superwords",
    )
    text_form: Literal["", "NFC", "NFD", "NFKC", "NFKD"] = Field(
        default="", description="Unicode form of an imported version that is extended"
    )
    reserve: int = Field(
        default=0,
        description="number of reserved special tokens <|reserved_0|> … at the end of the "
        "vocabulary, to rename later with `bpeline derive rename`",
    )
    round_to: int = Field(
        default=1,
        description="reserve more ids until the vocabulary size is a multiple of this, such as 128",
    )
    counts: tuple[str, ...] = Field(
        default=(),
        description="instead of paths: Parquet files of words and counts from the same split "
        "pattern; counts of equal words are added. Needs --eval",
    )
    count_columns: str = Field(
        default="word,count", description="columns of words and counts in these files"
    )
    sources: tuple[str, ...] = Field(
        default=(),
        description="instead of paths: named source with optional labels and weight, such as "
        "'german:language=de:weight=2=de/*.txt'",
    )
    temperature: float = Field(
        default=OPEN,
        description="exponent 1/T for the shares of named sources: above 1 flattens them, below 1 "
        "sharpens them; default: that of the corpus file, else 1",
    )
    engine: str = Field(
        default="local",
        description="where to count: local (threads), dask (processes of this machine), or a Dask "
        "scheduler at tcp://HOST:PORT, whose workers share the workspace and the corpus",
    )

    largest_size: Maybe[int] = Field(
        default=None,
        description="with auto: the largest size to try; default: 131072",
    )
    model_shape: Maybe[str] = Field(
        default=None,
        description="with auto: the model that the vocabulary is for: llama-3.2-1b, "
        "llama-3.1-8b, llama-3.1-70b, marin-moe, or a config.json, .json or .toml file",
    )

    @model_validator(mode="before")
    @classmethod
    def _completed(cls, asked: dict[str, Any]) -> dict[str, Any]:
        """Fill in defaults, and make paths absolute so that a run can continue anywhere."""
        from bpeline.tokenizer_core.vocabulary import validate_special_tokens

        values = dict(asked)
        paths, sources = values.get("paths") or [], list(values.get("sources") or ())
        if len(paths) == 1 and is_file(paths[0]):
            file_sources, temperature = read_corpus_file(Path(paths[0]))
            paths, sources = [], file_sources + sources
            if temperature is not None:
                values.setdefault("temperature", temperature)
        algorithm = values.get("algorithm", BYTE_BPE)
        choices = choices_of(algorithm)
        defaults = {
            "pattern": kind_of(algorithm).default_pattern,
            "tie_break": choices.tie_breaks[0],
            "min_count": choices.min_count,
            "temperature": 1.0,
            "workers": usable_cores(),
        }
        if values.get("vocab_size") == AUTO:
            del values["vocab_size"]
            values.setdefault("largest_size", LARGEST_SIZE)
        if largest := values.get("largest_size"):
            _refuse_two_sizes(values.get("vocab_size", largest), largest)
            values["vocab_size"] = largest
        if (shape := values.get("model_shape")) not in MODEL_SHAPES and os.path.lexists(str(shape)):
            values["model_shape"] = absolute_name(str(shape))
        evaluation = tuple(map(EVALUATION.absolute, values.get("evaluation") or ()))
        evaluation_sources(evaluation)  # raises if they cannot be read
        options = values.get("options") or {}
        if algorithm == "frequency-bpe" and options.get("sentences", PUNKT).startswith(PUNKT):
            values["options"] = {"word_sentences": "sentences", **options}
        rules, required = values.get("rules"), values.get("required_tokens", ())
        return {
            **defaults,
            **values,
            "paths": tuple(path if path == DEMO else absolute_name(path) for path in paths),
            "sources": tuple(map(CORPUS.absolute, sources)),
            "parity_dev": tuple(map(CORPUS.absolute, values.get("parity_dev") or ())),
            "counts": tuple(map(absolute_name, values.get("counts") or ())),
            **({"held_out": 0.0} if values.get("counts") else {}),
            "required_tokens": (required,) if isinstance(required, str) else tuple(required),
            **{name: _several(values[name]) for name in _FORBIDDEN if values.get(name)},
            "special_tokens": validate_special_tokens(values.get("special_tokens", ())),
            "evaluation": evaluation,
            "baselines": normalized(values.get("baselines") or ()),
            "rules": os.path.abspath(rules) if rules else None,
        }

    @model_validator(mode="after")
    def _accepted(self) -> TrainingRequest:
        validate_name(self.name)
        check_engine(self.engine)
        self._check_algorithm()
        self._check_pattern()
        self._check_numbers()
        self._check_special_tokens()
        _ = self.given  # raises for impossible required tokens before anything is read
        _ = self.token_rules
        self._check_sources()
        self._check_parity()
        self._check_size_choice()
        return self

    def _check_size_choice(self) -> None:
        if not self.chooses_size:
            if self.model_shape is not None:
                raise InvalidOption(
                    f"the model shape {self.model_shape} was given together with a vocabulary size",
                    "expected --vocab-size auto with a model shape",
                    "type `--vocab-size auto`; or train without it, and type `bpeline evaluate "
                    f"{self.name}@candidate --model-shape llama-3.1-8b` to see the costs",
                )
            return
        if self.model_shape is None:
            raise InvalidOption(
                "--vocab-size auto was given without a model shape",
                "expected the model that the vocabulary is for, which decides the cheapest size",
                "add `--model-shape llama-3.2-1b`",
            )
        _ = self.model  # raises if it is unknown
        if not self.over_bytes:
            raise InvalidOption(
                f"--vocab-size auto was given with the algorithm {self.algorithm}",
                f"expected {BYTE_BPE}, whose sizes are measured at once; {self.algorithm} trains "
                f"each size: {_MEASURED_ONE_BY_ONE[self.algorithm]}",
                "type a number; to compare sizes, type `bpeline sweep FILES --name NAME "
                f"--algorithm {self.algorithm} --sizes 16000,32000 --model-shape llama-3.2-1b`",
            )
        if self.continued_ids:
            raise InvalidOption(
                "--vocab-size auto was given to extend an imported tokenizer",
                "expected a version trained with byte-bpe here: for others, the gains of merges "
                "are not known",
                "type a number: `--vocab-size 64000`",
            )
        if self.vocab_size % self.round_to or self.smallest_size >= self.vocab_size:
            raise InvalidOption(
                f"--largest-size is {self.vocab_size:,}",
                f"expected more than {self.smallest_size:,}, the smallest size to try"
                + f", and a multiple of --round-to {self.round_to:,}" * (self.round_to > 1),
                f"type `--largest-size {-(-LARGEST_SIZE // self.round_to) * self.round_to}`",
            )

    def _check_parity(self) -> None:
        if not self.serves_alike:
            options = [
                f"--{name.replace('_', '-')}"
                for name, default in OF_PARITY.items()
                if getattr(self, name) != default
            ]
            if options:
                raise InvalidOption(
                    f"{', '.join(options)} was given without --parity",
                    "expected --parity with these options",
                    "add --parity base or --parity window",
                )
            return
        source_names = [source.name for source in self.named_sources]
        measured = [source.name for source in self.development_sources]
        unlike = ", ".join(sorted(set(measured) ^ set(source_names)))
        against = {
            f"the algorithm {self.algorithm}": not self.over_bytes,
            "fewer than two named sources": len(source_names) < 2,
            f"the tie-break {self.tie_break}": self.tie_break not in PARITY_TIE_BREAKS,
            "weights or a temperature": self.temperature != 1.0
            or any(source.weight != 1.0 for source in self.named_sources),
            "forbidden tokens or --characters": bool(self.token_rules),
            "an imported tokenizer or superwords": bool(self.continued_ids or self.transition_size),
            f"development texts of other names ({unlike})": bool(measured and unlike),
            "a window without --parity window": self.parity != "window"
            and (self.parity_window, self.parity_alpha) != (100, 2.0),
            "a window below 1, an alpha below 1 or global merges below 0": self.parity_window < 1
            or self.parity_alpha < 1
            or self.parity_global < 0,
        }
        judging = {
            file
            for source_ in evaluation_sources(self.evaluation).sources
            for file in source_.files
        }
        choosing = {file for source_ in self.development_sources for file in source_.files}
        against["development texts that are also evaluation texts"] = bool(judging & choosing)
        conflicts = [conflict for conflict, holds in against.items() if holds]
        if conflicts:
            raise InvalidOption(
                f"--parity was given together with {' and '.join(conflicts)}",
                "expected byte-bpe, two or more named sources of weight 1, and --parity-dev for "
                "all of them or none",
                "type `bpeline train --source 'en=en/*.txt' --source 'de=de/*.txt' --name two "
                "--parity base`",
            )

    def _check_sources(self) -> None:
        corpora = ("paths", self.paths), ("named sources", self.sources), ("counts", self.counts)
        given_names = [name for name, some in corpora if some]
        if len(given_names) != 1:
            raise InvalidOption(
                f"{' and '.join(given_names)} were given together"
                if given_names
                else "no corpus was named",
                "expected one of: files, directories and globs of text, .jsonl, .parquet and "
                "others; named sources; a corpus file; Parquet files of word counts",
                "type `bpeline train corpus.txt --name news`, or `bpeline train --demo`",
            )
        check_temperature(self.temperature, self.named_sources)
        _ = self._count_columns
        if self.counts and (self.deduplicate or self.text_form or self.transition_size):
            raise InvalidOption(
                "word counts were given together with an option that needs text",
                "expected text for --deduplicate, a Unicode form and `bpeline derive superwords`",
                "leave out the option, or name the text",
            )

    def _check_numbers(self) -> None:
        bytes_ = BYTES if self.over_bytes else 0
        specials = len(self.special_tokens) + self.reserve
        smallest = self.continued_ids + self.reserve or bytes_ + specials
        if not smallest <= self.vocab_size <= LARGEST_VOCAB:
            raise InvalidOption(
                f"the vocabulary size is {self.vocab_size:,}",
                f"expected {smallest:,} ({bytes_} bytes and {specials} special tokens, no merges) "
                f"to {LARGEST_VOCAB:,}",
                "type `--vocab-size 32000`, or a size in this range",
            )
        for option, value, lowest in (
            ("reserve", self.reserve, 0),
            ("round-to", self.round_to, 1),
            ("min-count", self.min_count, 1),
            ("min-word-count", self.min_word_count, 1),
            ("max-token-bytes", self.max_token_bytes, 2),
            ("threads", self.workers, 1),
            ("chunk-bytes", self.chunk_bytes, 1),
            ("table-memory", self.table_memory, LEAST_TABLE_MEMORY),
        ):
            if value is not None and value < lowest:
                raise InvalidOption(
                    f"--{option} is {value}",
                    f"expected a whole number from {lowest}",
                    f"type `--{option} {lowest}` or leave it out",
                )
        if not 0 <= self.held_out <= 0.5:
            raise InvalidOption(
                f"--held-out is {self.held_out}",
                "expected a share of documents from 0 to 0.5",
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
        if self.algorithm == "frequency-bpe":
            from bpeline.tokenizer_core.splitting import Punkt

            Punkt.asked(self.options.get("sentences", PUNKT))  # raises if it is not installed
        if self.tie_break not in choices.tie_breaks and not self.over_bytes:
            refuse(self.algorithm, "tie_break", f"--tie-break {' or '.join(choices.tie_breaks)}")
        if self.special_tokens and not choices.special_tokens:
            refuse(self.algorithm, "special_token", "its own sentence marks and <pad> only")
        if (self.reserve or self.round_to > 1) and not choices.special_tokens:
            refuse(self.algorithm, "reserve", "its own sentence marks and <pad> only")
        for option, value in (
            ("max_token_bytes", self.max_token_bytes),
            ("required_token", self.required_tokens),
            ("extends", self.extends),
            ("forbid", self.forbid),
            ("forbidden_tokens", self.forbidden_tokens),
            ("forbid_from", self.forbid_from),
            ("characters", self.characters != "any"),
        ):
            if value and not self.over_bytes:
                refuse(self.algorithm, option, f"the algorithm {BYTE_BPE}")
        if self.continued_ids and self.token_rules:
            raise InvalidOption(
                "tokens were forbidden for an extension of an imported tokenizer",
                "expected --forbid, --forbidden-token and --characters only for versions trained "
                "here",
                "leave them out",
            )

    def _check_special_tokens(self) -> None:
        if not self.continued_ids:  # imported tokenizers have more special tokens than separators
            declared_roles(self.roles, self.special_tokens)
        for token in () if self.continued_ids else self.special_tokens:
            if len(token.encode()) == 1:
                raise InvalidSpecialToken(
                    f"the special token {token!r} is a single byte",
                    "expected two bytes or more: single bytes are already tokens",
                    "choose a text that does not occur in documents, such as '<|endoftext|>'",
                )
            if self.over_bytes and _reads_like_bytes(token):
                raise InvalidSpecialToken(
                    f"the special token {token!r} looks like an ordinary token in vocab.json, "
                    "where each byte is one printable character",
                    "expected ASCII, or a character outside of that mapping",
                    "choose a text such as '<|endoftext|>'",
                )

    def as_config(self) -> dict[str, Any]:
        """The request as JSON values, from which the flow can be repeated."""
        config = self.model_dump(mode="json")
        # Defaults are left out, so that configurations from before these fields compare equal.
        defaults = {
            "extends": "", "sources": [], "temperature": 1.0, "engine": "local",
            "deduplicate": False, "continued_ids": 0, "text_form": "", "reserve": 0, "round_to": 1,
            "include": [], "strict": False, "forbid": [], "forbidden_tokens": [],
            "characters": "any", "forbid_from": [], "transition_size": 0,
            "counts": [], "count_columns": "word,count", **OF_PARITY, "parity_dev": [],
            "largest_size": None, "model_shape": None, "roles": [], "chunk_bytes": CHUNK_BYTES,
        }  # fmt: skip
        if self.chooses_size:
            config["vocab_size"] = AUTO
        return {
            name: value
            for name, value in config.items()
            if name not in defaults or value != defaults[name]
        }

    def same_as(self, config: Mapping[str, Any]) -> bool:
        """Whether a stored configuration is the same, apart from workers, memory and engine."""
        how = {"workers": None, "table_memory": None, "engine": None, "strict": None}
        return {**self.as_config(), **how} == {**config, **how}

    def learns_as(self, config: Mapping[str, Any]) -> bool:
        """Whether a stored configuration learns the same tokenizer from the same word counts."""
        other = dict.fromkeys(
            key for key in _NOT_LEARNED if key != "sources" or not self.serves_alike
        )
        return {**self.as_config(), **other} == {**config, **other}

    @property
    def reading(self) -> Any:
        """The ``ReadOptions`` of the corpus."""
        from bpeline.tokenizer_core.corpus import ReadOptions
        from bpeline.tokenizer_core.derived import is_slot
        from bpeline.tokenizer_core.splitting import SplitPattern

        return ReadOptions(
            pattern=SplitPattern.parse(self.pattern).within_named(self._sentences_of_words),
            # Reserved tokens of an extended version do not occur in text.
            special_tokens=tuple(item for item in self.special_tokens if not is_slot(item)),
            invalid_utf8=self.invalid_utf8,
            text_field=self.text_field,
            held_out=self.held_out,
            text_fields=tuple(
                (item.name, item.text_field) for item in self.named_sources if item.text_field
            ),
            deduplicated=self.deduplicate,
            text_form=self.text_form,
            count_columns=self._count_columns,
            chunk_bytes=self.chunk_bytes,
        )

    @property
    def _sentences_of_words(self) -> str:
        """The sentence splitter for counting words; ``none`` for the whole text."""
        within = self.options.get("word_sentences") == "sentences"
        return str(self.options.get("sentences", PUNKT)) if within else "none"

    @property
    def _count_columns(self) -> tuple[str, str]:
        word, comma, count = self.count_columns.partition(",")
        if not (word and comma and count) or "," in count or word == count:
            raise InvalidOption(
                f"--count-columns is {self.count_columns!r}",
                "expected WORD,COUNT: the names of two columns",
                "type `--count-columns word,count`",
            )
        return word, count

    @property
    def named_sources(self) -> tuple[NamedSource, ...]:
        """The named sources of the corpus; empty if it has paths."""
        return corpus_sources(self.sources)

    @property
    def serves_alike(self) -> bool:
        """Whether each merge improves the source with the worst compression."""
        return self.parity != "off"

    @property
    def development_sources(self) -> tuple[NamedSource, ...]:
        """The texts that measure compression for parity; empty for the sources themselves."""
        return corpus_sources(self.parity_dev)

    @property
    def parity_rule(self) -> Any:
        """The ``ParityRule``, which chooses the source of the next merge."""
        from bpeline.tokenizer_core.merging import ParityRule

        window = self.parity_window if self.parity == "window" else 0
        return ParityRule(window, self.parity_alpha, self.parity_global)

    @property
    def evaluation_reading(self) -> Any:
        """The ``ReadOptions`` of evaluation sources: those of the corpus, with nothing held out."""
        return replace(self.reading, held_out=0.0, text_fields=(), deduplicated=False)

    @property
    def parity_remark(self) -> str:
        """A warning about parity without development texts, or empty."""
        if not self.serves_alike or self.parity_dev:
            return ""
        return (
            "without --parity-dev, sources are compared by bytes per token, which favours scripts "
            "with two or three bytes per character; use translations of one text"
        )

    @property
    def pattern_remark(self) -> str:
        """A warning about a slow split pattern, or empty."""
        from bpeline.tokenizer_core.splitting import SplitPattern

        pattern = SplitPattern.parse(self.pattern)
        if pattern.has_kernel:
            return ""
        if pattern.segmenter is not None:
            return (
                f"the split pattern {pattern.name!r} is {pattern.segmenter.shown}, which runs at "
                "1 to 3 MB/s in each process"
            )
        reason = pattern.compiled_by.removeprefix("regex: ")
        return (
            f"the split pattern {pattern.regex!r} has no kernel and runs at 5 to 20 MB/s in each "
            f"process: {reason}"
        )

    @property
    def forbid_remark(self) -> str:
        """A warning about a regex that looks like a misspelt name, or empty."""
        from bpeline.tokenizer_core.training import FORBIDDEN_LOOKS

        words = [look for look in self.forbid if look.replace("-", "").isalpha()]
        for look in set(words).difference(FORBIDDEN_LOOKS):
            if suggestion := likely(look, FORBIDDEN_LOOKS):
                return f"--forbid {look} is used as a regex, not as a name{suggestion}"
        return ""

    @property
    def given(self) -> NDArray[np.int32] | None:
        """The merges of the required tokens (int32 ``[n, 2]``), or None.

        Raises:
            InvalidOption: an impossible required token, or too many for the vocabulary.
            InvalidSpecialToken: a required token contains a special token.
        """
        if not self.required_tokens:
            return None
        from bpeline.tokenizer_core.splitting import SplitPattern
        from bpeline.tokenizer_core.training import given_for

        merges = given_for(
            self.required_tokens,
            SplitPattern.parse(self.pattern),
            self.merges,
            self.special_tokens,
            self.tie_break,
            self.max_token_bytes,
        )
        self.token_rules.require_of_merges(merges, self.tie_break, "the required tokens")
        return merges

    @property
    def token_rules(self) -> TokenRules:
        """The rules for forbidden tokens.

        Those of ``forbid_from`` are added by `flows.evaluation.with_forbidden_tokens`.

        Raises:
            InvalidOption: a rule that no vocabulary can satisfy.
        """
        from bpeline.tokenizer_core.training import NO_RULES, TokenRules

        if not (self.forbid or self.forbidden_tokens or self.characters != "any"):
            return NO_RULES
        return TokenRules.checked(self.forbid, self.forbidden_tokens, self.characters)

    @property
    def chooses_size(self) -> bool:
        """Whether the cheapest vocabulary size for a model is chosen."""
        return self.largest_size is not None

    @property
    def model(self) -> NamedShape:
        """The model that the size is chosen for; raises `InvalidOption` if it is unknown."""
        assert self.model_shape is not None
        return model_shape(self.model_shape)

    @property
    def smallest_size(self) -> int:
        """The smallest size to try; see `smallest_size_after` for extended versions."""
        required = self.given
        return self.smallest_size_after(0 if required is None else len(required))

    def smallest_size_after(self, merges: int) -> int:
        """As `smallest_size`, with this many merges before the first learned one."""
        more = 1 if self.extends else 0  # an extension has at least one more id
        return max(SMALLEST_SIZE, self.vocab_size - self.merges + merges + more)

    def of_size(self, vocab_size: int) -> TrainingRequest:
        """The request with a chosen size, which trains the same tokenizer again."""
        update = {"vocab_size": vocab_size, "largest_size": None, "model_shape": None}
        return self.model_copy(update=update)

    @property
    def without_token_rules(self) -> TrainingRequest:
        return self.model_copy(update={"forbid": (), "forbidden_tokens": (), "characters": "any"})

    @property
    def without_parity(self) -> TrainingRequest:
        return self.model_copy(update=OF_PARITY)

    @property
    def over_bytes(self) -> bool:
        return self.algorithm == BYTE_BPE

    @property
    def learned_size(self) -> int:
        """The number of ids without reserved ones."""
        return self.vocab_size - self.reserve

    @property
    def merges(self) -> int:
        """The number of merges to learn for the vocabulary of byte-level BPE.

        For extended imports and superwords only the new ones. Superwords can need more, because
        unused merges of words are left out.
        """
        if self.continued_ids or self.transition_size:
            return self.learned_size - (self.continued_ids or self.transition_size)
        return self.learned_size - BYTES - len(self.special_tokens)

    @property
    def merges_shown(self) -> int | None:
        """The total for the progress of learning; None if there are no merges to count."""
        return self.merges if self.over_bytes else None


def _refuse_two_sizes(vocab_size: Any, largest: Any) -> None:
    """Raise for two sizes; ignores the default, which a form sends, too."""
    if vocab_size not in (largest, USUAL_VOCAB):
        raise InvalidOption(
            f"vocab_size is {vocab_size}, and largest_size is {largest}",
            "expected one of them",
            "leave one of them out",
        )


def _several(given: str | Iterable[str]) -> tuple[str, ...]:
    """A tuple of distinct values; a form of Prefect may send a single string."""
    return tuple(dict.fromkeys((given,) if isinstance(given, str) else given))


def _reads_like_bytes(token: str) -> bool:
    from bpeline.tokenizer_core.vocabulary import from_printable

    try:
        return from_printable(token) != token.encode()
    except KeyError:
        return False
