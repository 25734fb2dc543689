"""The registry: versions of tokenizers, with their files, lineage and metrics.

Names are imported on first access: MLflow, DuckDB and SQLAlchemy take seconds to import, and most
commands need none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .aliases import alias_history as alias_history
    from .aliases import promote as promote
    from .aliases import rollback as rollback
    from .environment import configure as configure
    from .evaluation import compare_versions as compare_versions
    from .evaluation import evaluate as evaluate
    from .exports import export as export
    from .exports import export_version as export_version
    from .loading import load_tokenizer as load_tokenizer
    from .opening import Registry as Registry
    from .opening import open_registry as open_registry
    from .publishing import publish_outbox as publish_outbox
    from .publishing import publish_version as publish_version
    from .records import CorpusInput as CorpusInput
    from .records import Publication as Publication
    from .records import PublishedVersion as PublishedVersion
    from .versions import list_versions as list_versions
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
