"""Reference implementation in plain Python: documentation and test oracle.

If a kernel and this file disagree, this file is right. Functions follow the data flow:
text → pre-tokens → word counts → merges → token ids → text.

    >>> counts = {"low_": 5, "lower_": 2, "newest_": 6, "widest_": 3}
    >>> words = {word.encode(): count for word, count in counts.items()}
    >>> [a + b for a, b in train(words, merges=4, tie_break="first-seen")]
    [b'es', b'est', b'est_', b'lo']
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise, product

import regex

Pair = tuple[bytes, bytes]
Symbols = tuple[bytes, ...]


def split(text: str, pattern: str) -> list[str]:
    """Split ``text`` into non-empty matches of ``pattern`` and the text between them.

    Joining the result restores ``text``.
    """
    pieces: list[str] = []
    end = 0
    for match in regex.finditer(pattern, text):
        if match.end() == match.start():
            continue
        pieces.append(text[end : match.start()])
        pieces.append(match.group())
        end = match.end()
    pieces.append(text[end:])
    return [piece for piece in pieces if piece]


def cut_at_special_tokens(text: str, special_tokens: Iterable[str]) -> list[str]:
    """Split ``text`` at special tokens, which are kept; the longest match wins."""
    longest_first = sorted(special_tokens, key=len, reverse=True)
    if not longest_first:
        return [text] if text else []
    alternation = "|".join(regex.escape(token) for token in longest_first)
    return [piece for piece in regex.split(f"({alternation})", text) if piece]


def count_words(
    documents: Iterable[str], pattern: str, special_tokens: Sequence[str] = ()
) -> dict[bytes, int]:
    """Count pre-tokens (*words*) by first occurrence, between special tokens."""
    words: Counter[bytes] = Counter()
    for document in documents:
        for piece in cut_at_special_tokens(document, special_tokens):
            if piece not in special_tokens:
                words.update(word.encode() for word in split(piece, pattern))
    return dict(words)


def mix(sources: Iterable[tuple[Mapping[bytes, int], Fraction]]) -> dict[bytes, int]:
    """Add up the word counts of weighted sources.

    Each product is rounded half to even. A word keeps a count of at least 1 unless the weight is 0.

    >>> mix([({b"a": 3, b"b": 1}, Fraction(1, 2)), ({b"a": 10}, Fraction(1))])
    {b'a': 12, b'b': 1}
    """
    words: dict[bytes, int] = {}
    for counts, weight in sources:
        if weight:
            for word, count in counts.items():
                words[word] = words.get(word, 0) + max(1, round(count * weight))
    return words


def count_pairs(words: Mapping[Symbols, int]) -> dict[Pair, int]:
    """Count adjacent pairs, in order of first occurrence. ``aaa`` counts (a, a) twice."""
    pairs: dict[Pair, int] = {}
    for symbols, count in words.items():
        for pair in pairwise(symbols):
            pairs[pair] = pairs.get(pair, 0) + count
    return pairs


def merge_pair(symbols: Symbols, pair: Pair) -> Symbols:
    """Merge all occurrences of ``pair``, left to right, without overlap."""
    merged: list[bytes] = []
    position = 0
    while position < len(symbols):
        if symbols[position : position + 2] == pair:
            merged.append(pair[0] + pair[1])
            position += 2
        else:
            merged.append(symbols[position])
            position += 1
    return tuple(merged)


def printable_order() -> list[int]:
    """Return the 256 bytes in the order of GPT-2's printable mapping."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    return printable + sorted({*range(256)} - {*printable})


def train(
    word_counts: Mapping[bytes, int],
    merges: int,
    *,
    tie_break: str = "smallest-ids",
    min_count: int = 2,
    max_token_bytes: int | None = None,
    forbidden: Callable[[bytes], bool] = lambda token: False,
) -> list[Pair]:
    """Learn merges: repeatedly merge the most frequent pair into one symbol.

    Tie-breaks for equally frequent pairs:

    - ``smallest-ids``: smallest (left id, right id); bytes are numbered in
      `printable_order`, merges after them (HuggingFace's byte-level trainer);
    - ``greatest-bytes``: lexicographically greatest (left bytes, right bytes) (CS336);
    - ``first-seen``: the first pair in the current segmentation, in order of words
      (the snippet of Sennrich et al. 2016, minbpe).

    Args:
        word_counts: the order of words matters only for ``first-seen``.
        merges: maximum number; fewer if no pair occurs ``min_count`` times.
        max_token_bytes: maximum length of a merged token.
        forbidden: predicate of tokens that must not be made, such as `has_match`.
    """
    words = {tuple(bytes([byte]) for byte in word): count for word, count in word_counts.items()}
    ids = {bytes([byte]): rank for rank, byte in enumerate(printable_order())}
    learned: list[Pair] = []
    while len(learned) < merges:
        pairs = {
            pair: count
            for pair, count in count_pairs(words).items()
            if count >= min_count
            and (max_token_bytes is None or len(pair[0] + pair[1]) <= max_token_bytes)
            and not forbidden(pair[0] + pair[1])
        }
        if not pairs:
            break
        highest = max(pairs.values())
        tied = [pair for pair, count in pairs.items() if count == highest]  # by first occurrence
        if tie_break == "smallest-ids":
            best = min(tied, key=lambda pair: (ids[pair[0]], ids[pair[1]]))
        elif tie_break == "greatest-bytes":
            best = max(tied)
        elif tie_break == "first-seen":
            best = tied[0]
        else:
            raise ValueError(f"no such tie-break: {tie_break}")
        ids[best[0] + best[1]] = 256 + len(learned)
        learned.append(best)
        words = {merge_pair(symbols, best): count for symbols, count in words.items()}
    return learned


def has_match(token: bytes, pattern: str) -> bool:
    """Return whether a regex matches in a token; incomplete characters are U+FFFD."""
    return regex.search(pattern, token.decode(errors="replace")) is not None


def is_part_of_character(token: bytes, *, from_its_first_byte: bool = False) -> bool:
    """Return whether bytes are a proper part of a character's UTF-8."""
    heads = [b""] if from_its_first_byte else [b"", b"\xc3", b"\xe1", b"\xf1"]
    tails = [b"", b"\x80", b"\x90", b"\xa0"]
    for first, second, third in product(heads, [b"", b"\x80"], [b"", b"\x80"]):
        head = first + second + third if first else b""
        for rest in product(tails, repeat=3):
            whole = head + token + b"".join(rest)
            if len(whole) > len(token) and is_whole_characters(whole) and len(whole.decode()) == 1:
                return True
    return False


def is_whole_characters(token: bytes) -> bool:
    try:
        token.decode()
    except UnicodeDecodeError:
        return False
    return True


def breaks_characters(token: bytes, characters: str) -> bool:
    """Return whether a token of several bytes breaks the rule ``characters``.

    ``whole`` allows whole characters and parts of one; ``left-to-right`` only initial parts.
    """
    first = characters == "left-to-right"
    return not (
        len(token) == 1
        or is_whole_characters(token)
        or is_part_of_character(token, from_its_first_byte=first)
    )


def merge_word(word: bytes, ranks: Mapping[Pair, int]) -> Symbols:
    """Merge the pair of lowest rank in a word until none is left."""
    return merge_symbols(tuple(bytes([byte]) for byte in word), ranks)


def merge_symbols(symbols: Symbols, ranks: Mapping[Pair, int]) -> Symbols:
    """Like `merge_word`, for symbols, which may be characters."""
    while len(symbols) > 1:
        pairs = set(pairwise(symbols))
        best = min(pairs, key=lambda pair: ranks.get(pair, len(ranks)))
        if best not in ranks:
            break
        symbols = merge_pair(symbols, best)
    return symbols


def dropout_outcomes(
    symbols: Symbols, ranks: Mapping[Pair, int], dropout: Fraction
) -> dict[Symbols, Fraction]:
    """Return every outcome of BPE-dropout on a word, with its probability.

    Algorithm 1 of Provilkov, Emelianenko and Voita (ACL 2020): at each step, every possible merge
    is dropped independently with probability ``dropout``; the best of the others (lowest rank, then
    leftmost) is applied, until none is left.

    >>> dropout_outcomes((b"a", b"b"), {(b"a", b"b"): 0}, Fraction(1, 10))
    {(b'a', b'b'): Fraction(1, 10), (b'ab',): Fraction(9, 10)}
    """
    places = [at for at, pair in enumerate(pairwise(symbols)) if pair in ranks]
    outcomes: dict[Symbols, Fraction] = {}
    for drops in product((True, False), repeat=len(places)):
        probability = dropout ** sum(drops) * (1 - dropout) ** (len(drops) - sum(drops))
        remaining = [at for at, dropped in zip(places, drops, strict=True) if not dropped]
        if not remaining:
            outcomes[symbols] = outcomes.get(symbols, Fraction(0)) + probability
            continue
        at = min(remaining, key=lambda place: (ranks[symbols[place], symbols[place + 1]], place))
        merged = (*symbols[:at], symbols[at] + symbols[at + 1], *symbols[at + 2 :])
        for outcome, then in dropout_outcomes(merged, ranks, dropout).items():
            outcomes[outcome] = outcomes.get(outcome, Fraction(0)) + probability * then
    return outcomes


def merge_with_dropout(
    symbols: Symbols, ranks: Mapping[Pair, int], dropout: float, stream: int
) -> Symbols:
    """Return one outcome of `dropout_outcomes`, chosen by a stream of random numbers.

    Numbers are drawn for places in order of rank, then left to right, up to the first that is not
    dropped. ``stream`` is the start of the random numbers; only 53 bits of ``dropout`` are used.
    """
    all_64 = (1 << 64) - 1
    while True:
        places = [at for at, pair in enumerate(pairwise(symbols)) if pair in ranks]
        for at in sorted(places, key=lambda at: (ranks[symbols[at], symbols[at + 1]], at)):
            stream = (stream + 0x9E3779B97F4A7C15) & all_64
            number = ((stream ^ (stream >> 30)) * 0xBF58476D1CE4E5B9) & all_64
            number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & all_64
            number ^= number >> 31
            if number >> 11 >= int(dropout * (1 << 53)):
                symbols = (*symbols[:at], symbols[at] + symbols[at + 1], *symbols[at + 2 :])
                break
        else:
            return symbols


def continue_training(
    word_counts: Mapping[Symbols, int],
    ids: Mapping[bytes, int],
    merges: Sequence[Pair],
    new_ids: int,
    *,
    min_count: int = 2,
) -> list[Pair]:
    """Learn the merges that extend a tokenizer, from new words.

    Repeatedly tokenize the words with all merges so far and append a merge of the most frequent
    pair; in ties, that of the smallest (left id, right id). A new text takes the next id; a
    pair whose text is already a token takes none.

    Args:
        word_counts: words as bytes or characters, with counts.
        merges: of the tokenizer, by rank; of duplicates, the last one counts.
    """
    vocab_ids, learned = dict(ids), list(merges)
    next_id = max(vocab_ids.values()) + 1
    while len(vocab_ids) < len(ids) + new_ids:
        ranks = {pair: rank for rank, pair in enumerate(learned)}
        words = Counter[Symbols]()
        for symbols, count in word_counts.items():
            words[merge_symbols(symbols, ranks)] += count
        pairs = {pair: n for pair, n in count_pairs(words).items() if n >= min_count}
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], vocab_ids[pair[0]], vocab_ids[pair[1]]))
        learned.append(best)
        if best[0] + best[1] not in vocab_ids:
            vocab_ids[best[0] + best[1]] = next_id
            next_id += 1
    return learned[len(merges) :]


def train_superwords(
    line_counts: Mapping[bytes, int],
    merges: Sequence[Pair],
    total: int,
    *,
    min_count: int = 2,
    forbidden: Callable[[bytes], bool] = lambda token: False,
) -> list[Pair]:
    """Extend the merges of a word tokenizer with merges learned on whole lines.

    First the given merges are applied in order, dropping those without an occurrence. Then
    the most frequent pair is merged repeatedly, up to ``total`` merges; in ties, that of the
    smallest (left id, right id). Bytes are numbered in `printable_order`, then merges in order.
    """
    words = {tuple(bytes([byte]) for byte in line): n for line, n in line_counts.items()}
    ids = {bytes([byte]): rank for rank, byte in enumerate(printable_order())}
    learned: list[Pair] = []

    def merge(pair: Pair) -> None:
        merged = Counter[Symbols]()
        for symbols, count in words.items():
            merged[merge_pair(symbols, pair)] += count
        words.clear()
        words.update(merged)
        learned.append(pair)
        ids.setdefault(pair[0] + pair[1], len(ids))

    for pair in merges:
        if pair in count_pairs(words):
            merge(pair)
    while len(learned) < total:
        allowed = {
            pair: count
            for pair, count in count_pairs(words).items()
            if count >= min_count and not forbidden(pair[0] + pair[1])
        }
        if not allowed:
            break
        merge(min(allowed, key=lambda pair: (-allowed[pair], ids[pair[0]], ids[pair[1]])))
    return learned


def train_parity(
    languages: Sequence[Mapping[bytes, int]],
    merges: int,
    *,
    development: Sequence[Mapping[bytes, int]] | None = None,
    window: int = 0,
    alpha: float = 2.0,
    global_merges: int = 0,
    ratios: Sequence[float] = (),
    tie_break: str = "smallest-ids",
    min_count: int = 2,
) -> list[tuple[Pair, int]]:
    """Learn merges for languages in parity (arXiv 2508.04796).

    At each step, the most frequent pair of one language is merged in all languages. The language is
    the one whose development words take the most tokens; without ``development``, the one with the
    least compression of its own words (tokens at the start / tokens now / ratio). With a window, a
    language is skipped while it has more than ``alpha / len(languages)`` of the last ``window``
    choices, unless no other is left. A language without a pair of ``min_count`` is dropped.

    Returns:
        Each merge with the index of its language, or −1 for the first ``global_merges``, which use
        the counts of all languages together.
    """
    training = [{tuple(bytes([b]) for b in word): n for word, n in w.items()} for w in languages]
    measured = training
    if development is not None:
        measured = [
            {tuple(bytes([b]) for b in word): n for word, n in w.items()} for w in development
        ]
    numbers = {bytes([byte]): number for number, byte in enumerate(printable_order())}

    def lengths() -> list[int]:
        return [sum(len(word) * n for word, n in words.items()) for words in measured]

    def best_pair(words: Sequence[Mapping[Symbols, int]]) -> Pair | None:
        counts: Counter[Pair] = Counter()
        for item in words:
            counts.update(count_pairs(item))
        frequent = [pair for pair, count in counts.items() if count >= min_count]

        def goes_first(pair: Pair) -> tuple[int, tuple[int, ...] | tuple[bytes, ...]]:
            if tie_break == "greatest-bytes":
                return counts[pair], pair
            return counts[pair], tuple(-numbers[token] for token in pair)

        return max(frequent, key=goes_first, default=None)

    before = lengths()
    learned: list[tuple[Pair, int]] = []
    choices: list[int] = []
    remaining = list(range(len(languages)))
    while len(learned) < merges and remaining:
        language = -1
        if len(learned) < global_merges:
            pair = best_pair(training)
            if pair is None:
                break
        else:
            now = lengths()

            def need(item: int, now: list[int] = now) -> float:
                if development is not None:
                    return now[item]
                return -(before[item] / now[item] / (ratios[item] if ratios else 1.0))

            late = choices[-window:] if window else []
            most = alpha / len(languages)
            allowed = [item for item in remaining if not late or late.count(item) / window <= most]
            language = max(allowed or remaining, key=need)
            choices.append(language)
            pair = best_pair([training[language]])
            if pair is None:
                remaining.remove(language)
                continue
        numbers.setdefault(b"".join(pair), 256 + len(learned))
        learned.append((pair, language))
        for words in (*training, *(measured if development is not None else ())):
            merged = [(merge_pair(word, pair), n) for word, n in words.items()]
            words.clear()
            words.update(merged)
    return learned


def encode(
    text: str,
    vocab: Mapping[int, bytes],
    merges: Sequence[Pair],
    pattern: str,
    special_tokens: Mapping[str, int] | None = None,
) -> list[int]:
    """Encode ``text``; only the given special tokens are recognised."""
    specials = special_tokens or {}
    ids = {token: id_ for id_, token in vocab.items() if id_ not in specials.values()}
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    encoded: list[int] = []
    for piece in cut_at_special_tokens(text, specials):
        if piece in specials:
            encoded.append(specials[piece])
            continue
        for word in split(piece, pattern):
            encoded.extend(ids[symbol] for symbol in merge_word(word.encode(), ranks))
    return encoded


def decode(ids: Iterable[int], vocab: Mapping[int, bytes]) -> str:
    """Decode token ids; bytes that are not UTF-8 become U+FFFD."""
    return b"".join(vocab[id_] for id_ in ids).decode(errors="replace")
