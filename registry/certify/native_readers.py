"""Which program reads which export, and what it makes of texts beside what we do.

None of them is needed to export; a program that is not installed checks nothing. Knows what each is
told and what is compared, not what that is compared for; the libraries themselves are used in
`reader_program` alone.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bpeline.registry.certify.asking import ask
from bpeline.registry.certify.smallest_model import letter_model, smallest_model
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import LibraryFailed
from bpeline.tokenizer_core.formats import format_named, gguf, read_metadata, tiktoken
from bpeline.tokenizer_core.splitting import LETTERS_SINCE, newest_unicode
from bpeline.tokenizer_core.tokenizer import Tokenizer

_LETTERS = {"letters": list(LETTERS_SINCE.values())}
Comparison = tuple[str, Any, Any]
"""What is compared, as people read it; ours; theirs."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a program made of an export and of texts, beside ours.

    Attributes:
        library: its distribution's name. version: of that.
        unit: what was compared: texts, words or entries.
        comparisons: everything that both made; ours is computed as it is asked for.
        unicode: the newest version of Unicode that its regex engine knows; empty where it has none
            or does not tell.
    """

    library: str
    version: str
    unit: str
    comparisons: Iterator[Comparison]
    unicode: str = ""


def native_reading(
    tokenizer: Tokenizer,
    format: str,
    path: Path,
    texts: Sequence[str],
    folder: Path | None = None,
) -> Reading:
    """Let the program of a format read an export, and texts by it.

    Args:
        tokenizer: what was exported.
        format: as what.
        path: the file or directory.
        texts: to encode.
        folder: where the program is looked for instead of among what is installed.

    Raises:
        LibraryFailed: there is none, or it does not read the export.
    """
    if format == "bpeline":
        return Reading(
            "bpeline", _installed("bpeline"), "texts", _by_bpeline(tokenizer, path, texts)
        )
    if format not in _READERS:
        raise LibraryFailed("no program reads this format but bpeline")
    for reader in _READERS[format]:
        if _is_here(reader.module, folder):
            sent = reader.sent(tokenizer, texts)
            answer = reader.ask(reader.library, tokenizer, path, sent, folder)
            comparisons = reader.compare(tokenizer, sent, answer)
            unicode = newest_unicode(answer.get("letters", ()))
            return Reading(reader.library, answer["version"], reader.unit, comparisons, unicode)
    where = "installed" if folder is None else f"in {folder}"
    raise LibraryFailed(f"{_READERS[format][0].library} is not {where}")


def _is_here(module: str, folder: Path | None) -> bool:
    if folder is not None:
        return PathFinder.find_spec(module, [str(folder)]) is not None
    return find_spec(module) is not None


@cache
def _installed(library: str) -> str:
    """Its version, looked up once: that reads files of everything installed."""
    try:
        return version(library)
    except PackageNotFoundError:
        return "of unknown version"


def _by_bpeline(tokenizer: Tokenizer, path: Path, texts: Sequence[str]) -> Iterator[Comparison]:
    theirs = Tokenizer.load(path, "bpeline")
    yield "digest", tokenizer.digest, theirs.digest
    yield from zip(texts, tokenizer.encode_batch(texts), theirs.encode_batch(texts), strict=True)


# What a program is told besides the file.


def _nothing(tokenizer: Tokenizer) -> dict[str, Any]:
    return {}


def _of_vocab_and_merges(tokenizer: Tokenizer) -> dict[str, Any]:
    return {
        "pattern": tokenizer.pattern.regex_for_export,
        "ignore_merges": tokenizer.ignore_merges,
        "special_tokens": list(tokenizer.special_tokens),
    }


def _asking(told: Callable[[Tokenizer], dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    def asked(
        library: str, tokenizer: Tokenizer, path: Path, texts: Sequence[str], folder: Path | None
    ) -> dict[str, Any]:
        return ask(library, path, texts, {**told(tokenizer), **_LETTERS}, folder)

    return asked


_asking_nothing_more = _asking(_nothing)


def _asking_llama_cpp(
    library: str, tokenizer: Tokenizer, path: Path, texts: Sequence[str], folder: Path | None
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="bpeline-") as aside:
        model, letters = Path(aside) / "model.gguf", Path(aside) / "letters.gguf"
        DURABLE.write(model, smallest_model(path))
        told: dict[str, Any] = dict(_LETTERS)
        if (joining := letter_model(path)) is not None:
            DURABLE.write(letters, joining)
            told["letter_model"] = str(letters)
        answer = ask(library, model, texts, told, folder)
    return {**answer, "written": read_metadata(path, (gguf.END,))}


# Which texts it is sent.


def _all(tokenizer: Tokenizer, texts: Sequence[str]) -> list[str]:
    return list(texts)


def _none(tokenizer: Tokenizer, texts: Sequence[str]) -> list[str]:
    return []


def _words_known(tokenizer: Tokenizer, texts: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(word for text in _known(tokenizer, texts) for word in text.split()))


def _known(tokenizer: Tokenizer, texts: Sequence[str]) -> list[str]:
    """Texts with a space for each character that a character-level tokenizer does not know."""
    algorithm: Any = tokenizer.algorithm
    if not hasattr(algorithm, "joined"):
        return list(texts)
    tokens = {token.decode() for token in tokenizer.vocab.values()}
    end = algorithm.end_of_word if algorithm.joined else ""
    single = {token for token in tokens if len(token) == 1 and f"{token}{end}" in tokens}
    known = single - {format_named("sentencepiece").SPACE}
    found = ("".join(c if c in known else " " for c in text) for text in texts)
    return list(dict.fromkeys(" ".join(text.split(" ")) for text in found))


# What is compared.


def _both_ways(
    tokenizer: Tokenizer, texts: Sequence[str], answer: Mapping[str, Any]
) -> Iterator[Comparison]:
    """Ids with special tokens as text and, where there are any, as special tokens."""
    plain = tokenizer.encode_batch(texts, threads=1, allowed_special="none")
    yield from zip(texts, plain, answer["plain"], strict=True)
    if tokenizer.special_tokens and "special" in answer:
        special = tokenizer.encode_batch(texts, threads=1, allowed_special="all")
        yield from zip(texts, special, answer["special"], strict=True)


def _by_llama_cpp(
    tokenizer: Tokenizer, texts: Sequence[str], answer: Mapping[str, Any]
) -> Iterator[Comparison]:
    facts = answer["facts"]
    yield "number of tokens", tokenizer.spec.largest_id + 1, facts["number of tokens"]
    if gguf.END in answer["written"]:
        yield "end of a text", answer["written"][gguf.END], facts["end of a text"]
    yield from _both_ways(tokenizer, texts, answer)


def _words(
    tokenizer: Tokenizer, words: Sequence[str], answer: Mapping[str, Any]
) -> Iterator[Comparison]:
    algorithm: Any = tokenizer.algorithm  # character BPE, as whatever this format holds
    end = algorithm.end_of_word

    def ours(word: str) -> list[str]:
        parts = [tokenizer.vocab[id_].decode() for id_ in tokenizer.encode(word)]
        parts[-1:] = [parts[-1].removesuffix(end)] if parts[-1] != end else []
        return [*(f"{part}@@" for part in parts[:-1]), parts[-1]]

    yield from zip(words, map(ours, words), answer["plain"], strict=True)


def _entries(
    tokenizer: Tokenizer, texts: Sequence[str], answer: Mapping[str, Any]
) -> Iterator[Comparison]:
    read, special = answer["facts"], tokenizer.special_tokens.values()
    for key, ours in gguf.metadata(tokenizer).items():
        if key.endswith("_token_id"):  # of which special token, a version may declare
            yield f"{key} is of a special token", True, read.get(key) in special
        elif isinstance(ours, list):
            theirs = read.get(key, [])
            yield f"length of {key}", len(ours), len(theirs)
            for at, (one, other) in enumerate(zip(ours, theirs, strict=False)):
                yield f"{key}[{at}]", one, other
        else:
            yield key, ours, read.get(key)


@dataclass(frozen=True, slots=True)
class _Reader:
    """A program: its distribution, its module, what is compared, and how."""

    library: str
    module: str
    unit: str = "texts"
    ask: Callable[..., dict[str, Any]] = _asking_nothing_more
    sent: Callable[[Tokenizer, Sequence[str]], list[str]] = _all
    compare: Callable[..., Iterator[Comparison]] = _both_ways


# Of a format, the first that is there.
_READERS: dict[str, tuple[_Reader, ...]] = {
    "hf": (_Reader("tokenizers", "tokenizers"),),
    "transformers": (_Reader("transformers", "transformers"),),
    "gpt2": (_Reader("tokenizers", "tokenizers", ask=_asking(_of_vocab_and_merges)),),
    "tiktoken": (_Reader("tiktoken", "tiktoken", ask=_asking(tiktoken.left_out)),),
    "tekken": (_Reader("tiktoken", "tiktoken"),),
    "subword-nmt": (
        _Reader("subword-nmt", "subword_nmt", "words", sent=_words_known, compare=_words),
    ),
    "sentencepiece": (_Reader("sentencepiece", "sentencepiece", sent=_known),),
    # cyllama carries llama.cpp; without it at least the file is read back.
    "gguf": (
        _Reader("cyllama", "cyllama", ask=_asking_llama_cpp, compare=_by_llama_cpp),
        _Reader("gguf", "gguf", "entries", sent=_none, compare=_entries),
    ),
}
