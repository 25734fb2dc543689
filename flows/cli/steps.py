"""``bpeline train --show-steps``: print a training on small files merge by merge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bpeline.flows.cli.commands import answer
from bpeline.flows.requests import BYTE_BPE, check_options
from bpeline.tokenizer_core.errors import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Sequence

_MERGES = 10  # without --merges


def show_steps(
    paths: Sequence[str], parameters: dict[str, Any], merges: int | None, as_json: bool
) -> None:
    """Print each merge with the words, tokens and pairs after it."""
    from bpeline.tokenizer_core import count_words
    from bpeline.tokenizer_core.algorithms import lines_of, steps_of
    from bpeline.tokenizer_core.plugins import kind_of

    algorithm = parameters.get("algorithm", BYTE_BPE)
    check_options(algorithm, parameters["options"])
    own = {"special_tokens", "required_tokens", "forbid", "forbidden_tokens", "forbid_from"}
    if parameters.keys() & own:
        raise InvalidOption(
            "--show-steps was given together with special, required or forbidden tokens",
            "expected plain text only",
            "leave out --special-token, --required-token and --forbid",
        )
    names = {"end_of_word", "joined", "score", "continuation"} & parameters["options"].keys()
    options = {name: parameters["options"][name] for name in names}
    options |= {name: parameters[name] for name in ("tie_break", "min_count") if name in parameters}
    pattern = parameters.get("pattern") or kind_of(algorithm).default_pattern
    counts = count_words(list(paths), pattern)
    steps = list(steps_of(algorithm, counts, _MERGES if merges is None else merges, **options))
    records = [
        {
            "merge": step.merge and [step.merge.left, step.merge.right],
            "makes": step.merge and step.merge.made,
            "count": step.count,
            "tokens": step.tokens,
            "number_of_tokens": len(step.tokens),
            "words": [{"tokens": list(tokens), "count": count} for tokens, count in step.words],
            "pairs": [
                {"pair": list(pair), "count": step.pairs[pair], "score": step.scores[pair]}
                for pair in step.best_pairs
            ],
        }
        for step in steps
    ]
    answer(as_json, records, (line for step in steps for line in lines_of(step)))
