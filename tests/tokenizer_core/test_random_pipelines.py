"""Random pipelines of tokenizer.json: ids are the library's, or the file is refused by name."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import tokenizers
from amounts import NIGHT, Amounts, numbers
from tokenizers import pre_tokenizers

from bpeline.tokenizer_core.corpus import find_source_files, other_than_text, sources_of
from bpeline.tokenizer_core.errors import InvalidOption, InvalidPattern, InvalidTokenizer
from bpeline.tokenizer_core.shards import file_encoding_of
from bpeline.tokenizer_core.shards.file_encoding import whole_files
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.vocabulary import to_printable
from bpeline.tokenizer_core.word_encoding import explain_words

PRINTABLE = sorted(pre_tokenizers.ByteLevel.alphabet())
CHARACTERS = [*"abcAB1 ~é▁漢,<>\n", "\u0301", "²"]
# Neighbours that pipelines treat differently, in few kinds, so that unlikely ones meet often.
PARTS = [*CHARACTERS, "ab", "bc", "abc", "  ", " a", "a ", "b, ", "1~", "é1", "Ａ", "\u00a0", "'s",
         "İ", "\t", "x", "\x00", "👍"]  # fmt: skip
CONTENTS = [
    "é", "abc", "bc", "<s>", "a", " a", "b ", "[UNK]", "##b", "AB", "~", "▁a", "1", "ab c", "漢",
    "<", "x", ">", "[CLS]", "<unk>", "<0x61>",
]  # fmt: skip
REGEXES = [
    r"\s+", r"[ab]+", r"\p{L}+| ?\p{N}", r" ?[^\s\p{L}\p{N}]+", "~", r"\d{1,2}", r"b(?!c)", "é",
]  # fmt: skip
BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
SCHEMES = ["always", "first", "never"]
PRE_TOKENIZERS = [
    *["ByteLevel"] * 3, "Metaspace", "Split", "Split", "Digits", "Punctuation", "Whitespace",
    "WhitespaceSplit", "BertPreTokenizer", "CharDelimiterSplit", "Digits", "UnicodeScripts",
    "FixedLength",
]  # fmt: skip
NORMALIZERS = [
    "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Strip", "StripAccents", "Nmt", "Replace", "Replace",
    "Prepend", "BertNormalizer", "ByteLevel",
]  # fmt: skip
ALGORITHMS = ["byte-bpe", "sentencepiece-bpe", "wordpiece", "unigram"]
FLAGS = ["special", "normalized", "single_word", "lstrip", "rstrip"]
BERT_FLAGS = ["clean_text", "handle_chinese_chars", "lowercase"]
POST_PROCESSORS = [
    "ByteLevel", "BertProcessing", "RobertaProcessing", "TemplateProcessing", "Sequence"
]  # fmt: skip
DECODERS = [
    "ByteLevel", "ByteLevel", "WordPiece", "Metaspace", "BPEDecoder", "CTC", "Sequence"
]  # fmt: skip


CLS, SEP = {"cls": ["b", 2]}, {"sep": ["a", 1]}


def split(regex: str, behavior: str = "Isolated") -> dict[str, Any]:
    pattern = {"Regex" if len(regex) > 1 else "String": regex}
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": False}


def level(use_regex: bool = False, add_prefix_space: bool = False) -> dict[str, Any]:
    return {"type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": True,
            "use_regex": use_regex}  # fmt: skip


def metaspace(scheme: str, cuts: bool) -> dict[str, Any]:
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": cuts}


def in_order(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "pretokenizers": list(steps)}


GPT4 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")  # fmt: skip
DIGITS = {"type": "Digits", "individual_digits": True}
# Pre-tokenizers of published tokenizers, and the algorithm that encodes behind them.
USUAL: dict[str, tuple[Any, str]] = {
    "GPT-2": (level(use_regex=True), "byte-bpe"),
    "RoBERTa": (level(use_regex=True, add_prefix_space=True), "byte-bpe"),
    "Llama 3": (in_order(split(GPT4), level()), "byte-bpe"),
    "Qwen": (in_order(split(GPT4.replace("{1,3}", "")), level()), "byte-bpe"),
    "StarCoder": (in_order(DIGITS, level(use_regex=True)), "byte-bpe"),
    "DeepSeek": (
        in_order(split(r"[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), DIGITS, level()),
        "byte-bpe",
    ),
    "Llama 2": (None, "sentencepiece-bpe"),
    "Mistral": (metaspace("first", False), "sentencepiece-bpe"),
    "Gemma": (split(" ", "MergedWithPrevious"), "sentencepiece-bpe"),
    "XGLM": (in_order({"type": "WhitespaceSplit"}, metaspace("always", True)), "unigram"),
    "T5": (metaspace("always", True), "unigram"),
    "BERT": ({"type": "BertPreTokenizer"}, "wordpiece"),
    "own WordPiece": ({"type": "Whitespace"}, "wordpiece"),
}


def pipeline(chance: random.Random) -> dict[str, Any]:
    """The JSON of a tokenizer.json; the library may refuse it."""
    if _flag(chance, 0.4):
        pre_tokenizer, algorithm = chance.choice([*USUAL.values()])
        over_bytes = algorithm == "byte-bpe"
        model = _MODELS[algorithm]
    else:
        pre_tokenizer = _maybe(chance, 0.9, _pre_tokenizer)
        over_bytes = _flag(chance, 0.8 if '"ByteLevel"' in json.dumps(pre_tokenizer) else 0.05)
        model = chance.choices([_bpe, _word_piece, _unigram, _word_level], [20, 5, 1, 1])[0]
    made = model(chance, over_bytes)
    vocab = [token for token, _ in made["vocab"]] if made["type"] == "Unigram" else [*made["vocab"]]
    return {
        "version": "1.0",
        "added_tokens": _added_tokens(chance, {token: id_ for id_, token in enumerate(vocab)}),
        "normalizer": _maybe(chance, 0.4, _normalizer),
        "pre_tokenizer": pre_tokenizer,
        "post_processor": _maybe(chance, 0.4, _post_processor),
        "decoder": _maybe(chance, 0.7, _decoder),
        "model": made,
    }


def texts_for(chance: random.Random, document: dict[str, Any]) -> list[str]:
    parts = PARTS + 3 * [token["content"] for token in document["added_tokens"]]
    few = chance.sample(parts, 5)
    drawn = [
        chance.choices(pool, k=chance.randint(1, 12)) for pool in (few, parts) for _ in range(6)
    ]
    return ["", *map("".join, drawn)]


def _maybe(chance: random.Random, share: float, make: Callable[[random.Random], Any]) -> Any:
    return make(chance) if chance.random() < share else None


def _flag(chance: random.Random, share: float = 0.5) -> bool:
    return chance.random() < share


def _in_sequence(chance: random.Random, kind: str, part: str, make: Callable[[], Any]) -> Any:
    """One step, or several, which may be sequences again."""
    count = chance.choices([1, 2, 3, 0], [4, 4, 2, 0.2])[0]
    if count == 1 and _flag(chance, 0.8):
        return make()
    steps = [make() for _ in range(count)]
    if len(steps) > 1 and _flag(chance, 0.2):
        steps[:2] = [{"type": kind, part: steps[:2]}]
    return {"type": kind, part: steps}


def _pre_tokenizer(chance: random.Random) -> Any:
    def step() -> Any:
        kind = chance.choice(PRE_TOKENIZERS)
        match kind:
            case "ByteLevel":
                return level(_flag(chance), _flag(chance, 0.3))
            case "Metaspace":
                made = metaspace(chance.choice(SCHEMES), _flag(chance))
                return {**made, "replacement": chance.choice("▁▁▁~_")}
            case "Split":
                made = {"type": kind, "pattern": _pattern(chance), "invert": _flag(chance, 0.3)}
                return {**made, "behavior": chance.choice(BEHAVIORS)}
            case "Digits":
                return {"type": kind, "individual_digits": _flag(chance)}
            case "Punctuation":
                return {"type": kind, "behavior": chance.choice(BEHAVIORS)}
            case "CharDelimiterSplit":
                return {"type": kind, "delimiter": chance.choice("~ a▁é")}
            case "FixedLength":
                return {"type": kind, "length": chance.randint(1, 3)}
        return {"type": kind}

    made = _in_sequence(chance, "Sequence", "pretokenizers", step)
    if _flag(chance, 0.3):  # as most that are published
        return in_order(made, level(_flag(chance)))
    return made


def _pattern(chance: random.Random) -> dict[str, str]:
    return (
        {"Regex": chance.choice(REGEXES)}
        if _flag(chance, 0.7)
        else {"String": chance.choice(CHARACTERS)}
    )


def _normalizer(chance: random.Random) -> Any:
    def step() -> Any:
        kind = chance.choice(NORMALIZERS)
        match kind:
            case "Strip":
                return {"type": kind, "strip_left": _flag(chance), "strip_right": _flag(chance)}
            case "Replace":
                return {
                    "type": kind,
                    "pattern": _pattern(chance),
                    "content": chance.choice(["▁", "", "ab", " "]),
                }
            case "Prepend":
                return {"type": kind, "prepend": chance.choice(["▁", " ", "a"])}
            case "BertNormalizer":
                flags = {name: _flag(chance) for name in BERT_FLAGS}
                return {"type": kind, **flags, "strip_accents": chance.choice([None, True, False])}
        return {"type": kind}

    return _in_sequence(chance, "Sequence", "normalizers", step)


def _bpe(chance: random.Random, over_bytes: bool, whole: bool = False) -> dict[str, Any]:
    alphabet = PRINTABLE if over_bytes else CHARACTERS
    whole |= _flag(chance)
    known = alphabet if whole else chance.sample(alphabet, len(alphabet) * 4 // 5)
    common = [*"abcAB1~,", *("ĠÃ©" if over_bytes else "é▁漢")]
    tokens, merges = [one for one in common if one in known], dict[tuple[str, str], None]()
    for _ in range(chance.randint(0, 12)):
        left, right = chance.choices(tokens, k=2)
        merges[left, right] = None
        tokens.append(left + right)
    extra = ["aab", "ca", "Ġa", "Ã©", *CONTENTS]
    if over_bytes and _flag(chance, 0.9):
        extra = [token for token in extra if set(token) <= {*PRINTABLE} and token != "é"]
    extra = chance.sample(extra, chance.randint(0, 4))
    unknown = chance.choice([None, "<unk>"])
    fallback, unbroken = _flag(chance, 0.2 if over_bytes else 0.4), _flag(chance, 0.9)
    if fallback:
        extra += [f"<0x{byte:02X}>" for byte in range(256) if unbroken or _flag(chance, 0.97)]
    vocab = dict.fromkeys([*known, *tokens, *extra, *([unknown] if unknown else [])])
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": unknown,
        "continuing_subword_prefix": None,  # beyond ASCII the library ends the process
        "end_of_word_suffix": "</w>" if _flag(chance, 0.02) else None,
        "fuse_unk": _flag(chance),
        "byte_fallback": fallback,
        "ignore_merges": _flag(chance, 0.4),
        "vocab": {token: id_ for id_, token in enumerate(vocab)},
        "merges": [list(pair) for pair in merges],
    }


def _word_piece(chance: random.Random, over_bytes: bool, whole: bool = False) -> dict[str, Any]:
    characters = chance.sample(CHARACTERS, 14)
    words = ["".join(chance.choices("abcé1▁", k=chance.randint(1, 3))) for _ in range(12)]
    extra = chance.sample([*CONTENTS, "Ġa", "Ã©", "[CLS]"], 4)
    vocab = dict.fromkeys(["[UNK]", *characters, *words, *("##" + word for word in words), *extra])
    return {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": chance.choice([100, 4]),
        "vocab": {token: id_ for id_, token in enumerate(vocab)},
    }


def _unigram(chance: random.Random, over_bytes: bool, whole: bool = False) -> dict[str, Any]:
    tokens = dict.fromkeys(["<unk>", *CHARACTERS, "ab", "▁a", "bc", *chance.sample(CONTENTS, 4)])
    scores = [[token, -round(chance.uniform(0, 9), 3)] for token in tokens]
    return {"type": "Unigram", "unk_id": 0, "vocab": scores, "byte_fallback": False}


def _word_level(chance: random.Random, over_bytes: bool, whole: bool = False) -> dict[str, Any]:
    tokens = dict.fromkeys(["[UNK]", *CHARACTERS, "ab", "abc", *CONTENTS])
    vocab = {token: id_ for id_, token in enumerate(tokens)}
    return {"type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]"}


_MODELS = dict(zip(ALGORITHMS, (_bpe, _bpe, _word_piece, _unigram), strict=True))


def _added_tokens(chance: random.Random, vocab: dict[str, int]) -> list[dict[str, Any]]:
    """Some, with the ids that the library gives them."""
    made: list[dict[str, Any]] = []
    highest = -1
    for content in chance.sample(CONTENTS, chance.choice([0, 1, 1, 2, 3])):
        id_ = vocab.get(content, max(highest + 1, len(vocab)))
        highest = max(highest, id_)
        flags = {flag: _flag(chance, 0.5 if flag in FLAGS[:2] else 0.25) for flag in FLAGS}
        made.append({"id": id_, "content": content, **flags})
    return made


def _post_processor(chance: random.Random) -> Any:
    kind = chance.choice(POST_PROCESSORS)
    match kind:
        case "ByteLevel":
            return level()
        case "BertProcessing":
            return {"type": kind, **SEP, **CLS}
        case "RobertaProcessing":
            return {"type": kind, **SEP, **CLS, "trim_offsets": True, "add_prefix_space": False}
        case "TemplateProcessing":
            start = {"SpecialToken": {"id": "a", "type_id": 0}}
            text, other = ({"Sequence": {"id": id_, "type_id": 0}} for id_ in "AB")
            special = {"a": {"id": "a", "ids": [1, 2], "tokens": ["a", "b"]}}
            made = {"type": kind, "single": [start, text], "pair": [start, text, other]}
            return {**made, "special_tokens": special}
    return {"type": "Sequence", "processors": [level(), _post_processor(chance)]}


def _decoder(chance: random.Random) -> Any:
    kind = chance.choice(DECODERS)
    match kind:
        case "ByteLevel":
            return level()
        case "WordPiece":
            return {"type": kind, "prefix": "##", "cleanup": _flag(chance)}
        case "Metaspace":
            return metaspace(chance.choice(SCHEMES), True)
        case "BPEDecoder":
            return {"type": kind, "suffix": "</w>"}
        case "CTC":
            made = {"type": kind, "pad_token": "a", "word_delimiter_token": "b"}
            return {**made, "cleanup": _flag(chance)}
    steps = [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ]
    return {"type": "Sequence", "decoders": steps}


BYTES = {to_printable(bytes([byte])): byte for byte in range(256)}
WITHOUT_Z = {name: byte for name, byte in BYTES.items() if name != "z"} | {"<0x7A>": 256}
WORDS = {"type": "WordPiece", "vocab": {"[UNK]": 0, "a": 1, "##Ġa": 2}, "unk_token": "[UNK]",
         "continuing_subword_prefix": "##", "max_input_chars_per_word": 100}  # fmt: skip
AT_A = in_order(split("a"), level())


def bpe(vocab: dict[str, int], **flags: Any) -> dict[str, Any]:
    return {"type": "BPE", "vocab": vocab, "merges": [], **flags}


def added(id_: int, content: str, *flags: str) -> dict[str, Any]:
    return {"id": id_, "content": content, **{flag: flag in flags for flag in FLAGS}}


# Pipelines that were read wrongly, a text, and its ids.
CASES: dict[str, tuple[Any, Any, list[Any], str, list[int]]] = {
    "text dropped after ByteLevel": (
        in_order(level(), split("~", "Removed")), bpe(BYTES), [], "a~é", [97, 195, 169]
    ),
    "a split after ByteLevel": (
        in_order(level(), split("~")), bpe(BYTES), [], "a é", [97, 32, 195, 169]
    ),
    "ByteLevel in a nested sequence": (
        in_order(in_order(level(), split("b")), split("c")), bpe(BYTES), [], "aé", [97, 195, 169]
    ),
    "WordPiece after ByteLevel": (level(), WORDS, [], "a a", [1, 2]),
    "byte_fallback of a missing byte": (
        level(), bpe(WITHOUT_Z, byte_fallback=True), [], "azb", [97, 256, 98]
    ),
    "a prefix after Metaspace": (
        in_order(metaspace("never", False), level(add_prefix_space=True)), bpe(BYTES), [], "B",
        [32, 66],
    ),
    "text dropped before ByteLevel": (
        in_order({"type": "WhitespaceSplit"}, level()), bpe(BYTES), [], "a b", [97, 98]
    ),
    "a word of WordPiece that is an added token": (
        split("a"), {**WORDS, "vocab": {"é": 0, "a": 1, "[UNK]": 2}},
        [added(0, "é", "single_word")], "aé", [1, 0],
    ),
    "an added token that the model lacks": (
        None, bpe({"a": 0, "x": 1}, unk_token="x"), [added(2, "b", "single_word")], "ab", [0, 1]
    ),
    "a word that is an added token": (
        AT_A, bpe({**BYTES, "bc": 256}, ignore_merges=True), [added(256, "bc", "single_word")],
        "abc", [97, 256],
    ),
    "a word of characters that is an added token": (
        split("a"), bpe({"a": 0, "b": 1, "c": 2, "bc": 3}, ignore_merges=True),
        [added(3, "bc", "single_word")], "abc", [0, 3],
    ),
}  # fmt: skip


# Those of which a part has no encoder here.
REFUSED = {
    "text dropped after ByteLevel", "WordPiece after ByteLevel", "byte_fallback of a missing byte",
    "a prefix after Metaspace", "text dropped before ByteLevel",
    "a word of characters that is an added token",
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_ids_are_the_librarys(name: str, tmp_path: Path) -> None:
    pre_tokenizer, model, added_tokens, text, ids = CASES[name]
    document = {"added_tokens": added_tokens, "pre_tokenizer": pre_tokenizer, "model": model}
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(document))
    if name in REFUSED:
        with pytest.raises((InvalidPattern, InvalidTokenizer)):
            Tokenizer.load(path)
        return
    ours = Tokenizer.load(path)
    assert ours.encode(text) == ids
    encodes_as_library(ours, document, [text])


def library_of(document: dict[str, Any], ignores: bool = False) -> Any:
    library = tokenizers.Tokenizer.from_str(json.dumps(document))
    library.encode_special_tokens = ignores
    return library


def ids_of(library: Any, text: str, around: bool = False) -> list[int] | None:
    """The ids of a text; None where the library raises or panics."""
    try:
        ids: list[int] = library.encode(text, add_special_tokens=around).ids
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return None
    return ids


def encodes_as_library(ours: Tokenizer, document: dict[str, Any], texts: list[str]) -> None:
    """Ids in all three ways are those of the library, where it encodes the text at all."""
    finding, ignoring = (library_of(document, ignores) for ignores in (False, True))
    for text in texts:
        for theirs, options in (
            (ids_of(finding, text), {}),
            (ids_of(finding, text, around=True), {"add_special_tokens": True}),
            (ids_of(ignoring, text), {"allowed_special": "none"}),
        ):
            if theirs is not None:
                assert ours.encode(text, **options) == theirs, f"{text!r} {options}"


def decodes_as_library(ours: Tokenizer, document: dict[str, Any], texts: list[str]) -> None:
    """Text of any ids is that of the library, at once and as a stream."""
    library, chance = library_of(document), random.Random(len(texts[-1]))
    known = [*ours.vocab]
    for _ in range(30):
        ids = chance.choices(known, k=chance.randint(0, 6))
        theirs = library.decode(ids, skip_special_tokens=False)
        stream = ours.decode_stream()
        assert ours.decode(ids) == theirs, ids
        assert "".join(map(stream.feed, ids)) + stream.flush() == theirs, ids


def reads_files_as_texts(ours: Tokenizer, document: dict[str, Any], texts: list[str]) -> None:
    """Files have the ids of their text, wherever they are cut into pieces."""
    encoding = file_encoding_of(ours)
    texts = [text.lstrip("\ufeff") for text in texts]  # which no text file begins with
    texts = [text for text in texts if not other_than_text(text.encode(), named=True)]
    with TemporaryDirectory() as folder:
        for number, text in enumerate(texts):
            (Path(folder) / f"{number:02}.txt").write_bytes(text.encode())
        found = find_source_files(sources_of(folder))
        ids = [list[int]()]
        for piece in whole_files(found, encoding.reading, 8, encoding.id_field):
            encoded = encoding.encode(piece)
            ids[-1] += [*encoded.head.tolist(), *encoded.ids.tolist()]
            ids += [[]] * piece.ends_file
    assert dict(zip(texts, ids, strict=False)) == {text: ours.encode(text) for text in texts}


def explains_what_it_encodes(ours: Tokenizer, document: dict[str, Any], texts: list[str]) -> None:
    """The ids of explained words, joined, are those of the text."""
    explain = ours.explain if ours.algorithm.name == "byte-bpe" else partial(explain_words, ours)
    for text in texts:
        assert [id_ for word in explain(text) for id_ in word.ids] == ours.encode(text), f"{text!r}"


def truncates_to_the_longest(ours: Tokenizer, document: dict[str, Any], texts: list[str]) -> None:
    """No longer prefix has as few ids, where tokens are pieces of the text."""
    for text in texts if ours.algorithm.name == "byte-bpe" else ():
        sizes = [ours.count(text[:end]) for end in range(len(text) + 1)]
        for most in (1, 2, 4):
            longest = max(end for end, size in enumerate(sizes) if size <= most)
            try:
                assert ours.truncate(text, most) == text[:longest], f"{text!r} {most}"
            except InvalidOption:  # the text changes before it is encoded
                return


def saves_what_it_does(ours: Tokenizer, document: dict[str, Any], texts: list[str]) -> None:
    """A saved tokenizer.json is that tokenizer to both libraries, or is refused."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "tokenizer.json"
        try:
            ours.save(path, "hf")
        except (InvalidOption, InvalidPattern, InvalidTokenizer):
            return
        again, written = Tokenizer.load(path), json.loads(path.read_text())
    encodes_as_library(ours, written, texts)
    decodes_as_library(ours, written, texts)
    for text in texts:
        ids = ours.encode(text)
        assert (again.encode(text), again.decode(ids)) == (ids, ours.decode(ids)), f"{text!r}"


# Each takes our tokenizer, the document that it was read from, and texts.
RULES = (
    encodes_as_library,
    decodes_as_library,
    reads_files_as_texts,
    explains_what_it_encodes,
    truncates_to_the_longest,
    saves_what_it_does,
)


def outcome_of(number: int, path: Path) -> str:
    """What becomes of one pipeline: the name of its algorithm, or why it is refused.

    Raises:
        AssertionError: it is neither refused nor what the library makes of it.
    """
    chance = random.Random(number)
    document = pipeline(chance)
    try:
        library_of(document)
    except Exception as error:
        return f"refused by the library: {error}"
    path.write_text(json.dumps(document))
    try:
        ours = Tokenizer.load(path)
    except (InvalidTokenizer, InvalidPattern) as refusal:
        return f"refused: {refusal.happened}"
    texts = texts_for(chance, document)
    for rule in RULES:
        try:
            rule(ours, document, texts)
        except BaseException as error:
            error.add_note(f"REPRO: --point {number}")
            raise
    return ours.algorithm.name


@pytest.mark.parametrize("name", USUAL)
def test_usual_pipelines_are_read(name: str, tmp_path: Path) -> None:
    pre_tokenizer, algorithm = USUAL[name]
    chance = random.Random(name)
    model = _MODELS[algorithm](chance, algorithm == "byte-bpe", whole=True)
    document = {"added_tokens": [], "pre_tokenizer": pre_tokenizer, "model": model}
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(document))
    ours = Tokenizer.load(path)
    assert ours.algorithm.name == algorithm
    encodes_as_library(ours, document, texts_for(chance, document))


@pytest.mark.night
def test_random_pipelines_are_as_the_library_or_refused(
    amounts: Amounts, seed: int, point: int, tmp_path: Path
) -> None:
    outcomes = Counter[str]()
    day = amounts is not NIGHT
    for number in numbers(1 if day else seed, amounts.pipelines, point):
        outcomes[outcome_of(number, tmp_path / "tokenizer.json")] += 1
    assert point or {"byte-bpe", "sentencepiece-bpe", "wordpiece", "unigram"} <= outcomes.keys()
