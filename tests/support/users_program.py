"""A program as users write it: everything that is public, used once. Type checkers read it; it is
never run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

import bpeline
from bpeline import (
    ParityRule,
    SplitPattern,
    Tokenizer,
    TokenShards,
    WordCounts,
    compare,
    configure,
    count_texts,
    count_words,
    evaluate,
    load_tokenizer,
    superword_lines,
    train,
    train_bpe,
    train_char_bpe,
    train_frequency_bpe,
    train_from_iterator,
    train_parity_bpe,
    train_superbpe,
    train_wordpiece,
)
from bpeline.flows.import_tokenizer import import_tokenizer
from bpeline.flows.requests import ImportRequest, TrainingRequest
from bpeline.flows.train_tokenizer import train_tokenizer
from bpeline.registry import (
    CorpusInput,
    Publication,
    PublishedVersion,
    Registry,
    alias_history,
    compare_versions,
    export,
    export_version,
    list_versions,
    open_registry,
    promote,
    publish_outbox,
    publish_version,
    rollback,
)
from bpeline.registry import evaluate as evaluate_version


def commands(folder: Path) -> str:
    done = train(folder, name="news", vocab_size=32_000, special_tokens=["<|end|>"], quiet=True)
    compared = compare("news@champion", done.reference, eval=[folder / "fresh.txt"])
    moved = bpeline.promote(done.reference, rules=folder / "rules.toml", reason="smaller")
    tokenizer = Tokenizer.from_pretrained(done.reference)
    tokenizer.save_pretrained(folder / "saved")
    names: dict[str, int] = tokenizer.get_vocab()
    return f"{compared.vocab_sizes} {moved.version} {tokenizer.n_vocab} {len(names)}"


def texts() -> Iterator[str]:
    yield from ("low lower", "lowest")


def counting(folder: Path) -> WordCounts:
    counts: WordCounts = count_words([folder / "a.txt", str(folder)], pattern="cl100k")
    same = count_words(texts(), pattern=SplitPattern.named("gpt2"), special_tokens=["<|end|>"])
    rows: list[Mapping[str, object]] = [{"text": "low"}]
    of_rows = count_words(rows)
    few = count_texts(["low", b"lower"], pattern="o200k")
    pairs = WordCounts.from_pairs([(b"low", 3), ("lower", 2)])
    table: pa.Table = few.to_arrow()
    again = WordCounts.from_arrow(table)
    total: int = counts.total
    for word, number in same.items():
        print(word.decode(), number + total, len(of_rows), len(pairs))
    return again


def training(counts: WordCounts) -> Tokenizer:
    def tell(at: object) -> None:
        print(at)

    tokenizer = train_bpe(
        counts, 600, special_tokens=["<|end|>"], tie_break="greatest-bytes", min_count=2,
        max_token_bytes=16, on_progress=tell,
    )  # fmt: skip
    other = train_from_iterator(texts(), 300, pattern="cl100k")
    train_char_bpe(counts, 300)
    train_wordpiece(counts, 300)
    train_frequency_bpe(counts, 300, sentences="none")
    lines = count_texts(["low"], pattern=superword_lines())
    words = train_superbpe(tokenizer, lines, 700, transition_size=600)
    parity = train_parity_bpe({"en": counts, "de": counts}, 600, rule=ParityRule(window=100))
    print(other.digest, words.digest, parity)
    return tokenizer


def using(tokenizer: Tokenizer) -> None:
    ids: list[int] = tokenizer.encode("low", allowed_special={"<|end|>"}, on_special="error")
    called: list[int] = tokenizer("low")
    several: list[list[int]] = tokenizer(["low", "lower"])
    batch: list[list[int]] = tokenizer.encode_batch(["low"], threads=2)
    array = tokenizer.encode_to_numpy("low", dtype=np.int64)
    longer: int = int(array.sum()) + len(tokenizer) + tokenizer.vocab_size
    text: str = tokenizer.decode(ids, errors="replace")
    data: bytes = tokenizer.decode_bytes(np.array(ids))
    stream = tokenizer.decode_stream()
    said: str = "".join(map(stream.feed, called)) + stream.flush()
    streamed = list(tokenizer.encode_iterable(texts()))
    offsets = tokenizer.encode_with_offsets("low")
    begin = int(offsets.char_offsets[0, 0])
    number: int = tokenizer.count("low")
    short: str = tokenizer.truncate("low lower", 1)
    ranks = [merge.rank for piece in tokenizer.explain("low") for merge in piece.merges]
    vocab: Mapping[int, bytes] = tokenizer.vocab
    merges: list[tuple[bytes, bytes]] = tokenizer.merges
    specials: dict[str, int] = tokenizer.special_tokens
    padded, mask = tokenizer.encode_padded(["low", ""], pad_id=0, dtype=np.int64)
    shown = tokenizer.show("low")
    print(several, batch, longer, text, data, said, streamed, begin, number, short, ranks)
    print(vocab, merges, specials, padded.shape, mask.dtype, len(shown), tokenizer.pattern.title)
    tokenizer.save("tokenizer.json", format="hf")
    loaded = Tokenizer.load(Path("tokenizer.json"), format=None)
    loaded.encode_files(["a.txt"], out="tokens")
    shards = TokenShards("tokens")
    first, _ = shards.shard(0)
    print(first[:20].tolist(), loaded.spec.digest)


def measuring(tokenizer: Tokenizer) -> float:
    report = evaluate(tokenizer, ["low", b"lower"])
    points: list[tuple[int, float]] = list(report.curve)
    return report.bytes_per_token + points[0][1]


def registered(workspace: Path) -> None:
    configure(workspace=workspace)
    summary = train_tokenizer.fn(TrainingRequest(paths=("corpus",), name="news", vocab_size=600))
    print(summary.reference, summary.bytes_per_token, summary.metrics["corpus/bytes"])
    imported = import_tokenizer.fn(ImportRequest(file="tokenizer.json", name="other"))
    print(imported.reference)
    champion: Tokenizer = load_tokenizer("news@champion")
    for version in list_versions("news"):
        print(version.reference, version.aliases, version.metrics.get("corpus/bytes"))
    compared = compare_versions("news/1", "news/2", on=["fresh.txt"])
    print(compared.first, [pair.difference for pair in compared.metrics])
    moved = promote("news/2", reason="fewer tokens")
    back = rollback("news")
    print(moved.version, back.before, list(alias_history("news")))
    written: Path = export("news/2", workspace / "out.json", "hf")
    print(export_version("news/2", workspace / "out.tiktoken", "tiktoken"))
    measured = evaluate_version("news/2")
    registry: Registry = open_registry(workspace)
    print(written, measured.curve, registry.workspace, champion.digest, bpeline.__name__)


def publishing(
    registry: Registry, made: Publication, corpus: CorpusInput
) -> list[PublishedVersion]:
    published: PublishedVersion = publish_version(registry, made)
    print(published.reference, corpus.source)
    return publish_outbox(registry)
