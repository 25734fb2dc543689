"""Texts without spaces between words, and what segmenters make of them in this very process."""

from __future__ import annotations

import functools
import importlib.util
import random
import re
import tempfile
import warnings
from typing import Any

import pytest

needs_jieba = pytest.mark.skipif(
    importlib.util.find_spec("jieba") is None, reason="pip install 'bpeline[chinese]'"
)
needs_sudachi = pytest.mark.skipif(
    importlib.util.find_spec("sudachipy") is None, reason="pip install 'bpeline[japanese]'"
)

CHINESE = (
    "我们今天早上在北京大学的图书馆里读了一本关于语言模型的书。",
    "小明硕士毕业于中国科学院计算所，后来去了上海工作！",
    "他说：“明天会下雨吗？”她回答说不会。",
    "这种新型tokenizer的压缩率是3.14%，比gpt-2高得多……",
    "南京市长江大桥建成于一九六八年；韩玉鉴赏与龘靐齉爩。",
)
JAPANESE = (
    "私は昨日、東京都の国立国会図書館で言語モデルについての本を読みました。",
    "国家公務員の友人は「明日は雨が降るでしょう」と言った。",
    "新しいトークナイザーは圧縮率が3.14%も高い！本当ですか？",
    "すもももももももものうち、ｶﾀｶﾅと㍿とﷺも。",
)


def text_of(sentences: tuple[str, ...], number: int, seed: int = 1) -> str:
    """So many of the sentences, in paragraphs, with some text in other scripts between them."""
    generator = random.Random(seed)
    gaps = ["", "", "\n", "\r\n", " ", "  ", "\t", " hello world ", "\u3000", "é\u0301😀", "\r"]
    return "".join(generator.choice([*sentences, *sentences, *gaps]) for _ in range(number))


@functools.cache
def _jieba() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import jieba

        jieba.setLogLevel(60)
        tokenizer = jieba.Tokenizer()
        with tempfile.TemporaryDirectory() as directory:
            tokenizer.tmp_dir = directory
            tokenizer.initialize()
    return tokenizer


@functools.cache
def _sudachi(mode: str) -> Any:
    from sudachipy import Dictionary, SplitMode

    return Dictionary(dict="core").tokenizer(mode=SplitMode.C if mode == "C" else SplitMode.A)


def segments_of(text: str, name: str) -> list[str]:
    """The segments as the library itself gives them, to whoever calls it on each line."""
    if name.startswith("jieba"):
        return list(_jieba().cut(text, HMM=name == "jieba"))
    tokenizer = _sudachi("A" if name == "sudachi-a" else "C")
    segments: list[str] = []
    for piece in filter(None, re.split(r"(\r\n|\r|\n)", text)):
        if piece[0] in "\r\n":
            segments.append(piece)
        else:
            segments += filter(None, (one.surface() for one in tokenizer.tokenize(piece)))
    return segments
