"""Chat templates as people give them: read to see that they are Jinja, and never run."""

from __future__ import annotations

import re

from jinja2 import Environment, TemplateSyntaxError

from bpeline.tokenizer_core.errors import InvalidOption

# A block of transformers' own, around what a model is trained to say.
_GENERATION = re.compile(r"\{%-?\s*(?:end)?generation\s*-?%\}")


def require_template(template: str) -> None:
    """Refuse a chat template that no program could read.

    Raises:
        InvalidOption: it is not Jinja, as transformers reads it.
    """
    jinja = Environment(extensions=["jinja2.ext.loopcontrols"], autoescape=True)
    try:
        jinja.parse(_GENERATION.sub("", template))
    except TemplateSyntaxError as error:
        raise InvalidOption(
            f"the chat template is not Jinja: {error.message}, line {error.lineno}",
            "a template as transformers reads it, such as "
            "{% for message in messages %}{{ message.content }}{% endfor %}",
            "correct the file of --chat-template",
        ) from None
