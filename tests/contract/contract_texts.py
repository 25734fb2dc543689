"""The texts of the contract: small, of many scripts, the same for ever."""

from __future__ import annotations

import random

_WORDS = {
    "english": "the low lower lowest new newer newest wide wider widest river, road. It's don't "
    "we'll tokenizer tokens training trained and of to in is that for with as was on",
    "german": "der die das und nicht Straße größer Übermut Käse, zwölf. Donaudampfschiff über für "
    "schön Maß weiß süß ändern öffnen",
    "russian": "и в не на что слово слова словами, город. городов русский текст ещё объём",
    "chinese": "我们 的 学习 语言 模型 ， 今天 天气 很 好 。 词 表 训练 中文",
    "japanese": "これは 日本語 の 文 です 。 トークン 学習 する カタカナ ひらがな",
    "hindi": "नमस्ते दुनिया भाषा शब्द और यह है में",
    "code": "def return self.value = 123 + 4567; if (x != None): \n\treturn {'key': [1, 2.5]} # to",
    "other": "café cafe\u0301 ﬁne İi ſ 👩\u200d👧 🇺🇳 \u00a0 \u3000 \r\n 'Tis 'LL ½ ² ٣ Ⅷ _x_ ...",
}
LANGUAGES = tuple(_WORDS)


def contract_text(languages: tuple[str, ...] = LANGUAGES, words: int = 160, seed: int = 1) -> str:
    """Words of some languages by turns, frequent ones first, in lines of a dozen."""
    choice = random.Random(seed)
    parts = []
    for language in languages:
        listed = _WORDS[language].split(" ")
        weights = [1 / (place + 2) for place in range(len(listed))]
        chosen = choice.choices(listed, weights, k=words)
        parts.append("\n".join(" ".join(chosen[at : at + 12]) for at in range(0, words, 12)))
    return "\n\n".join(parts) + "\n"


ENCODED = (
    *("", " ", "  two  spaces\n\n", "low lower lowest newest widest.", "It's 12345 we'LL don't"),
    *(
        "Straße größer, Übermut!",
        "слова городов ещё",
        "我们的学习，今天天气很好。",
        "日本語のトークン",
    ),
    *(
        "日本語のトークン",
        "नमस्ते दुनिया",
        "def f(x):\n\treturn {'key': [1, 2.5]}",
        "cafe\u0301 café ﬁne İi ſ",
    ),
    *("👩\u200d👧🇺🇳\u00a0\u3000\r\n", "a<|end|>b", "unseen Wörter ωμέγα 𝒳 \x00\x7f"),
)
"""What is encoded by every tokenizer of the contract."""
