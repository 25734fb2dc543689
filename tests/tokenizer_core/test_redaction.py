"""Nobody sees a secret: addresses and passwords however they are spelt, and its own."""

from __future__ import annotations

import base64
import io
import json
import logging
from urllib.parse import quote

import pytest

from bpeline.tokenizer_core.errors import InvalidOption, RegistryError
from bpeline.tokenizer_core.redaction import (
    TextWithoutControls,
    TextWithoutSecrets,
    Unescaped,
    hide_in_errors,
    hide_in_logs,
    holds_secret,
    in_one_line,
    tell_secrets_of,
    without_secrets,
)
from bpeline.tokenizer_core.urls import refuse_secrets_in

SPELLINGS = [
    "postgresql+psycopg://admin@srv:hunter2@127.0.0.1:9/m",
    "postgresql://u:2024/hunter2@127.0.0.1:9/m",
    "https://hunter2@host",
    "https://hunter2@host/path",
    "https://hunter2:x-oauth-basic@github.example/x",
    "postgresql+psycopg://user:hunter2@host:5432/name",
    "at https://user:hunter2@host, or elsewhere",
    "ftp://user:with/slash-hunter2@host/a",
    "postgresql://user:has@sign-hunter2@host/a",
    "postgresql://:hunter2@host/a",
    "postgresql://u:a:hunter2:b@host/a",
    "postgresql://u:a#hunter2@host/a",
    "postgresql://u:a?hunter2@host/a",
    "postgresql://u:12?hunter2@host/a",
    "postgresql://u:12#hunter2@host/a",
    "postgresql://u:my hunter2@host/a",
    "postgresql://my user:hunter2@host/a",
    "postgresql://u:p%40hunter2%2F@host/a",
    "postgresql://u:hunter2@[::1]:5432/a",
    "postgresql://u:hunter2@[fe80::1%25eth0]/a",
    "postgresql://u:hunter2@h1:5432,h2:5432/a",
    "http://a:80 and http://u:hunter2@h and http://v:hunter2@h",
    "http://a:80,http://u:hunter2@h,http://v:hunter2@h",
    "'postgresql://u:it's-hunter2@h/a'",
    '("mysql://u:hunter2@h/a")',
    "<redis://:hunter2@h:6379/0>",
    "[amqp://u:hunter2@h//]",
    '{"uri": "https://u:hunter2@h/x", "b": 1}',
    "{'uri': 'https://u:hunter2@h/x', 'b': 1}",
    '{"uri": "https://h/x?token=hunter2", "b": 1}',
    '{\\"uri\\": \\"https://u:hunter2@h\\"}',
    "postgresql://host/name?user=u&password=hunter2",
    "postgresql://host/name?sslpassword=hunter2&user=u",
    "postgresql:///name?host=h&user=u&password=hunter2#x",
    "https://host/a?X-Amz-Credential=hunter2&X-Amz-Signature=hunter2",
    "https://bucket.s3.amazonaws.com/k?X-Amz-Security-Token=hunter2&x=1",
    "https://host/a?sig=hunter2",
    "https://host/cb#access_token=hunter2",
    "mssql+pyodbc:///?odbc_connect=PWD%3Dhunter2",
    "host=h port=5 user=u password=hunter2 dbname=m",
    "user=u password='it\\'s hunter2' host=h",
    "user=u password = 'a hunter2' host=h",
    "Password: hunter2",
    '{"password": "hunter2", "user": "u"}',
    '{"db/password": "hunter2"}',
    "zip://u:hunter2@h/a.txt::file:///x.zip",
    "{'password': 'hunter2', 'user': 'u'}",
    '{\\"password\\": \\"hunter2\\"}',
    "Authorization: Bearer hunter2-abcdefgh",
    "Authorization: Basic aHVudGVyhunter2==",
    "{'Authorization': 'Basic hunter2hunter2'}",
    "[(b'authorization', b'Bearer hunter2hunter2')]",
    "x-api-key: hunter2",
    "PREFECT_API_KEY=hunter2 bpeline train",
    "MLFLOW_TRACKING_PASSWORD=hunter2",
    "HF_TOKEN=hunter2",
    "aws_secret_access_key = hunter2/abc+def",
    "uri=postgresql%3A%2F%2Fu%3Ahunter2%40host%2Fm",
    "could not parse 'postgresql://u:hunter2'",
    "POSTGRESQL://U:hunter2@HOST/M",
    "s3://AKIA:hunter2@bucket/a",
    "sftp://u:hunter2@h/a",
    "https://user:80/hunter2@host/a",
    "https://user:80hunter2@host/a",
    "HTTPConnectionPool(host='h', port=80): failed with url: /a?token=hunter2 (Caused by x)",
    "abfs://container:hunter2@account/a",
    "snowflake://u:p@ss hunter2@acc/db",
    "postgresql://u:80)hunter2@h/a",
    "postgresql://u:80,hunter2@h/a",
    'postgresql://u:80"hunter2@h/a',
    "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=hunter2==;EndpointSuffix=x",
    "a ('password': b'hunter2') x",
    "password='hunter2",
]

OTHERS = [
    "s3://bucket/keys/a*.txt",
    "s3://bucket/a@b.txt",
    "http://127.0.0.1:5000/#/models/news@champion and mail@example.org",
    "http://mlflow:5000/#/models/news@champion",
    "https://host/a?versionId=3&keys=2",
    "/home/user:name@host",
    "sqlite:////a/b.sqlite",
    "sqlite:////home/u@host/b:c.sqlite",
    "file:///a/b@c:d.txt",
    "models:/news@champion",
    "http://127.0.0.1:4200/api",
    "the server at http://[::1]:5000 does not answer; write to joe@example.org",
    "see (https://example.org/a), or 'http://h:80', \"http://h:80/x\": mail@x",
    "abfs://container@account.dfs.core.windows.net/a",
    "postgresql://host/name",
    "special token: <|endoftext|> token=5",
    'FATAL: password authentication failed for user "admin"',
    "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD",
    "type `bpeline train --name news --vocab-size 300`",
    '{"uri": "http://h:5000/", "mail": "x@y"}',
    "accepted is postgresql+psycopg://user@host/name",
    "files cannot be read from s3://bucket/secret: Install s3fs",
    "/data/password.txt: permission denied",
    "zip://a.txt::file:///x.zip cannot be read",
    "tar://*.txt::https://host/x.tar",
]


@pytest.mark.parametrize("text", SPELLINGS)
def test_secrets_are_hidden(text: str) -> None:
    for around in ("{}", "cannot open {}", "({})", "{}, or elsewhere", "first\n{}\nlast"):
        shown = without_secrets(around.format(text))
        assert "hunter2" not in shown
        assert "***" in shown
        assert without_secrets(shown) == shown


@pytest.mark.parametrize("text", OTHERS)
def test_everything_else_stays(text: str) -> None:
    assert without_secrets(text) == text


def test_the_host_stays() -> None:
    shown = without_secrets("postgresql+psycopg://admin@srv:S3cret@127.0.0.1:9/m")
    assert shown == "postgresql+psycopg://***@127.0.0.1:9/m"


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("MLFLOW_TRACKING_URI", "postgresql://u:my/pa@ss w0rd@h/m", "my/pa@ss w0rd"),
        ("MLFLOW_TRACKING_URI", "https://ghp_0123abcd@h", "ghp_0123abcd"),
        ("BPELINE_CATALOGUE_URL", "postgresql://u:pa%2Fss%20w0rd@h/m", "pa/ss w0rd"),
        ("BPELINE_CATALOGUE_URL", "postgresql://h/m?user=u&password=pa%2Fssw0rd", "pa/ssw0rd"),
        ("MLFLOW_TRACKING_PASSWORD", "pa'ss w0rd", "pa'ss w0rd"),
        ("MLFLOW_TRACKING_TOKEN", "0123abcd", "0123abcd"),
        ("PREFECT_API_KEY", "pnu_0123abcd", "pnu_0123abcd"),
        ("PREFECT_API_AUTH_STRING", "admin0:pa:ssw0rd", "pa:ssw0rd"),
        ("PREFECT_API_URL", "https://u:pa#ssw0rd@h/api", "pa#ssw0rd"),
        ("FSSPEC_FTP_PASSWORD", "pa:ssw0rd", "pa:ssw0rd"),
        ("AWS_SECRET_ACCESS_KEY", "abc/def+ghi", "abc/def+ghi"),
    ],
)
def test_what_the_environment_keeps_secret_is_hidden_wherever_it_stands(
    name: str, value: str, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"<{secret}> {quote(secret, safe='')} {secret!r} {json.dumps({'a': secret})}"
    assert secret in without_secrets(text)
    monkeypatch.setenv(name, value)
    shown = without_secrets(text)
    for spelt in (secret, quote(secret, safe=""), repr(secret)[1:-1], json.dumps(secret)[1:-1]):
        assert spelt not in shown


def test_a_header_made_of_a_known_address_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://u:pa55w0rd@h")
    sent = base64.b64encode(b"u:pa55w0rd").decode()
    assert without_secrets(f"sent {sent}") == "sent ***"


def test_an_ordinary_word_or_a_part_of_the_address_hides_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BPELINE_CATALOGUE_URL", "postgresql://bpeline:bpeline@db/bpeline")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "postgresql://tracking:tracking@db/tracking")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    text = "type `bpeline resume`; the database tracking; false"
    assert without_secrets(text) == text


def test_secrets_of_a_program_are_known_when_told() -> None:
    assert without_secrets("t0ld-of-it is it") == "t0ld-of-it is it"
    tell_secrets_of("postgresql://u:t0ld-of-it@h/m")
    assert without_secrets("t0ld-of-it is it") == "*** is it"


def test_our_errors_hold_none() -> None:
    error = RegistryError("at https://u:hunter2@h", "password=hunter2", "type https://hunter2@h")
    assert "hunter2" not in f"{error} {error.happened} {error.accepted} {error.next_step}"


def test_an_error_is_replaced_only_when_it_holds_a_secret() -> None:
    with pytest.raises(KeyError), hide_in_errors():
        raise KeyError("plain")
    shown = r"ValueError: at https://\*\*\*@h"
    with pytest.raises(RuntimeError, match=shown) as found, hide_in_errors():
        raise ValueError("at https://u:hunter2@h")
    assert found.value.__suppress_context__
    ours = RegistryError("it does not answer")
    with pytest.raises(RegistryError) as kept, hide_in_errors():
        raise ours from ValueError("at https://u:hunter2@h")
    assert kept.value is ours
    assert ours.__cause__ is None


def test_logs_hold_none(caplog: pytest.LogCaptureFixture) -> None:
    before = logging.getLogRecordFactory()
    hide_in_logs()
    try:
        log = logging.getLogger("of.somebody.else")
        log.warning("cannot reach %s", "https://u:hunter2@h \x1b]0;x\a")
        try:
            raise ValueError("at https://u:hunter2@h \u202e")
        except ValueError:
            log.exception("it failed")
    finally:
        logging.setLogRecordFactory(before)
    assert "cannot reach https://***@h" in caplog.text
    assert "ValueError: at https://***@h" in caplog.text
    assert "hunter2" not in caplog.text
    assert not set("\x1b\a\u202e") & set(caplog.text)


def test_a_stream_sends_its_own_controls_and_shows_all_others() -> None:
    for kind in (TextWithoutControls, TextWithoutSecrets):
        stream = kind(io.BytesIO(), "utf-8")
        Unescaped(stream).write("\x1b[31m")
        stream.write("\x1b[0m\x9b\u202e\u200f\t\n")
        stream.flush()
        assert stream.buffer.getvalue().decode() == "\x1b[31m\\u001b[0m\\u009b\\u202e\u200f\t\n"
    assert in_one_line("a\n\tb") == r"a\u000a\u0009b"
    assert str(RegistryError("\x1b", "\x9b")) == "\\u001b\n\\u009b"
    with pytest.raises(RuntimeError, match=r"\\u001b"), hide_in_errors():
        raise ValueError("\x1b")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("s3://bucket/a@b.txt", False),
        ("sftp://user@host/a", False),
        ("ftp://user:word@host/a", True),
        ("https://token@host/a", True),
        ("sftp://user@host/a?token=x", True),
        ("abfs://container@account/a", False),
    ],
)
def test_which_addresses_may_be_kept(url: str, expected: bool) -> None:
    assert holds_secret(url) is expected


@pytest.mark.parametrize(
    "value", ["s3://k:word@b/a", "english=s3://k:word@b/a", "place=https://token@h"]
)
def test_parameters_with_secrets_are_refused(value: str) -> None:
    with pytest.raises(InvalidOption, match=r"\*\*\*@"):
        refuse_secrets_in({"name": "news", "paths": ["a.txt", (value,)]})


def test_what_only_looks_like_an_address_may_be_sent() -> None:
    refuse_secrets_in({"pattern": r"(https?://\S+:\S+@)|\w+", "vocab_size": 300, "paths": ["a@b"]})
