r"""The regexes behind the names of split patterns and where they were published; runs nothing.

Each is spelled so that ``regex``, Oniguruma (``tokenizers``) and fancy-regex (``tiktoken``) cut
alike, and otherwise as published. ``regex`` decides which characters a class holds.
"""

from __future__ import annotations

# openai/gpt-2 src/encoder.py; tiktoken's r50k_base and p50k_base; ByteLevel of `tokenizers`.
_GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

# tiktoken's cl100k_base in two respects spelled otherwise, so that every engine reads the same:
# `\p{N}{1,3}+` without its plus (nothing follows, so giving back cannot help; Oniguruma reads the
# plus as a repetition), and `\s++$` as `\s++(?!\S)` (behind a possessive run stands no white
# space, so both mean the end of the text; `$` means three different things to three engines).
_CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++(?!\S)|\s*[\r\n]|\s+(?!\S)|\s"
)

# tiktoken_ext/openai_public.py, o200k_base; o200k_harmony and gpt-oss use the same.
_O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# Mistral's tekken.json (v3, v7, v11) and tokenizer.json of Mistral Nemo: o200k without contractions
# and with one number to a pre-token.
_TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WHITE_SPACE = r"|\s*[\r\n]+|\s+(?!\S)|\s+"

# bigcode/starcoder tokenizer.json (SmolLM, Command R and CodeShell have the same): each number is
# cut off first, then gpt2 cuts what lies between. So a text may end before a number.
_STARCODER = r"\p{N}|'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?![^\s\p{N}])|\s+"

# moonshotai/Kimi-K2 tokenization_kimi.py: o200k, but runs of Han are pre-tokens of their own, and
# no slash follows a line break. It says `[…&&[^\p{Han}]]`, which only some engines understand.
_CAPITALS = r"(?:(?!\p{Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
_SMALL = r"(?:(?!\p{Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])"
_KIMI = (
    rf"[\p{{Han}}]+|[^\r\n\p{{L}}\p{{N}}]?{_CAPITALS}*{_SMALL}+{_CONTRACTIONS}?"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{_CAPITALS}+{_SMALL}*{_CONTRACTIONS}?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + _WHITE_SPACE
)
_KIMI_AS_PUBLISHED = (
    r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# meta-llama/Meta-Llama-3-8B tokenizer.json and llama3/tokenizer.py. Where a text ends in white
# space with a line break in it, this cuts behind the break and cl100k does not; else they agree.
_LLAMA3 = (
    _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + _WHITE_SPACE
)

# transformers, tokenization_qwen2.py, PRETOKENIZE_REGEX: Qwen2, Qwen2.5 and Qwen3 share it. One
# digit is one pre-token; else it is Llama 3's.
_QWEN2 = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*" + _WHITE_SPACE

# Qwen/Qwen3.5 tokenizer.json: combining marks are letters.
_QWEN35 = (
    _CONTRACTIONS
    + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
    + _WHITE_SPACE
)

# deepseek-ai/DeepSeek-V3 tokenizer.json cuts three times, each time the pieces of the time before:
#   \p{N}{1,3}    then    [一-龥぀-ゟ゠-ヿ]+    then
#   [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
#   | ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
# Pieces of the first cut are numbers, which the third leaves alone. Pieces of the second are cut
# by the third, which finds among their characters letters and marks, four that are punctuation or
# symbols, and three that are not assigned (and stand before letters, or match nothing). All else
# is cut by the third between them, so a match of it may neither hold nor look at a number or one
# of theirs: both are excluded from its sets, and end a text as far as `\s+(?!\S)` is concerned.
# What it leaves unmatched (control characters and the like) is matched at last, so that nothing
# is lost where an engine forgets what lies between matches (`tiktoken`), and no stretch of it
# goes on from one piece into the next.
_KANA_AND_HAN = "一-龥\u3040-\u30ff"
_THEIR_LETTERS = "[一-龥\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff]"
_THEIR_SYMBOLS = "[\u309b\u309c\u30a0\u30fb]"
_THEIR_OTHERS = "[\u3040\u3097\u3098]"
_LETTERS = rf"[^\p{{N}}\p{{P}}\p{{S}}\p{{Z}}\p{{C}}{_KANA_AND_HAN}]"  # letters and marks
_SYMBOLS = rf"[^\p{{L}}\p{{M}}\p{{N}}\p{{Z}}\p{{C}}{_KANA_AND_HAN}]"
_DEEPSEEK_V3 = (
    r"\p{N}{1,3}"
    rf"|{_THEIR_OTHERS}?{_THEIR_LETTERS}+|{_THEIR_SYMBOLS}+|{_THEIR_OTHERS}+(?!{_THEIR_LETTERS})"
    r"|[!-/:-@\[-`{-~][A-Za-z]+"
    rf"|[^\r\n\p{{L}}\p{{P}}\p{{S}}\p{{N}}{_KANA_AND_HAN}]?{_LETTERS}+"
    rf"| ?{_SYMBOLS}+[\r\n]*"
    rf"|\s*[\r\n]+|\s+(?![^\s\p{{N}}{_KANA_AND_HAN}])|\s+"
    rf"|[^\s\p{{L}}\p{{M}}\p{{N}}\p{{P}}\p{{S}}{_KANA_AND_HAN}]+(?!{_LETTERS})"
)

# What SuperBPE's program cuts at where tokens may hold several words; what lies between is kept.
SUPERWORDS = r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]{2,}[\r\n/]*| +(?!\S)"
# What its published models cut at, and llama.cpp under the name superbpe: `\p{N}+`, and in it
# before so many of 0 to 9 as three divide, to the last of them. What lies between is kept whole.
# How far digits go decides where the first are cut, which no automaton knows in time.
DIGITS_FROM_RIGHT = r"\p{N}+?(?=(?:[0-9]{3})+(?![0-9])|(?!\p{N}))"
LINES_AND_DIGITS = rf"[^\n\p{{N}}]*\n|[^\n\p{{N}}]+|{DIGITS_FROM_RIGHT}"
# Numbers are cut within alone, so text may be cut wherever it may without that: regex → another.
CUTTING_LESS = {
    DIGITS_FROM_RIGHT: r"\p{N}+",
    LINES_AND_DIGITS: r"[^\n\p{N}]*\n|[^\n\p{N}]+|\p{N}+",
}

# Every character of a text is in a pre-token.
NAMED_PATTERNS = {
    "gpt2": _GPT2,
    "cl100k": _CL100K,
    "o200k": _O200K,
    "tekken": _TEKKEN,
    "llama3": _LLAMA3,
    "qwen2": _QWEN2,
    "qwen3.5": _QWEN35,
    "deepseek-v3": _DEEPSEEK_V3,
    "kimi": _KIMI,
    "starcoder": _STARCODER,
}
# What lies between pre-tokens is dropped: white space (as Unicode has it; as `str.split` of Python
# has it; as subword-nmt has it, which cuts lines at U+0020 alone). NLTK's `wordpunct_tokenize`.
DROPPING_PATTERNS = {
    "whitespace": r"\S+",
    "str-split": r"[^\s\x1c-\x1f]+",
    "spaces": r"[^ \r\n]+",
    "wordpunct": r"\w+|[^\w\s]+",
}
# Several published tokenizers, one pattern.
SAME_PATTERNS = {"qwen2.5": "qwen2", "qwen3": "qwen2", "llama4": "o200k", "glm4": "llama3"}

OTHER_SPELLINGS = {
    _KIMI_AS_PUBLISHED: "kimi",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+": "gpt2",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?[\p{L}]+| ?[\p{N}]+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+": "gpt2",
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s": "gpt2",
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s": "cl100k",
}
