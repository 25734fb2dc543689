"""Exports read by the programs they are made for: the only file that knows their libraries.

None of them is needed to export; a program that is not installed checks nothing. Knows what each
makes of a file and of texts, not what that is compared for.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bpeline.registry.exports.llama_cpp import ask_llama_cpp
from bpeline.tokenizer_core.errors import LibraryFailed
from bpeline.tokenizer_core.formats import format_named, gguf, tiktoken
from bpeline.tokenizer_core.optional_libraries import fenced
from bpeline.tokenizer_core.tokenizer import Tokenizer

Comparison = tuple[str, Any, Any]
"""What is compared, as people read it; ours; theirs."""
Compare = Callable[[Sequence[str]], Iterator[Comparison]]


@dataclass(frozen=True, slots=True)
class NativeReader:
    """A program that has read an export.

    Attributes:
        library: its distribution's name. version: of that.
        unit: what is compared: texts or entries.
        compare: of texts, everything that two programs make of them.
    """

    library: str
    version: str
    unit: str
    compare: Compare


def native_reader(tokenizer: Tokenizer, format: str, path: Path) -> NativeReader:
    """Let the program of a format read an export.

    Raises:
        LibraryFailed: there is none, or it does not read it; `NativeReader.compare` raises it, too.
    """
    if format not in _READERS:
        raise LibraryFailed("no program reads this format but bpeline")
    for library, module, unit, read in _READERS[format]:
        if find_spec(module) is None:
            continue
        known = f"{library} {_installed(library)}"
        with fenced(known, "reading the export"):
            compare = read(tokenizer, path)
        return NativeReader(library, _installed(library), unit, _fenced(compare, known))
    raise LibraryFailed(f"{_READERS[format][0][0]} is not installed")


def _fenced(compare: Compare, library: str) -> Compare:
    def compared(texts: Sequence[str]) -> Iterator[Comparison]:
        with fenced(library, "encoding the texts to compare"):
            yield from compare(texts)

    return compared


@cache
def _installed(library: str) -> str:
    """Its version, looked up once: that reads files of everything installed."""
    try:
        return version(library)
    except PackageNotFoundError:
        return "of unknown version"


def _tokenizers(tokenizer: Tokenizer, path: Path) -> Any:
    import tokenizers

    return _by_tokenizers(tokenizer, tokenizers.Tokenizer.from_file(str(path)))


def _gpt2(tokenizer: Tokenizer, path: Path) -> Any:
    import tokenizers
    from tokenizers import models, pre_tokenizers

    model = models.BPE.from_file(str(path / "vocab.json"), str(path / "merges.txt"))
    model.ignore_merges = tokenizer.ignore_merges
    theirs = tokenizers.Tokenizer(model)
    split = tokenizers.Regex(tokenizer.pattern.regex_for_export)
    theirs.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(split, "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])  # fmt: skip
    theirs.add_special_tokens(list(tokenizer.special_tokens))
    return _by_tokenizers(tokenizer, theirs)


def _by_tokenizers(tokenizer: Tokenizer, theirs: Any) -> Any:
    # What a file says of lengths is carried along, and applied where somebody asks for it.
    theirs.no_truncation()
    theirs.no_padding()

    def encode(texts: Sequence[str], specials: bool) -> Iterator[list[int]]:
        theirs.encode_special_tokens = not specials
        for encoding in theirs.encode_batch(list(texts), add_special_tokens=False):
            yield encoding.ids

    return _both_ways(tokenizer, encode)


def _transformers(tokenizer: Tokenizer, path: Path) -> Any:
    # Its remarks on what it finds missing (PyTorch) are not for those who export a tokenizer.
    with contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from transformers import AutoTokenizer

        theirs = AutoTokenizer.from_pretrained(str(path), local_files_only=True)

    def encode(texts: Sequence[str], specials: bool) -> Iterator[list[int]]:
        options = {"add_special_tokens": False, "split_special_tokens": not specials}
        yield from theirs(list(texts), **options)["input_ids"]

    return _both_ways(tokenizer, encode)


def _tiktoken(tokenizer: Tokenizer, path: Path) -> Any:
    import base64

    from tiktoken import Encoding

    # As tiktoken.load.load_tiktoken_bpe reads a local file, which imports a client for remote ones.
    lines = (line.split() for line in path.read_bytes().splitlines() if line)
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    theirs = Encoding("exported", mergeable_ranks=ranks, **tiktoken.left_out(tokenizer))

    def encode(texts: Sequence[str], specials: bool) -> Iterator[list[int]]:
        for text in texts:
            yield (
                theirs.encode(text, allowed_special="all")
                if specials
                else theirs.encode_ordinary(text)
            )

    return _both_ways(tokenizer, encode)


def _both_ways(
    tokenizer: Tokenizer, encode: Callable[[Sequence[str], bool], Iterator[list[int]]]
) -> Callable[[Sequence[str]], Iterator[Comparison]]:
    """Ids with special tokens as text and, where there are any, as special tokens."""

    def compare(texts: Sequence[str]) -> Iterator[Comparison]:
        for specials in (False, True) if tokenizer.special_tokens else (False,):
            allowed: Any = "all" if specials else "none"
            ours = tokenizer.encode_batch(texts, threads=1, allowed_special=allowed)
            yield from zip(texts, ours, encode(texts, specials), strict=True)

    return compare


def _subword_nmt(tokenizer: Tokenizer, path: Path) -> Any:
    from subword_nmt.apply_bpe import BPE

    with path.open(encoding="utf-8") as codes, contextlib.redirect_stderr(io.StringIO()):
        theirs = BPE(codes)
    known = _known_characters(tokenizer)
    algorithm: Any = tokenizer.algorithm  # character BPE, as whatever this format holds
    end = algorithm.end_of_word

    def ours(word: str) -> list[str]:
        parts = [tokenizer.vocab[id_].decode() for id_ in tokenizer.encode(word)]
        parts[-1:] = [parts[-1].removesuffix(end)] if parts[-1] != end else []
        return [*(f"{part}@@" for part in parts[:-1]), parts[-1]]

    def compare(texts: Sequence[str]) -> Iterator[Comparison]:
        words = dict.fromkeys(word for text in _in_known(texts, known) for word in text.split())
        for word in words:
            yield word, ours(word), theirs.segment(word).split()

    return compare


def _sentencepiece(tokenizer: Tokenizer, path: Path) -> Any:
    from sentencepiece import SentencePieceProcessor

    theirs = SentencePieceProcessor(model_file=str(path))
    known = _known_characters(tokenizer)

    def compare(texts: Sequence[str]) -> Iterator[Comparison]:
        for text in _in_known(texts, known):
            yield text, tokenizer.encode(text), theirs.encode(text)

    return compare


def _known_characters(tokenizer: Tokenizer) -> set[str]:
    """Those that are never unknown, in a word and at its end."""
    algorithm: Any = tokenizer.algorithm
    tokens = {token.decode() for token in tokenizer.vocab.values()}
    end = algorithm.end_of_word if algorithm.joined else ""
    single = {token for token in tokens if len(token) == 1 and f"{token}{end}" in tokens}
    return single - {format_named("sentencepiece").SPACE}


def _in_known(texts: Sequence[str], known: set[str]) -> list[str]:
    """The texts with a space for each character that a tokenizer does not know."""
    found = ("".join(c if c in known else " " for c in text) for text in texts)
    return list(dict.fromkeys(" ".join(text.split(" ")) for text in found))


def _llama_cpp(tokenizer: Tokenizer, path: Path) -> Any:
    def compare(texts: Sequence[str]) -> Iterator[Comparison]:
        tokens = max(tokenizer.vocab) + 1
        read = ask_llama_cpp(path, tokens, texts)
        yield "number of tokens", tokens, read["tokens"]
        end = gguf.metadata(tokenizer).get(gguf.END)
        if end is not None:
            yield "end of a text", end, read["end"]
        ids = read["ids"]

        def encode(texts: Sequence[str], specials: bool) -> Iterator[list[int]]:
            return (both[specials] for both in ids)

        yield from _both_ways(tokenizer, encode)(texts)

    return compare


def _gguf(tokenizer: Tokenizer, path: Path) -> Any:
    from gguf import GGUFReader

    read = {key: field.contents() for key, field in GGUFReader(str(path)).fields.items()}

    def compare(texts: Sequence[str]) -> Iterator[Comparison]:
        for key, ours in gguf.metadata(tokenizer).items():
            if isinstance(ours, list):
                theirs = read.get(key, [])
                yield f"length of {key}", len(ours), len(theirs)
                for at, (one, other) in enumerate(zip(ours, theirs, strict=False)):
                    yield f"{key}[{at}]", one, other
            else:
                yield key, ours, read.get(key)

    return compare


def _bpeline(tokenizer: Tokenizer, path: Path) -> Any:
    theirs = Tokenizer.load(path, "bpeline")

    def compare(texts: Sequence[str]) -> Iterator[Comparison]:
        yield "digest", tokenizer.digest, theirs.digest
        yield from zip(
            texts, tokenizer.encode_batch(texts), theirs.encode_batch(texts), strict=True
        )

    return compare


_Reader = tuple[str, str, str, Callable[[Tokenizer, Path], Any]]
# Format → distribution, module, what is compared, how it is read; the first that is installed.
_READERS: dict[str, tuple[_Reader, ...]] = {
    "bpeline": (("bpeline", "bpeline", "texts", _bpeline),),
    "hf": (("tokenizers", "tokenizers", "texts", _tokenizers),),
    "transformers": (("transformers", "transformers", "texts", _transformers),),
    "gpt2": (("tokenizers", "tokenizers", "texts", _gpt2),),
    "tiktoken": (("tiktoken", "tiktoken", "texts", _tiktoken),),
    "subword-nmt": (("subword-nmt", "subword_nmt", "words", _subword_nmt),),
    "sentencepiece": (("sentencepiece", "sentencepiece", "texts", _sentencepiece),),
    # cyllama carries llama.cpp; without it at least the file is read back.
    "gguf": (
        ("cyllama", "cyllama", "texts", _llama_cpp),
        ("gguf", "gguf", "entries", _gguf),
    ),
}
