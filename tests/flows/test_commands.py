"""The commands of the command line, as people and scripts use them."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.shell_completion import ShellComplete
from click.testing import Result
from loopback import asked, free_ports, listens
from tiktoken.load import load_tiktoken_bpe

from bpeline import flows
from bpeline.flows.cli.export import export
from bpeline.flows.cli.main import FILE_OF, all_commands, cli
from bpeline.flows.cli.request_options import with_settings
from bpeline.flows.cli.train import train
from bpeline.flows.requests import OPTIONS, TrainingRequest
from bpeline.flows.wording import program, typed_commands
from bpeline.registry import load_tokenizer
from bpeline.tokenizer_core import Tokenizer

Command = Callable[..., Result]
ROOT = Path(flows.__file__).parents[1]


@pytest.fixture(scope="module")
def trained(folder_after: Callable[..., Path]) -> Path:
    """A folder whose workspace holds two versions of ``news``."""
    return folder_after(begin="news")


@pytest.mark.parametrize("name", sorted({*FILE_OF, *all_commands()}))
def test_every_command_has_help_with_an_example(name: str, bpeline: Command) -> None:
    shown = bpeline(*name.split(), "--help")
    assert shown.exit_code == 0
    assert f"bpeline {name}" in shown.stdout.split("Example")[1]


def test_a_command_that_is_misspelt_is_told_which_one_is_like_it(bpeline: Command) -> None:
    refused = bpeline("trian")
    assert refused.exit_code == 2
    assert "'trian'; did you mean train?" in refused.stderr
    assert "mean" not in bpeline("zzzz").stderr


def test_an_option_before_the_command_is_told_its_place(bpeline: Command) -> None:
    refused = bpeline("--workspace", "x", "versions")
    assert refused.exit_code == 2
    assert "'--workspace'" in refused.stderr


def test_the_options_of_train_are_those_of_the_flow() -> None:
    options = {option.name: option for option in train.params}
    fields = TrainingRequest.model_fields
    of_the_command = {"merges", "demo", "as_json", "show_steps", "joint", "separate", "dry_run"}
    of_the_command |= {"quiet", "project", "workspace", "forbid_list", "required_list"}
    of_the_command |= {"settings", "help_all"}
    assert options.keys() - fields.keys() == of_the_command | set(OPTIONS)
    of_extend = {
        "extends",
        "continued_ids",
        "text_form",
        "transition_size",
    }  # `extend`, `superwords`
    assert fields.keys() - options.keys() == {"options", *of_extend}
    for name in fields.keys() - {"paths", "options"} - of_extend:
        said, default = str(fields[name].description), fields[name].default
        shown = options[name].help or ""
        assert said[1:] in shown, name
        if not fields[name].is_required() and default not in (None, ()):
            assert f"[default: {default}]" in shown, name


def test_the_help_of_train_is_short_and_its_whole_help_is_not(bpeline: Command) -> None:
    shown, whole = (bpeline("train", one).stdout for one in ("--help", "--help-all"))
    assert len(shown.splitlines()) <= 90
    assert len(re.findall("^  -", shown, re.MULTILINE)) <= 35
    assert "--parity-window" in whole
    assert "--parity-window" not in shown


def test_settings_are_parameters_over_options(bpeline: Command, corpus: Path) -> None:
    values = {
        "held_out": "0.25", "special_tokens": "<|a|>", "options.score": "gain", "min_count": "3",
    }  # fmt: skip
    settings = [word for pair in values.items() for word in ("--set", "=".join(pair))]
    given = with_settings(
        TrainingRequest, {"held_out": 0.5, "special_tokens": ("<|b|>",)}, settings[1::2]
    )
    assert given == {
        "held_out": 0.25, "special_tokens": ("<|a|>",), "options": {"score": "gain"},
        "min_count": 3,
    }  # fmt: skip
    assert with_settings(TrainingRequest, {}, ['include=["a", "b"]', "include=c"]) == {
        "include": ("a", "b", "c")
    }
    typed = ["name=2026", 'pattern="gpt2"', "special_tokens=1", "strict=true", "vocab_size=300"]
    assert with_settings(TrainingRequest, {}, typed) == {
        "name": "2026", "pattern": "gpt2", "special_tokens": ("1",), "strict": True,
        "vocab_size": 300,
    }  # fmt: skip
    words = ("train", corpus, "--name", "w", "--algorithm", "wordpiece", "--dry-run", "--json")
    planned = json.loads(bpeline(*words, *settings).stdout)
    assert planned["notes"] is not None
    for wrong in ("held_out", "heldout=0.1", "options=3", "held_out.x=3"):
        refused = bpeline(*words, "--set", wrong)
        assert refused.exit_code == 2
        assert "expected NAME=VALUE" in refused.stderr
    assert "held_out" in bpeline(*words, "--set", "held_out=half").stderr


@pytest.mark.night
def test_versions_lists_what_is_registered(
    folder_after: Callable[..., Path], bpeline: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder_after(begin="small"))
    shown = bpeline("versions")
    assert shown.exit_code == 0
    lines = shown.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["version", "v/1", "v/2", "*"]
    assert all("* " in line for line in lines[1:3]), "so small a corpus holds nothing out"
    assert lines[2].endswith("candidate")
    assert not lines[1].endswith("candidate")
    listed = json.loads(bpeline("versions", "v", "--json").stdout)
    assert [one["vocab_size"] for one in listed] == [280, 276]
    assert re.fullmatch(r".*\bother\b.*\n", bpeline("versions", "other").stdout), "one line"
    assert json.loads(bpeline("versions", "other", "--json").stdout) == []


@pytest.mark.night
def test_show_tells_everything_about_a_version(here: Path, bpeline: Command) -> None:
    details = json.loads(bpeline("show", "news@candidate", "--json").stdout)
    tokenizer = load_tokenizer("news/2")
    assert details["reference"] == "news/2"
    assert details["digest"] == tokenizer.digest
    assert details["aliases"] == ["candidate"]
    assert details["parameters"]["special_tokens"] == ["<|end|>"]
    assert details["metrics"]["evaluated/roundtrip_failures"] == 0
    assert details["curve"]["500"] == details["metrics"]["compression/bytes_per_token"] > 1
    assert len(details["lineage"]["corpus_digest"]) == 64
    text = bpeline("show", tokenizer.digest[:10]).stdout
    assert tokenizer.digest in text
    assert "compression/bytes_per_token" in text


def test_what_is_to_be_typed_next_is_found_by_the_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "my venv" / "bpeline"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(script), "train"])
    monkeypatch.setenv("PATH", "/nowhere")
    assert program() == "'my venv/bpeline'"
    monkeypatch.setenv("PATH", str(script.parent))
    assert program() == "bpeline"
    monkeypatch.setattr(sys, "argv", ["/usr/bin/pytest"])
    assert program() == "bpeline"
    monkeypatch.setenv("UV", "/bin/uv")
    assert program() == "bpeline", "uv run, whose environment stays"
    monkeypatch.setattr(sys, "prefix", "/home/me/.cache/uv/archive-v0/1f2e")
    for url, place in ((tmp_path.as_uri(), "."), ("https://x.org/b.whl", "https://x.org/b.whl")):
        source = SimpleNamespace(read_text=lambda name, url=url: json.dumps({"url": url}))
        monkeypatch.setattr(typed_commands, "distribution", lambda name, one=source: one)
        assert program() == f"uvx --from {place} bpeline"


@pytest.mark.night
def test_what_a_command_starts_imports_nothing_from_the_current_directory(tmp_path: Path) -> None:
    (tmp_path / "signal.py").write_text("raise ImportError('of another program')")
    program = (
        "import subprocess, sys\n"
        "import bpeline.flows.cli.main as command_line\n"
        "starts = [sys.executable, '-c', 'import signal; signal.SIGINT']\n"
        "command_line.main = lambda: sys.exit(subprocess.run(starts).returncode)\n"
        "from bpeline.script import main\n"
        "main()\n"
    )
    environment = {name: of for name, of in os.environ.items() if name != "PYTHONSAFEPATH"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], cwd=tmp_path, env=environment, check=False
    )
    assert done.returncode == 0


@pytest.mark.night
def test_shells_complete_commands_and_options() -> None:
    program = "from bpeline.flows.cli.main import main; main()"
    for words, expected in (("bpeline tra", "plain,train"), ("bpeline train --vo", "--vocab-size")):
        asked = {"_BPELINE_COMPLETE": "bash_complete", "COMP_WORDS": words}
        asked["COMP_CWORD"] = str(words.count(" "))
        ran = subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, **asked}, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        assert expected in ran.stdout, ran.stderr


def test_shells_complete_references_and_patterns(
    here: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def completed(words: list[str], incomplete: str) -> list[str]:
        shell = ShellComplete(cli, {}, "bpeline", "_BPELINE_COMPLETE")
        return [item.value for item in shell.get_completions(words, incomplete)]

    assert completed(["promote"], "news@") == ["news@candidate", "news@champion"]
    assert completed(["compare", "news/1"], "news/") == ["news/1", "news/2"]
    assert completed(["derive", "extend"], "n")[0] == "news@candidate"
    assert completed(["show"], "./ne") == ["./ne"]
    assert completed(["train", "--pattern"], "cl") == ["cl100k"]
    monkeypatch.chdir(tmp_path)
    assert completed(["promote"], "news@") == []


def test_an_unknown_option_names_the_nearest(bpeline: Command) -> None:
    assert "--vocab-size" in bpeline("train", "--vocab-sizes", "300").stderr


def test_a_link_into_mlflow_says_what_to_type_first(here: Path, bpeline: Command) -> None:
    (line,) = [one for one in bpeline("show", "news/1").stdout.splitlines() if "/#/models" in one]
    assert line.startswith("link ")
    assert line.endswith("  (after `bpeline serve --mlflow-only`)")


def test_quiet_shows_no_progress(here: Path, bpeline: Command) -> None:
    asked = ("encode", "news/2", "old.txt", "-o")
    loud = bpeline(*asked, "loud").stderr
    (told,) = re.findall(r"^encode .* (1 document, [\d,]+ tokens)$", loud, re.MULTILINE)
    quiet = bpeline(*asked, "quiet", "--quiet").stderr
    assert [line.partition(": ")[0] for line in quiet.splitlines()] == ["note"]
    assert told in bpeline(*asked, "again").stderr, "the next command is as it was"


def test_encode_and_decode_are_inverse(here: Path, bpeline: Command) -> None:
    text = "Grüße  aus\tder <|end|> Welt 🌍\n"
    encoded = bpeline("encode", "news/2", text)
    ids = [int(word) for word in encoded.stdout.split()]
    assert ids == load_tokenizer("news/2").encode(text)
    assert bpeline("decode", "news/2", *ids).stdout == text
    assert bpeline("decode", "news/2", "-", input=encoded.stdout).stdout == text
    as_json = bpeline("encode", "news/2", text, "--json").stdout
    assert bpeline("decode", "news/2", "-", input=as_json).stdout == text
    assert json.loads(bpeline("decode", "news/2", *ids, "--json").stdout) == {"text": text}


def test_encode_reads_files_and_standard_input(here: Path, bpeline: Command) -> None:
    expected = bpeline("encode", "news/2", "some text").stdout
    (here / "some.txt").write_text("some text")
    assert bpeline("encode", "news/2", "--file", "some.txt").stdout == expected
    assert bpeline("encode", "news/2", "-", input="some text").stdout == expected
    assert bpeline("encode", "news/2", input="some text").stdout == expected
    invalid = bpeline("encode", "news/2", "-", input=b"ab\xff")
    assert invalid.exit_code == 2
    assert "byte 2" in invalid.stderr


def test_special_tokens_are_text_unless_allowed(here: Path, bpeline: Command) -> None:
    plain = json.loads(bpeline("encode", "news/2", "<|end|>", "--json").stdout)
    assert plain["count"] > 1
    allowed = json.loads(bpeline("encode", "news/2", "<|end|>", "--json", "--allow-special").stdout)
    assert allowed["ids"] == [0]
    assert allowed["tokens"] == ["<|end|>"]


def test_an_unknown_id_is_named(here: Path, bpeline: Command) -> None:
    result = bpeline("decode", "news/2", "500")
    assert result.exit_code == 2
    assert "500" in result.stderr


@pytest.mark.night
@pytest.mark.parametrize(
    ("format_name", "output"),
    [("hf", "out.json"), ("tiktoken", "out.tiktoken"), ("gpt2", "gpt2"), ("bpeline", "ours")],
)
def test_exports_load_again(format_name: str, output: str, here: Path, bpeline: Command) -> None:
    result = bpeline("export", "news/2", "--format", format_name, "--output", output)
    assert result.exit_code == 0, result.output
    told = {"hf": "", "bpeline": "", "gpt2": "pattern = ", "tiktoken": "pat_str = "}[format_name]
    assert ("tell its reader" in result.stdout) == bool(told)
    assert told in result.stdout
    silent = format_name not in {"hf", "bpeline"}
    details = {"special_tokens": {"<|end|>": 0}, "pattern": "gpt2"} if silent else {}
    loaded = Tokenizer.load(output, **details)
    text = "def main() -> None: return  3.14"
    assert loaded.encode(text) == load_tokenizer("news/2").encode(text)
    counted = bpeline("count", output, "old.txt")
    if silent:
        assert counted.exit_code == 2
        assert f"{output},pattern=cl100k" in counted.stderr, "what it tells to type exists"
        counted = bpeline("count", f"{output},pattern=gpt2", "old.txt")
    assert counted.exit_code == 0, counted.output


def test_what_a_format_does_not_hold_is_cut_where_it_would_fill_the_screen(
    here: Path, bpeline: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[export.callback.__module__], "_LONGEST_SHOWN", 20)
    asked = ("export", "news/2", "--format", "gpt2", "--output", "cut")
    result = bpeline(*asked)
    assert result.exit_code == 0, result.output
    pattern = json.loads(bpeline(*asked, "--json").stdout)["not_in_it"]["pattern"]
    assert len(pattern) > 20
    assert re.search(rf"pattern = {re.escape(repr(pattern)[:20])}… .*--json", result.stdout)
    assert "special_tokens = ['<|end|>']\n" in result.stdout


def test_tiktoken_is_told_how_to_read_a_path_that_was_exported_to_before(
    here: Path, bpeline: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(here / "copies"))
    sizes = []
    for version in ("news/2:300", "news/2"):
        result = bpeline("export", version, "--format", "tiktoken", "--output", "one.tiktoken")
        assert result.exit_code == 0, result.output
        (call,) = re.findall(r"load_tiktoken_bpe\((.*)\)", result.stdout)
        file, argument = call.split(", ")
        assert file == "'one.tiktoken'"
        name, _, digest = argument.partition("=")
        sizes.append(len(load_tiktoken_bpe(file.strip("'"), **{name: digest.strip("'")})))
    assert sizes[0] < sizes[1], "the second file, and not the copy of the first"


def test_an_unknown_format_is_refused(here: Path, bpeline: Command) -> None:
    result = bpeline("export", "news/2", "--format", "tokenmonster", "--output", "out")
    assert result.exit_code == 2
    assert "tokenmonster" in result.stderr


@pytest.mark.night
def test_train_prints_json_for_scripts_and_progress_aside(here: Path, bpeline: Command) -> None:
    result = bpeline(
        "train", "old.txt", "--name", "news", "--merges", "243", "--json",
        "--special-token", "<|end|>", "--held-out", "0.2",
    )  # fmt: skip
    summary = json.loads(result.stdout)
    assert summary["reference"] == "news/1", "500 ids are the version registered first"
    assert not summary["newly_registered"]
    assert summary["merges"] == 243
    assert "learn merges" in result.stderr


@pytest.mark.night
@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"], ["versions"]])
def test_quick_commands_import_nothing_slow(
    arguments: list[str], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = ["prefect", "mlflow", "duckdb", "pyarrow", "pandas", "matplotlib", "numba", "rich"]
    allowed = ["sqlalchemy"] if arguments == ["versions"] else []
    program = (
        "import sys, atexit\n"
        "from bpeline.flows.cli.main import main\n"
        f"slow = {[*slow, 'sqlalchemy', 'numpy']!r}\n"
        "atexit.register(lambda: print('LOADED', *[m for m in slow if m in sys.modules]))\n"
        f"sys.argv = ['bpeline', *{arguments!r}]\n"
        "main()"
    )
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = ended.stdout.split("LOADED")[1].split()
    assert set(loaded) <= set(allowed)


def test_ui_refuses_a_port_that_is_taken(here: Path, bpeline: Command) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = bpeline("serve", "--mlflow-only", "--mlflow-port", port)
    assert result.exit_code == 2
    assert f"{port}" in result.stderr
    assert f"--port {port + 1}" in result.stderr


def test_ui_only_names_an_mlflow_server_of_its_own(
    here: Path, bpeline: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9/")
    result = bpeline("serve", "--mlflow-only")
    assert result.exit_code == 0
    assert "http://127.0.0.1:9/#/models?workflowType=machine_learning" in result.stdout


@pytest.mark.night
def test_ui_serves_the_workspace_and_stops_cleanly(
    here: Path, bpeline: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (port,) = free_ports(1)
    program = "from bpeline.flows.cli.main import main; main()"
    command = [
        sys.executable,
        "-u",
        "-c",
        program,
        "serve",
        "--mlflow-only",
        "--mlflow-port",
        str(port),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as ui:
        assert ui.stdout is not None
        for line in ui.stdout:
            if "Ctrl-C" in line:
                break
        query = f"http://127.0.0.1:{port}/api/2.0/mlflow/registered-models/get?name=news"
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(query, timeout=120)
        password = (here / ".bpeline/server-password").read_text().strip()
        answer = asked(query, Authorization=f"Bearer {password}")
        assert answer["registered_model"]["name"] == "news"
        again = bpeline(
            "serve", "--mlflow-only", "--mlflow-port", port
        ).stdout  # while it runs: another address
        assert f"http://127.0.0.1:{port}/?token=" in again
        assert f"MLFLOW_TRACKING_TOKEN=$(cat {here}/.bpeline/server-password)" in again
        assert password not in again
        link = json.loads(bpeline("show", "news/1", "--json").stdout)["link"]
        assert link.startswith(f"http://127.0.0.1:{port}/")
        ui.send_signal(signal.SIGINT)
        assert ui.stdout.read().strip() == "stopped"
        assert ui.wait(60) == 0
    assert not listens(port), "the server is still there"


@pytest.mark.night
def test_a_prefect_server_that_is_down_costs_one_line(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    program = "from bpeline.flows.cli.main import main; main()"
    arguments = ["train", "old.txt", "--name", "news", "--vocab-size", "280"]
    ended = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
    )
    first, *others = ended.stderr.splitlines()
    assert re.match(r"note: .*http://127\.0\.0\.1:9/api \(PREFECT_API_URL\)", first)
    assert not any("refect" in line for line in others)


@pytest.mark.night
def test_a_pattern_without_a_kernel_is_named_once(here: Path, bpeline: Command) -> None:
    arguments = ("train", "old.txt", "--name", "slow", "--merges", "5", "--json")
    slow = bpeline(*arguments, "--pattern", r"\b\w+|\W")
    assert slow.exit_code == 0, slow.output
    named = r"^note: .*\\b.*\bposition 0$"
    assert len(re.findall(named, slow.stderr, re.MULTILINE)) == 1
    assert load_tokenizer("slow/1").pattern.regex == r"\b\w+|\W"
    assert "position" not in bpeline(*arguments, "--pattern", r"\w+|\W").stderr
