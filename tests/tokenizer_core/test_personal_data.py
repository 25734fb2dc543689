"""What the screen finds, what it lets pass, and how long 100,000 tokens take it."""

from __future__ import annotations

import time

import pytest

from bpeline.tokenizer_core.vocabulary.personal_data import (
    KINDS,
    MEANINGS,
    kind_of,
    suspicious_tokens,
)

FOUND = {
    "email": [
        "john.doe@example.com", " contact: a_b+c@mail.example.co.uk", "jürgen@müller.de",
        "<me@here.org>",
    ],
    "key": [
        "AKIAIOSFODNN7EXAMPLE", " ghp_16C7e42F292c6912E7", "xoxb-2345-abcdef", "sk_live_4eC39HqL",
        "-----BEGIN RSA PRIVATE", "eyJhbGciOiJIUzI1NiJ9", "MIIEowIBAAKCAQEA7",
        "wJalrXUtnFEMI7K7MDENGbPx", "9f86d081884c7d659a2feaa0c55ad015", "AIzaSyA1b2C3d4E5",
    ],
    "phone": [
        "+49 30 1234567", "+442079460958", "(212) 555-0187", "030 123 45 67 89", "2125550187",
        "01.42.68.53.00",
    ],
    "card": ["4012888888881881", "5425233430109903", "4000-0566-5566-5556", " 378282246310005"],
}  # fmt: skip
PASSED = [
    "", "hello", "internationalization", "getElementsByTagName", "supercalifragilistic",
    "0123456789", "1234567890", "0000000000", "1000000000", " 2147483647", "4294967296",
    "192.168.100.200",
    "2024-01-15", "2024-01-15 12:30:45", "3.14159265358979", "4111111111111112",
    "aaaaaaaaaaaaaaaaaaaaaaaa", "----------------", "================", "0x0000000000000000",
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz0123456789", "test_case_number_12345",
    "https://www.example.org/", "@property", "@example", "user@", "@staticmethod",
    "________________", "PyUnicode_FromStringAndSize", "sha256", "0xdeadbeef", "IPV6_ADDRESS_2001",
    " keyboard",
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "token"), [(kind, token) for kind, tokens in FOUND.items() for token in tokens]
)
def test_what_looks_like_personal_data_is_found(kind: str, token: str) -> None:
    assert kind_of(token.encode()) == kind


@pytest.mark.parametrize("token", PASSED)
def test_ordinary_tokens_pass(token: str) -> None:
    assert kind_of(token.encode()) is None


def test_fragments_of_characters_do_not_stop_the_screen() -> None:
    assert kind_of(b"\xe2\x80john.doe@example.com\xff") == "email"
    assert kind_of(b"\xff" * 40) is None


def test_ids_and_order_are_kept_and_every_kind_is_explained() -> None:
    tokens = [(7, b"plain text"), (300, b"a.b@example.com"), (12, b"AKIAIOSFODNN7EXAMPLE")]
    found = suspicious_tokens(tokens)
    assert [(one.id, one.kind) for one in found] == [(300, "email"), (12, "key")]
    assert set(MEANINGS) == set(KINDS) == set(FOUND)


def test_python_s_own_source_text_raises_no_alarm(english_and_code: str) -> None:
    words = sorted({word for word in english_and_code.split() if word.isidentifier()})
    assert len(words) > 5_000
    found = suspicious_tokens((at, word.encode()) for at, word in enumerate(words))
    assert len(found) <= len(words) / 1000, [one.token for one in found]


def test_it_is_quick() -> None:
    tokens = [(at, f" token number {at:,} of many".encode()) for at in range(20_000)]
    begun = time.process_time()
    suspicious_tokens(tokens)
    assert time.process_time() - begun < 5  # 0.1 s on the machine this was written on
