"""A directory that ``transformers.AutoTokenizer.from_pretrained`` loads. Imports no transformers.

It holds HuggingFace's tokenizer.json and two small files about it. Mind the difference in use:
``transformers`` recognizes special tokens in every text unless ``split_special_tokens=True``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bpeline.tokenizer_core.bounded_files import read_json
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.encoding import TokenizerParts
from bpeline.tokenizer_core.formats import huggingface
from bpeline.tokenizer_core.formats.json_tokens import json_text, nothing_left_out
from bpeline.tokenizer_core.formats.known import MODEL_MAX_LENGTH, roles_of
from bpeline.tokenizer_core.pipeline import AddedToken
from bpeline.tokenizer_core.tokenizer_spec import TokenizerSpec

left_out = nothing_left_out
TOKENIZER = "tokenizer.json"
CONFIG = "tokenizer_config.json"
SPECIAL_TOKENS = "special_tokens_map.json"
CHAT_TEMPLATE = "chat_template.jinja"

_WITHOUT_LIMIT = 10**30  # what transformers writes for a model of any length


def save(tokenizer: TokenizerParts, path: Path, roles: Mapping[str, str] | None = None) -> None:
    """Write the directory.

    Args:
        roles: what special tokens are declared to be for, see `declared_roles`.

    Raises:
        InvalidTokenizer, InvalidPattern, InvalidOption, DiskFull: as for ``hf``.
    """
    declared = roles or {}
    tokens = roles_of(tokenizer.spec.special_tokens, declared)
    named = {f"{role}_token": token for role, token in tokens.items()}
    spec = tokenizer.spec
    added = [AddedToken(id_, token, special=True) for token, id_ in spec.special_tokens.items()]
    if spec.pipeline is not None and spec.pipeline.added_tokens:
        added = [*spec.pipeline.added_tokens]
    described = {token.id: token.described() for token in added}
    config = {
        "added_tokens_decoder": {str(one.pop("id")): one for _, one in sorted(described.items())},
        "clean_up_tokenization_spaces": False,  # else decoding would move spaces
        "model_max_length": int(declared.get(MODEL_MAX_LENGTH, _WITHOUT_LIMIT)),
        "tokenizer_class": "PreTrainedTokenizerFast",
        **named,
    }
    huggingface.save(tokenizer, path / TOKENIZER)
    DURABLE.write(path / SPECIAL_TOKENS, json_text(named, indent=2))
    DURABLE.write(path / CONFIG, json_text(config, indent=2))


def add_chat_template(path: Path, template: str) -> None:
    """Put a chat template into a directory of this format, where old and new readers look for it.

    Args:
        path: the directory.
        template: Jinja, which nothing here runs.
    """
    config = read_json(path / CONFIG)
    DURABLE.write(path / CONFIG, json_text({**config, "chat_template": template}, indent=2))
    DURABLE.write(path / CHAT_TEMPLATE, template.encode())


def load(path: Path) -> TokenizerSpec:
    """Read the tokenizer.json of such a directory; `huggingface.load` says what is understood.

    Raises:
        MissingSource, InvalidTokenizer, InvalidPattern: as there.
    """
    return huggingface.load(path / TOKENIZER)
