"""Cost and benefit of superwords, parity and dropout, for docs/benchmarks.md."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measurement import Case, Contestant, Measurement, Verdict
from benchmarks.process import Stopwatch

if TYPE_CHECKING:
    from bpeline import Tokenizer

_HELD_OUT = 20  # the last 1/20 of the file
_OF_WORDS = 0.9  # part of the ids
_DROPOUT, _DOCUMENT, _TEXT = 0.1, 3_000, 4_000_000  # characters


def _saving(train: Callable[[list[str], int, Stopwatch], Tokenizer]) -> Callable[..., float]:
    """Bytes per token of the end of a file, after training on the rest."""

    def run(case: Case, watch: Stopwatch) -> float:
        text = case.path.read_bytes().decode(errors="replace")
        train([text[:20_000]], 400, Stopwatch())  # load kernels untimed
        cut = len(text) - len(text) // _HELD_OUT
        tokenizer = train([text[:cut]], case.vocab_size, watch)
        return len(text[cut:].encode()) / len(tokenizer.encode_to_numpy(text[cut:]))

    return run


def _words(texts: list[str], size: int, watch: Stopwatch) -> Tokenizer:
    from bpeline import count_texts, train_bpe

    with watch.phase("counting words and learning them"):
        return train_bpe(count_texts(texts, "gpt2"), size)


def _superbpe(texts: list[str], size: int, watch: Stopwatch) -> Tokenizer:
    from bpeline import count_texts, superword_lines, train_superbpe

    words = _words(texts, round(_OF_WORDS * size), watch)
    with watch.phase("counting lines"):
        lines = count_texts(texts, superword_lines())
    with watch.phase("learning superwords"):
        return train_superbpe(words, lines, size, transition_size=words.vocab_size)


SUPERWORDS = Measurement(
    "superwords",
    "words and superwords: training, and bytes per token of other text",
    (
        Contestant("words", _saving(_words)),
        Contestant("superbpe", _saving(_superbpe)),
    ),
    judge=lambda _one, theirs, _found, _case: Verdict(None, f"{theirs:.3f} bytes/token"),
)


def _serving(rule: Mapping[str, Any] | None) -> Callable[..., int]:
    """Merging alone, on counts of each file; without a rule on their sum."""

    def run(case: Case, watch: Stopwatch) -> int:
        from bpeline import ParityRule, count_words, train_bpe, train_parity_bpe

        counts = {path: count_words([path], "gpt2") for path in case.files}
        together = count_words(list(case.files), "gpt2")
        for size, stopwatch in ((400, Stopwatch()), (case.vocab_size, watch)):
            with stopwatch.phase():
                if rule is None:
                    tokenizer = train_bpe(together, size)
                else:
                    tokenizer = train_parity_bpe(counts, size, ParityRule(**rule))
        return len(tokenizer.merges)

    return run


PARITY = Measurement(
    "parity",
    "training with parity between files, compared with ordinary training on the same counts",
    (
        Contestant("ordinary", _serving(None)),
        Contestant("base", _serving({})),
        Contestant("window", _serving({"window": 100})),
        Contestant("half of it global", _serving({"global_merges": 16_000})),
    ),
    judge=lambda _one, theirs, _found, _case: Verdict(None, f"{theirs:,} merges"),
    together=True,
)


@contextmanager
def _both(case: Case) -> Iterator[Mapping[str, Any]]:
    text = case.path.read_bytes().decode(errors="replace")
    with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
        places = {"words": Path(directory, "words"), "superbpe": Path(directory, "superbpe")}
        words = _words([text], case.vocab_size, Stopwatch())
        words.save(places["words"])
        words.save(Path(directory, "tokenizer.json"), format="hf")
        _superbpe([text], case.vocab_size, Stopwatch()).save(places["superbpe"])
        paths = {name: str(place) for name, place in places.items()}
        yield {**paths, "hf": str(Path(directory, "tokenizer.json"))}


def _documents(case: Case) -> list[str]:
    text = case.path.read_bytes().decode(errors="replace")[:_TEXT]
    return [text[at : at + _DOCUMENT] for at in range(0, len(text), _DOCUMENT)]


def _encoding(name: str, dropout: float) -> Callable[..., int]:
    def run(case: Case, watch: Stopwatch) -> int:
        from bpeline import Tokenizer
        from bpeline.tokenizer_core.derived import DropoutEncoding

        sampled = DropoutEncoding(Tokenizer.load(case.prepared[name]), dropout, seed=1)
        documents = _documents(case)
        sampled.encode(documents[0])
        with watch.phase():
            return sum(len(sampled.encode(document)) for document in documents)

    return run


def _tokenizers(case: Case, watch: Stopwatch) -> int:
    import tokenizers

    peer = tokenizers.Tokenizer.from_file(case.prepared["hf"])
    peer.model.dropout = _DROPOUT
    documents = _documents(case)
    with watch.phase():
        return sum(len(peer.encode(document).ids) for document in documents)


DROPOUT = Measurement(
    "dropout",
    f"dropout of {_DROPOUT} on {_TEXT / 1e6:.0f} MB of a file in documents of {_DOCUMENT} "
    "characters, in one thread",
    (
        Contestant("words, none dropped", _encoding("words", 0)),
        Contestant("words", _encoding("words", _DROPOUT)),
        Contestant("superbpe, none dropped", _encoding("superbpe", 0)),
        Contestant("superbpe", _encoding("superbpe", _DROPOUT)),
        Contestant("tokenizers, words", _tokenizers, "tokenizers", "tokenizers"),
    ),
    _both,
    lambda _one, theirs, _found, _case: Verdict(None, f"{theirs:,} tokens"),
    threads=(1,),
)
