"""Hide passwords, keys, tokens and control characters in displayed text.

Secrets are found in two ways: by position, such as between scheme and host of a URL, in a query
parameter or after ``password=``; and by value, from environment variables of this process.
Ambiguous text is hidden.
"""

from __future__ import annotations

import base64
import io
import json
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, unquote, unquote_plus

HIDDEN = "***"
_EXAMPLES = ("user@host", "HOST:PORT")  # placeholders in error messages

_SCHEME = re.compile(r"(?<![a-zA-Z0-9])([a-zA-Z][a-zA-Z0-9+.-]{0,40})://")
_HOST = r"(?:\[[0-9a-fA-F:.%]*\]|[^\s:/?#@\[\]\"'`,;()<>{}\\]*)(?::\d{1,5})?"
_PLAIN = re.compile(_HOST)
# What may follow a URL in a sentence or list.
_ENDS = re.compile(r"[.,;:!?)\]}>]*(?:\s|$)|(?:,|::)(?=[a-zA-Z][a-zA-Z0-9+.-]{0,40}://)")
_SPELT_IN_WORDS = re.compile(r"[\w.%-]+(?: [\w.%-]+){1,3}:[^\n]*@")
_MAYBE_HOST = re.compile(r"(?:\[|localhost\b|[\w-]+(?:\.[\w-]+)+)")
_QUOTES = "\"'`"
# Schemes of file stores, whose paths often contain @ and :.
_FILES = {
    "s3", "s3a", "gs", "gcs", "az", "adl", "abfs", "abfss", "wasb", "wasbs", "hdfs", "webhdfs",
    "file", "memory", "local", "oss", "r2", "hf",
}  # fmt: skip
_CONTAINERS = {"abfs", "abfss", "wasb", "wasbs"}  # CONTAINER@ACCOUNT is not a user name
_PAGES = {"http", "https"}
# Schemes where a user name alone is not a credential.
_NAMED_USERS = {"sftp", "ssh", "ftp", "ftps", "hdfs", "webhdfs", "smb"}

_QUERY_NAME = (
    r"(?:password|passwd|passphrase|pwd|secret|token|signature|credential|odbc_connect|auth"
)
_MEMBER = re.compile(
    rf"([?&#][^=&\s]{{0,60}}?{_QUERY_NAME}|sig(?==)|key(?==)|pass(?==)|sas(?==))[^=&\s]{{0,60}}=)"
    r"(?:[^&\s]+?)(?=&|[.,;!?)\]}>\"'`]*(?:\s|$)|[\"'`][,)\]}:])",
    re.IGNORECASE,
)
# A quoted value, without its quotes, or the text up to the next space.
_VALUE = (
    r"(?:(?P<quote>\\?[\"'])(?:(?!(?P=quote))(?:\\.|[^\\\n]))*|"
    r"\S+?(?=[\"')\]}>`]*[,;.]?(?:\s|$)))"
)
_ASSIGNED = re.compile(
    r"((?<![\w.?&-])[\w.-]*(?:password|passwd|passphrase|pwd|secret|api[_-]?key|access[_-]?key|"
    r"private[_-]?key|account[_-]?key|auth[_-]?string|connection[_-]?string|"
    r"(?:access|auth|bearer|session|refresh|security|tracking)[_-]?token)"
    rf"[\w.-]*\\?[\"']?\s{{0,3}}[=:]\s{{0,3}}(?:b(?=[\"']))?){_VALUE}",
    re.IGNORECASE,
)
_VARIABLE = re.compile(rf"(\b[A-Z0-9_]+_(?:TOKEN|KEY|PASS)=){_VALUE}")
_HEADER = re.compile(
    r"((?:authorization|x-api-key|cookie)\\?[\"']?\s{0,3}[=:,]\s{0,3}(?:b(?=[\"']))?\\?[\"']?)[^\n\"'\\]+",
    re.IGNORECASE,
)
_SCHEME_OF_HEADER = re.compile(
    r"\b(Bearer|Basic|Digest|AWS4-HMAC-SHA256)\s+(?=\S{8})[^\s\"'<>)\]}]+"
)
_ENCODED = re.compile(r"(%3A%2F%2F)[^\s&\"']*(%40)", re.IGNORECASE)

_SECRET_VARIABLE = re.compile(
    r"PASSWORD|PASSWD|PASSPHRASE|SECRET|(?:^|_)TOKEN(?:_|$)|API_?KEY|ACCESS_KEY$|ACCOUNT_KEY|"
    r"PRIVATE_KEY|AUTH_STRING|AUTHORIZATION|CONNECTION_STRING|CLIENT_CUSTOM_HEADERS|SAS_TOKEN"
)
_NAMES_A_PLACE = re.compile(r"(?:_FILE|_PATH|_DIR|_URL|_URI|_ID|_NAME|_SECONDS|_TIMEOUT)$")
_SHORTEST = 4  # characters; shorter secrets are not searched for by value
_INSIDE_OF_WORDS = 8  # characters; shorter alphanumeric secrets must be whole words
# Common words: hiding them everywhere would make messages unreadable, and they are no secrets.
_ORDINARY = {
    "bpeline", "mlflow", "prefect", "postgres", "postgresql", "sqlite", "admin", "root", "user",
    "true", "false", "none", "null", "localhost", "http", "https", "password", "secret", "basic",
}  # fmt: skip

# Control characters, line separators and marks that change the text direction.
_CONTROLS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)  # except tab, \n, U+200E, U+200F and U+061C
_LINES = re.compile(r"[\t\n]")

_told: set[str] = set()
_unescaped: ContextVar[bool] = ContextVar("unescaped", default=False)


def without_controls(text: str) -> str:
    """Show control characters as ``\\u001b`` (valid in JSON), except tabs and line feeds."""
    return _CONTROLS.sub(_escape, text)


def in_one_line(text: str) -> str:
    """Like `without_controls`, but also escape tabs and line feeds."""
    return _LINES.sub(_escape, without_controls(text))


def as_message(text: str) -> str:
    """Remove secrets and control characters, for messages, logs and errors."""
    return without_controls(without_secrets(text))


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def without_secrets(text: str) -> str:
    """Hide secrets in URLs, assignments and headers, and known secrets.

    Idempotent. Linear in the length, except for lines with many URLs.
    """
    secrets = _known_secrets()
    if secrets is not None:
        text = secrets.sub(HIDDEN, text)
    if "://" in text:
        text = _without_users(text)
    text = _MEMBER.sub(rf"\1{HIDDEN}", text)
    text = _ENCODED.sub(rf"\1{HIDDEN}\2", text)
    text = _HEADER.sub(rf"\1{HIDDEN}", text)
    text = _SCHEME_OF_HEADER.sub(rf"\1 {HIDDEN}", text)
    text = _ASSIGNED.sub(_hide_value, text)
    return _VARIABLE.sub(_hide_value, text)


def _hide_value(found: re.Match[str]) -> str:
    is_path = found.string[found.start() - 1 : found.start()] == "/"
    if is_path and found[1].endswith(": ") and not found["quote"]:
        return found[0]  # the value is a message about the path
    return f"{found[1]}{found['quote'] or ''}{HIDDEN}"


def holds_secret(url: str) -> bool:
    """Return whether a URL must not be stored; user names of file stores may be."""
    shown = without_secrets(url)
    if shown == url:
        return False
    scheme, _, rest = url.partition("://")
    user, _, place = rest.partition("@")
    only_named = scheme.lower() in _NAMED_USERS and not set(user) & set(":/?#")
    return not only_named or without_secrets(f"{scheme}://{place}") != f"{scheme}://{place}"


@contextmanager
def hide_in_errors() -> Iterator[None]:
    """Replace exceptions whose text or cause has secrets or control characters."""
    try:
        yield
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None and as_message(str(cause)) == str(cause):
            cause = cause.__cause__ or cause.__context__
        if cause is None:
            raise
        if as_message(str(error)) != str(error):
            message = f"{type(error).__name__}: {as_message(str(error))}"
            raise RuntimeError(message) from None
        error.__cause__, error.__context__ = None, None
        raise


def hide_in_logs() -> None:
    """Hide secrets and control characters in all log records and tracebacks."""
    before = logging.getLogRecordFactory()
    if getattr(before, "hides_secrets", False):
        return

    def made(*args: Any, **named: Any) -> logging.LogRecord:
        record = before(*args, **named)
        try:
            message = record.getMessage()
        except (TypeError, ValueError):  # wrong arguments: logging itself reports it
            return record
        if (shown := as_message(message)) != message:
            record.msg, record.args = shown, ()
        if record.exc_info and record.exc_info[1] is not None:
            traceback = logging.Formatter().formatException(record.exc_info)
            if (shown := as_message(traceback)) != traceback:
                record.exc_text, record.exc_info = shown, None
        return record

    made.hides_secrets = True  # type: ignore[attr-defined]
    logging.setLogRecordFactory(made)


class TextWithoutControls(io.TextIOWrapper):
    """A stream that escapes control characters, except through `Unescaped`."""

    def write(self, text: str, /) -> int:
        super().write(escaped(text))
        return len(text)


class Unescaped:
    """A stream for raw data, or output with colours and other controls."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str, /) -> int:
        token = _unescaped.set(True)
        try:
            written: int = self._stream.write(text)
        finally:
            _unescaped.reset(token)
        return written


def escaped(text: str) -> str:
    """Return text as streams write it: `without_controls` unless `Unescaped`."""
    return text if _unescaped.get() else without_controls(text)


class TextWithoutSecrets(TextWithoutControls):
    """Standard error without secrets; write errors are ignored."""

    def write(self, text: str, /) -> int:
        with suppress(OSError):
            super().write(without_secrets(text))
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            super().flush()


def tell_secrets_of(address: str | None) -> None:
    """Register the secrets of a URL that is not in the environment."""
    _told.update(_secrets_of(address or ""))


def _known_secrets() -> re.Pattern[str] | None:
    """Return a regex of all secrets from the environment and `tell_secrets_of`."""
    named = tuple((name, value) for name, value in os.environ.items() if _may_hold(name, value))
    return _spellings(named, frozenset(_told))


def _may_hold(name: str, value: str) -> bool:
    if _SCHEME.match(value):
        return "@" in value or "=" in value
    return _SECRET_VARIABLE.search(name) is not None and not _NAMES_A_PLACE.search(name)


@lru_cache(maxsize=4)
def _spellings(named: tuple[tuple[str, str], ...], told: frozenset[str]) -> re.Pattern[str] | None:
    secrets = set(told)
    for name, value in named:
        if _SCHEME.match(value):
            secrets.update(_secrets_of(value))
        if _SECRET_VARIABLE.search(name) and not _NAMES_A_PLACE.search(name):
            secrets.update({value, value.partition(":")[2]})
    spelt: set[str] = set()
    for secret in secrets:
        spelt.update({secret, unquote(secret), unquote_plus(secret)})
    for secret in list(spelt):
        spelt.update(
            {quote(secret), quote(secret, safe=""), quote_plus(secret), repr(secret)[1:-1]}
        )
        spelt.update({json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]})
    searched = {
        secret for secret in spelt if len(secret) >= _SHORTEST and secret.lower() not in _ORDINARY
    }
    longest_first = sorted(searched, key=lambda secret: (-len(secret), secret))
    return re.compile("|".join(map(_wherever_it_stands, longest_first))) if searched else None


def _wherever_it_stands(secret: str) -> str:
    literal = re.escape(secret)
    if len(secret) < _INSIDE_OF_WORDS and secret.isalnum():
        return rf"(?<![^\W_]){literal}(?![^\W_])"
    return literal


def _secrets_of(address: str) -> Iterator[str]:
    """Return the secrets of one URL, whose user information ends at its last @."""
    scheme, separator, rest = address.partition("://")
    if not separator:
        return
    user, at, place = rest.rpartition("@")
    if at:
        name, colon, password = user.partition(":")
        open_words = {*re.split(r"[/:?&=,]", place), name}
        if colon:
            parts = {password, *re.split(r"[/?#@]", password)}
            yield from (
                part for part in parts - open_words if part == password or not part.isdigit()
            )
            yield base64.b64encode(f"{unquote(name)}:{unquote(password)}".encode()).decode()
        elif scheme.lower() in _PAGES:
            yield user
    _, _, query = rest.partition("?")
    for member, value in parse_qsl(query):
        if _MEMBER.match(f"?{member}=x "):
            yield value


def _without_users(text: str) -> str:
    shown, position = [], 0
    for match in _SCHEME.finditer(text):
        begin = match.end()
        if begin < position or text.startswith(_EXAMPLES, begin):
            continue  # inside a hidden part, or an example
        before = text[match.start() - 1 : match.start()]
        end = begin + _user_length(match[1].lower(), _line_from(text, begin), before)
        if end > begin:
            shown += [text[position:begin], HIDDEN]
            position = end
    return "".join([*shown, text[position:]])


def _line_from(text: str, begin: int) -> str:
    end = text.find("\n", begin)
    return text[begin : len(text) if end < 0 else end]


def _user_length(scheme: str, line: str, before: str) -> int:
    """Return the number of characters to hide in the ``line`` after ``://``."""
    run = line[: len(line.split(None, 1)[0])] if line.strip() and not line[0].isspace() else ""
    database = scheme not in _FILES and scheme not in _PAGES and scheme not in _NAMED_USERS
    plain = _PLAIN.match(line)
    authority = plain[0] if plain else ""
    rest = line[len(authority) :]
    closes = before != "" and before in _QUOTES and rest.startswith((before, f"\\{before}"))
    if closes or _ENDS.match(rest):
        words = database and _SPELT_IN_WORDS.match(line)
        return words.end() - 1 if words and not closes else 0
    at = run.rfind("@")
    if rest[:1] in tuple("/?#"):
        if before and before in _QUOTES and before in run:
            at = run.rfind("@", 0, run.index(before))
        if at < 0 or not _is_user(scheme, authority, run, at, database):
            return 0
        return at
    if at < 0:  # truncated, or containing a space
        later = line.rfind("@")
        return later if later > 0 else len(run) if ":" in run else 0
    if scheme in _CONTAINERS and ":" not in run[:at]:
        return 0
    place = _PLAIN.match(line, at + 1)
    ended = line[place.end() if place else at + 1 :]
    whole = not ended or ended[0] in "/?#" + _QUOTES or _ENDS.match(ended) is not None
    later = line.rfind("@")
    return later if later > at and (database or not whole) else at


def _is_user(scheme: str, authority: str, run: str, at: int, database: bool) -> bool:
    """Return whether an @ after what may be a path ends user information."""
    path = run[len(authority) : at]
    if not authority or path.startswith("/#/"):  # a file; a page of MLflow
        return False
    if database or re.search(r":\d+$", authority):
        return True
    if scheme in _FILES:
        return False
    return ":" in path or _MAYBE_HOST.match(run, at + 1) is not None
