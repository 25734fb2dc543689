"""What special tokens are for, told from the names they usually have: other tools ask for it.

Only names that mean one thing everywhere are known; a tokenizer with others leaves the role open,
and whoever uses it says which token it is.
"""

from __future__ import annotations

from collections.abc import Iterable

_NAMES = {
    "bos": ("<s>", "<bos>", "<|begin_of_text|>", "<|startoftext|>", "[BOS]"),
    "eos": ("</s>", "<eos>", "<|end_of_text|>", "<|endoftext|>", "[EOS]"),
    "unk": ("<unk>", "[UNK]", "<|unk|>"),
    "pad": ("<pad>", "[PAD]", "<|pad|>"),
    "cls": ("[CLS]", "<cls>"),
    "sep": ("[SEP]", "<sep>"),
    "mask": ("[MASK]", "<mask>"),
}


def roles_of(special_tokens: Iterable[str]) -> dict[str, str]:
    """Role (``bos``, ``eos``, ``unk``, ``pad``, ``cls``, ``sep``, ``mask``) → special token."""
    known = set(special_tokens)
    found: dict[str, str] = {}
    for role, names in _NAMES.items():
        for name in names:
            if name in known:
                found.setdefault(role, name)
    return found
