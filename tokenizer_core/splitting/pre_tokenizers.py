"""Pre-tokenizers of a tokenizer.json as split patterns, exactly or not at all.

What comes before cutting is not read here: normalizing, a space or ``▁`` put before a text, and
``▁`` put for spaces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, cast

from bpeline.tokenizer_core.errors import InvalidPattern
from bpeline.tokenizer_core.splitting.regex_spellings import NAMED_PATTERNS
from bpeline.tokenizer_core.splitting.regex_syntax import (
    Characters,
    Choice,
    Next,
    Node,
    NotRegular,
    Parts,
    Repeat,
    class_runs,
    parsed,
)
from bpeline.tokenizer_core.splitting.split_patterns import (
    BEHAVIORS,
    MOST_STEPS,
    Behavior,
    SplitPattern,
    SplitStep,
)

_DEEPEST = 16
_ACCEPTED = (
    "ByteLevel, Split, Digits, Punctuation, Whitespace, WhitespaceSplit, BertPreTokenizer, "
    "Metaspace, CharDelimiterSplit and Sequence of these, with the keys tokenizers 0.23 writes"
)
# Cut one after the other, as DeepSeek-V3 publishes them: together `deepseek-v3`.
_DEEPSEEK_V3 = [
    r"\p{N}{1,3}",
    "[一-龥\u3040-\u309f\u30a0-\u30ff]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
]
# Digits in runs, then gpt2 on what lies between: as `starcoder`, but in runs.
_RUNS_OF_DIGITS = r"\p{N}+|'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?![^\s\p{N}])|\s+"
# What is punctuation for `tokenizers`: that of ASCII, symbols too, and that of Unicode 8.
_PUNCTUATION = (
    "!-/:-@\\[-`{-\\~\u00a1\u00a7\u00ab\u00b6\u00b7\u00bb\u00bf\u037e\u0387\u055a-\u055f"
    "\u0589\u058a\u05be\u05c0\u05c3\u05c6\u05f3\u05f4\u0609\u060a\u060c\u060d\u061b"
    "\u061e\u061f\u066a-\u066d\u06d4\u0700-\u070d\u07f7-\u07f9\u0830-\u083e\u085e\u0964\u0965"
    "\u0970\u0af0\u0df4\u0e4f\u0e5a\u0e5b\u0f04-\u0f12\u0f14\u0f3a-\u0f3d\u0f85\u0fd0-\u0fd4"
    "\u0fd9\u0fda\u104a-\u104f\u10fb\u1360-\u1368\u1400\u166d\u166e\u169b\u169c\u16eb-\u16ed"
    "\u1735\u1736\u17d4-\u17d6\u17d8-\u17da\u1800-\u180a\u1944\u1945\u1a1e\u1a1f\u1aa0-\u1aa6"
    "\u1aa8-\u1aad\u1b5a-\u1b60\u1bfc-\u1bff\u1c3b-\u1c3f\u1c7e\u1c7f\u1cc0-\u1cc7\u1cd3"
    "\u2010-\u2027\u2030-\u2043\u2045-\u2051\u2053-\u205e\u207d\u207e\u208d\u208e"
    "\u2308-\u230b\u2329\u232a\u2768-\u2775\u27c5\u27c6\u27e6-\u27ef\u2983-\u2998"
    "\u29d8-\u29db\u29fc\u29fd\u2cf9-\u2cfc\u2cfe\u2cff\u2d70\u2e00-\u2e2e\u2e30-\u2e42"
    "\u3001-\u3003\u3008-\u3011\u3014-\u301f\u3030\u303d\u30a0\u30fb\ua4fe\ua4ff\ua60d-\ua60f"
    "\ua673\ua67e\ua6f2-\ua6f7\ua874-\ua877\ua8ce\ua8cf\ua8f8-\ua8fa\ua8fc\ua92e\ua92f\ua95f"
    "\ua9c1-\ua9cd\ua9de\ua9df\uaa5c-\uaa5f\uaade\uaadf\uaaf0\uaaf1\uabeb\ufd3e\ufd3f"
    "\ufe10-\ufe19\ufe30-\ufe52\ufe54-\ufe61\ufe63\ufe68\ufe6a\ufe6b\uff01-\uff03"
    "\uff05-\uff0a\uff0c-\uff0f\uff1a\uff1b\uff1f\uff20\uff3b-\uff3d\uff3f\uff5b\uff5d"
    "\uff5f-\uff65\U00010100-\U00010102\U0001039f\U000103d0\U0001056f\U00010857\U0001091f"
    "\U0001093f\U00010a50-\U00010a58\U00010a7f\U00010af0-\U00010af6\U00010b39-\U00010b3f"
    "\U00010b99-\U00010b9c\U00011047-\U0001104d\U000110bb\U000110bc\U000110be-\U000110c1"
    "\U00011140-\U00011143\U00011174\U00011175\U000111c5-\U000111c9\U000111cd\U000111db"
    "\U000111dd-\U000111df\U00011238-\U0001123d\U000112a9\U000114c6\U000115c1-\U000115d7"
    "\U00011641-\U00011643\U0001173c-\U0001173e\U00012470-\U00012474\U00016a6e\U00016a6f"
    "\U00016af5\U00016b37-\U00016b3b\U00016b44\U0001bc9f\U0001da87-\U0001da8b"
)
# \w of Rust's `regex`.
_WORD = r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\u200c\u200d"
_LETTERS_OF_SHORTHANDS = frozenset("sSdD")
_PLUS_AFTER_COUNT = re.compile(r"\{[0-9]+(?:,[0-9]*)?\}\+")
_SPECIAL = frozenset("\\^$.|?*+()[]{}")
_PRINTABLE_ASCII = (0x21, 0x7F)  # what ByteLevel leaves as it is


def pattern_of_pre_tokenizer(part: Any, *, marks_words: bool = False) -> SplitPattern:
    """The split pattern that cuts as a ``pre_tokenizer`` does, faster where one is known.

    None, and what does not cut, leave texts whole. `SplitPattern.drops_gaps` says whether text is
    dropped.

    Args:
        marks_words: whether the mark that a Metaspace behind WhitespaceSplit puts before each word
            is put there by the caller.

    Raises:
        InvalidPattern: naming what cannot be done exactly.
    """
    parts = list(steps_of_pre_tokenizer(part))
    if len(parts) > MOST_STEPS:
        _refuse(f"has {len(parts)} steps", f"up to {MOST_STEPS} steps")
    kinds = [one["type"] for one in parts]
    if kinds == ["WhitespaceSplit"]:
        _only(parts[0])
        return SplitPattern.named("whitespace")
    if kinds == ["Whitespace"]:
        _only(parts[0])
        return SplitPattern.named("wordpunct")
    if marks_words and kinds == ["WhitespaceSplit", "Metaspace"]:
        return _marked_words(*parts)
    steps: list[SplitStep] = []
    as_bytes = False
    for number, one in enumerate(parts):
        if (kind := one["type"]) not in _READERS:
            _refuse(f"has the type {kind[:40]!r}, which is not supported")
        _refuse_changed(one, number > 0, as_bytes)
        read = _READERS[kind](one)
        if as_bytes and not all(_looks_at_ascii(step.regex) for step in read):
            _refuse(f"has a {kind} after ByteLevel that looks at bytes",
                    "after it what looks at printable ASCII alone")  # fmt: skip
        steps += read
        as_bytes |= kind == "ByteLevel"
    if kinds == ["Digits", "ByteLevel"] and len(steps) == 2:
        individual = parts[0].get("individual_digits", False)
        return SplitPattern.named("starcoder") if individual else SplitPattern(_RUNS_OF_DIGITS)
    if steps == [SplitStep(regex, "Isolated") for regex in _DEEPSEEK_V3]:
        return SplitPattern.named("deepseek-v3")
    return _alone(steps[0]) if len(steps) == 1 else SplitPattern.of_steps(steps)


def _marked_words(white_space: dict[str, Any], metaspace: dict[str, Any]) -> SplitPattern:
    """Words between white space, cut before each mark."""
    (words,) = _white_space(white_space)
    if not _metaspace(metaspace):
        return SplitPattern.named("whitespace")
    if metaspace.get("prepend_scheme") == "first":
        _refuse("has Metaspace after another step, with a mark before the first word alone",
                "prepend_scheme always or never")  # fmt: skip
    inside = _in_set(metaspace["replacement"])
    words = SplitStep(rf"{inside}?[^\s{inside}]+|{inside}", "Removed", invert=True)
    return SplitPattern.of_steps([words])


def _alone(step: SplitStep) -> SplitPattern:
    """A single step as the pattern of one regex, where there is such."""
    if step.behavior == "Isolated" or (step.drops and step.invert):
        for name in NAMED_PATTERNS:
            if SplitPattern.named(name).regex_for_export == step.regex:
                return SplitPattern.named(name)  # it leaves nothing between its matches
        known = SplitPattern(step.regex)
        # As tiktoken spells cl100k, with a plus that Oniguruma takes for a second repetition.
        if known.name in NAMED_PATTERNS and not _PLUS_AFTER_COUNT.search(step.regex):
            return known
    if step.behavior == "Isolated":
        pattern = SplitPattern(step.regex)
        if pattern.name is not None or pattern.regex_for_export != step.regex:
            _refuse(
                f"has the Split regex {step.regex[:200]!r}, which Oniguruma reads differently",
                f"a regex that every engine reads alike, such as "
                f"{pattern.regex_for_export[:200]!r}",
            )
        return pattern
    inside, outside = _one_character(step.regex)
    if outside is not None and step.behavior == "Contiguous":
        return SplitPattern(f"{inside}+")
    if outside is not None and not step.invert:
        match step.behavior:
            case "MergedWithPrevious":
                return SplitPattern(f"{outside}+{inside}?|{inside}")
            case "MergedWithNext":
                return SplitPattern(f"{inside}?{outside}+|{inside}")
            case "Removed":
                return SplitPattern.of_steps([SplitStep(f"{outside}+", "Removed", invert=True)])
    return SplitPattern.of_steps([step])


def _one_character(regex: str) -> tuple[str, str | None]:
    """A regex of one character, and that of all others; None where it is of more, or unusual."""
    try:
        node = parsed(regex)
    except NotRegular:
        return regex, None
    if not isinstance(node, Characters):
        return regex, None
    source = node.source
    if len(source) == 1:
        return regex, f"[^{_in_set(source)}]"
    if source.startswith("[^"):
        return regex, "[" + source[2:]
    if source.startswith("["):
        return regex, "[^" + source[1:]
    if source.startswith("\\") and (source[1] in "pP" or source[1:] in _LETTERS_OF_SHORTHANDS):
        return regex, f"\\{source[1].swapcase()}{source[2:]}"
    return regex, None


def _looks_at_ascii(regex: str) -> bool:
    try:
        return _is_printable_ascii(parsed(regex))
    except NotRegular:
        return False


def _is_printable_ascii(node: Node) -> bool:
    """Whether all that a regex matches or looks for are characters that ByteLevel leaves alone."""
    match node:
        case Characters(source):
            return _of_printable_ascii(source)
        case Next(sources):
            return all(map(_of_printable_ascii, sources))
        case Parts(parts) | Choice(parts):
            return all(map(_is_printable_ascii, parts))
        case Repeat(part):
            return _is_printable_ascii(part)


def _of_printable_ascii(source: str) -> bool:
    first, behind = _PRINTABLE_ASCII
    return all(begin >= first and end <= behind for _, begin, end in class_runs({0: source}))


def _in_set(character: str) -> str:
    return f"\\{character}" if character in "\\^-[]&~" else character


def _literally(text: str) -> str:
    return "".join(f"\\{one}" if one in _SPECIAL else one for one in text)


def steps_of_pre_tokenizer(part: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    """The steps of a part: those of a Sequence, also of one in another; else the part itself."""
    if part is None and depth == 0:
        return
    if not isinstance(part, dict) or not isinstance(part.get("type"), str):
        _refuse("has no type")
    if part["type"] != "Sequence":
        yield part
        return
    inner = _only(part, pretokenizers=list)["pretokenizers"]
    if depth >= _DEEPEST or len(inner) > MOST_STEPS:
        _refuse("has too many Sequences in Sequences, or steps")
    for one in inner:
        yield from steps_of_pre_tokenizer(one, depth + 1)


def _refuse_changed(part: dict[str, Any], follows: bool, as_bytes: bool) -> None:
    """Refuse steps that change text which another step has seen: only the first one may."""
    kind = part["type"]
    if kind == "ByteLevel" and as_bytes:
        _refuse("has ByteLevel twice")
    if kind == "ByteLevel" and follows and part.get("add_prefix_space", True) is not False:
        _refuse("has ByteLevel with add_prefix_space after another step, which puts a space before "
                "each piece", "add_prefix_space=false, or ByteLevel first")  # fmt: skip
    if kind == "Metaspace" and follows:
        _refuse("has Metaspace after another step, which changes each piece", "Metaspace first")


def _split(part: dict[str, Any]) -> list[SplitStep]:
    values = _only(part, pattern=dict, behavior=str, invert=bool)
    pattern, behavior = values["pattern"], _behavior(part, values["behavior"])
    if list(pattern) == ["String"] and isinstance(pattern["String"], str) and pattern["String"]:
        return [SplitStep(_literally(pattern["String"]), behavior, values["invert"])]
    if list(pattern) != ["Regex"] or not isinstance(pattern["Regex"], str):
        _refuse(f"has a Split of the pattern {str(pattern)[:80]}", "a Regex or a String")
    regex = pattern["Regex"]
    SplitPattern(regex)  # refuses what does not compile
    if behavior == "Isolated":
        return [SplitStep(regex, behavior)]  # inverted or not
    return [SplitStep(regex, behavior, values["invert"])]


def _digits(part: dict[str, Any]) -> list[SplitStep]:
    individual = _only(part, individual_digits=(bool,))["individual_digits"]
    return [SplitStep(r"\p{N}" if individual else r"\p{N}+", "Isolated")]


def _punctuation(part: dict[str, Any]) -> list[SplitStep]:
    behavior = _behavior(part, _only(part, behavior=(str,))["behavior"] or "Isolated")
    if behavior == "Contiguous":
        return [SplitStep(f"[{_PUNCTUATION}]+", "Isolated")]
    return [SplitStep(f"[{_PUNCTUATION}]", behavior)]


def _bert(part: dict[str, Any]) -> list[SplitStep]:
    _only(part)
    words = rf"[{_PUNCTUATION}]|[^\s{_PUNCTUATION}]+"
    return [SplitStep(words, "Removed", invert=True)]


def _white_space(part: dict[str, Any]) -> list[SplitStep]:
    _only(part)
    return [SplitStep(r"\S+", "Removed", invert=True)]


def _words(part: dict[str, Any]) -> list[SplitStep]:
    _only(part)
    return [SplitStep(rf"[{_WORD}]+|[^{_WORD}\s]+", "Removed", invert=True)]


def _byte_level(part: dict[str, Any]) -> list[SplitStep]:
    values = _only(part, add_prefix_space=(bool,), trim_offsets=(bool,), use_regex=(bool,))
    if values["use_regex"] is False:
        return []
    return [SplitStep(SplitPattern.named("gpt2").regex, "Isolated")]


def _metaspace(part: dict[str, Any]) -> list[SplitStep]:
    values = _only(
        part,
        replacement=str,
        str_rep=(str,),
        add_prefix_space=(bool,),
        prepend_scheme=(str,),
        split=(bool,),
    )
    if len(values["replacement"]) != 1:
        _refuse(f"has a Metaspace with the replacement {values['replacement'][:40]!r}")
    if values["split"] is False:
        return []
    return [SplitStep(_literally(values["replacement"]), "MergedWithNext")]


def _delimiter(part: dict[str, Any]) -> list[SplitStep]:
    delimiter = _only(part, delimiter=str)["delimiter"]
    if len(delimiter) != 1:
        _refuse(f"has a CharDelimiterSplit with the delimiter {delimiter[:40]!r}")
    return [SplitStep(_literally(delimiter), "Removed")]


_READERS: dict[str, Callable[[dict[str, Any]], list[SplitStep]]] = {
    "Split": _split,
    "Digits": _digits,
    "Punctuation": _punctuation,
    "BertPreTokenizer": _bert,
    "WhitespaceSplit": _white_space,
    "Whitespace": _words,
    "ByteLevel": _byte_level,
    "Metaspace": _metaspace,
    "CharDelimiterSplit": _delimiter,
}


def _behavior(part: dict[str, Any], behavior: str) -> Behavior:
    if behavior not in BEHAVIORS:
        _refuse(f"has a {part['type']} with the behavior {behavior[:40]!r}", ", ".join(BEHAVIORS))
    return cast(Behavior, behavior)


def _only(part: dict[str, Any], **types: type | tuple[type, ...]) -> dict[str, Any]:
    """The values of a step, once every key is known; a key with a tuple of types may be absent."""
    kind = part["type"]
    for key in part:
        if key != "type" and key not in types:
            _refuse(f"sets {str(key)[:40]!r} of {kind}, which is not understood")
    for key, type_ in types.items():
        absent = isinstance(type_, tuple) and key not in part
        if not absent and not isinstance(part.get(key), type_):
            _refuse(f"has a {kind} with the {key} {str(part.get(key, 'that is missing'))[:40]!r}")
    return {key: part.get(key) for key in types}


def _refuse(what: str, accepted: str = _ACCEPTED) -> NoReturn:
    raise InvalidPattern(
        f"the pre-tokenizer {what}", accepted, "ask for a tokenizer.json without it"
    )
