"""Register finished tokenizers as versions, exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .publish import keep_in_outbox as keep_in_outbox
    from .publish import publish_outbox as publish_outbox
    from .publish import publish_version as publish_version
    from .publish import registered as registered
    from .publish import remember_version as remember_version
    from .publish import waiting_publications as waiting_publications
    from .publish import waiting_records as waiting_records
    from .publish import waits_in_outbox as waits_in_outbox
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
