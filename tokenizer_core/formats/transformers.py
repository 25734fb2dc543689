"""The directory that ``transformers.AutoTokenizer.from_pretrained`` loads.

It holds tokenizer.json and two files about it. Unlike bpeline, ``transformers`` finds special
tokens in every text unless ``split_special_tokens=True``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from bpeline.tokenizer_core.bounded_files import read_json
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.encoding import TokenizerParts
from bpeline.tokenizer_core.formats import huggingface
from bpeline.tokenizer_core.formats.json_tokens import json_text, nothing_left_out
from bpeline.tokenizer_core.formats.known import MODEL_MAX_LENGTH, ROLES, roles_of
from bpeline.tokenizer_core.pipeline import AddedToken
from bpeline.tokenizer_core.tokenizer_spec import TokenizerSpec

left_out = nothing_left_out
TOKENIZER = "tokenizer.json"
CONFIG = "tokenizer_config.json"
SPECIAL_TOKENS = "special_tokens_map.json"
CHAT_TEMPLATE = "chat_template.jinja"

_WITHOUT_LIMIT = 10**30  # transformers writes this for models without a maximum length


def save(tokenizer: TokenizerParts, path: Path, roles: Mapping[str, str] | None = None) -> None:
    """Write the directory; for ``roles`` see `declared_roles`."""
    declared = roles or {}
    tokens = roles_of(tokenizer.spec.special_tokens, declared)
    named = {f"{role}_token": token for role, token in tokens.items()}
    spec = tokenizer.spec
    added = [AddedToken(id_, token, special=True) for token, id_ in spec.special_tokens.items()]
    if spec.pipeline is not None and spec.pipeline.added_tokens:
        added = [*spec.pipeline.added_tokens]
    described = {token.id: token.described() for token in added}
    config = {
        "added_tokens_decoder": {
            str(token_description.pop("id")): token_description
            for _, token_description in sorted(described.items())
        },
        "clean_up_tokenization_spaces": False,  # it would change spaces when decoding
        "model_max_length": int(declared.get(MODEL_MAX_LENGTH, _WITHOUT_LIMIT)),
        "tokenizer_class": "PreTrainedTokenizerFast",
        **named,
    }
    huggingface.save(tokenizer, path / TOKENIZER)
    DURABLE.write(path / SPECIAL_TOKENS, json_text(named, indent=2))
    DURABLE.write(path / CONFIG, json_text(config, indent=2))


def add_chat_template(path: Path, template: str) -> None:
    """Add a Jinja template where old and new versions of transformers look for it."""
    config = read_json(path / CONFIG)
    DURABLE.write(path / CONFIG, json_text({**config, "chat_template": template}, indent=2))
    DURABLE.write(path / CHAT_TEMPLATE, template.encode())


def load(path: Path) -> TokenizerSpec:
    """Read tokenizer.json and the roles in tokenizer_config.json; see `huggingface.load`."""
    spec = huggingface.load(path / TOKENIZER)
    config = read_json(path / CONFIG) if (path / CONFIG).exists() else {}
    roles: dict[str, str] = {}
    for role in ROLES if isinstance(config, dict) else ():
        token = config.get(f"{role}_token")
        content = token.get("content") if isinstance(token, dict) else token
        if isinstance(content, str) and content in spec.special_tokens:
            roles[role] = content
    return replace(spec, roles=roles)
