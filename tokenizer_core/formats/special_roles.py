"""What special tokens are for: declared, or by a name that means one thing everywhere."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from bpeline.tokenizer_core.errors import InvalidOption, InvalidSpecialToken

MODEL_MAX_LENGTH = "model_max_length"
DECLARED = ("eos", "bos", "pad", MODEL_MAX_LENGTH)
FORMATS_WITH_ROLES = ("transformers", "gguf", "sentencepiece")
_POSITIVE = re.compile("[1-9][0-9]{0,29}")
_NAMES = {
    "bos": ("<s>", "<bos>", "<|begin_of_text|>", "<|startoftext|>", "[BOS]"),
    "eos": ("</s>", "<eos>", "<|end_of_text|>", "<|endoftext|>", "[EOS]"),
    "unk": ("<unk>", "[UNK]", "<|unk|>"),
    "pad": ("<pad>", "[PAD]", "<|pad|>"),
    "cls": ("[CLS]", "<cls>"),
    "sep": ("[SEP]", "<sep>"),
    "mask": ("[MASK]", "<mask>"),
}


def declared_roles(
    spelled: Iterable[str], special_tokens: Collection[str] | None = None
) -> dict[str, str]:
    """``ROLE=TOKEN`` as role → special token, or ``model_max_length`` → digits; the last one wins.

    Args:
        spelled: ``eos=<|endoftext|>``, ``model_max_length=8192``.
        special_tokens: of the tokenizer; None where they are not known yet.

    Raises:
        InvalidOption: another role, or a length that is no positive number.
        InvalidSpecialToken: a role of a text that is no special token.
    """
    roles: dict[str, str] = {}
    for text in spelled:
        role, _, token = text.partition("=")
        is_length = role == MODEL_MAX_LENGTH
        if role not in DECLARED or not token or (is_length and not _POSITIVE.fullmatch(token)):
            raise InvalidOption(
                f"the role {text!r} cannot be used",
                f"expected ROLE=TOKEN, with a role of {', '.join(DECLARED)}",
                "type `--role 'eos=<|endoftext|>'` or `--role model_max_length=8192`",
            )
        if not is_length and special_tokens is not None and token not in special_tokens:
            raise InvalidSpecialToken(
                f"the role {role} is declared for {token!r}, which is no special token here",
                f"special tokens: {', '.join(map(repr, special_tokens)) or 'none'}",
                f"name one of these, or train with `--special-token {token!r}`",
            )
        roles[role] = token
    return roles


def roles_of(
    special_tokens: Collection[str], declared: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Role (``bos``, ``eos``, ``unk``, ``pad``, ``cls``, ``sep``, ``mask``) → special token.

    Those declared win over names, see `declared_roles`.
    """
    by_name = [(role, name) for role, names in _NAMES.items() for name in reversed(names)]
    pairs = [*by_name, *(declared or {}).items()]
    return {role: token for role, token in pairs if token in special_tokens}


def undeclared_roles(
    format: str, special_tokens: Collection[str], declared: Mapping[str, str]
) -> str:
    """Which roles an export took from names, and which it left out; may be empty."""
    roles = roles_of(special_tokens, declared)
    by_name = [f"{role} {token}" for role, token in roles.items() if role not in declared]
    expected = [role for role in DECLARED if role != MODEL_MAX_LENGTH or format == "transformers"]
    missing = [role for role in expected if role not in {**roles, **declared}]
    parts = {"by their names": by_name, "not declared, so left out:": missing}
    text = "; ".join(f"{title} {', '.join(listed)}" for title, listed in parts.items() if listed)
    return f"roles of special tokens: {text} (declare with --role ROLE=TOKEN)" if text else ""
