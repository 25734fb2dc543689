"""Check that exports give equal ids in the libraries that read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .certificates import ORIGINAL as ORIGINAL
    from .certificates import SUFFIX as SUFFIX
    from .certificates import Certificate as Certificate
    from .certificates import certificates_in as certificates_in
    from .certificates import certificates_of as certificates_of
    from .certificates import certify as certify
    from .certificates import certify_originals as certify_originals
    from .chat_templates import require_template as require_template
    from .sample_texts import certificate_texts as certificate_texts
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
