"""Texts as people may see them: without passwords, keys, tokens and controls of a terminal.

Two ways, because neither is enough. What looks like a secret is hidden by its place: between the
scheme and the host of an address, in a member of a query, after ``password=``. What *is* a secret
of this process, because its environment says so, is hidden wherever it stands. Where a text can be
read in two ways, rather too much is hidden.
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
_EXAMPLES = ("user@host", "HOST:PORT")  # in what messages say is accepted

_SCHEME = re.compile(r"(?<![a-zA-Z0-9])([a-zA-Z][a-zA-Z0-9+.-]{0,40})://")
_HOST = r"(?:\[[0-9a-fA-F:.%]*\]|[^\s:/?#@\[\]\"'`,;()<>{}\\]*)(?::\d{1,5})?"
_PLAIN = re.compile(_HOST)
# What may follow an address in a sentence or a list.
_ENDS = re.compile(r"[.,;:!?)\]}>]*(?:\s|$)|(?:,|::)(?=[a-zA-Z][a-zA-Z0-9+.-]{0,40}://)")
_SPELT_IN_WORDS = re.compile(r"[\w.%-]+(?: [\w.%-]+){1,3}:[^\n]*@")
_MAYBE_HOST = re.compile(r"(?:\[|localhost\b|[\w-]+(?:\.[\w-]+)+)")
_QUOTES = "\"'`"
# Their paths are names of files, in which @ and : are usual.
_FILES = {
    "s3", "s3a", "gs", "gcs", "az", "adl", "abfs", "abfss", "wasb", "wasbs", "hdfs", "webhdfs",
    "file", "memory", "local", "oss", "r2", "hf",
}  # fmt: skip
_CONTAINERS = {"abfs", "abfss", "wasb", "wasbs"}  # CONTAINER@ACCOUNT: nobody's name
_PAGES = {"http", "https"}
# Where a name alone is no credential, as a key of SSH is what lets it in.
_NAMED_USERS = {"sftp", "ssh", "ftp", "ftps", "hdfs", "webhdfs", "smb"}

_QUERY_NAME = (
    r"(?:password|passwd|passphrase|pwd|secret|token|signature|credential|odbc_connect|auth"
)
_MEMBER = re.compile(
    rf"([?&#][^=&\s]{{0,60}}?{_QUERY_NAME}|sig(?==)|key(?==)|pass(?==)|sas(?==))[^=&\s]{{0,60}}=)"
    r"(?:[^&\s]+?)(?=&|[.,;!?)\]}>\"'`]*(?:\s|$)|[\"'`][,)\]}:])",
    re.IGNORECASE,
)
# In quotes, which stay, or up to the next space.
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
_SHORTEST = 4  # characters of a secret that is looked for everywhere
_INSIDE_OF_WORDS = 8  # and of letters that are looked for inside of words, too
# As a password these are no secret, and hidden everywhere they would make messages unreadable.
_ORDINARY = {
    "bpeline", "mlflow", "prefect", "postgres", "postgresql", "sqlite", "admin", "root", "user",
    "true", "false", "none", "null", "localhost", "http", "https", "password", "secret", "basic",
}  # fmt: skip

# Controls, separators of lines, and what changes the direction of the text after it.
_CONTROLS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)  # not the tab, \n, and the marks U+200E, U+200F and U+061C
_LINES = re.compile(r"[\t\n]")

_told: set[str] = set()
_unescaped: ContextVar[bool] = ContextVar("unescaped", default=False)


def without_controls(text: str) -> str:
    """A text whose control characters are shown as ``\\u001b``, which JSON reads as the same.

    Tabs and ends of lines stay.
    """
    return _CONTROLS.sub(_escape, text)


def in_one_line(text: str) -> str:
    """`without_controls`, of a text that is a part of a line: ends of lines are shown, too."""
    return _LINES.sub(_escape, without_controls(text))


def as_message(text: str) -> str:
    """What messages, logs and errors hold of a text: no secret and no control."""
    return without_controls(without_secrets(text))


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def without_secrets(text: str) -> str:
    """A text without secrets: user information and secret members of addresses, assigned passwords,
    headers that authorize, and whatever this process knows as a secret.

    What is hidden already stays as it is. Idempotent; linear in the text but for lines with many
    addresses.
    """
    known = _known_secrets()
    if known is not None:
        text = known.sub(HIDDEN, text)
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
        return found[0]  # the value is what a message says of the path
    return f"{found[1]}{found['quote'] or ''}{HIDDEN}"


def holds_secret(url: str) -> bool:
    """Whether an address should not be kept: a user's name alone is no secret where files are."""
    shown = without_secrets(url)
    if shown == url:
        return False
    scheme, _, rest = url.partition("://")
    user, _, place = rest.partition("@")
    only_named = scheme.lower() in _NAMED_USERS and not set(user) & set(":/?#")
    return not only_named or without_secrets(f"{scheme}://{place}") != f"{scheme}://{place}"


@contextmanager
def hide_in_errors() -> Iterator[None]:
    """Let no exception out whose text, or that of one behind it, holds a secret or a control.

    For who keeps what others raise, as Prefect does. What holds none passes as it is.
    """
    try:
        yield
    except Exception as error:
        behind: BaseException | None = error
        while behind is not None and as_message(str(behind)) == str(behind):
            behind = behind.__cause__ or behind.__context__
        if behind is None:
            raise
        if as_message(str(error)) != str(error):
            said = f"{type(error).__name__}: {as_message(str(error))}"
            raise RuntimeError(said) from None
        error.__cause__, error.__context__ = None, None
        raise


def hide_in_logs() -> None:
    """Let what libraries log hold no secrets and no controls, tracebacks included."""
    before = logging.getLogRecordFactory()
    if getattr(before, "hides_secrets", False):
        return

    def made(*args: Any, **named: Any) -> logging.LogRecord:
        record = before(*args, **named)
        try:
            said = record.getMessage()
        except (TypeError, ValueError):  # arguments that do not fit: logging says so itself
            return record
        if (shown := as_message(said)) != said:
            record.msg, record.args = shown, ()
        if record.exc_info and record.exc_info[1] is not None:
            told = logging.Formatter().formatException(record.exc_info)
            if (shown := as_message(told)) != told:
                record.exc_text, record.exc_info = shown, None
        return record

    made.hides_secrets = True  # type: ignore[attr-defined]
    logging.setLogRecordFactory(made)


class TextWithoutControls(io.TextIOWrapper):
    """A stream that shows control characters, but for what is written through `Unescaped`."""

    def write(self, text: str, /) -> int:
        super().write(escaped(text))
        return len(text)


class Unescaped:
    """A stream whose control characters are ours (colours, bars), or data that stays as it is."""

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
    """A text as a stream writes it: `without_controls`, but for what `Unescaped` passes."""
    return text if _unescaped.get() else without_controls(text)


class TextWithoutSecrets(TextWithoutControls):
    """A stream of messages: standard error, on which nothing is data.

    Messages that a full disk or a closed pipe refuses are dropped: the work goes on without them.
    """

    def write(self, text: str, /) -> int:
        with suppress(OSError):
            super().write(without_secrets(text))
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            super().flush()


def tell_secrets_of(address: str | None) -> None:
    """Let the secrets of an address be known that the environment does not name."""
    _told.update(_secrets_of(address or ""))


def _known_secrets() -> re.Pattern[str] | None:
    """What the environment and `tell_secrets_of` say, in all its spellings."""
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
    for one in secrets:
        spelt.update({one, unquote(one), unquote_plus(one)})
    for one in list(spelt):
        spelt.update({quote(one), quote(one, safe=""), quote_plus(one), repr(one)[1:-1]})
        spelt.update({json.dumps(one)[1:-1], json.dumps(one, ensure_ascii=False)[1:-1]})
    kept = {one for one in spelt if len(one) >= _SHORTEST and one.lower() not in _ORDINARY}
    longest_first = sorted(kept, key=lambda one: (-len(one), one))
    return re.compile("|".join(map(_wherever_it_stands, longest_first))) if kept else None


def _wherever_it_stands(secret: str) -> str:
    found = re.escape(secret)
    if len(secret) < _INSIDE_OF_WORDS and secret.isalnum():
        return rf"(?<![^\W_]){found}(?![^\W_])"
    return found


def _secrets_of(address: str) -> Iterator[str]:
    """The secrets of one address, whose user information ends at its last @."""
    scheme, found, rest = address.partition("://")
    if not found:
        return
    user, at, place = rest.rpartition("@")
    if at:
        name, colon, password = user.partition(":")
        open_words = {*re.split(r"[/:?&=,]", place), name}
        if colon:
            parts = {password, *re.split(r"[/?#@]", password)}
            yield from (one for one in parts - open_words if one == password or not one.isdigit())
            yield base64.b64encode(f"{unquote(name)}:{unquote(password)}".encode()).decode()
        elif scheme.lower() in _PAGES:
            yield user
    _, _, query = rest.partition("?")
    for member, value in parse_qsl(query):
        if _MEMBER.match(f"?{member}=x "):
            yield value


def _without_users(text: str) -> str:
    shown, position = [], 0
    for found in _SCHEME.finditer(text):
        begin = found.end()
        if begin < position or text.startswith(_EXAMPLES, begin):
            continue  # inside of what is hidden, or an example
        before = text[found.start() - 1 : found.start()]
        end = begin + _user_length(found[1].lower(), _line_from(text, begin), before)
        if end > begin:
            shown += [text[position:begin], HIDDEN]
            position = end
    return "".join([*shown, text[position:]])


def _line_from(text: str, begin: int) -> str:
    end = text.find("\n", begin)
    return text[begin : len(text) if end < 0 else end]


def _user_length(scheme: str, line: str, before: str) -> int:
    """How many characters after ``://`` are to be hidden.

    Args:
        scheme: in lower case.
        line: what follows, up to the end of the line.
        before: the character before the scheme.
    """
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
    if at < 0:  # cut off, or with a space in it
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
    """Whether an @ after what could be the path of ``authority`` ends user information."""
    path = run[len(authority) : at]
    if not authority or path.startswith("/#/"):  # a file; a page of MLflow
        return False
    if database or re.search(r":\d+$", authority):
        return True
    if scheme in _FILES:
        return False
    return ":" in path or _MAYBE_HOST.match(run, at + 1) is not None
