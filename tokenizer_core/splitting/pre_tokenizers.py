"""Pre-tokenizers of a tokenizer.json as split patterns; what cannot be one exactly is refused.

What they put before pieces (Metaspace, ByteLevel with ``add_prefix_space``) is no cut, and not
looked at here.
"""

from __future__ import annotations

from typing import Any, NoReturn

from bpeline.tokenizer_core.errors import InvalidTokenizer
from bpeline.tokenizer_core.splitting.split_patterns import NAMED_PATTERNS, SplitPattern

_WHOLE_TEXT = r"[\s\S]+"
_LEVEL = {"type", "add_prefix_space", "trim_offsets", "use_regex"}
# Cut one after the other, as DeepSeek-V3 publishes them: together `deepseek-v3`.
_DEEPSEEK_V3 = [
    r"\p{N}{1,3}",
    "[一-龥\u3040-\u309f\u30a0-\u30ff]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
]
# Digits(individual_digits=false), then gpt2 on what lies between: as `starcoder`, but in runs.
_RUNS_OF_DIGITS = r"\p{N}+|'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?![^\s\p{N}])|\s+"


def pattern_of_pre_tokenizer(part: Any) -> SplitPattern:
    """The split pattern of a pre-tokenizer, as HuggingFace's JSON; null cuts nothing.

    Raises:
        InvalidTokenizer: malformed, or steps that no pattern stands for.
        InvalidPattern: a regex that cannot be used, or that Oniguruma reads differently.
    """
    steps = _in_sequence(part)
    kinds = [_kind(step) for step in steps]
    if not steps:
        return SplitPattern(_WHOLE_TEXT)
    if kinds == ["Metaspace"]:
        return _metaspace(steps[0])
    if kinds in (["WhitespaceSplit"], ["Whitespace"]):
        return SplitPattern.named("wordpunct" if kinds == ["Whitespace"] else "whitespace")
    if kinds[-1] != "ByteLevel":
        _refuse(f"the steps {', '.join(kinds)}" if kinds[1:] else kinds[0])
    return _before_bytes(steps, kinds)


def _before_bytes(steps: list[Any], kinds: list[str]) -> SplitPattern:
    """What cuts before or with a ByteLevel that comes last."""
    level = _only(steps[-1], _LEVEL)
    by_gpt2 = level.get("use_regex", True) is True
    splits = steps[:-1]
    if not splits:
        return SplitPattern.named("gpt2") if by_gpt2 else SplitPattern(_WHOLE_TEXT)
    if by_gpt2 and kinds[:-1] == ["Digits"]:
        individual = _only(splits[0], {"type", "individual_digits"}).get("individual_digits", False)
        return SplitPattern.named("starcoder") if individual else SplitPattern(_RUNS_OF_DIGITS)
    regexes = [_split(step) for step in splits if _kind(step) == "Split"]
    if by_gpt2 or len(regexes) < len(splits):
        _refuse(f"the steps {', '.join(kinds)}")
    if regexes == [(regex, True) for regex in _DEEPSEEK_V3]:
        return SplitPattern.named("deepseek-v3")
    if len(regexes) > 1:
        _refuse(f"the steps {', '.join(kinds)}")
    return _of_export(*regexes[0])


def _metaspace(step: dict[str, Any]) -> SplitPattern:
    if step.get("split", True) is False:
        return SplitPattern(_WHOLE_TEXT)
    if step.get("replacement") != "▁":
        _refuse(f"Metaspace with the replacement {str(step.get('replacement'))[:20]!r}")
    return SplitPattern("▁[^▁]*|[^▁]+")


def _split(step: Any) -> tuple[str, bool]:
    """The regex of a Split, and whether it keeps what lies between matches."""
    split = _only(step, {"type", "pattern", "behavior", "invert"})
    pattern = split.get("pattern")
    if not isinstance(pattern, dict) or list(pattern) != ["Regex"]:
        _refuse("Split at a fixed string")
    regex = pattern["Regex"]
    if not isinstance(regex, str):
        _refuse("Split without a regex")
    behavior = split.get("behavior"), split.get("invert")
    if behavior not in (("Isolated", False), ("Removed", True)):
        _refuse(f"Split of the behavior {behavior[0]!r}, inverted: {behavior[1]!r}")
    return regex, behavior == ("Isolated", False)


def _of_export(regex: str, isolated: bool) -> SplitPattern:
    for name in NAMED_PATTERNS:
        if SplitPattern.named(name).regex_for_export == regex:
            return SplitPattern.named(name)
    pattern = SplitPattern(regex)
    # As tiktoken spells cl100k, with a plus that Oniguruma takes for a second repetition.
    misread = "}+" in regex if pattern.name else pattern.regex_for_export != regex
    if misread:
        _refuse(f"Split at the regex {regex[:200]!r}, which Oniguruma reads differently")
    if not (isolated or pattern.name):
        _refuse("Split that drops the text between matches (Removed, inverted)")
    return pattern


def _in_sequence(part: Any) -> list[Any]:
    if part is None:
        return []
    if _kind(part) != "Sequence":
        return [part]
    steps = _only(part, {"type", "pretokenizers"}).get("pretokenizers")
    if not isinstance(steps, list):
        _refuse("Sequence without pretokenizers")
    return [step for inner in steps for step in _in_sequence(inner)]


def _kind(part: Any) -> str:
    return str(part.get("type", "without type"))[:40] if isinstance(part, dict) else "none"


def _only(part: dict[str, Any], known: set[str]) -> dict[str, Any]:
    """``part`` itself, once every key in it is known."""
    if unknown := sorted(part.keys() - known):
        _refuse(f"{_kind(part)} that sets {str(unknown[0])[:40]!r}")
    return part


def _refuse(what: str) -> NoReturn:
    raise InvalidTokenizer(
        f"the pre_tokenizer is {what}",
        "ByteLevel, alone or after one Split(Regex) or Digits; Metaspace, Whitespace and "
        "WhitespaceSplit",
        "export the tokenizer again from where it came",
    )
