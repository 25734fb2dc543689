"""Compares all tokenizer files in a folder with their own libraries.

Refused files are no failure; files that are loaded and read differently are.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.corpora import documents
from benchmarks.results import machine
from benchmarks.tables import table_of
from bpeline.tokenizer_core.errors import BpelineError

if TYPE_CHECKING:
    from bpeline import Tokenizer

HEADINGS = ("file", "encoded by", "outcome", "texts", "split pattern, or why")
_ENDINGS = (".json", ".tiktoken", ".model", ".gguf")
_NOT_TOKENIZERS = ("tokenizer_config.json", "special_tokens_map.json", "config.json", "vocab.json")
_LIBRARIES = ("tokenizers", "tiktoken", "sentencepiece")
_REASON = 300  # characters
_DOCUMENTS, _MADE, _ADDED = 300, 1_500, 60  # texts of each kind
# Texts that libraries may read differently, joined at random.
_PIECES = (
    *(" ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", " \n", "\u00a0", "\u2028", "\u3000", "\u200b"),
    *("a", "the", "The", " the", "HELLO", "don't", "DON'T", "I'll", "it’s", "naïve", "e\u0301"),
    *("1", "12", "1234", "٣", "½", "²", "Ⅷ", "一二三", "3.14", "1,000"),
    *("!", "...", "?!", "/", "//", "--", "_", "(", "<", ">", "|", "<|", "|>", "'", '"', "##", "▁"),
    *("ß", "ſ", "K", "İ", "ı", "ﬁ", "Ω", "Ä", "é", "ñ", "한국어", "각", "日本語", "龥", "ไทย"),
    *("हिन्दी", "עברית", "العربية", "👍🏽", "👨‍👩‍👧", "🇩🇪"),
    *(
        "\ufeff",
        "\ufffd",
        "\x00",
        "\x7f",
        "\x85",
        "Ġ",
        "Ċ",
        "Â",
        "\u0300",
        "\u1100",
        "\U0001f600",
        "\U000e0041",
        "𝕳",
        "Ａ",
        "…",
        "``",
        "¿",
    ),
)


@dataclass(frozen=True, slots=True)
class Original:
    """The library that a file was made for, with the file loaded.

    Attributes:
        encode: text to ids with added tokens, without a template; None if the library never matches
            added tokens in text, like SentencePiece.
        added: contents of the added tokens.
        around: text to ids with the template; None if there is none.
        ignoring: text to ids with special tokens as ordinary text; None if unsupported.
    """

    encode: Callable[[str], Sequence[int]] | None
    decode: Callable[[list[int]], str]
    added: Sequence[str]
    around: Callable[[str], Sequence[int]] | None = None
    ignoring: Callable[[str], Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a file: ``equal``, ``WRONG``, ``refused`` or ``not compared``."""

    file: str
    algorithm: str
    outcome: str
    texts: int
    why: str

    def row(self) -> tuple[str, ...]:
        return self.file, self.algorithm, self.outcome, str(self.texts or ""), self.why


def measure(folder: Path, texts: Sequence[Path] = (), output: Path | None = None) -> int:
    """Print the table of a folder; returns the number of files that are read wrongly.

    ``texts`` are files with more documents to encode; results are stored in ``output``.
    """
    outcomes = [outcome_of(path, folder, texts) for path in tokenizers_below(folder)]
    print("\n".join(table_of(HEADINGS, [outcome.row() for outcome in outcomes]).lines()))
    if output is not None:
        results = {
            "date": datetime.now(UTC).date().isoformat(),
            "versions": machine(_LIBRARIES)["versions"],
            "files": [asdict(outcome) for outcome in outcomes],
        }
        (output / "zoo.json").write_text(json.dumps(results, ensure_ascii=False, indent=1) + "\n")
    kinds = [outcome.outcome for outcome in outcomes]
    print("; ".join(f"{kind}: {kinds.count(kind)}" for kind in sorted(set(kinds))))
    return kinds.count("WRONG")


def tokenizers_below(folder: Path) -> Iterator[Path]:
    """Files that may be tokenizers, and directories with vocab.json and merges.txt."""
    for path in sorted(folder.rglob("*")):
        named = path.suffix in _ENDINGS and path.name not in _NOT_TOKENIZERS
        pair = path.name == "vocab.json" and (path.parent / "merges.txt").exists()
        if pair:
            yield path.parent
        elif named or path.name == "vocab.txt":
            yield path


def outcome_of(path: Path, folder: Path, texts: Sequence[Path] = ()) -> Outcome:
    """Load a file and compare it with its library, if that is installed."""
    from bpeline import Tokenizer

    name = str(path.relative_to(folder))
    try:
        ours = Tokenizer.load(path)
    except BpelineError as refusal:
        reason = refusal.happened.removeprefix(str(path)).removeprefix(" cannot be read:").strip()
        reason = reason.partition(": ")[0]
        return Outcome(name, "–", "refused", 0, reason[:_REASON])
    pattern, algorithm = ours.pattern.title, ours.algorithm.name
    original = original_of(path)
    if original is None:
        return Outcome(name, algorithm, "not compared", 0, pattern)
    compared = 0
    for text in _texts(original.added, texts):
        if wrong := _difference(ours, original, text):
            return Outcome(name, algorithm, "WRONG", compared, wrong)
        compared += 1
    return Outcome(name, algorithm, "equal", compared, pattern[:_REASON])


def _difference(ours: Tokenizer, original: Original, text: str) -> str:
    ids = ours.encode(text, "none" if original.encode is None else "all")
    ways = [] if original.encode is None else [("ids", ids, original.encode(text))]
    if original.around is not None:
        around = ours.encode(text, add_special_tokens=True)
        ways.append(("ids with others around", around, original.around(text)))
    if original.ignoring is not None:
        ways.append(("ordinary ids", ours.encode(text, "none"), original.ignoring(text)))
    for what, mine, theirs in ways:
        if mine != list(theirs):
            return f"{what} of {text[:80]!r}: {mine} not {list(theirs)}"
    if ours.decode(ids) != original.decode(ids):
        return f"decodes {ids} to {ours.decode(ids)[:80]!r}"
    return ""


def _texts(added: Sequence[str], files: Sequence[Path]) -> Iterator[str]:
    for file in files:
        yield from islice(documents(file), _DOCUMENTS)
    chance = random.Random(5)
    yield from ("", *_PIECES)
    for _ in range(_MADE):
        yield "".join(chance.choices(_PIECES, k=chance.randint(2, 12)))
    for token in chance.sample(list(added), min(len(added), _ADDED)):
        around = chance.choices(_PIECES, k=4)
        yield from (token, f" {token} ", f"a{token}b", f"{token}{token}", token[:-1], token.upper())
        yield f"{around[0]}{around[1]}{token}{around[2]}{token}{around[3]}"


def original_of(path: Path) -> Original | None:
    """The library that a file was made for, if one is installed here."""
    if path.suffix == ".json":
        return _of_tokenizers(path)
    if path.suffix in (".tiktoken", ".model"):
        return _of_tiktoken(path)
    return _of_bert(path) if path.name == "vocab.txt" else None


def _of_bert(path: Path) -> Original:
    from tokenizers.implementations import BertWordPieceTokenizer

    config_path = path.with_name("tokenizer_config.json")
    config = json.loads(config_path.read_text(encoding="utf-8")) if config_path.exists() else {}
    library = BertWordPieceTokenizer(str(path), lowercase=config.get("do_lower_case", True))
    return Original(
        lambda text: library.encode(text, add_special_tokens=False).ids,
        lambda ids: str(library.decode(ids, skip_special_tokens=False)),
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
    )


def _of_tokenizers(path: Path) -> Original:
    import tokenizers

    library = tokenizers.Tokenizer.from_file(str(path))
    ignoring = tokenizers.Tokenizer.from_file(str(path))
    ignoring.encode_special_tokens = True
    for tokenizer in (library, ignoring):
        tokenizer.no_truncation()
        tokenizer.no_padding()
    return Original(
        lambda text: library.encode(text, add_special_tokens=False).ids,
        lambda ids: str(library.decode(ids, skip_special_tokens=False)),
        [token.content for token in library.get_added_tokens_decoder().values()],
        lambda text: library.encode(text).ids,
        lambda text: ignoring.encode(text, add_special_tokens=False).ids,
    )


def _of_tiktoken(path: Path) -> Original | None:
    import tiktoken
    from tiktoken.load import load_tiktoken_bpe

    published = _published().get(hashlib.sha256(path.read_bytes()).hexdigest())
    if published is None:
        return _of_sentencepiece(path) if path.suffix == ".model" else None
    library = tiktoken.Encoding(**{**published, "mergeable_ranks": load_tiktoken_bpe(str(path))})
    return Original(
        lambda text: library.encode(text, allowed_special="all"),
        library.decode,
        list(published["special_tokens"]),
    )


def _of_sentencepiece(path: Path) -> Original | None:
    import sentencepiece

    try:
        library = sentencepiece.SentencePieceProcessor(model_file=str(path))
    except RuntimeError:  # a rank file that is not published
        return None
    pieces = range(library.get_piece_size())
    special = [id_ for id_ in pieces if library.is_control(id_) or library.is_unknown(id_)]
    added = list(map(library.id_to_piece, special))
    return Original(None, library.decode, added, ignoring=library.encode)


def _published() -> dict[str, dict[str, Any]]:
    """SHA-256 of a rank file → arguments of ``tiktoken.Encoding``."""
    from tiktoken_ext import openai_public

    published: dict[str, dict[str, Any]] = {}
    original = openai_public.load_tiktoken_bpe
    try:
        for name in ("r50k_base", "p50k_base", "cl100k_base", "o200k_base"):
            digests: list[str] = []

            def remember(_url: str, expected_hash: str, digests: list[str] = digests) -> Any:
                digests.append(expected_hash)
                return {}

            openai_public.load_tiktoken_bpe = remember
            arguments = openai_public.ENCODING_CONSTRUCTORS[name]()
            published[digests[0]] = {**arguments, "explicit_n_vocab": None}
    finally:
        openai_public.load_tiktoken_bpe = original
    # meta-llama/llama3 llama/tokenizer.py, with the special tokens that later releases share.
    published["82e9d31979e92ab929cd544440f129d9ecd797b69e327f80f17e1c50d5551b55"] = {
        "name": "llama3",
        "pat_str": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        "special_tokens": {
            "<|begin_of_text|>": 128000, "<|end_of_text|>": 128001,
            "<|reserved_special_token_0|>": 128002, "<|reserved_special_token_1|>": 128003,
            "<|start_header_id|>": 128006, "<|end_header_id|>": 128007, "<|eot_id|>": 128009,
        },
    }  # fmt: skip
    return published
