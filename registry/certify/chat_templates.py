"""Check the syntax of chat templates; they are never run."""

from __future__ import annotations

import re

from jinja2 import Environment, TemplateSyntaxError

from bpeline.tokenizer_core.errors import InvalidOption

# A block tag of transformers: marks the text that a model is trained on.
_GENERATION = re.compile(r"\{%-?\s*(?:end)?generation\s*-?%\}")


def require_template(template: str) -> None:
    """Raise InvalidOption unless a chat template is valid Jinja for transformers."""
    jinja = Environment(extensions=["jinja2.ext.loopcontrols"], autoescape=True)
    try:
        jinja.parse(_GENERATION.sub("", template))
    except TemplateSyntaxError as error:
        raise InvalidOption(
            f"the chat template is not Jinja: {error.message}, line {error.lineno}",
            "expected a template for transformers, such as "
            "{% for message in messages %}{{ message.content }}{% endfor %}",
            "correct the file of --chat-template",
        ) from None
