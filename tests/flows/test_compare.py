"""``bpeline compare`` and the commands that move aliases, on two real versions."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from browser import browsing, installed_browser
from click.testing import Result

from bpeline.flows.requests.baselines import load_baselines, normalized
from bpeline.flows.wording.values import token_text
from bpeline.registry import load_tokenizer
from bpeline.tokenizer_core.tokenizer import Tokenizer

pytestmark = pytest.mark.fake_mlflow

Command = Callable[..., Result]


@pytest.fixture(scope="module")
def trained(folder_after: Callable[..., Path]) -> Path:
    """A folder with two versions of ``news``, and text that neither was trained on."""
    return folder_after(begin="news")


def test_what_a_file_does_not_say_is_told_in_the_command(here: Path, bpeline: Command) -> None:
    tokenizer = load_tokenizer("news/1")
    tokenizer.save("news.tiktoken", "tiktoken")
    tokenizer.save("tokenizer.json", "hf")
    document = json.loads(Path("tokenizer.json").read_text())
    document["normalizer"] = {"type": "NFC"}
    Path("tokenizer.json").write_text(json.dumps(document))
    refused = bpeline("compare", "news/1", "news.tiktoken", "--eval", "fresh.txt")
    assert refused.exit_code == 2
    assert "news.tiktoken,pattern=cl100k" in refused.stderr
    sides = ("news.tiktoken,pattern=cl100k", "./tokenizer.json")
    shown = bpeline("compare", *sides, "--eval", "fresh.txt").stdout
    assert "patterns   cl100k → gpt2" in shown
    assert "normalizer none → NFC" in shown
    named = str(here / "news.tiktoken,pattern=cl100k")
    assert normalized(["news.tiktoken,pattern=cl100k"]) == (f"news={named}",)
    assert load_baselines([f"news={named}"], here)["news"].pattern.name == "cl100k"


@pytest.mark.night
def test_the_terminal_and_json_tell_the_same(here: Path, bpeline: Command) -> None:
    answer = bpeline("compare", "news/1", "news/2", "--eval", "fresh.txt", "--json")
    assert answer.exit_code == 0, answer.output
    compared = json.loads(answer.stdout)
    text = (here / "fresh.txt").read_text(encoding="utf-8")
    documents = text.split("<|end|>")
    tokens = [
        sum(len(load_tokenizer(f"news/{number}").encode(one)) for one in documents)
        for number in (1, 2)
    ]
    keys = [one["key"] for one in compared["metrics"]]
    assert keys == sorted(set(keys))
    found = compared["documents"]
    assert found["documents"] == len(documents)
    assert [found["first_tokens"], found["second_tokens"]] == tokens
    assert found["change"]["low"] < tokens[1] / tokens[0] - 1 < found["change"]["high"]

    shown = bpeline("compare", "news/1", "news/2", "--eval", "fresh.txt").stdout
    assert f"{tokens[0]:,} → {tokens[1]:,} tokens" in shown
    added = len(compared["vocab"]["added"])
    assert f"{added:,} added" in shown
    assert re.search(r"^patterns +gpt2\b", shown, re.MULTILINE)
    assert re.search(r"^normalizer +none\b", shown, re.MULTILINE)
    assert compared["special_tokens"] == [["<|end|>"], ["<|end|>"]]
    assert re.search(r'^special +"<\|end\|>"', shown, re.MULTILINE)
    worst = found["segmentation"]["worse"][0]
    assert f"{worst['cost']:+,}" in shown
    assert worst["cost"] == worst["count"] * (len(worst["second"]) - len(worst["first"]))


@pytest.mark.night
def test_documents_end_at_the_special_tokens_of_either(here: Path, bpeline: Command) -> None:
    first = load_tokenizer("news/1")
    Tokenizer(
        {id_: token for id_, token in first.vocab.items() if token != b"<|end|>"},
        first.merges, (), first.pattern,
    ).save(here / "without-special-tokens")  # fmt: skip
    documents = (here / "fresh.txt").read_text(encoding="utf-8").split("<|end|>")
    for pair in (("news/1", "./without-special-tokens"), ("./without-special-tokens", "news/1")):
        found = json.loads(bpeline("compare", *pair, "--eval", "fresh.txt", "--json").stdout)
        assert found["documents"]["documents"] == len(documents)
        lacks = 'special    without-special-tokens lacks "<|end|>"\n'
        assert lacks in bpeline("compare", *pair, "-o", "page.html").stdout
        page = (here / "page.html").read_text(encoding="utf-8")
        assert "without-special-tokens" in page


@pytest.mark.parametrize("on", ["fresh.txt", "fresh=fresh.txt"])
def test_a_separator_that_is_named_takes_the_place_of_special_tokens(
    here: Path, bpeline: Command, on: str
) -> None:
    text = (here / "fresh.txt").read_text(encoding="utf-8")
    comparing = ("compare", "news/1", "news/2", "--eval", on, "--json", "--separator")
    parted = json.loads(bpeline(*comparing, "\n\n").stdout)["documents"]
    assert parted["documents"] == len(list(filter(None, text.split("\n\n"))))
    whole = json.loads(bpeline(*comparing, "none").stdout)["documents"]
    tokens = len(load_tokenizer("news/1").encode(text))
    assert (whole["documents"], whole["first_tokens"]) == (1, tokens)
    refused = bpeline("compare", "news/1", "news/2", "--separator", "none")
    assert refused.exit_code == 2
    assert "--eval FILES" in refused.stderr


def test_tokens_in_json_are_spelt_as_in_vocab_json(here: Path, bpeline: Command) -> None:
    compared = json.loads(bpeline("compare", "news/1", "news/2", "--json").stdout)
    vocab = json.loads(
        (load_directory(here, "news/2", bpeline) / "vocab.json").read_text(encoding="utf-8")
    )
    assert compared["vocab"]["added"]
    assert set(compared["vocab"]["added"]) <= vocab.keys()


def load_directory(here: Path, reference: str, bpeline: Command) -> Path:
    return Path(json.loads(bpeline("show", reference, "--json").stdout)["files"])


def test_any_tokenizer_file_can_be_the_other_side(here: Path, bpeline: Command) -> None:
    bpeline("export", "news/1", "--format", "hf", "--output", "other.json")
    shown = bpeline("compare", "./other.json", "news/1", "--eval", "fresh.txt")
    assert shown.exit_code == 0, shown.output
    assert "chance" in shown.stdout
    assert re.search(r"^merges +the same$", shown.stdout, re.MULTILINE)


@pytest.mark.night
def test_named_sources_are_slices_with_figures_and_intervals(here: Path, bpeline: Command) -> None:
    pieces = (here / "fresh.txt").read_text(encoding="utf-8").split("<|end|>")
    halves = {"code": pieces[::2], "text": pieces[1::2]}
    for name, documents in halves.items():
        (here / f"{name}.txt").write_text("<|end|>".join(documents), encoding="utf-8")
    (here / "sources.toml").write_text('[[evaluation]]\nname = "code"\nfiles = ["code.txt"]\n')
    sources = ["--eval", "sources.toml", "--eval", "text:language=en=text.txt"]
    compared = json.loads(bpeline("compare", "news/1", "news/2", *sources, "--json").stdout)
    slices = {one["name"]: one for one in compared["slices"]}
    assert set(slices) == {"all", "code", "text"}
    for name, documents in halves.items():
        tokens = [
            sum(len(load_tokenizer(f"news/{number}").encode(one)) for one in documents)
            for number in (1, 2)
        ]
        change = slices[name]["change"]
        assert change["value"] == pytest.approx(tokens[1] / tokens[0] - 1)
        low, high = change["intervals"]["0.95"]
        assert low < change["value"] < high
        size = sum(len(one.encode()) for one in documents)
        figures = {one["key"]: one for one in slices[name]["metrics"]}
        found = figures["compression/bytes_per_token"]
        assert [found["first"], found["second"]] == pytest.approx([size / one for one in tokens])
        assert found["difference"] == pytest.approx(size / tokens[1] - size / tokens[0])
    both = compared["documents"]
    assert both["documents"] == len(pieces)
    metrics = {one["key"]: one["second"] for one in compared["metrics"]}
    assert metrics["evaluated/tokens"] == both["second_tokens"], "of these texts, not of training"
    shown = bpeline("compare", "news/1", "news/2", *sources, "-o", "slices.html").stdout
    found = {c["key"]: c for c in slices["code"]["metrics"]}["compression/bytes_per_token"]
    line = next(line for line in shown.splitlines() if line.startswith("code "))
    assert f"{found['first']:.4g} → {found['second']:.4g}" in line
    assert f"{slices['code']['change']['intervals']['0.95'][0]:+.2%} …" in line
    assert "tokens/word" in Page((here / "slices.html").read_text(encoding="utf-8")).text


def test_files_are_named_all_or_none_and_a_file_is_itself(here: Path, bpeline: Command) -> None:
    refused = bpeline("compare", "news/1", "news/2", "--eval", "a=fresh.txt", "--eval", "fresh.txt")
    assert refused.exit_code == 2
    assert "--eval 'other=fresh.txt'" in refused.stderr
    shutil.copy(here / "fresh.txt", here / "a=b.txt")
    answer = bpeline("compare", "news/1", "news/2", "--eval", "a=b.txt", "--json")
    assert [one["name"] for one in json.loads(answer.stdout)["slices"]] == ["all"]


def test_tokens_are_compared_with_morphs(here: Path, bpeline: Command) -> None:
    words = {"importing": ["import", "ing"], "returned": ["return", "ed"], "self": ["self"]}
    lines = (f"{word}\t{' '.join(morphs)}\n" for word, morphs in words.items())
    (here / "morphs.tsv").write_text("".join(lines), encoding="utf-8")
    asked = ["compare", "news/1", "news/2", "--morphology", "morphs.tsv"]
    metrics = {one["key"]: one for one in json.loads(bpeline(*asked, "--json").stdout)["metrics"]}
    for side, number in (("first", 1), ("second", 2)):
        tokenizer, found, right = load_tokenizer(f"news/{number}"), 0, 0
        for word, morphs in words.items():
            ends = {end - 1 for _, end in tokenizer.encode_with_offsets(f" {word}").char_offsets}
            cuts = ends & set(range(1, len(word)))
            found, right = found + len(cuts), right + (len(morphs[0]) in cuts)
        assert metrics["morphology/boundary_recall"][side] == right / 2
        assert metrics["morphology/boundary_precision"][side] == right / found
        assert metrics["morphology/boundary_f1"][side] == 2 * right / (found + 2)
    assert "morphology/boundary_f1" in bpeline(*asked).stdout
    (here / "morphs.tsv").write_text("self\n", encoding="utf-8")
    refused = bpeline(*asked)
    assert refused.exit_code == 2
    assert "tab" in refused.stderr


class Page(HTMLParser):
    """The text of a page, and everything it would fetch."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.text, self.fetched = "", []
        self.tags: list[str] = []
        self.policy = ""
        self.feed(content)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if ("http-equiv", "Content-Security-Policy") in attrs:
            self.policy = dict(attrs)["content"] or ""
        asked = [value or "" for name, value in attrs if name in ("src", "href")]
        self.fetched += [address for address in asked if not address.startswith("#")]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_says_the_same_and_needs_nothing_else(here: Path, bpeline: Command) -> None:
    shown = bpeline("compare", "news/1", "news/2", "--eval", "fresh.txt", "-o", "page.html")
    assert "page.html" in shown.stdout
    page = Page((here / "page.html").read_text(encoding="utf-8"))
    verdict = next(line for line in shown.stdout.splitlines() if line.startswith("text "))
    assert verdict.removeprefix("text").strip() in page.text
    assert page.fetched == []
    assert page.tags.count("script") == 2, "its own, and the tokens that it searches"
    allowed = page.policy.split("; ")
    assert allowed[0] == "default-src 'none'"
    assert allowed[1].startswith("script-src 'sha256-")
    assert "unsafe" not in page.policy


@pytest.mark.night
@pytest.mark.parametrize(
    ("second", "kinds"), [("news/2", {"came", "went"}), ("news/1:300", {"went"}), ("news/1", set())]
)
def test_tokens_that_came_and_went_are_searched_on_the_page(
    second: str, kinds: set[str], here: Path, bpeline: Command, tmp_path: Path
) -> None:
    program = installed_browser()
    if program is None:
        pytest.skip("no browser of the Chromium family is installed")
    done = bpeline("compare", "news/1", second, "--eval", "fresh.txt", "-o", "searched.html")
    assert done.exit_code == 0, done.output
    (tmp_path / "profile").mkdir()
    with browsing(program, tmp_path / "profile") as page:
        page.open(here / "searched.html")
        assert page.complaints == []
        assert page.run("document.documentElement.classList.contains('ready')")
        assert kinds == {one for one in ("came", "went") if page.run(f"!!byId('query-{one}')")}
        for kind in kinds:
            page.run(f"byId('query-{kind}').value = 'e'")
            page.run(f"byId('query-{kind}').dispatchEvent(new Event('input'))")
            said = page.run(f"byId('said-{kind}').innerText")
            found = page.run(f"byId('found-{kind}').children.length")
            assert said.startswith(f"{found} of "), said
            assert found > 0


def test_words_of_a_corpus_cannot_become_markup(
    here: Path, bpeline: Command, tmp_path: Path
) -> None:
    hostile = tmp_path / "hostile.txt"
    text = "<script>alert(1)</script><img src=x> \u202esdrawkcab\u2028"
    hostile.write_text(text * 50, encoding="utf-8")
    page_path = tmp_path / "hostile.html"
    bpeline("compare", "news/1", "news/2", "--eval", hostile, "-o", page_path, "--words", 100)
    page = Page(page_path.read_text(encoding="utf-8"))
    assert page.tags.count("script") == 2
    assert "img" not in page.tags
    assert not set("\u202e\u2028") & set(page.text)


def test_passages_stand_side_by_side(here: Path, bpeline: Command) -> None:
    compared = json.loads(
        bpeline("compare", "news/1", "news/2", "--eval", "fresh.txt", "--json").stdout
    )
    passages = compared["passages"]
    assert passages
    text = (here / "fresh.txt").read_text(encoding="utf-8")
    for one in passages:
        assert one["text"] in text
        assert one["cost"] == len(one["second"]) - len(one["first"]) != 0
    bpeline("compare", "news/1", "news/2", "--eval", "fresh.txt", "-o", "beside.html")
    page = Page((here / "beside.html").read_text(encoding="utf-8"))
    assert "Side by side" in page.text
    assert f"{len(passages[0]['first'])} tokens" in page.text


@pytest.mark.night
def test_without_files_the_evaluation_set_is_compared_on(here: Path, bpeline: Command) -> None:
    compared = json.loads(bpeline("compare", "news/1", "news/2", "--json").stdout)
    metrics = {one["key"]: one["second"] for one in compared["metrics"]}
    assert compared["documents"]["documents"] == metrics["evaluated/documents"] > 0
    assert compared["documents"]["second_tokens"] == metrics["evaluated/tokens"]
    bpeline("export", "news/2", "--format", "hf", "--output", "file.json")
    (listed,) = json.loads(bpeline("evaluate", "--sets", "--json").stdout)
    for second in ("news/2", "./file.json"):
        shown = bpeline("compare", "news/1", second).stdout
        assert f"on         evaluation set {listed['digest'][:8]} (" in shown
    shown = bpeline("compare", "./file.json", "./file.json").stdout
    assert "--eval FILES" in shown


@pytest.mark.night
def test_a_version_of_another_name_may_have_read_the_evaluation_set(
    here: Path, bpeline: Command
) -> None:
    bpeline("train", "old.txt", "--name", "other", "--vocab-size", 400, "--held-out", 0.3)
    shown = bpeline("compare", "other/1", "news/2").stdout
    assert re.search(r"of news,.* of other\b", shown)
    shown = bpeline("compare", "news/2", "other/1").stdout
    assert re.search(r"of other,.* of news\b", shown)
    assert "may have read" not in bpeline("compare", "news/1", "news/2").stdout


def test_what_does_not_exist_is_not_compared(here: Path, bpeline: Command) -> None:
    shown = bpeline("compare", "news/1", "./missing.json")
    assert (shown.exit_code, "missing.json" in shown.stderr) == (1, True)
    shown = bpeline("compare", "news/1", "news/2", "--eval", "nowhere/*.txt")
    assert shown.exit_code == 2


def test_aliases_are_promoted_and_taken_back(here: Path, bpeline: Command) -> None:
    assert "news@live" in bpeline("promote", "news/1", "--to", "live").stdout
    moved = json.loads(
        bpeline("promote", "news/2", "--to", "live", "--by", "me", "--reason", "x", "--json").stdout
    )
    assert (moved["from"], moved["to"]) == (1, 2)
    assert "already" in bpeline("promote", "news/2", "--to", "live").stdout
    assert "(before: news/2)" in bpeline("rollback", "news", "--alias", "live").stdout
    told = bpeline("show", "news", "--alias", "live").stdout.splitlines()
    assert [next(part for part in line.split("  ") if "→" in part).strip() for line in told] == [
        "news/2 → news/1",
        "news/1 → news/2",
        "nowhere → news/1",
    ]
    assert "me" in told[1].split()
    refused = bpeline("rollback", "news", "--alias", "live")
    assert refused.exit_code == 1


@pytest.mark.parametrize(
    ("token", "text"),
    [
        (b" the", '" the"'),
        (b'say "hi"', r'"say \"hi\""'),
        (b"it's", '"it\'s"'),
        (b"\n\t\\", r'"\n\t\\"'),
        (b"\xe2\x80", r'b"\xe2\x80"'),
        ("Größe".encode(), '"Größe"'),
        (b"\xc2\xa0", r'"\xa0"'),
    ],
)
def test_tokens_read_as_quoted_text(token: bytes, text: str) -> None:
    assert token_text(token) == text


@pytest.mark.parametrize("named", ["", "new="])
def test_what_the_searches_do_not_read_is_said(here: Path, bpeline: Command, named: str) -> None:
    (here / "more").mkdir(exist_ok=True)
    shutil.copy(here / "fresh.txt", here / "more")
    for name in ("a.png", "b.png", "c.rst"):
        (here / "more" / name).write_bytes(b"x")
    command = ("compare", "news/1", "news/2", "--eval", f"{named}more")
    assert "note       skipped 3 files: 2 .png, 1 .rst\n" in bpeline(*command).stdout
    told = json.loads(bpeline(*command, "--json").stdout)
    assert told["skipped"] == {
        "files": 3,
        "kinds": {".png": 2, ".rst": 1},
        "hidden": 0,
        "about_datasets": 0,
    }


def test_an_evaluation_set_says_what_it_does_not_read(here: Path, bpeline: Command) -> None:
    (here / "set").mkdir()
    shutil.copy(here / "fresh.txt", here / "set")
    (here / "set" / "a.png").write_bytes(b"x")
    ended = bpeline("evaluate", "news", "--set-from", "set", "--json")
    assert ended.exit_code == 0, ended.output
    assert "note: skipped 1 file: 1 .png" in ended.stderr
    told = json.loads(ended.stdout)
    assert told
    assert all(one["skipped"]["kinds"] == {".png": 1} for one in told)
