"""Which library reads which export format, and how its results compare with ours.

Exporting needs none of them. The libraries run in `reader_program`; without one, an export is not
checked.
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
"""What is compared (a text or a label), our value, the library's value."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The result of reading an export with a library.

    Attributes:
        unit: of the comparisons: texts, words or entries.
        comparisons: our values are computed lazily.
        unicode: newest Unicode version of its regex engine; empty if unknown.
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
) -> ReadOptions:
    """Read an export, and encode texts, with the library of its format.

    Args:
        folder: where the library is looked for instead of the installed packages.

    Raises:
        LibraryFailed: the library is missing or cannot read the export.
    """
    if format == "bpeline":
        return ReadOptions(
            "bpeline", _installed("bpeline"), "texts", _by_bpeline(tokenizer, path, texts)
        )
    if format not in _READERS:
        raise LibraryFailed("no other program reads this format")
    for reader in _READERS[format]:
        if _is_here(reader.module, folder):
            sent = reader.sent(tokenizer, texts)
            answer = reader.ask(reader.library, tokenizer, path, sent, folder)
            comparisons = reader.compare(tokenizer, sent, answer)
            unicode = newest_unicode(answer.get("letters", ()))
            return ReadOptions(reader.library, answer["version"], reader.unit, comparisons, unicode)
    where = "installed" if folder is None else f"in {folder}"
    raise LibraryFailed(f"{_READERS[format][0].library} is not {where}")


def _is_here(module: str, folder: Path | None) -> bool:
    if folder is not None:
        return PathFinder.find_spec(module, [str(folder)]) is not None
    return find_spec(module) is not None


@cache
def _installed(library: str) -> str:
    """The installed version; cached, because the lookup reads many files."""
    try:
        return version(library)
    except PackageNotFoundError:
        return "of unknown version"


def _by_bpeline(tokenizer: Tokenizer, path: Path, texts: Sequence[str]) -> Iterator[Comparison]:
    theirs = Tokenizer.load(path, "bpeline")
    yield "digest", tokenizer.digest, theirs.digest
    yield from zip(texts, tokenizer.encode_batch(texts), theirs.encode_batch(texts), strict=True)


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
        settings: dict[str, Any] = dict(_LETTERS)
        if (joining := letter_model(path)) is not None:
            DURABLE.write(letters, joining)
            settings["letter_model"] = str(letters)
        answer = ask(library, model, texts, settings, folder)
    return {**answer, "written": read_metadata(path, (gguf.END,))}


def _all(tokenizer: Tokenizer, texts: Sequence[str]) -> list[str]:
    return list(texts)


def _none(tokenizer: Tokenizer, texts: Sequence[str]) -> list[str]:
    return []


def _words_known(tokenizer: Tokenizer, texts: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(word for text in _known(tokenizer, texts) for word in text.split()))


def _known(tokenizer: Tokenizer, texts: Sequence[str]) -> list[str]:
    """Replace characters unknown to a character-level tokenizer with spaces."""
    algorithm: Any = tokenizer.algorithm
    if not hasattr(algorithm, "joined"):
        return list(texts)
    tokens = {token.decode() for token in tokenizer.vocab.values()}
    end = algorithm.end_of_word if algorithm.joined else ""
    single = {token for token in tokens if len(token) == 1 and f"{token}{end}" in tokens}
    characters = single - {format_named("sentencepiece").SPACE}
    replaced = ("".join(c if c in characters else " " for c in text) for text in texts)
    return list(dict.fromkeys(" ".join(text.split(" ")) for text in replaced))


def _both_ways(
    tokenizer: Tokenizer, texts: Sequence[str], answer: Mapping[str, Any]
) -> Iterator[Comparison]:
    """Compare ids with special tokens as text and, if there are any, as ids."""
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
    algorithm: Any = tokenizer.algorithm  # always character BPE in this format
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
        if key.endswith("_token_id"):  # a version may declare another one
            yield f"{key} is of a special token", True, read.get(key) in special
        elif isinstance(ours, list):
            theirs = read.get(key, [])
            yield f"length of {key}", len(ours), len(theirs)
            for at, (our_item, their_item) in enumerate(zip(ours, theirs, strict=False)):
                yield f"{key}[{at}]", our_item, their_item
        else:
            yield key, ours, read.get(key)


@dataclass(frozen=True, slots=True)
class _Reader:
    library: str
    module: str
    unit: str = "texts"
    ask: Callable[..., dict[str, Any]] = _asking_nothing_more
    sent: Callable[[Tokenizer, Sequence[str]], list[str]] = _all
    compare: Callable[..., Iterator[Comparison]] = _both_ways


# The first installed library of a format is used.
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
    # cyllama contains llama.cpp; without it, `gguf` only reads the file back.
    "gguf": (
        _Reader("cyllama", "cyllama", ask=_asking_llama_cpp, compare=_by_llama_cpp),
        _Reader("gguf", "gguf", "entries", sent=_none, compare=_entries),
    ),
}
