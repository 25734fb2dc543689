"""Special tokens in text: ordinary unless allowed, refused where the caller wants it so."""

from __future__ import annotations

import pytest

from bpeline.tokenizer_core.errors import InvalidOption, InvalidSpecialToken
from bpeline.tokenizer_core.tokenizer import Tokenizer

END = "<|endoftext|>"


def test_special_tokens_are_ordinary_text_unless_allowed(tokenizer: Tokenizer) -> None:
    specials = tokenizer.special_tokens
    text = "x<|endoftext|>y<|a|><|b|><|a|>"
    assert not set(specials.values()) & set(tokenizer.encode(text))
    by_id = {id_: token for token, id_ in specials.items()}

    def found(allowed: str | set[str]) -> list[str]:
        return [by_id[i] for i in tokenizer.encode(text, allowed) if i in by_id]  # type: ignore[arg-type]

    assert found("all") == [END, "<|a|><|b|>", "<|a|>"]
    assert found({"<|a|>"}) == ["<|a|>", "<|a|>"]
    assert found(set()) == []
    for nested in ("<|endof<|endoftext|>text|>", "<|endoftext|", "<|endoftext|>" * 3):
        assert not set(specials.values()) & set(tokenizer.encode(nested))
        assert tokenizer.decode(tokenizer.encode(nested)) == nested
        assert tokenizer.decode(tokenizer.encode(nested, "all")) == nested


def test_forbidden_special_tokens_are_refused_with_the_ways_out(tokenizer: Tokenizer) -> None:
    for encode in (
        lambda: tokenizer.encode("a<|a|>", on_special="error"),
        lambda: tokenizer.encode("a<|a|>", {END}, on_special="error"),
        lambda: tokenizer.encode_batch(["ok", "a<|a|>"], on_special="error"),
        lambda: list(tokenizer.encode_iterable(["a<|", "a|>"], on_special="error")),
        lambda: tokenizer.encode_to_numpy(b"a<|a|>", on_special="error"),
    ):
        with pytest.raises(InvalidSpecialToken, match=r"<\|a\|>") as refused:
            encode()
        assert "allowed_special" in refused.value.next_step
        assert "on_special='text'" in refused.value.next_step
    assert tokenizer.encode("plain", on_special="error") == tokenizer.encode("plain")
    allowed = tokenizer.encode("a<|a|>", {"<|a|>"}, on_special="error")
    assert allowed[-1] == tokenizer.special_tokens["<|a|>"]


def test_a_policy_that_makes_no_sense_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(InvalidOption, match="allowed_special"):
        tokenizer.encode("a", END)
    with pytest.raises(InvalidSpecialToken, match="<no>"):
        tokenizer.encode("a", {"<no>"})
    with pytest.raises(InvalidOption, match="on_special"):
        tokenizer.encode("a", on_special="ignore")  # type: ignore[arg-type]
