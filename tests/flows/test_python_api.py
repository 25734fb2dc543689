"""`bpeline.train`, `compare` and `promote`, and the names that other libraries' users expect."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

import bpeline
from bpeline import Tokenizer
from bpeline.registry import loading
from bpeline.registry.hub import HubReference, Snapshot
from bpeline.tokenizer_core.errors import InvalidOption, PromotionRefused, UnknownVersion

Command = Callable[..., Result]


def test_the_functions_do_what_the_commands_do(
    corpus: Path, tmp_path: Path, bpeline: Command
) -> None:
    import bpeline as library

    options = {"vocab_size": 300, "special_tokens": ["<|end|>"]}
    done = library.train(corpus, name="news", quiet=True, **options)  # type: ignore[arg-type]
    typed = ("train", corpus, "--name", "news", "--vocab-size", 300, "--special-token", "<|end|>")
    again = json.loads(bpeline(*typed, "--json").stdout)
    assert (done.reference, done.digest) == ("news/1", again["digest"])
    assert not again["newly_registered"]
    larger = library.train([corpus], name="news", vocab_size=320, special_tokens=["<|end|>"])
    compared = library.compare("news/1", larger.reference, eval=next(corpus.glob("*.txt")))
    assert compared.vocab_sizes == (300, 320)
    assert compared.documents is not None
    moved = library.promote("news/2", reason="smaller texts")
    assert (str(moved.version), moved.alias) == ("news/2", "champion")
    rules = tmp_path / "rules.toml"
    rules.write_text(
        '[[rule]]\nmetric = "compression/bytes_per_token"\ndirection = "higher"\nlimit = 99.0\n'
    )
    with pytest.raises(PromotionRefused):
        library.promote("news/1", rules=rules)
    with pytest.raises(InvalidOption, match="vocabsize"):
        library.train(corpus, name="news", vocabsize=300)


def test_names_of_other_libraries(
    folder_after: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    monkeypatch.chdir(folder_after(begin="news"))
    tokenizer = Tokenizer.from_pretrained("news/1")
    assert tokenizer.digest == bpeline.load_tokenizer("news/1").digest
    tokenizer.save_pretrained(tmp_path / "saved")
    again = Tokenizer.from_pretrained(tmp_path / "saved")
    assert again.encode("low lower") == tokenizer.encode("low lower")
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "saved/tokenizer.json"))
    assert again.get_vocab() == tokenizer.get_vocab() == theirs.get_vocab()
    assert tokenizer.n_vocab == max(tokenizer.vocab) + 1
    assert tokenizer.eos_token_id == tokenizer.special_tokens.get("<|endoftext|>")
    with pytest.raises(UnknownVersion):
        Tokenizer.from_pretrained("news/99")


def test_the_end_token_is_the_declared_one(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    specials = ["<|endoftext|>", "<|stop|>"]
    done = bpeline.train(
        corpus, name="chat", vocab_size=280, special_tokens=specials, roles=["eos=<|stop|>"],
        quiet=True,
    )  # fmt: skip
    tokenizer = bpeline.load_tokenizer(done.reference)
    assert tokenizer.eos_token_id == tokenizer.special_tokens["<|stop|>"]
    for format, load in (("bpeline", Tokenizer.load), ("transformers", Tokenizer.from_pretrained)):
        tokenizer.save(tmp_path / format, format)  # type: ignore[arg-type]
        assert load(tmp_path / format).eos_token_id == tokenizer.eos_token_id, format
    plain = Tokenizer({i: bytes([i]) for i in range(256)} | {256: b"</s>"}, [], ["</s>"])
    assert plain.eos_token_id == 256
    assert Tokenizer({i: bytes([i]) for i in range(256)}, []).eos_token_id is None


@pytest.mark.parametrize(
    ("name", "revision", "fetched"),
    [
        ("acme/words", None, "hf://acme/words@main"),
        ("acme/words", "v2", "hf://acme/words@v2"),
        ("hf://acme/words@v1", None, "hf://acme/words@v1"),
    ],
)
def test_a_repository_is_fetched_from_the_hub(
    name: str, revision: str | None, fetched: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = Tokenizer({i: bytes([i]) for i in range(256)} | {256: b"ab"}, [(b"a", b"b")])
    saved.save_pretrained(tmp_path)
    asked = []

    def fetch(reference: HubReference, names: object) -> Snapshot:
        asked.append(str(reference))
        return Snapshot(tmp_path, reference, "")

    monkeypatch.setattr(loading.load, "fetch", fetch)
    assert Tokenizer.from_pretrained(name, revision).encode("ab") == [256]
    assert asked == [fetched]
