"""In which encoding a text may be that is not UTF-8, and how sure that is; reads nothing."""

from __future__ import annotations

import codecs
import re

_SAMPLE = 1 << 16  # bytes
_FEW = 20  # characters beyond ASCII, which tell less than more of them do
_SHOWN = 24
_CHINESE = "的一是不了在人有我他中大上到"
_ALONE = r"(?<![^\0-\x7f])"  # between letters of ASCII
# Encodings as Python and `iconv` call them; characters beyond ASCII that are frequent in texts in
# them, and the share of these that such texts have at least, as a rule.
_FREQUENT = {
    "CP1252": (f"{_ALONE}[à-öø-ÿß‘’“”–—…«»€°]", 0.7),
    "CP1250": (f"{_ALONE}[áâăäąćčçďđéęëěíîľłńňóôőöŕřśšşßťţúůűüýźžż„”–—…]", 0.7),
    "CP1251": ("[а-яё]", 0.7),
    "KOI8-R": ("[а-яё]", 0.7),
    "CP1253": ("[ά-ώ]", 0.7),
    "CP932": ("[ぁ-ー、。]", 0.3),
    "EUC-JP": ("[ぁ-ー、。]", 0.3),
    "CP949": ("[가-힣]", 0.7),
    "GB18030": (f"[{_CHINESE}这来国个说们]", 0.1),
    "BIG5": (f"[{_CHINESE}這來國個說們]", 0.1),
}


def likely_encoding(content: bytes, at: int) -> tuple[str, str]:
    """In which encoding a text is that is not UTF-8, and what to say of it.

    Args:
        content: some of it, from the beginning of a character on.
        at: where it is not UTF-8.

    Returns:
        ``UTF-8`` where only some bytes are damaged, another name, or empty where none fits.
    """
    sample = content[max(0, at - _SAMPLE // 2) : at + _SAMPLE // 2]
    sample = sample[sample.find(b"\n") + 1 if at > _SAMPLE // 2 else 0 :]
    shown = f"the bytes {content[at : at + 8].hex(' ')} are"
    read = sample.decode(errors="replace")
    if sum(one > "\x7f" for one in read) > 2 * read.count("\ufffd"):
        return "UTF-8", f"{shown} damaged in a text that is UTF-8 elsewhere"
    likelihoods = {name: _likelihood(sample, name) for name in _FREQUENT}
    encoding = max(likelihoods, key=lambda name: likelihoods[name])
    likelihood = likelihoods[encoding]
    if likelihood < 0.5:
        return "", f"{shown} of no encoding that is known here"
    several = len(sample) - len(sample.translate(None, bytes(range(128, 256)))) >= _FEW
    sure = "very likely" if several and likelihood >= 1 else "perhaps"
    begin = content.rfind(b"\n", max(0, at - _SHOWN), at) + 1 or max(0, at - _SHOWN)
    says = content[begin : at + _SHOWN].decode(encoding, "ignore").strip().split("\n")[0]
    return encoding, f"{shown} {sure} {encoding}, in which it says {says!r}"


def _likelihood(sample: bytes, encoding: str) -> float:
    """How many characters of a text are what they should be; 1 for enough of them."""
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(sample)
    except UnicodeDecodeError:
        return 0.0
    frequent, share = _FREQUENT[encoding]
    others = sum(one > "\x7f" for one in text)
    return len(re.findall(frequent, text)) / (share * max(1, others))
