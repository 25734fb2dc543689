"""Plans for pruning the tokens of a version."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from bpeline.flows.requests import PruneRequest, request_parameters
from bpeline.registry.certify import certificate_texts
from bpeline.registry.loading import load_tokenizer, resolve
from bpeline.registry.opening import open_registry
from bpeline.registry.records import ByPath, parse_reference, split_size
from bpeline.registry.versions import Lineage
from bpeline.tokenizer_core import count_words
from bpeline.tokenizer_core.counting import WordCounts, sample_texts
from bpeline.tokenizer_core.derived import PrunePlan, check_on, plan_pruning, require_something
from bpeline.tokenizer_core.digests import canonical_json
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.vocabulary import to_printable

PLAN_FORMAT = 1


@request_parameters(PruneRequest)
def prune(request: PruneRequest, workspace: str | None) -> dict[str, Any]:
    """Write a plan of the tokens that a version can lose, checked on corpus words."""
    min_count, drop_unreachable = request.min_count, request.drop_unreachable
    require_something(min_count, drop_unreachable)
    tokenizer = load_tokenizer(request.reference, workspace)
    if request.paths:
        specials = tuple(tokenizer.special_tokens)
        paths = list(request.paths)
        counts = count_words(paths, pattern=tokenizer.pattern, special_tokens=specials)
    else:
        counts = _words_of(request.reference, workspace)
    plan = plan_pruning(tokenizer, counts, min_count=min_count, drop_unreachable=drop_unreachable)
    sample = check_on(tokenizer, plan, certificate_texts(tokenizer, sample_texts(counts)))
    record = {
        **_described(tokenizer, plan),
        "reference": request.reference,
        "asked": {"min_count": min_count, "drop_unreachable": drop_unreachable},
        "counted_in": {"digest": counts.digest, "words": len(counts), "occurrences": counts.total},
        "sample": asdict(sample),
    }
    DURABLE.write(Path(request.output), canonical_json(record) + b"\n")
    if request.save_to is not None:
        plan.tokenizer.save(request.save_to, "bpeline")
    return record


def _described(tokenizer: Tokenizer, plan: PrunePlan) -> dict[str, Any]:
    new_ids = plan.new_ids
    return {
        "plan": PLAN_FORMAT,
        "tokenizer": tokenizer.digest,
        "pruned": plan.tokenizer.digest,
        "vocab_size": {"before": tokenizer.vocab_size, "after": plan.tokenizer.vocab_size},
        "tokens": {"before": plan.tokens_before, "after": plan.tokens_after},
        "dropped": [
            {"id": token.id, "token": to_printable(token.token), "count": token.count,
             "reason": token.reason}
            for token in plan.dropped
        ],
        "kept_as_parts": plan.kept_as_parts,
        "old_of_new": plan.old_ids.tolist(),
        "new_of_old": [new_ids.get(old) for old in range(tokenizer.spec.largest_id + 1)],
    }  # fmt: skip


def _words_of(reference: str, workspace: str | None) -> WordCounts:
    """Return the words that a version was trained on, if this workspace has them."""
    parsed = parse_reference(split_size(reference)[0])
    counts = None
    if not isinstance(parsed, ByPath):
        registry = open_registry(workspace, make=False)
        counts = Lineage.of(registry, resolve(registry, parsed)).words
    if counts is None:
        raise InvalidOption(
            f"the words that {reference} was trained on are not in this workspace",
            "expected files to count its tokens in",
            f"type `bpeline derive prune {reference} FILES... --min-count 5 -o plan.json`",
        )
    return counts
