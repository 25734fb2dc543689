"""Forbidden tokens and whole characters, from the command line to the version and its proof."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from bpeline.flows.requests import TrainingRequest
from bpeline.registry import load_tokenizer
from bpeline.tokenizer_core import reference
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.training.token_rules import bytes_of

pytestmark = pytest.mark.fake_mlflow

Command = Callable[..., Result]

TEXT = "In 2024 and 1999, in 2024 – Größe 20245, Größe €, 한글 한글 日本語 日本語. " * 40


@pytest.mark.night
def test_a_version_keeps_the_rules_it_was_trained_with(
    bpeline: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("corpus.txt").write_text(TEXT, encoding="utf-8")
    Path("list.txt").write_text(" and\nhex:e6a5\n", encoding="utf-8")
    asked = ["corpus.txt", "--name", "news", "--vocab-size", 285, "--held-out", 0]
    rules = ["--forbid", "digits", "--forbid-list", "list.txt", "--characters", "whole"]
    plain = bpeline("train", *asked, "--json")
    assert plain.exit_code == 0, plain.output
    made = bpeline("train", *asked, *rules, "--json")
    assert made.exit_code == 0, made.output
    summary = json.loads(made.stdout)
    ordinary = load_tokenizer("news/2").vocab.values()
    for token in ordinary:
        assert not reference.has_match(token, r"\d{4}")
        assert token not in (b" and", b"\xe6\xa5")
        assert not reference.breaks_characters(token, "whole")
    assert any(
        reference.has_match(token, r"\d{4}") for token in load_tokenizer("news/1").vocab.values()
    )
    change = summary["metrics"]["vs_unrestricted_percent/all"]
    free = json.loads(plain.stdout)["metrics"]["compression/bytes_per_token"]
    now = summary["metrics"]["compression/bytes_per_token"]
    assert now * (1 + change / 100) == pytest.approx(free)
    request = json.loads((Path(summary["directory"]) / "manifest.json").read_text())["provenance"][
        "request"
    ]
    assert (request["forbid"], request["characters"]) == (["digits"], "whole")
    assert request["forbidden_tokens"] == [" and", "hex:e6a5"]
    every, one = (
        bpeline("train", *asked, *some, "--dry-run").stdout for some in (rules, rules[:2])
    )
    assert re.search(r"\bdigits\b.*\b2\b.*\bcharacters\b", every)
    assert "digits" in one
    assert "characters" not in one
    verified = bpeline("verify", "news/2", "--json")
    assert verified.exit_code == 0, verified.output
    checks = {one["what"]: one for one in json.loads(verified.stdout)["checks"]}
    assert checks["each token"]["holds"]
    assert checks["each token"]["found"] in every, "said in the same words"
    extended = bpeline("derive", "extend", "news/2", "--vocab-size", 295, "--json")
    assert extended.exit_code == 0, extended.output
    longer = load_tokenizer(json.loads(extended.stdout)["reference"]).vocab.values()
    assert len(longer) > len(ordinary)
    assert not any(reference.has_match(token, r"\d{4}") for token in longer)


@pytest.mark.night
def test_what_screening_found_is_forbidden_next_time(
    bpeline: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    texts = [f"the cat and the dog sat {word} " * 4 for word in "abcdefghijkl"]
    texts[4] += "zebrafish " * 9
    texts += ["write to anna@example.org " * 5] * 2
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    Path("corpus.jsonl").write_text(lines)
    asked = ["corpus.jsonl", "--name", "news", "--vocab-size", 330, "--held-out", 0]
    asked += ["--pattern", r" ?\S+|\s+"]
    first = bpeline("train", *asked, "--json")
    assert first.exit_code == 0, first.output
    tokenizer = load_tokenizer("news/1")
    kept = tmp_path / ".bpeline/versions" / tokenizer.digest / "evaluation.json"
    screening = json.loads(kept.read_text())["screening"]
    alone = {tokenizer.vocab[id_] for id_ in screening["one_document"]}
    assert b" zebrafish" in alone
    assert {kind for _, kind in screening["suspicious"]} == {"email"}
    again = [*asked, "--forbid-from", "news@candidate"]
    planned = bpeline("train", *again, "--dry-run")
    assert f"news/1: email, {len(alone)} tokens" in planned.stdout
    made = bpeline("train", *again, "--json")
    assert made.exit_code == 0, made.output
    summary = json.loads(made.stdout)
    vocab = set(load_tokenizer(summary["reference"]).vocab.values())
    assert not alone & vocab
    assert not any(b"anna@example.org" in token for token in vocab)
    assert any("news/1: email" in note for note in summary["notes"])
    manifest = json.loads((Path(summary["directory"]) / "manifest.json").read_text())
    request = manifest["provenance"]["request"]
    assert request["forbid"] == ["email"]
    assert "forbid_from" not in request
    assert {bytes_of(token) for token in request["forbidden_tokens"]} == alone
    assert bpeline("verify", summary["reference"]).exit_code == 0
    assert bpeline("train", *asked, "--forbid-from", "news/9").exit_code == 1


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"forbid": ["digits"], "required_tokens": ["2024"]}, "the required tokens make b'2024'"),
        ({"forbid": [r"\d"]}, "every vocabulary|always tokens"),
        ({"forbid": ["("]}, "does not compile"),
        ({"forbidden_tokens": ["hex:0"]}, "is not a token"),
        ({"characters": "half"}, "characters"),
        ({"forbid_from": ["news/1"], "algorithm": "char-bpe"}, "does not apply"),
        ({"forbid": ["digits"], "algorithm": "wordpiece"}, "does not apply"),
        ({"characters": "whole", "algorithm": "char-bpe"}, "does not apply"),
        ({"forbid": ["digits"], "continued_ids": 300, "extends": "0" * 64}, "imported"),
        ({"baselines": ["unrestricted=gpt2/tokenizer.json"]}, "unrestricted"),
    ],
)
def test_what_cannot_be_asked_is_refused(asked: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidOption, match=said):
        TrainingRequest.checked(**{"paths": ["a"], "name": "n", **asked})


def test_requests_of_before_there_were_rules_are_the_same() -> None:
    config = TrainingRequest.checked(paths=["a"], name="n").as_config()
    assert not {"forbid", "forbidden_tokens", "characters"} & config.keys()
    asked = TrainingRequest.checked(paths=["a"], name="n", forbid="digits", characters="whole")
    again = TrainingRequest.checked(**json.loads(json.dumps(asked.as_config())))
    assert again == asked
    assert not asked.learns_as(config)
    assert asked.without_token_rules.learns_as(config)


@pytest.mark.night
def test_required_tokens_are_listed_in_a_file_and_looked_for_again(
    bpeline: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("corpus.txt").write_text(TEXT, encoding="utf-8")
    Path("list.txt").write_text(" tokenizer\r\n\nzzz\n", encoding="utf-8")
    asked = ["corpus.txt", "--name", "news", "--vocab-size", 290, "--held-out", 0]
    made = bpeline("train", *asked, "--required-token", " und", "--required-list", "list.txt")
    assert made.exit_code == 0, made.output
    tokenizer = load_tokenizer("news/1")
    for text in (" und", " tokenizer", "zzz"):
        assert len(tokenizer.encode(text)) == 1
    verified = bpeline("verify", "news/1", "--json")
    assert verified.exit_code == 0, verified.output
    checks = {one["what"]: one for one in json.loads(verified.stdout)["checks"]}
    assert re.search(r"\b3\b", checks["required tokens"]["found"])
    missing = bpeline("train", *asked, "--required-list", "nowhere.txt")
    assert missing.exit_code == 2


@pytest.mark.parametrize(
    ("look", "meant"),
    [("digit", "digits"), ("mail", "email"), ("chatmarker", "chat-marker"), ("digits", ""),
     ("(?:digit)", ""), ("secret", "")],
)  # fmt: skip
def test_a_regex_that_looks_like_a_kind_is_told(look: str, meant: str) -> None:
    asked = TrainingRequest.checked(paths=["corpus.txt"], name="news", forbid=[look])
    expected = f"--forbid {look} is used as a regex, not as a name; did you mean {meant}?"
    assert asked.forbid_remark == (expected if meant else "")
