"""What tokenizers must come out as: a small training for each way of learning, by what is public.

Each case is a name and what makes a tokenizer; `record_of` says what is compared. Cases of the
command line are those that no function of Python makes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from contract_texts import ENCODED, LANGUAGES, contract_text

import bpeline
from bpeline.flows.cli.main import cli

IDS = 330
END = "<|end|>"
SENTENCES = '"Stop!"* He left. "Go!"* She stayed. "Stop!"* Dr. Low went, too. ' * 4
PATTERNS = (
    *("gpt2", "cl100k", "o200k", "tekken", "llama3", "qwen2", "qwen3.5", "deepseek-v3", "kimi"),
    *("starcoder", r"\p{L}+|\p{N}|[^\p{L}\p{N}]+"),
)
DROPPING = ("whitespace", "spaces", "wordpunct")  # drop what lies between words
TIES = ("smallest-ids", "greatest-bytes", "first-seen")
Make = Callable[[], bpeline.Tokenizer]


@cache
def counts(pattern: str = "gpt2", *languages: str, **options: Any) -> bpeline.WordCounts:
    """Word counts of some languages, all when none is named."""
    documents = [*contract_text(languages or LANGUAGES).split("\n"), SENTENCES]
    return bpeline.count_texts(documents, pattern, workers=1, **options)


def python_cases() -> Iterator[tuple[str, Make]]:
    """Everything that functions of Python make."""
    train = bpeline.train_bpe
    for pattern in PATTERNS:
        yield f"byte-bpe {pattern}", partial(_byte_bpe, pattern)
    for tie in TIES[1:]:
        yield f"byte-bpe tie {tie}", partial(_byte_bpe, tie_break=tie)
    for characters in ("whole", "left-to-right"):
        yield f"byte-bpe characters {characters}", partial(_byte_bpe, characters=characters)
    options: dict[str, dict[str, Any]] = {
        "min count": {"min_count": 70},
        "min word count": {"min_word_count": 3},
        "short tokens": {"max_token_bytes": 4},
        "required": {"required_tokens": (" lowest", "学习", "zzz")},
        "forbidden": {"forbidden_tokens": (" the", b"er")},
        "forbid": {"forbid": ("digits", "ow")},
        "special first": {"special_tokens": (END, "<|pad|>")},
        "special last": {"special_tokens": (END, "<|pad|>"), "special_ids": "last"},
    }
    for name, given in options.items():
        yield f"byte-bpe {name}", partial(_byte_bpe, **given)
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        yield f"byte-bpe {form}", lambda form=form: train(counts(text_form=form), IDS)
    yield "byte-bpe documents", _of_documents
    yield "parity", partial(_parity, bpeline.ParityRule())
    yield "parity window", partial(_parity, bpeline.ParityRule(window=6, alpha=1.1))
    yield "parity development", partial(_parity, bpeline.ParityRule(), development=True)
    yield "parity global merges", partial(_parity, bpeline.ParityRule(global_merges=20))
    yield "superbpe", partial(_superbpe, "punctuation")
    yield "superbpe digits", partial(_superbpe, "digits")
    for pattern in DROPPING:
        yield f"char-bpe {pattern}", partial(_characters, pattern)
    yield "char-bpe joined", partial(_characters, joined=True, end_of_word="_")
    for tie in TIES[:2]:
        yield f"char-bpe tie {tie}", partial(_characters, tie_break=tie)
    for score in ("ratio", "gain", "likelihood"):
        yield f"wordpiece {score}", partial(_wordpiece, score)
    for sentences in ("punkt", "lines", "none"):
        yield f"frequency-bpe {sentences}", partial(_frequency, sentences)
    whole = partial(_frequency, "punkt", word_sentences="text")
    yield "frequency-bpe words of the whole text", whole
    yield "frequency-bpe without parts", partial(_frequency, "none", parts="none")


def _byte_bpe(pattern: str = "gpt2", **options: Any) -> bpeline.Tokenizer:
    return bpeline.train_bpe(counts(pattern), IDS, **options)


def _of_documents() -> bpeline.Tokenizer:
    documents = contract_text().split("\n")
    return bpeline.train_from_iterator(documents, IDS, special_tokens=[END], workers=1)


def _parity(rule: bpeline.ParityRule, development: bool = False) -> bpeline.Tokenizer:
    languages = {one: counts("gpt2", one) for one in ("english", "russian", "hindi")}
    texts = {one: contract_text((one,), 60, seed=2) for one in languages}
    served = {one: bpeline.count_texts([texts[one]], workers=1) for one in languages}
    return bpeline.train_parity_bpe(
        languages, IDS, rule, development=served if development else None
    )


def _superbpe(cuts: Any) -> bpeline.Tokenizer:
    words = bpeline.train_bpe(counts(), IDS)
    lines = counts(bpeline.superword_lines(cuts))
    return bpeline.train_superbpe(words, lines, IDS + 30, transition_size=IDS)


def _characters(pattern: str = "whitespace", **options: Any) -> bpeline.Tokenizer:
    return bpeline.train_char_bpe(counts(pattern), 60, **options)


def _wordpiece(score: Any) -> bpeline.Tokenizer:
    words = counts("whitespace", "english", "german")
    return bpeline.train_wordpiece(words, 150, score=score, special_tokens=["[CLS]", "[SEP]"])


def _frequency(sentences: Any, **options: Any) -> bpeline.Tokenizer:
    within = "none" if "word_sentences" in options else sentences
    words = counts("wordpunct", sentences=within)
    return bpeline.train_frequency_bpe(words, 60, sentences=sentences, **options)


COMMANDS: dict[str, tuple[str, ...]] = {
    "plain": ("train text.txt --name plain --vocab-size 330 --held-out 0",),
    "held out": ("train text.txt --name held --vocab-size 320 --held-out 0.2",),
    "weights": (
        "train --source a:weight=2=one.txt --source b:weight=0.5=two.txt --name weighted "
        "--vocab-size 320 --held-out 0 --temperature 2",
    ),
    "deduplicated": ("train text.txt one.txt text.txt --name once --vocab-size 320 --deduplicate",),
    "reserved": ("train one.txt --name slots --vocab-size 320 --reserve 3 --round-to 16",),
    "renamed": ("derive rename slots/1 <|reserved_0|>=<|tool|>",),
    "extended": ("derive extend plain/1 --vocab-size 350",),
    "superwords": ("derive superwords plain/1 --vocab-size 350 --name super",),
    "parity": (
        "train --source a=one.txt --source b=two.txt --name parity --vocab-size 320 --held-out 0.2 "
        "--parity window",
    ),
    "greedy": ("train one.txt --name greedy --algorithm char-bpe --merges 40 --encoding greedy",),
    "greedy as trained": (
        "train one.txt --name known --algorithm char-bpe --merges 40 --encoding greedy-trained",
    ),
}
"""What is typed, in this order, in one folder; what each registers is a case."""


def command_cases(folder: Path) -> Iterator[tuple[str, Make]]:
    """Everything that commands alone make; the folder is the current one, and empty."""
    (folder / "text.txt").write_text(contract_text(), "utf-8")
    (folder / "one.txt").write_text(contract_text(("english", "code"), 400), "utf-8")
    (folder / "two.txt").write_text(contract_text(("russian", "hindi"), 400), "utf-8")
    for name, typed in COMMANDS.items():
        yield f"command {name}", partial(_typed, typed)


def _typed(commands: tuple[str, ...]) -> bpeline.Tokenizer:
    for typed in commands:
        ended = CliRunner().invoke(cli, [*typed.split(" "), "--json"])
        assert ended.exit_code == 0, ended.output
    made = json.loads(ended.stdout)
    return bpeline.load_tokenizer(made["digest"])


def record_of(tokenizer: bpeline.Tokenizer) -> dict[str, Any]:
    """What must stay: the digest, the number of ids, merges and ids; of long lists the SHA-256."""
    merges = [f"{left.hex()} {right.hex()}" for left, right in tokenizer.merges]
    ids = [list(map(int, tokenizer.encode(text))) for text in ENCODED]
    return {
        "digest": tokenizer.digest,
        "vocab_size": tokenizer.vocab_size,
        "merges": len(merges),
        "first_merges": [
            b" + ".join(pair).decode(errors="replace") for pair in list(tokenizer.merges)[:12]
        ],
        "merges_sha256": _sha256(merges),
        "vocab_sha256": _sha256(sorted((id_, one.hex()) for id_, one in tokenizer.vocab.items())),
        "ids_sha256": _sha256(ids),
        "tokens": list(map(len, ids)),
    }


def _sha256(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
