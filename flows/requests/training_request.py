"""What somebody asks of a training: names, defaults, descriptions and checks of its parameters.

They stand here alone: the flow's signature and its form in Prefect, the options of the command
line, plans and stored configurations follow from them. Knows no file and no flow.
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
CHUNK_BYTES = 64 << 20  # the core's; importing it takes time
LARGEST_VOCAB = (1 << 23) - 1  # what merging holds
USUAL_VOCAB = 32_000
AUTO = "auto"  # as vocab_size: the size at which text costs a model least
SMALLEST_SIZE, LARGEST_SIZE = 1024, 1 << 17  # of those that are asked about where nobody says more
LEAST_TABLE_MEMORY = 2  # MiB
TieBreak = Literal["smallest-ids", "greatest-bytes", "first-seen"]
Algorithm = Literal["byte-bpe", "char-bpe", "wordpiece", "frequency-bpe"]
_MEASURED_ONE_BY_ONE = {  # and why
    "char-bpe": "its merges fire in the order in which they were learned, but two of them may make "
    "one token, so that a number of ids is no number of merges, and how often each fires is "
    "counted over bytes alone",
    "wordpiece": "it takes the longest token that fits, so what a smaller size makes of a text "
    "does not follow from what a larger one makes",
    "frequency-bpe": "it joins to the most frequent text first, and not by the merge that was "
    "learned first, so what a smaller size makes of a text does not follow from what a larger one "
    "makes",
}
usable_cores = available_processors
OPEN: Any = None  # nobody says it; in a request it has a value
# What says where, how and for whom, and nothing about the tokenizer once words are counted.
_NOT_LEARNED = (
    "paths", "sources", "counts", "temperature", "name", "workers", "table_memory", "engine",
    "evaluation", "baselines", "rules", "deduplicate", "include", "strict", "roles", "chunk_bytes",
)  # fmt: skip


# What is said of languages that are to be served alike, and nothing where it is not.
OF_PARITY: dict[str, Any] = {
    "parity": "off", "parity_dev": (), "parity_window": 100, "parity_alpha": 2.0,
    "parity_global": 0,
}  # fmt: skip
PARITY_TIE_BREAKS = ("smallest-ids", "greatest-bytes")
_FORBIDDEN = ("forbid", "forbidden_tokens", "forbid_from")


class TrainingRequest(Request):
    """The parameters of one training.

    ``paths``, ``workers``, ``table_memory`` and ``engine`` say where and how, all others what is
    learned. A corpus is either ``paths`` or ``sources``. What is None when nobody says it has its
    value in a request: that of the algorithm, or of this machine.
    """

    words_for: ClassVar[dict[str, str]] = {"vocab_size": AUTO}
    one_for_many: ClassVar[frozenset[str]] = frozenset({"forbid", "forbidden_tokens"})

    paths: tuple[str, ...] = Field(
        description="files, directories, globs or URLs of text, .jsonl, .csv, .tsv, .json, "
        '.parquet or .arrow, compressed or not; "python:stdlib" is the source of the '
        "Python standard library; or one corpus file (.toml). Empty when sources are "
        "given",
    )
    name: str = Field(description="name to register under: a-z, 0-9, '.', '_' and '-'")
    vocab_size: int = Field(
        default=USUAL_VOCAB,
        description="number of ids: special tokens, 256 bytes or the characters, and merges; "
        "auto chooses the size that costs the model of model_shape least",
    )
    pattern: str = Field(
        default=OPEN,
        description="split pattern: gpt2, cl100k, o200k, llama3, qwen2, whitespace, jieba, … or "
        "a regex; when empty, the algorithm's default",
    )
    special_tokens: tuple[str, ...] = Field(
        default=(), description="special token; it also separates documents"
    )
    roles: tuple[str, ...] = Field(
        default=(),
        description="role of a special token in exports: 'eos=<|endoftext|>', bos=…, pad=…; or "
        "model_max_length=8192",
    )
    tie_break: TieBreak = Field(
        default=OPEN,
        description="which of equally frequent pairs to merge first: smallest-ids, "
        "greatest-bytes or first-seen; when empty, the algorithm's default",
    )
    min_count: int = Field(
        default=OPEN,
        description="do not merge rarer pairs; when empty, 2, or 1 for frequency-bpe",
    )
    max_token_bytes: Maybe[int] = Field(
        default=None, description="longest token in bytes; when empty, no limit"
    )
    invalid_utf8: Literal["strict", "replace", "ignore"] = Field(
        default="strict",
        description="invalid UTF-8: strict raises an error, replace inserts U+FFFD, ignore drops "
        "the bytes",
    )
    include: tuple[str, ...] = Field(
        default=(),
        description="read files that match this pattern as text, too, such as '*.rst' or "
        "'notes/*.log'",
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
        description="number of threads, or of processes with the engine dask; when empty, one "
        "per core",
    )
    deduplicate: bool = Field(
        default=False,
        description="count exact copies of a document once; reads the text twice",
    )
    min_word_count: int = Field(
        default=1,
        description="leave out words that are rarer in the whole corpus",
    )
    required_tokens: tuple[str, ...] = Field(
        default=(),
        description="text that becomes a token whatever its count, such as ' token'",
    )
    forbid: tuple[str, ...] = Field(
        default=(),
        description="make no token that matches: digits (more than three in a row), email, key, "
        "phone, card, chat-marker, or a regex",
    )
    forbidden_tokens: tuple[str, ...] = Field(
        default=(), description="make no such token; 'hex:20ff' spells its bytes"
    )
    forbid_from: tuple[str, ...] = Field(
        default=(),
        description="forbid what the screening of this registered version found: personal data, "
        "and tokens that come from one document",
    )
    characters: Literal["any", "whole", "left-to-right"] = Field(
        default="any",
        description="tokens with partial characters: any; whole: no token mixes whole and "
        "partial characters; left-to-right: bytes merge only from a character's "
        "first byte on",
    )
    parity: Literal["off", "base", "window"] = Field(
        default="off",
        description="each merge improves the named source (language) with the worst compression: "
        "base, or window, which limits how often one source is chosen in a row",
    )
    parity_dev: tuple[str, ...] = Field(
        default=(),
        description="with parity: development texts that measure compression, ideally "
        "translations, one for each source: 'german=dev/de.txt'; when empty, the "
        "sources' own words",
    )
    parity_window: int = Field(
        default=100, description="with parity window: number of recent choices to look at"
    )
    parity_alpha: float = Field(
        default=2.0,
        description="with parity window: skip a source that had more than this many times its "
        "equal share of the window",
    )
    parity_global: int = Field(
        default=0, description="with parity: number of first merges learned from all text together"
    )
    chunk_bytes: int = Field(
        default=CHUNK_BYTES,
        description="chunk size in bytes. It changes which documents are held out, but no word "
        "count",
    )
    table_memory: int = Field(
        default=256,
        description="memory in MiB for the words of one thread while it counts, at least 2; the "
        "rest goes to disk. Learning needs memory for all distinct words",
    )
    algorithm: Algorithm = Field(
        default=BYTE_BPE,
        description="algorithm to train",
    )
    options: Mapping[str, Any] = Field(
        default={}, description="options of the algorithm, see `algorithm_options`"
    )
    evaluation: tuple[str, ...] = Field(
        default=(),
        description="texts to evaluate on instead of held-out documents: "
        "'english=heldout/*.txt', 'german:language=de:domain=news=heldout/de/*.txt', "
        "or a .toml file of such sources",
    )
    baselines: tuple[str, ...] = Field(
        default=(),
        description="tokenizer to measure on the same documents: a file or registered version, "
        "'gpt2=gpt2/tokenizer.json'; the champion is always measured",
    )
    rules: Maybe[str] = Field(
        default=None,
        description="file of promotion rules (.toml): the new version becomes champion if all "
        "hold, else it stays candidate. A first version has nothing to be compared "
        "with",
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
        description="number of ids that the version keeps before superwords begin; 0 for no "
        "superwords",
    )
    text_form: Literal["", "NFC", "NFD", "NFKC", "NFKD"] = Field(
        default="", description="Unicode form of an imported version that is extended"
    )
    reserve: int = Field(
        default=0,
        description="number of reserved ids at the end of the vocabulary: special tokens "
        "<|reserved_0|> …, to be named later by `bpeline derive rename`",
    )
    round_to: int = Field(
        default=1,
        description="reserve more ids until the vocabulary size is a multiple of this, such as 128",
    )
    counts: tuple[str, ...] = Field(
        default=(),
        description="instead of paths: Parquet files of words and counts, made with the same "
        "split pattern; equal words are added up. Needs --eval, as counts have no "
        "documents",
    )
    count_columns: str = Field(
        default="word,count", description="columns of words and counts in these files"
    )
    sources: tuple[str, ...] = Field(
        default=(),
        description="instead of paths: named files with labels and weights, such as "
        "'german:language=de:domain=news:weight=2=de/*.txt'",
    )
    temperature: float = Field(
        default=OPEN,
        description="flatten the shares of named sources (above 1) or sharpen them (below): each "
        "share to the power of 1/T; when empty, that of the corpus file, else 1",
    )
    engine: str = Field(
        default="local",
        description="where to count: local (threads), dask (processes of this machine), or the "
        "address of a Dask scheduler, tcp://HOST:PORT, whose workers share the "
        "workspace and the corpus",
    )

    largest_size: Maybe[int] = Field(
        default=None,
        description="with auto: the largest size to try; when empty, 131072",
    )
    model_shape: Maybe[str] = Field(
        default=None,
        description="with auto: the model that the vocabulary is for: llama-3.2-1b, "
        "llama-3.1-8b, llama-3.1-70b, marin-moe, a .toml or .json file of its sizes, "
        "or the config.json of a dense model",
    )

    @model_validator(mode="before")
    @classmethod
    def _completed(cls, asked: dict[str, Any]) -> dict[str, Any]:
        """What was left open, with absolute paths: a run can be continued from any directory."""
        from bpeline.tokenizer_core.vocabulary import validate_special_tokens

        given = dict(asked)
        paths, sources = given.get("paths") or [], list(given.get("sources") or ())
        if len(paths) == 1 and is_file(paths[0]):
            listed, temperature = read_corpus_file(Path(paths[0]))
            paths, sources = [], listed + sources
            if temperature is not None:
                given.setdefault("temperature", temperature)
        algorithm = given.get("algorithm", BYTE_BPE)
        choices = choices_of(algorithm)
        usual = {
            "pattern": kind_of(algorithm).default_pattern,
            "tie_break": choices.tie_breaks[0],
            "min_count": choices.min_count,
            "temperature": 1.0,
            "workers": usable_cores(),
        }
        if given.get("vocab_size") == AUTO:
            del given["vocab_size"]
            given.setdefault("largest_size", LARGEST_SIZE)
        if largest := given.get("largest_size"):
            _refuse_two_sizes(given.get("vocab_size", largest), largest)
            given["vocab_size"] = largest
        if (shape := given.get("model_shape")) not in MODEL_SHAPES and os.path.lexists(str(shape)):
            given["model_shape"] = absolute_name(str(shape))
        evaluation = tuple(map(EVALUATION.absolute, given.get("evaluation") or ()))
        evaluation_sources(evaluation)  # refuses what cannot be read
        options = given.get("options") or {}
        if algorithm == "frequency-bpe" and options.get("sentences", PUNKT).startswith(PUNKT):
            given["options"] = {"word_sentences": "sentences", **options}
        rules, required = given.get("rules"), given.get("required_tokens", ())
        return {
            **usual,
            **given,
            "paths": tuple(path if path == DEMO else absolute_name(path) for path in paths),
            "sources": tuple(map(CORPUS.absolute, sources)),
            "parity_dev": tuple(map(CORPUS.absolute, given.get("parity_dev") or ())),
            "counts": tuple(map(absolute_name, given.get("counts") or ())),
            **({"held_out": 0.0} if given.get("counts") else {}),
            "required_tokens": (required,) if isinstance(required, str) else tuple(required),
            **{name: _several(given[name]) for name in _FORBIDDEN if given.get(name)},
            "special_tokens": validate_special_tokens(given.get("special_tokens", ())),
            "evaluation": evaluation,
            "baselines": normalized(given.get("baselines") or ()),
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
        _ = self.given  # refuses impossible required tokens before anything is read
        _ = self.token_rules
        self._check_sources()
        self._check_parity()
        self._check_size_choice()
        return self

    def _check_size_choice(self) -> None:
        """Refuse a size to be chosen that cannot be, and a model shape that chooses none."""
        if not self.chooses_size:
            if self.model_shape is not None:
                raise InvalidOption(
                    f"the model shape {self.model_shape} was given, and the number of ids, too",
                    "a model shape chooses the number of ids",
                    "type `--vocab-size auto`; or train without it, and type `bpeline evaluate "
                    f"{self.name}@candidate --model-shape llama-3.1-8b` to see what text costs",
                )
            return
        if self.model_shape is None:
            raise InvalidOption(
                "the number of ids is to be chosen, and no model was named",
                "which size costs least depends on the model that the vocabulary is for",
                "add `--model-shape llama-3.2-1b`",
            )
        _ = self.model  # refuses what there is none of
        if not self.over_bytes:
            raise InvalidOption(
                f"the number of ids is to be chosen, with the algorithm {self.algorithm}",
                f"{BYTE_BPE}, all of whose sizes are measured at once; of {self.algorithm} each "
                "size is trained and measured by itself: "
                f"{_MEASURED_ONE_BY_ONE[self.algorithm]}",
                "type a number; what several cost is said by `bpeline sweep FILES --name NAME "
                f"--algorithm {self.algorithm} --sizes 16000,32000 --model-shape llama-3.2-1b`",
            )
        if self.continued_ids:
            raise InvalidOption(
                "the number of ids is to be chosen of a tokenizer of others that is extended",
                "byte-bpe that was trained here; what each merge saves is not known of words that "
                "another tokenizer makes",
                "type a number: `--vocab-size 64000`",
            )
        if self.vocab_size % self.round_to or self.smallest_size >= self.vocab_size:
            raise InvalidOption(
                f"--largest-size is {self.vocab_size:,}",
                f"more than {self.smallest_size:,}, the smallest size that is asked about"
                + f", and a multiple of --round-to {self.round_to:,}" * (self.round_to > 1),
                f"type `--largest-size {-(-LARGEST_SIZE // self.round_to) * self.round_to}`",
            )

    def _check_parity(self) -> None:
        """Refuse what cannot be had together with ``parity``, or is said without it."""
        if not self.serves_alike:
            said = [
                f"--{name.replace('_', '-')}"
                for name, usual in OF_PARITY.items()
                if getattr(self, name) != usual
            ]
            if said:
                raise InvalidOption(
                    f"{', '.join(said)} was given without --parity",
                    "these say how merges serve several languages",
                    "add --parity base or --parity window",
                )
            return
        named = [source.name for source in self.named_sources]
        measured = [source.name for source in self.development_sources]
        unlike = ", ".join(sorted(set(measured) ^ set(named)))
        against = {
            f"the algorithm {self.algorithm}": not self.over_bytes,
            "fewer than two named sources": len(named) < 2,
            f"the tie-break {self.tie_break}": self.tie_break not in PARITY_TIE_BREAKS,
            "weights or a temperature": self.temperature != 1.0
            or any(source.weight != 1.0 for source in self.named_sources),
            "forbidden tokens or --characters": bool(self.token_rules),
            "a tokenizer of others, or superwords": bool(
                self.continued_ids or self.transition_size
            ),
            f"development texts of other names ({unlike})": bool(measured and unlike),
            "a window without --parity window": self.parity != "window"
            and (self.parity_window, self.parity_alpha) != (100, 2.0),
            "a window below 1, an alpha below 1 or global merges below 0": self.parity_window < 1
            or self.parity_alpha < 1
            or self.parity_global < 0,
        }
        judging = {
            file for one in evaluation_sources(self.evaluation).sources for file in one.files
        }
        choosing = {file for one in self.development_sources for file in one.files}
        against["development texts that it is evaluated on, too"] = bool(judging & choosing)
        wrong = [what for what, holds in against.items() if holds]
        if wrong:
            raise InvalidOption(
                f"--parity was given together with {' and '.join(wrong)}",
                "byte-bpe, two or more named sources of the weight 1, and a --parity-dev of each "
                "of them or of none",
                "type `bpeline train --source 'en=en/*.txt' --source 'de=de/*.txt' --name two "
                "--parity base`",
            )

    def _check_sources(self) -> None:
        named = ("paths", self.paths), ("named sources", self.sources), ("counts", self.counts)
        given = [name for name, some in named if some]
        if len(given) != 1:
            raise InvalidOption(
                f"{' and '.join(given)} were given together" if given else "no corpus was named",
                "accepted: files, directories and globs of text, .jsonl, .parquet and the like; "
                "or named sources of these, or a corpus file, or Parquet files of word counts",
                "type `bpeline train corpus.txt --name news`, or `bpeline train --demo`",
            )
        check_temperature(self.temperature, self.named_sources)
        _ = self._count_columns
        if self.counts and (self.deduplicate or self.text_form or self.transition_size):
            raise InvalidOption(
                "word counts were given, and an option that is about their text",
                "with counts, no copies of documents are looked for, no form of text is changed, "
                "and no superwords are learned, which are seen in lines alone",
                "leave out what was given of these (--deduplicate, `bpeline derive "
                "superwords`), or name the text",
            )

    def _check_numbers(self) -> None:
        bytes_ = BYTES if self.over_bytes else 0
        specials = len(self.special_tokens) + self.reserve
        smallest = self.continued_ids + self.reserve or bytes_ + specials
        if not smallest <= self.vocab_size <= LARGEST_VOCAB:
            raise InvalidOption(
                f"a vocabulary of {self.vocab_size:,} was asked for",
                f"accepted: {smallest:,} ({bytes_} bytes and {specials} special tokens, no merges) "
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
        if self.algorithm == "frequency-bpe":
            from bpeline.tokenizer_core.splitting import Punkt

            Punkt.asked(self.options.get("sentences", PUNKT))  # refuses what is not installed
        if self.tie_break not in choices.tie_breaks and not self.over_bytes:
            refuse(self.algorithm, "tie_break", f"--tie-break {' or '.join(choices.tie_breaks)}")
        if self.special_tokens and not choices.special_tokens:
            refuse(self.algorithm, "special_token", "the marks of its sentences and <pad>")
        if (self.reserve or self.round_to > 1) and not choices.special_tokens:
            refuse(self.algorithm, "reserve", "the marks of its sentences and <pad>")
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
                refuse(self.algorithm, option, "any token that merging makes")
        if self.continued_ids and self.token_rules:
            raise InvalidOption(
                "a tokenizer of others is extended, and tokens were forbidden",
                "--forbid, --forbidden-token and --characters are for what is trained here",
                "leave them out",
            )

    def _check_special_tokens(self) -> None:
        if not self.continued_ids:  # of a tokenizer of others more is special than separates
            declared_roles(self.roles, self.special_tokens)
        for token in () if self.continued_ids else self.special_tokens:
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
        config = self.model_dump(mode="json")
        # Runs of before these were there asked for the same.
        usual = {
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
            if name not in usual or value != usual[name]
        }

    def same_as(self, config: Mapping[str, Any]) -> bool:
        """Whether a stored configuration asks for the same, whatever workers and memory do it."""
        how = {"workers": None, "table_memory": None, "engine": None, "strict": None}
        return {**self.as_config(), **how} == {**config, **how}

    def learns_as(self, config: Mapping[str, Any]) -> bool:
        """Whether a stored configuration makes the same tokenizer of the same word counts."""
        other = dict.fromkeys(
            one for one in _NOT_LEARNED if one != "sources" or not self.serves_alike
        )
        return {**self.as_config(), **other} == {**config, **other}

    @property
    def reading(self) -> Any:
        """How bytes become counted text (a ``ReadOptions``)."""
        from bpeline.tokenizer_core.corpus import ReadOptions
        from bpeline.tokenizer_core.derived import is_slot
        from bpeline.tokenizer_core.splitting import SplitPattern

        return ReadOptions(
            pattern=SplitPattern.parse(self.pattern).within_named(self._sentences_of_words),
            # Slots of a version that is extended stand in no text, and cut none.
            special_tokens=tuple(one for one in self.special_tokens if not is_slot(one)),
            invalid_utf8=self.invalid_utf8,
            text_field=self.text_field,
            held_out=self.held_out,
            text_fields=tuple(
                (one.name, one.text_field) for one in self.named_sources if one.text_field
            ),
            deduplicated=self.deduplicate,
            text_form=self.text_form,
            count_columns=self._count_columns,
            chunk_bytes=self.chunk_bytes,
        )

    @property
    def _sentences_of_words(self) -> str:
        """The sentences that words are counted within; ``none``: the whole text."""
        within = self.options.get("word_sentences") == "sentences"
        return str(self.options.get("sentences", PUNKT)) if within else "none"

    @property
    def _count_columns(self) -> tuple[str, str]:
        word, comma, count = self.count_columns.partition(",")
        if not (word and comma and count) or "," in count or word == count:
            raise InvalidOption(
                f"--count-columns is {self.count_columns!r}",
                "accepted: the column of words, a comma, the column of counts",
                "type `--count-columns word,count`",
            )
        return word, count

    @property
    def named_sources(self) -> tuple[NamedSource, ...]:
        """The sources of the corpus; none where paths were given."""
        return corpus_sources(self.sources)

    @property
    def serves_alike(self) -> bool:
        """Whether each merge serves the source that is worst off."""
        return self.parity != "off"

    @property
    def development_sources(self) -> tuple[NamedSource, ...]:
        """The texts that say which source is worst off; none where its own words do."""
        return corpus_sources(self.parity_dev)

    @property
    def parity_rule(self) -> Any:
        """Which source the next merge serves (a ``ParityRule``)."""
        from bpeline.tokenizer_core.merging import ParityRule

        window = self.parity_window if self.parity == "window" else 0
        return ParityRule(window, self.parity_alpha, self.parity_global)

    @property
    def evaluation_reading(self) -> Any:
        """How evaluation sources are read: as the corpus, with nothing held out."""
        return replace(self.reading, held_out=0.0, text_fields=(), deduplicated=False)

    @property
    def parity_remark(self) -> str:
        """What is to be said where bytes decide who is worst off; empty for all others."""
        if not self.serves_alike or self.parity_dev:
            return ""
        return (
            "without --parity-dev, the source whose own text has the fewest bytes per token is "
            "served: scripts that take two or three bytes a character look cheap by that; name "
            "texts that say the same in each language"
        )

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
    def forbid_remark(self) -> str:
        """What is to be said of a regex that looks like the name of a kind; empty for others."""
        from bpeline.tokenizer_core.training import FORBIDDEN_LOOKS

        words = [look for look in self.forbid if look.replace("-", "").isalpha()]
        for look in set(words).difference(FORBIDDEN_LOOKS):
            if meant := likely(look, FORBIDDEN_LOOKS):
                return f"--forbid {look} is no kind, but a regex, of these letters{meant}"
        return ""

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
        from bpeline.tokenizer_core.training import given_for

        given = given_for(
            self.required_tokens,
            SplitPattern.parse(self.pattern),
            self.merges,
            self.special_tokens,
            self.tie_break,
            self.max_token_bytes,
        )
        self.token_rules.require_of_merges(given, self.tie_break, "the required tokens")
        return given

    @property
    def token_rules(self) -> TokenRules:
        """Which tokens are not made.

        Raises:
            InvalidOption: a rule that no vocabulary can keep. What screening found is not among
                them before `flows.evaluation.with_forbidden_tokens`.
        """
        from bpeline.tokenizer_core.training import NO_RULES, TokenRules

        if not (self.forbid or self.forbidden_tokens or self.characters != "any"):
            return NO_RULES
        return TokenRules.checked(self.forbid, self.forbidden_tokens, self.characters)

    @property
    def chooses_size(self) -> bool:
        """Whether the number of ids is the one at which text costs a model least."""
        return self.largest_size is not None

    @property
    def model(self) -> NamedShape:
        """The model that the number of ids is chosen for.

        Raises:
            InvalidOption: there is no such model.
        """
        assert self.model_shape is not None
        return model_shape(self.model_shape)

    @property
    def smallest_size(self) -> int:
        """The smallest number of ids that is asked what it costs: with all required tokens.

        Of a version that is extended see `smallest_size_after`.
        """
        given = self.given
        return self.smallest_size_after(0 if given is None else len(given))

    def smallest_size_after(self, merges: int) -> int:
        """As `smallest_size`, where so many merges are there before any is learned."""
        more = 1 if self.extends else 0  # as many ids as the version has are the version
        return max(SMALLEST_SIZE, self.vocab_size - self.merges + merges + more)

    def of_size(self, vocab_size: int) -> TrainingRequest:
        """The same of a number of ids that is chosen: what makes the same tokenizer again."""
        told = {"vocab_size": vocab_size, "largest_size": None, "model_shape": None}
        return self.model_copy(update=told)

    @property
    def without_token_rules(self) -> TrainingRequest:
        """The same, but that any token may be made."""
        return self.model_copy(update={"forbid": (), "forbidden_tokens": (), "characters": "any"})

    @property
    def without_parity(self) -> TrainingRequest:
        """The same, but that merges serve all text together."""
        return self.model_copy(update=OF_PARITY)

    @property
    def over_bytes(self) -> bool:
        """Whether byte-level BPE is asked for."""
        return self.algorithm == BYTE_BPE

    @property
    def learned_size(self) -> int:
        """How many ids there are without slots."""
        return self.vocab_size - self.reserve

    @property
    def merges(self) -> int:
        """How many merges fill the vocabulary of byte-level BPE.

        Of tokenizers of others and of superwords the new ones; of superwords there may be more, as
        merges of words that no line knows are left out.
        """
        if self.continued_ids or self.transition_size:
            return self.learned_size - (self.continued_ids or self.transition_size)
        return self.learned_size - BYTES - len(self.special_tokens)

    @property
    def merges_shown(self) -> int | None:
        """What learning shows its progress against; None where it has no merges to count."""
        return self.merges if self.over_bytes else None


def _refuse_two_sizes(vocab_size: Any, largest: Any) -> None:
    """A form sends the usual vocab size, too: that one says nothing."""
    if vocab_size not in (largest, USUAL_VOCAB):
        raise InvalidOption(
            f"vocab_size is {vocab_size}, and largest_size {largest}",
            "the number of ids, or the largest of the sizes to choose from",
            "leave one of them out",
        )


def _several(given: str | Iterable[str]) -> tuple[str, ...]:
    """One or more, without repetitions: in a form of Prefect one may be a plain string."""
    return tuple(dict.fromkeys((given,) if isinstance(given, str) else given))


def _reads_like_bytes(token: str) -> bool:
    from bpeline.tokenizer_core.vocabulary import from_printable

    try:
        return from_printable(token) != token.encode()
    except KeyError:
        return False
