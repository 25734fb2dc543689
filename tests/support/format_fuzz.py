"""Ids of vocabularies that went from one tool to another, compared on texts made to break them.

Run as a program it compares any number of texts:

    PYTHONPATH=. python tests/support/format_fuzz.py --seed 1 --texts 1000000
"""

from __future__ import annotations

import argparse
import base64
import random
import sys
import tempfile
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import regex
import tiktoken
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.formats import tiktoken as tiktoken_format
from bpeline.tokenizer_core.splitting.pretokenization import pre_tokens
from bpeline.tokenizer_core.splitting.regex_spellings import NAMED_PATTERNS
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.training.bpe import train_bpe

SPECIALS = ("<|endoftext|>", "<|a|>", "<|a|><|b|>", "<fim middle>", "。<é>")
# Where one special token begins with another, tiktoken takes either, as its hash table has it.
WITHOUT_PREFIXES = tuple(token for token in SPECIALS if token != "<|a|>")
OWN_REGEXES = (r"\w+|[^\w\s]+|\s+(?!\S)|\s+", r"\p{Lu}?\p{Ll}+|\d{1,3}+|[^\s\p{L}\d]++")
TEXTS_AT_ONCE = 2_000


@cache
def assigned() -> list[str]:
    """Characters of the same class in the Unicode of Python and in that of `regex`.

    What is newer, or was put elsewhere since (U+0295 is no lower case any more), has another
    class in each engine.
    """
    by_class: dict[str, list[str]] = {}
    for character in map(chr, range(0x110000)):
        by_class.setdefault(unicodedata.category(character), []).append(character)
    for unknown in ("Cn", "Cs", "Co"):
        del by_class[unknown]
    return [
        character
        for name, characters in by_class.items()
        for character in regex.findall(rf"\p{{{name}}}", "".join(characters))
    ]


COMMON = (
    *"aAbzZsStTeExyz019 \n\t\r.,'-_!?\"#/([{<|>}&~^$\\", *("  ", "   ", "\n\n", "\r\n", " \n"),
    *("\u00a0", "\u3000", "\u2028", "\x85", "\x1c", "\x0b", "\u200b", "\u1680", "\u180e"),
    *("'s", "'T", "'ll", "'LL", "'re", "'d", "’s", "'ſ", "n't", " '", "''", "'S't", "'K", "İ's"),
    *("the", " the", "ing", " of", "tion", "low", "newest", " über", "naïve", "ſ", "İ", "K", "ß"),
    *("12", "345", "6789", "٣٤", "²", "Ⅷ", "①", "१२", "1.5", "10,000", "½"),
    *("e\u0301", "\u0301", "\u200d", "\ufe0f", "\ufeff", "\x00", "\x7f", "\u0483", "ǅ", "ʰ", "ª"),
    *("привет", " мир", "Ёж", "中文", "漢字", "龥", "かな", "カ・ナ", "ー", "゛", "한국"),
    *("नमस्ते", "สวัสดี", "سلام", "שלום", "👍🏽", "👩\u200d👧", "🇺🇳", "𝒳", "🀄"),
    *("http://", "x_1", "->", "==", "//", "..."),
    *("<|", "|>", "<|a", "endoftext", "<|a|", "><|b|>", *SPECIALS, *SPECIALS),
)  # fmt: skip


@lru_cache(8)
def texts_of(seed: int, block: int) -> tuple[str, ...]:
    """`TEXTS_AT_ONCE` texts, the same for the same seed and block."""
    random_ = random.Random(f"{seed}:{block}")
    return tuple(_text(random_) for _ in range(TEXTS_AT_ONCE))


def _text(random_: random.Random) -> str:
    kind = random_.random()
    if kind < 0.60:
        return "".join(random_.choices(COMMON, k=random_.randint(0, 14)))
    if kind < 0.75:  # few kinds of pieces, so that unlikely neighbours meet often
        pool = random_.sample(COMMON, random_.randint(2, 5))
        return "".join(random_.choices(pool, k=random_.randint(2, 20)))
    if kind < 0.90:
        pool = random_.choices(assigned(), k=6) + random_.choices(COMMON, k=4)
        return "".join(random_.choices(pool, k=random_.randint(1, 16)))
    if kind < 0.97:  # runs around the sizes at which code paths change
        run = random_.choice(COMMON) * random_.choice((7, 15, 16, 17, 63, 64, 65, 99, 100, 101))
        return run + random_.choice(COMMON) + run[: random_.randint(0, len(run))]
    return "".join(random_.choices(COMMON, k=random_.randint(100, 300)))


@dataclass(frozen=True)
class Case:
    """Two tokenizers that are to give the same ids.

    Attributes:
        name: the way a vocabulary went, and the split pattern.
        ours: this project's tokenizer.
        with_specials, without_specials: the other tool's ids of a batch of texts.
    """

    name: str
    ours: Tokenizer
    with_specials: Callable[[list[str]], Iterable[list[int]]]
    without_specials: Callable[[list[str]], Iterable[list[int]]]


def compare(case: Case, seed: int, block: int) -> int:
    """Compare the ids of one block of texts; how many texts there were.

    Raises:
        AssertionError: with one line that does it again.
    """
    texts = list(texts_of(seed, block))
    for policy, theirs in (("all", case.with_specials), ("none", case.without_specials)):
        ours = case.ours.encode_batch(texts, None, policy)  # type: ignore[arg-type]
        for text, ids, expected in zip(texts, ours, theirs(texts), strict=True):
            assert ids == expected, (
                f"REPRO: PYTHONPATH=. python tests/support/format_fuzz.py --case '{case.name}' "
                f"--seed {seed} --block {block}  # special tokens: {policy}, text: {text!r}, "
                f"here {ids}, there {expected}"
            )
    return len(texts)


def case_names() -> list[str]:
    named = [f"{way} {pattern}" for way in WAYS for pattern in NAMED_PATTERNS]
    return named + [f"{way} own-{n}" for way in OUR_WAYS for n in range(len(OWN_REGEXES))]


def make_case(name: str, directory: Path) -> Case:
    way, pattern = name.split(" ")
    if pattern.startswith("own-"):
        pattern = OWN_REGEXES[int(pattern.removeprefix("own-"))]
    ours, *others = WAYS[way](SplitPattern.parse(pattern), directory)
    return Case(name, ours, *others)


# Vocabularies


@cache
def _training_text() -> str:
    random_ = random.Random(14)
    pieces = [piece for piece in COMMON if not any(special in piece for special in SPECIALS)]
    pieces += [" ", "the", "ing", " of", "    "] * 8
    return "".join(random_.choices(pieces, k=60_000))


@cache
def _trained_here(pattern: SplitPattern, specials: tuple[str, ...] = SPECIALS) -> Tokenizer:
    counts = Counter(piece.encode() for piece in pre_tokens(_training_text(), pattern))
    words = WordCounts.from_mapping(counts, pattern)
    return train_bpe(words, 1_400, special_tokens=specials)


def _trained_by_huggingface(pattern: SplitPattern, specials: Iterable[str] = ()) -> Any:
    peer = tokenizers.Tokenizer.from_str(_as_trained_by_huggingface(pattern))
    peer.add_special_tokens(list(specials))
    return peer


@cache
def _as_trained_by_huggingface(pattern: SplitPattern) -> str:
    """Its tokenizer.json: whoever adds special tokens to it changes one of his own."""
    peer = tokenizers.Tokenizer(models.BPE())
    peer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(pattern.regex_for_export), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    peer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1_400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    peer.train_from_iterator([_training_text()], trainer)
    return str(peer.to_str())


# Ways from one tool to the other


def _by_huggingface(peer: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def ids(texts: list[str], specials_as_text: bool) -> Iterator[list[int]]:
        peer.encode_special_tokens = specials_as_text
        return (encoding.ids for encoding in peer.encode_batch(texts))

    return lambda texts: ids(texts, False), lambda texts: ids(texts, True)


def _by_tiktoken(peer: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    return (
        lambda texts: peer.encode_batch(texts, allowed_special="all", num_threads=2),
        lambda texts: peer.encode_ordinary_batch(texts, num_threads=2),
    )


def _ours_to_huggingface(pattern: SplitPattern, directory: Path) -> tuple[Any, ...]:
    ours = _trained_here(pattern)
    ours.save(directory / "tokenizer.json", "hf")
    peer = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    return ours, *_by_huggingface(peer)


def _ours_without_some_merges(pattern: SplitPattern, directory: Path) -> tuple[Any, ...]:
    full = _trained_here(pattern)
    random_ = random.Random(5)
    parts = {part for merge in full.merges for part in merge}
    kept = [pair for pair in full.merges if b"".join(pair) in parts or random_.random() < 0.5]
    ours = Tokenizer(full.vocab, kept, full.special_tokens, pattern, ignore_merges=True)
    ours.save(directory / "tokenizer.json", "hf")
    peer = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    return Tokenizer.load(directory / "tokenizer.json"), *_by_huggingface(peer)


def _ranks_in(path: Path) -> dict[bytes, int]:
    lines = map(bytes.split, path.read_bytes().splitlines())
    return {base64.b64decode(token): int(rank) for token, rank in lines}


def _ours_to_tiktoken(pattern: SplitPattern, directory: Path) -> tuple[Any, ...]:
    ours = _trained_here(pattern, WITHOUT_PREFIXES)
    ours.save(directory / "ours.tiktoken", "tiktoken")
    arguments = tiktoken_format.left_out(ours)
    ranks = _ranks_in(directory / "ours.tiktoken")
    peer = tiktoken.Encoding("ours", mergeable_ranks=ranks, **arguments)
    return ours, *_by_tiktoken(peer)


def _from_tokenizer_json(pattern: SplitPattern, directory: Path) -> tuple[Any, ...]:
    peer = _trained_by_huggingface(pattern, SPECIALS)
    peer.save(str(directory / "tokenizer.json"))
    return Tokenizer.load(directory / "tokenizer.json"), *_by_huggingface(peer)


def _from_vocab_and_merges(pattern: SplitPattern, directory: Path) -> tuple[Any, ...]:
    peer = _trained_by_huggingface(pattern)
    peer.model.save(str(directory))
    ours = Tokenizer.load(directory, pattern=pattern, special_tokens=())
    return ours, *_by_huggingface(peer)


def _from_tiktoken(pattern: SplitPattern, directory: Path) -> tuple[Any, ...]:
    peer = _trained_by_huggingface(pattern)
    peer.save(str(directory / "tokenizer.json"))
    vocab = Tokenizer.load(directory / "tokenizer.json").vocab
    lines = [b"%s %d\n" % (base64.b64encode(vocab[id_]), id_) for id_ in sorted(vocab)]
    (directory / "theirs.tiktoken").write_bytes(b"".join(lines))
    specials = {token: len(vocab) + 7 + n for n, token in enumerate(WITHOUT_PREFIXES)}
    other = tiktoken.Encoding(
        "theirs",
        pat_str=pattern.regex_for_tiktoken,
        mergeable_ranks=_ranks_in(directory / "theirs.tiktoken"),
        special_tokens=specials,
    )
    ours = Tokenizer.load(directory / "theirs.tiktoken", pattern=pattern, special_tokens=specials)
    return ours, *_by_tiktoken(other)


OUR_WAYS = {
    "ours-to-huggingface": _ours_to_huggingface,
    "ours-with-ignore-merges": _ours_without_some_merges,
    "ours-to-tiktoken": _ours_to_tiktoken,
}
WAYS = OUR_WAYS | {
    "from-tokenizer-json": _from_tokenizer_json,
    "from-vocab-and-merges": _from_vocab_and_merges,
    "from-tiktoken": _from_tiktoken,
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--texts", type=int, default=100_000, help="in all cases together")
    options.add_argument("--case", choices=case_names(), help="only this one")
    options.add_argument("--block", type=int, help="only this block of texts")
    given = options.parse_args()
    names = [given.case] if given.case else case_names()
    blocks = -(-given.texts // (TEXTS_AT_ONCE * len(names)))
    begin, compared = time.perf_counter(), 0
    for number, name in enumerate(names):
        with tempfile.TemporaryDirectory() as directory:
            case = make_case(name, Path(directory))
        # Every case has texts of its own.
        first = case_names().index(name) * 1_000_000
        chosen = range(first, first + blocks) if given.block is None else [given.block]
        compared += sum(compare(case, given.seed, block) for block in chosen)
        spent = time.perf_counter() - begin
        sys.stdout.write(f"{number + 1}/{len(names)} {name}: {compared:,} texts, {spent:.0f} s\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
